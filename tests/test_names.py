"""The names of the package: all there, imported when they are used."""

import ast
import pickle
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np
import pytest

import aidlearn


def loaded_by(statement):
    """Heavy packages in the modules of a fresh interpreter after a statement."""
    heavy = ("numpy", "scipy", "sklearn", "pyarrow", "pandas", "numba", "matplotlib", "dask")
    code = f"{statement}\nimport sys\nsys.stdout.write(' '.join(m for m in {heavy!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_importing_the_package_imports_nothing_heavy():
    assert loaded_by("import aidlearn") == []
    assert loaded_by("from aidlearn.cli import main") == []
    assert "numpy" in loaded_by("from aidlearn import Status")


def test_an_estimator_imports_no_more_of_others_than_linear_models_of_scikit_learn():
    code = (
        "import sys, sklearn.linear_model; before = set(sys.modules); from aidlearn import LADRegressor;"
        "new = set(sys.modules) - before - set(sys.stdlib_module_names);"
        "old = {name.partition('.')[0] for name in before} - {'sklearn'} | set(sys.stdlib_module_names) | {'aidlearn'};"
        "print(*(name for name in new if name.partition('.')[0] not in old))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("name", aidlearn.__all__)
def test_every_name_is_that_of_its_module(name):
    value = getattr(aidlearn, name)
    assert getattr(import_module(aidlearn._HOMES[name]), name) is value
    assert name in dir(aidlearn)


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(aidlearn.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {name.name: node.module for node in block.body for name in node.names}
    assert seen == aidlearn._HOMES
    assert sorted(seen) == sorted(aidlearn.__all__)


def test_star_import_submodules_and_unknown_names():
    names = {}
    exec("from aidlearn import *", names)
    assert set(aidlearn.__all__) <= set(names)
    modules = [module.name for module in iter_modules(aidlearn.__path__) if module.name != "__main__"]
    assert {"cli", "data", "display", "engine", "estimators", "files", "report"} <= set(modules) <= set(dir(aidlearn))
    for name in modules:
        assert getattr(aidlearn, name).__name__ == f"aidlearn.{name}"
    with pytest.raises(AttributeError, match="has no attribute 'LinearSCV'"):
        _ = aidlearn.LinearSCV


def private(name):
    return name.startswith("_") and not name.startswith("__")


def own_names(tree):
    """Private names that a file defines: its functions, classes, fields, and attributes that its objects set."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            yield node.attr


def reached(path):
    """Private names of other modules that a file uses."""
    tree = ast.parse(path.read_text())
    own = set(own_names(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and private(node.attr) and node.attr not in own:
            inherited = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "super"
            if not inherited:
                yield ast.unparse(node)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("aidlearn"):
            yield from (name.name for name in node.names if private(name.name))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr"):
            name = node.args[1]
            if isinstance(name, ast.Constant) and private(str(name.value)):
                yield ast.unparse(node)


ALLOWED = {
    # What a file says of its origin stays with the model that was loaded, for ``environment_of``.
    "files": {"model._environment", "getattr(model, '_environment', None)"},
    # Dask has no public name for the types of a collection.
    "data": {"X._meta", "collection._meta"},
}
ONE_ROOM = "estimators"
"""Estimators and their companions (inference, paths) share the hooks of one template."""
ROOT = Path(aidlearn.__file__).parent


@pytest.mark.parametrize(
    "folder", sorted(path.name for path in ROOT.iterdir() if (path / "__init__.py").exists() and path.name != ONE_ROOM)
)
def test_rooms_use_public_names_of_one_another_only(folder):
    allowed = ALLOWED.get(folder, set())
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / folder).rglob("*.py")
        for name in reached(path)
        if name not in allowed
    }
    assert found == set()


def test_pickles_load_in_a_fresh_process():
    X = np.arange(20.0).reshape(-1, 1)
    model = aidlearn.LADRegressor().fit(X, 3 * X[:, 0])
    code = "import pickle, sys; sys.stdout.write(repr(pickle.load(sys.stdin.buffer).predict([[2.0]])[0]))"
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(model), capture_output=True, check=True)
    assert done.stdout.decode() == repr(model.predict([[2.0]])[0])
