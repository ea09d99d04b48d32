"""What kernel machines share: kernel, rows and memory, the certified fit of one machine, scores of its expansion."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from aidlearn.data.opening import is_elsewhere
from aidlearn.data.passes.moments import checked_rows
from aidlearn.data.passes.run import Run
from aidlearn.data.rows.arrays import ArraySource
from aidlearn.data.rows.memory import parse_bytes
from aidlearn.data.rows.source import DataSource
from aidlearn.data.rows.threads import n_threads, one_blas_thread
from aidlearn.data.tables.conversion import feature_rows, linear_scores
from aidlearn.engine.checkpoint import Checkpoint
from aidlearn.engine.problem import Problem
from aidlearn.engine.result import Result, Status, below
from aidlearn.estimators.base import AIDEstimator
from aidlearn.estimators.checks import check_number, generator
from aidlearn.estimators.fitting import Fitted, fit_problem
from aidlearn.estimators.kernel.one_against_one import Plane
from aidlearn.kernel.dual import best_intercept
from aidlearn.kernel.functions import Kernel
from aidlearn.kernel.matrix import SETTINGS as CHECKS
from aidlearn.kernel.matrix import check_kernel_matrix, check_whole_matrix
from aidlearn.kernel.nystroem import LandmarkSource, landmark_features, landmark_map
from aidlearn.kernel.precise import UNIT, in_long_double
from aidlearn.kernel.problem import KernelHinge, KernelSettings
from aidlearn.kernel.rows import SETTINGS as ROWS
from aidlearn.kernel.rows import KernelRows, expansion_scores, kernel_rows
from aidlearn.kernel.solvers import SOLVERS
from aidlearn.kernel.start import METHODS, given
from aidlearn.kernel.values import KernelPoint
from aidlearn.linear.aggregated.hinge_rows import EPS
from aidlearn.linear.start.user_labels import cluster_codes
from aidlearn.numerics import Float, Int

LONGEST = 1e75
"""Length of a row in the space of the kernel: fourth powers of it are finite."""
COMPONENTS = 300
"""Landmarks of the approximated kernel by default."""
LARGE_BOX = 300.0
"""From this C (times weight, over the size of targets) on kernel values are float64 throughout."""
UNRELIABLE = 1e-2
"""Part of the objective that rounding may reach before a fit warns."""

KERNEL_PARAMETERS = """
    kernel : {"rbf", "poly", "linear", "precomputed"} or callable, default="rbf"
        A callable takes two arrays of rows and returns their kernel matrix. It must be positive semidefinite; "sigmoid"
        is not.
    gamma : {"scale", "auto"} or float, default="scale"
        Of the kernels rbf and poly, as in scikit-learn.
    degree : int, default=3
    coef0 : float, default=0.0
        Of the kernel poly; not negative."""
MACHINE_PARAMETERS = """
    approximation : {None, "nystroem"}, default=None
        "nystroem" solves the problem of the kernel's approximation by ``n_components`` rows with the linear machinery,
        for millions of rows. The certificate is then one for the approximated kernel (see ``certified_kernel_``).
    n_components : int, default=300
        Rows that represent the kernel if it is approximated.
    memory_limit : float or str, default="2GB"
        Memory for kernel values, in bytes or as in "500MB".
    tol : float, default=1e-4
        Certified relative gap at which to stop.
    max_iter : int, default=100
        Limit on iterations (aggregated problems solved).
    time_limit : float, optional
        Seconds after which the best solution so far is returned (of each pair of classes, where there are several).
    init : {"auto", "band", "kmeans", "kernel-kmeans", "rows"}, array of labels or callable, default="auto"
        Initial clusters: "band" around a linear machine on Nystroem features; "kmeans" (distances to a sample's
        hyperplane) and "kernel-kmeans" are the paper's procedures; "rows" does without clusters. "auto" is "rows"
        for few rows or few support vectors, else "band".
    initial_rate : float, optional
        Initial clusters over rows (r^0)."""


class KernelMachine(AIDEstimator):
    """A model that is a sum of kernels of its rows."""

    C: float
    kernel: Any
    gamma: Any
    degree: int
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
    """Intercepts that belong to the expansion."""

    def _refuse_elsewhere(self, X: Any) -> None:
        if isinstance(X, DataSource) or is_elsewhere(X):
            raise ValueError(
                f"{type(self).__name__} takes arrays, sparse matrices and tables, neither a path, a Dask collection "
                "nor a DataSource."
            )

    def _rows(self, kernel: Kernel, X: Any, n_jobs: int, largest_box: float) -> KernelRows:
        """Rows with the way their kernel is computed."""
        # Errors of float32 scores count as often as the box is large.
        tol = 0.0 if largest_box > LARGE_BOX else self.tol
        compiled = {"smo": True, "libsvm": False}.get(self.solver)
        rows = kernel_rows(kernel, X, n_jobs, tol, compiled)
        with np.errstate(over="ignore", invalid="ignore"):
            if not rows.lengths.max(initial=0.0) < LONGEST:
                raise ValueError("Values of this kernel are too large for float64: scale X, or choose a smaller gamma.")
        return rows

    def _settings(self, rows: KernelRows, here: Any = slice(None)) -> KernelSettings:
        """How the machine of the rows ``here`` is to be solved."""
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
        """Solve one of ``n_left`` machines; its objective is that of the point, in float64 and rounded up."""
        fit = fit_problem(problem, self._limits(problem.run, n_left), self._callbacks(), checkpoint=checkpoint)
        result = fit.result
        point: KernelPoint = result.point
        point = point if point.exact else problem.values.recomputed(point)
        result.objective = problem.values.reached(point)
        fewer = 1.0 if point.reached is None else UNIT / EPS
        if fewer * problem.values.square_error(point) > UNRELIABLE * result.objective:
            warnings.warn(
                "The values of this kernel are so large that rounding hides the objective: centre and scale X, or "
                "choose a smaller gamma or degree.",
                stacklevel=4,
            )
        self._reconsider(result)
        return fit, point

    def _reconsider(self, result: Result) -> None:
        """Bound and status beside the objective that was computed last."""
        result.lower_bound = max(below(result.lower_bound, result.objective), 0.0)
        if result.status in (Status.gap, Status.numerical):
            result.status = Status.gap if result.gap <= self.tol else Status.numerical

    @staticmethod
    def _slopes(kernel: Kernel, X: Any, coef: Float) -> Float:
        """Of the linear kernel, from the coefficients of all rows."""
        used = np.flatnonzero(coef)
        wide = in_long_double(X)
        if wide is None:
            return np.asarray(kernel.centred(X[used]).T @ coef[used])
        centred = wide[used] if kernel.centre is None or sparse.issparse(X) else wide[used] - kernel.centre
        return np.asarray(centred.T @ coef[used], dtype=np.float64)

    def _plane(self, slopes: Float, X: Any, y: Float, box: Float, edge: Float, result: Result | None) -> Plane:
        """The hyperplane with the best intercept, and its objective (rounded up) as that of the result.

        Scores of the expansion keep digits that scores of the features lose where columns have large offsets; what is
        reported belongs to what is returned. Entries may be both sides of the rows of X.
        """
        sides = len(y) // X.shape[0]
        wide = in_long_double(X)
        scores = np.tile(linear_scores(X, slopes[None], 0.0)[:, 0] if wide is None else wide @ slopes, sides)
        plane = Plane(slopes, best_intercept(scores, y, box, edge))
        if result is not None and result.objective > 0:
            z = edge - y * (scores + plane.intercept)
            size = np.tile(linear_scores(abs(X), np.abs(slopes)[None], abs(plane.intercept))[:, 0], sides)
            error = (4.0 * EPS if wide is None else (X.shape[1] + 4.0) * UNIT) * (size + np.abs(edge))
            if sides > 1:  # the edge of a tube was rounded when its width was taken from the target
                error = error + EPS * np.abs(edge)
            losses = float(np.sum(box * np.maximum(0.0, z + error)))
            reached = 0.5 * float(slopes @ slopes) + losses
            result.objective = reached * (1.0 + (64.0 if wide is None else 4.0 + X.shape[1]) * EPS)
            self._reconsider(result)
        return plane

    def _landmarks(self, rows: KernelRows) -> tuple[Int, Float]:
        """Rows that the kernel is approximated by, and the map to their features."""
        n_landmarks = min(int(self.n_components), rows.n)
        landmarks = np.sort(generator(self.random_state).choice(rows.n, n_landmarks, replace=False))
        return landmarks, landmark_map(rows, landmarks)

    def _landmark_source(self, rows: KernelRows, y: Float, box: Float, landmarks: Int, mapping: Float) -> DataSource:
        """All rows as features of the landmarks, kept where memory allows it."""
        if rows.n * len(landmarks) * np.dtype(rows.dtype).itemsize > parse_bytes("memory_limit", self.memory_limit):
            return LandmarkSource(rows, landmarks, mapping, y, box)
        features = landmark_features(rows, landmarks, mapping, np.arange(rows.n))
        return ArraySource(features, y, box, rows.n_jobs)

    def _approximated(
        self,
        problem: Problem,
        rows: KernelRows,
        landmarks: Int,
        mapping: Float,
        checkpoint: Checkpoint | None,
        n_left: int = 1,
    ) -> tuple[Fitted, Float, float]:
        """The linear machine on the features of landmark rows."""
        fit = fit_problem(problem, self._limits(problem.run, n_left), self._callbacks(), checkpoint=checkpoint)
        point = fit.result.point
        coef = np.zeros(rows.n)
        coef[landmarks] = mapping @ point[:-1]
        return fit, coef, float(point[-1])

    def _store_kernel(self, kernel: Kernel, X: Any) -> None:
        self._kernel = kernel
        self.support_vectors_ = np.empty((0, 0)) if kernel.precomputed else X[self.support_]
        self.shape_fit_ = X.shape
        self.certified_kernel_ = "exact"
        if self.approximation:
            self.certified_kernel_ = f"Nystroem approximation by {min(int(self.n_components), X.shape[0])} rows"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "status_")

    def _forget(self) -> None:
        """Drop what an earlier fit has left: if this one fails, there is no model and not half of two."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _scores(self, X: Any) -> Float:
        """Scores, one column per machine."""
        check_is_fitted(self)
        checked = self._checked(X)
        if hasattr(self, "coef_"):  # of the linear kernel; models of the first version have none
            return linear_scores(checked, self.coef_, self.intercept_, self._recipe())
        rows = checked_rows(Run(feature_rows(checked, self._recipe()))).X
        with one_blas_thread():
            support = self.support_ if self._kernel.precomputed else self.support_vectors_
            # As it was fitted, whatever the rows that are scored.
            compiled = self.shape_fit_[0] >= ROWS.compiled_rows
            threads = n_threads(self.n_jobs)
            return expansion_scores(self._kernel, rows, support, self._expansion, threads, compiled) + self._offsets

    def _start_method(self, here: Any = slice(None)) -> Any:
        """The initial clustering that ``init`` asks for, of the rows ``here``."""
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

    def _check_init(self, n: int) -> None:
        if not isinstance(self.init, str) and not callable(self.init):
            cluster_codes(np.asarray(self.init), n)

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

    def _check_kernel(self, kernel: Kernel, X: Any) -> None:
        """What is not known to be a kernel is looked at: an indefinite one has neither optimum nor bound."""
        if kernel.precomputed and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"Precomputed matrix must be a square matrix. Input is a {X.shape[0]}x{X.shape[1]} matrix."
            )
        if not (kernel.precomputed or callable(kernel.name)):
            return
        n = X.shape[0]
        rows = np.arange(n)
        if kernel.precomputed:
            check_whole_matrix(X)
        if n > CHECKS.checked_rows:
            rows = np.sort(generator(self.random_state).choice(n, CHECKS.checked_rows, replace=False))
            warnings.warn(
                f"The kernel was checked on {CHECKS.checked_rows} of {n} rows only; the certificate presumes that it "
                "is positive semidefinite on all of them.",
                stacklevel=3,
            )
        check_kernel_matrix(kernel, X, rows)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return tags


def file_state(model: KernelMachine) -> dict[str, Any]:
    """What predictions need beyond parameters and fitted attributes."""
    return {**asdict(model._kernel), "offsets": model._offsets}


def restored_kernel(model: KernelMachine, state: Mapping[str, Any]) -> None:
    """Give kernel and intercepts back to a model."""
    model._kernel, model._offsets = Kernel.of_values(state), state["offsets"]
