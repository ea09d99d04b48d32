"""Wide rows: Newton's method on the rounded loss before the interior point, and matrices without light rows.

Both are for large problems; here they are switched on for small ones, whose optima other solvers tell.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize
from sklearn.svm import SVC

from aidlearn.linear.aggregated import interior_point, smoothing
from aidlearn.linear.aggregated.hinge_rows import HingeRows
from aidlearn.linear.rows import matrix
from aidlearn.linear.rows.matrix import Dense


@pytest.fixture(autouse=True)
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoothing, "SETTINGS", replace(smoothing.SETTINGS, worthwhile=0.0))
    monkeypatch.setattr(matrix, "FEWEST_COLUMNS", 1)


def _lad(rng: np.random.Generator, n: int, p: int) -> tuple[HingeRows, float]:
    A = np.column_stack([rng.normal(size=(n, p - 1)), np.ones(n)])
    e = A @ rng.normal(size=p) + rng.laplace(size=n)
    program = optimize.linprog(
        -e, A_eq=A.T, b_eq=np.zeros(p), bounds=np.column_stack([-np.ones(n), np.ones(n)]), method="highs"
    )
    return HingeRows.of_array(A, e, np.full(n, 2.0), np.full(n, 0.5), np.zeros(p)), -float(program.fun)


def _svm(rng: np.random.Generator, n: int, p: int, C: float) -> tuple[HingeRows, float]:
    X = rng.normal(size=(n, p - 1))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=n) > 0.5, 1.0, -1.0)
    machine = SVC(kernel="linear", C=C, tol=1e-7).fit(X, y)
    w, b = machine.coef_[0], machine.intercept_[0]
    optimum = 0.5 * w @ w + C * np.maximum(0, 1 - y * (X @ w + b)).sum()
    A = np.column_stack([X, np.ones(n)]) * y[:, None]
    ridge = np.append(np.ones(p - 1), 0.0)
    return HingeRows.of_array(A, np.ones(n), np.full(n, C), np.zeros(n), ridge), float(optimum)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["lad", "svm", "svm, small C"])
def test_the_optimum_of_other_solvers(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, optimum = _lad(rng, 600, 40) if kind == "lad" else _svm(rng, 600, 40, 0.01 if "small" in kind else 1.0)
    found = interior_point.solve(rows, np.zeros(40), 1e-7)
    assert found.certificate.bound <= optimum * (1 + 1e-9)
    assert found.value == pytest.approx(optimum, rel=1e-6)
    assert found.gap <= 1e-7 * found.value + rows.rounding


@pytest.mark.parametrize("kind", ["lad", "svm"])
def test_the_warm_start_is_close(kind: str) -> None:
    rng = np.random.default_rng(5)
    rows, optimum = _lad(rng, 2000, 40) if kind == "lad" else _svm(rng, 2000, 40, 0.1)
    point, _ = smoothing.warm_start(rows, np.zeros(40))
    assert rows.value(point) <= 1.01 * optimum
    assert rows.value(point) < 0.9 * rows.value(np.zeros(40))


def test_rows_of_all_weights() -> None:
    """Groups beside single rows: a width that is right for a row need not be for thousands together."""
    rng = np.random.default_rng(1)
    rows, _ = _svm(rng, 800, 30, 1.0)
    weight = np.where(np.arange(800) % 10 == 0, 10.0 ** rng.uniform(0, 4, 800), 1.0)
    heavy = HingeRows(rows.A, rows.e, weight, rows.tilt, rows.ridge)
    found = interior_point.solve(heavy, np.zeros(30), 1e-6)
    machine = SVC(kernel="linear", C=1.0, tol=1e-6)
    signed = rows.A.rows(np.arange(800))
    y = signed[:, -1]
    machine.fit(signed[:, :-1] * y[:, None], y, sample_weight=weight)
    theirs = heavy.value(np.append(machine.coef_[0], machine.intercept_[0]))
    assert found.certificate.bound <= theirs * (1 + 1e-9)
    assert found.gap <= 1e-6 * found.value + heavy.rounding


def test_separable_classes_and_a_column_of_zeros() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 20))
    X[:, 3] = 0.0
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    X[:, 0] += y
    A = np.column_stack([X, np.ones(400)]) * y[:, None]
    rows = HingeRows.of_array(A, np.ones(400), np.full(400, 100.0), np.zeros(400), np.append(np.ones(20), 0.0))
    found = interior_point.solve(rows, np.zeros(21), 1e-6)
    assert found.gap <= 1e-6 * found.value + rows.rounding


def test_light_rows_are_left_out_of_a_matrix_but_never_too_many() -> None:
    rng = np.random.default_rng(3)
    A = Dense(rng.normal(size=(500, 10)))
    D = np.where(np.arange(500) < 100, 1.0, 1e-9)
    kept, weight = A.heaviest(D, 1e-3)
    assert kept.shape == (100, 10)
    assert (weight == 1.0).all()
    one = np.where(np.arange(500) < 3, 1.0, 1e-9 * rng.random(500))
    kept, _ = A.heaviest(one, 1e-3)
    assert kept.shape == (matrix.ROWS_PER_COLUMN * 10, 10)
    everything, _ = A.heaviest(np.ones(500), 1e-3)
    assert everything is A
