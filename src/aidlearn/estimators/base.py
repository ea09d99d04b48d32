"""What all estimators share: parameters of the engine, fitting a problem, the fitted certificate."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from aidlearn.data.moments import Moments
from aidlearn.data.source import DataSource
from aidlearn.engine.loop import Limits, aid, logger
from aidlearn.engine.result import Iteration, Result
from aidlearn.problems.losses import Loss
from aidlearn.problems.piecewise import PiecewiseLinear, StartMethod
from aidlearn.solvers.aggregated import SOLVERS
from aidlearn.starts import start_method


class AIDEstimator(BaseEstimator):
    """Engine parameters of every model and how they are used."""

    tol: float
    max_iter: int
    time_limit: float | None
    init: Any
    initial_rate: float | None
    solver: str
    n_jobs: int | None
    random_state: Any
    verbose: int
    callbacks: Any
    fit_intercept: bool

    def _check_parameters(self) -> None:
        """One clear error for a parameter out of range, before the data are touched."""
        check_number("tol", self.tol, low=0, include_low=True)
        check_number("max_iter", self.max_iter, low=1, include_low=True, whole=True)
        if self.time_limit is not None:
            check_number("time_limit", self.time_limit, low=0)
        if self.initial_rate is not None:
            check_number("initial_rate", self.initial_rate, low=0, high=1, include_high=True)
        if self.solver not in SOLVERS:
            raise ValueError(f"solver must be one of {', '.join(map(repr, SOLVERS))}, got {self.solver!r}.")
        start_method(self.init)

    def _solve(
        self,
        source: DataSource,
        moments: Moments,
        loss: Loss,
        start: StartMethod,
        *,
        ridge: float = 0.0,
        l1: float = 0.0,
    ) -> Result:
        problem = PiecewiseLinear(
            source,
            loss,
            moments,
            fit_intercept=self.fit_intercept,
            ridge=ridge,
            l1=l1,
            solver=SOLVERS[self.solver],
            start_method=start,
            paper_split=isinstance(self.init, str) and self.init in ("kmeans", "birch"),
            initial_rate=self.initial_rate,
            rng=np.random.default_rng(_seed(self.random_state)),
        )
        limits = Limits(self.tol, int(self.max_iter), self.time_limit)
        return aid(problem, limits, self._callbacks())

    def _callbacks(self) -> list[Any]:
        given = self.callbacks
        listed = [] if given is None else list(given) if isinstance(given, Sequence) else [given]
        return [*listed, log_iteration] if self.verbose else listed

    def _store_certificate(self, results: list[Result], several: bool) -> None:
        """The fitted attributes that say what was proven (a list or array where several models were fitted)."""

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


def log_iteration(record: Iteration) -> None:
    """Callback behind ``verbose``: one line per iteration through the ``aidlearn`` logger."""
    if not logger.handlers and not logging.getLogger().handlers:
        logger.addHandler(logging.StreamHandler())
        logger.setLevel(logging.INFO)
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


def _seed(random_state: Any) -> Any:
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return random_state
