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

from aidlearn.data.source import Chunk, DataSource, Float
from aidlearn.engine.picture import Frame
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
    loose: Any = None
    """What the problem's ``split_trial`` has to split beyond the violating clusters so that the bound can rise."""
    interrupted: bool = False
    """The user has stopped the solver, and this is what it had."""


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


class Problem(ABC):
    """A problem that AID can solve: minimise a sum over entries plus a term of the point alone."""

    source: DataSource
    n_regions: int = 2
    trivial_bound: float = -math.inf
    """A bound that needs no proof (0 for a sum of losses)."""
    deadline: float = math.inf
    """``time.monotonic()`` value, set by the loop, after which a start should settle for what it has."""
    gap_status: Status = Status.gap
    """What it means that the gap is within the tolerance."""

    @abstractmethod
    def start(self) -> Start:
        """Draw the initial clusters."""

    @abstractmethod
    def aggregate(self, chunk: Chunk, labels: NDArray[Any], n_clusters: int) -> Float:
        """Sum the chunk's rows by cluster: one row of additive data per cluster."""

    @abstractmethod
    def solve_aggregated(self, clusters: Clusters, incumbent: Incumbent | None, accuracy: Accuracy) -> Solution:
        """Solve the weighted problem on the cluster sums; prove a lower bound."""

    @abstractmethod
    def evaluate(self, chunk: Chunk, trial: Trial) -> Evaluation:
        """Objective and region of every entry of the chunk at the points of a trial."""

    def split_trial(self, solution: Solution, incumbent: Incumbent | None) -> Trial | None:
        """What to split at in place of the aggregated solution alone (None: split there only)."""
        return None

    def one_region(self, solution: Solution, gap: float, tol: float) -> Status | None:
        """What it means that no cluster violates the condition (None: nothing yet, go on)."""
        return Status.optimal if solution.verified and gap <= max(tol, NEGLIGIBLE) else None

    def penalty(self, point: Any) -> float:
        """The part of the objective that does not depend on the entries."""
        return 0.0

    # For plots, both optional and cheap: what the sums of the clusters tell, without a pass.

    def distances(self, clusters: Clusters, point: Any) -> Float | None:
        """Distance of each cluster's mean from its nearest kink at a point."""
        return None

    def frame(self, clusters: Clusters, point: Any, iteration: int) -> Frame | None:
        """A picture of the clusters and the point, if a plane can show them."""
        return None
