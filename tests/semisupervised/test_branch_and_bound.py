"""Branch and bound on cluster labels against enumeration, every labelling solved by libsvm or coordinate ascent."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from aidlearn.semisupervised import branch_and_bound
from aidlearn.semisupervised.branch_and_bound import SearchLimits, SemiSupervisedRows, search
from aidlearn.semisupervised.node_qp import ActiveSet, InteriorPoint, NodeRows


def free_intercept(A, weight, sides):
    """Values that enclose the optimum of the SVM over rows of labels: dual and primal values of libsvm's solutions."""
    lower, upper = np.inf, np.inf
    for side in sides:
        if len(np.unique(side)) == 1:
            return 0.0, 0.0  # w = 0, b = side
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = SVC(kernel="linear", tol=1e-7, max_iter=50_000).fit(A, side, sample_weight=weight)
        w = model.coef_[0]
        lower = min(lower, float(np.abs(model.dual_coef_).sum() - 0.5 * (w @ w)))
        kinks = (side - A @ w)[:, None]
        upper = min(upper, 0.5 * (w @ w) + (np.maximum(0.0, 1.0 - side * (A @ w + kinks)) @ weight).min())
    return lower, upper


def fixed_intercept(A, weight, sides, b):
    """The same with b given, all rows of labels at once by dual coordinate ascent: proven lower and upper values."""
    target = 1.0 - sides * b
    squares = (A**2).sum(axis=1)
    alpha, v = np.zeros(sides.shape), np.zeros((len(sides), A.shape[1]))
    for sweep in range(600):
        for k, row in enumerate(A):
            moved = np.clip(alpha[:, k] + (target[:, k] - sides[:, k] * (v @ row)) / squares[k], 0.0, weight[k])
            v += ((moved - alpha[:, k]) * sides[:, k])[:, None] * row
            alpha[:, k] = moved
        if sweep % 50 == 49:
            norms = 0.5 * (v * v).sum(axis=1)
            upper = (norms + np.maximum(0.0, target - sides * (v @ A.T)) @ weight).min()
            lower = ((target * alpha).sum(axis=1) - norms).min()
            if upper - lower <= 1e-6 * upper + 1e-12:
                break
    return lower, upper


def brute_force(rows):
    """Values that enclose the optimum over all labellings of the unlabelled rows."""
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=len(rows.weight) - len(rows.labels))))
    sides = np.hstack([np.tile(rows.labels, (len(signs), 1)), signs])
    if rows.intercept is None:
        return free_intercept(rows.A, rows.weight, sides)
    return fixed_intercept(rows.A, rows.weight, sides, rows.intercept)


@st.composite
def aggregated(draw):
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    labelled, unlabelled, d = draw(st.integers(2, 6)), draw(st.integers(0, 5)), draw(st.integers(1, 4))
    labels = np.where(rng.random(labelled) < 0.5, 1.0, -1.0)
    labels[:2] = 1.0, -1.0
    A = rng.normal(size=(labelled + unlabelled, d)) * draw(st.sampled_from([0.1, 1.0, 10.0]))
    A[:labelled, 0] += labels
    weight = 10.0 ** rng.uniform(0, 4, len(A)) if draw(st.booleans()) else np.ones(len(A))
    weight *= draw(st.sampled_from([1e-3, 1.0]))
    balance = draw(st.sampled_from([None, "constraint", "cost"]))
    if balance == "cost":
        few = (labels > 0).sum(), (labels < 0).sum()
        weight[:labelled] *= np.where(labels > 0, max(1, few[1] / few[0]), max(1, few[0] / few[1]))
    return SemiSupervisedRows(A, weight, labels, float(labels.mean()) if balance == "constraint" else None)


@settings(max_examples=200, deadline=None)
@given(aggregated())
def test_equals_brute_force(rows):
    found = search(rows, SearchLimits(1e-6))
    lower, upper = brute_force(rows)
    assert found.closed
    assert lower * (1 - 2e-6) - 1e-9 <= found.value <= upper * (1 + 2e-5) + 1e-9
    assert found.bound <= upper * (1 + 1e-6) + 1e-9
    assert found.value == pytest.approx(rows.value(found.v, rows.A @ found.v + found.b))


@settings(max_examples=30, deadline=None)
@given(aggregated(), st.integers(0, 6))
def test_bound_is_proven_when_the_search_is_stopped(rows, nodes):
    assert search(rows, SearchLimits(1e-7, nodes=nodes)).bound <= brute_force(rows)[1] * (1 + 1e-6) + 1e-9


@settings(max_examples=100, deadline=None)
@given(aggregated(), st.integers(0, 10**6))
def test_the_two_node_solvers_agree(rows, seed):
    """Each other's bound never exceeds a value, and both are tight; scores with intervals included."""
    rng = np.random.default_rng(seed)
    nodes = NodeRows(rows.A, rows.weight, rows.intercept)
    state = rng.choice([-1, 0, 1, 2], len(rows.weight))
    lower = np.where(state == 1, 1.0, np.where(state == 2, -0.2, -np.inf))
    upper = np.where(state == -1, -1.0, np.where(state == 2, 0.2, np.inf))
    one, two = ActiveSet(nodes).solve(lower, upper), InteriorPoint(nodes).solve(lower, upper)
    for bound, value in itertools.product((one.bound, two.bound), (one.value, two.value)):
        assert bound <= value * (1 + 1e-9) + 1e-12
    for found in (one, two):
        assert found.bound == pytest.approx(found.value, rel=2e-6, abs=1e-9)


def test_without_daqp_the_interior_point_takes_its_place(monkeypatch):
    rng = np.random.default_rng(3)
    rows = SemiSupervisedRows(rng.normal(size=(12, 3)), np.ones(12), np.array([1.0, -1.0, 1.0, -1.0]))
    with_daqp = search(rows, SearchLimits())
    monkeypatch.setattr(branch_and_bound, "node_solver", InteriorPoint)
    without = search(rows, SearchLimits())
    assert without.closed
    assert without.value == pytest.approx(with_daqp.value, rel=1e-5)
