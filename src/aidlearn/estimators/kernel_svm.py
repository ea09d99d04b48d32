"""Kernel support vector machine (paper, appendix B)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import _ovr_decision_function
from sklearn.utils.validation import check_is_fitted

from aidlearn.data.arrays import ArraySource
from aidlearn.data.chunk import Float, Int
from aidlearn.data.convert import feature_rows, linear_scores
from aidlearn.data.memory import parse_bytes
from aidlearn.data.moments import checked_rows
from aidlearn.data.open import is_elsewhere
from aidlearn.data.run import Run
from aidlearn.data.source import DataSource
from aidlearn.data.targets import Classes, check_labels
from aidlearn.data.threads import n_threads, one_blas_thread
from aidlearn.engine.result import Result, Status, below
from aidlearn.estimators.base import FITTED_ATTRIBUTES, AIDEstimator
from aidlearn.estimators.checks import check_number, class_of, generator
from aidlearn.estimators.fitting import Fitted, fit_problem
from aidlearn.estimators.one_against_one import Machine, Plane, expansion_of, lay_out, pairs_of, winners
from aidlearn.kernel.dual import best_intercept
from aidlearn.kernel.functions import Kernel, kernel_from
from aidlearn.kernel.matrix import CHECKED_ROWS, check_kernel_matrix, check_whole_matrix
from aidlearn.kernel.nystroem import LandmarkSource, landmark_features, landmark_map
from aidlearn.kernel.problem import KernelHinge, KernelSettings
from aidlearn.kernel.rows import COMPILED_ROWS, KernelRows, expansion_scores, kernel_rows
from aidlearn.kernel.solvers import SOLVERS
from aidlearn.kernel.start import METHODS, given
from aidlearn.kernel.stored import kernel_of, kernel_values
from aidlearn.kernel.values import KernelPoint
from aidlearn.linear.given import cluster_codes
from aidlearn.linear.rows import EPS
from aidlearn.linear.svm import svm_problem

LONGEST = 1e75
"""Length of a row in the space of the kernel: fourth powers of it are finite."""
COMPONENTS = 300
"""Landmarks of the approximated kernel by default."""
LARGE_BOX = 300.0
"""From this C (times weight) on kernel values are float64 throughout."""
UNRELIABLE = 1e-2
"""Part of the objective that rounding may reach before a fit warns."""


class SVC(ClassifierMixin, AIDEstimator):
    __doc__ = f"""Kernel support vector classifier with a certified optimality gap.

    Minimises ``1/2 |w|^2 + C sum_i s_i max(0, 1 - y_i (<w, phi(x_i)> + b))``, the problem of
    :class:`sklearn.svm.SVC`, by AID: rows near the margin are kept, rows far inside it are clustered in the space of
    the kernel, rows far outside are left out until they matter. ``lower_bound_`` is the value of a dual-feasible
    point computed in float64. More than two classes are fitted one against one.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses.
    kernel : {{"rbf", "poly", "linear", "precomputed"}} or callable, default="rbf"
        A callable takes two arrays of rows and returns their kernel matrix. It must be positive semidefinite; "sigmoid"
        is not.
    gamma : {{"scale", "auto"}} or float, default="scale"
        Of the kernels rbf and poly, as in scikit-learn.
    degree : int, default=3
    coef0 : float, default=0.0
        Of the kernel poly; not negative.
    class_weight : dict or "balanced", optional
        Factors on the weights of the rows of each class.
    decision_function_shape : {{"ovr", "ovo"}}, default="ovr"
        Of :meth:`decision_function` for more than two classes.
    approximation : {{None, "nystroem"}}, default=None
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
        Seconds after which the best solution so far is returned (of each pair of classes).
    init : {{"auto", "band", "kmeans", "kernel-kmeans", "rows"}}, array of labels or callable, default="auto"
        Initial clusters: "band" around a linear machine on Nystroem features; "kmeans" (distances to a sample's
        hyperplane) and "kernel-kmeans" are the paper's procedures; "rows" does without clusters. "auto" is "rows"
        for few rows or few support vectors, else "band".
    initial_rate : float, optional
        Initial clusters over rows (r^0).
    solver : {{"auto", "smo", "libsvm"}}, default="auto"
        Of the aggregated problems: our compiled SMO, or libsvm; "auto" is libsvm for few rows.
    n_jobs : int, optional
        Threads; by default every core that the process may use. Results do not depend on it.
    random_state : int, default=0
    verbose : int, default=0
        1 logs every iteration.
    callbacks : callable or list of callables, optional
        Called with each :class:`~aidlearn.Iteration`; a true return value stops the fit.
    categorical_features : "from_dtype", list, mask, dict or None, default="from_dtype"
        Columns of a table that are factors: those of texts, categories and truth values, or exactly the named ones (a
        dict gives their reference levels). A factor has one column per level except its reference level.
    missing : {{"error", "drop", "level"}}, default="error"
        What missing cells do: refuse the table, leave out their rows (``n_dropped_`` counts them), or, in factors, be
        a level of their own.
    unknown : {{"error", "reference"}}, default="error"
        What a level does that the fit has not seen: refuse the prediction, or count as the reference level.
    checkpoint : None
        Checkpoints are for the linear models; anything else is refused.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    support_ : ndarray of int
        Rows in the expansion of the machine, grouped by class.
    support_vectors_ : array of shape (n_support, n_features)
        These rows (empty for a precomputed kernel).
    n_support_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (n_classes - 1, n_support)
        ``y_i alpha_i`` of these rows in each machine, laid out as in :class:`sklearn.svm.SVC`: a dual-feasible point,
        unless a limit or rounding ended the fit while the best machine was still that of the start.
    intercept_ : ndarray of shape (n_machines,)
    coef_ : ndarray of shape (n_machines, n_features)
        Of the linear kernel only.
    class_weight_ : ndarray of shape (n_classes,)
    shape_fit_ : tuple of int
    certified_kernel_ : str
        "exact", or which approximation of the kernel objective and bound belong to.{FITTED_ATTRIBUTES}

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import SVC
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> y = np.where((X**2).sum(axis=1) > 1.4, "out", "in")
    >>> model = SVC(C=10).fit(X, y)
    >>> model.predict([[0.0, 0.0], [2.0, 2.0]]).tolist(), bool(model.gap_ <= 1e-4)
    (['in', 'out'], True)
    """

    _solvers = ("auto", "smo", "libsvm")
    _keeps_checkpoints = False
    fit_intercept = True

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        class_weight: Any = None,
        decision_function_shape: str = "ovr",
        approximation: str | None = None,
        n_components: int = COMPONENTS,
        memory_limit: float | str = "2GB",
        tol: float = 1e-4,
        max_iter: int = 100,
        time_limit: float | None = None,
        init: Any = "auto",
        initial_rate: float | None = None,
        solver: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
        callbacks: Any = None,
        categorical_features: Any = "from_dtype",
        missing: str = "error",
        unknown: str = "error",
        checkpoint: None = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.class_weight = class_weight
        self.decision_function_shape = decision_function_shape
        self.approximation = approximation
        self.n_components = n_components
        self.memory_limit = memory_limit
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.init = init
        self.initial_rate = initial_rate
        self.solver = solver
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks
        self.categorical_features = categorical_features
        self.missing = missing
        self.unknown = unknown
        self.checkpoint = checkpoint

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> SVC:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features), or (n_samples, n_samples) if precomputed
        y : array of shape (n_samples,)
            Class of each row.
        sample_weight : array of shape (n_samples,), optional
            Non-negative.

        Returns
        -------
        self
        """
        self._check_parameters()
        if isinstance(X, DataSource) or is_elsewhere(X):
            raise ValueError(
                "SVC takes arrays, sparse matrices and tables, neither a path, a Dask collection nor a DataSource."
            )
        self._forget()
        codes, factors = None, None
        used = self._complete(X, y, sample_weight)
        if y is not None:
            classes, codes = Classes.of_labels(check_labels(used.y))
            self.classes_ = classes.several(type(self).__name__).labels
            factors = classes.factors(self.class_weight)
        run = self._run(self._source(X, codes, used.weight, used.rows))
        assert codes is not None
        with one_blas_thread():
            rows, _, given_weight = checked_rows(run)
            # As in scikit-learn the factors of the classes have no part in gamma="scale".
            kernel = kernel_from(self.kernel, self.gamma, self.degree, self.coef0, rows, given_weight)
            weight = given_weight if factors is None else given_weight * factors[codes]
            if not (np.isfinite(weight).all() and weight.min() >= 0):
                raise ValueError(f"class_weight must be finite and not negative, got {self.class_weight!r}.")
            for label in range(len(self.classes_)):
                if not weight[codes == label].any():
                    raise ValueError(f"All rows of class {self.classes_.tolist()[label]!r} have weight zero.")
            self._check_kernel(kernel, rows)
            self._check_init(rows.shape[0])
            pairs = pairs_of(len(self.classes_))
            machines = [self._fit_pair(run, kernel, rows, codes, weight, pair) for pair in pairs]
        self._store_model(kernel, rows, codes, machines)
        self.class_weight_ = np.ones(len(self.classes_)) if factors is None else factors
        self._store_certificate([machine.fit for machine in machines], len(machines) > 1, run)
        return self

    def _fit_pair(self, run: Run, kernel: Kernel, X: Any, codes: Int, weight: Float, pair: tuple[int, int]) -> Machine:
        """The machine of two classes."""
        here = np.flatnonzero(((codes == pair[0]) | (codes == pair[1])) & (weight > 0))
        y = np.where(codes[here] == pair[1], 1.0, -1.0)
        box = float(self.C) * weight[here]
        part = X if len(here) == X.shape[0] else X[np.ix_(here, here)] if kernel.precomputed else X[here]
        # Errors of float32 scores count as often as the box is large.
        tol = 0.0 if box.max() > LARGE_BOX else self.tol
        compiled = {"smo": True, "libsvm": False}.get(self.solver)
        rows = kernel_rows(kernel, part, run.n_jobs, tol, compiled)
        with np.errstate(over="ignore", invalid="ignore"):
            if not rows.lengths.max(initial=0.0) < LONGEST:
                raise ValueError("Values of this kernel are too large for float64: scale X, or choose a smaller gamma.")
        if self.approximation:
            fit, coef, intercept = self._approximated(run, rows, y, box)
        else:
            fit, coef, intercept = self._exact(run, rows, y, box, here)
        used = np.flatnonzero(coef)
        plane = None
        if kernel.name == "linear":
            slopes = np.asarray(kernel.centred(part[used]).T @ coef[used])
            plane = self._plane(slopes, part, y, box, None if self.approximation else fit.result)
        return Machine(fit, here[used], coef[used], intercept, plane)

    def _plane(self, slopes: Float, X: Any, y: Float, box: Float, result: Result | None) -> Plane:
        """The hyperplane with the best intercept, and its objective (rounded up) as that of the result.

        Scores of the expansion keep digits that scores of the features lose where columns have large offsets; what is
        reported belongs to what is returned.
        """
        scores = linear_scores(X, slopes[None], 0.0)[:, 0]
        plane = Plane(slopes, best_intercept(scores, y, box))
        if result is not None:
            z = 1.0 - y * (scores + plane.intercept)
            size = linear_scores(abs(X), np.abs(slopes)[None], 1.0 + abs(plane.intercept))[:, 0]
            error = 4.0 * EPS * size
            reached = 0.5 * float(slopes @ slopes) + float(box @ np.maximum(0.0, z + error))
            result.objective = reached * (1.0 + 64.0 * EPS)
            self._reconsider(result)
        return plane

    def _exact(self, run: Run, rows: KernelRows, y: Float, box: Float, here: Int) -> tuple[Fitted, Float, float]:
        """AID on the kernel itself, of the rows ``here``."""
        settings = KernelSettings(
            solver=SOLVERS["smo" if rows.compiled else self.solver],
            start_method=self._start_method(here),
            separate=isinstance(self.init, str) and self.init in ("auto", "band", "rows"),
            tol=self.tol,
            memory_limit=parse_bytes("memory_limit", self.memory_limit),
            initial_rate=self.initial_rate,
        )
        part = run.of(ArraySource(rows.X, y, box))
        problem = KernelHinge(part, rows, y, box, settings, generator(self.random_state))
        fit = fit_problem(problem, self._limits(), self._callbacks())
        result = fit.result
        point: KernelPoint = result.point
        point = point if point.exact else problem.values.recomputed(point)
        result.objective = problem.values.reached(point)
        if problem.values.square_error(point) > UNRELIABLE * result.objective:
            warnings.warn(
                "The values of this kernel are so large that rounding hides the objective: centre and scale X, or "
                "choose a smaller gamma or degree.",
                stacklevel=4,
            )
        self._reconsider(result)
        return fit, point.coef, point.intercept

    def _reconsider(self, result: Result) -> None:
        """Bound and status beside the objective that was computed last."""
        result.lower_bound = max(below(result.lower_bound, result.objective), 0.0)
        if result.status in (Status.gap, Status.numerical):
            result.status = Status.gap if result.gap <= self.tol else Status.numerical

    def _approximated(self, run: Run, rows: KernelRows, y: Float, box: Float) -> tuple[Fitted, Float, float]:
        """The linear machine on the features of landmark rows."""
        n_landmarks = min(int(self.n_components), rows.n)
        landmarks = np.sort(generator(self.random_state).choice(rows.n, n_landmarks, replace=False))
        mapping = landmark_map(rows, landmarks)
        source: DataSource = LandmarkSource(rows, landmarks, mapping, y, box)
        if rows.n * n_landmarks * np.dtype(rows.dtype).itemsize <= parse_bytes("memory_limit", self.memory_limit):
            features = landmark_features(rows, landmarks, mapping, np.arange(rows.n))
            source = ArraySource(features, y, box, rows.n_jobs)
        problem = svm_problem(run.of(source), 1.0, generator(self.random_state))
        fit = fit_problem(problem, self._limits(), self._callbacks())
        point = fit.result.point
        coef = np.zeros(rows.n)
        coef[landmarks] = mapping @ point[:-1]
        return fit, coef, float(point[-1])

    def _store_model(self, kernel: Kernel, X: Any, codes: Int, machines: list[Machine]) -> None:
        layout = lay_out(machines, codes, len(self.classes_))
        self._kernel, self._expansion, self._offsets = kernel, layout.expansion, layout.intercept
        self.support_, self.n_support_, self.dual_coef_ = layout.support, layout.n_support, layout.dual_coef
        self.support_vectors_ = np.empty((0, 0)) if kernel.precomputed else X[layout.support]
        self.intercept_ = layout.intercept
        self.shape_fit_ = X.shape
        if kernel.name == "linear":
            self.coef_ = np.array([plane.slopes for plane in layout.planes])
            self.intercept_ = np.array([plane.intercept for plane in layout.planes])
        self.certified_kernel_ = "exact"
        if self.approximation:
            self.certified_kernel_ = f"Nystroem approximation by {min(int(self.n_components), X.shape[0])} rows"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "status_")

    def _forget(self) -> None:
        """Drop what an earlier fit has left: if this one fails, there is no model and not half of two."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def decision_function(self, X: Any) -> Float:
        """Signed scores: shape (n_samples,) for two classes, else one column per class ("ovr") or pair ("ovo")."""
        scores = self._scores(X)
        if scores.shape[1] == 1:
            return scores[:, 0]
        if self.decision_function_shape == "ovo":
            return scores
        return np.asarray(_ovr_decision_function(scores < 0, -scores, len(self.classes_)))

    def predict(self, X: Any) -> Any:
        """Class of each row; of more than two classes the one that wins most machines."""
        scores = self._scores(X)
        if scores.shape[1] == 1:
            return class_of(self.classes_, scores)
        return self.classes_[winners(scores, len(self.classes_))]

    def _scores(self, X: Any) -> Float:
        """Scores, one column per machine."""
        check_is_fitted(self)
        checked = self._checked(X)
        if hasattr(self, "coef_"):  # of the linear kernel; models of the first version have none
            return linear_scores(checked, self.coef_, self.intercept_, self._recipe())
        rows, _, _ = checked_rows(Run(feature_rows(checked, self._recipe())))
        with one_blas_thread():
            support = self.support_ if self._kernel.precomputed else self.support_vectors_
            # As it was fitted, whatever the rows that are scored.
            compiled = self.shape_fit_[0] >= COMPILED_ROWS
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
        if self.decision_function_shape not in ("ovr", "ovo"):
            raise ValueError(f"decision_function_shape must be 'ovr' or 'ovo', got {self.decision_function_shape!r}.")
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
        if n > CHECKED_ROWS:
            rows = np.sort(generator(self.random_state).choice(n, CHECKED_ROWS, replace=False))
            warnings.warn(
                f"The kernel was found positive semidefinite on {CHECKED_ROWS} of {n} rows only; the certificate "
                "presumes that it is on all of them.",
                stacklevel=3,
            )
        check_kernel_matrix(kernel, X, rows)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return tags


def file_state(model: SVC) -> dict[str, Any]:
    """What predictions need beyond parameters and fitted attributes."""
    return {**kernel_values(model._kernel), "offsets": model._offsets}


def restore_file_state(model: SVC, state: Mapping[str, Any]) -> None:
    """Give it back to a model that has its fitted attributes."""
    model._kernel, model._offsets = kernel_of(state), state["offsets"]
    model._expansion = expansion_of(model.dual_coef_, model.n_support_)
