"""Refits from the coefficients of an earlier fit: certified as any other, whatever the earlier fit was."""

import numpy as np
import pytest

from aidlearn import LADRegressor, LinearSVC, LinearSVR, QuantileRegressor

MODELS = [
    LADRegressor(),
    QuantileRegressor(quantile=[0.2, 0.7]),
    QuantileRegressor(alpha=0.01, standardize=True),
    LinearSVC(C=0.1),
    LinearSVR(epsilon=0.1),
]


def data(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) * [1, 2, 3, 4]
    return X, X @ rng.normal(size=4) + rng.laplace(size=n) + 2


def fresh(model, **parameters):
    return type(model)(**{**model.get_params(), **parameters})


@pytest.mark.parametrize("n", [300, 20_000, 250_000])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_refit_is_certified_and_as_good_as_a_cold_one(model, n):
    X, y = data(n)
    other = data(n, seed=1)
    classifies = isinstance(model, LinearSVC)

    def target(values):
        return np.digitize(values, [-3, 3]) if classifies else values

    cold = fresh(model, tol=1e-7).fit(X, target(y))
    warm = fresh(model, tol=1e-7, warm_start=True).fit(X, target(y))
    assert np.array_equal(cold.coef_, warm.coef_)  # there was nothing to start from
    for rows, values in ((X, y), other, (X, y)):
        warm.fit(rows, target(values))
        assert np.max(warm.gap_) <= 1e-7
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-7)
    bound = np.asarray(warm.lower_bound_)
    assert (bound <= np.asarray(cold.objective_) * (1 + 1e-12)).all()


def test_the_earlier_point_is_where_it_begins():
    """A first iteration that cannot improve keeps the optimum it was given."""
    X, y = data(300)
    best = LADRegressor(tol=0).fit(X, y)
    model = LADRegressor(warm_start=True, tol=0.5).fit(X, y)
    model.coef_, model.intercept_ = best.coef_, best.intercept_
    model.fit(X, y)
    assert model.objective_ <= best.objective_ * (1 + 1e-12)


def test_other_shapes_start_cold():
    X, y = data(20_000)
    model = QuantileRegressor(quantile=[0.3, 0.6], warm_start=True).fit(X, y)
    model.set_params(quantile=0.5).fit(X[:, :2], y)
    cold = QuantileRegressor().fit(X[:, :2], y)
    assert np.array_equal(model.coef_, cold.coef_)
    classes = LinearSVC(warm_start=True).fit(X, y > 0)
    classes.fit(X, np.digitize(y, [-3, 3]))
    assert np.array_equal(classes.coef_, LinearSVC().fit(X, np.digitize(y, [-3, 3])).coef_)


def test_a_value_that_is_no_truth_value_is_named():
    with pytest.raises(ValueError, match="warm_start must be True or False, got 'yes'"):
        LADRegressor(warm_start="yes").fit(*data(30))
    with pytest.raises(ValueError, match="fit_intercept must be True or False, got 'no'"):
        LADRegressor(fit_intercept="no").fit(np.zeros((5, 1)), np.arange(5.0))
