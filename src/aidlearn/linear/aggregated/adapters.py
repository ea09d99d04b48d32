"""Other solvers for the aggregated SVM (paper, section 4): libsvm and liblinear, through scikit-learn.

A bound is reported only if a dual feasible point proves it: libsvm's own dual, repaired, or a dual fitted to the
hyperplane of liblinear, which returns none. Neither solver can be interrupted: under a time limit they are rerun with
more and more steps, as long as another run fits. Both may fail to converge on badly scaled rows, so their steps are
limited: a solver that gives up returns no solution.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from scipy import optimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, LinearSVC

from aidlearn.engine.problem import Accuracy, Solution
from aidlearn.linear.aggregated.certificate import certify
from aidlearn.linear.aggregated.hinge_rows import HingeRows, power_of_two
from aidlearn.numerics import Float

Found = TypeVar("Found")


@dataclass(frozen=True)
class AdapterSettings:
    """Settings with which libsvm and liblinear are called."""

    first_steps: int = 200
    """Steps (of two rows) of the first run of libsvm under a time limit."""
    steps: int = 100_000
    """Maximum number of steps of a run of SMO, where rounding may keep it from ending."""
    steps_per_row: int = 400
    """Additional steps per row."""
    first_epochs: int = 4
    """Passes over all rows in the first run of liblinear under a time limit."""
    most_epochs: int = 10_000
    """Maximum number of passes of a run of liblinear: a usual choice of scikit-learn's users."""
    loosest: float = 1e-3
    """Loosest tolerance, which is the default of libsvm."""
    tightest: float = 1e-8
    """Guess. Tightest tolerance of libsvm."""
    tightest_liblinear: float = 1e-6
    """Guess. Tightest tolerance of liblinear."""
    intercept_scaling: float = 10.0
    """Guess. Value of liblinear's intercept column, which divides the penalty of the intercept by 100."""
    growth: int = 8
    """Maximum growth of the number of steps between runs: earlier runs then take a small part of the time."""
    share: float = 0.6
    """Share of the remaining time that the next run is expected to take; steps differ in cost."""
    worth: float = 2.0
    """Minimum growth of the number of steps between runs: a smaller one does not repay the restart."""


SETTINGS = AdapterSettings()


def solve_by_libsvm(rows: HingeRows, point: Float | None, has_intercept: bool, accuracy: Accuracy) -> Solution | None:
    """Solve the weighted SVM by sequential minimal optimisation."""
    machine = _Machine.of(rows, has_intercept, "libsvm")
    tol = min(SETTINGS.loosest, max(accuracy.relative, SETTINGS.tightest))
    most = step_limit(len(machine.label))

    def make(steps: int) -> SVC:
        return SVC(kernel="linear", C=machine.cost, tol=tol, cache_size=500, max_iter=steps)

    def dual_of(model: SVC, found: Float) -> Float:
        dual = np.zeros(len(machine.label))
        dual[model.support_] = np.abs(model.dual_coef_[0]) / machine.unit**2
        return dual

    return machine.solved(make, dual_of, accuracy.deadline, SETTINGS.first_steps, most)


def solve_by_liblinear(
    rows: HingeRows, point: Float | None, has_intercept: bool, accuracy: Accuracy
) -> Solution | None:
    """Solve the weighted SVM by dual coordinate descent, which penalises the intercept (here only slightly)."""
    machine = _Machine.of(rows, has_intercept, "liblinear")
    tol = min(SETTINGS.loosest, max(accuracy.relative, SETTINGS.tightest_liblinear))

    def make(epochs: int) -> LinearSVC:
        scaling = SETTINGS.intercept_scaling
        return LinearSVC(
            loss="hinge",
            dual=True,
            C=machine.cost,
            tol=tol,
            intercept_scaling=scaling,
            max_iter=epochs,
            random_state=0,
        )

    def dual_of(model: LinearSVC, found: Float) -> Float:
        return _fitted_dual(rows, found)

    return machine.solved(make, dual_of, accuracy.deadline, SETTINGS.first_epochs, SETTINGS.most_epochs)


