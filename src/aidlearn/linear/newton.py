"""A sharp start: Newton steps on the smoothed loss, on growing samples first and then on all entries.

Every width and distance is measured in units of leverage, ``s_i = |a_i|`` in the norm of the inverse Gram
matrix, which makes the start invariant to linear changes of the columns and lets rare columns move.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from aidlearn.data.chunk import Chunk, Float, join
from aidlearn.data.run import Run
from aidlearn.engine.problem import Accuracy
from aidlearn.engine.sums import Sums
from aidlearn.linear import plain
from aidlearn.linear.design import Design
from aidlearn.linear.frame import step_within
from aidlearn.linear.gram import block_rows, in_runs
from aidlearn.linear.hybrid import joined
from aidlearn.linear.matrix import Matrix
from aidlearn.linear.passes import LocalSums
from aidlearn.linear.solvers import solve_aggregated, solve_by_interior_point

SKETCH_COLUMNS = 8
HEAVY = 0.02
"""Leverage from which a row always counts, whatever the sample: at most 50 rows per variable have it."""
MOST_HELD = 1 << 20
"""Numbers of rows that are held (8 MB) before they are summed into a Gram matrix."""
LOOKED_AT = 4000
"""Rows that show whether leverages differ."""
SMALLEST = 1e-12
"""Squared leverage over the sum of weights that every row has at least."""
TRUST = 4.0
"""Longest step in smoothing widths."""
NO_COLUMNS = np.empty(0, dtype=np.intp)


@dataclass(frozen=True)
class Metric:
    """Gram matrix of the (centred) rows, and from it the leverage of each row.

    Leverages come from a Gaussian sketch: ``|a_i|_{G^-1} ~ |a_i' R^-1 g| / sqrt(k)``.
    """

    gram: Float
    size: Float
    factor: Float
    sketch: Float
    constant: float | None = None
    """The leverage of every row, where rows hardly differ in it."""
    n_jobs: int = 1
    """Threads for matrices of this size."""

    def __getstate__(self) -> dict[str, Any]:
        """What a pass needs where the entries are: leverages come from the sketch alone."""
        return {**self.__dict__, "gram": None, "factor": None}

    @classmethod
    def of(cls, design: Design, gram: Float, n_jobs: int = 1) -> Metric:
        diagonal = np.diag_indices_from(gram)
        # A ridge holds a coefficient as rows would: 0.3 scale per row and typical margin is about the loss's curvature.
        design.add_quadratic(gram, design.typical_margin / (0.3 * design.loss.scale))
        gram[diagonal] = np.maximum(gram[diagonal], 1e-12 * design.column_squares)
        gram[design.constant, design.constant] = 1.0
        size = np.sqrt(gram[diagonal])
        scaled = gram / np.outer(size, size)
        factor = _regularised_cholesky(scaled)
        normal = np.random.default_rng(0).standard_normal((len(gram), SKETCH_COLUMNS))
        half = linalg.solve_triangular(factor, normal, check_finite=False)
        half[design.constant] = 0.0
        return cls(gram, size, factor, half / (size[:, None] * math.sqrt(SKETCH_COLUMNS)), n_jobs=n_jobs)

    def solve(self, right: Float) -> Float:
        """``G^-1 right``."""
        return np.asarray(linalg.cho_solve((self.factor, False), right / self.size) / self.size)

    def settled(self, design: Design, sample: Chunk) -> Metric:
        """This metric with one leverage for all rows, if a sample shows that they hardly differ."""
        some = sample.select(slice(None, None, max(1, sample.n_entries // LOOKED_AT)))
        leverage = np.asarray(self.leverage(design, some))
        middle = float(np.median(leverage))
        # A sketch of k columns scatters by 1/sqrt(2k) even where the leverages are equal.
        alike = np.quantile(leverage, [0.001, 0.999]) / middle
        if alike[0] < 0.25 or alike[1] > 2.5:
            return self
        return replace(self, constant=middle)

    def leverage(self, design: Design, chunk: Chunk, compiled: bool = False) -> Any:
        """Leverages of the rows of a chunk, or the one number that is that of all."""
        if self.constant is not None:
            return self.constant
        m = design.n_attributes
        offset = -design.centre @ self.sketch[:m]
        offset = offset + self.sketch[m] if design.fit_intercept else offset
        # A row of zeros moves with no coefficient; a tiny leverage keeps distances finite.
        least = SMALLEST / design.weight
        if compiled:
            from aidlearn.data.compiled import leverages

            return leverages(chunk.X, chunk.weight, np.column_stack([self.sketch[:m].T, offset]), least)
        projected = np.asarray(chunk.X @ self.sketch[:m]) + offset
        square = np.einsum("ij,ij->i", projected, projected, dtype=np.float64)
        # As if the row itself were part of the Gram matrix: no leverage exceeds 1 (for weight 1).
        square /= 1 + chunk.weight * square
        return np.sqrt(np.maximum(square, least))

    def length(self, step: Float) -> float:
        """Typical ``|a_i'd| / s_i`` of a step in centred coordinates."""
        with np.errstate(over="ignore", invalid="ignore"):  # a step from a Hessian of no rows may be of any size
            square = float(step @ self.gram @ step)
        return math.sqrt(max(square, 0.0) / len(step)) if math.isfinite(square) else math.inf


