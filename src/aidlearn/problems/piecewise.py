"""Linear models with piecewise-linear loss: LAD and quantile regression (paper, section 3.1), SVM (3.2).

    minimise over (w, b)   1/2 w'Pw + l1 |w|_1 + sum_i s_i loss(z_i),     z_i = e_i - sign_i (x_i'w + b)

The aggregated row of a cluster is the weighted sum of its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.moments import Moments
from aidlearn.data.source import Chunk, DataSource, Float, Int
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.picture import Frame, sample
from aidlearn.engine.problem import (
    Accuracy,
    Evaluation,
    Incumbent,
    Problem,
    Solution,
    Start,
    Trial,
)
from aidlearn.problems.losses import Loss
from aidlearn.solvers.rows import EPS, HingeRows

PURE = 1e-9
"""Rounding of sums within which a cluster counts as one of a single class."""

ON_KINK = 1e-7
"""Margins up to this count as on the kink in the three-way split."""

AggregatedSolver = Callable[[HingeRows, Float | None, bool, Accuracy], Solution]
StartMethod = Callable[["PiecewiseLinear"], Start]


@dataclass(frozen=True)
class Segment(Trial):
    """Points ``end + (1 - t)(origin - end)``: margins are affine, so all cost two products."""

    STEPS: ClassVar[tuple[float, ...]] = (1.0, 0.1, 0.5, 0.25, 0.03)

    origin: Float | None = None

    @classmethod
    def between(cls, origin: Float, end: Float) -> Segment:
        points = [origin + t * (end - origin) for t in cls.STEPS]
        points[0] = end
        return cls(points, n_split=2, origin=origin)


class PiecewiseLinear(Problem):
    """The four components for a linear model.

    Parameters
    ----------
    source : DataSource
    loss : Loss
    moments : Moments
        Of the source, from the validating pass.
    fit_intercept : bool
    ridge : float
        Diagonal of P on the slopes (1 for an SVM).
    l1 : float
        Weight of the l1 penalty on the slopes.
    solver : callable
        Solver of the aggregated problem.
    start_method : callable
        Draws the initial clusters.
    paper_split : bool
        Split at the aggregated solution only (the paper's rule). Otherwise also at a point close to the
        incumbent on the segment between the two, along which the objective is searched.
    three_way : bool
        Split below, on and above the kink (the paper's dual procedure for the SVM): then the dual of each entry
        is its share of the dual of its cluster, and satisfies the optimality conditions entry by entry.
    initial_rate : float, optional
        Number of initial clusters over the number of entries (r^0); the start's own rule by default.
    rng : numpy.random.Generator
    """

    trivial_bound = 0.0

    def __init__(
        self,
        source: DataSource,
        loss: Loss,
        moments: Moments,
        *,
        fit_intercept: bool = True,
        ridge: float = 0.0,
        l1: float = 0.0,
        solver: AggregatedSolver,
        start_method: StartMethod,
        paper_split: bool = False,
        three_way: bool = False,
        initial_rate: float | None = None,
        rng: np.random.Generator,
    ) -> None:
        self.source, self.loss, self.rng = source, loss, rng
        self.fit_intercept, self.ridge, self.l1 = fit_intercept, ridge, l1
        self.solver, self.start_method, self.paper_split = solver, start_method, paper_split
        self.initial_rate = initial_rate
        self.three_way = three_way
        self.n_regions = 3 if three_way else loss.n_regions
        self.weight, self.effective = moments.weight, moments.effective
        m = source.n_attributes
        # With an intercept, starts work on centred columns: slopes stay, b' = b + centre'w.
        self.centre = moments.mean if fit_intercept else np.zeros(m)
        self.column_squares = np.append(moments.squares, moments.weight) if fit_intercept else moments.raw_squares
        # Columns without information (constant ones, next to an intercept): their coefficients stay 0.
        self.constant = self.column_squares == 0

    def __getstate__(self) -> dict[str, Any]:
        """What a pass needs where the entries are: the formulas, neither the samples of a start nor a solver."""
        return {**self.__dict__, "solver": None, "start_method": None, "rng": None}

    @property
    def n_variables(self) -> int:
        """Slopes, and the intercept last."""
        return self.source.n_attributes + self.fit_intercept

    @property
    def ridge_diagonal(self) -> Float:
        diagonal = np.full(self.n_variables, float(self.ridge))
        diagonal[self.source.n_attributes :] = 0.0
        return diagonal

    # Margins: the one place that knows how an entry becomes a row.

    def margins(self, chunk: Chunk, point: Float) -> Float:
        """``z = e - sign * (X w + b)`` of the entries of a chunk."""
        score = chunk @ point[: self.source.n_attributes]
        if self.fit_intercept:
            score += point[-1]
        sign, e = self.loss.fold(chunk.y)
        if sign is not None:
            score *= sign
        return e - score

    def rows(self, chunk: Chunk, select: NDArray[Any] | slice) -> Float:
        """The selected rows ``a_i = sign_i (x_i - centre, 1)``."""
        block = chunk.dense_rows(select)
        rows = np.empty((len(block), self.n_variables))
        np.subtract(block, self.centre, out=rows[:, : self.source.n_attributes])
        if self.fit_intercept:
            rows[:, -1] = 1.0
        sign, _ = self.loss.fold(chunk.y[select])
        if sign is not None:
            rows *= sign[:, None]
        rows[:, self.constant] = 0.0
        return rows

    def forces(self, chunk: Chunk, slope: Float) -> Float:
        """``sum_i slope_i a_i`` on centred rows: minus the gradient of the loss for slopes ``s_i loss'(z_i)``."""
        sign, _ = self.loss.fold(chunk.y)
        signed = slope if sign is None else slope * sign
        total = chunk.transposed_times(signed)
        if self.fit_intercept:
            intercept = signed.sum()
            total = np.append(total - self.centre * intercept, intercept)
        total[self.constant] = 0.0
        return total

    def step(self, centred: Float) -> Float:
        """A change of the point from one in centred coordinates."""
        if not self.fit_intercept:
            return centred
        change = centred.copy()
        change[-1] -= self.centre @ centred[:-1]
        return change

    # 1. Aggregated data

    def aggregate(self, chunk: Chunk, labels: NDArray[Any], n_clusters: int) -> Float:
        """Columns: sum of s_i a_i, sum of s_i e_i, sum of s_i."""
        sign, e = self.loss.fold(chunk.y)
        signed = chunk.weight if sign is None else chunk.weight * sign
        m = self.source.n_attributes
        sums = np.empty((n_clusters, self.n_variables + 2))
        sums[:, :m] = chunk.sums_by(labels, n_clusters, signed)
        if self.fit_intercept:
            sums[:, m] = np.bincount(labels, weights=signed, minlength=n_clusters)
        sums[:, -2] = np.bincount(labels, weights=chunk.weight * e, minlength=n_clusters)
        sums[:, -1] = np.bincount(labels, weights=chunk.weight, minlength=n_clusters)
        return sums

    # 2. Initial clusters

    def start(self) -> Start:
        return self.start_method(self)

    # 3. Aggregated problem

    def solve_aggregated(self, clusters: Clusters, incumbent: Incumbent | None, accuracy: Accuracy) -> Solution:
        """The same model on the weighted means of the clusters."""
        point = None if incumbent is None else incumbent.point
        if self.paper_split:
            # Refined clusters never lower F; an accurate solver keeps that visible in the proven bounds.
            accuracy = replace(accuracy, relative=min(accuracy.relative, 1e-9))
        return self.solver(self.aggregated_rows(clusters.sums), point, self.fit_intercept, accuracy)

    def aggregated_rows(self, sums: Float) -> HingeRows:
        """Each cluster gives one row per kink; the l1 penalty adds one row per slope."""
        used = sums[:, -1] > 0
        weight = sums[used, -1]
        mean = sums[used, :-1] / weight[:, None]
        mean[:, :-1][:, self.constant] = 0.0
        blocks = [
            (mean[:, :-1], mean[:, -1] - kink, self.loss.scale * weight, np.full(len(weight), tilt))
            for kink, tilt in zip(self.loss.kinks, self.loss.tilts, strict=True)
        ]
        if self.l1 > 0:
            # l1 |w_j| = 2 l1 max(z / 2, -z / 2) at z = 0 - w_j
            m = self.source.n_attributes
            blocks.append((np.eye(m, self.n_variables), np.zeros(m), np.full(m, 2 * self.l1), np.full(m, 0.5)))
        if len(blocks) == 1:
            return HingeRows(*blocks[0], self.ridge_diagonal)
        A, e, s, c = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        return HingeRows(A, e, s, c, self.ridge_diagonal)

    # 4. Optimality condition

    def split_trial(self, solution: Solution, incumbent: Incumbent | None) -> Trial | None:
        if self.paper_split or incumbent is None or incumbent.point is solution.point:
            return None
        return Segment.between(incumbent.point, solution.point)

    def evaluate(self, chunk: Chunk, trial: Trial) -> Evaluation:
        end = self.margins(chunk, trial.points[0])
        if isinstance(trial, Segment) and trial.origin is not None:
            origin = self.margins(chunk, trial.origin)
            change = end - origin
            margins = [end] + [origin + t * change for t in Segment.STEPS[1:]]
        else:
            margins = [end]
        others = [float(chunk.weight @ self.loss.values(z)) for z in margins[1:]]
        objectives = np.array([self.objective_at(chunk, trial.points[0], end), *others])
        regions = np.stack([self._regions(chunk, z) for z in margins[: trial.n_split]])
        return Evaluation(objectives, regions)

    def objective_at(self, chunk: Chunk, point: Float, z: Float) -> float:
        """The chunk's part of the objective; margins below their own rounding error count as zero."""
        objective = float(chunk.weight @ self.loss.values(z))
        _, e = self.loss.fold(chunk.y)
        size = np.broadcast_to(np.abs(e), chunk.n_entries)
        if objective > 1e-10 * float(chunk.weight @ size):  # only an exact fit could tell the difference
            return objective
        # Those of the point are errors of every row: coefficients are known to the rounding of a typical target.
        absolute = Chunk(0, chunk.n_entries, abs(chunk.X), chunk.y, chunk.weight)
        size = size + size.mean() + absolute @ np.abs(point[: self.source.n_attributes])
        noise = 8 * EPS * (size + (abs(point[-1]) if self.fit_intercept else 0.0))
        return float(chunk.weight @ self.loss.values(np.where(np.abs(z) <= noise, 0.0, z)))

    def region_of(self, z: Float) -> NDArray[np.int8]:
        """The region of each margin."""
        if self.three_way:
            return (z >= -ON_KINK).astype(np.int8) + (z > ON_KINK)
        return self.loss.regions(z)

    def _regions(self, chunk: Chunk, z: Float) -> NDArray[np.int8]:
        """The same, with -1 where an entry fits every region: on a kink, or with weight 0."""
        regions = self.region_of(z)
        _, e = self.loss.fold(chunk.y)
        fits_all = chunk.weight == 0
        if not self.three_way:
            fits_all |= self.loss.distance(z) <= 8 * EPS * np.abs(e)
        if fits_all.any():
            regions[fits_all] = -1
        return regions

    def entry_duals(self, clusters: Clusters, dual: Float) -> tuple[Int, Float]:
        """Entries with a dual that is not zero, and the duals times their signs.

        ``alpha_i = alpha_k s_i / s_k`` for i in cluster k is feasible for the original problem and has the value
        of the aggregated dual, because the entries of a cluster enter both only through their weighted sum.
        """
        weight = clusters.sums[:, -1]
        used = weight > 0
        share = np.zeros(clusters.n_clusters)
        n_kinks = len(self.loss.kinks)
        total = dual[: n_kinks * used.sum()].reshape(n_kinks, -1).sum(axis=0)
        share[used] = total / weight[used]
        entries: list[Int] = []
        duals: list[Float] = []

        def spread(chunk: Chunk, labels: NDArray[np.int32]) -> tuple[Int, Float]:
            alpha = chunk.weight * share[labels]
            rows = np.flatnonzero(alpha > 0)
            sign, _ = self.loss.fold(chunk.y)
            return rows + chunk.start, alpha[rows] if sign is None else alpha[rows] * sign[rows]

        def collect(value: tuple[Int, Float]) -> None:
            entries.append(value[0])
            duals.append(value[1])

        clusters.map(spread, collect)
        return np.concatenate(entries), np.concatenate(duals)

    # For plots

    def mean_margins(self, sums: Float, point: Float) -> Float:
        """Margins of the means of clusters (0 for those without weight)."""
        weight = sums[:, -1]
        return (sums[:, -2] - sums[:, :-2] @ point) / np.where(weight > 0, weight, 1.0)

    def distances(self, clusters: Clusters, point: Float) -> Float:
        return self.loss.distance(self.mean_margins(clusters.sums, point))

    def frame(self, clusters: Clusters, point: Float, iteration: int) -> Frame | None:
        """Two features and a hyperplane; of a regression feature and target, or fitted value and target of two."""
        m = self.source.n_attributes
        if m > 2 or (self.loss.classifies and (m == 1 or not self.fit_intercept)):
            return None
        sums, weight = clusters.sums, clusters.sums[:, -1]
        shown = np.flatnonzero(weight > 0)
        labels = np.zeros(len(sums))
        if self.loss.classifies:
            # Rows are signed, so the intercept's column is the sum of the signs: clusters of one class only.
            labels = sums[:, m] / np.where(weight > 0, weight, 1.0)
            shown = shown[np.abs(np.abs(labels[shown]) - 1) < PURE]
            labels = np.sign(labels)
        distances = self.distances(clusters, point)
        shown = shown[sample(clusters.counts[shown], distances[shown])]
        means = sums[shown, :-1] / weight[shown, None]
        intercept = float(point[m]) if self.fit_intercept else 0.0
        if self.loss.classifies:
            across, up = (means[:, :2] * labels[shown, None]).T
            line, levels = [point[0], point[1], intercept], [-1.0, 1.0]
        else:
            fitted = means[:, :-1] @ point
            across, up = (means[:, 0] if m == 1 else fitted), means[:, -1]
            line = [point[0], -1.0, intercept] if m == 1 else [1.0, -1.0, 0.0]
            levels = [-kink for kink in self.loss.kinks if kink]
        regions = self.region_of(self.mean_margins(sums[shown], point)).astype(np.int8)
        return Frame(
            iteration,
            clusters.n_clusters,
            np.array(across),
            np.array(up),
            clusters.counts[shown],
            regions,
            labels[shown].astype(np.int8),
            np.array(line, dtype=np.float64),
            np.array(levels, dtype=np.float64),
        )

    def penalty(self, point: Float) -> float:
        slopes = point[: self.source.n_attributes]
        return float(0.5 * self.ridge * slopes @ slopes + self.l1 * np.abs(slopes).sum())
