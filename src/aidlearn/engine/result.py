"""The report of a run: its status, one record per iteration, and the final result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Status(Enum):
    """Reason why a fit ended; the value is the sentence that users read.

    Examples
    --------
    >>> from aidlearn import Status
    >>> str(Status.gap), Status.gap.reached_tolerance, Status.time_limit.reached_tolerance
    ('gap', True, False)
    >>> Status.gap.sentence
    'The certified optimality gap is within the tolerance.'
    """

    optimal = "Optimal: no cluster violates the optimality condition and the solution was verified."
    gap = "The certified optimality gap is within the tolerance."
    one_region = "Every cluster lies in one region: a local optimum, which is not proven to be the global one."
    certified = "A bound on the original non-convex problem certifies the solution to the tolerance."
    iteration_limit = "Stopped at the iteration limit; the gap reported is the certified one."
    time_limit = "Stopped at the time limit; the gap reported is the certified one."
    memory_limit = (
        "Stopped where further clusters would not fit into the memory limit; the gap reported is the certified one."
    )
    interrupted = "Interrupted by the user or a callback; the gap reported is the certified one."
    numerical = "Floating-point precision was reached before the tolerance; the gap reported is the certified one."

    def __str__(self) -> str:
        return self.name

    @property
    def sentence(self) -> str:
        return str(self.value)

    @property
    def reached_tolerance(self) -> bool:
        """Whether the fit did what was asked (the alternative is a usable result with a larger gap)."""
        return self in (Status.optimal, Status.gap, Status.one_region, Status.certified)


CROSSING = 1e-9
"""Relative amount by which rounding may lift a bound above the objective before it is discarded."""


NOTHING = 1e-100
"""Largest distance of a bound below an objective of 0 that counts as no gap: ordinary data never give one so small."""


def below(lower_bound: float, objective: float, rounding: float = 0.0) -> float:
    """Return a bound that does not exceed an objective known up to ``rounding``.

    If the two cross in their last bits, the excess shows the size of their rounding errors, and the bound is lowered by
    twice the excess. A bound that exceeds the objective by more than rounding explains is discarded (-inf).
    """
    excess = lower_bound - objective
    if excess <= 0:
        return lower_bound
    return objective - excess if excess <= max(CROSSING * abs(objective), rounding) else -math.inf


def relative_gap(objective: float, lower_bound: float) -> float:
    """Return ``(E - F) / |E|``, the paper's optimality gap, or 0 if both objective and bound are 0.

    The gap is never negative, because :func:`below` lowers a bound that exceeds the objective.
    """
    lower_bound = below(lower_bound, objective)
    if objective == 0:
        return 0.0 if lower_bound >= -NOTHING else math.inf
    return (objective - lower_bound) / abs(objective)


@dataclass(frozen=True)
class StartStep:
    """A point that the start evaluated before it drew the first clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import LADRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 3))
    >>> model = LADRegressor().fit(X, X @ [1, 2, 3] + rng.laplace(size=20_000))
    >>> first, last = model.start_[0], model.start_[-1]  # samples first, then all rows
    >>> first.n_rows < last.n_rows == 20_000, last.objective >= model.objective_
    (True, True)
    """

    n_rows: int
    """Number of rows on which the point was evaluated: a sample, or all."""
    objective: float
    """Objective on these rows, scaled to the weight of all rows: an estimate if they are a sample."""
    seconds: float
    """Time since the start of the fit."""
    n_passes: int
    """Number of passes over all rows so far."""


@dataclass(frozen=True)
class Iteration:
    """One pass through the loop of Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import LADRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> model = LADRegressor(init="kmeans").fit(X, X @ [1, 2] + rng.laplace(size=5000))
    >>> first, last = model.history_[0], model.history_[-1]
    >>> first.best_lower_bound < last.best_lower_bound <= last.best_objective <= first.best_objective
    True
    >>> last.gap == model.gap_, last.iteration == model.n_iter_
    (True, True)
    """

    iteration: int
    n_clusters: int
    aggregation_rate: float
    lower_bound: float
    """Proven bound from this iteration's aggregated problem (F_t)."""
    objective: float
    """Objective of the aggregated solution on all entries (E_t)."""
    best_objective: float
    best_lower_bound: float
    gap: float
    n_violated: int
    """Number of clusters with entries in more than one region."""
    seconds: float
    """Time since the start of the fit."""
    near_rate: float | None = None
    """Aggregation rate of the clusters nearer to their kink than the median entry; None if unknown."""
    far_rate: float | None = None
    """Aggregation rate of the other clusters."""


@dataclass
class Result:
    """The best point found and what is proven about it.

    Examples
    --------
    >>> from aidlearn import Result, Status
    >>> result = Result(point=[1.0], objective=10.0, lower_bound=9.9, status=Status.iteration_limit,
    ...                 n_clusters=5, aggregation_rate=0.01, n_passes=3)
    >>> round(result.gap, 6), result.n_iter
    (0.01, 0)
    """

    point: Any
    objective: float
    lower_bound: float
    status: Status
    n_clusters: int
    aggregation_rate: float
    n_passes: int
    history: list[Iteration] = field(default_factory=list)
    solution: Any = None
    """Last aggregated solution, with its dual; None if the run was interrupted before there was one."""
    clusters: Any = None
    """Clusters of that solution."""
    start: list[StartStep] = field(default_factory=list)
    """Points that the start evaluated before the first iteration."""
    plan: Mapping[str, Any] = field(default_factory=dict)
    """Quantities that determine the initial clusters, by name."""

    def __post_init__(self) -> None:
        if math.isnan(self.objective):
            raise ArithmeticError("The objective of the fit is not a number: rescale X and y to ordinary size.")
        self.judge()

    @classmethod
    def at_once(
        cls,
        point: Any,
        objective: float,
        lower_bound: float,
        *,
        n_clusters: int,
        n_open: int,
        n_entries: int,
        n_passes: int,
        seconds: float,
        status: Status = Status.gap,
    ) -> Result:
        """Return a point certified by one aggregated problem and one check on all entries, with their record.

        ``n_open`` clusters count as violated unless the bound is met.
        """
        kept = below(lower_bound, objective)
        gap = relative_gap(objective, kept)
        record = Iteration(
            iteration=1,
            n_clusters=n_clusters,
            aggregation_rate=n_clusters / n_entries,
            lower_bound=kept,
            objective=objective,
            best_objective=objective,
            best_lower_bound=kept,
            gap=gap,
            n_violated=n_open if gap > 0 else 0,
            seconds=seconds,
        )
        status = Status.gap if gap == 0 else status
        return cls(point, objective, kept, status, n_clusters, record.aggregation_rate, n_passes, [record])

    def judge(self) -> None:
        """Compare bound and objective after either has changed; a run whose bound is discarded has not succeeded."""
        kept = below(self.lower_bound, self.objective)
        if kept == -math.inf < self.lower_bound and self.status.reached_tolerance:
            self.status = Status.numerical
        self.lower_bound = kept

    def drop_clusters(self) -> Any:
        """Return the clusters, which hold the labels of all entries, and remove them from the result."""
        clusters, self.clusters = self.clusters, None
        return clusters

    @property
    def gap(self) -> float:
        """Relative gap ``(objective - lower_bound) / |objective|``."""
        return relative_gap(self.objective, self.lower_bound)

    @property
    def n_iter(self) -> int:
        """Number of iterations of the loop."""
        return len(self.history)
