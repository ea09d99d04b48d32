"""The example of facility location: an aggregation that is a restriction, and bounds from dual points of customers."""

import importlib.util
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from aidlearn import Status
from aidlearn.engine import Limits, aid
from aidlearn.engine.problem import Accuracy
from aidlearn.testing import check_problem

EXAMPLE = Path(__file__).parents[2] / "examples" / "facility_location.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("facility_location", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def brute_force(costs, sizes, opening, weight):
    sets = [np.array(s) for k in sizes for s in combinations(range(costs.shape[1]), k)]
    return min(weight @ costs[:, s].min(axis=1) + opening[s].sum() for s in sets)


def mixed_integer_optimum(costs, n_open):
    """The full program by HiGHS: x_ij of every customer and site, x_ij <= y_j."""
    n, m = costs.shape
    each = sparse.hstack([sparse.kron(sparse.eye_array(n), np.ones((1, m))), sparse.csr_array((n, m))])
    below = sparse.hstack([sparse.eye_array(n * m), -sparse.kron(np.ones((n, 1)), sparse.eye_array(m))])
    total = np.append(np.zeros(n * m), np.ones(m))
    found = milp(
        np.append(costs.ravel(), np.zeros(m)),
        constraints=[
            LinearConstraint(each, 1, 1),
            LinearConstraint(below, -np.inf, 0),
            LinearConstraint(total[None], n_open, n_open),
        ],
        integrality=np.append(np.zeros(n * m), np.ones(m)),
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 0},
    )
    assert found.status == 0
    return found.fun


@pytest.mark.parametrize("seed", range(12))
def test_small_instances_against_all_sets(example, seed):
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 60)), int(rng.integers(2, 8))
    costs = rng.integers(0, 6, size=(n, m)).astype(float) if seed % 3 == 0 else rng.exponential(size=(n, m))
    weight = rng.integers(1, 4, size=n).astype(float)
    opening = rng.exponential(size=m) * (seed % 2) * n / 4
    n_open = None if seed % 4 == 1 else int(rng.integers(1, m + 1))
    sizes = range(1, m + 1) if n_open is None else [n_open]
    optimum = brute_force(costs, sizes, opening, weight)
    result = aid(
        example.FacilityLocation(costs, n_open, opening, weight), Limits(tol=0 if seed % 2 else 1e-9, max_iter=500)
    )
    assert result.status.reached_tolerance
    assert result.objective == pytest.approx(optimum, rel=1e-12, abs=1e-12)
    assert all(record.lower_bound <= optimum + 1e-9 * abs(optimum) + 1e-12 for record in result.history)


def test_against_the_full_mixed_integer_program(example):
    costs = example.in_the_plane(300, 50, 7)
    result = aid(example.FacilityLocation(costs, n_open=6), Limits(tol=1e-9))
    assert result.status.reached_tolerance
    optimum = mixed_integer_optimum(costs, 6)
    assert result.objective == pytest.approx(optimum, rel=1e-9)
    assert result.lower_bound <= optimum * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_aggregated_objective_is_an_upper_bound_for_every_set(example, seed):
    costs = example.in_the_plane(200, 6, seed)
    problem = example.FacilityLocation(costs, n_open=2)
    sums = problem.start().clusters.sums
    for point in map(np.array, combinations(range(6), 2)):
        assert problem.aggregated(sums, point) >= costs[:, point].min(axis=1).sum() * (1 - 1e-12)


def test_uncut_clusters_prove_nothing(example):
    """The aggregated optimum cuts no cluster, and its set is not the best: its value is no bound."""
    costs = np.array([[5.0, 20, 4], [20, 5, 4], [0, 20, 9], [20, 0, 9]])
    sums = np.array([costs[0] + costs[1], costs[2], costs[3]])
    problem = example.FacilityLocation(costs, n_open=2)
    sets = [np.array(s) for s in combinations(range(3), 2)]
    best = min(sets, key=lambda s: problem.aggregated(sums, s))
    assert len(set(costs[:2, best].argmin(axis=1))) == 1
    assert problem.aggregated(sums, best) == costs[:, best].min(axis=1).sum() == 17
    assert brute_force(costs, [2], np.zeros(3), np.ones(4)) == 10
    result = aid(problem, Limits(tol=1e-9))
    assert result.objective == 10
    assert result.lower_bound <= 10


@pytest.mark.parametrize("seed", range(2))
def test_conforms(example, seed):
    costs = example.in_the_plane(150, 8, seed)
    optimum = brute_force(costs, [3], np.zeros(8), np.ones(150))
    check_problem(example.FacilityLocation(costs, n_open=3), optimum=optimum)


def test_every_cut_is_below_the_costs_of_every_set(example):
    rng = np.random.default_rng(0)
    costs, weight, groups = rng.exponential(size=(40, 5)), rng.uniform(0, 3, size=40), rng.integers(0, 3, size=40)
    points = [rng.dirichlet(np.ones(5)) * rng.uniform(0.2, 4) for _ in range(20)]
    cuts = example.cuts_at(points, costs, weight, groups, 3)
    for k in range(1, 6):
        for point in map(np.array, combinations(range(5), k)):
            y = np.isin(np.arange(5), point).astype(float)
            true = np.bincount(groups, weights=weight * costs[:, point].min(axis=1), minlength=3)
            assert (cuts.fixed - cuts.saved @ y <= true + 1e-12).all()


def test_a_hurried_search_still_has_a_bound(example):
    costs = np.random.default_rng(3).uniform(size=(200, 12))
    problem = example.FacilityLocation(costs, n_open=4)
    clusters = problem.start().clusters
    solution = problem.solve_aggregated(clusters, None, Accuracy(0.0, 0.0))
    optimum = brute_force(costs, [4], np.zeros(12), np.ones(200))
    assert len(solution.point) == 4
    assert 0 < solution.lower_bound <= optimum


def test_the_limit_on_time(example):
    costs = np.random.default_rng(4).uniform(size=(300, 30))
    result = aid(example.FacilityLocation(costs, n_open=8), Limits(tol=1e-9, time_limit=0.3))
    assert result.status is Status.time_limit
    assert 0 < result.lower_bound < result.objective


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n_open": 0}, "n_open must be 1 to 3"),
        ({"n_open": 4}, "n_open must be 1 to 3"),
        ({"opening": [1.0, -1.0, 0.0]}, "not negative"),
    ],
)
def test_refusals(example, arguments, words):
    with pytest.raises(ValueError, match=words):
        example.FacilityLocation(np.ones((4, 3)), **arguments)


def test_negative_costs_are_refused(example):
    with pytest.raises(ValueError, match="Costs must not be negative, got -1"):
        aid(example.FacilityLocation(np.array([[1.0, -1.0], [1.0, 2.0]]), n_open=1), Limits())
