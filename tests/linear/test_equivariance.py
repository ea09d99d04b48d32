"""What scaling, shifting, reordering and repeating data does to a fit: nothing that the model does not say.

With t > 0 and s a column's factor, least absolute deviations and quantiles obey
``objective(X diag(s), t y) = t objective(X, y)`` and ``coef -> t coef / s``; support vector regression the same under
``y, epsilon, C -> t y, t epsilon, t C`` with ``objective -> t^2 objective``; the support vector machine under
``X, C -> t X, C / t^2`` with ``objective -> objective / t^2``.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aidlearn import LADRegressor, LinearSVC, LinearSVR, QuantileRegressor
from oracles import highs_quantile

TOL = 1e-6
SCALES = [1e-12, 1e-9, 1e-6, 1e6, 1e9, 1e12]


def regression(n, m=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    return X, X @ np.arange(1.0, m + 1) + 3 + rng.standard_t(3, n)


def assert_closed(model):
    assert model.status_.reached_tolerance
    assert 0 <= model.gap_ <= TOL
    assert model.lower_bound_ <= model.objective_


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("n", [200, 4000])
@pytest.mark.parametrize(
    "model",
    [
        LADRegressor(),
        LADRegressor(init="kmeans"),
        LADRegressor(solver="highs"),
        LADRegressor(solver="highs", init="kmeans"),
        LADRegressor(fit_intercept=False),
        LADRegressor(alpha=0.1),
        QuantileRegressor(quantile=0.1),
    ],
    ids=str,
)
def test_scale_of_the_target(model, n, scale):
    X, y = regression(n)
    model.set_params(tol=TOL)
    plain = model.fit(X, y).objective_
    coef = model.coef_
    assert_closed(model.fit(X, y * scale))
    assert model.objective_ / scale == pytest.approx(plain, rel=TOL)
    # An objective within 1e-6 is flat to about its root in the coefficients.
    assert model.coef_ / scale == pytest.approx(coef, abs=1e-2)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("n", [200, 4000])
@pytest.mark.parametrize("init", ["auto", "kmeans"])
@pytest.mark.parametrize("solver", ["auto", "highs"])
def test_scale_of_a_column(solver, init, n, scale):
    X, y = regression(n)
    model = LADRegressor(tol=TOL, init=init, solver=solver)
    plain = model.fit(X, y).objective_
    for factors in ([scale, 1, 1], [scale, scale, scale]):
        assert_closed(model.fit(X * factors, y))
        assert model.objective_ == pytest.approx(plain, rel=TOL)
        assert model.coef_ * factors == pytest.approx([1, 2, 3], abs=0.5)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("n", [200, 4000])
def test_scale_of_a_penalised_column(n, scale):
    X, y = regression(n)
    plain = LADRegressor(tol=TOL, alpha=0.1).fit(X, y)
    model = LADRegressor(tol=TOL, alpha=0.1 * scale).fit(X * scale, y)
    assert_closed(model)
    assert model.objective_ == pytest.approx(plain.objective_, rel=TOL)
    assert model.n_iter_ <= plain.n_iter_ + 1


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("n", [200, 4000])
@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_scale_of_support_vector_regression(epsilon, n, scale):
    X, y = regression(n)
    plain = LinearSVR(epsilon=epsilon, C=2.0, tol=TOL).fit(X, y)
    model = LinearSVR(epsilon=epsilon * scale, C=2.0 * scale, tol=TOL).fit(X, y * scale)
    assert_closed(model)
    assert model.objective_ / scale**2 == pytest.approx(plain.objective_, rel=TOL)
    assert model.coef_ / scale == pytest.approx(plain.coef_, abs=1e-2)
    assert model.n_iter_ <= plain.n_iter_ + 1  # the start is as sharp


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("solver", ["auto", "libsvm", "liblinear"])
def test_scale_of_the_support_vector_machine(solver, scale):
    X, y = regression(2000)
    # liblinear penalises the intercept a little and often ends before it has converged, whatever the scale.
    tol = 0.1 if solver == "liblinear" else TOL
    plain = LinearSVC(solver=solver, tol=tol, C=0.5).fit(X, y > 3)
    model = LinearSVC(solver=solver, tol=tol, C=0.5 / scale**2).fit(X * scale, y > 3)
    assert model.status_.reached_tolerance or solver == "liblinear"
    assert model.objective_ * scale**2 == pytest.approx(plain.objective_, rel=2 * tol)


@pytest.mark.parametrize("solver", ["auto", "highs"])
def test_one_target_far_away(solver):
    X, y = regression(300)
    y[7] = 1e12
    model = LADRegressor(tol=TOL, solver=solver).fit(X, y)
    assert_closed(model)
    assert model.objective_ == pytest.approx(1e12, rel=TOL)
    assert model.objective_ == pytest.approx(np.abs(y - model.predict(X)).sum(), rel=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e12])
def test_near_collinear_columns_of_any_scale(scale):
    """The default solver hands what its normal equations cannot resolve to HiGHS, in its own units."""
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(2, 400))
    X = np.column_stack([x, x + 1e-9 * z])
    model = LADRegressor(tol=TOL).fit(X, (x + rng.laplace(size=400)) * scale)
    assert 0 <= model.gap_ <= 1
    assert model.objective_ / scale < 400


factors = st.floats(-12, 12).map(lambda power: 10.0**power)


@st.composite
def small_problems(draw):
    n, m = draw(st.integers(2, 40)), draw(st.integers(1, 3))
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m)) if draw(st.booleans()) else rng.integers(-2, 3, (n, m)).astype(float)
    y = X.sum(axis=1) + (rng.standard_t(2, n) if draw(st.booleans()) else rng.integers(-3, 4, n))
    return X, y, seed


inits = st.sampled_from(["auto", "kmeans", "highs"])


def lad(init, quantile, **parameters):
    solver = "highs" if init == "highs" else "auto"
    init = "kmeans" if init == "highs" else init
    return QuantileRegressor(quantile=quantile, init=init, solver=solver, tol=TOL, **parameters)


def assert_optimal(model, optimum, size):
    assert model.status_.reached_tolerance
    assert 0 <= model.gap_ <= TOL
    assert model.objective_ == pytest.approx(optimum, rel=2 * TOL, abs=1e-9 * size)
    assert model.lower_bound_ <= optimum * (1 + 1e-7) + 1e-9 * size


@settings(max_examples=150)
@given(small_problems(), inits, st.sampled_from([0.5, 0.2]), factors, st.lists(factors, min_size=3, max_size=3))
def test_scales_are_units(problem, init, quantile, scale, columns):
    X, y, _ = problem
    optimum = highs_quantile(X, y, quantile)
    model = lad(init, quantile).fit(X * columns[: X.shape[1]], y * scale)
    assert_optimal(model, optimum * scale, np.abs(y).max() * scale)


@settings(max_examples=100)
@given(small_problems(), inits, st.floats(-1e6, 1e6), st.floats(-1e3, 1e3))
def test_shifts_belong_to_the_intercept(problem, init, shift, of_column):
    X, y, _ = problem
    optimum = highs_quantile(X, y)
    model = lad(init, 0.5).fit(X + of_column, y + shift)
    assert_optimal(model, optimum, np.abs(y).max() + 1e-5 * abs(shift))


@settings(max_examples=100)
@given(small_problems(), inits)
def test_order_of_rows_does_not_matter(problem, init):
    X, y, seed = problem
    order = np.random.default_rng(seed).permutation(len(y))
    optimum = highs_quantile(X, y)
    assert_optimal(lad(init, 0.5).fit(X[order], y[order]), optimum, np.abs(y).max())


@settings(max_examples=100)
@given(small_problems(), inits, factors)
def test_repeated_rows_are_weights(problem, init, unit):
    X, y, seed = problem
    times = np.random.default_rng(seed).integers(0, 4, len(y))
    times[0] = 2
    repeated = lad(init, 0.3).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    weighted = lad(init, 0.3).fit(X, y, sample_weight=times * unit)
    optimum = highs_quantile(X, y, 0.3, weight=times)
    assert_optimal(repeated, optimum, np.abs(y).max())
    assert weighted.objective_ / unit == pytest.approx(optimum, rel=2 * TOL, abs=1e-9 * np.abs(y).max())
