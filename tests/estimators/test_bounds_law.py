"""A law of every model: no bound above its objective, no negative gap, and no success without its bound."""

from dataclasses import replace

import numpy as np
import pytest

from aidlearn.engine.result import Result, Status, relative_gap
from aidlearn.estimators import fitting
from aidlearn.estimators.fits import fits_of
from aidlearn.estimators.registry import IN_FILES
from aidlearn.neighbours.batch import Solved

GIVEN = {
    "SemiSupervisedSVC": {"max_iter": 2, "node_limit": 50},
    "LinearSVCCV": {"Cs": [0.1, 1.0], "cv": 3},
    "QuantileRegressorCV": {"alphas": [0.01, 0.1], "cv": 3},
    "PiecewiseLinearModel": {"kinks": [0.25], "slopes": [-20.0, 0.0]},
}
MANY = {"QuantileRegressor": {"quantile": [0.1, 0.5, 0.9]}}


def fitted(name, seed, **given):
    rng = np.random.default_rng(seed)
    n, m = int(rng.choice([30, 120])), 4
    X = rng.normal(size=(n, m))
    kind, parameters = IN_FILES[name], {**GIVEN.get(name, {}), **given}
    if name == "PiecewiseLinearModel":
        root = rng.normal(size=(m, 3))
        parameters["quadratic"] = root @ root.T
    y = X[:, 0] + rng.laplace(size=n)
    if kind.classifies:
        y = np.digitize(y, [-0.5, 0.5] if seed % 2 else [0.0])
    if kind.unlabelled_rows:
        y = np.where(rng.random(n) < 0.5, -1, y)
    model = kind.estimator(**parameters)
    return model.fit(X, y) if kind.needs_target else model.fit(X)


def check_law(model):
    for fit in fits_of(model):
        assert fit.gap >= 0
        assert fit.lower_bound <= fit.objective
        if fit.status in (Status.optimal, Status.gap, Status.certified):
            assert fit.gap <= max(model.tol, 1e-9)
        for record in fit.history:
            assert record.gap >= 0
            assert record.best_lower_bound <= record.best_objective


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", sorted(IN_FILES))
def test_no_bound_is_above_its_objective(name, seed):
    check_law(fitted(name, seed))
    if name in MANY:
        check_law(fitted(name, seed, **MANY[name]))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", sorted(IN_FILES))
def test_a_false_bound_is_no_success(name, seed, monkeypatch):
    aid = fitting.aid

    def misled(problem, *others):
        solve = problem.solve_aggregated

        def too_high(*arguments):
            solution = solve(*arguments)
            return replace(solution, lower_bound=1e9 + 2 * abs(solution.lower_bound))

        monkeypatch.setattr(problem, "solve_aggregated", too_high, raising=False)
        return aid(problem, *others)

    monkeypatch.setattr(fitting, "aid", misled)
    model = fitted(name, seed)
    check_law(model)
    for fit in fits_of(model):
        # A fit without any loss needs no bound but 0.
        assert fit.objective == 0 or not fit.status.reached_tolerance


@pytest.mark.parametrize("seed", range(60))
def test_singular_quadratic_terms_are_never_negative(seed):
    model = fitted("PiecewiseLinearModel", seed)
    assert 0 <= model.lower_bound_ <= model.objective_ <= 1e-20


def test_a_trivial_bound_above_the_objective_is_none():
    result = Result(None, -1.0, 0.0, Status.gap, 1, 1.0, 1)
    assert (result.status, result.lower_bound, result.gap) == (Status.numerical, -np.inf, np.inf)
    result = Result(None, 1.0, 0.9, Status.optimal, 1, 1.0, 1)
    result.objective = 0.5
    result.judge()
    assert (result.status, result.lower_bound) == (Status.numerical, -np.inf)


def test_a_bound_above_the_objective_leaves_no_gap_closed():
    assert relative_gap(1.0, 1.1) == np.inf
    assert 0 <= relative_gap(1.0, np.nextafter(1.0, 2.0)) <= 1e-15
    assert Solved(np.zeros(1), 1.0, 1.1).gap == np.inf
