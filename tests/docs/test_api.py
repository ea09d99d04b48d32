"""The reference: every public name has an example that runs, and nothing public is left without words."""

import doctest
import inspect
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import aidlearn

API = Path(__file__).parents[2] / "docs" / "api.md"
PUBLIC = sorted(
    {
        *((name, "aidlearn") for name in aidlearn.__all__),
        *(
            (name, module)
            for module in ("aidlearn.report", "aidlearn.engine")
            for name in import_module(module).__all__
        ),
        ("fit", "aidlearn.formula"),
        ("check_problem", "aidlearn.testing"),
    }
)
"""Names, and where they are imported from: those of the package, and of the modules that the reference has."""
ESTIMATORS = [name for name in aidlearn.__all__ if hasattr(getattr(aidlearn, name), "fit")]


def own(value):
    return str(getattr(value, "__module__", "")).startswith("aidlearn")


def members(cls):
    """Public methods and properties of a class that are this package's."""
    for name in dir(cls):
        value = inspect.getattr_static(cls, name)
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if not name.startswith("_") and inspect.isfunction(function) and own(function):
            yield name, function


@pytest.mark.parametrize(("name", "module"), PUBLIC)
def test_every_public_name_has_an_example(name, module):
    value = getattr(import_module(module), name)
    text = inspect.cleandoc(value.__doc__ or "")
    examples = doctest.DocTestParser().get_examples(text)
    assert "Examples\n--------" in text, f"{module}.{name} has no section with examples"
    assert examples, f"{module}.{name} has no example"
    assert not any(example.options.get(doctest.SKIP) for example in examples), (
        f"an example of {module}.{name} is skipped"
    )
    # pytest --doctest-modules runs the examples of the modules of the package
    assert own(value)


@pytest.mark.parametrize(("name", "module"), PUBLIC)
def test_every_public_method_is_documented(name, module):
    value = getattr(import_module(module), name)
    if inspect.isclass(value):
        silent = [member for member, function in members(value) if not inspect.getdoc(getattr(value, member, function))]
        assert silent == []


@pytest.mark.parametrize(("name", "module"), PUBLIC)
def test_parameters_of_functions_and_models_are_documented(name, module):
    value = getattr(import_module(module), name)
    if name not in ESTIMATORS and not inspect.isfunction(value):
        return
    text = inspect.cleandoc(value.__doc__)
    wanted = [p.name for p in inspect.signature(value).parameters.values() if p.name != "self"]
    missing = [parameter for parameter in wanted if not re.search(rf"^[\w, *]*\b{parameter}\b.*$", text, flags=re.M)]
    assert missing == []


@pytest.mark.parametrize("name", ESTIMATORS)
def test_fitted_attributes_are_documented(name):
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(60, 2))) + 0.1
    y = (X[:, 0] > X[:, 1]).astype(int)
    model = getattr(aidlearn, name)()
    model.fit(X, np.where(np.arange(60) < 20, y, -1) if name == "SemiSupervisedSVC" else y)
    text = inspect.cleandoc(type(model).__doc__)
    attributes = text[text.index("Attributes\n---") :]
    found = {key for key in vars(model) if key.endswith("_") and not key.startswith("_")}
    missing = [key for key in found if not re.search(rf"(^[\w, ]*|``)\b{key}\b", attributes, flags=re.M)]
    assert sorted(missing) == []


def test_the_reference_lists_every_name():
    """What the page does not list the site puts at its end (docs/conf.py); modules beside the package need a line."""
    text = API.read_text()
    for name, module in PUBLIC:
        inside = module.removeprefix("aidlearn").lstrip(".")
        if inside and name not in aidlearn.__all__:
            assert re.search(rf"^ +{inside}\.{name}$", text, flags=re.M), f"docs/api.md does not list {module}.{name}"
