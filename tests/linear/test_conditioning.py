"""Offsets and nearly collinear columns: what is proven of them, against HiGHS in good coordinates."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from aidlearn import LADRegressor, QuantileRegressor, Status
from aidlearn.data.passes.mixing import EXTENDED, centring, orthogonalising
from aidlearn.data.rows.arrays import ArraySource
from oracles import highs_quantile


def collinear(difference, n=300, noise=1.0, seed=1):
    """Rows with a fifth column that differs by so little from the first, and the same in good coordinates."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    X[:, 4] = X[:, 0] + difference * X[:, 4]
    good = X.copy()
    good[:, 4] = (X[:, 4].astype(EXTENDED) - X[:, 0]) / EXTENDED(difference)
    y = good @ [1.0, 1.0, -1.0, 0.0, 2.0] + noise * rng.laplace(size=n)
    return X, y, good


def exact_sum(model, X, y):
    """Of the absolute residuals, in fractions: products of 1e11 and more leave long double too few digits."""
    slopes, level = [Fraction(float(w)) for w in model.coef_], Fraction(float(model.intercept_))
    total = Fraction(0)
    for row, target in zip(X, y, strict=True):
        score = sum(Fraction(float(x)) * w for x, w in zip(row, slopes, strict=True))
        total += abs(Fraction(float(target)) - level - score)
    return float(total)


CASES = [(difference, 300, {}) for difference in (1e-6, 1e-8, 1e-9, 1e-10, 1e-11)]
CASES += [(1e-9, 300, {"fit_intercept": False}), (1e-8, 1200, {}), (1e-11, 1200, {}), (1e-9, 1200, {"init": "kmeans"})]


@pytest.mark.parametrize(("difference", "n", "given"), CASES)
def test_nearly_collinear_columns_are_proven(difference, n, given):
    X, y, good = collinear(difference, n)
    model = LADRegressor(tol=1e-5, **given).fit(X, y)
    best = 2 * highs_quantile(good, y, fit_intercept=given.get("fit_intercept", True))
    assert model.status_.reached_tolerance
    assert model.gap_ <= 1e-5
    assert model.lower_bound_ <= best * (1 + 1e-9)
    assert best * (1 - 1e-9) <= model.objective_ <= best * (1 + 2e-5)
    assert model.objective_ == pytest.approx(exact_sum(model, X, y), rel=1e-12)


@pytest.mark.parametrize("kind", ["csr", "weights", "shifted"])
def test_however_rows_come(kind):
    X, y, good = collinear(1e-9)
    weight, X_given = None, X
    if kind == "csr":
        X_given = sparse.csr_array(X)
    elif kind == "weights":
        weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    else:
        X_given = X + np.array([0, 0, 0, 0, 4096.0])  # the difference of the two is constant but for its last digits
        good = X_given.copy()
        good[:, 4] = (X_given[:, 4].astype(EXTENDED) - X_given[:, 0] - 4096) / EXTENDED(1e-9)
    model = LADRegressor(tol=1e-4).fit(X_given, y, sample_weight=weight)
    best = 2 * highs_quantile(good, y, weight=weight)
    assert model.gap_ <= 1e-4
    assert model.lower_bound_ <= best * (1 + 1e-9)
    assert best * (1 - 1e-9) <= model.objective_


def test_several_quantiles_and_two_weak_columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 4))
    X[:, 2] = X[:, 0] - X[:, 1] + 1e-8 * X[:, 2]
    X[:, 3] = X[:, 2] + 1e-9 * X[:, 3]
    y = X[:, 0] + rng.laplace(size=4000)
    model = QuantileRegressor(quantile=[0.2, 0.5, 0.6]).fit(X, y)
    assert (model.gap_ <= 1e-4).all()
    r = y[:, None] - model.predict(X)
    tau = np.array([0.2, 0.5, 0.6])
    assert np.maximum(tau * r, (tau - 1) * r).sum(axis=0) == pytest.approx(model.objective_, rel=1e-4)


