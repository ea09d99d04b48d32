"""Sums of outer products of many rows on centred columns: against long double, for columns of any size and mean."""

import numpy as np
import pytest

from aidlearn import LADRegressor
from aidlearn.estimators.linear.fitted_rows import fitted_run
from aidlearn.inference.survey import centred_gram
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import absolute


def columns(kind, n=3000):
    """Columns of sizes from 1e-9 to 1e9, one with rows far out."""
    rng = np.random.default_rng(0)
    X = rng.normal([0.0, 5.0, 0.0, -2.0, 1.0], size=(n, 5))
    X[:, 2] = rng.standard_t(2, size=n)
    if kind == "far from zero":
        X += 1e4
    if kind == "nearly collinear":
        X[:, 3] = X[:, 0] + 1e-3 * X[:, 3]
    return X * [1.0, 1e-9, 1.0, 1e9, 30.0]


@pytest.mark.parametrize("kind", ["ordinary", "far from zero", "nearly collinear"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_sums_are_those_of_centred_rows(fit_intercept, weighted, kind):
    X, rng = columns(kind), np.random.default_rng(1)
    y, density = rng.normal(size=len(X)), rng.exponential(size=len(X)) * 1e-5
    weight = rng.uniform(0.2, 3.0, size=len(X)) if weighted else None
    model = LADRegressor(fit_intercept=fit_intercept).fit(X, y, weight)
    run = fitted_run(model, X, y, weight)
    rows = LADRegressor(fit_intercept=fit_intercept)._measured(run)
    run, moments, offset = rows.run, rows.moments, rows.offset
    design = Design.of(absolute(), moments, fit_intercept=fit_intercept, offset=offset)
    found, _ = centred_gram(run, design, lambda chunk: (density[chunk.start : chunk.stop], None))
    rows = X.astype(np.longdouble) - design.centre
    rows = np.column_stack([rows, np.ones(len(X))]) if fit_intercept else rows
    scaled = rows * (np.sqrt(density) * (1.0 if weight is None else weight))[:, None]
    expected = scaled.T @ scaled
    size = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    # Sums about zero of a column with a mean of five deviations lose a factor of 26.
    assert np.abs((found - expected) / size).max() < 26 * 1e-14
