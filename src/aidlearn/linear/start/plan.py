"""What initial clusters a sharpened start draws: one policy, and the quantities that its choices follow from."""

from __future__ import annotations

import logging
import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import HEAVY, Metric
from aidlearn.linear.passes.records import ByColumn
from aidlearn.linear.problem import PiecewiseLinear
from aidlearn.linear.rows.columns import SOLVER_STEPS, Costs
from aidlearn.linear.start.newton import quantile_width, uncertain_fraction
from aidlearn.numerics import Float

logger = logging.getLogger("aidlearn")

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
FREE = 1000
"""Rows that cost nothing beside a start."""
CHEAP_SINGLE = 5.0
"""Single rows over n / p that cost no more than so many passes."""
PASSES_FOR_SINGLE = 10.0
"""Passes that single rows may cost to solve for where they are sparse: about those of the start."""
MOST_BINS = 32
"""Far clusters of a region: their rows seldom violate, and those that do split off anyway."""
SUMS_OVER_SINGLE = 2.0
"""What groups of rare columns may cost, over the single rows: both are much cheaper than another iteration."""
ALL_ROWS = 4.0
"""What the original problem may cost over an aggregated one after a start that has not settled: two of them are what is
expected, but more may follow."""
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

    @cached_property
    def nearness(self) -> Float:
        """Distance of each row to the nearest kink, in leverages."""
        return self.design.loss.distance(self.z) / self.leverage

    def fraction(self, ratio: float) -> float:
        """Rows in doubt, relative to all, at an error of ``sqrt(ratio)``."""
        return uncertain_fraction(self.design, self.z, ratio)

    def width(self, fraction: float) -> float:
        """Distance (in leverages) within which a fraction of the rows lies."""
        return quantile_width(self.nearness, fraction)

    def width_below_ties(self, fraction: float) -> float:
        """The same, or less (negative: no row) where rows tied at that distance are many times as many.

        Those of a class that a constant predicts are all on their kink, where they fit every region: nothing is to be
        had from a cluster for each.
        """
        width = self.width(fraction)
        if self.share(width) <= TIED * fraction:
            return width
        return float(self.nearness[self.nearness < (1 - 1e-9) * width].max(initial=-1.0))

    def hollow(self, width: float) -> bool:
        """Whether rows are much denser some way off than within a distance: near ones hardly say where a kink is."""
        return self.share(HOLLOW[0] * width) > HOLLOW[0] * HOLLOW[1] * self.share(width) > 0

    @property
    def share_with_loss(self) -> float:
        """Fraction of the rows beyond their last kink: those that a classifier gets wrong, or nearly."""
        return max(float(np.mean(self.z > self.design.loss.kinks[-1])), 1 / (1 + len(self.z)))

    def share(self, width: float) -> float:
        """Fraction of the rows within a distance (in leverages)."""
        return float(np.mean(self.nearness <= width))


@dataclass(frozen=True)
class Reached:
    """Where Newton steps have ended."""

    point: Float
    reach: float
    """Distance (in leverages) within which rows may still change sides."""
    settled: bool = True
    """Whether steps became short by themselves: damped ones are short wherever the optimum is."""
    objective: float | None = None
    """Of the point, where it is known."""
    fit_steps: int = 0
    """That the solver took for a model of a sample (0: there is none)."""


