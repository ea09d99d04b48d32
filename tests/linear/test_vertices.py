"""Walks from vertex to vertex: optimal by HiGHS, proven, and given up where they cannot end."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aidlearn
from aidlearn import LADRegressor, QuantileRegressor
from aidlearn.estimators.linear.fitted_rows import fitted_run, unfitted
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import pinball
from aidlearn.neighbours import replicates as vertices
from aidlearn.neighbours.compiled_replicates import selected
from aidlearn.neighbours.replicates import Vertices, suits
from oracles import highs_quantile


def walked(X, y, quantile, weight=None, fit_intercept=True, tol=1e-4):
    """The rows of a fit, ready for replicates."""
    model = QuantileRegressor(quantile=quantile, fit_intercept=fit_intercept, tol=tol, n_jobs=1).fit(X, y, weight)
    run = fitted_run(model, X, y, weight)
    rows = unfitted(model)._measured(run)
    run, moments, offset = rows.run, rows.moments, rows.offset
    design = Design.of(pinball(quantile), moments, fit_intercept=fit_intercept, offset=offset)
    assert suits(run, design)
    point = np.append(model.coef_, model.intercept_ - offset) if fit_intercept else model.coef_
    return Vertices.of(run, design, point)


@given(st.integers(0, 10**6), st.integers(1, 6), st.sampled_from([0.03, 0.3, 0.5, 0.9]), st.booleans())
@settings(max_examples=40, deadline=None)
def test_replicates_are_optimal(seed, p, quantile, fit_intercept):
    """Whatever the weights, zeros and ones of very different size among them."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3 * p + 5, 400))
    X = rng.normal(size=(n, p)) * 10.0 ** rng.integers(-3, 4, size=p) + rng.integers(-2, 3)
    y = X @ rng.normal(size=p) / np.abs(X).max() + rng.standard_t(2, size=n) + 100 * rng.integers(0, 2)
    rows = walked(X, y, quantile, fit_intercept=fit_intercept)
    assert rows is not None
    for weight in (np.ones(n), rng.exponential(size=n), rng.integers(0, 3, n).astype(float), 10 ** rng.normal(size=n)):
        found = rows.solve(weight)
        assert found is not None
        kept = np.column_stack([X, np.ones(n)]) if fit_intercept else X
        optimum = highs_quantile(kept, y, quantile, weight, fit_intercept=False)
        assert found.objective == pytest.approx(optimum, rel=1e-8)
        assert found.lower_bound <= found.objective
        assert found.gap <= 1e-9


@pytest.mark.parametrize("quantile", [0.5, 0.2])
def test_ties(quantile):
    """Whole numbers: many rows on their kink at once, where a walk may go round in circles."""
    for seed in range(15):
        rng = np.random.default_rng(seed)
        X = rng.integers(0, 3, size=(300, 2)).astype(float)
        y = X.sum(axis=1) + rng.integers(-2, 3, 300)
        rows = walked(X, y, quantile)
        weight = rng.exponential(size=300)
        found = rows.solve(weight)
        assert found.gap <= 1e-8
        assert found.objective == pytest.approx(highs_quantile(X, y, quantile, weight), rel=1e-8)
        assert found.lower_bound <= found.objective


def test_what_a_walk_gives_up_is_fitted(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = X.sum(axis=1) + rng.normal(size=300)
    model = LADRegressor(tol=1e-8).fit(X, y)
    before = aidlearn.bootstrap(model, X, y, 10, random_state=0)
    assert before.n_refitted == 0
    walk = Vertices.solve
    calls = iter(range(100))
    monkeypatch.setattr(Vertices, "solve", lambda self, weight: walk(self, weight) if next(calls) % 2 else None)
    after = aidlearn.bootstrap(model, X, y, 10, random_state=0)
    assert after.n_refitted == 5
    assert after.gaps.max() <= 1e-8
    assert after.objectives == pytest.approx(before.objectives, rel=1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_the_selection_is_that_of_sorted_places(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    places, sizes = rng.integers(0, 12, n).astype(float), rng.random(n)
    wanted = rng.random() * sizes.sum() * 1.1
    order = np.argsort(places, kind="stable")
    place = np.searchsorted(np.cumsum(sizes[order]), wanted)
    row = selected(places.copy(), sizes.copy(), np.arange(n), n, wanted)
    if place == n:
        assert row == -1
    else:
        assert places[row] == places[order[place]]


def test_problems_of_other_kinds_are_left_to_others(monkeypatch):
    """Penalties, constant columns and many rows: the same replicates by other means."""
    from scipy import sparse

    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 3))
    y = X.sum(axis=1) + rng.laplace(size=800)
    models = LADRegressor(tol=1e-8).fit(X, y), LADRegressor(tol=1e-8, alpha=0.1).fit(X, y)
    for model in models:
        here = aidlearn.bootstrap(model, X, y, 5, random_state=0)
        with monkeypatch.context() as patched:
            patched.setattr(vertices, "SETTINGS", replace(vertices.SETTINGS, most_cells=0))
            there = aidlearn.bootstrap(model, X, y, 5, random_state=0)
        assert here.coefficients == pytest.approx(there.coefficients, abs=1e-3)
        assert here.objectives == pytest.approx(there.objectives, rel=1e-7)
    thin = aidlearn.bootstrap(models[0], sparse.csr_array(X), y, 5, random_state=0)
    assert thin.objectives == pytest.approx(aidlearn.bootstrap(models[0], X, y, 5, random_state=0).objectives, rel=1e-7)
    wide = np.column_stack([X, np.full(800, 2.0)])
    constant = aidlearn.bootstrap(LADRegressor(tol=1e-8).fit(wide, y), wide, y, 5, random_state=0)
    assert (constant.coefficients[:, -1] == 0).all()
