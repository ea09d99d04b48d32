"""Many quantile regressions on the same few rows with different weights, solved by walks from vertex to vertex.

With a thousand rows, aggregation saves little and overhead dominates a fit. Here the rows are read once, compiled code
walks along edges to the optimum of each replicate, and its dual is certified like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from aidlearn.data.passes.run import Run
from aidlearn.data.rows.chunk import Chunk, join
from aidlearn.data.rows.threads import uninterrupted
from aidlearn.linear.aggregated.certificate import certify
from aidlearn.linear.aggregated.hinge_rows import EPS, Basis, HingeRows
from aidlearn.linear.model.design import Design
from aidlearn.linear.rows.matrix import Dense
from aidlearn.neighbours.batch import Solved
from aidlearn.numerics import Float


@dataclass(frozen=True)
class VertexSettings:
    """Settings of the walk from vertex to vertex."""

    most_cells: int = 60_000
    """Guess. Maximum cells of a problem solved by pivots, each of which reads all rows."""
    most_variables: int = 32
    """Guess. Maximum variables, because the number and cost of pivots grow with them."""
    pivots: tuple[int, int] = (50, 30)
    """Guess. Maximum pivots: a constant, plus a number per variable. Ties that need more are left to other solvers."""
    shaken: float = 1e-9
    """Guess. Distance by which tied margins are moved apart; duals stay feasible, and the gap is of this size."""
    proven: float = 1e-8
    """Guess. Largest gap of a vertex whose dual counts as correct."""
    independent: float = 1e-8
    """Guess. Smallest pivot, relative to the largest, of rows that count as independent."""


SETTINGS = VertexSettings()


def suits(run: Run, design: Design) -> bool:
    """Return whether the problem is small and a sum of tilted absolute values, without penalties or constraints."""
    return (
        run.n_entries * design.n_variables <= SETTINGS.most_cells
        and design.n_variables <= SETTINGS.most_variables
        and design.loss.kinks == (0.0,)
        and not design.loss.classifies
        and not np.any(design.ridge)
        and design.l1 == 0
        and design.region is None
        and design.linear is None
        and design.quadratic is None
        and not design.constant.any()
    )


@dataclass(frozen=True)
class Vertices:
    """Rows in coordinates around a solution, and an optimal vertex."""

    design: Design
    chunk: Chunk
    basis: Basis
    rows: HingeRows
    vertex: NDArray[np.int64]
    """Numbers of the rows on their kink."""
    apart: Float
    """Margins e at the origin, moved apart if a walk among ties failed to end."""

    @classmethod
    def of(cls, run: Run, design: Design, point: Float) -> Vertices | None:
        """Read the rows in one pass; return None if they do not determine all coefficients or no walk ends."""
        parts: list[Chunk] = []
        run.map(lambda chunk, state: (chunk.select(np.arange(chunk.n_entries)), None), collect=parts.append)
        chunk = join(parts)
        X = np.ascontiguousarray(chunk.X.toarray() if sparse.issparse(chunk.X) else chunk.X, dtype=np.float64)
        A = np.column_stack([X, np.ones(len(X))]) if design.fit_intercept else X
        tilt = np.full(len(X), design.loss.tilts[0])
        used = np.where(chunk.weight > 0, chunk.weight, chunk.weight[chunk.weight > 0].min())
        rows = HingeRows.of_array(A, np.asarray(chunk.y), design.loss.scale * used, tilt, np.zeros(A.shape[1]))
        basis = Basis.of(rows, point, design.fit_intercept)
        scaled = basis.apply(rows)
        assert isinstance(scaled.A, Dense)
        if not (basis.scale > 0).all():
            return None
        array = np.ascontiguousarray(scaled.A.array)
        scaled = replace(scaled, A=Dense(array))
        vertex = _independent(array, np.argsort(np.abs(scaled.e), kind="stable"))
        if vertex is None:
            return None
        for apart in (scaled.e, _shaken(scaled.e)):
            here = cls(design, chunk, basis, scaled, vertex, apart)
            found = here._walk(chunk.weight)
            if found is not None:
                return replace(here, vertex=found)
        return None

    def solve(self, weight: Float) -> Solved | None:
        """Return the optimum with other weights, or None if the walk does not reach it."""
        vertex = self._walk(weight)
        if vertex is None:
            return None if self.apart is not self.rows.e else replace(self, apart=_shaken(self.rows.e)).solve(weight)
        rows = self._weighing(weight)
        A = rows.A.rows(vertex)
        z = self.apart - rows.A @ linalg.solve(A, self.apart[vertex])
        w = linalg.solve(A, rows.e[vertex])
        lower, upper = rows.lower, rows.upper
        dual = np.where(z > 0, upper, lower)
        dual[vertex] = 0.0
        dual[vertex] = np.clip(linalg.solve(A.T, -(rows.A.T @ dual)), lower[vertex], upper[vertex])
        bound = certify(rows, dual, w).bound * self.basis.unit * self.basis.mass
        point = self.basis.to_point(w)
        chunk = replace(self.chunk, weight=weight)
        found = Solved(point, self.design.losses(chunk, self.design.margins(chunk, point)), bound)
        if found.gap > SETTINGS.proven and self.apart is self.rows.e:
            # Rows tied with those of the vertex may lie on either side; moving them apart fixes their sides.
            return replace(self, apart=_shaken(self.rows.e)).solve(weight)
        return found

    def _weighing(self, weight: Float) -> HingeRows:
        return replace(self.rows, weight=self.design.loss.scale * weight / self.basis.mass)

    def _walk(self, weight: Float) -> NDArray[np.int64] | None:
        """Walk from the stored vertex to the optimal one; return None if the walk does not end."""
        rows = self._weighing(weight)
        assert isinstance(rows.A, Dense)
        array, vertex, p = rows.A.array, self.vertex.copy(), len(self.vertex)
        inverse, most = np.ascontiguousarray(linalg.inv(array[vertex])), SETTINGS.pivots[0] + SETTINGS.pivots[1] * p
        rounding = 64 * EPS * float(rows.weight.sum()) / float(np.sqrt(len(rows.e)))
        w = inverse @ self.apart[vertex]
        with uninterrupted():
            from aidlearn.neighbours.compiled_replicates import descend
        ended = descend(array, self.apart, rows.lower, rows.upper, vertex, inverse, w, most, rounding)
        return vertex if ended else None


def _shaken(e: Float) -> Float:
    """Return the margins, moved apart by reproducible random amounts."""
    return np.asarray(e + SETTINGS.shaken * np.random.default_rng(0).uniform(-1, 1, len(e)))


def _independent(A: Float, order: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return linearly independent rows, one per column, from as early in the order as possible; None if too few."""
    p = A.shape[1]
    for count in (4 * p, 32 * p, len(order)):
        some = order[:count]
        R, pivots = linalg.qr(A[some].T, mode="r", pivoting=True)
        size = np.abs(np.diagonal(R))
        if len(size) == p and size[-1] > SETTINGS.independent * size[0]:
            return np.asarray(some[pivots[:p]], dtype=np.int64)
    return None