def _regularised_cholesky(scaled: Float) -> Float:
    """Upper Cholesky factor of a matrix with unit diagonal, with the smallest ridge with which it exists."""
    diagonal = np.diag_indices_from(scaled)
    for ridge in (1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4):
        scaled[diagonal] = 1 + ridge
        try:
            return np.asarray(linalg.cholesky(scaled, check_finite=False))
        except linalg.LinAlgError:
            continue
    return np.eye(len(scaled))


@dataclass
class GramSum:
    """The Gram matrix of rows that come in parts, of which few are held at a time."""

    held: list[Matrix] = field(default_factory=list)
    summed: Float | None = None
    _n_held: int = 0

    def add(self, parts: Sequence[Matrix], n_jobs: int = 1) -> None:
        """Add rows; which of them are summed together follows from their order alone, and so do the bits."""
        self.held += parts
        self._n_held += sum(rows.stored for rows in parts)
        # Blocks of a dense Gram matrix have 2 p rows: enough of them for all threads.
        if self._n_held > max([MOST_HELD, *(16 * rows.n_dense**2 for rows in parts)]):
            self._sum(n_jobs)

    def whole(self, n_jobs: int = 1) -> Float:
        """The matrix of all rows, once they are there."""
        if self.held:
            self._sum(n_jobs)
        assert self.summed is not None
        return self.summed

    def _sum(self, n_jobs: int) -> None:
        gram = joined(self.held).gram(n_jobs=n_jobs)
        if self.summed is None:
            self.summed = gram
        else:
            self.summed += gram
        self.held, self._n_held = [], 0


