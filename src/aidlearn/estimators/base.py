"""Base class of all estimators: engine parameters, input as a source, fitted certificate."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from aidlearn.data.encoding.recipe import EncodedRows, Recipe
from aidlearn.data.encoding.rules import Rules
from aidlearn.data.opening import open_source
from aidlearn.data.passes.run import Run
from aidlearn.data.rows.arrays import is_dask
from aidlearn.data.rows.numbers import Targets, as_array
from aidlearn.data.rows.source import DataSource
from aidlearn.data.tables.conversion import (
    as_source,
    check_features,
    collected,
    complete_rows,
    is_elsewhere,
    is_table,
    linear_scores,
    refuse_arrays,
    refuse_repeated_names,
)
from aidlearn.data.tables.in_memory import FrameColumns
from aidlearn.engine.progress import Limits
from aidlearn.estimators.checks import check_flag, check_number, check_random_state, with_names
from aidlearn.estimators.declared import FitParameters, TableParameters
from aidlearn.estimators.fits import certificate_html
from aidlearn.estimators.fitting import Fitted, IterationLog, pass_listener, tell_of_fit
from aidlearn.estimators.parameters import declared
from aidlearn.numerics import Float

FITTED_ATTRIBUTES = """
    objective_ : float
        Objective of the returned coefficients on all rows (E); residuals below their own rounding count as 0.
    lower_bound_ : float
        Proven lower bound on the optimum (F).
    gap_ : float
        ``(objective_ - lower_bound_) / |objective_|``.
    status_ : Status
    n_iter_, n_passes_, n_clusters_ : int
    aggregation_rate_ : float
    history_ : list of Iteration
    start_ : list of StartStep
        Points that the start evaluated before the first iteration, on samples and on all rows; empty for starts that
        keep no record.
    plan_ : dict
        Quantities that determined the initial clusters, by name: the error of the point, costs of a row, a pass and a
        solve, how many rows are single and why, and how the others are grouped (see
        :class:`aidlearn.linear.start.plan.Plan`). Empty if every row is single from the beginning, for several
        quantiles, and for other starts.
    cluster_sizes_, cluster_distances_ : ndarray
        Number of rows of each final cluster (of 1,500 at most), and the distance of its mean from the nearest kink.
    frames_ : list of Frame
        Pictures of the iterations, for linear classifiers with two features and regressions with one or two.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Names of the columns of X, if they are strings.
    coefficient_names_ : list of str
        Names in the order of ``coef_``: the columns of X, with one name for each level of a factor.
    recipe_ : Recipe
        How the columns of a table became the columns of ``coef_``, if some are factors.
    n_dropped_ : int
        Number of rows that ``missing="drop"`` left out."""


@dataclass(frozen=True)
class Complete:
    """Targets and weights of the rows of X that are used; ``rows`` is their mask, or None for all rows."""

    y: Any
    weight: Any
    rows: Any


class AIDEstimator(TableParameters, FitParameters, BaseEstimator, ABC):
    """Base class of the models: it checks parameters, opens the data and stores the certificate."""

    init: Any
    initial_rate: float | None
    solver: str
    standardize: bool = False
    fit_intercept: bool = True
    coef_: Float
    intercept_: Any

    _max_iter_optional = False
    _needs_target = True
    rows_from: dict[str, Any] | None = None
    """Options that reopen the file from which the command line read rows into memory, if it did."""

    @abstractmethod
    def _start_method(self) -> Any:
        """Return the initial clustering that ``init`` names; raise a ValueError if there is none."""

    def _check_parameters(self) -> None:
        """Raise one clear error for a parameter out of range, before the data are touched."""
        check_number("tol", self.tol, low=0, include_low=True)
        if not (self.max_iter is None and self._max_iter_optional):
            check_number("max_iter", self.max_iter, low=1, include_low=True, whole=True)
        if self.time_limit is not None:
            check_number("time_limit", self.time_limit, low=0)
        if self.initial_rate is not None:
            check_number("initial_rate", self.initial_rate, low=0, high=1, include_high=True)
        solver = dict(declared(type(self))).get("solver")
        if solver is not None and self.solver not in solver.choices:
            raise ValueError(f"solver must be one of {', '.join(map(repr, solver.choices))}, got {self.solver!r}.")
        self._start_method()
        self._rules().check()
        check_random_state(self.random_state)
        check_flag("standardize", self.standardize)
        if self.checkpoint is not None:
            if not Path(self.checkpoint).name:
                raise ValueError(f"checkpoint must name a file, got {str(self.checkpoint)!r}.")
            folder = Path(self.checkpoint).resolve().parent
            if not folder.is_dir():
                raise ValueError(f"checkpoint={str(self.checkpoint)!r} lies in a folder that does not exist: {folder}.")
        if self.n_jobs is not None and (not isinstance(self.n_jobs, Integral) or self.n_jobs == 0):
            raise ValueError(f"n_jobs must be None or an integer other than 0, got {self.n_jobs!r}.")

    def _rules(self) -> Rules:
        return Rules(self.categorical_features, self.missing, self.unknown)

    def _complete(self, X: Any, y: Any, sample_weight: Any) -> Complete:
        """Return targets and weights of the rows in memory that are used, without those dropped for missing cells."""
        keep = None
        if self.missing == "drop" and y is not None:
            keep = complete_rows(X, y, sample_weight, self._rules())
        if keep is None:
            return Complete(y, sample_weight, None)
        weight = sample_weight if np.ndim(sample_weight) != 1 else as_array(sample_weight)[keep]
        values = as_array(y)[keep]
        if self._rules().unlabelled:
            return Complete(values, weight, keep)
        # Missing values made y an array of objects; without them it gets its own type back.
        return Complete(np.array(values.tolist()) if values.dtype == object else values, weight, keep)

    def _source(self, X: Any, y: Any, sample_weight: Any, keep: Any = None) -> DataSource:
        """Return the data as a source; X may already be one, or the path of a file or a Dask collection.

        ``keep`` is the mask of the rows of X to which y and sample_weight belong, if rows were dropped already.
        """
        rules = self._rules()
        if is_elsewhere(X):
            options = {"categorical_features": rules.categorical, "missing": rules.missing, "n_jobs": self.n_jobs}
            X, y, sample_weight = open_source(X, y, weight=sample_weight, **options), None, None
        if not isinstance(X, DataSource):
            if is_dask(y) or is_dask(sample_weight):
                raise ValueError("y and sample_weight can be Dask collections only if X is one; compute() them first.")
            if y is None and self._needs_target:
                raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
            if not isinstance(X, EncodedRows):
                self._remember_columns(X)
            if keep is None:
                used = self._complete(X, y, sample_weight)
                y, sample_weight, keep = used.y, used.weight, used.rows
            source = as_source(X, y, sample_weight, self.n_jobs, rules, self.fit_intercept, keep)
            if isinstance(X, EncodedRows):
                self._remember_inputs([column.name for column in X.recipe.columns])
            self._remember_encoding(source)
            return source
        if y is not None or sample_weight is not None:
            raise ValueError("A DataSource brings its own target and weights: pass neither y nor sample_weight.")
        if not X.has_target and self._needs_target:
            raise ValueError("The data have no target: name its column, as y of fit or as target of open_source.")
        source = X.encoded(rules, self.fit_intercept)
        if source.named:
            self._remember_inputs(source.names if source.inputs is None else source.inputs)
        else:
            self.n_features_in_ = source.n_attributes
            self.__dict__.pop("feature_names_in_", None)
        self._remember_encoding(source)
        return source

    def _forget(self) -> None:
        """Delete the attributes of an earlier fit, so that a failed fit leaves no mixed model."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _remember_columns(self, X: Any) -> None:
        """Store the number of columns of rows in memory, and their names if there are any."""
        refuse_repeated_names(X)
        validate_data(self, with_names(X), skip_check_array=True)

    def _remember_inputs(self, names: list[str]) -> None:
        self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, dtype=object)

    def _remember_encoding(self, source: DataSource) -> None:
        self.n_dropped_ = source.n_dropped
        if source.encoding is not None and source.encoding.factors:
            self.recipe_ = source.encoding
        else:
            self.__dict__.pop("recipe_", None)
        for name in ("formula_", "formula_rows_"):  # left by an earlier fit
            self.__dict__.pop(name, None)

    @property
    def coefficient_names_(self) -> list[str]:
        """Names of the columns behind the coefficients."""
        check_is_fitted(self)
        recipe = getattr(self, "recipe_", None)
        if recipe is not None:
            return list(recipe.names)
        names = getattr(self, "feature_names_in_", None)
        return [f"x{k}" for k in range(self.n_features_in_)] if names is None else [str(name) for name in names]

    def _recipe(self) -> Recipe | None:
        """Return the encoding of rows to be predicted, by the current rule for unknown levels; None without factors."""
        recipe: Recipe | None = getattr(self, "recipe_", None)
        return None if recipe is None else replace(recipe, unknown=self.unknown)

    def _by_formula(self, X: Any) -> Any:
        """Select the columns of the model's formula from a table that may have others."""
        made = getattr(self, "formula_rows_", None)
        if made is not None:
            return made(X)
        table = collected(X)
        if not is_table(table):
            return X
        frame = FrameColumns(table).frame
        names = [str(name) for name in self.feature_names_in_]
        return frame.select(names).to_native() if set(names) <= set(frame.columns) else X

    def _checked(self, X: Any) -> Any:
        """Return rows to be predicted, once their columns are checked against those of the fit; encoded rows pass."""
        if hasattr(self, "formula_") and not isinstance(X, EncodedRows):
            X = self._by_formula(X)
        if isinstance(X, EncodedRows):
            return X
        X = collected(X)
        if hasattr(self, "recipe_"):
            refuse_arrays(X, self.recipe_, hasattr(self, "feature_names_in_"))
        checked = check_features(X, array=not hasattr(self, "recipe_"))
        validate_data(self, with_names(X), skip_check_array=True, reset=False)
        return checked

    def _run(self, source: DataSource, targets: Targets | None = None) -> Run:
        """Return the run of one fit to a source, with its callbacks and deadline."""
        callbacks = self._callbacks()
        tell_of_fit(self, callbacks, source.n_entries)
        deadline = math.inf if self.time_limit is None else time.monotonic() + self.time_limit
        return Run(source, targets, self.n_jobs, pass_listener(callbacks), deadline=deadline)

    def _limits(self, run: Run, n_left: int = 1) -> Limits:
        """Return the limits of the next of ``n_left`` open problems, which share the remaining time equally."""
        assert self.max_iter is not None
        left = None if math.isinf(run.deadline) else max(run.deadline - time.monotonic(), 0.0) / n_left
        return Limits(self.tol, int(self.max_iter), left)

    def _callbacks(self) -> list[Any]:
        given = self.callbacks
        listed = [] if given is None else list(given) if isinstance(given, Sequence) else [given]
        return [*listed, IterationLog()] if self.verbose else listed

    def _store_certificate(self, fits: list[Fitted], several: bool, run: Run, offset: float = 0.0) -> None:
        """Set the fitted attributes of the certificate, as lists or arrays if several models were fitted.

        ``offset`` is the number that was subtracted from the targets.
        """

        def keep(values: list[Any], array: bool = True) -> Any:
            return (np.asarray(values) if array else values) if several else values[0]

        results = [fit.result for fit in fits]
        for result in results:
            result.judge()
        for name in ("objective", "lower_bound", "gap", "n_iter", "n_clusters", "aggregation_rate"):
            setattr(self, f"{name}_", keep([getattr(result, name) for result in results]))
        for name in ("status", "history", "start"):
            setattr(self, f"{name}_", keep([getattr(result, name) for result in results], array=False))
        self.plan_ = keep([dict(result.plan) for result in results], array=False)
        self.n_passes_ = run.n_passes
        # Plots also show the final clusters and, for data in a plane, every iteration.
        profiles = [fit.profile for fit in fits]
        self.cluster_sizes_ = keep([profile and profile.sizes for profile in profiles], array=False)
        self.cluster_distances_ = keep([profile and profile.distances for profile in profiles], array=False)
        frames = [fit.frames for fit in fits]
        if offset:
            frames = [[frame.raised(offset, run.n_attributes > 1) for frame in some] for some in frames]
        if hasattr(self, "coef_") and any(frames):  # frames show the plane of the features, not of a kernel
            self.frames_ = keep(frames, array=False)
        elif hasattr(self, "frames_"):
            del self.frames_

    def _scores(self, X: Any) -> Float:
        """Compute ``X coef_' + intercept_``."""
        check_is_fitted(self)
        return linear_scores(self._checked(X), self.coef_, self.intercept_, self._recipe())

    def _repr_html_inner(self) -> str:
        return certificate_html(self) + super()._repr_html_inner()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return what notebooks show: the certificate in words above scikit-learn's diagram of the parameters."""
        shown: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in shown:
            shown["text/html"] = certificate_html(self) + shown["text/html"]
        return shown

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
