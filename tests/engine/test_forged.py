"""Forged checkpoints, whose checksums agree: refused in one sentence, or the result is as proven as ever."""

from __future__ import annotations

import copy
import warnings
from functools import cache

import numpy as np
import pytest
from scipy import sparse

from aidlearn import (
    SVC,
    SVR,
    LADRegressor,
    LinearOneClassSVM,
    LinearSVC,
    LinearSVCCV,
    LinearSVR,
    QuantileRegressor,
    QuantileRegressorCV,
    SemiSupervisedSVC,
    archive,
)
from aidlearn.engine.checkpoint import KIND, VERSION, CheckpointError

N_FORGERIES = 20


def data():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(2500, 3))
    y = X @ [1.0, -2.0, 0.5] + rng.laplace(size=2500)
    return X, y


def models():
    """An estimator that is stopped in the middle, its rows and its target."""
    X, y = data()
    few, label = X[:300], y[:300] > 0
    thin = sparse.csr_array(np.where(np.abs(X) > 1.2, X, 0.0))
    partly = np.where(np.arange(60) % 3 > 0, -1, label[:60].astype(int))
    return {
        "lad": (LADRegressor(init="kmeans", tol=1e-7, max_iter=2), X, y),
        "sparse": (LinearSVC(init="kmeans", tol=1e-7, max_iter=2), thin, y > 0),
        "positive": (LinearSVR(init="kmeans", tol=1e-7, max_iter=2, positive=True), X, y),
        "one-class": (LinearOneClassSVM(init="kmeans", tol=1e-7, max_iter=2), X, None),
        "quantiles": (QuantileRegressor(quantile=[0.2, 0.5, 0.7]), X, y),
        "cv": (LinearSVCCV(Cs=2, cv=2), few, label),
        "quantile-cv": (QuantileRegressorCV(alphas=[0.1, 0.01], cv=2), X, y),
        "svc": (SVC(C=3.0, init="kmeans", tol=1e-6, max_iter=2), few, label),
        "svc-band": (SVC(C=3.0, init="band", initial_rate=0.05, tol=1e-6, max_iter=1), few, label),
        "svr": (SVR(C=3.0, init="kmeans", tol=1e-6, max_iter=2), few, y[:300]),
        "semi": (SemiSupervisedSVC(max_iter=1, tol=1e-9, node_limit=30), X[:60], partly),
    }


def fitted(name, path, **more):
    model, X, y = models()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.set_params(checkpoint=path, **more).fit(X, y)


@cache
def best(name):
    """The objective of the fit without a limit, and its penalties."""
    return np.atleast_1d(fitted(name, None, max_iter=100 if name != "semi" else 20).objective_)


@cache
def sound(name, folder):
    """The archives of a stopped fit, by the names of their files."""
    fitted(name, folder / "run")
    files = [file for file in folder.iterdir() if not file.name.endswith(".previous")]
    return {file.name: archive.read(file, KIND, VERSION) for file in files}


WRONG = [None, True, -1, 0, 1e300, 2**80, -1e300, float("nan"), float("inf"), "x", "", [], [1], {}, {"a": 1}, [[]]]


def places(value, path=()):
    """Paths to all values of a description, nested or not."""
    found = [path] if path else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return found + [place for key, item in inner for place in places(item, (*path, key))]


def forged_meta(meta, rng):
    meta = copy.deepcopy(meta)
    *way, last = (found := places(meta))[rng.integers(len(found))]
    at = meta
    for key in way:
        at = at[key]
    if rng.random() < 0.2 and isinstance(at, dict):
        del at[last]
    else:
        at[last] = WRONG[rng.integers(len(WRONG))]
    return meta, (*way, last)


def forged_array(array, others, rng):
    flat = array.copy().ravel()
    at = rng.integers(max(1, flat.size))
    whole = array.dtype.kind == "i"
    if whole:
        values = np.array([-1, 0, 1, 10**6, 2**31 - 1, 2**63 - 1, -(2**63)]).astype(array.dtype).tolist()
    else:
        values = [0.0, 1.0, -1.0, 1e6, np.nan, np.inf, 1e300, 1e-300]
    changed = np.full_like(flat, values[rng.integers(len(values))])
    if flat.size and rng.random() < 0.6:
        changed = flat
        changed[at] = values[rng.integers(len(values))]
    return [
        changed.reshape(array.shape),
        changed.reshape(array.shape),
        (1.001 * array).astype(array.dtype),
        array[:-1] if array.ndim else np.zeros(3),
        np.concatenate([array, array]) if array.ndim else np.zeros(3),
        array[..., None],
        np.full(array.shape, "x"),
        array.astype(np.float32),
        others[rng.integers(len(others))],
        array[::-1].copy() if array.ndim else array,
    ][rng.integers(10)]


def check(name, path, what):
    """Nothing but a refusal in one sentence, or a result that is right."""
    message = None
    try:
        model = fitted(name, path)
    except CheckpointError as error:
        message = str(error)
    if message is not None:
        assert "\n" not in message, what
        assert message.endswith("."), what
        return False
    X = models()[name][1]
    bound, objective = np.atleast_1d(model.lower_bound_), np.atleast_1d(model.objective_)
    if "cv" not in name:
        assert (bound <= best(name) * (1 + 1e-9) + 1e-12).all(), (what, bound, best(name))
        if name != "semi":
            assert (objective >= best(name) * (1 - 1e-5)).all(), (what, objective, best(name))
    gaps = np.atleast_1d(model.gap_)
    assert (gaps >= 0).all(), what
    assert np.allclose(gaps * np.abs(objective), objective - bound), what
    model.predict(X[:3])
    return True


@pytest.mark.parametrize("name", models())
def test_a_forged_checkpoint_proves_nothing(name, tmp_path_factory):
    """One value of the description or one array is replaced: by other types, sizes, numbers, or another array.

    On bounds and objectives see ``check``. A fit that is resumed has the limits of the one before it.
    """
    folder = tmp_path_factory.mktemp(name)
    files = sound(name, folder)
    rng = np.random.default_rng(len(name))
    outcomes = []
    for _ in range(N_FORGERIES):
        for file in folder.iterdir():
            file.unlink()
        for file, found in files.items():
            archive.write(folder / file, KIND, VERSION, found.meta, found.arrays)
        file = sorted(files)[rng.integers(len(files))]
        meta, arrays = files[file].meta, dict(files[file].arrays)
        if rng.random() < 0.5:
            meta, what = forged_meta(meta, rng)
        else:
            what = sorted(arrays)[rng.integers(len(arrays))]
            others = [array for each in files.values() for array in each.arrays.values()]
            if rng.random() < 0.1:
                del arrays[what]
            else:
                arrays[what] = forged_array(arrays[what], others, rng)
        archive.write(folder / file, KIND, VERSION, meta, arrays)
        outcomes.append(check(name, folder / "run", (file, what)))
    assert not all(outcomes)