@dataclass(frozen=True)
class NormalEquations:
    """Gram matrix of the (centred) rows and their product with the target."""

    gram: Float
    right: Float

    @classmethod
    def of(cls, design: Design, chunk: Chunk, n_jobs: int = 1) -> NormalEquations:
        if design.layout is not None:
            rows = design.rows(chunk, slice(None))
            right = rows.T @ (chunk.weight * chunk.y)
            return cls(rows.gram(chunk.weight, n_jobs), right)
        n, p = chunk.n_entries, design.n_variables
        size, root = block_rows(n, p), np.sqrt(chunk.weight)

        def part(first: int, total: Float | None) -> Float:
            # With the target as one more column: its products with the others come along.
            here = slice(first, first + size)
            rows = np.column_stack([design.dense_rows(chunk, here), chunk.y[here]])
            rows *= root[here, None]
            gram = rows.T @ rows
            return gram if total is None else np.add(total, gram, out=total)

        total = in_runs(part, range(0, n, size), n_jobs)
        return cls(total[:p, :p].copy(), total[:p, p].copy())

    @classmethod
    def of_all(
        cls, design: Design, run: Run, columns: NDArray[np.intp] = NO_COLUMNS, heavy: list[Chunk] | None = None
    ) -> NormalEquations:
        """By one pass over all rows; those that carry one of some columns by themselves are put into ``heavy``."""
        found: list[Chunk] = [] if heavy is None else heavy
        p = design.n_variables
        right = np.zeros(p)
        if design.layout is not None:
            # A matrix for every chunk would take more than its rows.
            total = GramSum()

            def rows_of(chunk: Chunk, state: Any) -> tuple[tuple[Matrix, Float, Chunk], None]:
                rows = design.rows(chunk, slice(None)).scaled_rows(np.sqrt(chunk.weight))
                return (rows, rows.T @ (np.sqrt(chunk.weight) * chunk.y), _carrying(design, chunk, columns)), None

            def take(value: tuple[Matrix, Float, Chunk]) -> None:
                total.add([value[0]], run.n_jobs)
                right[:] += value[1]
                found.append(value[2])

            run.map(rows_of, collect=take)
            return cls(total.whole(run.n_jobs), right)
        gram = np.zeros((p, p))

        def measure(chunk: Chunk, state: Any) -> tuple[tuple[NormalEquations, Chunk], None]:
            return (cls.of(design, chunk), _carrying(design, chunk, columns)), None

        def collect(value: tuple[NormalEquations, Chunk]) -> None:
            gram[:] += value[0].gram
            right[:] += value[0].right
            found.append(value[1])

        run.map(measure, collect=collect)
        return cls(gram, right)

    def unlike(self, design: Design) -> NDArray[np.intp]:
        """The columns of a sample that have not about the norm they have on all entries.

        Rare dummies and heavy tails are what a sample gets wrong.
        """
        ratio = np.diag(self.gram) / np.where(design.constant, 1.0, design.column_squares)
        return np.flatnonzero(~((ratio > 0.6) & (ratio < 1.7)) & ~design.constant)

    def shows_all_columns(self, design: Design) -> bool:
        """Whether a sample has all columns about as all entries have them."""
        return len(self.unlike(design)) == 0


def carried_columns(design: Design, sample: Chunk, unlike: NDArray[np.intp]) -> NDArray[np.intp]:
    """Columns of which single rows may be a good part: those that a sample gets wrong, and those where it has one."""
    m = design.n_attributes
    if sparse.issparse(sample.X):
        largest = np.abs(sample.X).max(axis=0).toarray().ravel() ** 2
    else:
        low, high = sample.X.min(axis=0) - design.centre, sample.X.max(axis=0) - design.centre
        largest = np.maximum(np.square(low, dtype=np.float64), np.square(high, dtype=np.float64))
    carried = (largest > HEAVY * design.column_squares[:m]) & ~design.constant[:m]
    carried[unlike[unlike < m]] = True
    return np.flatnonzero(carried)


def _carrying(design: Design, chunk: Chunk, columns: NDArray[np.intp]) -> Chunk:
    """The rows of a chunk that are a good part of one of some columns."""
    if len(columns) == 0:
        return chunk.select(slice(0))
    limits = np.full(design.n_attributes, np.inf)
    limits[columns] = HEAVY * design.column_squares[columns]
    if sparse.issparse(chunk.X):
        X = chunk.X.tocsr()
        of_cell = np.repeat(chunk.weight, np.diff(X.indptr)) if (chunk.weight != 1).any() else 1.0
        cells = np.flatnonzero(of_cell * np.square(X.data, dtype=np.float64) > limits[X.indices])
        rows = np.unique(np.searchsorted(X.indptr, cells, side="right") - 1)
    else:
        squares = np.square(chunk.X[:, columns] - design.centre[columns], dtype=np.float64)
        rows = np.flatnonzero((chunk.weight[:, None] * squares > limits[columns]).any(axis=1))
    return chunk.select(rows)


@dataclass
class Model:
    """Sums over rows: true objective, minus gradient, and the rows that make up the Hessian."""

    objective: float
    forces: Float
    near_rows: list[Matrix]
    """``sqrt(curvature_i) a_i`` of the rows near a kink: the Hessian is their Gram matrix."""
    curvature: float
    _gram: GramSum = field(default_factory=GramSum)

    def add(self, other: Model, n_jobs: int = 1) -> None:
        """Add the model of the next chunk."""
        self.objective += other.objective
        self.forces = self.forces + other.forces
        self.curvature += other.curvature
        self._gram.add(other.near_rows, n_jobs)

    def hessian(self, n_jobs: int = 1) -> Float:
        """Gram matrix of the near rows, once all of them are there."""
        self._gram.add(self.near_rows, n_jobs)
        self.near_rows = []
        return self._gram.whole(n_jobs)


