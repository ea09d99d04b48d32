"""Who may import whom (docs/architecture.md): a module imports from its own folder and from those below it only."""

import ast
from pathlib import Path

import pytest

import aidlearn

ROOT = Path(aidlearn.__file__).parent

BELOW = {
    "archive": set(),
    "words": set(),
    "progress": {"data", "engine", "words"},
    "data": set(),
    "engine": {"archive", "data"},
    "testing": {"data", "engine"},
    "trace": {"data", "engine"},
    "linear": {"data", "engine", "trace"},
    "kernel": {"data", "engine", "trace", "linear"},
    "semisupervised": {"data", "engine", "trace", "linear", "kernel"},
    "estimators": {"data", "engine", "trace", "linear", "kernel", "semisupervised"},
    "formula": {"data", "estimators"},
    "files": {"", "archive", "data", "engine", "trace", "estimators"},
    "display": {"data", "engine", "trace", "estimators", "progress", "words"},
    "report": {"data", "engine", "trace", "estimators", "files", "display"},
    "bench": {""},
    "__main__": {"cli"},
    "cli": {"", "data", "engine", "estimators", "formula", "files", "report", "bench", "progress", "words"},
}
"""Folders (and modules) of the package, and what each may import besides itself; "" are the public names."""


def imported(path):
    """The folders of the package that a file imports from, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
            if node.module == "aidlearn":
                names = [f"aidlearn.{alias.name}" if alias.name in BELOW else "aidlearn" for alias in node.names]
        else:
            continue
        for name in names:
            if name.partition(".")[0] == "aidlearn":
                yield [*name.split("."), ""][1]


def home(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def test_every_folder_has_its_place():
    assert {home(path) for path in FILES} == set(BELOW)


@pytest.mark.parametrize("folder", BELOW)
def test_imports_go_down_only(folder):
    upwards = {
        f"{path.relative_to(ROOT)} imports aidlearn.{name}"
        for path in FILES
        if home(path) == folder
        for name in imported(path)
        if name != folder and name not in BELOW[folder]
    }
    assert upwards == set()


def test_the_folders_form_layers():
    """No two folders may import each other, not even by way of others."""
    reached = {folder: set(below) - {""} for folder, below in BELOW.items()}
    for _ in BELOW:
        reached = {f: below.union(*(reached[b] for b in below)) for f, below in reached.items()}
    assert all(folder not in below for folder, below in reached.items())
