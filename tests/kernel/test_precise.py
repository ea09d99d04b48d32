"""The last digits of small machines: claims are compared with exact fractions, and decimals of fifty digits."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone

from aidlearn import SVC, SVR, Status
from aidlearn.kernel import values

pytestmark = pytest.mark.skipif(not values.has_more_digits(), reason="long double is float64 on this machine")


def exact_kernel(X, name, gamma, degree=3, coef0=0.0):
    """The kernel matrix as fractions: of given numbers, or of fifty digits."""
    rows = [[Fraction(float(cell)) for cell in row] for row in X]
    n = len(rows)
    K = [[Fraction(0)] * n for _ in range(n)]
    with localcontext() as context:
        context.prec = 50
        for i in range(n):
            for j in range(n):
                if name == "rbf":
                    e = Fraction(gamma) * sum((a - b) ** 2 for a, b in zip(rows[i], rows[j], strict=True))
                    K[i][j] = Fraction((-Decimal(e.numerator) / Decimal(e.denominator)).exp())
                else:
                    product = sum(a * b for a, b in zip(rows[i], rows[j], strict=True))
                    base = Fraction(gamma) * product + Fraction(coef0)
                    K[i][j] = base**degree if name == "poly" else product
    return K


def claims(model, K, y, box):
    """Objective of the machine that was returned, and the value of its dual, as fractions."""
    n = len(y)
    coef = [Fraction(0)] * n
    for row, value in zip(model.support_.tolist(), model.dual_coef_[0].tolist(), strict=True):
        coef[row] = Fraction(value)
    scores = [sum(K[i][j] * coef[j] for j in range(n) if coef[j]) for i in range(n)]
    square = sum(c * s for c, s in zip(coef, scores, strict=True))
    b = Fraction(float(model._offsets[0]))
    sign = [1 if value else -1 for value in y]
    losses = sum(Fraction(box) * max(Fraction(0), 1 - t * (s + b)) for t, s in zip(sign, scores, strict=True))
    return square / 2 + losses, sum(abs(c) for c in coef) - square / 2, sum(coef)


def family(seed):
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(6, 22)), int(rng.integers(1, 5))
    X = rng.normal(size=(n, m)) * 10.0 ** rng.uniform(-2, 2, m)
    if seed % 3 == 0:
        X += 5
    y = X[:, 0] + X[:, 0].std() * rng.normal(size=n) > np.median(X[:, 0])
    y[:2] = [False, True]
    return X, y, float(10.0 ** rng.uniform(-1, 3))


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize("seed", range(8))
def test_claims_are_true_to_the_last_digit(kernel, seed):
    X, y, C = family(seed)
    gamma = 1.0 / (X.shape[1] * X.var())
    model = SVC(kernel=kernel, gamma=gamma, C=C, tol=1e-12).fit(X, y)
    K = exact_kernel(X, kernel, gamma)
    reached, dual, surplus = claims(model, K, y, C)
    assert model.objective_ >= reached
    assert model.lower_bound_ <= reached
    if model.status_ is Status.gap:
        # The coefficients sum to zero up to rounding; the bound allows for the rest.
        assert model.lower_bound_ <= float(dual) + abs(float(surplus)) * 10 * (1 + abs(float(model._offsets[0])))
        assert float(reached - dual) <= 1e-12 * float(reached) * (1 + 1e-9) + 1e-12 * float(abs(surplus))


def test_fits_that_ended_without_digits_end_with_a_proof():
    """`benchmarks.numerical`: 115 of 600 fits ended `numerical`, of those of gaussian rows 10 of 100."""
    from benchmarks.numerical import case

    for seed in (0, 5, 26, 28, 40, 72, 94, 170, 198, 396):
        parameters, _, X, y = case(seed)
        model = SVC(**parameters).fit(X, y)
        assert model.status_ is Status.gap, (seed, model.gap_)
        assert model.gap_ <= parameters["tol"]


def test_a_regression_ends_with_a_proof_too():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    model = SVR(C=100.0, epsilon=0.05, tol=1e-11).fit(X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=60))
    assert model.status_ is Status.gap, "4e-9 before"
    assert model.gap_ <= 1e-11


def test_precision_that_is_missing_is_missed():
    """An offset of 1e5 to the eighth power: neither precision has a digit of what tells the rows apart."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)) + 1e5
    model = SVC(kernel="poly", degree=4, tol=1e-9).fit(X, X[:, 0] > 1e5)
    assert model.status_ is Status.numerical
    assert model.lower_bound_ <= model.objective_


def test_without_more_digits_a_fit_ends_as_before(monkeypatch):
    from benchmarks.numerical import case

    parameters, _, X, y = case(0)
    monkeypatch.setattr(values, "UNIT", float(np.finfo(float).eps))
    model = SVC(**parameters).fit(X, y)
    assert model.status_ is Status.numerical
    assert 0 < model.gap_ < 1e-8


def test_a_proof_in_more_digits_survives_a_checkpoint(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=60)
    model = SVR(C=100.0, epsilon=0.05, tol=1e-11, checkpoint=tmp_path / "fit")
    first = clone(model).fit(X, y)
    again = clone(model).fit(X, y)
    assert again.gap_ <= 1e-11
    assert (again.objective_, again.lower_bound_) == (first.objective_, first.lower_bound_)
