"""What all estimators share: parameters of the engine, fitting a problem, the fitted certificate."""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import time
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from aidlearn.data.arrays import is_dask
from aidlearn.data.convert import as_source, check_features, check_labels, check_weight, linear_scores, n_threads
from aidlearn.data.dask import lazy_scores
from aidlearn.data.moments import Moments, inspect
from aidlearn.data.open import is_elsewhere, open_source
from aidlearn.data.source import DataSource, Float, PassProgress
from aidlearn.engine.checkpoint import Checkpoint, Origin
from aidlearn.engine.loop import Limits, aid, logger
from aidlearn.engine.result import Iteration, Result
from aidlearn.problems.losses import Loss
from aidlearn.problems.piecewise import PiecewiseLinear, StartMethod
from aidlearn.solvers.aggregated import SOLVERS
from aidlearn.starts import start_method
from aidlearn.starts.band import Band

ENGINE_PARAMETERS = """
    fit_intercept : bool, default=True
    tol : float, default=1e-4
        Certified relative gap at which to stop; 0 asks for a verified optimum.
    max_iter : int, default=100
        Limit on iterations (aggregated problems solved).
    time_limit : float, optional
        Seconds after which the best solution so far is returned (of each model, where several are fitted).
    init : {"auto", "band", "kmeans", "birch"}, array of labels or callable, default="auto"
        Initial clusters. "band" sharpens a start on all rows; "kmeans" is the paper's procedure.
    initial_rate : float, optional
        Initial clusters over rows (r^0).
    solver : {"auto", "interior-point", "highs", "libsvm", "liblinear"}, default="auto"
        Solver of the aggregated problems: our interior point, or HiGHS (LAD and quantiles), libsvm, liblinear (SVM).
    n_jobs : int, optional
        Threads for the passes over the data; results do not depend on it.
    random_state : int, default=0
    verbose : int, default=0
        1 logs every iteration.
    callbacks : callable or list of callables, optional
        Called with each :class:`~aidlearn.Iteration`; a true return value stops the fit. A method ``on_pass`` of a
        callback is called with a :class:`~aidlearn.PassProgress` after every chunk of the data.
    checkpoint : path, optional
        File that the fit is saved to after every iteration, and continued from if it is there. Of several models
        (quantiles, classes) each has its own file, with a number appended."""

FITTED_ATTRIBUTES = """
    objective_ : float
        Objective of the returned coefficients on all rows (E).
    lower_bound_ : float
        Proven lower bound on the optimum (F).
    gap_ : float
        ``(objective_ - lower_bound_) / objective_``.
    status_ : Status
    n_iter_, n_passes_, n_clusters_ : int
    aggregation_rate_ : float
    history_ : list of Iteration
    cluster_sizes_, cluster_distances_ : ndarray
        Rows in each of the final clusters (1,500 at most) and the distance of its mean from the nearest kink.
    frames_ : list of Frame
        Pictures of the iterations; only of linear classifiers with two features and of regressions with one or two.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only when X has string column names."""


FREE_TO_CHANGE = ("max_iter", "time_limit", "n_jobs", "verbose", "callbacks", "checkpoint")
"""Parameters that a fit may be continued with other values of."""


