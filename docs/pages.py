"""Run the code of Markdown pages, and write what it printed into them.

    python docs/pages.py docs/quickstart.md README.md

A page is read from top to bottom: blocks of ``python`` share one namespace and an empty folder with the commands of
``console`` blocks (lines after ``$ ``). A block of ``text`` right after a Python block holds what that block printed, and
the lines below a command what a terminal shows; both are rewritten. The tests run the same blocks with the same code.
A block after ``<!-- not run: reason -->`` is shown only.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BLOCK = re.compile(
    r"^(?P<why><!-- not run: (?P<reason>.*?) -->\n+)?```(?P<kind>[^\n`]*)\n(?P<code>.*?)^```$", re.M | re.S
)
SETS_UP = (
    "pip ",
    "python -m venv ",
    "source ",
    "git ",
    "make ",
    "cd ",
    "python -m benchmarks",
    "python docs/",
    "conda ",
    "open ",
)
"""Commands that set up a machine or measure for minutes: shown, and not run here."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    kind: str
    code: str
    reason: str | None
    """Why it is not run, if it is not."""
    line: int
    start: int
    end: int

    @property
    def commands(self) -> list[str]:
        """The commands of a console block that are run."""
        return [line for line in self.lines if not line.startswith(SETS_UP)]

    @property
    def lines(self) -> list[str]:
        """All commands of a console block."""
        return [line[2:] for line in self.code.splitlines() if line.startswith("$ ")]

    @property
    def runs(self) -> bool:
        if self.reason is not None:
            return False
        return self.kind == "python" or (self.kind == "console" and bool(self.commands))


def blocks_of(text: str) -> list[Block]:
    found = []
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("code"))
        found.append(Block(match["kind"], match["code"], match["reason"], line, match.start("code"), match.end("code")))
    return found


@contextlib.contextmanager
def empty_folder() -> Iterator[str]:
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


def run_python(block: Block, names: dict[str, Any], page: str) -> str:
    """Run a block, a plain one or one with prompts; what it printed."""
    if block.code.startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(block.code, names, page, page, block.line)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        out = io.StringIO()
        if runner.run(test, out=out.write, clear_globs=False).failed:
            raise AssertionError(out.getvalue())
        names.update(test.globs)
        return ""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile("\n" * block.line + block.code, page, "exec"), names)
    return printed.getvalue()


def run_command(command: str) -> str:
    """What a terminal shows, without the spaces at the ends of lines."""
    program = f"{shlex.quote(sys.executable)} -m aidlearn.cli"
    shell = f'aidlearn() {{ {program} "$@"; }}; {command}'
    done = subprocess.run(
        ["bash", "-c", shell], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300
    )
    text = re.sub(r"[ \t]+$", "", done.stdout, flags=re.MULTILINE).rstrip("\n")
    if "Traceback" in text:
        raise RuntimeError(f"{command}:\n{text}")
    return f"{text}\n" if text else ""


def run_page(page: Path, command: Callable[[str], str] = run_command) -> list[tuple[Block, str]]:
    """Run the blocks of a page in an empty folder; each with what it shows."""
    names: dict[str, Any] = {"__name__": "__page__"}
    shown = []
    path = page.resolve()
    with empty_folder():
        for block in blocks_of(path.read_text(encoding="utf-8")):
            if not block.runs:
                shown.append((block, ""))
            elif block.kind == "python":
                shown.append((block, run_python(block, names, str(path))))
            else:
                printed = {line: command(line) for line in block.commands}
                shown.append((block, "".join(f"$ {line}\n{printed.get(line, '')}" for line in block.lines)))
    return shown


def rewrite(page: Path) -> None:
    """Write what the blocks of a page print into it."""
    text = page.read_text(encoding="utf-8")
    shown = run_page(page)
    for k in reversed(range(len(shown))):
        block, output = shown[k]
        after = shown[k + 1][0] if k + 1 < len(shown) else None
        if not block.runs:
            continue
        if block.kind == "console":
            text = text[: block.start] + output + text[block.end :]
        elif after and after.kind == "text" and not text[block.end + 3 : after.start - len("```text\n")].strip():
            text = text[: after.start] + output + text[after.end :]
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        rewrite(Path(name))
