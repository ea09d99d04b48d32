"""The four components a problem supplies (paper, section 2); the engine knows nothing else.

1. the aggregated data            -> :meth:`Problem.aggregate`
2. the initial clusters           -> :meth:`Problem.start`
3. the aggregated problem         -> :meth:`Problem.solve_aggregated`
4. the optimality condition       -> :meth:`Problem.evaluate` (regions; a cluster in two regions violates it)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.chunk import Chunk, Float, Int
from aidlearn.data.run import Run
from aidlearn.data.source import DataSource
from aidlearn.engine.result import Status

if TYPE_CHECKING:
    from aidlearn.engine.clusters import Clusters


NEGLIGIBLE = 1e-9
"""Relative gap that rounding may leave at a verified optimum."""


@dataclass(frozen=True)
class Incumbent:
    """The best point so far and its objective on all entries."""

    point: Any
    objective: float


@dataclass(frozen=True)
class Start:
    """Initial clusters, and the point they were drawn around if it was evaluated on all entries."""

    clusters: Clusters
    incumbent: Incumbent | None = None


@dataclass(frozen=True)
class Accuracy:
    """What the loop asks of an aggregated solver."""

    relative: float
    """Primal value minus proven bound, over the primal value, that is small enough; 0 asks for a verified optimum."""
    deadline: float
    """``time.monotonic()`` value after which the solver returns what it has."""


@dataclass(frozen=True)
class Solution:
    """A solution of the aggregated problem.

    ``lower_bound`` must be proven (from a dual-feasible point), ``-inf`` where it is not.
    ``verified`` says that the point is optimal for the aggregated problem up to rounding.
    """

    point: Any
    lower_bound: float
    verified: bool = False
    dual: Any = None
    to_split: Any = None
    """What has to be split beyond the clusters that violate the condition, so that the bound can rise (None: nothing).

    For the problem's own ``split_trial``; the loop only asks whether there is any.
    """
    interrupted: bool = False
    """The user has stopped the solver, and this is what it had."""
    out_of_time: bool = False
    """The same of the time limit; another attempt would be too short to help."""


@dataclass(frozen=True)
class Trial:
    """Points to be evaluated in one pass; entries are put into regions at the first ``n_split``."""

    points: Sequence[Any]
    n_split: int = 1


@dataclass(frozen=True)
class Evaluation:
    """One chunk at the points of a trial."""

    objectives: Float
    """The chunk's part of the objective at each point."""
    regions: NDArray[np.int8]
    """``n_split x rows``: the linear piece each entry lies on; -1 on a kink (fits both sides)."""
    alone: NDArray[np.bool_] | None = None
    """Entries that become a cluster of their own, and not one per region, if a split takes them out of theirs."""


@dataclass(frozen=True)
class Moved:
    """One chunk at the points of a trial: the entries that are not in the home region of their cluster."""

    objectives: Float
    rows: Int
    codes: NDArray[np.int16]
    """The regions of these entries at the points of the split, as digits."""
    alone: NDArray[np.bool_] | None = None
    """Which of them become a cluster of their own."""


class Problem(ABC):
    """A problem that AID can solve: minimise a sum over entries plus a term of the point alone."""

    n_regions: int = 2
    trivial_bound: float = -math.inf
    """A bound that needs no proof (0 for a sum of losses)."""
    gap_status: Status = Status.gap
    """What it means that the gap is within the tolerance."""

    def __init__(self, data: DataSource | Run) -> None:
        self.run = data if isinstance(data, Run) else Run(data)

    def __getstate__(self) -> dict[str, Any]:
        """What travels where a pass runs elsewhere: the problem without its run."""
        return {**self.__dict__, "run": None}

    @property
    def source(self) -> DataSource:
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
        """What of :meth:`evaluate` the engine needs; a problem may find it without the regions of all entries.

        ``homes`` has the region that most entries of each cluster are in, -1 for a cluster that cannot be split;
        ``chunk.labels`` are the clusters of the entries.
        """
        evaluation = self.evaluate(chunk, trial)
        home = homes[chunk.labels]
        code, stays = np.zeros(len(home), dtype=np.int16), np.zeros(len(home), dtype=np.int16)
        for region in evaluation.regions:
            code = code * np.int16(self.n_regions) + np.where(region < 0, home, region)
            stays = stays * np.int16(self.n_regions) + home
        rows = np.flatnonzero((code != stays) & (home >= 0))
        alone = None if evaluation.alone is None else evaluation.alone[rows]
        return Moved(evaluation.objectives, rows, code[rows], alone)

    def split_trial(self, solution: Solution, incumbent: Incumbent | None, clusters: Clusters) -> Trial | None:
        """What to split at in place of the aggregated solution alone (None: split there only)."""
        return None

    def one_region(self, solution: Solution, gap: float, tol: float) -> Status | None:
        """What it means that no cluster violates the condition (None: nothing yet, go on)."""
        return Status.optimal if solution.verified and gap <= max(tol, NEGLIGIBLE) else None

    def objective_error(self, point: Any) -> float:
        """How far rounding may have moved the objective of a point, where predictions lose digits (0: hardly)."""
        return 0.0

    def penalty(self, point: Any) -> float:
        """The part of the objective that does not depend on the entries."""
        return 0.0

    def distances(self, clusters: Clusters, point: Any) -> Float | None:
        """Distance of each cluster's mean from its nearest kink at a point, from sums alone (paper, section 5.3)."""
        return None