class AIDEstimator(BaseEstimator):
    """Engine parameters of every model and how they are used."""

    tol: float
    max_iter: int | None
    time_limit: float | None
    init: Any
    initial_rate: float | None
    solver: str
    n_jobs: int | None
    random_state: Any
    verbose: int
    callbacks: Any
    checkpoint: Any = None
    fit_intercept: bool
    coef_: Float
    intercept_: Any

    _solvers: tuple[str, ...] = tuple(SOLVERS)
    _max_iter_optional = False
    _keeps_checkpoints = True

    def _start_method(self) -> Any:
        """The initial clustering that ``init`` asks for."""
        return start_method(self.init)

    def _check_parameters(self) -> None:
        """One clear error for a parameter out of range, before the data are touched."""
        check_number("tol", self.tol, low=0, include_low=True)
        if not (self.max_iter is None and self._max_iter_optional):
            check_number("max_iter", self.max_iter, low=1, include_low=True, whole=True)
        if self.time_limit is not None:
            check_number("time_limit", self.time_limit, low=0)
        if self.initial_rate is not None:
            check_number("initial_rate", self.initial_rate, low=0, high=1, include_high=True)
        if self.solver not in self._solvers:
            raise ValueError(f"solver must be one of {', '.join(map(repr, self._solvers))}, got {self.solver!r}.")
        self._start_method()
        if self.checkpoint is not None and not self._keeps_checkpoints:
            raise ValueError(f"{type(self).__name__} cannot be continued from a checkpoint: leave checkpoint=None.")
        if self.checkpoint is not None:
            if not Path(self.checkpoint).name:
                raise ValueError(f"checkpoint must name a file, got {str(self.checkpoint)!r}.")
            folder = Path(self.checkpoint).resolve().parent
            if not folder.is_dir():
                raise ValueError(f"checkpoint={str(self.checkpoint)!r} lies in a folder that does not exist: {folder}.")
        if self.n_jobs is not None and (not isinstance(self.n_jobs, Integral) or self.n_jobs == 0):
            raise ValueError(f"n_jobs must be None or an integer other than 0, got {self.n_jobs!r}.")

    def _source(self, X: Any, y: Any, sample_weight: Any) -> DataSource:
        """The data as a source; X may be one already, or the path of a file or a Dask collection."""
        if is_elsewhere(X):
            X, y, sample_weight = open_source(X, y, weight=sample_weight, n_jobs=self.n_jobs), None, None
        if isinstance(X, DataSource):
            if y is not None or sample_weight is not None:
                raise ValueError("A DataSource brings its own target and weights: pass neither y nor sample_weight.")
            # A copy, so that what a fit sets (offset, classes, passes) does not stay with the user's source.
            source = copy.copy(X)
            if self.n_jobs is not None:
                source.n_jobs = n_threads(self.n_jobs)
            if not source.has_target:
                raise ValueError("The data have no target: name its column, as y of fit or as target of open_source.")
            self.n_features_in_ = source.n_attributes
            if source.named:
                self.feature_names_in_ = np.array(source.names, dtype=object)
            elif hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
        else:
            if is_dask(y) or is_dask(sample_weight):
                raise ValueError("y and sample_weight can be Dask collections only if X is one; compute() them first.")
            if y is None:
                raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
            validate_data(self, X, skip_check_array=True)
            source = as_source(X, y, sample_weight, self.n_jobs)
        source.n_passes = 0
        source.watch = self._watch()
        return source

    def _watch(self) -> Callable[[PassProgress], None] | None:
        """Who is told of the progress of passes: callbacks with a method ``on_pass``."""
        listeners = [callback.on_pass for callback in self._callbacks() if hasattr(callback, "on_pass")]
        if not listeners:
            return None

        def tell(progress: PassProgress) -> None:
            for listener in listeners:
                listener(progress)

        return tell

    def _measure(self, source: DataSource) -> Moments:
        """Validate and measure the data, in one pass that brings the start's sample along if it can be foreseen."""
        if isinstance(self.init, str) and self.init in ("auto", "band") and isinstance(self.random_state, Integral):
            Band.foresee(source, source.n_attributes + self.fit_intercept, generator(self.random_state))
        return inspect(source, self.fit_intercept, digest=self.checkpoint is not None)

    def _inspect(self, source: DataSource) -> tuple[Moments, float]:
        """Validate the data; take a large common offset out of the targets, it belongs to the intercept alone.

        Sums of y around 1e9 lose the digits of residuals around 1; sums of y minus its median do not.
        """
        moments = self._measure(source)
        low, middle, high = np.quantile(moments.targets, [0.25, 0.5, 0.75])
        if not self.fit_intercept or abs(middle) / 100 <= high - low or not source.subtract(float(middle)):
            return moments, 0.0
        return moments, float(middle)

    def _scores(self, X: Any) -> Float:
        """``X coef_' + intercept_``."""
        check_is_fitted(self)
        checked = check_features(X)
        validate_data(self, X, skip_check_array=True, reset=False)
        return linear_scores(checked, self.coef_, self.intercept_)

    def _decided(self, X: Any, decide: Callable[[Float], Any] = lambda scores: scores) -> Any:
        """``decide`` on the scores; lazy, block by block, if X is a Dask collection."""
        if not is_dask(X):
            return decide(self._scores(X))
        check_is_fitted(self)
        self._check_dask_columns(X)
        like = np.asarray(decide(np.zeros((0, *self.coef_.shape[:-1]))))
        return lazy_scores(X, self.coef_, self.intercept_, decide, like)

    def _check_dask_columns(self, X: Any) -> None:
        """The columns of a Dask DataFrame must be those of the fit, in the same order."""
        fitted = getattr(self, "feature_names_in_", None)
        names = list(getattr(X, "columns", []))
        if fitted is not None and names and names != list(fitted):
            raise ValueError(f"The columns of X must be those of the fit, in their order: {list(fitted)}, got {names}.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _solve(
        self,
        source: DataSource,
        moments: Moments,
        loss: Loss,
        start: StartMethod,
        *,
        ridge: float = 0.0,
        l1: float = 0.0,
        three_way: bool = False,
        solver: str | None = None,
        number: int | None = None,
        briefly: bool = False,
    ) -> Result:
        problem = PiecewiseLinear(
            source,
            loss,
            moments,
            fit_intercept=self.fit_intercept,
            ridge=ridge,
            l1=l1,
            solver=SOLVERS[solver or self.solver],
            start_method=start,
            paper_split=isinstance(self.init, str) and self.init in ("kmeans", "birch"),
            three_way=three_way,
            initial_rate=self.initial_rate,
            rng=generator(self.random_state),
        )
        assert self.max_iter is not None
        limits = Limits(self.tol, 1 if briefly else int(self.max_iter), self.time_limit)
        return aid(problem, limits, self._callbacks(), self._checkpoint(source, moments, number))

    def _checkpoint(self, source: DataSource, moments: Moments, number: int | None) -> Checkpoint | None:
        """Where to save the model (the ``number``-th of several), and what makes it this one."""
        if self.checkpoint is None:
            return None
        parameters = {name: value for name, value in self.get_params().items() if name not in FREE_TO_CHANGE}
        name = type(self).__name__
        described = {key: _described(value) for key, value in parameters.items()}
        fingerprint = {"model": name, "number": str(number), "data": moments.digest, **described}
        recipe: dict[str, Any] | None = {"estimator": name, "parameters": parameters, "source": source.recipe}
        try:
            json.dumps(recipe)
        except TypeError:
            recipe = None  # a callable or an array among the parameters
        path = Path(self.checkpoint)
        path = path if number is None else path.with_name(f"{path.name}.{number}")
        return Checkpoint(path, Origin(fingerprint, recipe))

    def _callbacks(self) -> list[Any]:
        given = self.callbacks
        listed = [] if given is None else list(given) if isinstance(given, Sequence) else [given]
        return [*listed, IterationLog()] if self.verbose else listed

    def _store_certificate(self, results: list[Result], several: bool, offset: float = 0.0) -> None:
        """The fitted attributes that say what was proven (a list or array where several models were fitted).

        ``offset`` was taken out of the targets.
        """

        def keep(values: list[Any], array: bool = True) -> Any:
            return (np.asarray(values) if array else values) if several else values[0]

        self.objective_ = keep([r.objective for r in results])
        self.lower_bound_ = keep([r.lower_bound for r in results])
        self.gap_ = keep([r.gap for r in results])
        self.status_ = keep([r.status for r in results], array=False)
        self.n_iter_ = keep([r.n_iter for r in results])
        self.n_clusters_ = keep([r.n_clusters for r in results])
        self.aggregation_rate_ = keep([r.aggregation_rate for r in results])
        self.history_ = keep([r.history for r in results], array=False)
        self.n_passes_ = results[-1].n_passes
        self._store_pictures(results, keep, offset)

    def _store_pictures(self, results: list[Result], keep: Callable[..., Any], offset: float) -> None:
        """What plots show beyond the history: the final clusters, and every iteration of plane data."""
        profiles = [result.profile for result in results]
        self.cluster_sizes_ = keep([profile.sizes for profile in profiles if profile], array=False)
        self.cluster_distances_ = keep([profile.distances for profile in profiles if profile], array=False)
        frames = [result.frames for result in results]
        if offset:
            frames = [[frame.raised(offset, self.n_features_in_ > 1) for frame in some] for some in frames]
        if hasattr(self, "coef_") and any(frames):  # the plane of the features, not of a kernel
            self.frames_ = keep(frames, array=False)
        elif hasattr(self, "frames_"):
            del self.frames_


