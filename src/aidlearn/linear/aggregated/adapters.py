"""Other solvers for the aggregated SVM (paper, section 4): libsvm and liblinear, through scikit-learn.

A bound is only reported where a dual-feasible point backs it: libsvm's own dual, repaired, and for liblinear
(which shows none) a dual fitted to its hyperplane.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, LinearSVC

from aidlearn.engine.problem import Accuracy, Solution
from aidlearn.linear.aggregated.borrowed import within
from aidlearn.linear.aggregated.certificate import certify
from aidlearn.linear.aggregated.hinge_rows import HingeRows, power_of_two
from aidlearn.numerics import Float


@dataclass(frozen=True)
class AdapterSettings:
    """Numbers that libsvm and liblinear are called with."""

    first_steps: int = 200
    """Steps (of two rows) of the first run of libsvm under a time limit."""
    most_steps: int = 10**9
    """Steps of its last run under a time limit."""
    first_epochs: int = 4
    """Passes over all rows in the first run of liblinear under a time limit."""
    most_epochs: int = 10_000
    """Passes of its last run, and of a run without a time limit: a usual choice of scikit-learn's users."""
    loosest: float = 1e-3
    """Loosest tolerance: the default of libsvm."""
    tightest: float = 1e-8
    """Guess. Tightest tolerance of libsvm."""
    tightest_liblinear: float = 1e-6
    """Guess. Tightest tolerance of liblinear."""
    intercept_scaling: float = 10.0
    """Guess. Value of the column of liblinear's intercept, whose penalty it divides by 100."""


SETTINGS = AdapterSettings()


def solve_by_libsvm(rows: HingeRows, point: Float | None, has_intercept: bool, accuracy: Accuracy) -> Solution:
    """The weighted SVM by sequential minimal optimisation."""
    X, label = _unfolded(rows, has_intercept, "libsvm")
    if len(np.unique(label)) < 2:
        return Solution(_constant(rows, label), 0.0)
    tol = min(SETTINGS.loosest, max(accuracy.relative, SETTINGS.tightest))
    frame = _Frame.of(X)
    largest = float(rows.weight.max())
    scaled = frame.apply(X)

    def run(steps: int) -> tuple[SVC, int]:
        model = SVC(kernel="linear", C=largest * frame.unit**2, tol=tol, cache_size=500, max_iter=steps)
        _fitted(model, scaled, label, rows.weight / largest)
        return model, int(model.n_iter_.max())

    reached = within(accuracy.deadline, run, SETTINGS.first_steps, SETTINGS.most_steps, unlimited=-1)
    model = reached.found
    dual = np.zeros(len(label))
    dual[model.support_] = np.abs(model.dual_coef_[0]) / frame.unit**2
    found = frame.to_point(model.coef_[0], model.intercept_[0])
    certificate = certify(rows, dual, found)
    if reached.out_of_time:
        found = _usable(rows, found, label)
    return Solution(found, certificate.bound, False, certificate.dual, out_of_time=reached.out_of_time)


def solve_by_liblinear(rows: HingeRows, point: Float | None, has_intercept: bool, accuracy: Accuracy) -> Solution:
    """The weighted SVM by dual coordinate descent (which penalises the intercept, here only a little)."""
    X, label = _unfolded(rows, has_intercept, "liblinear")
    if len(np.unique(label)) < 2:
        return Solution(_constant(rows, label), 0.0)
    frame = _Frame.of(X)
    largest = float(rows.weight.max())
    scaled = frame.apply(X)

    def run(epochs: int) -> tuple[LinearSVC, int]:
        model = LinearSVC(
            loss="hinge",
            dual=True,
            C=largest * frame.unit**2,
            tol=min(SETTINGS.loosest, max(accuracy.relative, SETTINGS.tightest_liblinear)),
            intercept_scaling=SETTINGS.intercept_scaling,
            max_iter=epochs,
            random_state=0,
        )
        _fitted(model, scaled, label, rows.weight / largest)
        return model, int(model.n_iter_)

    reached = within(accuracy.deadline, run, SETTINGS.first_epochs, SETTINGS.most_epochs)
    model = reached.found
    found = frame.to_point(model.coef_[0], model.intercept_[0])
    certificate = certify(rows, _dual_of(rows, found), found)
    if reached.out_of_time:
        found = _usable(rows, found, label)
    return Solution(found, certificate.bound, False, certificate.dual, out_of_time=reached.out_of_time)


def _fitted(model: Any, X: Float, label: Float, weight: Float) -> None:
    with warnings.catch_warnings():
        # A solver that has not converged costs iterations of AID, not correctness.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, label, sample_weight=weight)


def _dual_of(rows: HingeRows, w: Float) -> Float:
    """A dual for a hyperplane: at its bound away from the margin, fitted to ``A'p = P w`` near it."""
    z = rows.margins(w)
    near = np.argsort(np.abs(z))[: 2 * len(w)]
    dual = np.where(z > 0, rows.upper, rows.lower)
    dual[near] = 0.0
    wanted = rows.ridge * w - rows.A.T @ dual
    fitted = optimize.lsq_linear(rows.A.rows(near).T, wanted, (rows.lower[near], rows.upper[near]))
    dual[near] = fitted.x
    return dual


def _unfolded(rows: HingeRows, has_intercept: bool, name: str) -> tuple[Float, Float]:
    """Mean rows and labels behind ``a_k = y_k (x_k, 1)``."""
    sign = rows.A.column(-1)
    pure = has_intercept and bool((np.abs(np.abs(sign) - 1) < 1e-9).all())
    if not (pure and (rows.tilt == 0).all() and rows.ridge.any()):
        raise ValueError(
            f"solver={name!r} solves hinge SVMs with an intercept whose clusters have one label each; "
            "use solver='auto' for this model or these initial clusters."
        )
    label = np.sign(sign)
    # These solvers receive dense rows: they serve comparisons, not problems of many sparse rows.
    return rows.A.rows(np.arange(len(label)))[:, :-1] * label[:, None], label


@dataclass(frozen=True)
class _Frame:
    """Centred features of ordinary size.

    ``(X - c) / t`` with ``C t^2`` is the same machine with t times the slopes and an intercept larger by ``c'w``. On
    rows with a large common offset libsvm would not terminate.
    """

    centre: Float
    unit: float

    @classmethod
    def of(cls, X: Float) -> _Frame:
        centre = X.mean(axis=0)
        return cls(centre, power_of_two(1.4 * float(np.sqrt(np.mean((X - centre) ** 2)))))

    def apply(self, X: Float) -> Float:
        return (X - self.centre) / self.unit

    def to_point(self, slopes: Float, intercept: float) -> Float:
        slopes = slopes / self.unit
        return np.append(slopes, intercept - self.centre @ slopes)


def _usable(rows: HingeRows, found: Float, label: Float) -> Float:
    """The hyperplane of a solver that ran out of time, if it is better than the heavier label for all rows."""
    heavier = np.where(rows.weight @ label < 0, -1.0, 1.0)
    constant = _constant(rows, heavier[None])
    return found if rows.value(found) <= rows.value(constant) else constant


def _constant(rows: HingeRows, label: Float) -> Float:
    """The hyperplane that puts every row on its side if there is one label only."""
    point = np.zeros(rows.A.shape[1])
    point[-1] = label[0]
    return point
