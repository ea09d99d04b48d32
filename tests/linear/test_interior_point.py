"""The interior point against HiGHS, and its bounds when it is stopped early."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aidlearn.engine.problem import Accuracy
from aidlearn.linear.aggregated import interior_point
from aidlearn.linear.aggregated.hinge_rows import Basis, HingeRows
from aidlearn.linear.aggregated.solvers import SOLVERS
from oracles import highs_quantile


def instance(seed, n, p, tau):
    rng = np.random.default_rng(seed)
    A = np.column_stack([rng.normal(size=(n, p)), np.ones(n)])
    e = A @ rng.normal(size=p + 1) + rng.laplace(size=n)
    s = 10.0 ** rng.uniform(-2, 2, n)
    return HingeRows.of_array(A, e, s, np.full(n, 1 - tau), np.zeros(p + 1))


@given(st.integers(0, 10_000), st.integers(1, 120), st.integers(1, 8), st.floats(0.02, 0.98))
def test_value_and_bound_enclose_the_optimum(seed, n, p, tau):
    rows = instance(seed, n, p, tau)
    optimum = highs_quantile(rows.A.array[:, :-1], rows.e, tau, rows.weight)
    found = interior_point.solve(rows, np.zeros(p + 1), 1e-9)
    slack = 1e-9 * (rows.weight @ np.abs(rows.e))
    assert found.certificate.bound <= optimum + slack
    assert found.value >= optimum - slack
    assert found.value - found.certificate.bound <= 1e-8 * found.value + slack


@given(st.integers(0, 10_000), st.integers(0, 12))
def test_bound_is_proven_however_early_the_solver_stops(seed, iterations):
    rows = instance(seed, 60, 4, 0.3)
    optimum = highs_quantile(rows.A.array[:, :-1], rows.e, 0.3, rows.weight)
    few = replace(interior_point.SETTINGS, max_iterations=iterations)
    with patch.object(interior_point, "SETTINGS", few):
        found = interior_point.solve(rows, np.zeros(5), 1e-12)
    assert found.certificate.bound <= optimum * (1 + 1e-9)
    assert found.value >= optimum * (1 - 1e-9)


@given(st.integers(0, 10_000), st.integers(1, 120), st.integers(1, 8))
def test_dual_is_feasible(seed, n, p):
    rows = instance(seed, n, p, 0.6)
    dual = interior_point.solve(rows, np.zeros(p + 1), 1e-6).certificate.dual
    assert (dual >= rows.lower).all()
    assert (dual <= rows.upper).all()
    assert np.abs(rows.A.T @ dual).max() <= 1e-12 * (abs(rows.A).T @ np.abs(dual)).max() + 1e-14


@pytest.mark.parametrize("seed", range(20))
def test_zero_tolerance_is_verified(seed):
    found = interior_point.solve(instance(seed, 200, 6, 0.4), np.zeros(7), 0.0)
    assert found.verified
    assert found.gap <= 1e-12 * found.value


@pytest.mark.parametrize("seed", range(10))
def test_ridge_problem_matches_a_quadratic_solver(seed):
    """With P = 1 on the slopes: the weighted hinge SVM in its dual, by SLSQP."""
    from scipy import optimize

    rng = np.random.default_rng(seed)
    n, p = 25, 3
    X = rng.normal(size=(n, p))
    label = np.where(X[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)
    label[:2] = 1, -1
    A = np.column_stack([X, np.ones(n)]) * label[:, None]
    s = rng.uniform(0.1, 2, n)
    rows = HingeRows.of_array(A, np.ones(n), s, np.zeros(n), np.array([1.0] * p + [0.0]))
    answer = optimize.minimize(
        lambda u: 0.5 * np.sum((A[:, :-1].T @ u) ** 2) - u.sum(),
        np.full(n, 0.05),
        jac=lambda u: A[:, :-1] @ (A[:, :-1].T @ u) - 1,
        bounds=list(zip(np.zeros(n), s, strict=True)),
        constraints={"type": "eq", "fun": lambda u: label @ u, "jac": lambda u: label},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-13},
    )
    found = interior_point.solve(rows, np.zeros(p + 1), 1e-9)
    assert found.value == pytest.approx(-answer.fun, rel=1e-6)
    assert found.certificate.bound <= -answer.fun * (1 + 1e-7)


@given(st.integers(0, 1000), st.sampled_from(["auto", "highs"]))
def test_solvers_by_name_agree(seed, name):
    rows = instance(seed, 80, 3, 0.7)
    optimum = highs_quantile(rows.A.array[:, :-1], rows.e, 0.7, rows.weight)
    found = SOLVERS[name](rows, None, True, Accuracy(1e-9, np.inf))
    assert found.lower_bound == pytest.approx(optimum, rel=1e-7)
    assert found.lower_bound <= optimum * (1 + 1e-9)
    assert rows.value(found.point) == pytest.approx(optimum, rel=1e-7)


@pytest.mark.parametrize("seed", [0, 2, 5, 8, 20])
def test_a_start_next_to_its_bounds_reaches_the_gap(seed):
    rng = np.random.default_rng(seed)
    n, p = 400, 10
    A = np.column_stack([rng.normal(size=(n, p)), np.ones(n)]) * np.where(rng.random(n) < 0.5, 1, -1)[:, None]
    weight = np.where(np.arange(n) < 20, 1e4, 1.0)  # a few sums of many rows, which w puts on the wrong side
    rows = HingeRows.of_array(A, np.ones(n), weight, np.zeros(n), np.append(np.ones(p), 0.0))
    found = interior_point.solve(rows, 3 * rng.normal(size=p + 1), 1e-6)
    assert found.gap <= 1e-6 * found.value


def test_basis_round_trip():
    rows = instance(3, 50, 4, 0.5)
    point = np.arange(5.0)
    basis = Basis.of(rows, point + 1, True)
    assert basis.to_point(basis.to_coordinates(point)) == pytest.approx(point)
    scaled = basis.apply(rows)
    assert basis.unit * scaled.margins(basis.to_coordinates(point)) == pytest.approx(rows.margins(point))