def local_model(design: Design, chunk: Chunk, sums: LocalSums, leverage: Any, thin: int, passes: Any = plain) -> Model:
    """The model of one chunk; the Hessian uses every ``thin``-th row near a kink."""
    near, curvature = sums.near, sums.curvature
    if thin > 1 and len(near):
        kept, factor = _thinned(leverage if np.ndim(leverage) == 0 else leverage[near], chunk.weight[near], thin)
        near, curvature = near[kept], curvature[kept] * factor
        if len(near):
            curvature *= sums.total_curvature / curvature.sum()
    rows = passes.scaled_rows(design, chunk, near, np.sqrt(curvature))
    return Model(sums.objective, design.centred_forces(sums.forces), [rows], sums.total_curvature)


def _thinned(leverage: Any, weight: Float, thin: int) -> tuple[NDArray[np.intp], Any]:
    """About one of ``thin`` rows, and what each stands for.

    Rows are taken as often as they matter, half by their number and half by the square of their leverage: a level of a
    hundred rows keeps its part of the matrix where every tenth row would leave it three or thirty.
    """
    if np.ndim(leverage) == 0:
        return np.arange(0, len(weight), thin), 1.0
    share = weight * np.asarray(leverage, dtype=np.float64) ** 2
    rate = np.minimum(1.0, (0.5 + 0.5 * share / share.mean()) / thin)
    # Wherever the sum of the rates passes half a number.
    passed = np.floor(np.cumsum(rate) + 0.5)
    kept = np.flatnonzero(np.diff(passed, prepend=0.0) > 0)
    return kept, 1.0 / rate[kept]


@dataclass
class Damping:
    """Levenberg term relative to the columns' norms on all entries."""

    size: float = 1e-2
    least: float = 1e-6

    def more(self) -> None:
        """After a step that was too long."""
        self.size *= 10

    def less(self) -> None:
        """After a good one."""
        self.size = max(self.least, self.size / 10)

    @property
    def negligible(self) -> bool:
        """Whether a short step means a close optimum rather than a damped step."""
        return self.size <= 1e-2


def newton_step(
    design: Design,
    point: Float,
    model: Model,
    kappa: float,
    damping: Damping,
    metric: Metric,
) -> Float:
    """Solve ``(H + damping) d = -gradient`` for the smoothed objective, in centred coordinates."""
    hessian = model.hessian(metric.n_jobs).copy()
    gradient = _centred_gradient(design, point) - model.forces
    # The Gram matrix has every column, also those without a row near a kink.
    # As if at least a few rows in ten thousand were near a kink, at the typical leverage sqrt(p / n).
    typical = kappa * math.sqrt(len(point) / design.weight)
    curvature = max(model.curvature, 1e-4 * design.loss.scale * design.weight / typical)
    hessian += (damping.size * curvature / design.weight) * metric.gram
    diagonal = np.diag_indices_from(hessian)
    design.add_quadratic(hessian)
    if design.l1 > 0:
        m = design.n_attributes
        # Width of the rounded |w_j|: what a kink of unit leverage would have in that coordinate.
        width = kappa / np.sqrt(np.maximum(design.column_squares[:m], 1e-300))
        gradient[:m] += design.l1 * np.clip(point[:m] / width, -1, 1)
        hessian[np.arange(m), np.arange(m)] += design.l1 * (np.abs(point[:m]) < width) / width
    if design.region is not None:
        return step_within(design, design.region, hessian, gradient, point)
    size = np.sqrt(np.maximum(hessian[diagonal], 1e-300))
    scaled = hessian / np.outer(size, size)
    factor = _regularised_cholesky(scaled)
    return np.asarray(-linalg.cho_solve((factor, False), gradient / size, check_finite=False) / size)


