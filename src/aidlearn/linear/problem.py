"""Linear models with piecewise-linear loss: LAD and quantile regression (paper, section 3.1), SVM (3.2).

This module has the four components of AID; :mod:`aidlearn.linear.model.design` has the formulas.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.passes.run import Run
from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.checkpoint import saved_array
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.problem import (
    Accuracy,
    Evaluation,
    Incumbent,
    Moved,
    Solution,
    Start,
    Trial,
)
from aidlearn.linear.aggregated.solvers import AggregatedSolver
from aidlearn.linear.hurried import Hurried, LinearProblem, cheap_points, out_of_time
from aidlearn.linear.model.aggregated_problem import solve_aggregated
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.unbounded import far_point
from aidlearn.linear.passes import passes_of
from aidlearn.linear.passes.in_numpy import evaluation
from aidlearn.linear.passes.records import Regions, Segment
from aidlearn.numerics import NOISE, Float, Int

ON_KINK = 1e-7
"""Largest margin that counts as on the kink in the three-way split."""
THREE_WAY_CUTS = np.array([np.nextafter(-ON_KINK, -1.0), ON_KINK])
SMALLEST_GROUPS = 0.5
"""Limit on the entries of the smallest groups that are separated, violated or not, over the number of clusters."""
ACCURATE = 1e-9
"""Accuracy of the aggregated solver that keeps the bounds of the paper's procedure visibly non-decreasing."""

StartMethod = Callable[["PiecewiseLinear"], Start]


@dataclass(frozen=True)
class Procedure:
    """Choices of a fit of a linear model: those of the paper's section 4, and our own."""

    solver: AggregatedSolver
    """Solver of the aggregated problem."""
    start: StartMethod
    """Function that draws the initial clusters."""
    paper_split: bool = False
    """Whether to split only at the aggregated solution (the paper's rule). Otherwise clusters are also split at a point
    close to the incumbent on the segment between the two, along which the objective is searched."""
    three_way: bool = False
    """Whether to split below, on and above the kink (the paper's dual procedure for the SVM). The dual of each entry is
    then its share of the dual of its cluster, and satisfies the optimality conditions entry by entry."""
    initial_rate: float | None = None
    """Number of initial clusters over the number of entries (r^0); by default the start decides."""
    rng: np.random.Generator | Callable[[], np.random.Generator] = np.random.default_rng
    """Random number generator, or a function that makes one when it is needed."""

    def generator(self) -> np.random.Generator:
        return self.rng if isinstance(self.rng, np.random.Generator) else self.rng()


