"""Several quantiles of one fit: the same as single fits, certified, and in order where that is asked for."""

import numpy as np
import pytest

from aidlearn import QuantileRegressor
from oracles import highs_quantile


def data(n, p=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, X @ np.arange(1.0, p + 1) + (0.2 + np.abs(X[:, 0])) * rng.standard_t(3, n)


def test_rearranged_predictions_never_cross():
    X, y = data(60)
    taus = [0.5, 0.1, 0.45, 0.9, 0.55]
    plain = QuantileRegressor(quantile=taus).fit(X, y)
    order = np.argsort(taus)
    predicted = plain.predict(X)
    assert plain.crossings_ == (np.diff(predicted[:, order], axis=1) < -1e-9).sum() > 0
    model = QuantileRegressor(quantile=taus, rearrange=True).fit(X, y)
    assert model.crossings_ == plain.crossings_
    assert (np.diff(model.predict(X)[:, order], axis=1) >= 0).all()
    assert np.array_equal(np.sort(model.predict(X), axis=1), np.sort(predicted, axis=1))


def test_rows_without_weight_cross_nowhere():
    X, y = data(60)
    weight = (np.arange(60) % 2).astype(float)
    ours = QuantileRegressor(quantile=[0.4, 0.5, 0.6], tol=1e-9).fit(X, y, weight)
    half = QuantileRegressor(quantile=[0.4, 0.5, 0.6], tol=1e-9).fit(X[1::2], y[1::2])
    assert ours.crossings_ == half.crossings_


def test_one_quantile_has_no_crossings():
    X, y = data(60)
    model = QuantileRegressor(quantile=[0.4, 0.6]).fit(X, y)
    model.set_params(quantile=0.5, rearrange=True).fit(X, y)
    assert not hasattr(model, "crossings_")
    assert model.predict(X).shape == (60,)
    with pytest.raises(ValueError, match="rearrange must be True or False, got 1"):
        QuantileRegressor(rearrange=1).fit(X, y)


@pytest.mark.parametrize("seed", range(3))
def test_bounds_of_many_quantiles_are_below_the_optima(seed):
    X, y = data(150, 2, seed)
    weight = np.random.default_rng(seed).integers(0, 3, 150).astype(float)
    taus = np.arange(1, 20) / 20
    model = QuantileRegressor(quantile=taus, tol=1e-6).fit(X, y, weight)
    for tau, objective, bound in zip(taus, model.objective_, model.lower_bound_, strict=True):
        best = highs_quantile(X, y, tau, weight)
        assert bound <= best * (1 + 1e-9)
        assert best * (1 - 1e-9) <= objective <= best * (1 + 1.1e-6)
