"""The names of the package: all there, imported when they are used."""

import ast
import pickle
import subprocess
import sys
from importlib import import_module
from pathlib import Path

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
    for name in aidlearn._MODULES:
        assert getattr(aidlearn, name).__name__ == f"aidlearn.{name}"
    with pytest.raises(AttributeError, match="has no attribute 'LinearSCV'"):
        _ = aidlearn.LinearSCV


def test_pickles_load_in_a_fresh_process():
    X = np.arange(20.0).reshape(-1, 1)
    model = aidlearn.LADRegressor().fit(X, 3 * X[:, 0])
    code = "import pickle, sys; sys.stdout.write(repr(pickle.load(sys.stdin.buffer).predict([[2.0]])[0]))"
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(model), capture_output=True, check=True)
    assert done.stdout.decode() == repr(model.predict([[2.0]])[0])
