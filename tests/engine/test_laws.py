"""Laws of AID that hold for every input (hypothesis), against the full LP solved by HiGHS."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aidlearn import QuantileRegressor, Status
from aidlearn.data import as_source
from aidlearn.data.passes.moments import inspect
from aidlearn.data.passes.run import Run
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.problem import Trial
from aidlearn.linear.aggregated.solvers import SOLVERS
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import pinball
from aidlearn.linear.passes.records import Segment
from aidlearn.linear.problem import PiecewiseLinear, Procedure
from aidlearn.linear.start.methods import start_method
from oracles import highs_quantile


@st.composite
def problems(draw, max_n=90):
    """Weights, ties, duplicates, collinear and constant columns, m > n, n = 1, extreme scales."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.one_of(st.just(1), st.integers(2, max_n)))
    m = draw(st.integers(1, 8))
    X = rng.normal(size=(n, m))
    kind = draw(st.sampled_from(["plain", "rounded", "duplicates", "collinear", "constant", "dummies"]))
    if kind == "rounded":
        X = np.round(X)
    elif kind == "duplicates":
        X = X[rng.integers(0, max(1, n // 4), n)]
    elif kind == "collinear":
        X[:, -1] = X[:, 0] * 3
    elif kind == "constant":
        X[:, -1] = 7.0
    elif kind == "dummies":
        X = np.eye(m)[rng.integers(0, m, n)]
    if draw(st.booleans()):
        X = X * 10.0 ** rng.integers(-8, 9, m)
    y = rng.standard_t(2, n)
    target = draw(st.sampled_from(["plain", "tied", "one value", "linear"]))
    if target == "tied":
        y = np.round(y)
    elif target == "one value":
        y = np.full(n, 3.0)
    elif target == "linear":
        y = X @ rng.normal(size=m) / max(np.abs(X).max(), 1e-300) + y
    weight = draw(st.sampled_from([None, "varied", "zeros"]))
    if weight == "varied":
        weight = 10.0 ** rng.uniform(-3, 3, n)
    elif weight == "zeros":
        weight = np.maximum(rng.integers(-1, 3, n), 0).astype(float)
        weight[0] = 1.0
    quantile = draw(st.floats(0.01, 0.99))
    return X, y, weight, quantile


@settings(max_examples=250)
@given(problems(), st.sampled_from(["auto", "kmeans", "labels"]), st.booleans())
def test_objective_equals_the_full_lp(problem, init, fit_intercept):
    X, y, weight, quantile = problem
    n = len(y)
    labels = np.random.default_rng(n).integers(0, max(1, n // 5), n)
    model = QuantileRegressor(
        quantile=quantile, tol=1e-7, init=labels if init == "labels" else init, fit_intercept=fit_intercept
    ).fit(X, y, sample_weight=weight)
    optimum = highs_quantile(X, y, quantile, weight, fit_intercept)
    total = 1.0 if weight is None else weight.max()
    slack = 1e-9 * n * total * np.abs(y).max()
    assert model.objective_ == pytest.approx(optimum, rel=1e-6, abs=slack)
    assert model.lower_bound_ <= optimum * (1 + 1e-9) + slack
    for record in model.history_:
        assert record.lower_bound <= optimum * (1 + 1e-9) + slack
        assert record.objective >= optimum * (1 - 1e-9) - slack
        assert record.best_lower_bound <= record.best_objective


@pytest.mark.parametrize("init", ["kmeans", "birch"])
@given(st.integers(0, 1000))
@settings(max_examples=15)
def test_paper_mode_never_lowers_the_bound(init, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(800, 3))
    y = X @ [1, 2, 3] + rng.laplace(size=800)
    model = QuantileRegressor(init=init, tol=1e-5).fit(X, y)
    bounds = [record.lower_bound for record in model.history_]
    assert all(later >= earlier * (1 - 1e-9) for earlier, later in itertools.pairwise(bounds))
    assert model.gap_ <= 1e-5


@given(problems(max_n=40))
@settings(max_examples=60)
def test_integer_weights_equal_repeated_rows(problem):
    X, y, _, quantile = problem
    weight = np.random.default_rng(len(y)).integers(0, 4, len(y))
    weight[0] = 1
    weighted = QuantileRegressor(quantile=quantile, tol=1e-8).fit(X, y, sample_weight=weight)
    repeated = QuantileRegressor(quantile=quantile, tol=1e-8).fit(np.repeat(X, weight, 0), np.repeat(y, weight))
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-7, abs=1e-8 * np.abs(y).max() * len(y))


def make_problem(X, y, init, weight=None):
    run = Run(as_source(X, y, weight))
    procedure = Procedure(SOLVERS["auto"], start_method(init), rng=np.random.default_rng(0))
    return PiecewiseLinear(run, Design.of(pinball(0.5), inspect(run)), procedure)


def exact_sums(problem, labels):
    source = problem.source
    total = 0
    for k in range(source.n_chunks):
        chunk = source.chunk(k)
        total = total + problem.aggregate(chunk, labels[chunk.start : chunk.stop], labels.max() + 1)
    return total


@pytest.mark.parametrize("init", ["band", "kmeans", "birch"])
@pytest.mark.parametrize("points", [1, 2])
def test_clusters_stay_a_partition_with_exact_sums(init, points, monkeypatch):
    monkeypatch.setattr("aidlearn.data.rows.chunk.CHUNK_ELEMENTS", 1 << 12)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(5000, 4))
    y = X @ [1, -1, 2, 0] + rng.laplace(size=5000)
    problem = make_problem(X, y, init, rng.integers(0, 3, 5000))
    clusters = problem.start().clusters
    for _ in range(4):
        labels = clusters.labels()
        assert np.array_equal(np.unique(labels), np.arange(clusters.n_clusters))
        assert np.array_equal(np.bincount(labels), clusters.counts)
        assert clusters.sums == pytest.approx(exact_sums(problem, labels), abs=1e-8)
        point = rng.normal(size=5)
        trial = Trial([point])
        if points == 2:
            trial = Segment.between(np.zeros(5), point, 0.3)
        before, n_before = labels, clusters.n_clusters
        check = clusters.check(trial)
        clusters.decluster(check)
        after = clusters.labels()
        # Refinement: entries together afterwards were together before; each cluster in one region.
        assert len(np.unique(before[np.unique(after, return_index=True)[1]])) == n_before
        z = y - X @ point[:4] - point[4]
        weighted = problem.source.weight > 0
        for cluster in np.unique(after[weighted]):
            sides = z[(after == cluster) & weighted] > 0
            assert sides.all() or not sides.any()


def test_chunk_size_does_not_change_the_optimum(monkeypatch):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(6000, 3))
    y = X.sum(axis=1) + rng.standard_t(2, 6000)
    whole = QuantileRegressor(quantile=0.3, tol=0).fit(X, y)
    monkeypatch.setattr("aidlearn.data.rows.chunk.CHUNK_ELEMENTS", 1 << 11)
    cut = QuantileRegressor(quantile=0.3, tol=0).fit(X, y)
    assert whole.status_ is Status.optimal
    assert cut.status_ is Status.optimal
    assert cut.coef_ == pytest.approx(whole.coef_, rel=1e-9)


def test_empty_groups_are_dropped():
    X, y = np.arange(8.0).reshape(-1, 1), np.arange(8.0)
    problem = make_problem(X, y, np.array([0, 0, 5, 5, 9, 9, 9, 9]))
    assert problem.start().clusters.n_clusters == 3
    assert isinstance(problem.start().clusters, Clusters)