def _described(value: Any) -> str:
    """A parameter as text that tells whether it has changed."""
    if isinstance(value, np.ndarray):
        return f"array of digest {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]}"
    return getattr(value, "__qualname__", None) or repr(value)


class IterationLog:
    """Callback behind ``verbose``: a line per iteration, and one every few seconds of a long pass."""

    EVERY = 2.0
    """Seconds between two lines about the same pass."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        if not logger.handlers and not logging.getLogger().handlers:
            logger.addHandler(logging.StreamHandler())
            logger.setLevel(logging.INFO)

    def __call__(self, record: Iteration) -> None:
        logger.info(
            "iteration %d: %d clusters (%.3g%%), bound %.10g, objective %.10g, gap %.2e, %d violated, %.2f s",
            record.iteration,
            record.n_clusters,
            100 * record.aggregation_rate,
            record.best_lower_bound,
            record.best_objective,
            record.gap,
            record.n_violated,
            record.seconds,
        )

    def on_pass(self, progress: PassProgress) -> None:
        now = time.monotonic()
        if now - self._last < self.EVERY:
            return
        self._last = now
        part = 100 * progress.rows / progress.n_rows
        logger.info("pass %d: %.0f%% of the rows, %.3g rows/s", progress.number, part, progress.rows_per_second)


def check_number(
    name: str,
    value: Any,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    include_low: bool = False,
    include_high: bool = False,
    whole: bool = False,
) -> None:
    """Raise a ValueError that names the parameter, its value and the range."""
    kind = Integral if whole else Real
    sound = isinstance(value, kind) and not isinstance(value, bool) and value == value  # not NaN
    above = sound and (value >= low if include_low else value > low)
    below = sound and (value <= high if include_high else value < high)
    if above and below:
        return
    what = "an integer" if whole else "a number"
    bounds = [f"{'>=' if include_low else '>'} {low:g}"] if np.isfinite(low) else []
    bounds += [f"{'<=' if include_high else '<'} {high:g}"] if np.isfinite(high) else []
    raise ValueError(f"{name} must be {what}{' ' if bounds else ''}{' and '.join(bounds)}, got {value!r}.")


def encode_classes(y: Any, who: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The classes, and the index of each row's class."""
    labels = check_labels(y)
    try:
        check_classification_targets(labels)
    except ValueError:
        raise ValueError(
            "The target holds numbers with decimals (Unknown label type: continuous); fit a regression."
        ) from None
    classes, codes = np.unique(labels, return_inverse=True)
    return several_classes(classes, who), codes.astype(np.int64)


def several_classes(classes: NDArray[Any], who: str) -> NDArray[Any]:
    """The classes, if there is more than one."""
    if len(classes) < 2:
        raise ValueError(
            f"{who} needs at least 2 classes in y, but the data contains only one class: {classes.tolist()[0]!r}."
        )
    return classes


def weigh_classes(sample_weight: Any, class_weight: Any, classes: NDArray[Any], codes: NDArray[np.int64]) -> Any:
    """Sample weights times the factor of each row's class."""
    if class_weight is None:
        return sample_weight
    try:
        factors = compute_class_weight(class_weight, classes=classes, y=classes[codes])
    except ValueError as error:
        raise ValueError(f"class_weight does not fit the classes {classes.tolist()}: {error}") from None
    return check_weight(sample_weight, len(codes)) * np.asarray(factors)[codes]


def class_of(classes: Any, scores: Float) -> Any:
    """The class that scores decide for: by sign of one column, else the column with the largest."""
    return classes[(scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)]


def generator(random_state: Any) -> np.random.Generator:
    """A generator from what scikit-learn calls a random state."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(int(random_state.randint(2**31)))
    return np.random.default_rng(random_state)
