"""Fits without any residual: nothing is below 0, so no solver has to iterate on rounding errors."""

import numpy as np
import pytest

from aidlearn import LADRegressor, LinearSVR, QuantileRegressor, Status
from aidlearn.linear.aggregated import solvers


def designs():
    rng = np.random.default_rng(0)
    gaussian = rng.normal(size=(6000, 12))
    whole = rng.integers(-3, 4, size=(6000, 12)).astype(float)
    level = rng.integers(0, 50, 6000)
    return {
        "gaussian": (gaussian, gaussian @ rng.normal(size=12) + 1),
        "whole": (whole, whole @ np.arange(12.0) + 1),
        "constant": (gaussian, np.full(6000, 3.0)),
        "tenth": (gaussian, np.full(6000, 0.1)),
        "zero": (gaussian, np.zeros(6000)),
        "dummies": ((level[:, None] == np.arange(49)).astype(float), (level % 7) - 2.0),
        "large": (gaussian, 1e9 * gaussian.sum(axis=1) + 1e12),
    }


@pytest.mark.parametrize("name", designs())
@pytest.mark.parametrize("init", ["auto", "kmeans"])
def test_no_solver_iterates_on_rounding(name, init, monkeypatch):
    monkeypatch.setattr(solvers, "solve_by_highs", lambda *a: pytest.fail("a simplex method was begun"))
    X, y = designs()[name]
    model = LADRegressor(init=init, random_state=0).fit(X, y)
    assert (model.objective_, model.lower_bound_, model.gap_) == (0.0, 0.0, 0.0)
    assert np.abs(model.predict(X) - y).max() <= 1e-11 * (1 + np.abs(y).max())


@pytest.mark.parametrize("name", [name for name in designs() if name != "dummies"])
def test_an_exact_start_is_the_optimum(name):
    X, y = designs()[name]
    model = LADRegressor().fit(X, y)
    assert model.status_ is Status.optimal
    assert model.n_iter_ == 1
    assert QuantileRegressor(quantile=0.2).fit(X, y).objective_ == 0.0


def test_a_wide_tube_has_no_loss():
    X, y = designs()["gaussian"]
    model = LinearSVR(epsilon=2 * np.abs(y).max()).fit(X, y)
    assert (model.objective_, model.gap_) == (0.0, 0.0)
    assert not model.coef_.any()