class PiecewiseLinear(LinearProblem):
    """The four components for a linear model."""

    def __init__(self, run: Run, design: Design, procedure: Procedure) -> None:
        super().__init__(run)
        self.trivial_bound = design.trivial_bound
        self.design, self.procedure = design, procedure
        self.passes = passes_of(run)
        exact = Regions(np.array(design.loss.kinks), NOISE)
        self.regions = Regions(THREE_WAY_CUTS, -1.0) if procedure.three_way else exact
        """Cuts and tolerance that assign margins to regions."""
        self.n_regions = self.regions.number

    def __getstate__(self) -> dict[str, Any]:
        """Return the state that is sent to workers: the formulas without the run and the procedure."""
        return {**self.__dict__, "run": None, "procedure": None}

    # 1. Aggregated data

    def aggregate(self, chunk: Chunk, labels: NDArray[Any], n_clusters: int) -> Float:
        return self.design.aggregate(chunk, labels, n_clusters)

    def sums_alone(self, chunk: Chunk) -> Any:
        return self.design.sums_alone(chunk)

    # 2. Initial clusters

    def start(self) -> Start:
        if out_of_time(self.run) and not self._eliminates:
            return self.hurried_start()
        start = self.procedure.start(self)
        if start.incumbent is None and out_of_time(self.run):
            # The solver would stop early, and evaluating its point would waste a pass.
            return replace(start, incumbent=self.last_resort())
        return start

    def hurried_start(self, point: Float | None = None) -> Start:
        """Return the start of a fit that is out of time, around a point if one is given."""
        given = self.procedure.start
        return given(self) if isinstance(given, Hurried) else Hurried([self.design], point)(self)

    @property
    def _eliminates(self) -> bool:
        """Whether a factor is eliminated, which requires clusters of one entry each."""
        return self.design.layout is not None and self.design.layout.levels is not None

    # 3. Aggregated problem

    def solve_aggregated(self, clusters: Clusters, incumbent: Incumbent | None, accuracy: Accuracy) -> Solution:
        """Solve the same model on the weighted means of the clusters."""
        point = None if incumbent is None else incumbent.point
        if incumbent is not None and incumbent.objective <= self.trivial_bound:
            # The fit is exact: no loss is below 0, and a solver would iterate on rounding errors.
            return self._without_effort(incumbent.point, clusters)
        if self.procedure.paper_split:
            # Refining clusters never lowers F; with an accurate solver the proven bounds show it.
            accuracy = replace(accuracy, relative=min(accuracy.relative, ACCURATE))
        if not self.design.loss.classifies:
            accuracy = replace(accuracy, duals=False)  # no regression reports duals
        late = time.monotonic() > accuracy.deadline
        plain = self.design.region is None and self.design.linear is None and not any(self.design.loss.kinks)
        if plain and not clusters.store.column(-2).any():
            # All summed targets are 0, so any unit that a solver could choose is a rounding error.
            return self._without_effort(np.zeros(self.design.n_variables), clusters)
        found = solve_aggregated(self.design, clusters.store, point, accuracy, self.procedure.solver, self.run.n_jobs)
        if found.lower_bound == -math.inf and not late:
            far = far_point(self.design, self.run, clusters.store, point)
            found = found if far is None else replace(found, point=far, verified=False)
        if incumbent is not None and late:
            # There is no time to evaluate another point; the bound still counts.
            return replace(found, point=point, verified=False, out_of_time=True)
        return found

    def _without_effort(self, point: Float, clusters: Clusters) -> Solution:
        """Return a solution whose objective equals the trivial bound, which the dual of zeros proves."""
        used = int((clusters.store.column(-1) > 0).sum())
        n_rows = len(self.design.loss.kinks) * used + (self.design.n_attributes if self.design.l1 > 0 else 0)
        return Solution(point, self.trivial_bound, True, np.zeros(n_rows))

    # 4. Optimality condition

    def split_trial(self, solution: Solution, incumbent: Incumbent | None, clusters: Clusters) -> Trial | None:
        if self.procedure.paper_split or incumbent is None or incumbent.point is solution.point:
            return None
        n, p = self.run.n_entries, self.design.n_variables
        spare = self.run.budget.later / (p + 2) - clusters.n_clusters
        dissolved = self._smallest_groups(clusters, solution.point, max(0.0, spare))
        spare -= 0 if dissolved is None else float(clusters.counts[dissolved].sum())
        # At most as many entries as there are clusters become clusters of their own.
        n_alone = max(0.0, min(clusters.n_clusters, spare))
        return Segment.between(incumbent.point, solution.point, n_alone / n, dissolved)

    def _smallest_groups(self, clusters: Clusters, point: Float, spare: float) -> NDArray[np.bool_] | None:
        """Return the groups whose aggregation saves least, small ones near a kink first, up to a number of entries.

        If the optimum is far from the start, they hold rows unlike any other cluster; once all large groups have
        settled, they would cost another iteration for a handful of entries.
        """
        groups = np.flatnonzero(clusters.counts > 1)
        saves = clusters.counts[groups] * np.sqrt(self.distances(clusters, point)[groups])
        ascending = groups[np.argsort(saves, kind="stable")]
        room = min(SMALLEST_GROUPS * clusters.n_clusters, spare)
        few = ascending[: np.searchsorted(np.cumsum(clusters.counts[ascending]), room, side="right")]
        if len(few) == 0:
            return None
        dissolved = np.zeros(clusters.n_clusters, dtype=bool)
        dissolved[few] = True
        return dissolved

    def find_moved(self, chunk: Chunk, trial: Trial, homes: NDArray[np.int16]) -> Moved:
        return self._with_alone(chunk, trial, homes, self.passes.moves(self.design, chunk, trial, self.regions, homes))

    def _with_alone(self, chunk: Chunk, trial: Trial, homes: NDArray[np.int16], moved: Moved) -> Moved:
        """Mark the moved entries that become clusters of their own: all of them, unless they are too many.

        Entries that leave a group together seldom stay together. If a solution has overshot, however, many entries
        leave that will come back, and they are better kept together. The limit applies to each chunk separately.
        """
        if not isinstance(trial, Segment):
            return moved
        few = len(moved.rows) <= math.ceil(trial.n_alone * chunk.n_entries)
        if trial.dissolved is None:
            return replace(moved, alone=np.ones(len(moved.rows), dtype=bool)) if few and len(moved.rows) else moved
        assert chunk.labels is not None
        leaves = trial.dissolved[chunk.labels]
        codes = homes[chunk.labels] * np.int16(sum(self.n_regions**k for k in range(trial.n_split)))
        codes[moved.rows] = moved.codes
        alone = leaves.copy()
        alone[moved.rows] |= few
        leaves[moved.rows] = True
        rows = np.flatnonzero(leaves)
        return replace(moved, rows=rows, codes=codes[rows], alone=alone[rows])

    def evaluate(self, chunk: Chunk, trial: Trial) -> Evaluation:
        return evaluation(self.design, chunk, trial, self.regions)

    def last_resort(self) -> Incumbent | None:
        return cheap_points(self.run, [self.design])[0]

    def objective_error(self, point: Float) -> float:
        return self.design.objective_error(point)

    def penalty(self, point: Float) -> float:
        return self.design.penalty(point)

    def feasible(self, point: Float) -> bool:
        return self.design.region is None or self.design.region.contains(point)

    def resume(self, arrays: Mapping[str, NDArray[Any]]) -> Float | None:
        return saved_array(arrays, "point", np.float64, self.design.n_variables) if "point" in arrays else None

    # Results from the sums of the clusters

    def entry_duals(self, clusters: Clusters, dual: Float) -> tuple[Int, Float]:
        """Return the entries with a non-zero dual, and these duals times the entries' signs.

        ``alpha_i = alpha_k s_i / s_k`` for i in cluster k is feasible for the original problem and has the value
        of the aggregated dual, because the entries of a cluster enter both only through their weighted sum.
        """
        loss = self.design.loss
        weight = clusters.store.column(-1)
        used = weight > 0
        share = np.zeros(clusters.n_clusters)
        n_kinks = len(loss.kinks)
        total = dual[: n_kinks * used.sum()].reshape(n_kinks, -1).sum(axis=0)
        share[used] = total / weight[used]
        signs = self._signs(clusters, share > 0)
        if signs is not None:
            return _spread_without_entries(clusters, share * signs)
        found = _EntryDuals(clusters, share)

        def spread(chunk: Chunk, labels: NDArray[np.int32]) -> tuple[Int, Float]:
            alpha = chunk.weight * share[labels]
            rows = np.flatnonzero(alpha > 0)
            sign, _ = loss.fold(chunk.y)
            return rows + chunk.start, alpha[rows] if sign is None else alpha[rows] * sign[rows]

        clusters.map(spread, found.add)
        return found.whole()

    def _signs(self, clusters: Clusters, wanted: NDArray[np.bool_]) -> Float | None:
        """Return the sign of each wanted cluster's entries if the sums determine it (weights of 1, pure classes)."""
        design, weight = self.design, clusters.store.column(-1)
        if not design.fit_intercept or design.effective != self.run.n_entries or (weight != clusters.counts).any():
            return None
        signed = clusters.store.column(design.n_attributes)
        pure = np.abs(signed) == weight
        return np.sign(signed) if pure[wanted].all() else None

    def distances(self, clusters: Clusters, point: Float) -> Float:
        return self.design.loss.distance(self.design.mean_margins(clusters.store, point))


class _EntryDuals:
    """Entries and their duals, collected chunk by chunk in arrays made once: joining parts would take twice the memory.

    Parameters
    ----------
    clusters : Clusters
    dual : array
        One dual for each cluster; entries of clusters without one have none.
    """

    def __init__(self, clusters: Clusters, dual: Float) -> None:
        most = int(clusters.counts[dual != 0].sum())
        self._entries, self._duals, self._n = np.empty(most, dtype=np.int64), np.empty(most), 0

    def add(self, found: tuple[Int, Float]) -> None:
        here = slice(self._n, self._n + len(found[0]))
        self._entries[here], self._duals[here] = found
        self._n = here.stop

    def whole(self) -> tuple[Int, Float]:
        return self._entries[: self._n], self._duals[: self._n]


def _spread_without_entries(clusters: Clusters, dual: Float) -> tuple[Int, Float]:
    """Return the entries with a non-zero dual and their duals, given one dual per cluster, from labels alone."""
    found, first = _EntryDuals(clusters, dual), 0
    for of_entry in clusters.map_labels(lambda labels: dual[labels]):
        rows = np.flatnonzero(of_entry)
        found.add((rows + first, of_entry[rows]))
        first += len(of_entry)
    return found.whole()
