"""Rows of weight 0 change nothing: a fit with them has the optimum of the fit without them, wherever they are."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from aidlearn import (
    SVC,
    SVR,
    LADRegressor,
    LinearOneClassSVM,
    LinearSVC,
    LinearSVCCV,
    LinearSVR,
    PiecewiseLinearModel,
    QuantileRegressor,
    QuantileRegressorCV,
    Result,
    SemiSupervisedSVC,
    Status,
    open_source,
)
from aidlearn.data import Chunk, Run, as_source
from aidlearn.data.passes.moments import inspect
from aidlearn.engine.problem import Incumbent, Start
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import absolute
from aidlearn.linear.passes.compiled import COMPILED
from aidlearn.linear.passes.in_numpy import NUMPY
from aidlearn.linear.passes.records import Grouping
from aidlearn.linear.start.newton import local_model
from aidlearn.linear.start.sharpen import Band

MODELS = {
    "lad": LADRegressor,
    "quantile": lambda: QuantileRegressor(quantile=0.2),
    "quantiles": lambda: QuantileRegressor(quantile=[0.1, 0.5, 0.8]),
    "svc": lambda: LinearSVC(C=0.1),
    "classes": lambda: LinearSVC(C=0.1),
    "svr": lambda: LinearSVR(C=0.1, epsilon=0.2),
    "one class": LinearOneClassSVM,
    "piecewise": lambda: PiecewiseLinearModel(kinks=[0.0, 1.0], slopes=[-1.0, 1.0, 3.0]),
    "kernel svc": SVC,
    "kernel svr": SVR,
}
STORAGES = {
    "C": np.asarray,
    "F": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "csr": sparse.csr_array,
}


def weights(rng, n, pattern):
    weight = rng.choice([0.5, 1.0, 2.0], n) if rng.random() < 0.5 else np.ones(n)
    share = rng.uniform(0.3, 0.95)
    if pattern == "first":
        weight[: int(share * n)] = 0.0
    elif pattern == "last":
        weight[int((1 - share) * n) :] = 0.0
    elif pattern == "middle":
        weight[int(0.02 * n) : int(share * n)] = 0.0
    elif pattern == "periodic":
        weight[np.arange(n) % rng.integers(2, 8) != 0] = 0.0
    else:
        weight[rng.random(n) < share] = 0.0
    return weight


def problem(seed, name, n):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 7))
    X = rng.normal(size=(n, m))
    if seed % 2:
        X[rng.random(X.shape) < 0.7] = 0.0
    y = X @ rng.normal(size=m) + rng.laplace(size=n)
    if name in ("svc", "kernel svc"):
        y = (y > 0.3).astype(int)
    elif name == "classes":
        y = np.digitize(y, [-1.0, 0.0, 1.0])
    return X, y


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(sorted(MODELS)),
    storage=st.sampled_from(sorted(STORAGES)),
    pattern=st.sampled_from(["first", "last", "middle", "periodic", "random"]),
    chunk=st.sampled_from([1 << 10, 1 << 12, 1 << 19]),
    cells=st.sampled_from([0, 1 << 40]),
    seed=st.integers(0, 10_000),
)
def test_rows_of_weight_zero_change_nothing(name, storage, pattern, chunk, cells, seed):
    kernel = name.startswith("kernel")
    X, y = problem(seed, name, 700 if kernel else 6000)
    weight = weights(np.random.default_rng(seed), len(y), pattern)
    X, there = STORAGES[storage](X), weight > 0
    if len(np.unique(y[there])) < len(np.unique(y)) <= 4:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aidlearn.data.rows.chunk.CHUNK_ELEMENTS", chunk)
        patch.setattr("aidlearn.data.passes.run.COMPILED_CELLS", cells)
        found = MODELS[name]().fit(X, y, sample_weight=weight)
        expected = MODELS[name]().fit(X[there], y[there], sample_weight=weight[there])
    best = np.atleast_1d(expected.objective_)
    allowed = (expected.tol + 1e-9) * np.abs(best) + 1e-9
    assert np.all(np.abs(found.objective_ - best) <= allowed)
    assert np.all(found.lower_bound_ <= best + 1e-9 * np.abs(best) + 1e-9)


@pytest.mark.parametrize("name", ["lad", "svc"])
def test_whole_chunks_of_weight_zero(name):
    """A chunk of 10 columns has 52,428 rows: the first has none with weight."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 10))
    y = X @ rng.normal(size=10) + rng.laplace(size=100_000)
    y = (y > 0).astype(int) if name == "svc" else y
    weight = np.ones(100_000)
    weight[:60_000] = 0.0
    found, expected = MODELS[name]().fit(X, y, sample_weight=weight), MODELS[name]().fit(X[60_000:], y[60_000:])
    assert found.status_.reached_tolerance
    assert found.objective_ == pytest.approx(expected.objective_, rel=found.tol)


