"""The base of kernel machines: checks of kernel and rows, the certified fit of one machine, scores of its expansion."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from aidlearn.data.passes.moments import checked_rows
from aidlearn.data.passes.run import Run
from aidlearn.data.rows.arrays import ArraySource
from aidlearn.data.rows.memory import parse_bytes
from aidlearn.data.rows.source import DataSource
from aidlearn.data.rows.threads import n_threads, one_blas_thread
from aidlearn.data.tables.conversion import feature_rows, is_elsewhere, linear_scores
from aidlearn.engine.checkpoint import Checkpoint
from aidlearn.engine.result import Result, Status
from aidlearn.estimators.base import AIDEstimator
from aidlearn.estimators.checks import check_number, generator
from aidlearn.estimators.fitting import Fitted, fit_problem
from aidlearn.kernel.dual import best_intercept
from aidlearn.kernel.entries import KernelEntries
from aidlearn.kernel.functions import SETTINGS as CHECKS
from aidlearn.kernel.functions import Kernel, check_whole_matrix, factor_gram, gram_matrix, kernel_from
from aidlearn.kernel.problem import KernelHinge, KernelSettings, StartMethod
from aidlearn.kernel.rows import SETTINGS as ROWS
from aidlearn.kernel.rows import (
    KernelRows,
    LandmarkSource,
    expansion_scores,
    kernel_rows,
    landmark_features,
    landmark_map,
)
from aidlearn.kernel.solvers import SOLVERS
from aidlearn.kernel.start import METHODS, given
from aidlearn.kernel.values import UNIT, KernelPoint, in_long_double
from aidlearn.linear.aggregated.hinge_rows import EPS
from aidlearn.linear.start.methods import cluster_codes
from aidlearn.numerics import Float, Int


@dataclass(frozen=True)
class MachineSettings:
    """Numerical limits of a fit."""

    longest_row: float = 1e75
    """Maximum length of a row in the space of the kernel, whose fourth power is finite."""
    large_box: float = 300.0
    """Guess. C (times weight, over the size of targets) beyond which kernel values are float64 throughout, because it
    multiplies the errors of float32 scores."""
    unreliable: float = 1e-2
    """Guess. Fraction of the objective above which its rounding error causes a warning."""


SETTINGS = MachineSettings()


@dataclass(frozen=True)
class Plane:
    """A machine of the linear kernel as a hyperplane, with scores ``x'slopes + intercept``."""

    slopes: Float
    intercept: float


@dataclass(frozen=True)
class Machine:
    """A fitted machine; in classification its second class is positive."""

    fit: Fitted
    rows: Int
    """Row numbers of the support vectors."""
    coef: Float
    intercept: float
    plane: Plane | None = None
    """The hyperplane of the linear kernel, whose objective is reported; None for other kernels."""


def refuse_elsewhere(model: AIDEstimator, X: Any) -> None:
    """Raise an error if rows are not in memory."""
    if isinstance(X, DataSource) or is_elsewhere(X):
        raise ValueError(
            f"{type(model).__name__} takes arrays, sparse matrices and tables, but no path, Dask collection or "
            "DataSource."
        )


