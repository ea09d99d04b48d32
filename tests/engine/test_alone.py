"""Every entry its own cluster: the aggregated problem is the original one."""

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn import svm

from aidlearn import SVC, LADRegressor, LinearSVC, Status
from aidlearn.data import as_source
from aidlearn.data.passes.moments import inspect
from aidlearn.data.passes.run import Run
from aidlearn.engine import Assignment, Clusters
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import absolute, hinge
from aidlearn.linear.problem import PiecewiseLinear, Procedure


def rows(n=90, m=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    return X, X @ rng.normal(size=m) + rng.normal(size=n)


@pytest.mark.parametrize("loss", [absolute(), hinge(2.0)])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_sums_are_those_of_single_entries(loss, intercept, weighted):
    X, y = rows()
    y = (y > 0).astype(float) if loss.classifies else y
    weight = np.random.default_rng(1).integers(0, 3, size=len(y)).astype(float) if weighted else None
    run = Run(as_source(X, y, weight))
    problem = PiecewiseLinear(run, Design.of(loss, inspect(run), fit_intercept=intercept), Procedure(None, None))
    alone = Clusters.alone(problem)

    def assign(chunk, state):
        return Assignment(np.zeros(chunk.n_entries, dtype=np.int32), np.ones(chunk.n_entries, dtype=bool))

    one_by_one, _ = Clusters.build(problem, assign, 1)
    np.testing.assert_array_equal(alone.sums, one_by_one.sums)
    np.testing.assert_array_equal(alone.labels(), one_by_one.labels())
    np.testing.assert_array_equal(alone.counts, one_by_one.counts)


@pytest.mark.parametrize("seed", range(6))
def test_small_regressions_are_optimal(seed):
    X, y = rows(n=30 + 70 * seed, m=2 + seed, seed=seed)
    y = np.round(y) if seed % 2 else y  # tied residuals
    model = LADRegressor().fit(X, y)
    n, m = X.shape
    A = np.hstack([X, np.ones((n, 1)), np.eye(n), -np.eye(n)])
    cost = np.concatenate([np.zeros(m + 1), np.ones(2 * n)])
    best = linprog(cost, A_eq=A, b_eq=y, bounds=[(None, None)] * (m + 1) + [(0, None)] * (2 * n), method="highs").fun
    assert model.status_ is Status.optimal
    assert model.objective_ == pytest.approx(best, rel=1e-9)
    assert model.lower_bound_ <= best * (1 + 1e-9)
    assert (model.n_iter_, model.n_passes_, model.n_clusters_, len(model.history_)) == (1, 3, n, 1)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_small_machines_are_optimal(C):
    X, y = rows(n=120, m=3, seed=3)
    labels = y > 0
    model = LinearSVC(C=C).fit(X, labels)
    peer = svm.SVC(kernel="linear", C=C, tol=1e-9).fit(X, labels)
    margins = np.where(labels, 1.0, -1.0) * peer.decision_function(X)
    value = 0.5 * float(np.sum(peer.coef_**2)) + C * float(np.maximum(0.0, 1 - margins).sum())
    assert model.status_ is Status.optimal
    assert model.lower_bound_ <= value
    assert model.objective_ == pytest.approx(value, rel=1e-5)  # libsvm is no closer for C=100
    off = np.abs(1 - np.where(labels, 1.0, -1.0) * model.decision_function(X)) > 1e-6
    duals = np.zeros(len(y))
    duals[model.support_] = np.abs(model.dual_coef_[0])
    at_bound = np.minimum(duals, C - duals)[off]  # off the margin a dual is 0 or C
    assert np.abs(at_bound).max() <= 1e-12 * C


@pytest.mark.parametrize("estimator", [LADRegressor, LinearSVC, SVC])
@pytest.mark.parametrize("state", ["seven", -1, 1.5])
def test_random_states_are_checked_where_nothing_is_random(estimator, state):
    X, y = rows()
    with pytest.raises(ValueError, match="random_state must be None, a non-negative integer"):
        estimator(random_state=state).fit(X, y > 0)