def test_a_file_under_a_memory_limit(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200_000, 10))
    y = np.digitize(X @ rng.normal(size=10) + rng.logistic(size=200_000), [-2.0, 0.0, 2.0])
    weight = np.ones(200_000)
    weight[:120_000] = 0.0
    for name, values in (("X", X), ("y", y), ("weight", weight)):
        np.save(tmp_path / f"{name}.npy", values)
    places = {"target": tmp_path / "y.npy", "weight": tmp_path / "weight.npy"}
    found = LinearSVC().fit(open_source(tmp_path / "X.npy", **places, memory_limit="100MB"))
    expected = LinearSVC().fit(X[120_000:], y[120_000:])
    assert found.objective_ == pytest.approx(expected.objective_, rel=found.tol)


@pytest.mark.parametrize("make", [LinearSVCCV, QuantileRegressorCV])
@pytest.mark.parametrize("scoring", [None, "built in"])
def test_folds_of_weight_zero(make, scoring):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(3000, 3))
    y = X @ [1.0, -1.0, 0.0] + rng.normal(size=3000)
    path = {"Cs": [1e-4, 1.0]} if make is LinearSVCCV else {"alphas": [10.0, 0.01]}
    y, name = ((y > 0).astype(int), "accuracy") if make is LinearSVCCV else (y, "neg_mean_absolute_error")
    weight = np.ones(3000)
    weight[:1500] = 0.0
    model = make(cv=5, scoring=scoring and name, **path).fit(X, y, sample_weight=weight)
    # Two folds are tested on rows of weight 0 only: the others decide.
    assert np.isnan(model.scores_).all(axis=1).tolist() == [True, True, False, False, False]
    chosen = model.C_ if make is LinearSVCCV else model.alpha_
    assert chosen == next(iter(path.values()))[np.nanmean(model.scores_, axis=0).argmax()]
    with pytest.raises(ValueError, match="Fold 0 of cv trains on rows of weight 0 only"):
        make(cv=[(np.arange(1500), np.arange(1500, 3000))], **path).fit(X, y, sample_weight=weight)
    with pytest.raises(ValueError, match="All folds of cv are tested on rows of weight 0 only"):
        make(cv=[(np.arange(1500, 3000), np.arange(1500))], **path).fit(X, y, sample_weight=weight)


def test_semi_supervised_rows_of_weight_zero():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2)) + np.repeat([[-2.0, 0.0], [2.0, 0.0]], 30, axis=0)
    y = np.full(60, -1)
    y[[0, 1, 30, 31]] = 0, 0, 1, 1
    weight = np.ones(60)
    weight[10:20] = weight[1] = 0.0
    found = SemiSupervisedSVC().fit(X, y, sample_weight=weight)
    expected = SemiSupervisedSVC().fit(X[weight > 0], y[weight > 0])
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-4)


# What must not happen, and is harmless if it does


@pytest.mark.parametrize("passes", [NUMPY, COMPILED])
def test_only_rows_with_weight_are_near(passes):
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(500, 3)), rng.normal(size=500)
    design = Design.of(absolute(), inspect(Run(as_source(X, y))))
    for weight in (np.zeros(500), (np.arange(500) % 5 == 0).astype(float)):
        chunk = Chunk(0, 500, X, y, weight)
        sums = passes.local_sums(design, chunk, np.zeros(4), 0.5, 1.0)
        assert np.all(weight[sums.near] > 0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = local_model(design, chunk, sums, np.full(500, 0.5), 3, NUMPY)
        assert found.curvature == pytest.approx(np.sum(found.near_rows[0].array[:, -1] ** 2))


@pytest.mark.parametrize("passes", [NUMPY, COMPILED])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_no_point_makes_a_label_that_is_no_group(passes, bad):
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(500, 3)), rng.normal(size=500)
    design = Design.of(absolute(), inspect(Run(as_source(X, y))))
    grouping = Grouping(0.1, 2.0, 5, np.array([0.0]), 10)
    with np.errstate(invalid="ignore"):
        found = passes.groups(design, Chunk(0, 500, X, y, np.ones(500)), np.full(4, bad), 0.5, grouping)
    assert found.labels.min() >= 0
    assert found.labels.max() < 10
    assert found.counts.sum() + len(found.alone) == 500
    assert np.isfinite(found.sums).all()


def test_fewer_groups_than_labels_are_refused():
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(500, 3)), rng.normal(size=500)
    design = Design.of(absolute(), inspect(Run(as_source(X, y))))
    with pytest.raises(ValueError, match="10 groups, but there are 9"):
        COMPILED.groups(
            design, Chunk(0, 500, X, y, np.ones(500)), np.zeros(4), 0.5, Grouping(0.1, 2.0, 5, np.array([0.0]), 9)
        )


def test_a_start_without_a_number_is_no_incumbent(monkeypatch):
    X, y = problem(0, "lad", 6000)
    expected = LADRegressor().fit(X, y)
    start = Band.__call__

    def lost(self, given):
        found = start(self, given)
        assert found.incumbent is not None
        return Start(found.clusters, Incumbent(np.full_like(found.incumbent.point, np.nan), math.nan))

    monkeypatch.setattr(Band, "__call__", lost)
    model = LADRegressor().fit(X, y)
    assert model.status_.reached_tolerance
    assert model.objective_ == pytest.approx(expected.objective_, rel=model.tol)


def test_an_objective_that_is_not_a_number_is_no_result():
    with pytest.raises(ArithmeticError, match="not a number"):
        Result([0.0], math.nan, 0.0, Status.numerical, 1, 1.0, 1)
