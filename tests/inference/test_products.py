"""Sums of outer products of many rows, which may be rounded to float32: against sums in float64."""

import numpy as np
import pytest

from aidlearn import LADRegressor
from aidlearn.data.passes import run as runs
from aidlearn.estimators.linear.fitted_rows import fitted_run
from aidlearn.inference import covariance as inference
from aidlearn.inference.products import Products
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import absolute


def columns(n=3000, seed=0):
    """Of sizes from 1e-9 to 1e9, with means up to five deviations, one of them with rows far out."""
    rng = np.random.default_rng(seed)
    X = rng.normal([0.0, 5.0, 0.0, -2.0, 1.0], size=(n, 5))
    X[:, 2] = rng.standard_t(2, size=n)
    return X * [1.0, 1e-9, 1.0, 1e9, 30.0]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_rounded_products_are_those_of_float64(monkeypatch, fit_intercept, weighted):
    monkeypatch.setattr(runs, "COMPILED_CELLS", 0)
    X, rng = columns(), np.random.default_rng(1)
    y, density = rng.normal(size=len(X)), rng.exponential(size=len(X)) * 1e-5
    weight = rng.uniform(0.2, 3.0, size=len(X)) if weighted else None
    model = LADRegressor(fit_intercept=fit_intercept).fit(X, y, weight)
    run = fitted_run(model, X, y, weight)
    rows = LADRegressor(fit_intercept=fit_intercept)._measured(run)
    run, moments, offset = rows.run, rows.moments, rows.offset
    design = Design.of(absolute(), moments, fit_intercept=fit_intercept, offset=offset)
    products = Products(run, design, rounded=True)
    assert products.rounded

    def measure(chunk, state):
        return products.of(chunk, density[chunk.start : chunk.stop]), None

    run.map(measure, collect=products.add)
    rows = X - design.centre
    rows = np.column_stack([rows, np.ones(len(X))]) if fit_intercept else rows
    scaled = rows * (np.sqrt(density) * (1.0 if weight is None else weight))[:, None]
    expected = scaled.T @ scaled
    size = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    # Sums about zero of a column with a mean of five deviations lose a factor of 26; how float32 sums of a block are
    # rounded differs between versions of BLAS (4e-7 to 7e-7).
    assert np.abs((products.whole() - expected) / size).max() < 26 * 1e-6


def test_nid_of_rounded_products_is_that_of_exact_ones(monkeypatch):
    monkeypatch.setattr(runs, "COMPILED_CELLS", 0)
    X = columns(20_000)
    y = X @ [1.0, 1e9, 0.5, 1e-9, 0.0] + np.random.default_rng(2).laplace(size=len(X)) * (1 + np.abs(X[:, 0]))
    model = LADRegressor(tol=1e-8).fit(X, y)
    rounded = model.summary(X, y)
    with monkeypatch.context() as patched:
        patched.setattr(inference, "ROUNDED_PIVOT", np.inf)
        exact = model.summary(X, y)
    assert not np.array_equal(rounded.standard_errors, exact.standard_errors), "products were not rounded"
    assert rounded.standard_errors == pytest.approx(exact.standard_errors, rel=1e-5)
    correlation = rounded.covariance / np.outer(rounded.standard_errors, rounded.standard_errors)
    expected = exact.covariance / np.outer(exact.standard_errors, exact.standard_errors)
    assert correlation == pytest.approx(expected, abs=1e-5)


def test_columns_far_from_zero_are_not_rounded(monkeypatch):
    """With a mean of nine deviations and a pivot of 0.05, rounding changed standard errors by 0.2 %."""
    monkeypatch.setattr(runs, "COMPILED_CELLS", 0)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(20_000, 2))
    X[:, 1] = X[:, 0] + 0.05 * X[:, 1]
    X += 9.0
    y = X[:, 0] + rng.laplace(size=len(X)) * (1 + np.abs(X[:, 1] - 9))
    model = LADRegressor(tol=1e-8).fit(X, y)
    found = model.summary(X, y)
    monkeypatch.setattr(inference, "ROUNDED_PIVOT", np.inf)
    assert found.standard_errors == pytest.approx(model.summary(X, y).standard_errors, rel=1e-6)


def test_columns_that_nearly_are_combinations_of_others_are_not_rounded(monkeypatch):
    """Rounding errors of 1e-7 would be divided by the square of what a column has of its own."""
    monkeypatch.setattr(runs, "COMPILED_CELLS", 0)
    X = columns(20_000)[:, [0, 2, 4]]
    X[:, 1] = X[:, 0] + 1e-3 * X[:, 1] / np.abs(X[:, 1]).max()
    y = X[:, 0] + np.random.default_rng(2).laplace(size=len(X))
    model = LADRegressor(tol=1e-8).fit(X, y)
    found = model.summary(X, y)
    monkeypatch.setattr(inference, "ROUNDED_PIVOT", np.inf)
    assert np.array_equal(found.standard_errors, model.summary(X, y).standard_errors)
