"""Facility location with many customers on the same engine: a problem whose aggregation is a restriction.

    minimise over sets S of open sites   sum_{j in S} f_j + sum_i w_i min_{j in S} c_ij       (|S| = p, if p is given)

Customers are entries, their costs c_i are rows. A cluster of customers with the sum of their rows is one customer that
has to go to one site: the aggregated optimum is an upper bound here, and uncut clusters prove nothing. The
bound comes from dual points evaluated on the original customers (docs/facility-location.md has the proofs):

    sum_i w_i min_{j in S} c_ij  >=  sum_i w_i (u_i - sum_{j in S} max(0, u_i - c_ij))     for every u and every S

The aggregated problem finds good u. Run it: python examples/facility_location.py
"""

import heapq
import time
from dataclasses import dataclass
from itertools import count

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from aidlearn.data import as_source
from aidlearn.engine import Assignment, Clusters, Evaluation, Limits, Problem, Solution, Start, aid

MOST_SITES = 127  # a region is the number of a site, and regions are int8
AGGREGATED_STEPS = 40  # cutting planes of the aggregated relaxation, at most
LAST_POINTS = 10  # of them, those whose dual points are evaluated on the customers
NEARLY = 1e-3  # share of the relaxation's optimum in the point that the dual at a set is taken at
WHOLE = 1e-6  # distance from 0 or 1 up to which a site counts as closed or open
CLOSE = 1e-9  # relative gap at which cutting planes have found the aggregated relaxation's optimum


@dataclass(frozen=True)
class Cuts:
    """Groups of customers have costs of at least ``fixed - saved @ y`` at every y: one cut per group and dual point."""

    fixed: np.ndarray
    """Points x groups: sums of w u."""
    saved: np.ndarray
    """Points x groups x sites: sums of w max(0, u - c_j)."""

    def and_(self, others):
        return Cuts(np.concatenate([self.fixed, others.fixed]), np.concatenate([self.saved, others.saved]))

    def at(self, y):
        """The highest of the cuts of each group at a point, added up."""
        return float((self.fixed - self.saved @ y).max(axis=0).sum())


def cuts_at(points, costs, weight, groups, n_groups):
    """Dual points of customers at (fractional) sets y.

    A customer fills up y from its cheapest site on until it has 1; u is the cost of the site where that happens, which
    is the best dual point at this y. The cut is tight at y.
    """
    order = np.argsort(costs, axis=1, kind="stable")
    members = sparse.csr_array((weight, (groups, np.arange(len(costs)))), shape=(n_groups, len(costs)))
    last = costs.shape[1] - 1
    fixed, saved = [], []
    for y in points:
        where = np.minimum((np.cumsum(y[order], axis=1) < 1.0 - WHOLE * NEARLY).sum(axis=1), last)
        sites = np.take_along_axis(order, where[:, None], axis=1)
        u = np.take_along_axis(costs, sites, axis=1)
        fixed.append(members @ u[:, 0])
        saved.append(members @ np.maximum(0.0, u - costs))
    return Cuts(np.array(fixed), np.array(saved))


