"""The pages: every block of code runs, every link between pages leads somewhere."""

import contextlib
import importlib.util
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

spec = importlib.util.spec_from_file_location("pages", ROOT / "docs" / "pages.py")
pages = sys.modules["pages"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pages)

FEWER = [(r"--rows (\d+)000\b", r"--rows 2000"), (r"--time-limit \d+", "--time-limit 5")]
"""Commands are run on few rows here; `docs/make_cli.py` and `docs/pages.py` run them as they are."""
FAILS = {
    "aidlearn fit lad train.csv --target z -o lad.aid",
    "aidlearn fit lad train.csv -t y --tol -1 -o lad.aid",
    "aidlearn fit lad train.csv -t y -o nowhere/lad.aid",
    "aidlearn predict lad.aid flights.csv -o p.csv",
    "aidlearn predict run.ckpt train.csv -o p.csv",
    "aidlearn fit lad",
}
"""Mistakes that the page of the command line shows the messages of."""


def command(line):
    """Run a command line with pipes and `;`, the command of aidlearn in this process."""
    shown = ""
    for single in re.split(r";\s*(?=echo|aidlearn)", line):
        data = ""
        for stage in single.split(" | "):
            data = run_stage(stage.strip(), data)
        shown += data
    return shown


def run_stage(stage, given):
    if not stage.startswith("aidlearn"):
        done = subprocess.run(["bash", "-c", stage], input=given, capture_output=True, text=True, check=True)
        return done.stdout
    from aidlearn.cli import main

    words = stage
    for old, new in FEWER:
        words = re.sub(old, new, words)
    out, errors, before = io.TextIOWrapper(io.BytesIO()), io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(given.encode()))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            code = main(shlex.split(words)[1:])
    finally:
        sys.stdin = before
    out.flush()
    shown = out.buffer.getvalue().decode()
    wanted = {1, 2} if stage in FAILS else {0, 2}
    assert code in wanted, f"{stage}: exit code {code}\n{errors.getvalue()}"
    return shown


@pytest.fixture(autouse=True)
def no_windows(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_of_a_page_runs(page):
    pages.run_page(page, command)


def test_nearly_all_blocks_are_run():
    blocks = [
        block for page in PAGES for block in pages.blocks_of(page.read_text()) if block.kind in ("python", "console")
    ]
    left_out = [block for block in blocks if block.reason is not None]
    assert len(blocks) > 60
    assert len(left_out) <= 0.1 * len(blocks)
    assert all(len(block.reason) > 10 for block in left_out)


def anchors(text):
    """Names of headings, as code hosts and the site make them."""
    heads = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.S), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", head.replace("`", "").lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"], ids=lambda page: page.name
)
def test_links_between_pages(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    for target in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        other = (page.parent / name) if name else page
        if "gallery/" in target or "/api/" in target:  # made with the site
            continue
        assert other.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(other.read_text()), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page):
    """Paths are relative to the repository, to its sources or to the package."""
    named = re.findall(r"`((?:[\w-]+/)+[\w-]+\.(?:py|sh|md))`", page.read_text())
    places = ROOT, ROOT / "src", ROOT / "src" / "aidlearn"
    assert [name for name in named if not any((place / name).exists() for place in places)] == []
