"""Several quantiles of one fit: the same as single fits, certified, and in order where that is asked for."""

from dataclasses import replace

import numpy as np
import pytest

from aidlearn import QuantileRegressor, Status
from aidlearn.estimators.linear import regression
from aidlearn.neighbours import batch
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


@pytest.mark.parametrize("parameters", [{}, {"alpha": 0.01}, {"fit_intercept": False}, {"standardize": True}], ids=str)
def test_neighbouring_quantiles_are_those_of_single_fits(parameters):
    X, y = data(30_000)
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    taus = [0.5, 0.3, 0.31, 0.32, 0.9, 0.33, 0.34, 0.35, 0.36, 0.34, 0.01]
    model = QuantileRegressor(quantile=taus, tol=1e-7, **parameters).fit(X, y, weight)
    assert model.gap_.max() <= 1e-7
    n_passes = 0
    for k, tau in enumerate(taus):
        single = QuantileRegressor(quantile=tau, tol=1e-9, **parameters).fit(X, y, weight)
        assert single.objective_ * (1 - 1e-9) <= model.objective_[k] <= single.objective_ * (1 + 1.1e-7)
        assert model.lower_bound_[k] <= single.objective_ * (1 + 1e-12)
        n_passes += single.n_passes_
    assert model.n_passes_ < 0.7 * n_passes
    assert [len(history) for history in model.history_] == list(model.n_iter_)
    rows = [sizes.sum() for sizes in model.cluster_sizes_]
    assert max(rows) <= len(y)
    assert len(model.cluster_distances_) == len(taus)


def test_the_objective_is_that_of_the_coefficients():
    X, y = data(30_000)
    taus = np.arange(40, 61) / 100
    model = QuantileRegressor(quantile=taus).fit(X, y)
    residuals = y[:, None] - X @ model.coef_.T - model.intercept_
    assert np.allclose(np.maximum(taus * residuals, (taus - 1) * residuals).sum(axis=0), model.objective_, rtol=1e-12)


def test_neighbours_that_stay_open_are_fitted(monkeypatch):
    """With hardly a row near, bounds of neighbours are poor: those go on, and all are certified."""
    X, y = data(30_000)
    taus = [0.45, 0.47, 0.5, 0.52, 0.55]
    monkeypatch.setattr(regression, "DOUBT", 1e-3)
    monkeypatch.setattr(batch, "SETTINGS", replace(batch.SETTINGS, wider=2.0))
    fitted = []
    fit = QuantileRegressor._fit_design
    monkeypatch.setattr(QuantileRegressor, "_fit_design", lambda *args, **more: fitted.append(1) or fit(*args, **more))
    model = QuantileRegressor(quantile=taus, tol=1e-7).fit(X, y)
    assert model.gap_.max() <= 1e-7
    assert fitted
    single = [QuantileRegressor(quantile=tau, tol=1e-8).fit(X, y).objective_ for tau in taus]
    assert np.allclose(model.objective_, single, rtol=1.1e-7)


def test_a_callback_ends_all_quantiles():
    X, y = data(30_000)
    seen = []

    def stop(record):
        seen.append(record)
        return len(seen) == 3

    model = QuantileRegressor(quantile=np.arange(40, 61) / 100, tol=1e-6, callbacks=stop).fit(X, y)
    assert model.coef_.shape == (21, 4)
    assert sum(status is Status.interrupted for status in model.status_) == 10  # those of the second corridor
    assert (model.lower_bound_ <= model.objective_).all()


def test_threads_give_the_same_bits():
    X, y = data(30_000)
    one, two = (QuantileRegressor(quantile=[0.48, 0.49, 0.5, 0.51], n_jobs=n).fit(X, y) for n in (1, 2))
    assert np.array_equal(one.coef_, two.coef_)
    assert np.array_equal(one.lower_bound_, two.lower_bound_)
