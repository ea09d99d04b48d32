"""The plan of the initial clusters of a sharpened start, and the quantities that determine it."""

from __future__ import annotations

import logging
import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import HEAVY
from aidlearn.linear.passes.records import ByColumn
from aidlearn.linear.problem import PiecewiseLinear
from aidlearn.linear.rows.columns import SOLVER_STEPS, Costs
from aidlearn.linear.start.newton import quantile_width
from aidlearn.numerics import Float

logger = logging.getLogger("aidlearn")


@dataclass(frozen=True)
class PlanSettings:
    """Settings that decide how many rows stay single and how the others are grouped."""

    near_of_all: float = 4.0
    """Number of rows in doubt, in units of sqrt(p n): if it exceeds n, aggregation cannot pay and every row is single.
    Ablation (near_of_all=1): mean work 1.011, worst table 1.50."""
    free: int = 1000
    """Number of rows up to which every row is single: solving for all of them costs less than a start."""
    margin: float = 3.0
    """Factor, for the worst coefficient, on the error after Newton steps: about (p/n)^(1/4) of the rows in doubt.
    Ablation (margin=margin_uneven=0): mean work 1.003, worst table 1.47."""
    cheap_single: float = 5.0
    """Number of passes that solving for the fewest single rows may cost: K rows cost about K p / n passes.
    Without it, LAD of 100,000 x 300 keeps 3,861 single rows instead of 1,664 and takes 18 % more time."""
    most_single: float = 3.0
    """Maximum number of single rows, in units of sqrt(p n): solving for K rows costs about K p / n passes.
    Ablation (most_single=inf): mean work 1.005, worst table 1.34."""
    unsettled: float = 1.5
    """Number of single rows, in units of sqrt(p n), if steps have not settled. Twice as many save an iteration only
    about half of the time, and every solve takes twice as long.
    Ablation (unsettled=3): mean work 1.018, worst table 1.44."""
    passes_for_single: float = 10.0
    """Number of passes that the solution for sparse single rows may cost: about those of the start."""
    most_bins: int = 32
    """Guess. Maximum number of far clusters in a region: their rows seldom change sides, and those that do split off.
    Ablation (most_bins=1e9): mean work 1.009, worst table 1.63."""
    sums_over_single: float = 2.0
    """Guess. Maximum cost of the groups of rare columns, relative to that of the single rows: both are much cheaper
    than another iteration.
    Ablation (sums_over_single=0): mean work 1.000, worst table 1.00."""
    tied: float = 2.0
    """Guess. Maximum ratio of single rows to the number wanted; beyond it, rows tied at the last distance are left out.
    Ablation (tied=inf): mean work 1.011, worst table 1.87."""
    hollow_distance: float = 3.0
    """Guess. Multiple of the near distance within which the density of rows is compared with that of near rows."""
    hollow_density: float = 2.0
    """Guess. Ratio of the wider to the near density of rows above which short steps do not mean a close optimum.
    Ablation (inf): work 1.38 to 1.56 on a table of 150,000 rows that has none near its kinks."""
    few_planes: int = 3
    """Guess. Maximum number of planes that split each bin if the optimum may be far; each one doubles the groups.
    Ablation (no planes): mean work 1.025, worst table 1.74."""
    most_planes: int = 12
    """Guess. Maximum number of planes that replace the bins, if single rows allow more groups than bins and
    ``few_planes`` would make.
    Ablation (most_planes=3): mean work 1.017, worst table 1.52."""


SETTINGS = PlanSettings()