@dataclass(frozen=True)
class _Machine:
    """The SVM behind rows ``a_k = y_k (x_k, 1)``, with centred features of ordinary size.

    Features ``(X - c) / t`` with cost ``C t^2`` give the same machine, with t times the slopes and an intercept larger
    by ``c'w``. Without centring, libsvm does not terminate on rows with a large common offset.
    """

    rows: HingeRows
    X: Float
    label: Float
    centre: Float
    unit: float

    @classmethod
    def of(cls, rows: HingeRows, has_intercept: bool, name: str) -> _Machine:
        sign = rows.A.column(-1)
        pure = has_intercept and bool((np.abs(np.abs(sign) - 1) < 1e-9).all())
        if not (pure and (rows.tilt == 0).all() and rows.ridge.any()):
            raise ValueError(
                f"solver={name!r} solves hinge SVMs with an intercept whose clusters have one label each; "
                "use solver='auto' for this model or these initial clusters."
            )
        label = np.sign(sign)
        # These solvers receive dense rows: they serve comparisons, not problems of many sparse rows.
        X = rows.A.rows(np.arange(len(label)))[:, :-1] * label[:, None]
        centre = X.mean(axis=0)
        unit = power_of_two(1.4 * float(np.sqrt(np.mean((X - centre) ** 2))))
        return cls(rows, (X - centre) / unit, label, centre, unit)

    @property
    def cost(self) -> float:
        """C of the scaled machine, for sample weights of at most 1."""
        return float(self.rows.weight.max()) * self.unit**2

    def solved(
        self,
        make: Callable[[int], Any],
        dual_of: Callable[[Any, Float], Float],
        deadline: float,
        first: int,
        most: int,
    ) -> Solution | None:
        """Return the solution of the model that ``make`` builds for a number of steps, and the bound of its dual.

        Returns None if the solver gives up: after ``most`` steps, or with coefficients that are not finite.
        """
        rows = self.rows
        if len(np.unique(self.label)) < 2:
            return Solution(self._constant(self.label[0]), 0.0)
        weight = rows.weight / rows.weight.max()

        def run(steps: int) -> tuple[Any, int]:
            model = make(steps)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                try:
                    model.fit(self.X, self.label, sample_weight=weight)
                except ValueError:  # libsvm's coefficients are not finite
                    return None, most
            return model, int(np.max(model.n_iter_))

        reached = within(deadline, run, first, most)
        if reached.gave_up:
            return None
        slopes = reached.found.coef_[0] / self.unit
        point = np.append(slopes, reached.found.intercept_[0] - self.centre @ slopes)
        certificate = certify(rows, dual_of(reached.found, point), point)
        if reached.out_of_time:
            constant = self._constant(-1.0 if rows.weight @ self.label < 0 else 1.0)
            point = point if rows.value(point) <= rows.value(constant) else constant
        return Solution(point, certificate.bound, False, certificate.dual, out_of_time=reached.out_of_time)

    def _constant(self, label: float) -> Float:
        """Return the hyperplane that puts every row on the side of one label."""
        return np.append(np.zeros(len(self.centre)), label)


def _fitted_dual(rows: HingeRows, w: Float) -> Float:
    """Return a dual for a hyperplane, at its bounds away from the margin and fitted to ``A'p = P w`` near it."""
    z = rows.margins(w)
    near = np.argsort(np.abs(z))[: 2 * len(w)]
    dual = np.where(z > 0, rows.upper, rows.lower)
    dual[near] = 0.0
    wanted = rows.ridge * w - rows.A.T @ dual
    dual[near] = optimize.lsq_linear(rows.A.rows(near).T, wanted, (rows.lower[near], rows.upper[near])).x
    return dual


@dataclass(frozen=True)
class Attempt(Generic[Found]):
    """The result of the last run, and why there was no longer one."""

    found: Found
    out_of_time: bool = False
    gave_up: bool = False
    """Whether the solver has taken all steps that it may take."""


def step_limit(n: int) -> int:
    """Return the maximum number of steps of SMO on n rows."""
    return SETTINGS.steps + SETTINGS.steps_per_row * n


def within(deadline: float, run: Callable[[int], tuple[Found, int]], first: int, most: int) -> Attempt[Found]:
    """Return the result of the longest run that a deadline allows; ``run`` returns its result and the steps it took.

    A run that takes fewer steps than allowed has finished. Without a deadline there is one run.
    """
    steps = most if math.isinf(deadline) else min(first, most)
    while True:
        began = time.monotonic()
        found, taken = run(steps)
        now = time.monotonic()
        if taken < steps or max(steps, taken) >= most:
            return Attempt(found, gave_up=taken >= most)
        pace = max(now - began, 1e-6) / steps
        affordable = int(SETTINGS.share * max(deadline - now, 0.0) / pace)
        following = min(SETTINGS.growth * steps, affordable, most)
        if following < SETTINGS.worth * steps and following < most:
            return Attempt(found, out_of_time=True)
        steps = following