@dataclass(frozen=True)
class Plan:
    """Initial clusters, and what they follow from: shown as ``plan_`` of a model.

    Costs are nanoseconds by the model of :mod:`aidlearn.linear.rows.columns`; only their ratios matter.
    """

    n_rows: int
    n_variables: int
    settled: bool
    """Whether Newton steps became short by themselves, and all rows in doubt are single."""
    hollow: bool
    """Whether rows are so sparse next to their kinks that short steps mean nothing."""
    error: float
    """Of the point: the distance, in leverages, within which rows may still change sides."""
    doubt: float
    """Part of the rows that is in doubt at the optimum where leverages are even."""
    pass_cost: float
    """Of all rows in a pass."""
    row_cost: float
    """Of a single row in a step of the solver."""
    sum_cost: float
    """Of a group there."""
    near: float
    """Distance, in leverages, up to which rows are single."""
    n_single: float
    """About how many these are; those that carry a coefficient, and all of a tiny class, come on top."""
    because: str
    """What their number follows from."""
    n_bins: int
    """Bins of distance of each kind of rows: by region and class."""
    n_planes: int
    """Planes that part each bin."""
    n_column_groups: int
    """Groups of each kind by the rarest column of a row."""
    n_kinds: int
    all_rows_cost: float
    """Of the problem on all rows, from the steps that a rough fit to a sample took: it takes more, the fewer rows have
    a loss (one to four times as many were seen)."""
    all_rows: bool
    """Whether every row is its own cluster after all."""

    @classmethod
    def of(cls, problem: PiecewiseLinear, metric: Metric, view: View, found: Reached) -> Plan:
        """The plan for a problem at a point that steps have reached."""
        design, n, p = problem.design, problem.run.n_entries, problem.design.n_variables
        hollow = view.hollow(found.reach)
        if hollow:
            found = replace(found, settled=False)
        near, because = _near_distance(problem, metric, view, found)
        if near < found.reach:
            found = replace(found, settled=False)  # not all rows in doubt are single
        n_far = int((view.nearness > near).sum())
        n_bins, n_planes = max(1, min(MOST_BINS, p, n_far // 4)), 0
        n_kinds = problem.n_regions * (2 if design.loss.classifies else 1)
        costs, n_single = Costs.of(p, design.layout), n * view.share(near)
        paid = max(n_single, math.sqrt(p * n)) / n_kinds
        ours = problem.procedure.initial_rate is None  # otherwise the number of clusters is the user's choice
        if ours and not found.settled and design.layout is None:
            n_bins, n_planes = _bins_and_planes(n_bins, paid)
        n_columns = len(rare_columns(design, n, n_bins)) if ours else 0
        plan = cls(
            n_rows=n,
            n_variables=p,
            settled=found.settled,
            hollow=hollow,
            error=found.reach,
            doubt=math.sqrt(p / n),
            pass_cost=n * costs.row_of_pass,
            row_cost=costs.row,
            sum_cost=costs.sum,
            near=near,
            n_single=n_single,
            because=because,
            n_bins=n_bins,
            n_planes=n_planes,
            n_column_groups=min(n_columns, int(SUMS_OVER_SINGLE * paid * costs.row / costs.sum)),
            n_kinds=n_kinds,
            all_rows_cost=n * costs.row * found.fit_steps / math.sqrt(view.share_with_loss) or math.inf,
            all_rows=False,
        )
        worth = 1.0 if found.settled else ALL_ROWS
        cheap = plan.all_rows_cost <= worth * plan.solve_cost and n * costs.stored <= problem.run.budget.clusters
        plan = replace(plan, all_rows=cheap and ours)
        logger.debug("%s", plan)
        return plan

    @property
    def n_groups(self) -> int:
        """Groups at most."""
        return self.n_kinds * (self.n_bins * 2**self.n_planes + self.n_column_groups)

    @property
    def solve_cost(self) -> float:
        """Of an aggregated problem of these clusters."""
        return SOLVER_STEPS * (self.n_single * self.row_cost + self.n_groups * self.sum_cost)

    def record(self) -> dict[str, Any]:
        """All of it, by name; what was drawn, where every row is its own cluster after all."""
        found = {
            **asdict(self),
            "n_single": round(self.n_single),
            "n_groups": self.n_groups,
            "solve_cost": self.solve_cost,
        }
        if self.all_rows_cost == math.inf:
            found["all_rows_cost"] = None
        return {**found, "n_single": self.n_rows, "n_groups": 0} if self.all_rows else found

    def by_column(self, design: Design) -> ByColumn | None:
        """Groups of rare columns: where there are fewer than columns, those about as rare share one."""
        if self.n_column_groups == 0:
            return None
        columns = rare_columns(design, self.n_rows, self.n_bins)
        part = np.full(design.n_attributes, self.n_column_groups, dtype=np.int32)
        part[columns] = np.arange(len(columns)) * self.n_column_groups // len(columns)
        return ByColumn(part, self.n_column_groups, self.n_kinds * self.n_bins)


def rare_columns(design: Design, n: int, n_bins: int) -> Any:
    """Sparse columns that are filled less than a bin, the rarest first.

    In a bin such a column is diluted: its coefficient hardly moves the mean of any group, and the aggregated solution
    takes it a hundred times too far. In a group of its own it meets all its rows. Columns of so few rows that all are
    single need none.
    """
    return () if design.layout is None else design.layout.rarest_first(n, 1 / HEAVY, n / n_bins)


def _near_distance(problem: PiecewiseLinear, metric: Metric, view: View, found: Reached) -> tuple[float, str]:
    """Distance (in leverages) up to which rows stay alone: ``reach``, within what pays and what memory allows.

    Where steps have not settled nobody knows how far the optimum is, and another iteration costs a solve: many rows
    stay alone. Beside the distance stands what it follows from.
    """
    n, p = problem.run.n_entries, problem.design.n_variables
    rate = problem.procedure.initial_rate
    if rate is not None:
        wanted = max(p + 1, rate * n - problem.n_regions * p) / n
        return view.width(wanted), "the initial rate"
    doubt, layout = math.sqrt(p / n), problem.design.layout
    margin = min(1.0, (MARGIN if metric.constant is not None else MARGIN_UNEVEN) * math.sqrt(doubt))
    least = (FEWEST_SINGLE[0] * p + FEWEST_SINGLE[1]) / n
    fewest, most = max(least, min(margin * doubt, CHEAP_SINGLE / p)), min(0.5, MOST_SINGLE * doubt)
    if layout is not None:
        affordable = layout.rows_for_passes(n, PASSES_FOR_SINGLE) / n
        fewest, most = max(least, min(doubt, affordable)), max(least, min(most, affordable))
    room = problem.run.budget.clusters / (p * n)
    most = max(most, min(0.5, FREE / n))
    most, limit = max(least, min(most, room)), "memory" if room < most else "the cost of a solve"
    if not found.settled:
        wanted = max(least, min(most, max(UNSETTLED * doubt, FREE / n)))
        return view.width_below_ties(wanted), "steps that have not settled"
    cheap, dear = view.width(min(fewest, most)), view.width(most)
    if found.reach > dear:
        return dear, limit
    return (
        (cheap, "rows that cost next to nothing") if found.reach <= cheap else (found.reach, "the error of the point")
    )


def _bins_and_planes(n_bins: int, n_single: float) -> tuple[int, int]:
    """Bins and planes of each kind of rows where the optimum may be far, beside so many single rows of the kind.

    Bins of distance differ along one direction. A solution that is far from the point the bins were drawn at lies in
    another one, along which the means of bins are all alike: the aggregated problem does not see what it costs, and
    its solution overshoots. Groups that differ in every direction hold it, as many as cost no more to solve for than
    the single rows do.
    """
    n_planes = _bits(n_single)
    if n_planes > _bits(n_bins) + FEW_SIDES:
        return 1, min(MOST_SIDES, n_planes)
    return n_bins, min(FEW_SIDES, _bits(n_single / n_bins))


def _bits(number: float) -> int:
    return int(math.log2(max(number, 1.0)))
