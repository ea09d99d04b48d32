"""Who may import whom (docs/architecture.md): a module imports from its own room and from rooms below it only.

A room is a folder. Modules that lie beside sub-folders are rooms of their own, such as ``linear.problem``.
"""

import ast
import re
from pathlib import Path

import pytest

import aidlearn

ROOT = Path(aidlearn.__file__).parent

DATA = {"data.encoding", "data.rows", "data.tables", "data.passes", "numerics"}
LINEAR = {"linear.rows", "linear.aggregated", "linear.constraints", "linear.model", "linear.passes", "linear.problem"}
SHARED = {
    "data.opening",
    "engine",
    "trace",
    "estimators.checks",
    "estimators.declared",
    "estimators.declared_kernel",
    "estimators.parameters",
    "estimators.fits",
    "estimators.fitting",
}

BELOW = {
    "numerics": set(),
    "archive": set(),
    "words": set(),
    "data.encoding": {"numerics"},
    "data.rows": {"data.encoding", "numerics"},
    "data.tables": {"data.encoding", "data.rows", "numerics"},
    "data.dask": {"data.encoding", "data.rows", "data.tables", "numerics"},
    "data.passes": {"data.rows", "data.tables", "numerics"},
    "data.opening": {"data.encoding", "data.rows", "data.tables", "data.dask"},
    "data": DATA,
    "engine": {"archive", "data.rows", "data.passes", "numerics"},
    "testing": {"data.rows", "engine", "numerics"},
    "trace": {"engine", "numerics"},
    "progress": {"data.passes", "engine", "words"},
    "linear": set(),
    "linear.rows": {"data.rows", "engine", "numerics"},
    "linear.aggregated": {"engine", "linear.rows", "numerics"},
    "linear.constraints": {"engine", "linear.rows", "linear.aggregated", "numerics"},
    "linear.model": {*DATA, "engine", "linear.rows", "linear.aggregated", "linear.constraints"},
    "linear.passes": {"data.rows", "data.passes", "engine", "linear.rows", "linear.model", "numerics"},
    "linear.hurried": {"data.rows", "data.passes", "engine", "linear.model", "linear.passes", "numerics"},
    "linear.problem": {*DATA, "engine", *LINEAR, "linear.hurried"},
    "linear.start": {*DATA, "engine", *LINEAR, "linear.hurried"},
    "linear.svm": {"data.passes", *LINEAR, "linear.start"},
    "linear.picture": {"engine", "trace", "linear.problem", "numerics"},
    "neighbours": {*DATA, "engine", "trace", *LINEAR, "linear.start"},
    "inference": {*DATA, "linear.rows", "linear.model"},
    "kernel": {*DATA, "engine", "trace", *LINEAR, "linear.start", "linear.svm"},
    "semisupervised": {*DATA, "engine", "trace", "linear.aggregated", "linear.start", "linear.svm", "kernel"},
    "estimators": set(),
    "estimators.parameters": set(),
    "estimators.declared": {"estimators.parameters"},
    "estimators.declared_kernel": {"estimators.declared", "estimators.parameters"},
    "estimators.registry": {"estimators.declared", "estimators.declared_kernel"},
    "estimators.checks": {*DATA, "kernel", "estimators.parameters"},
    "estimators.fits": {"engine", "trace", "estimators.registry", "numerics"},
    "estimators.fitting": {"data.rows", "data.passes", "engine", "trace", "neighbours", "estimators.registry"},
    "estimators.base": {*DATA, *SHARED},
    "estimators.linear": {
        *DATA,
        *LINEAR,
        *SHARED,
        "data.dask",
        "linear.hurried",
        "linear.start",
        "linear.picture",
        "neighbours",
        "inference",
        "estimators.base",
    },
    "estimators.kernel": {
        *DATA,
        *SHARED,
        "linear.aggregated",
        "linear.start",
        "linear.svm",
        "kernel",
        "semisupervised",
        "estimators.base",
        "estimators.linear",
    },
    "estimators.paths": {
        *DATA,
        *LINEAR,
        *SHARED,
        "linear.start",
        "neighbours",
        "estimators.linear",
    },
    "formula": {*DATA, "data.opening", "estimators.registry"},
    "files": {
        "",
        "archive",
        "data.encoding",
        "engine",
        "trace",
        "estimators.registry",
        "estimators.fits",
        "estimators.checks",
        "numerics",
    },
    "display": {"engine", "progress", "words", "inference", "estimators.fits", "estimators.linear", "numerics"},
    "report": {
        "archive",
        "engine",
        "trace",
        "inference",
        "estimators.registry",
        "estimators.fits",
        "files",
        "display",
    },
    "bench": {""},
    "__main__": {"cli"},
    "cli": {
        "",
        "archive",
        *DATA,
        "data.opening",
        "engine",
        "inference",
        "estimators.parameters",
        "estimators.registry",
        "estimators.checks",
        "estimators.fits",
        "estimators.linear",
        "formula",
        "files",
        "report",
        "bench",
        "progress",
        "words",
    },
}
"""Rooms of the package, and what each may import besides itself; "" are the public names."""

