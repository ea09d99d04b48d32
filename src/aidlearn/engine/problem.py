"""The four components that a problem supplies (paper, section 2); the engine knows nothing else.

1. the aggregated data            -> :meth:`Problem.aggregate`
2. the initial clusters           -> :meth:`Problem.start`
3. the aggregated problem         -> :meth:`Problem.solve_aggregated`
4. the optimality condition       -> :meth:`Problem.evaluate` (regions; a cluster in two regions violates it)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.passes.run import Run
from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.source import DataSource
from aidlearn.engine.result import StartStep, Status
from aidlearn.numerics import Float, Int

if TYPE_CHECKING:
    from aidlearn.engine.clusters import Clusters


NEGLIGIBLE = 1e-9
"""Relative gap that rounding may leave at a verified optimum."""


@dataclass(frozen=True)
class Incumbent:
    """The best point so far and its objective on all entries.

    Examples
    --------
    >>> from aidlearn.engine import Incumbent
    >>> Incumbent(point=[0.5], objective=12.0).objective
    12.0
    """

    point: Any
    objective: float


@dataclass(frozen=True)
class Start:
    """Initial clusters, and the point they were drawn around if it was evaluated on all entries.

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn.data import as_source
    >>> from aidlearn.engine import Assignment, Clusters, Problem, Start
    >>> class Sums(Problem):
    ...     def aggregate(self, chunk, labels, n_clusters):
    ...         return np.bincount(labels, weights=chunk.y, minlength=n_clusters)[:, None]
    ...     def start(self):  # even and odd entries
    ...         clusters, _ = Clusters.build(self, lambda chunk, state: Assignment(np.arange(chunk.n_entries) % 2), 2)
    ...         return Start(clusters)
    ...     def solve_aggregated(self, clusters, incumbent, accuracy): ...
    ...     def evaluate(self, chunk, trial): ...
    >>> start = Sums(as_source(np.zeros((4, 1)), np.array([1.0, 2.0, 3.0, 4.0]))).start()
    >>> start.clusters.sums.ravel(), start.incumbent is None
    (array([4., 6.]), True)
    """

    clusters: Clusters
    incumbent: Incumbent | None = None
    steps: Sequence[StartStep] = ()
    """Points evaluated on the way, with times of ``time.monotonic()``."""
    plan: Mapping[str, Any] = field(default_factory=dict)
    """Quantities that the clusters follow from, by name."""
    last: bool = True
    """Whether the first aggregated solution is likely to be the last."""


@dataclass(frozen=True)
class Accuracy:
    """The accuracy that the loop asks of an aggregated solver.

    Examples
    --------
    >>> import math
    >>> from aidlearn.engine import Accuracy
    >>> Accuracy(relative=1e-5, deadline=math.inf).relative
    1e-05
    """

    relative: float
    """Primal value minus proven bound, over the primal value, that is small enough; 0 asks for a verified optimum."""
    deadline: float
    """``time.monotonic()`` value after which the solver returns what it has."""
    duals: bool = True
    """Whether users will see the duals; otherwise only the bound they prove is needed."""


@dataclass(frozen=True)
class Solution:
    """A solution of the aggregated problem.

    ``lower_bound`` must be proven (from a dual-feasible point), ``-inf`` where it is not.
    ``verified`` says that the point is optimal for the aggregated problem up to rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn.engine import Solution
    >>> solution = Solution(np.array([0.5]), lower_bound=11.5, verified=True)
    >>> solution.lower_bound, solution.verified
    (11.5, True)
    """

    point: Any
    lower_bound: float
    verified: bool = False
    dual: Any = None
    to_split: Any = None
    """Clusters to split besides those that violate the condition, so that the bound can rise (None: no others).

    Only the problem's own ``split_trial`` reads them; the loop asks whether there are any.
    """
    interrupted: bool = False
    """The user has stopped the solver, and this is its best solution so far."""
    out_of_time: bool = False
    """The solver ran out of time; another attempt would be too short to help."""
    n_steps: int = 0
    """Steps of the solver, if it counts them."""


@dataclass(frozen=True)
class Trial:
    """Points to be evaluated in one pass; entries are put into regions at the first ``n_split``.

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn.engine import Trial
    >>> trial = Trial([np.array([0.5]), np.array([0.7])])  # both are evaluated, entries are split at the first
    >>> len(trial.points), trial.n_split
    (2, 1)
    """

    points: Sequence[Any]
    n_split: int = 1


@dataclass(frozen=True)
class Evaluation:
    """One chunk at the points of a trial.

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn.engine import Evaluation
    >>> y = np.array([1.0, 2.0, 5.0])
    >>> at = Evaluation(np.array([np.abs(y - 2.5).sum()]), (y > 2.5).astype(np.int8)[None])
    >>> at.objectives, at.regions
    (array([4.5]), array([[0, 0, 1]], dtype=int8))
    """

    objectives: Float
    """The chunk's part of the objective at each point."""
    regions: NDArray[np.int8] | NDArray[np.int16]
    """``n_split x rows``: the linear piece each entry lies on; -1 on a kink (fits both sides)."""
    alone: NDArray[np.bool_] | None = None
    """Entries that become a cluster of their own, and not one per region, if a split takes them out of theirs."""

    def moved(self, home: NDArray[np.int16], n_regions: int) -> Moved:
        """The entries that are not in their home region."""
        code, stays = np.zeros(len(home), dtype=np.int16), np.zeros(len(home), dtype=np.int16)
        for region in self.regions:
            code = code * np.int16(n_regions) + np.where(region < 0, home, region)
            stays = stays * np.int16(n_regions) + home
        rows = np.flatnonzero((code != stays) & (home >= 0))
        return Moved(self.objectives, rows, code[rows], None if self.alone is None else self.alone[rows])


