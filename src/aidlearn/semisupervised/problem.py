"""Semi-supervised SVM (paper, section 3.3): labelled and unlabelled entries, four regions.

    minimise over (w, b)   1/2 |w|^2 + C sum_l s_i max(0, 1 - y_i z_i) + C_u sum_u s_i max(0, 1 - |z_i|)

with z = x'w + b. The loss of an unlabelled entry is not convex across z = 0: if the hyperplane cuts an unlabelled
cluster, the aggregated optimum is NO lower bound, and a solution with every cluster in one region is only a local
optimum (the paper's proposition on optimality does not hold). The reported bounds are proven:

- from the labelled entries alone, with every loss of an unlabelled entry counted as 0;
- with ``certify``, by branch and bound over three states of each unlabelled cluster: all entries on the + side, all on
  the - side (Jensen), or cut. A solution better than a known value E has |w| <= W = sqrt(2 E); if it cuts a cluster
  of radius r, the absolute score of the mean is at most r W and each of its entries loses at least 1 - 2 r W.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.passes.run import Run, total
from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.checkpoint import damaged, saved_array
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.problem import Accuracy, Evaluation, Incumbent, Problem, Solution, Start, Trial
from aidlearn.engine.result import Status
from aidlearn.linear.aggregated.hinge_rows import EPS
from aidlearn.numerics import Float, Int
from aidlearn.semisupervised import branch_and_bound, miqp
from aidlearn.semisupervised.branch_and_bound import CUT, FREE, Cut, SearchLimits, SemiSupervisedRows
from aidlearn.trace import Frame, sample


@dataclass(frozen=True)
class SemiSupervisedProcedure:
    """Limits of searches, and numbers of roundings."""

    closed_gap: float = 1e-6
    """Guess. Relative gap at which the branch and bound has solved an aggregated problem."""
    node_work: float = 2e7
    """Guess. Default maximum of nodes times squared rows of one aggregated problem."""
    node_range: tuple[int, int] = (30, 2000)
    """Guess. Minimum and maximum of the default limit on nodes."""
    patience: int = 4
    """Guess. Factor on the node limit of the search that proves a bound; it is squared, cubed, ... if nodes run out."""
    on_margin: float = 8.0
    """Roundings within which a labelled entry lies on its margin, and so in both regions."""
    mean_roundings: float = 8.0
    """Roundings of the mean of a cluster, per attribute."""


SETTINGS = SemiSupervisedProcedure()


@dataclass(frozen=True)
class ClusterSums:
    """The columns of the aggregated data: sums of s_i x_i, of s_i and of s_i y_i over the entries of each cluster."""

    attributes: Float
    weight: Float
    signed: Float

    @classmethod
    def of(cls, sums: Float) -> ClusterSums:
        """Name the columns of an array of sums."""
        return cls(sums[:, :-2], sums[:, -2], sums[:, -1])

    @property
    def labels(self) -> Float:
        """Labels of the clusters, -1 or 1; 0 if unlabelled (labelled entries of two classes never share a cluster)."""
        return np.sign(self.signed)

    def means(self, which: Int) -> Float:
        """Return the mean attributes of the given clusters, whose weights must be positive."""
        return self.attributes[which] / self.weight[which, None]

    def scores(self, point: Float) -> Float:
        """Return the scores of the means of all clusters, which are b for clusters without weight."""
        return self.attributes @ point[:-1] / np.where(self.weight > 0, self.weight, 1.0) + point[-1]


@dataclass(frozen=True)
class Balance:
    """The balance constraint: the mean of the unlabelled entries, and its required score."""

    mean: Float
    score: float

    def point(self, w: Float) -> Float:
        """Return the balanced hyperplane with this w."""
        return np.append(w, self.score - self.mean @ w)


@dataclass(frozen=True)
class Aggregated:
    """The aggregated problem in coordinates v with ``w = basis v``, at most one coordinate per row."""

    rows: SemiSupervisedRows
    unlabelled: Int
    """Cluster of each unlabelled row."""
    centre: Float
    basis: Float | None

    def point(self, v: Float, b: float) -> Float:
        """Return the hyperplane with the given coordinates."""
        w = v if self.basis is None else self.basis @ v
        return np.append(w, b - self.centre @ w)

    def coordinates(self, point: Float) -> tuple[Float, float]:
        """Return the coordinates of a hyperplane."""
        w = point[:-1]
        return (w if self.basis is None else self.basis.T @ w), float(point[-1] + self.centre @ w)


@dataclass(frozen=True)
class Bisection(Trial):
    """A trial that also halves some clusters: entries beyond the mean in a given direction leave their cluster."""

    clusters: Int = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    means: Float = field(default_factory=lambda: np.empty((0, 0)))
    directions: Float = field(default_factory=lambda: np.empty((0, 0)))

    def halves(self, chunk: Chunk) -> NDArray[np.int8]:
        """Return the half of its cluster in which each entry lies, or -1 if the cluster is not halved."""
        assert chunk.labels is not None
        if len(self.clusters) == 0:
            return np.full(chunk.n_entries, -1, dtype=np.int8)
        place = np.minimum(np.searchsorted(self.clusters, chunk.labels), len(self.clusters) - 1)
        rows = np.flatnonzero(self.clusters[place] == chunk.labels)
        half = np.full(chunk.n_entries, -1, dtype=np.int8)
        away = chunk.dense_rows(rows) - self.means[place[rows]]
        half[rows] = np.einsum("ij,ij->i", away, self.directions[place[rows]]) > 0
        return half


@dataclass(frozen=True)
class SemiSupervisedSettings:
    """Parameters of a semi-supervised SVM and options for solving it."""

    C: float
    """Weight of the losses of labelled entries (M_l in the paper)."""
    C_unlabeled: float
    """Weight of the losses of unlabelled entries (M_u)."""
    start_method: Callable[[SemiSupervised], Start]
    """Function that draws the initial clusters; none mixes classes, or labelled and unlabelled entries."""
    balance: bool = False
    """Whether the mean score of the unlabelled entries must be the mean label of the labelled entries."""
    certify: bool = False
    """Whether to bound the original problem by three states, and to split until the bound meets the objective."""
    node_limit: int | None = None
    """Maximum nodes of one branch and bound."""
    watch: Callable[[int], None] | None = None
    """Called with the number of nodes of the current branch and bound."""
    initial_rate: float | None = None
    solver: str = "auto"
    """Solver of aggregated problems: "auto" is our branch and bound, "miqp" is SCIP (by default without node limit)."""


class SemiSupervised(Problem):
    """The four components of an S3VM; the target of an entry is its label, -1 or 1, or 0 if it is unlabelled.

    Parameters
    ----------
    run : Run
    settings : SemiSupervisedSettings
    rng : Generator
        Random number generator of the start.
    """

    n_regions = 4
    trivial_bound = 0.0
    gap_status = Status.certified

    def __init__(self, run: Run, settings: SemiSupervisedSettings, rng: np.random.Generator) -> None:
        super().__init__(run)
        self.n_attributes = run.n_attributes
        self.settings, self.rng = settings, rng
        self._patience = SETTINGS.patience
        self._n_clusters_halved = 0

    # 1. Aggregated data

    def aggregate(self, chunk: Chunk, labels: NDArray[Any], n_clusters: int) -> Float:
        """Return the columns of :class:`ClusterSums`."""
        sums = np.empty((n_clusters, self.n_attributes + 2))
        sums[:, :-2] = chunk.sums_by(labels, n_clusters, chunk.weight)
        sums[:, -2] = np.bincount(labels, weights=chunk.weight, minlength=n_clusters)
        sums[:, -1] = np.bincount(labels, weights=chunk.weight * chunk.y, minlength=n_clusters)
        return sums

    # 2. Initial clusters

    def start(self) -> Start:
        return self.settings.start_method(self)

    # 3. Aggregated problem

    def solve_aggregated(self, clusters: Clusters, incumbent: Incumbent | None, accuracy: Accuracy) -> Solution:
        small = self.aggregated(clusters.sums)
        n_rows = len(small.rows.weight)
        affordable = int(np.clip(SETTINGS.node_work / n_rows**2, *SETTINGS.node_range))
        nodes = self.settings.node_limit or affordable
        limits = SearchLimits(SETTINGS.closed_gap, nodes, accuracy.deadline, self.settings.watch)
        known = None if incumbent is None else small.coordinates(incumbent.point)
        if self.settings.solver == "miqp":
            found = miqp.search(small.rows, replace(limits, nodes=self.settings.node_limit or -1), known)
        else:
            found = branch_and_bound.search(small.rows, limits, known)
        point = small.point(found.v, found.b)
        if not self.settings.certify:
            return Solution(point, found.root_bound, verified=found.settled)
        nodes *= self._patience
        nodes = nodes if self.settings.node_limit else min(nodes, SearchLimits.nodes)
        limits = replace(limits, relative=accuracy.relative, nodes=nodes)
        lower_bound, to_split = self._three_states(clusters, small, incumbent, limits, point)
        return Solution(point, max(lower_bound, found.root_bound), verified=found.settled, to_split=to_split)

    def aggregated(self, sums: Float) -> Aggregated:
        """Return the aggregated problem; its labelled rows are the first."""
        settings, data = self.settings, ClusterSums.of(sums)
        weight, sign = data.weight, data.labels
        labelled = np.flatnonzero((sign != 0) & (weight > 0))
        unlabelled = np.flatnonzero((sign == 0) & (weight > 0))
        which = np.concatenate([labelled, unlabelled])
        means = data.means(which)
        intercept = None
        centred = which
        if settings.balance and len(unlabelled):
            # The mean score of the unlabelled entries is fixed; once they are centred, it is the intercept.
            centred = unlabelled
            intercept = float(data.signed.sum() / weight[labelled].sum())
        centre = data.attributes[centred].sum(axis=0) / weight[centred].sum()
        if settings.C_unlabeled == 0:
            unlabelled = unlabelled[:0]
            which, means = labelled, means[: len(labelled)]
        A = means - centre
        basis = None
        if A.shape[1] > A.shape[0]:
            basis, triangle = np.linalg.qr(A.T)
            A = np.ascontiguousarray(triangle.T)
        scale = np.concatenate([np.full(len(labelled), settings.C), np.full(len(unlabelled), settings.C_unlabeled)])
        rows = SemiSupervisedRows(A, scale * weight[which], sign[labelled], intercept)
        return Aggregated(rows, unlabelled, centre, basis)

    def balance_of_source(self) -> Balance | None:
        """Compute the balance constraint of all entries in one pass; return None without a balance."""
        if not self.settings.balance:
            return None
        free, known = total(self.run, lambda chunk: self.aggregate(chunk, (chunk.y != 0).astype(np.int32), 2))
        return Balance(free[:-2] / free[-2], float(known[-1] / known[-2])) if free[-2] > 0 else None

    # Checkpoints

    def state(self, point: Float | None) -> dict[str, NDArray[Any]]:
        return {**super().state(point), "patience": np.array([self._patience, self._n_clusters_halved])}

    def resume(self, arrays: Mapping[str, NDArray[Any]]) -> Any:
        self._patience, self._n_clusters_halved = saved_array(arrays, "patience", np.int64, 2).tolist()
        if self._patience < 1 or self._n_clusters_halved < 0:
            raise damaged("its search has a limit below 1")
        point = saved_array(arrays, "point", np.float64, self.n_attributes + 1) if "point" in arrays else None
        balance = self.balance_of_source()
        if (
            point is not None
            and balance is not None
            and not np.isclose(balance.mean @ point[:-1] + point[-1], balance.score)
        ):
            raise damaged("its point does not have the balance of the classes")
        return point

    # Three states

    def _three_states(
        self, clusters: Clusters, small: Aggregated, incumbent: Incumbent | None, limits: SearchLimits, point: Float
    ) -> tuple[float, Bisection | None]:
        """Return a bound on the original problem, and the clusters to halve to raise it (None if there are none)."""
        radii, furthest = self._extent(clusters)
        value = min(self._simple_value(small.rows), math.inf if incumbent is None else incumbent.objective)
        weight = small.rows.weight[len(small.rows.labels) :]
        radius = radii[small.unlabelled]
        largest = math.sqrt(2 * value)
        cut = Cut(radius * largest, weight * np.maximum(0.0, 1.0 - 2 * radius * largest))
        found = branch_and_bound.bound(small.rows, cut, value, limits)
        if found.spent and self.settings.node_limit is None:
            if limits.nodes == SearchLimits.nodes:
                return found.bound, None  # the longest search
            # The search, not the size of the clusters, limits the bound: search longer next time.
            self._patience *= SETTINGS.patience
            return found.bound, Bisection([point], 2)
        to_halve = radius > 0
        if found.bounding is not None:
            leaf = found.bounding
            undecided = (leaf.states == FREE) & (np.abs(leaf.scores) <= cut.width)
            to_blame = to_halve & ((leaf.states == CUT) | undecided)
            to_halve = to_blame if to_blame.any() else to_halve
        which = small.unlabelled[to_halve]
        # Copies of one row cannot be halved, although rounding of their mean gives them a radius.
        stuck = clusters.n_clusters == self._n_clusters_halved
        self._n_clusters_halved = clusters.n_clusters
        if len(which) == 0 or stuck:
            return found.bound, None
        means = ClusterSums.of(clusters.sums).means(which)
        return found.bound, Bisection([point], 2, which, means, furthest[which])

    def _simple_value(self, rows: SemiSupervisedRows) -> float:
        """Return the objective of the best hyperplane with w = 0, which does not depend on the clusters."""
        n = len(rows.labels)
        labelled, unlabelled = rows.weight[:n], rows.weight[n:].sum()
        options = [1.0, -1.0] if rows.intercept is None else [rows.intercept]
        return min(
            float(labelled @ np.maximum(0.0, 1.0 - rows.labels * b) + unlabelled * max(0.0, 1.0 - abs(b)))
            for b in options
        )

    def _extent(self, clusters: Clusters) -> tuple[Float, Float]:
        """Compute the radii of the unlabelled clusters, and the vectors to their furthest entries, in one pass."""
        data = ClusterSums.of(clusters.sums)
        means = data.attributes / np.where(data.weight > 0, data.weight, 1.0)[:, None]
        radius = np.zeros(clusters.n_clusters)
        furthest = np.zeros_like(means)

        def measure(chunk: Chunk, labels: NDArray[np.int32]) -> tuple[Int, Float, Float]:
            rows = np.flatnonzero((chunk.y == 0) & (chunk.weight > 0))
            away = chunk.dense_rows(rows) - means[labels[rows]]
            distance = np.sqrt(np.einsum("ij,ij->i", away, away))
            order = np.lexsort((-distance, labels[rows]))
            here, first = np.unique(labels[rows][order], return_index=True)
            best = order[first]
            return here.astype(np.int64), distance[best], away[best]

        def collect(value: tuple[Int, Float, Float]) -> None:
            here, distance, away = value
            further = distance > radius[here]
            radius[here[further]] = distance[further]
            furthest[here[further]] = away[further]

        clusters.map(measure, collect)
        size = np.abs(means).max(axis=1, initial=0.0)
        # Radii allow for rounding of the mean; duplicates of one row have radius 0.
        rounding = SETTINGS.mean_roundings * EPS * size * math.sqrt(means.shape[1])
        alone = clusters.counts == 1
        return np.where(alone | (radius <= rounding), 0.0, radius + rounding), furthest

    # 4. Optimality condition

    def split_trial(self, solution: Solution, incumbent: Incumbent | None, clusters: Clusters) -> Trial | None:
        return solution.to_split

    def one_region(self, solution: Solution, gap: float, tol: float) -> Status | None:
        """Report a local optimum, unless the bound proves a global one."""
        if gap <= tol:
            return Status.certified
        return Status.one_region if solution.verified and solution.to_split is None else None

    def scores(self, chunk: Chunk, point: Float) -> Float:
        """Return the scores of the entries of a chunk."""
        return (chunk @ point[:-1]) + point[-1]

    def loss_weights(self, chunk: Chunk) -> Float:
        """Return the factor on the loss of each entry."""
        return chunk.weight * np.where(chunk.y != 0, self.settings.C, self.settings.C_unlabeled)

    def evaluate(self, chunk: Chunk, trial: Trial) -> Evaluation:
        labelled = chunk.y != 0
        weight = self.loss_weights(chunk)
        objectives = np.empty(len(trial.points))
        regions = []
        for k, point in enumerate(trial.points):
            z = self.scores(chunk, point)
            slack = 1.0 - np.where(labelled, chunk.y * z, np.abs(z))
            objectives[k] = weight @ np.maximum(slack, 0.0)
            # Labelled entries lie inside or outside the margin, unlabelled ones also on either side of the hyperplane.
            region = (slack > 0).astype(np.int8) + 2 * (~labelled & (z > 0)).astype(np.int8)
            region[(weight == 0) | (labelled & (np.abs(slack) <= SETTINGS.on_margin * EPS))] = -1
            regions.append(region)
        if isinstance(trial, Bisection):
            regions.append(trial.halves(chunk))
        return Evaluation(objectives, np.stack(regions[: trial.n_split]))

    def distances(self, clusters: Clusters, point: Float) -> Float:
        data = ClusterSums.of(clusters.sums)
        z, labels = data.scores(point), data.labels
        beyond = np.abs(1.0 - np.where(labels != 0, labels * z, np.abs(z)))
        return np.where(labels != 0, beyond, np.minimum(beyond, np.abs(z)))

    def penalty(self, point: Float) -> float:
        return 0.5 * float(point[:-1] @ point[:-1])


def frame(clusters: Clusters, point: Float, iteration: int) -> Frame | None:
    """Return a frame of the clusters and the hyperplane, or None unless there are two features."""
    problem = clusters.problem
    assert isinstance(problem, SemiSupervised)
    if problem.n_attributes != 2:
        return None
    data = ClusterSums.of(clusters.sums)
    shown = np.flatnonzero(data.weight > 0)
    shown = shown[sample(clusters.counts[shown], problem.distances(clusters, point)[shown])]
    z, labels = data.scores(point), data.labels
    means = data.means(shown)
    slack = 1.0 - np.where(labels != 0, labels * z, np.abs(z))
    regions = (slack > 0) + 2 * ((labels == 0) & (z > 0))
    return Frame(
        iteration=iteration,
        n_clusters=clusters.n_clusters,
        x=means[:, 0],
        y=means[:, 1],
        sizes=clusters.counts[shown],
        regions=regions[shown].astype(np.int8),
        labels=labels[shown].astype(np.int8),
        line=np.array(point, dtype=np.float64),
        levels=np.array([-1.0, 1.0]),
    )
