"""The sharpened start: invariant to the scale of columns and the order of rows, and never worse than where it began."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from aidlearn import LADRegressor
from aidlearn.data import Run, as_source
from aidlearn.data.passes.moments import inspect
from aidlearn.data.rows.chunk import Chunk
from aidlearn.linear.aggregated.solvers import SOLVERS
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import Metric, NormalEquations
from aidlearn.linear.model.losses import absolute, epsilon_insensitive, hinge, pinball
from aidlearn.linear.passes.in_numpy import NUMPY
from aidlearn.linear.problem import PiecewiseLinear, Procedure
from aidlearn.linear.start.newton import Damping, bounded_step, local_model, thinning
from aidlearn.linear.start.samples import Samples, largest_sample
from aidlearn.linear.start.sharpen import Band, few_entries
from aidlearn.linear.start.sharpening import Sharpening
from oracles import highs_quantile

LOSSES = {
    "lad": lambda: (absolute(), 0.0),
    "tau 0.1": lambda: (pinball(0.1), 0.0),
    "svm": lambda: (hinge(1.0), 1.0),
    "svr": lambda: (epsilon_insensitive(1.0, 0.3), 1.0),
}


def rows(seed, n=3000, m=5, dummies=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    if dummies:
        X[:, 1:] = rng.integers(0, 6, n)[:, None] == np.arange(1, m)
    y = X @ rng.normal(size=m) + rng.laplace(size=n) + 2.0
    return X, y


def design_of(X, y, kind, weight=None):
    loss, ridge = LOSSES[kind]()
    target = (y > y.mean()).astype(float) if kind == "svm" else y
    run = Run(as_source(X, target, weight))
    return run, Design.of(loss, inspect(run), ridge=ridge)


def whole(run):
    return run.targets.code(run.source.every(1, 0))


def objective(run, design, point):
    chunk = whole(run)
    return float(chunk.weight @ design.loss.values(design.margins(chunk, point))) + design.penalty(point)


def model_at(design, chunk, point, leverage, kappa, thin=1):
    return local_model(design, chunk, NUMPY.local_sums(design, chunk, point, leverage, kappa), leverage, thin, NUMPY)


def one_step(run, design, point, kappa=3.0):
    chunk = whole(run)
    metric = Metric.of(design, NormalEquations.of(design, chunk).gram)
    model = model_at(design, chunk, point, metric.leverage(design, chunk), kappa)
    step, length = bounded_step(design, point, model, kappa, Damping(), metric)
    return point + design.step(step), length


@given(
    st.integers(0, 10_000), st.sampled_from(["lad", "tau 0.1"]), st.lists(st.integers(-20, 20), min_size=5, max_size=5)
)
@settings(max_examples=30)
def test_a_newton_step_does_not_depend_on_the_scale_of_columns(seed, kind, powers):
    """Regressions without penalty are equivariant; steps are taken in the metric of the rows."""
    X, y = rows(seed)
    scale = 2.0 ** np.array(powers)
    start = np.random.default_rng(seed).normal(size=6)
    run, design = design_of(X, y, kind)
    scaled_run, scaled_design = design_of(X * scale, y, kind)
    found, length = one_step(run, design, start)
    again, scaled_length = one_step(scaled_run, scaled_design, np.append(start[:5] / scale, start[5]))
    assert np.append(again[:5] * scale, again[5]) == pytest.approx(found, rel=1e-8, abs=1e-8)
    assert scaled_length == pytest.approx(length, rel=1e-8)


@pytest.mark.parametrize("kind", LOSSES)
def test_a_newton_step_does_not_depend_on_the_order_of_rows(kind):
    X, y = rows(3, dummies=True)
    order = np.random.default_rng(0).permutation(len(y))
    start = np.zeros(6)
    found, length = one_step(*design_of(X, y, kind), start)
    again, permuted_length = one_step(*design_of(X[order], y[order], kind), start)
    assert again == pytest.approx(found, rel=1e-9, abs=1e-10)
    assert permuted_length == pytest.approx(length, rel=1e-9)


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_the_local_model_is_the_smoothed_objective(kind, storage):
    """Forces are minus its gradient, near rows make up its Hessian: compared with differences."""
    X, y = rows(5, n=400)
    run, design = design_of(storage(X), y, kind)
    chunk, kappa = whole(run), 8.0
    metric = Metric.of(design, NormalEquations.of(design, chunk).gram)
    leverage = metric.leverage(design, chunk)
    point = np.random.default_rng(1).normal(size=6)

    def forces(at):
        return model_at(design, chunk, at, leverage, kappa).forces

    model = model_at(design, chunk, point, leverage, kappa)
    assert model.objective + design.penalty(point) == pytest.approx(objective(run, design, point), rel=1e-12)
    direction = np.random.default_rng(2).normal(size=6)
    h = 1e-6
    slope = (forces(point + design.step(h * direction)) - forces(point - design.step(h * direction))) / (2 * h)
    assert -slope == pytest.approx(model.hessian() @ direction, rel=1e-3, abs=1e-3 * np.abs(slope).max())


@given(st.integers(0, 10_000), st.sampled_from(sorted(LOSSES)), st.booleans())
@settings(max_examples=25)
def test_sharpening_never_increases_the_objective(seed, kind, dummies):
    X, y = rows(seed, dummies=dummies)
    run, design = design_of(X, y, kind)
    sharp = Sharpening(Samples(run, design, np.random.default_rng(0)), run, design)
    before = sharp.on_samples(None)
    after = sharp.on_all_entries(before)
    assert objective(run, design, after.point) <= objective(run, design, before) * (1 + 1e-6)
    assert after.reach > 0


@pytest.mark.parametrize("kind", LOSSES)
def test_far_rows_of_a_cluster_lie_in_one_region(kind):
    X, y = rows(7)
    run, design = design_of(X, y, kind)
    problem = PiecewiseLinear(run, design, Procedure(SOLVERS["auto"], Band(), rng=np.random.default_rng(0)))
    start = problem.start()
    labels = start.clusters.labels()
    chunk = whole(run)
    regions = problem.regions.of(design.margins(chunk, start.incumbent.point))
    for cluster in np.flatnonzero(start.clusters.counts > 1):
        assert len(np.unique(regions[labels == cluster])) == 1
        if design.loss.classifies:
            assert len(np.unique(chunk.y[labels == cluster])) == 1
    assert start.incumbent.objective == pytest.approx(objective(run, design, start.incumbent.point), rel=1e-12)


@given(st.integers(2000, 10**9), st.integers(1, 1000))
def test_samples_are_systematic_with_a_prime_step(n, p):
    class Described:
        n_entries = n
        budget = Run(as_source(np.ones((2, 1)), np.ones(2))).budget

    wanted = largest_sample(Described, p, np.random.default_rng(0))
    assert 0 <= wanted.offset < wanted.step
    assert all(wanted.step % factor for factor in range(2, int(wanted.step**0.5) + 1))


@given(st.integers(0, 10_000), st.sampled_from(["lad", "svm"]), st.integers(2, 30))
@settings(max_examples=25)
def test_thinned_rows_stand_for_all(seed, kind, thin):
    """Also those of a level of a hundred rows, of which every k-th row would leave only a few."""
    X, y = rows(seed, n=20_000)
    X[:, 4] = np.arange(20_000) % 200 == 0
    run, design = design_of(X, y, kind)
    chunk = whole(run)
    leverage = Metric.of(design, NormalEquations.of(design, chunk).gram).leverage(design, chunk)
    every, thinned = (model_at(design, chunk, np.zeros(6), leverage, 1e3, k).hessian() for k in (1, thin))
    factor = np.linalg.eigvals(np.linalg.solve(every, thinned)).real
    assert factor.min() > 0.5
    assert factor.max() < 2


@given(st.integers(1, 10**7), st.integers(1, 2000))
def test_more_rows_are_thinned_more_and_more_columns_less(n, p):
    assert 1 <= thinning(n, p) <= thinning(2 * n, p)
    assert thinning(n, 2 * p) <= thinning(n, p)
    # What is aggregated stays aggregated with more rows or fewer columns.
    assert few_entries(n, p) or not few_entries(2 * n, p)
    assert few_entries(n, 2 * p) or not few_entries(n, p)


def test_leverages_add_up_to_the_rank():
    """The sum of squared leverages of all rows is the number of variables (here within the scatter of the sketch)."""
    X, y = rows(11)
    run, design = design_of(X, y, "lad")
    chunk = whole(run)
    metric = Metric.of(design, NormalEquations.of(design, chunk).gram)
    assert (metric.leverage(design, chunk) ** 2).sum() == pytest.approx(6, rel=0.5)
    assert isinstance(chunk, Chunk)


@pytest.mark.parametrize("init", ["birch", "kmeans", "band"])
@pytest.mark.parametrize("value", [0.0, 1.0, -3e9, 1e50])
def test_starts_of_a_constant_target_without_an_intercept(init, value):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = LADRegressor(init=init, fit_intercept=False, random_state=0).fit(X, np.full(60, value))
    expected = 2 * highs_quantile(X, np.ones(60), fit_intercept=False) * abs(value)
    assert model.objective_ == pytest.approx(expected, rel=2e-4, abs=0.0)
    assert model.lower_bound_ <= expected * (1 + 1e-9)
