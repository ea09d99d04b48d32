"""Forged model files, whose checksums agree: refused in one sentence on loading, or all that uses the model works."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from aidlearn import (
    LADRegressor,
    LinearSVCCV,
    PiecewiseLinearModel,
    QuantileRegressorCV,
    archive,
    load_model,
    save_model,
)
from aidlearn.estimators.fits import certificate, fits_of
from aidlearn.files.models import KIND, VERSION, ModelFileError
from aidlearn.report.page import render
from small_models import NAMES, data, fitted

N_FORGERIES = 20
WRONG = [None, True, -1, 0, 1e300, 2**80, float("nan"), float("inf"), "x", "", [], [1], {}, {"a": 1}, {"$": "dict"}]
WRONG += [{"$": "tuple", "items": [1]}, {"$": "Status", "value": "gap"}, {"$": "array", "name": "coef_"}]


def more_models():
    """Models of the other kinds: cross-validated, piecewise linear, of a table with factors."""
    X, y, *_ = data()
    table = pd.DataFrame({"x": X[:, 0], "c": np.where(X[:, 1] > 0, "p", "m")})
    return {
        "svc-cv": (LinearSVCCV(Cs=2, cv=2), X, y > 0),
        "quantile-cv": (QuantileRegressorCV(alphas=[0.1, 0.01], cv=2), X, y),
        "piecewise": (PiecewiseLinearModel(kinks=[0.0, 1.0], slopes=[-1.0, 0.0, 2.0]), X, y),
        "factors": (LADRegressor(), table, y),
    }


def fitted_model(name):
    if name in NAMES:
        return fitted(name)
    model, X, y = more_models()[name]
    return model.fit(X, y), X


def places(value, path=()):
    """Paths to all values of a description, nested or not."""
    found = [path] if path else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return found + [place for key, item in inner for place in places(item, (*path, key))]


def forged_meta(meta, others, rng):
    meta = copy.deepcopy(meta)
    *way, last = (found := places({key: meta[key] for key in meta if key != "training"}))[rng.integers(len(found))]
    at = meta
    for key in way:
        at = at[key]
    kind = rng.random()
    if kind < 0.15 and isinstance(at, dict):
        del at[last]
    elif kind < 0.3:
        part = ("parameters", "fitted", "private")[rng.integers(3)]
        choice = sorted(others[part])
        if choice:
            name = choice[rng.integers(len(choice))]
            meta[part][name] = others[part][name] if rng.random() < 0.5 else WRONG[rng.integers(len(WRONG))]
    else:
        at[last] = WRONG[rng.integers(len(WRONG))]
    return meta


def forged_array(array, others, rng):
    changed = array.copy()
    if array.size and array.dtype.kind in "if":
        value = [0, 1, -1, 127, np.nan, np.inf, 1e300][rng.integers(4 if array.dtype.kind == "i" else 7)]
        changed.flat[rng.integers(array.size)] = value
    return [
        changed,
        array[:-1] if array.ndim else np.zeros(3),
        array[..., None],
        np.full(array.shape, "x"),
        np.full(array.shape, np.datetime64("2020-01-01")),
        np.full(array.shape, 1j),
        array.astype(bool) if array.dtype.kind != "U" else array[:0],
        others[rng.integers(len(others))],
    ][rng.integers(8)]


def use(model, X):
    """Everything that reads a fitted model."""
    prediction = model.predict(X)
    assert len(prediction) == X.shape[0]
    if hasattr(model, "decision_function"):
        assert len(model.decision_function(X)) == X.shape[0]
    for fit in fits_of(model):
        assert fit.gap >= 0
        certificate(fit)
    render(model)
    repr(model)
    model._repr_html_inner()


@pytest.mark.parametrize("name", [*NAMES, *more_models()])
def test_a_forged_model_is_refused_or_works(name, tmp_path):
    path = tmp_path / "model"
    model, X = fitted_model(name)
    save_model(model, path)
    sound = archive.read(path, KIND, VERSION)
    save_model(fitted_model("svc-rbf" if name == "lad" else "lad")[0], path)
    others = archive.read(path, KIND, VERSION)
    rng = np.random.default_rng(len(name))
    refused = 0
    for _ in range(N_FORGERIES):
        meta, arrays = sound.meta, dict(sound.arrays)
        if rng.random() < 0.6 or not arrays:
            meta = forged_meta(meta, others.meta, rng)
        else:
            key = sorted(arrays)[rng.integers(len(arrays))]
            arrays[key] = forged_array(arrays[key], [*arrays.values(), *others.arrays.values()], rng)
        archive.write(path, KIND, VERSION, meta, {**others.arrays, **arrays})
        message = None
        try:
            found = load_model(path)
        except ModelFileError as error:
            message = str(error)
        if message is not None:
            assert "\n" not in message
            assert message.endswith(".")
            refused += 1
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            use(found, X)
        save_model(found, path)
    assert refused


def test_parameters_that_name_files_never_come_from_a_file(tmp_path):
    path, later = tmp_path / "model", tmp_path / "later"
    save_model(fitted("lad")[0], path)
    found = archive.read(path, KIND, VERSION)
    for name, value in (("checkpoint", str(later)), ("callbacks", None)):
        meta = copy.deepcopy(found.meta)
        meta["parameters"][name] = value
        archive.write(path, KIND, VERSION, meta, found.arrays)
        with pytest.raises(ModelFileError, match=f"sets {name}, which never comes from a file"):
            load_model(path)
    assert not later.exists()


def test_a_formula_in_a_file_is_a_text_that_nobody_evaluates(tmp_path):
    """A model of a table may say which formula it is of; predictions select its columns by name."""
    model, X = fitted_model("factors")
    model.formula_ = "__import__('os').system('touch evaluated') ~ x"
    save_model(model, tmp_path / "model")
    assert np.array_equal(load_model(tmp_path / "model").predict(X), model.predict(X))
    found = archive.read(tmp_path / "model", KIND, VERSION)
    found.meta["fitted"]["formula_rows_"] = "x"
    archive.write(tmp_path / "model", KIND, VERSION, found.meta, found.arrays)
    with pytest.raises(ModelFileError, match="'formula_rows_' is not a fitted attribute"):
        load_model(tmp_path / "model")


def test_what_could_not_be_loaded_is_not_saved(tmp_path):
    model, _ = fitted("lad")
    with pytest.raises(ModelFileError, match="cannot be saved: tol must be a number >= 0"):
        save_model(model.set_params(tol=-1.0), tmp_path / "model")
    with pytest.raises(NotFittedError):
        save_model(LADRegressor(), tmp_path / "model")
    assert not list(tmp_path.iterdir())