@dataclass(frozen=True)
class View:
    """Margins of a sample at a point, as a stand-in for those of all rows."""

    design: Design
    z: Float
    leverage: Float

    @cached_property
    def nearness(self) -> Float:
        """Distance from each row to the nearest kink, in leverages."""
        return self.design.loss.distance(self.z) / self.leverage

    def fraction(self, ratio: float) -> float:
        """Return the fraction of rows whose side is in doubt at an error of ``sqrt(ratio)`` (ratio = p / rows).

        The proportion s of rows on the smaller side of the kinks is known to within ``sqrt(s (1 - s) ratio)``; at an
        extreme quantile, or for a rare class, far fewer rows are in doubt than at the median.
        """
        kinks = self.design.loss.kinks
        small = min(float(np.mean(self.z > kinks[-1])), float(np.mean(self.z <= kinks[0])))
        small = max(small, 1 / (1 + len(self.z)))
        return min(small, 2 * math.sqrt(small * (1 - small) * ratio))

    def width(self, fraction: float) -> float:
        """Return the distance (in leverages) within which a fraction of the rows lies."""
        return quantile_width(self.nearness, fraction)

    def width_below_ties(self, fraction: float) -> float:
        """Return ``width``, or a smaller distance (negative: no row) if far too many rows are tied there.

        If a constant predicts a class, all its rows lie on their kink, where they fit every region: nothing is gained
        by making each its own cluster.
        """
        width = self.width(fraction)
        if self.share(width) <= SETTINGS.tied * fraction:
            return width
        return float(self.nearness[self.nearness < (1 - 1e-9) * width].max(initial=-1.0))

    def hollow(self, width: float) -> bool:
        """Return whether rows are much denser beyond a distance than within it: near rows hardly fix the optimum."""
        return (
            self.share(SETTINGS.hollow_distance * width)
            > SETTINGS.hollow_distance * SETTINGS.hollow_density * self.share(width)
            > 0
        )

    @property
    def share_with_loss(self) -> float:
        """Fraction of the rows beyond their last kink, which a classifier gets wrong or nearly wrong."""
        return max(float(np.mean(self.z > self.design.loss.kinks[-1])), 1 / (1 + len(self.z)))

    def share(self, width: float) -> float:
        """Return the fraction of the rows within a distance (in leverages)."""
        return float(np.mean(self.nearness <= width))


@dataclass(frozen=True)
class Reached:
    """The point reached by Newton steps, and what is known about it."""

    point: Float
    reach: float
    """Distance (in leverages) within which rows may still change sides."""
    settled: bool = True
    """Whether steps became short without damping: damped steps are short wherever the optimum is."""
    objective: float | None = None
    """Objective at the point, if known."""
    fit_steps: int = 0
    """Number of solver steps in the fit to a sample (0 if there was none)."""


@dataclass(frozen=True)
class Plan:
    """The plan of the initial clusters, which a model reports as ``plan_``, and the quantities that determine it.

    Costs are in nanoseconds, by the cost model of :mod:`aidlearn.linear.rows.columns`; only their ratios matter.
    """

    n_rows: int
    n_variables: int
    settled: bool
    """Whether Newton steps became short without damping and all rows in doubt are single."""
    hollow: bool
    """Whether rows are so sparse next to their kinks that short steps do not mean a close optimum."""
    error: float
    """Error of the point, as the distance (in leverages) within which rows may still change sides."""
    doubt: float
    """Share of the rows in doubt at the optimum if leverages are even."""
    pass_cost: float
    """Cost of a pass over all rows."""
    row_cost: float
    """Cost of a single row in a step of the solver."""
    sum_cost: float
    """Cost of a group in a step of the solver."""
    near: float
    """Distance (in leverages) up to which rows are single."""
    n_single: float
    """Approximate number of single rows, not counting those that carry a coefficient or belong to a tiny class."""
    because: str
    """Reason for the number of single rows."""
    n_bins: int
    """Number of bins of distance for each kind of rows (a region and a class)."""
    n_planes: int
    """Number of planes that split each bin."""
    n_column_groups: int
    """Number of groups by rarest column, for each kind of rows."""
    n_kinds: int
    """Number of kinds of rows, which is regions times classes."""
    all_rows_cost: float
    """Cost of the problem on all rows, estimated from the steps of a rough fit to a sample. The fewer rows have a loss,
    the more steps it takes (one to four times as many were observed)."""
    all_rows: bool
    """Whether the original problem is solved instead, with every row as its own cluster."""

    @classmethod
    def of(cls, problem: PiecewiseLinear, view: View, found: Reached) -> Plan:
        """Return the plan for a problem at a point that Newton steps have reached."""
        design, n, p = problem.design, problem.run.n_entries, problem.design.n_variables
        hollow = view.hollow(found.reach)
        if hollow:
            found = replace(found, settled=False)
        near, because = _near_distance(problem, view, found)
        if near < found.reach:
            found = replace(found, settled=False)  # not all rows in doubt are single
        n_far = int((view.nearness > near).sum())
        n_bins, n_planes = max(1, min(SETTINGS.most_bins, p, n_far)), 0
        n_kinds = problem.n_regions * (2 if design.loss.classifies else 1)
        costs, n_single = Costs.of(p, design.layout), n * view.share(near)
        paid = max(n_single, math.sqrt(p * n)) / n_kinds
        ours = problem.procedure.initial_rate is None  # otherwise the number of clusters is the user's choice
        if ours and not found.settled and design.layout is None:
            n_bins, n_planes = bins_and_planes(n_bins, paid)
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
            n_column_groups=min(n_columns, int(SETTINGS.sums_over_single * paid * costs.row / costs.sum)),
            n_kinds=n_kinds,
            all_rows_cost=n * costs.row * found.fit_steps / math.sqrt(view.share_with_loss) or math.inf,
            all_rows=False,
        )
        cheap = plan.all_rows_cost <= plan.solve_cost and n * costs.stored <= problem.run.budget.clusters
        plan = replace(plan, all_rows=cheap and ours)
        logger.debug("%s", plan)
        return plan

    def bins_per_distance(self, view: View) -> float:
        """Return the bins per unit of distance, such that bins of equal width reach the farthest row."""
        return self.n_bins / max(float(view.nearness.max()), 1e-300)

    @property
    def n_groups(self) -> int:
        """Maximum number of groups."""
        return self.n_kinds * (self.n_bins * 2**self.n_planes + self.n_column_groups)

    @property
    def solve_cost(self) -> float:
        """Cost of solving an aggregated problem with these clusters."""
        return SOLVER_STEPS * (self.n_single * self.row_cost + self.n_groups * self.sum_cost)

    def record(self) -> dict[str, Any]:
        """Return the plan as a dictionary, whose counts are those of the clusters actually drawn."""
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
        """Return the groups of rare columns; if columns outnumber groups, those of similar frequency share one."""
        if self.n_column_groups == 0:
            return None
        columns = rare_columns(design, self.n_rows, self.n_bins)
        part = np.full(design.n_attributes, self.n_column_groups, dtype=np.int32)
        part[columns] = np.arange(len(columns)) * self.n_column_groups // len(columns)
        return ByColumn(part, self.n_column_groups, self.n_kinds * self.n_bins)