def _centred_gradient(design: Design, point: Float) -> Float:
    """That of the quadratic and the linear term in centred coordinates, where a slope moves the intercept along."""
    gradient = design.penalty_gradient(point)
    if design.fit_intercept and design.linear is not None:
        gradient[:-1] -= design.centre * design.linear[-1]
    return gradient


def bounded_step(
    design: Design,
    point: Float,
    model: Model,
    kappa: float,
    damping: Damping,
    metric: Metric,
) -> tuple[Float, float]:
    """A Newton step and its length, damped until it stays where the smoothed model says something."""
    while True:
        step = newton_step(design, point, model, kappa, damping, metric)
        length = metric.length(step)
        if length <= TRUST * kappa or damping.size >= 1e6:
            return step, length
        damping.more()


def thinning(n_near: float, p: int, enough: float = 0.0) -> int:
    """Every how many-th near row is enough for a Hessian within some ten percent (and at least ``enough`` rows)."""
    return max(1, int(n_near / max(40 * p, 5000, enough)))


def quantile_width(design: Design, z: Float, leverage: Float, fraction: float) -> float:
    """Width (in leverages) within which a given fraction of the rows lies next to a kink."""
    nearness = design.loss.distance(z) / leverage
    rank = min(len(z) - 1, max(0, math.ceil(fraction * len(z)) - 1))
    # Rows tied on a kink would make the width zero; no smoothing is not a smoothing.
    return max(float(np.partition(nearness, rank)[rank]), 1e-6 * float(nearness.mean()), 1e-150)


def uncertain_fraction(design: Design, z: Float, ratio: float) -> float:
    """Fraction of rows whose side is in doubt at a point with an error of ``sqrt(ratio)`` (ratio = p / rows).

    A proportion s of rows on the smaller side of the kinks is known to ``sqrt(s (1 - s) ratio)``; at an
    extreme quantile, or for a rare class, far fewer rows are in doubt than at the median.
    """
    above = float(np.mean(z > design.loss.kinks[-1]))
    below = float(np.mean(z <= design.loss.kinks[0]))
    small = max(min(above, below), 1 / (1 + len(z)))
    return min(small, 2 * math.sqrt(small * (1 - small) * ratio))


def at_quantile(design: Design, sample: Chunk, point: Float) -> Float:
    """The same slopes with the intercept at the wanted quantile of the sample's residuals."""
    if not design.fit_intercept or len(design.loss.kinks) != 1:
        return point
    shifted = point.copy()
    residual = design.margins(sample, point)
    # Where the derivative by the intercept, q_b - sum_i s_i slope(z_i), is 0.
    above = design.loss.tilts[0]
    if design.linear is not None:
        above += float(design.linear[-1]) / (design.loss.scale * design.weight)
    shifted[-1] += float(np.quantile(residual, min(max(1 - above, 0.0), 1.0)))
    return shifted


def balanced_sample(design: Design, sample: Chunk, size: int) -> Chunk:
    """Rows of a sample with the classes as equal in number as possible, weighted to stand for all of it."""
    sign, _ = design.loss.fold(sample.y)
    assert sign is not None
    classes = [np.flatnonzero(sign > 0), np.flatnonzero(sign < 0)]
    rare = min(len(rows) for rows in classes)
    parts = []
    for rows in classes:
        wanted = max(size // 2, size - rare) if len(rows) > rare else size // 2
        if len(rows) == 0:
            continue
        chosen = sample.select(rows[:: max(1, len(rows) // max(wanted, 1))])
        total = float(sample.weight[rows].sum())
        if chosen.weight.sum() > 0:
            parts.append(chosen.weighing(total))
    return join(parts)


def solved_point(design: Design, sample: Chunk, deadline: float = math.inf, n_jobs: int = 1) -> Float:
    """The model fitted to a sample by the aggregated solver, as far as it comes in time."""
    sums = Sums.of(np.zeros((0, design.n_variables + 2)), [design.sums_alone(sample)])
    found = solve_aggregated(design, sums, None, Accuracy(1e-3, deadline), solve_by_interior_point, n_jobs)
    return np.asarray(found.point)
