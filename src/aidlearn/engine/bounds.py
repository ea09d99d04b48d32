"""The two sides of the gap: the best point with its objective on all entries, and the best proven lower bound.

Any partition gives a lower bound (Jensen), so ``lower_bound = max F_t`` and ``objective = min E_t`` stay valid
whatever is split or merged in between.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from typing import Any

from aidlearn.engine.checkpoint import CheckpointError
from aidlearn.engine.problem import Incumbent, Problem, Solution
from aidlearn.engine.result import CROSSING, below, relative_gap

logger = logging.getLogger("aidlearn")


class Bounds:
    """Incumbent and lower bound of one run of the loop."""

    def __init__(self, problem: Problem, incumbent: Incumbent | None = None) -> None:
        self._problem = problem
        self.incumbent: Incumbent | None = None
        self.proven = problem.trivial_bound
        """Best bound as it was proven; ``lower_bound`` is the part of it that rounding of the objective leaves."""
        self._saved = -math.inf
        """Bound of a checkpoint. It proves nothing without its dual: the next solution has to prove it again."""
        self._known_error: tuple[Incumbent, float] | None = None
        self.take(incumbent)

    @classmethod
    def restored(cls, problem: Problem, point: Any, objective: float | None, lower_bound: float) -> Bounds:
        """Bounds of a checkpoint.

        The incumbent is evaluated on all entries, in a pass that does not count as one of the fit. An objective that
        agrees up to rounding keeps its last bits, so that the fit continues exactly as it would have.
        """
        bounds = cls(problem, None if objective is None else Incumbent(point, objective))
        bounds._saved = lower_bound
        if objective is not None:
            run = problem.run
            n_passes = run.n_passes
            evaluated = problem.objective(point)
            run.add_passes(n_passes - run.n_passes)
            if not abs(evaluated - objective) <= max(CROSSING * abs(evaluated), bounds._error()):
                raise CheckpointError(
                    f"The checkpoint holds an objective of {objective:.10g}, its point has {evaluated:.10g}: it is "
                    "damaged. Delete it to start anew, or give another file."
                )
        return bounds

    @property
    def objective(self) -> float:
        """Objective of the incumbent on all entries."""
        return math.inf if self.incumbent is None else self.incumbent.objective

    @property
    def lower_bound(self) -> float:
        """Best proven bound that does not exceed the objective."""
        return max(self.kept(self.proven), self.kept(self._problem.trivial_bound))

    @property
    def gap(self) -> float:
        """Relative gap between the incumbent and the best proven bound."""
        return relative_gap(self.objective, self.lower_bound)

    def gap_to(self, lower_bound: float) -> float:
        """Relative gap between the incumbent and a given bound."""
        return relative_gap(self.objective, self.kept(lower_bound))

    def kept(self, lower_bound: float) -> float:
        """The bound, lowered below the objective as far as rounding explains a crossing, and -inf otherwise."""
        return below(lower_bound, self.objective, self._error())

    def discards(self, lower_bound: float) -> bool:
        """Whether a finite bound exceeds the objective by more than rounding explains."""
        return self.kept(lower_bound) == -math.inf < lower_bound

    def _error(self) -> float:
        """Rounding error of the incumbent's objective."""
        if self.incumbent is None:
            return 0.0
        if self._known_error is None or self._known_error[0] is not self.incumbent:
            self._known_error = self.incumbent, self._problem.objective_error(self.incumbent.point)
        return self._known_error[1]

    def take(self, candidate: Incumbent | None) -> None:
        """Keep a point that is better than the incumbent; a point whose objective is NaN never is."""
        if candidate is not None and candidate.objective < self.objective:
            self.incumbent = candidate

    def improve(self, points: Iterable[Any], objectives: Iterable[float]) -> Incumbent | None:
        """Keep the best of the points as incumbent, and return the one before."""
        before = self.incumbent
        for point, objective in zip(points, objectives, strict=True):
            self.take(Incumbent(point, float(objective)))
        return before

    def prove(self, solution: Solution) -> float:
        """Keep the bound of a solution if it is the best; returns the part of it that the objective leaves."""
        kept = self.kept(solution.lower_bound)
        if self.discards(solution.lower_bound):
            logger.warning("bound %.17g above the objective %.17g discarded", solution.lower_bound, self.objective)
        elif self.kept(self.proven) == -math.inf or solution.lower_bound > self.proven:
            self.proven = solution.lower_bound
        if kept < self._saved <= kept + CROSSING * abs(kept):
            self.proven = max(self.proven, self._saved)  # proven up to rounding, and kept to its last bits
        return kept