@dataclass(frozen=True)
class Moved:
    """One chunk at the points of a trial: the entries that are not in the home region of their cluster."""

    objectives: Float
    rows: Int
    codes: NDArray[np.int16]
    """The regions of these entries at the points of the split, as digits."""
    alone: NDArray[np.bool_] | None = None
    """Which of them become a cluster of their own."""

    @classmethod
    def nothing(cls, objectives: Float) -> Moved:
        """No moved entries, because no cluster can be split."""
        return cls(objectives, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int16))


class Problem(ABC):
    """A problem that AID can solve: minimise a sum over entries plus a term of the point alone.

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn.data import as_source
    >>> from aidlearn.engine import Assignment, Clusters, Evaluation, Limits, Problem, Solution, Start, aid
    >>> class Median(Problem):
    ...     def aggregate(self, chunk, labels, n_clusters):
    ...         total = np.bincount(labels, weights=chunk.y, minlength=n_clusters)
    ...         return np.column_stack([total, np.bincount(labels, minlength=n_clusters)])
    ...     def start(self):
    ...         def assign(chunk, state):
    ...             return Assignment(np.arange(chunk.n_entries) % 5)
    ...         return Start(Clusters.build(self, assign, 5)[0])
    ...     def solve_aggregated(self, clusters, incumbent, accuracy):
    ...         means, size = clusters.sums[:, 0] / clusters.sums[:, 1], clusters.sums[:, 1]
    ...         values = np.abs(means[:, None] - means) @ size
    ...         return Solution(means[[values.argmin()]], lower_bound=values.min(), verified=True)
    ...     def evaluate(self, chunk, trial):
    ...         objectives = np.array([np.abs(chunk.y - point).sum() for point in trial.points])
    ...         return Evaluation(objectives, (chunk.y > trial.points[0]).astype(np.int8)[None])
    >>> y = np.random.default_rng(0).normal(size=201)
    >>> result = aid(Median(as_source(np.zeros((201, 1)), y)), Limits(tol=1e-9))
    >>> bool(np.isclose(result.objective, np.abs(y - np.median(y)).sum())), bool(result.gap <= 1e-9)
    (True, True)
    """

    n_regions: int = 2
    trivial_bound: float = -math.inf
    """A bound that needs no proof (0 for a sum of losses)."""
    gap_status: Status = Status.gap
    """Status of a run whose gap is within the tolerance."""

    def __init__(self, data: DataSource | Run) -> None:
        self.run = data if isinstance(data, Run) else Run(data)

    def __getstate__(self) -> dict[str, Any]:
        """The problem without its run, for passes in other processes."""
        return {**self.__dict__, "run": None}

    def limit_time(self, deadline: float) -> Run:
        """Set a deadline (``time.monotonic()``) for the run of the problem, and return that run."""
        self.run = self.run.until(deadline)
        return self.run

    @property
    def source(self) -> DataSource:
        """The data of the run."""
        return self.run.source

    @abstractmethod
    def start(self) -> Start:
        """Draw the initial clusters."""

    @abstractmethod
    def aggregate(self, chunk: Chunk, labels: NDArray[Any], n_clusters: int) -> Float:
        """Sum the chunk's rows by cluster: one row of additive data per cluster."""

    def sums_alone(self, chunk: Chunk) -> Any:
        """Sums of entries that are clusters of their own: an array, or a CSR matrix where rows are sparse."""
        return self.aggregate(chunk, np.arange(chunk.n_entries), chunk.n_entries)

    @abstractmethod
    def solve_aggregated(self, clusters: Clusters, incumbent: Incumbent | None, accuracy: Accuracy) -> Solution:
        """Solve the weighted problem on the cluster sums; prove a lower bound."""

    @abstractmethod
    def evaluate(self, chunk: Chunk, trial: Trial) -> Evaluation:
        """Objective and region of every entry of the chunk at the points of a trial."""

    def find_moved(self, chunk: Chunk, trial: Trial, homes: NDArray[np.int16]) -> Moved:
        """The part of :meth:`evaluate` that the engine needs; a problem may find it without the regions of all entries.

        ``homes`` has the region that most entries of each cluster are in, -1 for a cluster that cannot be split;
        ``chunk.labels`` are the clusters of the entries.
        """
        evaluation = self.evaluate(chunk, trial)
        if not (homes >= 0).any():
            return Moved.nothing(evaluation.objectives)
        return evaluation.moved(homes[chunk.labels], self.n_regions)

    def split_trial(self, solution: Solution, incumbent: Incumbent | None, clusters: Clusters) -> Trial | None:
        """Points to split at instead of the aggregated solution alone (None: split there only)."""
        return None

    def one_region(self, solution: Solution, gap: float, tol: float) -> Status | None:
        """Status of a run in which no cluster violates the condition (None: it continues)."""
        return Status.optimal if solution.verified and gap <= max(tol, NEGLIGIBLE) else None

    def last_resort(self) -> Incumbent | None:
        """A cheap but useful point, evaluated on all entries, for a fit whose time ends with a poor one."""
        return None

    def state(self, point: Any) -> dict[str, NDArray[Any]]:
        """Arrays that a checkpoint keeps in addition to the clusters; ``point`` is the best one so far, or None."""
        return {} if point is None else {"point": np.asarray(point)}

    def resume(self, arrays: Mapping[str, NDArray[Any]]) -> Any:
        """Restore what :meth:`state` returned; returns the best point, if there was one."""
        return arrays.get("point")

    def objective_error(self, point: Any) -> float:
        """Rounding error of the objective of a point, if predictions lose digits (0: negligible)."""
        return 0.0

    def objective(self, point: Any) -> float:
        """Objective of a point on all entries, by at most one pass."""
        parts = [self.penalty(point)]

        def measure(chunk: Chunk, state: Any) -> tuple[float, None]:
            return float(self.evaluate(chunk, Trial([point])).objectives[0]), None

        self.run.map(measure, collect=parts.append)
        return math.fsum(parts)

    def penalty(self, point: Any) -> float:
        """The part of the objective that does not depend on the entries."""
        return 0.0

    def feasible(self, point: Any) -> bool:
        """Whether a point meets the constraints of the problem, up to rounding."""
        return True

    def distances(self, clusters: Clusters, point: Any) -> Float | None:
        """Distance of each cluster's mean from its nearest kink at a point, from sums alone (paper, section 5.3)."""
        return None
