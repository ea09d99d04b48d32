"""Kernel support vector machine (paper, appendix B)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import _ovr_decision_function
from sklearn.utils.validation import check_is_fitted, validate_data

from aidlearn.data.arrays import ArraySource
from aidlearn.data.convert import as_source, check_features, n_threads
from aidlearn.data.memory import parse_bytes
from aidlearn.data.moments import checked_rows, inspect
from aidlearn.data.open import is_elsewhere
from aidlearn.data.source import DataSource, Float, Int, one_blas_thread
from aidlearn.engine.loop import Limits, aid
from aidlearn.engine.result import Result, Status
from aidlearn.estimators.base import (
    FITTED_ATTRIBUTES,
    AIDEstimator,
    check_number,
    class_of,
    encode_classes,
    generator,
    weigh_classes,
)
from aidlearn.estimators.one_against_one import Machine, lay_out, pairs_of, winners
from aidlearn.kernels.features import EXACT_ROWS, check_kernel_matrix, check_whole_matrix
from aidlearn.kernels.functions import Kernel, kernel_from
from aidlearn.kernels.landmarks import LandmarkSource, landmark_features, landmark_map
from aidlearn.kernels.rows import COMPILED_ROWS, KernelRows, expansion_scores, kernel_rows, numba_installed
from aidlearn.problems.kernel_hinge import KernelHinge, KernelPoint
from aidlearn.problems.losses import hinge
from aidlearn.solvers.kernel_dual import solve_auto, solve_libsvm, solve_smo
from aidlearn.starts import start_method as linear_start
from aidlearn.starts.given import cluster_codes
from aidlearn.starts.kernel import METHODS, given

COMPONENTS = 300
"""Landmarks of the approximated kernel by default."""
LARGE_BOX = 300.0
"""From this C (times weight) on kernel values are float64 throughout."""
AT_ONCE = 1e-3
"""Seconds for each of the machines that were not begun when the user stopped a fit."""
DUAL_SOLVERS = {"auto": solve_auto, "smo": solve_smo, "libsvm": solve_libsvm}
UNRELIABLE = 1e-2
"""Part of the objective that rounding may reach before a fit warns."""


class SVC(ClassifierMixin, AIDEstimator):
    __doc__ = f"""Kernel support vector classifier with a certified optimality gap.

    Minimises ``1/2 |w|^2 + C sum_i s_i max(0, 1 - y_i (<w, phi(x_i)> + b))``, the problem of
    :class:`sklearn.svm.SVC`, by AID: rows near the margin are kept, rows far inside it are clustered in the space of
    the kernel, rows far outside are left out until they matter. ``lower_bound_`` is the value of a dual-feasible
    point computed in float64. More than two classes are fitted one against one.

    Speed comes from compiled kernels (``pip install aidlearn[kernel]``, that is numba); without them libsvm solves
    the aggregated problems, with the same certificate.

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
        Of the aggregated problems: our SMO (needs numba) or libsvm.
    n_jobs : int, optional
        Threads for kernel products; results do not depend on it.
    random_state : int, default=0
    verbose : int, default=0
        1 logs every iteration.
    callbacks : callable or list of callables, optional
        Called with each :class:`~aidlearn.Iteration`; a true return value stops the fit.
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
        codes = None
        if y is not None:
            self.classes_, codes = encode_classes(y, type(self).__name__)
        source = self._source(X, codes, sample_weight)
        assert codes is not None
        with one_blas_thread():
            rows, given_weight = checked_rows(source)
            # As in scikit-learn the factors of the classes have no part in gamma="scale".
            kernel = kernel_from(self.kernel, self.gamma, self.degree, self.coef0, rows, given_weight)
            weight = weigh_classes(given_weight, self.class_weight, self.classes_, codes)
            if not (np.isfinite(weight).all() and weight.min() >= 0):
                raise ValueError(f"class_weight must be finite and not negative, got {self.class_weight!r}.")
            for label in range(len(self.classes_)):
                if not weight[codes == label].any():
                    raise ValueError(f"All rows of class {self.classes_[label]!r} have weight zero.")
            self._check_kernel(kernel, rows)
            self._check_init(rows.shape[0])
            machines: list[Machine] = []
            for pair in pairs_of(len(self.classes_)):
                stopped = any(machine.result.status is Status.interrupted for machine in machines)
                machines.append(self._fit_pair(kernel, rows, codes, weight, pair, stopped))
        self._store_model(kernel, rows, codes, machines)
        self._store_certificate([machine.result for machine in machines], several=len(machines) > 1)
        return self

    def _fit_pair(
        self, kernel: Kernel, X: Any, codes: Int, weight: Float, pair: tuple[int, int], stopped: bool
    ) -> Machine:
        """The machine of two classes; once the user has ``stopped`` the fit, what can be had at once."""
        here = np.flatnonzero(((codes == pair[0]) | (codes == pair[1])) & (weight > 0))
        y = np.where(codes[here] == pair[1], 1.0, -1.0)
        box = float(self.C) * weight[here]
        part = X if len(here) == X.shape[0] else X[np.ix_(here, here)] if kernel.precomputed else X[here]
        # Errors of float32 scores count as often as the box is large.
        tol = 0.0 if box.max() > LARGE_BOX else self.tol
        compiled = {"smo": True, "libsvm": False}.get(self.solver)
        rows = kernel_rows(kernel, part, n_threads(self.n_jobs), tol, compiled)
        limits = Limits(self.tol, int(self.max_iter or 1), AT_ONCE if stopped else self.time_limit)
        if self.approximation:
            result, coef, intercept = self._approximated(rows, y, box)
        else:
            result, coef, intercept = self._exact(rows, y, box, here, limits)
        if stopped and result.status is Status.time_limit:
            result.status = Status.interrupted
        used = np.flatnonzero(coef)
        return Machine(result, here[used], coef[used], intercept)

    def _exact(self, rows: KernelRows, y: Float, box: Float, here: Int, limits: Limits) -> tuple[Result, Float, float]:
        """AID on the kernel itself, of the rows ``here``."""
        problem = KernelHinge(
            ArraySource(rows.X, y, box),
            rows,
            y,
            box,
            solver=DUAL_SOLVERS["smo" if rows.compiled else self.solver],
            start_method=self._start_method(here),
            separate=isinstance(self.init, str) and self.init in ("auto", "band", "rows"),
            tol=self.tol,
            memory_limit=parse_bytes("memory_limit", self.memory_limit),
            initial_rate=self.initial_rate,
            rng=generator(self.random_state),
        )
        result = aid(problem, limits, self._callbacks())
        point: KernelPoint = result.point
        point = point if point.exact else problem.recomputed(point)
        result.objective = problem.reached(point)
        if problem.rounding(point) > UNRELIABLE * result.objective:
            warnings.warn(
                "The values of this kernel are so large that rounding hides the objective: centre and scale X, or "
                "choose a smaller gamma or degree.",
                stacklevel=4,
            )
        result.lower_bound = min(result.lower_bound, result.objective)
        if result.status in (Status.gap, Status.numerical):  # of what was computed last
            result.status = Status.gap if result.gap <= self.tol else Status.numerical
        return result, point.coef, point.intercept

    def _approximated(self, rows: KernelRows, y: Float, box: Float) -> tuple[Result, Float, float]:
        """The linear machine on the features of landmark rows."""
        n_landmarks = min(int(self.n_components), rows.n)
        landmarks = np.sort(generator(self.random_state).choice(rows.n, n_landmarks, replace=False))
        mapping = landmark_map(rows, landmarks)
        source: DataSource = LandmarkSource(rows, landmarks, mapping, y, box)
        if rows.n * n_landmarks * np.dtype(rows.dtype).itemsize <= parse_bytes("memory_limit", self.memory_limit):
            features = landmark_features(rows, landmarks, mapping, np.arange(rows.n))
            source = ArraySource(features, y, box, rows.n_jobs)
        result = self._solve(source, inspect(source, True), hinge(1.0), linear_start("auto"), ridge=1.0, solver="auto")
        coef = np.zeros(rows.n)
        coef[landmarks] = mapping @ result.point[:-1]
        return result, coef, float(result.point[-1])

    def _store_model(self, kernel: Kernel, X: Any, codes: Int, machines: list[Machine]) -> None:
        layout = lay_out(machines, codes, len(self.classes_))
        self._kernel, self._expansion, self._offsets = kernel, layout.expansion, layout.intercept
        self.support_, self.n_support_, self.dual_coef_ = layout.support, layout.n_support, layout.dual_coef
        self.support_vectors_ = np.empty((0, 0)) if kernel.precomputed else X[layout.support]
        self.intercept_ = layout.intercept
        self.shape_fit_ = X.shape
        self.class_weight_ = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_[codes])
        if kernel.name == "linear":
            self.coef_ = np.asarray((kernel.centred(self.support_vectors_).T @ layout.expansion).T)
            if kernel.centre is not None:
                self.intercept_ = layout.intercept - self.coef_ @ kernel.centre
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
        checked = check_features(X)
        validate_data(self, X, skip_check_array=True, reset=False)
        rows, _ = checked_rows(as_source(checked, np.zeros(checked.shape[0])))
        with one_blas_thread():
            support = self.support_ if self._kernel.precomputed else self.support_vectors_
            # As it was fitted, whatever the rows that are scored.
            compiled = self.shape_fit_[0] >= COMPILED_ROWS and numba_installed()
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
        if self.solver == "smo" and not numba_installed():
            raise ValueError("solver='smo' needs numba: pip install 'aidlearn[kernel]', or use solver='auto'.")

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
        if n > EXACT_ROWS:
            rows = np.sort(generator(self.random_state).choice(n, EXACT_ROWS, replace=False))
            warnings.warn(
                f"The kernel was found positive semidefinite on {EXACT_ROWS} of {n} rows only; the certificate "
                "presumes that it is on all of them.",
                stacklevel=3,
            )
        check_kernel_matrix(kernel, X, rows)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return tags