def rare_columns(design: Design, n: int, n_bins: int) -> Any:
    """Return the sparse columns that have fewer entries than a bin has rows, rarest first.

    A bin dilutes such a column: its coefficient hardly moves the mean of any group, and the aggregated solution makes
    it a hundred times too large. A group for the column contains all its rows. Columns whose rows are all single need
    no group.
    """
    return () if design.layout is None else design.layout.rarest_first(n, 1 / HEAVY, n / n_bins)


def _near_distance(problem: PiecewiseLinear, view: View, found: Reached) -> tuple[float, str]:
    """Return the distance (in leverages) up to which rows stay single, and its reason.

    It is ``reach``, within the limits of cost and memory. If steps have not settled, many rows stay single, because
    the distance to the optimum is unknown and another iteration costs a solve.
    """
    n, p = problem.run.n_entries, problem.design.n_variables
    rate = problem.procedure.initial_rate
    if rate is not None:
        wanted = max(p + 1, rate * n - problem.n_regions * p) / n
        return view.width(wanted), "the initial rate"
    doubt = math.sqrt(p / n)
    margin = min(1.0, SETTINGS.margin * math.sqrt(doubt))
    least, room = p / n, problem.run.budget.clusters / (p * n)
    fewest, most = min(margin * doubt, SETTINGS.cheap_single / p), SETTINGS.most_single * doubt
    if problem.design.layout is not None:
        affordable = problem.design.layout.rows_for_passes(n, SETTINGS.passes_for_single) / n
        fewest, most = min(doubt, affordable), min(most, affordable)
    most, limit = max(least, min(most, room)), "memory" if room < most else "the cost of a solve"
    if not found.settled:
        wanted = min(most, SETTINGS.unsettled * doubt)
        return view.width_below_ties(wanted), "steps that have not settled"
    cheap, dear = view.width(min(fewest, most)), view.width(most)
    if found.reach > dear:
        return dear, limit
    return (
        (cheap, "rows that cost next to nothing") if found.reach <= cheap else (found.reach, "the error of the point")
    )


def bins_and_planes(n_bins: int, n_single: float) -> tuple[int, int]:
    """Return the numbers of bins and planes for a kind of rows with ``n_single`` single ones if the optimum may be far.

    Bins of distance differ along one direction only. Along others the means of all bins are alike: the aggregated
    problem misses the cost of moving there, and its solution overshoots. Groups that differ in every direction prevent
    this; there are at most as many groups as single rows.
    """
    n_planes = _bits(n_single)
    if n_planes > _bits(n_bins) + SETTINGS.few_planes:
        return 1, min(SETTINGS.most_planes, n_planes)
    return n_bins, min(SETTINGS.few_planes, _bits(n_single / n_bins))


def _bits(number: float) -> int:
    return int(math.log2(max(number, 1.0)))
