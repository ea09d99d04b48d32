"""The set-up of the browser tests: never in the way of the tests, and says what it did."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "browser"
NEEDED = ("bash", "id", "timeout", "mktemp", "tail", "rm", "touch", "chmod")
pytestmark = pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason="no shell with the usual tools")


@pytest.fixture
def tools(tmp_path):
    """A folder that holds what the script calls, no browser and no apt-get."""
    for name in NEEDED:
        os.symlink(shutil.which(name), tmp_path / name)
    return tmp_path


def run(tools):
    command = [shutil.which("bash"), str(SCRIPT)]
    done = subprocess.run(command, env={"PATH": str(tools)}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def program(tools, name, text):
    (tools / name).unlink(missing_ok=True)  # a link to the real one must not be written through
    (tools / name).write_text(f"#!{shutil.which('bash')}\n{text}\n", encoding="utf-8")
    (tools / name).chmod(0o755)


def test_without_a_package_manager(tools):
    assert run(tools).startswith("No browser: there is no apt-get on this machine.")


def test_a_browser_that_is_there_is_named(tools):
    program(tools, "chromium-browser", "")
    program(tools, "apt-get", "exit 1")
    assert str(tools / "chromium-browser") in run(tools)


def test_a_package_that_cannot_be_had(tools):
    program(tools, "id", "echo 0")
    program(tools, "apt-get", "echo 'E: no such package'; exit 100")
    told = run(tools)
    assert "E: no such package" in told
    assert "apt-get could not install chromium" in told


def test_only_root_installs(tools):
    program(tools, "id", "echo 1000")
    program(tools, "apt-get", "exit 1")
    assert "only root" in run(tools)


def test_lists_of_packages_are_brought_up_to_date(tools):
    program(tools, "id", "echo 0")
    there, listed = tools / "chromium", tools / "lists"
    program(
        tools,
        "apt-get",
        f'if [ "$1" = update ]; then touch {listed}; exit; fi\n'
        f"[ -e {listed} ] || exit 100\necho '#!/bin/sh' > {there}; chmod 755 {there}",
    )
    assert run(tools) == f"Installed a browser for the tests of the report: {there}\n"
