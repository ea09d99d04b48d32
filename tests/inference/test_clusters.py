"""Clusters move fits further than their rows would: the design effect, and a bootstrap that knows of it."""

from dataclasses import replace

import numpy as np
import pytest

import aidlearn
from aidlearn import LinearSVC, QuantileRegressor
from aidlearn.data.passes.moments import inspect
from aidlearn.estimators.linear.fitted_rows import fitted_run
from aidlearn.inference.clusters import ClusterCodes, design_effect
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import epsilon_insensitive, hinge, pinball
from aidlearn.neighbours import replicates as vertices
from aidlearn.neighbours.batch import Batch, Member


def clustered(n=6000, size=30, seed=0):
    """One column and half of the errors are shared by the rows of a cluster."""
    rng = np.random.default_rng(seed)
    groups = np.arange(n) // size
    shared = rng.normal(size=(n // size, 2))[groups]
    X = np.column_stack([rng.normal(size=n), shared[:, 0]])
    return X, X @ [1.0, -1.0] + 2 + (shared[:, 1] + rng.normal(size=n)), groups


@pytest.mark.parametrize("loss", [pinball(0.3), hinge(2.0), epsilon_insensitive(1.0, 0.4)])
def test_slopes_are_the_differences_of_values(loss):
    z = np.random.default_rng(0).normal(size=500)
    z = z[loss.distance(z) > 1e-5]
    difference = (loss.values(z + 1e-6) - loss.values(z - 1e-6)) / 2e-6
    assert loss.slopes(z) == pytest.approx(difference, abs=1e-6)


@pytest.mark.parametrize("dependent", [True, False])
@pytest.mark.parametrize("quantile", [0.5, 0.9])
def test_the_design_effect_is_that_of_the_formula(quantile, dependent):
    X, y, groups = clustered()
    if not dependent:
        groups = np.random.default_rng(1).permutation(groups)
    model = QuantileRegressor(quantile=quantile, tol=1e-8).fit(X, y)
    run = fitted_run(model, X, y, None)
    design = Design.of(pinball(quantile), inspect(run, True))
    batch = Batch(run, design, [Member(design.loss)])
    point = np.append(model.coef_, model.intercept_)
    found = design_effect(run, design, point, batch.metric, ClusterCodes.of(groups))
    rows = np.column_stack([X, np.ones(len(y))])
    scores = rows * (quantile - (y <= model.predict(X)))[:, None]
    sums = np.array([scores[groups == g].sum(axis=0) for g in range(groups.max() + 1)])
    inverse = np.linalg.inv(rows.T @ rows)
    expected = np.trace(inverse @ sums.T @ sums) / np.trace(inverse @ scores.T @ scores)
    assert found == pytest.approx(max(1.0, expected), rel=0.35)  # a sketch of the trace
    assert (found > 4) if dependent else (found < 1.5)


def test_replicates_of_clusters_are_seldom_fitted_on_all_rows(monkeypatch):
    """A band for independent rows left 60 of 200 such replicates to a fit of their own each."""
    # Of few rows nothing is far.
    monkeypatch.setattr(vertices, "SETTINGS", replace(vertices.SETTINGS, most_cells=0))
    X, y, groups = clustered()
    model = QuantileRegressor(quantile=0.5, tol=1e-7).fit(X, y)
    found = aidlearn.bootstrap(model, X, y, 60, "cluster", groups, random_state=0)
    assert found.n_refitted <= 0.1 * 60
    assert found.gaps.max() <= 1e-7
    labels = y > 2
    svm = LinearSVC(C=0.1).fit(X, labels)
    found = aidlearn.bootstrap(svm, X, labels, 30, "cluster", groups, random_state=0)
    assert found.n_refitted <= 0.1 * 30
    assert found.gaps.max() <= 1e-5