class KernelMachine(AIDEstimator):
    """A model that is an expansion in kernels of its training rows."""

    C: float
    kernel: Any
    gamma: Any
    degree: float
    coef0: float
    approximation: str | None
    n_components: int
    memory_limit: float | str

    support_: Int
    support_vectors_: Any
    shape_fit_: tuple[int, ...]

    fit_intercept = True
    _kernel: Kernel
    _expansion: Float
    """Coefficients of the support vectors, one column per machine."""
    _offsets: Float
    """Intercepts of the expansion."""

    @abstractmethod
    def _entries(self, rows: KernelRows, y: Float, box: Float, unit: float) -> KernelEntries:
        """Return the entries of the problem: rows, targets and upper bounds of their dual variables."""

    @abstractmethod
    def _expansion_of_dual(self) -> Float:
        """Return the coefficients of the support vectors, one column per machine, from ``dual_coef_``."""

    def _checked_kernel(self, X: Any, weight: Float) -> Kernel:
        """Return the kernel of the parameters; raise an error if it is indefinite or cluster labels do not fit X."""
        kernel, n = kernel_from(self.kernel, self.gamma, self.degree, self.coef0, X, weight), X.shape[0]
        if kernel.precomputed:
            if n != X.shape[1]:
                raise ValueError(f"Precomputed matrix must be a square matrix. Input is a {n}x{X.shape[1]} matrix.")
            check_whole_matrix(X)
        if kernel.precomputed or callable(kernel.name):
            rows = np.arange(n)
            if n > CHECKS.checked_rows:
                rows = np.sort(generator(self.random_state).choice(n, CHECKS.checked_rows, replace=False))
                warnings.warn(
                    f"The kernel was checked on {CHECKS.checked_rows} of {n} rows only; the certificate presumes that "
                    "it is positive semidefinite on all of them.",
                    stacklevel=3,
                )
            factor_gram(gram_matrix(kernel, X, rows))
        if not isinstance(self.init, str) and not callable(self.init):
            cluster_codes(np.asarray(self.init), n)
        return kernel

    def _fit_machine(
        self,
        run: Run,
        kernel: Kernel,
        X: Any,
        y: Float,
        weight: Float,
        here: Int,
        checkpoint: Checkpoint | None,
        n_left: int = 1,
        unit: float = 1.0,
    ) -> Machine:
        """Fit one of ``n_left`` remaining machines on the rows ``here`` of X, whose targets are y."""
        part, box = kernel.training_rows(X, here), float(self.C) * weight[here]
        rows = self._rows(kernel, part, run.n_jobs, float(box.max()) / unit)
        entries, result = self._entries(rows, y, box, unit), None
        if self.approximation:
            fit, coef, intercept = self._on_landmarks(run, rows, entries, checkpoint, n_left)
        else:
            problem = KernelHinge(run, entries, self._settings(rows, here), generator(self.random_state))
            fit, point = self._certified(problem, checkpoint, n_left)
            coef, intercept, result = entries.row_coef(point.coef), point.intercept, fit.result
        used = np.flatnonzero(coef)
        plane = self._plane(kernel, part, coef, entries, result) if kernel.name == "linear" else None
        return Machine(fit, here[used], coef[used], intercept, plane)

    def _rows(self, kernel: Kernel, X: Any, n_jobs: int, largest_box: float) -> KernelRows:
        """Return the rows, with float32 kernel values where these are accurate enough."""
        tol = 0.0 if largest_box > SETTINGS.large_box else self.tol
        compiled = {"smo": True, "libsvm": False}.get(self.solver)
        rows = kernel_rows(kernel, X, n_jobs, tol, compiled)
        with np.errstate(over="ignore", invalid="ignore"):
            if not rows.lengths.max(initial=0.0) < SETTINGS.longest_row:
                raise ValueError("Values of this kernel are too large for float64: scale X, or choose a smaller gamma.")
        return rows

    def _settings(self, rows: KernelRows, here: Int) -> KernelSettings:
        """Return the options for solving the machine of the rows ``here``."""
        return KernelSettings(
            solver=SOLVERS["smo" if rows.compiled else self.solver],
            start_method=self._start_method(here),
            separate=isinstance(self.init, str) and self.init in ("auto", "band", "rows"),
            tol=self.tol,
            memory_limit=parse_bytes("memory_limit", self.memory_limit),
            initial_rate=self.initial_rate,
        )

    def _certified(
        self, problem: KernelHinge, checkpoint: Checkpoint | None, n_left: int = 1
    ) -> tuple[Fitted, KernelPoint]:
        """Solve one of ``n_left`` remaining machines; its objective is computed in float64 and rounded up."""
        fit = fit_problem(problem, self._limits(problem.run, n_left), self._callbacks(), checkpoint=checkpoint)
        result = fit.result
        point: KernelPoint = result.point
        point = point if point.exact else problem.values.recomputed(point)
        result.objective = problem.values.reached(point)
        fewer = 1.0 if point.reached is None else UNIT / EPS
        if fewer * problem.values.square_error(point) > SETTINGS.unreliable * result.objective:
            warnings.warn(
                "The values of this kernel are so large that rounding hides the objective: centre and scale X, or "
                "choose a smaller gamma or degree.",
                stacklevel=4,
            )
        self._reconsider(result)
        return fit, point

    def _reconsider(self, result: Result) -> None:
        """Update bound and status for a new objective."""
        result.judge()
        result.lower_bound = max(result.lower_bound, 0.0)
        if result.status in (Status.gap, Status.numerical):
            result.status = Status.gap if result.gap <= self.tol else Status.numerical

    def _plane(self, kernel: Kernel, X: Any, coef: Float, entries: KernelEntries, result: Result | None) -> Plane:
        """Return the hyperplane of the linear kernel with the best intercept; the result receives its objective.

        If columns have large offsets, scores of the features have fewer digits than those of the expansion: the
        reported objective is therefore that of the returned hyperplane, rounded up. X may have two entries per row.
        """
        y, box, edge = entries.y, entries.box, entries.edge
        sides, used = len(y) // X.shape[0], np.flatnonzero(coef)
        wide = in_long_double(X)
        if wide is None:
            slopes = np.asarray(kernel.centred(X[used]).T @ coef[used])
        else:
            centred = wide[used] if kernel.centre is None or sparse.issparse(X) else wide[used] - kernel.centre
            slopes = np.asarray(centred.T @ coef[used], dtype=np.float64)
        scores = np.tile(linear_scores(X, slopes[None], 0.0)[:, 0] if wide is None else wide @ slopes, sides)
        plane = Plane(slopes, best_intercept(scores, y, box, edge))
        if result is not None and result.objective > 0:
            z = edge - y * (scores + plane.intercept)
            size = np.tile(linear_scores(abs(X), np.abs(slopes)[None], abs(plane.intercept))[:, 0], sides)
            error = (4.0 * EPS if wide is None else (X.shape[1] + 4.0) * UNIT) * (size + np.abs(edge))
            if sides > 1:  # the edge of a tube is a rounded difference of target and width
                error = error + EPS * np.abs(edge)
            losses = float(np.sum(box * np.maximum(0.0, z + error)))
            reached = 0.5 * float(slopes @ slopes) + losses
            result.objective = reached * (1.0 + (64.0 if wide is None else 4.0 + X.shape[1]) * EPS)
            self._reconsider(result)
        return plane

    def _on_landmarks(
        self, run: Run, rows: KernelRows, entries: KernelEntries, checkpoint: Checkpoint | None, n_left: int
    ) -> tuple[Fitted, Float, float]:
        """Fit the linear machine on the features of landmark rows; return its coefficients and intercept."""
        y, box = entries.target, entries.row_box
        n_landmarks = min(int(self.n_components), rows.n)
        landmarks = np.sort(generator(self.random_state).choice(rows.n, n_landmarks, replace=False))
        mapping = landmark_map(rows, landmarks)
        source: DataSource = LandmarkSource(rows, landmarks, mapping, y, box)
        if rows.n * n_landmarks * np.dtype(rows.dtype).itemsize <= parse_bytes("memory_limit", self.memory_limit):
            source = ArraySource(landmark_features(rows, landmarks, mapping, np.arange(rows.n)), y, box, rows.n_jobs)
        problem = entries.linear_problem(run.of(source), generator(self.random_state))
        fit = fit_problem(problem, self._limits(problem.run, n_left), self._callbacks(), checkpoint=checkpoint)
        coef = np.zeros(rows.n)
        coef[landmarks] = mapping @ fit.result.point[:-1]
        return fit, coef, float(fit.result.point[-1])

    def _store_kernel(self, kernel: Kernel, X: Any) -> None:
        self._kernel = kernel
        self.support_vectors_ = np.empty((0, 0)) if kernel.precomputed else X[self.support_]
        self.shape_fit_ = X.shape
        self.certified_kernel_ = "exact"
        if self.approximation:
            self.certified_kernel_ = f"Nystroem approximation by {min(int(self.n_components), X.shape[0])} rows"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "status_")

    def _scores(self, X: Any) -> Float:
        """Return scores, one column per machine."""
        check_is_fitted(self)
        checked = self._checked(X)
        if hasattr(self, "coef_"):  # linear kernel; models of the first version have no coef_
            return linear_scores(checked, self.coef_, self.intercept_, self._recipe())
        rows = checked_rows(Run(feature_rows(checked, self._recipe()))).X
        with one_blas_thread():
            support = self.support_ if self._kernel.precomputed else self.support_vectors_
            # Scores are computed as in the fit, regardless of the rows to score.
            compiled = self.shape_fit_[0] >= ROWS.compiled_rows
            threads = n_threads(self.n_jobs)
            return expansion_scores(self._kernel, rows, support, self._expansion, threads, compiled) + self._offsets

    def _start_method(self, here: Int | slice = slice(None)) -> StartMethod:
        """Return the initial clustering of the rows ``here`` that ``init`` describes."""
        if isinstance(self.init, str) and self.init in METHODS:
            return METHODS[self.init]
        if callable(self.init):
            return given(self.init)
        if not isinstance(self.init, str) and np.ndim(self.init) == 1:
            return given(np.asarray(self.init)[here])
        raise ValueError(
            f"init must be one of {', '.join(map(repr, METHODS))}, an array of cluster labels or a callable, "
            f"got {self.init!r}."
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("C", self.C, low=0)
        check_number("n_components", self.n_components, low=1, include_low=True, whole=True)
        parse_bytes("memory_limit", self.memory_limit)
        if isinstance(self.kernel, str) and self.kernel == "poly":
            check_number("degree", self.degree, low=1, include_low=True, whole=True)
            check_number("coef0", self.coef0, low=0, include_low=True)
        if self.approximation not in (None, "nystroem"):
            raise ValueError(f"approximation must be None or 'nystroem', got {self.approximation!r}.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return tags


def file_state(model: KernelMachine) -> dict[str, Any]:
    """Return the values that predictions need beyond parameters and fitted attributes."""
    return {**asdict(model._kernel), "offsets": model._offsets}


def restore_file_state(model: KernelMachine, state: Mapping[str, Any]) -> None:
    """Restore the values from a file in a model that has its fitted attributes."""
    model._kernel, model._offsets = Kernel.of_values(state), state["offsets"]
    model._expansion = model._expansion_of_dual()