@pytest.mark.parametrize("init", ["auto", "kmeans"])
def test_an_offset_of_columns(init):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1100, 3))
    y = X @ [1.0, 2.0, 0.0] + rng.laplace(size=1100)
    far = X + np.array([1e9, 0.0, -1e8])
    model = LADRegressor(init=init).fit(far, y)
    best = 2 * highs_quantile(np.column_stack([far[:, 0] - 1e9, X[:, 1], far[:, 2] + 1e8]), y)
    assert model.gap_ <= 1e-4
    assert model.lower_bound_ <= best * (1 + 1e-9)
    assert best * (1 - 1e-9) <= model.objective_


def test_penalties_are_those_of_the_columns_as_they_are():
    X, y, _ = collinear(1e-9)
    model = LADRegressor(alpha=0.01).fit(X, y)
    assert np.abs(model.coef_).max() < 10
    assert model.status_ is not Status.numerical


def test_a_mixing_and_back():
    X, _, _ = collinear(1e-9)
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    [chunk] = ArraySource(X, np.zeros(len(X)), np.ones(len(X))).chunks()
    mixing = orthogonalising(chunk, mean, deviation, True)
    assert list(mixing.weak) in ([0], [4])
    mixed = mixing(chunk)
    assert np.linalg.cond(mixed.X) < 5
    points = np.random.default_rng(0).normal(size=(2, 6))
    for point, there in zip(points, mixing.to_original(points, True), strict=True):
        exact = X.astype(EXTENDED) @ there[:5].astype(EXTENDED) + EXTENDED(there[5])
        scores = mixed.X @ point[:5] + point[5]
        # Coefficients of 1e9 are rounded by up to 1e-7.
        np.testing.assert_allclose(np.asarray(exact - scores, dtype=float), 0, atol=2e-6)
    assert centring(mean + 1e7, deviation) is not None
    assert centring(mean, deviation) is None


@pytest.mark.parametrize("solver", ["auto", "highs"])
def test_no_column_at_all(solver):
    y = np.array([1.0, -2.0, 4.0, 0.5])
    model = LADRegressor(fit_intercept=False, solver=solver).fit(np.zeros((4, 1)), y)
    assert model.objective_ == 7.5
    assert model.gap_ <= 1e-14


@pytest.mark.parametrize("parameters", [{}, {"solver": "highs"}, {"init": "kmeans"}, {"init": "birch"}])
@pytest.mark.parametrize(("offset", "everywhere"), [(7e8, False), (3e6, False), (3e6, True)])
def test_a_nearly_collinear_column_makes_no_fit_worse(offset, everywhere, parameters):
    """Beside large offsets its slope may be rounded by more than it gains: the fit without it is better then."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(8, 60))
        X = rng.normal(size=(n, 5))
        X[:, 4] = X[:, 0] + 1e-12 * rng.normal(size=n)
        X[:, slice(None) if everywhere else int(rng.choice([0, 4]))] += offset
        y = X[:, :4] @ rng.normal(size=4) + rng.laplace(size=n)
        model = LADRegressor(n_jobs=1, **parameters).fit(X, y)
        without = LADRegressor(n_jobs=1).fit(X[:, :4], y)
        assert model.objective_ <= 1.001 * min(without.objective_, np.abs(y - np.median(y)).sum())
        assert model.lower_bound_ <= model.objective_


@pytest.mark.parametrize("solver", ["interior-point", "highs"])
@pytest.mark.parametrize("quantile", [0.5, 0.9])
def test_penalised_collinear_columns_are_proven(quantile, solver):
    # The L1 penalty depends on the coordinates, so the columns cannot be made orthogonal.
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y, _ = collinear(10.0 ** rng.uniform(-9, -6), n=40, seed=seed)
        model = QuantileRegressor(quantile=quantile, alpha=0.01, solver=solver, init="kmeans").fit(X, y)
        assert model.status_.reached_tolerance
        assert model.gap_ <= 1e-4
        # Nearly equal columns share the penalty: the fifth adds a part of its difference to the fit.
        best = highs_quantile(X[:, :4], y, quantile, l1=0.01 * len(y))
        assert model.lower_bound_ <= best
        assert model.objective_ == pytest.approx(best, rel=1e-4)