class FacilityLocation(Problem):
    """The four components; a point is the ascending array of the open sites.

    Parameters
    ----------
    costs : array of shape (n_customers, n_sites)
        Not negative.
    n_open : int, optional
        Number of sites to open (the p-median problem).
    opening : array of shape (n_sites,), optional
        Costs of opening a site.
    weight : array of shape (n_customers,), optional
        Demands.
    """

    trivial_bound = 0.0

    def __init__(self, costs, n_open=None, opening=None, weight=None):
        super().__init__(as_source(costs, np.zeros(len(costs)), weight))
        self.n_regions = n_sites = costs.shape[1]
        self.n_open, self.opening = n_open, np.zeros(n_sites) if opening is None else np.asarray(opening, float)
        if not 2 <= n_sites <= MOST_SITES:
            raise ValueError(f"There must be 2 to {MOST_SITES} sites, got {n_sites}.")
        if n_open is not None and not 1 <= n_open <= n_sites:
            raise ValueError(f"n_open must be 1 to {n_sites}, got {n_open}.")
        if self.opening.shape != (n_sites,) or not (np.isfinite(self.opening).all() and (self.opening >= 0).all()):
            raise ValueError(f"opening must be {n_sites} costs that are finite and not negative.")
        self.cuts = None
        self.visited = []

    # 1. What the aggregated data are: sums of the customers' costs.
    def aggregate(self, chunk, labels, n_clusters):
        members = sparse.csr_array(
            (chunk.weight, (labels, np.arange(len(labels)))), shape=(n_clusters, chunk.n_entries)
        )
        return members @ chunk.X

    # 2. How to start: customers with the same two cheapest sites are together.
    def start(self):
        n_sites = self.n_regions

        def assign(chunk, state):
            if chunk.X.min() < 0:
                raise ValueError(f"Costs must not be negative, got {chunk.X.min():g}.")
            first, second = np.argpartition(chunk.X, 1, axis=1)[:, :2].T
            return Assignment((first * n_sites + second).astype(np.int32))

        return Start(Clusters.build(self, assign, n_sites**2)[0])

    # 3. The aggregated problem says at which points dual points are good; on the customers they are a bound.
    def solve_aggregated(self, clusters, incumbent, accuracy):
        points = self.aggregated_points(clusters.sums)
        core = points[-1]
        new = self.true_cuts([*points, *((1 - NEARLY) * self.indicator(s) + NEARLY * core for s in self.visited)])
        self.cuts = new if self.cuts is None else self.cuts.and_(new)
        best = np.inf if incumbent is None else incumbent.objective
        found, bound = self.search(self.cuts, best, accuracy)
        if found is None or (incumbent is not None and np.array_equal(found, incumbent.point)):
            # Every other set costs at least the bound, and the cuts are tight at this one: only rounding is left.
            return Solution(incumbent.point, bound, verified=True)
        self.visited = [found]
        return Solution(found, bound, to_split=found)

    # 4. The condition: costs of a set, and the open site that each customer goes to.
    def evaluate(self, chunk, trial):
        objectives = np.array([chunk.weight @ chunk.X[:, point].min(axis=1) for point in trial.points])
        point = trial.points[0]
        return Evaluation(objectives, point[chunk.X[:, point].argmin(axis=1)].astype(np.int8)[None])

    def penalty(self, point):
        return float(self.opening[point].sum())

    def aggregated(self, sums, point):
        """The aggregated objective: every cluster goes to one site."""
        return float(sums[:, point].min(axis=1).sum()) + self.penalty(point)

    def indicator(self, point):
        return np.isin(np.arange(self.n_regions), point).astype(float)

    def aggregated_points(self, sums):
        """Where cutting planes of the relaxed aggregated problem have gone; the last is near its optimum."""
        groups, weight = sums.argmin(axis=1), np.ones(len(sums))
        share = (1.0 if self.n_open is None else self.n_open) / self.n_regions
        points = [np.full(self.n_regions, share)]
        cuts = cuts_at(points, sums, weight, groups, self.n_regions)
        for _ in range(AGGREGATED_STEPS):
            y, _ = self.relaxed(cuts, np.zeros(self.n_regions), np.ones(self.n_regions))
            new = cuts_at([y], sums, weight, groups, self.n_regions)
            closed = new.at(y) - cuts.at(y) <= CLOSE * abs(new.at(y))
            points.append(y)
            cuts = cuts.and_(new)
            if closed:
                break
        return points[-LAST_POINTS:]

    def true_cuts(self, points):
        """The cuts at some points on the original customers, by one pass; groups have the same cheapest site."""
        parts = []

        def make(chunk, state):
            return cuts_at(points, chunk.X, chunk.weight, chunk.X.argmin(axis=1), chunk.X.shape[1]), None

        self.run.map(make, collect=parts.append)
        return Cuts(sum(part.fixed for part in parts), sum(part.saved for part in parts))

    def relaxed(self, cuts, lower, upper):
        """The best fractional set between bounds by these cuts, and a proven bound for all sets between them.

        Weights of the cuts that add up to 1 in every group make one dual point of them: its bound is a sum.
        """
        n_points, n_groups = cuts.fixed.shape
        n_sites = self.n_regions
        rows = np.hstack([cuts.saved.reshape(-1, n_sites), np.tile(np.eye(n_groups), (n_points, 1))])
        scale = 1.0 / max(float(cuts.fixed.max()), 1e-300)
        least, most = self.number()
        total = np.append(np.ones(n_sites), np.zeros(n_groups))
        free = np.full(n_groups, np.inf)
        found = linprog(
            np.append(scale * self.opening, np.ones(n_groups)),
            A_ub=np.vstack([np.hstack([-scale * rows[:, :n_sites], -rows[:, n_sites:]]), total, -total]),
            b_ub=np.concatenate([-scale * cuts.fixed.ravel(), [most, -least]]),
            bounds=np.column_stack([np.append(lower, -free), np.append(upper, free)]),
            method="highs",
        )
        if found.x is None:
            return None, -np.inf
        weights = np.maximum(0.0, -found.ineqlin.marginals[:-2]).reshape(n_points, n_groups)
        weights[0] += weights.sum(axis=0) <= 0
        weights /= weights.sum(axis=0)
        reduced = self.opening - np.einsum("qg,qgj->j", weights, cuts.saved)
        return np.clip(found.x[:n_sites], lower, upper), float((weights * cuts.fixed).sum()) + self.least(
            reduced, lower, upper
        )

    def number(self):
        """Least and most open sites."""
        return (1, self.n_regions) if self.n_open is None else (self.n_open, self.n_open)

    def least(self, reduced, lower, upper):
        """The least ``reduced @ y`` of the sets between bounds."""
        forced, free = lower > 0.5, np.sort(reduced[(lower < 0.5) & (upper > 0.5)])
        least, most = (max(0, k - int(forced.sum())) for k in self.number())
        taken = int(np.clip((free < 0).sum(), least, most))
        return float(reduced[forced].sum() + free[:taken].sum())

    def search(self, cuts, best, accuracy):
        """Branch and bound on the cuts: the best set by them, and a bound on all sets.

        Sets whose cuts promise more than ``best`` need not be found; None if no other is left.
        """
        n_sites, number = self.n_regions, count()
        enough = best - accuracy.relative * abs(best)
        nodes, dropped, rounded = [], np.inf, None

        def add(lower, upper, parent):
            nonlocal dropped
            least, most = self.number()
            if lower.sum() > most or upper.sum() < least:
                return
            y, bound = self.relaxed(cuts, lower, upper)
            bound = max(bound, parent)
            if bound >= enough:
                dropped = min(dropped, bound)
            elif y is None:
                dropped = min(dropped, parent)
            else:
                heapq.heappush(nodes, (bound, next(number), lower, upper, y))

        add(np.zeros(n_sites), np.ones(n_sites), self.trivial_bound)
        while nodes:
            bound, _, lower, upper, y = heapq.heappop(nodes)
            far = np.abs(y - np.round(y))
            branch = int(far.argmax())
            if far[branch] <= WHOLE:
                return np.flatnonzero(y > 0.5), min(bound, dropped)
            if rounded is None:
                rounded = np.sort(np.argsort(-y)[: max(self.number()[0], round(y.sum()))])
            if time.monotonic() > accuracy.deadline:
                return rounded, min(bound, dropped)
            for value in (1.0, 0.0):
                lower_half, upper_half = lower.copy(), upper.copy()
                lower_half[branch] = upper_half[branch] = value
                add(lower_half, upper_half, bound)
        return None, dropped


def in_the_plane(n_customers, n_sites, random_state=0):
    """Customers of nine towns, and the distances to sites that are places of some of them."""
    rng = np.random.default_rng(random_state)
    places = rng.integers(0, 3, size=(n_customers, 2)) + 0.5 * rng.normal(size=(n_customers, 2))
    sites = places[rng.choice(n_customers, n_sites, replace=False)]
    return np.sqrt(((places[:, None] - sites) ** 2).sum(axis=2))


if __name__ == "__main__":
    costs = in_the_plane(100_000, 50)
    began = time.perf_counter()
    result = aid(FacilityLocation(costs, n_open=10), Limits(tol=1e-6))
    print(f"{result.status}: sites {result.point.tolist()}")
    print(f"cost {result.objective:.4f}, bound {result.lower_bound:.4f}, gap {result.gap:.1e}")
    for record in result.history:
        print(f"  iteration {record.iteration}: {record.n_clusters} clusters, gap {record.gap:.2e}")
    print(f"{result.n_passes} passes, {time.perf_counter() - began:.1f} s")
