"""What is reported belongs to what is returned: objective, bound and gap of the coefficients that a user gets."""

import math
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aidlearn import SVC, SVR, LADRegressor, LinearSVC, LinearSVR, QuantileRegressor
from aidlearn.engine.result import below
from aidlearn.estimators.linear import coordinates


@pytest.mark.parametrize("offset", [1e6, 1e9, -1e9, 1e12])
@pytest.mark.parametrize("spread", [1.0, 1e-2, 1e-3])
@pytest.mark.parametrize("n", [300, 5000])
@pytest.mark.parametrize("init", ["auto", "kmeans"])
def test_the_objective_is_that_of_the_predictions(init, n, spread, offset):
    """Beside a large offset the intercept is rounded, and so is every prediction."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = spread * (X.sum(axis=1) + rng.laplace(size=n)) + offset
    model = LADRegressor(tol=1e-6, init=init).fit(X, y)
    reached = np.abs(y - model.predict(X)).sum()
    # What rounding has cost is part of the gap: an objective is rounded up by it, on whichever side predictions are.
    assert abs(model.objective_ - reached) <= (2 * model.gap_ + 1e-12) * model.objective_
    shifted = LADRegressor(tol=1e-12).fit(X, y - offset)
    assert shifted.lower_bound_ <= model.objective_ * (1 + 1e-12)
    assert model.lower_bound_ <= shifted.objective_ * (1 + 1e-12)
    assert 0 <= model.gap_ < 0.1
    assert model.lower_bound_ <= model.objective_


def test_the_same_for_quantiles_and_support_vector_regression():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 2))
    y = 1e-3 * (X[:, 0] + rng.laplace(size=3000)) + 1e9
    model = QuantileRegressor(quantile=[0.2, 0.7]).fit(X, y)
    z = y[:, None] - model.predict(X)
    reached = np.maximum(np.array([0.2, 0.7]) * z, np.array([-0.8, -0.3]) * z).sum(axis=0)
    assert (np.abs(model.objective_ - reached) <= (2 * model.gap_ + 1e-12) * reached).all()
    svr = LinearSVR(epsilon=1e-3, C=10).fit(X, y)
    loss = np.maximum(0, np.abs(y - svr.predict(X)) - 1e-3).sum()
    reached = 0.5 * svr.coef_ @ svr.coef_ + 10 * loss
    assert abs(svr.objective_ - reached) <= (2 * svr.gap_ + 1e-12) * reached


@given(st.floats(0, 1e300), st.floats(0, 1e300), st.floats(0, 1e290))
def test_a_bound_is_never_above_the_objective(bound, objective, rounding):
    kept = below(bound, objective, rounding)
    assert kept <= objective
    assert kept <= bound
    if bound <= objective:
        assert kept == bound
    elif bound - objective > max(1e-8 * objective, rounding):
        assert kept == -math.inf


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 1e6, 1e9]), st.sampled_from(["auto", "kmeans"]))
def test_gaps_are_never_negative(seed, offset, init):
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(3, 60)), int(rng.integers(1, 4))
    X = rng.integers(-2, 3, (n, m)) + offset * rng.integers(0, 2, m)
    y = rng.integers(-3, 4, n) * 10.0 ** rng.integers(-3, 3) + offset
    model = LADRegressor(tol=float(rng.choice([0, 1e-4])), init=init).fit(X, y)
    assert model.lower_bound_ <= model.objective_
    assert model.gap_ >= 0
    assert all(entry.gap >= 0 and entry.best_lower_bound <= entry.best_objective for entry in model.history_)


@pytest.mark.parametrize("C", [1.0, 100.0])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_linear_kernel_decides_by_its_coefficients(classes, C):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) * [1, 1e4, 1e-3] + [1e6, 0, 0]
    y = np.digitize(X[:, 0] - 1e6 + 0.3 * rng.normal(size=300), [0, 0.8][: classes - 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = SVC(kernel="linear", C=C, decision_function_shape="ovo").fit(X, y)
    scores = X @ model.coef_.T + model.intercept_
    assert model.decision_function(X).reshape(scores.shape) == pytest.approx(scores, rel=1e-12, abs=1e-9)
    pairs = [(0, 1)] if classes == 2 else [(0, 1), (0, 2), (1, 2)]
    for k, (first, second) in enumerate(pairs):
        here = (y == first) | (y == second)
        positive = y[here] == (second if classes == 2 else first)
        # In long double: beside an offset of 1e6 the sum of the products itself loses ten digits.
        exactly = X[here].astype(np.longdouble) @ model.coef_[k] + model.intercept_[k]
        z = 1 - np.where(positive, 1, -1) * exactly
        reached = float(0.5 * model.coef_[k] @ model.coef_[k] + C * np.maximum(0, z).sum())
        assert np.atleast_1d(model.objective_)[k] == pytest.approx(reached, rel=1e-6)
        assert np.atleast_1d(model.objective_)[k] >= reached * (1 - 1e-12)
        assert 0 <= np.atleast_1d(model.gap_)[k] < 1


def exact_objective(model, X, y, C=None, epsilon=None):
    """In fractions: no rounding at all. Labels -1 and 1 without epsilon, targets with it, no penalty without C."""
    slopes = [Fraction(float(v)) for v in np.ravel(model.coef_)]
    level = Fraction(float(np.ravel(model.intercept_)[0]))
    total = Fraction(0)
    for row, target in zip(X, y, strict=True):
        score = level + sum(Fraction(float(x)) * w for x, w in zip(row, slopes, strict=True))
        if C is not None and epsilon is None:
            total += max(Fraction(0), 1 - int(target) * score)
        else:
            total += max(Fraction(0), abs(Fraction(float(target)) - score) - Fraction(epsilon or 0))
    return total if C is None else Fraction(C) * total + sum(w * w for w in slopes) / 2


def tiny_and_badly_scaled(seed):
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(3, 9)), int(rng.integers(1, 6))
    X = rng.normal(size=(n, m))
    kinds = [(1e9, 0), (1, 1e9), (10.0 ** rng.uniform(-9, 9, m), 0), (1, 10.0 ** rng.uniform(0, 9, m))]
    factor, offset = kinds[seed % 4]
    X = X * factor + offset
    labels = rng.integers(0, 2, n)
    labels[:2] = 0, 1
    return X, labels, rng.normal(size=n) * 10.0 ** rng.integers(-3, 7), rng


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("seed", range(24))
def test_no_objective_is_below_that_of_the_coefficients(seed, standardize):
    """Of rows around 1e9: margins in float64 lose the digits that the objective has."""
    X, labels, targets, rng = tiny_and_badly_scaled(seed)
    C, tol = 10.0 ** int(rng.integers(-2, 4)), 10.0 ** -int(rng.integers(2, 10))
    fitted = [
        (SVR(kernel="linear", C=C, epsilon=0.1, tol=tol), targets, (C, 0.1)),
        (LADRegressor(tol=tol, standardize=standardize), targets, ()),
    ]
    if not standardize:  # what it penalises is in other units
        fitted += [
            (LinearSVC(C=C, tol=tol), 2 * labels - 1, (C,)),
            (SVC(kernel="linear", C=C, tol=tol), 2 * labels - 1, (C,)),
            (LinearSVR(C=C, epsilon=0.1, tol=tol), targets, (C, 0.1)),
        ]
    for model, y, parameters in fitted:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y)
        if model.objective_ == 0:  # losses below their own rounding count as none
            continue
        truth = exact_objective(model, X, y, *parameters)
        assert float((truth - Fraction(float(model.objective_))) / truth) <= 1e-12, model
        if model.status_.reached_tolerance:
            assert float((truth - Fraction(float(model.lower_bound_))) / truth) <= tol + 1e-12, model


def test_offsets_of_rows_and_targets_in_the_intercept():
    """The intercept of 4.6e13 is rounded by as much as the residuals are large."""
    X = np.array([[33692.033978959465], [33691.379356458274]])
    y = np.array([1733580368.6105309, 2626328748.5687666])
    model = LADRegressor(alpha=0.01, solver="highs").fit(X, y)
    truth = exact_objective(model, X, y) + Fraction(0.01) * 2 * abs(Fraction(float(model.coef_[0])))
    assert abs(float(Fraction(float(model.objective_)) - truth)) <= 1e-15 * float(truth)


def test_large_tables_add_to_the_gap_what_rounding_may_have_taken(monkeypatch):
    rng = np.random.default_rng(0)
    X = 1e9 * rng.normal(size=(400, 3)) + 1e13
    y = np.where(X[:, 0] > 1e13, 1, -1)
    exact = LinearSVC(C=1e-3).fit(X, y)
    monkeypatch.setattr(coordinates, "SETTINGS", replace(coordinates.SETTINGS, exact_cells=10))
    charged = LinearSVC(C=1e-3).fit(X, y)
    assert charged.objective_ >= exact.objective_ * (1 - 1e-9)
    assert charged.objective_ >= float(exact_objective(charged, X, y, 1e-3)) * (1 - 1e-12)
