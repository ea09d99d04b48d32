"""Recipes of the docs: probabilities and conformal intervals around our estimators."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import brier_score_loss

from aidlearn import LADRegressor, LinearSVC, QuantileRegressor


def rows(n=4000):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, X @ [1.0, 2.0, -1.0], rng


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_calibrated_probabilities(method):
    X, score, rng = rows()
    probability = 1 / (1 + np.exp(-score))
    y = rng.random(len(X)) < probability
    model = CalibratedClassifierCV(LinearSVC(C=0.1), method=method, cv=3).fit(X[:3000], y[:3000])
    found = model.predict_proba(X[3000:])[:, 1]
    assert np.abs(found - probability[3000:]).mean() < 0.05
    assert brier_score_loss(y[3000:], found) < brier_score_loss(y[3000:], np.full(1000, y[:3000].mean()))


def test_conformal_quantiles_cover():
    X, mean, rng = rows()
    y = mean + (0.5 + np.abs(X[:, 0])) * rng.normal(size=len(X))
    model = QuantileRegressor(quantile=[0.05, 0.95], rearrange=True).fit(X[:1500], y[:1500])
    low, high = model.predict(X[1500:3000]).T
    beyond = np.maximum(low - y[1500:3000], y[1500:3000] - high)
    wider = np.quantile(beyond, min(1.0, 0.9 * (1 + 1 / 1500)), method="higher")
    low, high = model.predict(X[3000:]).T
    inside = (low - wider <= y[3000:]) & (y[3000:] <= high + wider)
    assert 0.87 < inside.mean() < 0.93


def test_mapie_wraps_our_regressors():
    """Each of its ways to intervals: rows set aside, folds, and quantiles that are made to cover."""
    regression = pytest.importorskip("mapie.regression")
    X, mean, rng = rows(3500)
    y = mean + (0.5 + np.abs(X[:, 0])) * rng.laplace(size=len(X))
    fitted, held, new = slice(0, 1000), slice(1000, 2000), slice(2000, None)
    split = regression.SplitConformalRegressor(LADRegressor().fit(X[fitted], y[fitted]), confidence_level=0.9)
    crossed = regression.CrossConformalRegressor(LADRegressor(), confidence_level=0.9, cv=5)
    models = [QuantileRegressor(quantile=tau).fit(X[fitted], y[fitted]) for tau in (0.05, 0.95, 0.5)]
    quantiles = regression.ConformalizedQuantileRegressor(models, confidence_level=0.9, prefit=True)
    widths = {}
    for model in (split.conformalize(X[held], y[held]), quantiles.conformalize(X[held], y[held])):
        _, intervals = model.predict_interval(X[new])
        low, high = intervals[:, 0, 0], intervals[:, 1, 0]
        widths[type(model).__name__] = high - low
        assert 0.87 < ((low <= y[new]) & (y[new] <= high)).mean() < 0.93
    _, intervals = crossed.fit_conformalize(X[:2000], y[:2000]).predict_interval(X[new])
    low, high = intervals[:, 0, 0], intervals[:, 1, 0]
    assert 0.87 < ((low <= y[new]) & (y[new] <= high)).mean() < 0.95
    # Quantiles know where rows scatter more: their intervals are not all as wide.
    assert np.ptp(widths["SplitConformalRegressor"]) < 1e-9
    assert np.ptp(widths["ConformalizedQuantileRegressor"]) > 0.5
