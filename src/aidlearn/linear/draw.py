"""Initial clusters around a sharpened point: rows near it alone, far rows binned by distance."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from aidlearn.data.chunk import Chunk, Float
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.problem import Incumbent, Start
from aidlearn.engine.result import StartStep
from aidlearn.engine.splits import Assignment
from aidlearn.linear.design import Design
from aidlearn.linear.layout import sums_over_rows
from aidlearn.linear.metric import HEAVY, Metric
from aidlearn.linear.newton import quantile_width, uncertain_fraction
from aidlearn.linear.passes import ByColumn, Split, passes_of
from aidlearn.linear.problem import PiecewiseLinear

MARGIN, MARGIN_UNEVEN = 3.0, 9.0
"""Newton steps end with an error of about (p/n)^(1/4) of the doubt; some coefficients err by more, the more so where
rows differ in leverage."""
FEWEST_SINGLE = (5, 50)
"""Single rows at least: so many per variable, and so many more."""
MOST_SINGLE = 3.0
"""Single rows at most, in sqrt(p n), and at most half of the rows: K rows cost about K p / n passes to solve for."""
UNSETTLED = 1.5
"""Single rows, in the same unit, where steps have not settled. With twice as many, an iteration is saved about as often
as not, and every solve takes twice as long."""
CHEAP_SINGLE = 5.0
"""Single rows over n / p that cost no more than so many passes."""
PASSES_FOR_SINGLE = 10.0
"""Passes that single rows may cost to solve for where they are sparse: about those of the start."""
MOST_BINS = 32
"""Far clusters of a region: their rows seldom violate, and those that do split off anyway."""
SUMS_OVER_SINGLE = 2.0
"""What groups of rare columns may cost, over the single rows: both are much cheaper than another iteration."""
BINNED = 0.98
"""Bins of equal width reach to this quantile of the distances."""
TIED = 2.0
"""Times the rows that are wanted within a distance, from which on those at the distance itself are left out."""
HOLLOW = (3.0, 2.0)
"""Times a distance, and the density of rows up to there over that within it, from which on short steps mean nothing."""
FEW_SIDES, MOST_SIDES = 3, 12
"""Planes that part the groups where the optimum may be far; every one doubles them. Few beside bins, and many in their
place where groups cost so little that there are more planes than twice as many bins would make."""


@dataclass(frozen=True)
class View:
    """Margins of a sample at a point, as a stand-in for those of all rows."""

    design: Design
    z: Float
    leverage: Float

    def fraction(self, ratio: float) -> float:
        """Rows in doubt, relative to all, at an error of ``sqrt(ratio)``."""
        return uncertain_fraction(self.design, self.z, ratio)

    def width(self, fraction: float) -> float:
        """Distance (in leverages) within which a fraction of the rows lies."""
        return quantile_width(self.design, self.z, self.leverage, fraction)

    def width_below_ties(self, fraction: float) -> float:
        """The same, or less (negative: no row) where rows tied at that distance are many times as many.

        Those of a class that a constant predicts are all on their kink, where they fit every region: nothing is to be
        had from a cluster for each.
        """
        width = self.width(fraction)
        if self.share(width) <= TIED * fraction:
            return width
        nearness = self.design.loss.distance(self.z) / self.leverage
        return float(nearness[nearness < (1 - 1e-9) * width].max(initial=-1.0))

    def hollow(self, width: float) -> bool:
        """Whether rows are much denser some way off than within a distance: near ones hardly say where a kink is."""
        return self.share(HOLLOW[0] * width) > HOLLOW[0] * HOLLOW[1] * self.share(width) > 0

    def share(self, width: float) -> float:
        """Fraction of the rows within a distance (in leverages)."""
        return float(np.mean(self.design.loss.distance(self.z) <= width * self.leverage))


@dataclass(frozen=True)
class Reached:
    """Where Newton steps have ended."""

    point: Float
    reach: float
    """Distance (in leverages) within which rows may still change sides."""
    settled: bool = True
    """Whether steps became short by themselves: damped ones are short wherever the optimum is."""


class Sharpened(Protocol):
    """What is known of the rows where Newton steps have ended."""

    metric: Metric
    leverages: list[Any] | None
    viewed: Chunk
    steps: list[StartStep]

    @property
    def rare_class(self) -> float: ...

    def at(self, point: Float) -> View: ...

    def note(self, n_rows: int, objective: float) -> None: ...


def draw(problem: PiecewiseLinear, sharp: Sharpened, found: Reached) -> Start:
    """Label all rows at a point; the objective there comes with the same pass."""
    design, loss, n_regions = problem.design, problem.design.loss, problem.n_regions
    point, n = found.point, problem.run.n_entries
    view = sharp.at(point)
    if view.hollow(found.reach):
        found = replace(found, settled=False)
    near = _near_distance(problem, sharp.metric, view, found)
    nearness = loss.distance(view.z) / view.leverage
    far = nearness[nearness > near]
    n_bins = max(1, min(MOST_BINS, design.n_variables, len(far) // 4))
    n_kinds = n_regions * (2 if loss.classifies else 1)
    n_single = max(n * view.share(near), math.sqrt(design.n_variables * n))
    sides = None
    if not found.settled and design.layout is None:
        n_bins, n_sides = _bins_and_sides(n_bins, n_single / n_kinds)
        sides = _sides(design, sharp, n_sides)
    scale = n_bins / max(float(np.quantile(far, BINNED)) if len(far) else 1.0, 1e-300)
    n_parts = n_bins * (1 if sides is None else 2 ** len(sides))
    by_column = _by_column(design, n, n_bins, n_kinds, n_single)
    n_columns = 0 if by_column is None else by_column.n_parts
    split = Split(near, scale, n_bins, problem.cuts, n_kinds * (n_parts + n_columns), HEAVY, sides=sides)
    split = replace(split, by_column=by_column, rare_class=sharp.rare_class)
    passes, compiled, metric = passes_of(problem.run), problem.run.compiled, sharp.metric

    def assign(chunk: Chunk, leverage: Any) -> Assignment:
        if leverage is None:
            leverage = metric.leverage(design, chunk, compiled)
        found = passes.groups(design, chunk, point, leverage, split)
        return Assignment(found.labels, found.alone, found.objective, found.counts, found.sums)

    kinds = np.tile(np.arange(n_regions, dtype=np.int16), 2 if loss.classifies else 1)
    homes = np.concatenate([np.repeat(kinds, n_parts), np.repeat(kinds, n_columns)])
    clusters, objective = Clusters.build(problem, assign, split.n_groups, homes, sharp.leverages)
    objective += design.penalty(point)
    sharp.note(n, objective)
    return Start(clusters, Incumbent(point, objective), sharp.steps)


def _near_distance(problem: PiecewiseLinear, metric: Metric, view: View, found: Reached) -> float:
    """Distance (in leverages) up to which rows stay alone: ``reach``, within what pays and what memory allows.

    Where steps have not settled nobody knows how far the optimum is, and another iteration costs a solve: many rows
    stay alone.
    """
    n, p = problem.run.n_entries, problem.design.n_variables
    rate = problem.procedure.initial_rate
    if rate is not None:
        wanted = max(p + 1, rate * n - problem.n_regions * p) / n
        return view.width(wanted)
    doubt, layout = math.sqrt(p / n), problem.design.layout
    margin = min(1.0, (MARGIN if metric.constant is not None else MARGIN_UNEVEN) * math.sqrt(doubt))
    least = (FEWEST_SINGLE[0] * p + FEWEST_SINGLE[1]) / n
    fewest, most = max(least, min(margin * doubt, CHEAP_SINGLE / p)), min(0.5, MOST_SINGLE * doubt)
    if layout is not None:
        affordable = layout.rows_for_passes(n, PASSES_FOR_SINGLE) / n
        fewest, most = max(least, min(doubt, affordable)), max(least, min(most, affordable))
    most = max(least, min(most, problem.run.budget.clusters / (p * n)))
    if not found.settled:
        return view.width_below_ties(max(least, min(most, UNSETTLED * doubt)))
    return min(max(found.reach, view.width(min(fewest, most))), view.width(most))


def _bins_and_sides(n_bins: int, n_single: float) -> tuple[int, int]:
    """Bins and planes of each kind of rows where the optimum may be far, beside so many single rows of the kind.

    Bins of distance differ along one direction. A solution that is far from the point the bins were drawn at lies in
    another one, along which the means of bins are all alike: the aggregated problem does not see what it costs, and
    its solution overshoots. Groups that differ in every direction hold it, as many as cost no more to solve for than
    the single rows do.
    """
    n_sides = _bits(n_single)
    if n_sides > _bits(n_bins) + FEW_SIDES:
        return 1, min(MOST_SIDES, n_sides)
    return n_bins, min(FEW_SIDES, _bits(n_single / n_bins))


def _by_column(design: Design, n: int, n_bins: int, n_kinds: int, n_single: float) -> ByColumn | None:
    """Groups for rows of sparse columns that are filled less than a bin.

    In a bin such a column is diluted: its coefficient hardly moves the mean of any group, and the aggregated solution
    takes it a hundred times too far. In a group of its own it meets all its rows. Where that many sums, which are
    dense, cost more to solve for than the single rows do, columns share groups with others about as rare. Columns of so
    few rows that all are single need none.
    """
    layout = design.layout
    if layout is None:
        return None
    columns = layout.rarest_first(n, 1 / HEAVY, n / n_bins)
    affordable = int(SUMS_OVER_SINGLE * n_single / n_kinds / sums_over_rows(design.n_variables, layout))
    n_parts = min(len(columns), affordable)
    if n_parts == 0:
        return None
    part = np.full(design.n_attributes, n_parts, dtype=np.int32)
    part[columns] = np.arange(len(columns)) * n_parts // len(columns)
    return ByColumn(part, n_parts, n_kinds * n_bins)


def _bits(number: float) -> int:
    return int(math.log2(max(number, 1.0)))


def _sides(design: Design, sharp: Sharpened, number: int) -> Float | None:
    """Planes through the middle of the rows, in directions drawn for the metric."""
    if number == 0:
        return None
    directions = sharp.metric.directions(design, number)[: design.n_attributes]
    middle = np.median(np.asarray(sharp.viewed.X @ directions, dtype=np.float64), axis=0)
    return np.column_stack([directions.T, -middle])