WHOLE = ("cli",)
"""Folders whose sub-folders are parts of one room."""


def room(module):
    """The room of a module (or of a name in one), given by its parts below the package."""
    here, folder = ROOT, []
    for part in module:
        if not (here / part).is_dir():
            break
        here, folder = here / part, [*folder, part]
    if not folder or folder[0] in WHOLE:
        return module[0]
    rest = module[len(folder) :]
    beside_folders = any(child.is_dir() and child.name != "__pycache__" for child in here.iterdir())
    return ".".join([*folder, *rest[:1]] if rest and beside_folders else folder)


def modules_of(node):
    """The modules of the package that an import statement names, as parts below the package."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        inside = ROOT.joinpath(*(node.module or "").split(".")[1:])
        from_folder = (node.module or "").partition(".")[0] == "aidlearn" and inside.is_dir()
        names = [
            f"{node.module}.{alias.name}" if from_folder and _is_module(inside, alias.name) else node.module or ""
            for alias in node.names
        ]
    else:
        return []
    return [name.split(".")[1:] for name in names if name.partition(".")[0] == "aidlearn"]


def _is_module(folder, name):
    return (folder / f"{name}.py").exists() or (folder / name / "__init__.py").exists()


def imported(path):
    """The rooms that a file imports from, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        for module in modules_of(node):
            yield room(module) if module else ""


def home(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return room(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def test_every_room_has_its_place():
    assert {home(path) for path in FILES} == set(BELOW)


@pytest.mark.parametrize("name", BELOW)
def test_imports_go_down_only(name):
    upwards = {
        f"{path.relative_to(ROOT)} imports aidlearn.{other}"
        for path in FILES
        if home(path) == name
        for other in imported(path)
        if other != name and other not in BELOW[name]
    }
    assert upwards == set()


BY_NAME = {"__init__.py", "estimators/registry.py", "bench/solvers.py"}
"""Files that import modules of the package by their names: public names on first use, registered models."""


def named_imports(path):
    """Lines of a file that import a module by a name that is, or may be, one of the package.

    The name of a module as an argument counts whatever the function; other packages may be imported by a literal name.
    """
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        function, first = getattr(node.func, "id", getattr(node.func, "attr", "")), node.args[0]
        name = first.value if isinstance(first, ast.Constant) else None
        if isinstance(name, str):
            found = name.startswith("aidlearn.") and ROOT.parent.joinpath(*name.split(".")).with_suffix(".py").exists()
        else:
            found = function in ("import_module", "__import__")
        if found:
            yield node.lineno


def test_imports_by_name_are_few():
    """Neither mypy nor the layers above see an import by name."""
    found = {str(path.relative_to(ROOT)) for path in [ROOT / "__init__.py", *FILES] if any(named_imports(path))}
    assert found == BY_NAME


def test_an_import_by_name_is_found(tmp_path):
    path = tmp_path / "module.py"
    path.write_text('load("aidlearn.engine.loop")\nimport_module("pandas")\nimport_module(name)\nprint("aidlearn.x")\n')
    assert list(named_imports(path)) == [1, 3]


def test_the_rooms_form_layers():
    """No two rooms may import each other, not even by way of others."""
    reached = {name: set(below) - {"", name} for name, below in BELOW.items()}
    for _ in BELOW:
        reached = {name: below.union(*(reached[b] for b in below)) for name, below in reached.items()}
    assert all(name not in below for name, below in reached.items())


def test_every_room_says_what_it_is_for():
    silent = [
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("__init__.py")
        if len(ast.get_docstring(ast.parse(path.read_text())) or "") < 20
    ]
    assert silent == []


PAGE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text()


def test_the_page_names_files_that_exist():
    named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py|(?:[a-z_]+/)+[a-z_]+)`", PAGE)) - {"tests/test_architecture.py"}
    assert [name for name in named if not (ROOT / name).exists()] == []
    assert len(named) > 40


def test_the_page_lists_every_room():
    table = re.findall(r"^\| (`.*?) \|", PAGE.partition("## Rooms")[2].partition("\n## ")[0], flags=re.M)
    wanted = {name.replace(".", "/") for name in BELOW if not name.startswith("estimators.")}
    wanted -= {"data", "linear", "__main__"}  # which hold rooms, and the command line
    listed = {name for names in table for name in re.findall(r"`([^`]+)`", names)}
    assert listed == {f"{name}.py" if (ROOT / f"{name}.py").exists() else name for name in wanted}
