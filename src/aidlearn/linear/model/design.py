"""The design of a linear model, with the formulas that turn entries into margins, rows and sums.

    minimise over (w, b)   1/2 w'Pw + q'(w, b) + l1 |w|_1 + constant + sum_i s_i loss(z_i),
                           z_i = e_i - sign_i (x_i'w + b)

over all points or those of a region. A design is small and is sent to where the rows are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.passes.moments import Moments
from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.sums import Sums
from aidlearn.linear.aggregated.hinge_rows import ranked
from aidlearn.linear.constraints import Coordinates, Region
from aidlearn.linear.model.losses import Loss
from aidlearn.linear.rows.columns import SparseLayout, canonical, sums_alone
from aidlearn.linear.rows.hybrid import Hybrid
from aidlearn.linear.rows.matrix import Dense, Matrix
from aidlearn.numerics import EPS, EXACT_FIT, NOISE, Float

SINGULAR = 8 * EPS
"""Eigenvalue of a matrix with unit diagonal, relative to the largest and per row, up to which it may be 0."""


@dataclass(frozen=True)
class Design:
    """The model that is fitted, with the moments of the columns that its formulas need.

    Points are slopes with the intercept last. With an intercept, starts work on centred columns, where slopes are the
    same and ``b' = b + centre'w``.
    """

    loss: Loss
    fit_intercept: bool
    ridge: Float | float
    """Diagonal of P on the slopes (1 for an SVM)."""
    l1: float
    """Weight of the l1 penalty on the slopes."""
    centre: Float
    """Means of the columns if there is an intercept, else 0; always 0 for sparse columns, which are not centred."""
    column_squares: Float
    """Weighted sum of squares of each variable's (centred) column."""
    constant: NDArray[np.bool_]
    """Mask of variables without information (constant columns next to an intercept), whose coefficients stay 0."""
    levels: Float
    """Values of constant columns if a constraint or the linear term involves the intercept; 0 for other variables.

    A free intercept makes constant columns redundant. An intercept with bounds or a linear cost does not: then a
    constant column can still shift all predictions, and it is not centred.
    """
    weight: float
    """Sum of the weights."""
    effective: float
    """Kish's effective number of entries."""
    raw_squares: Float
    """Weighted sum of squares of each column about zero."""
    typical_margin: float = 1.0
    """Typical size of a residual before any fit; 1 for classes, whose margins are of about that size."""
    offset: float = 0.0
    """Number subtracted from all targets, which the intercept restores."""
    layout: SparseLayout | None = None
    """Layout of single rows, with dense columns and sparse ones (None: all columns are dense)."""
    least_pivot: float = 0.0
    """Relative pivot of the columns, below which solving the aggregated problem raises ``NearlyCollinear``."""
    base: float = 0.0
    """Constant of the objective, which is a lower bound without proof if there is no linear term."""
    quadratic: Float | None = None
    """The matrix P on the slopes, if it is not diagonal."""
    linear: Float | None = None
    """The vector q on the slopes and the intercept."""
    weighted: bool = False
    """Whether ridge and l1 are proportional to the sum of the weights, so that they change with the weights."""
    region: Region | None = None
    """Region in which points must lie (None: everywhere)."""

    @classmethod
    def of(
        cls,
        loss: Loss,
        moments: Moments,
        *,
        fit_intercept: bool = True,
        ridge: Float | float = 0.0,
        l1: float = 0.0,
        offset: float = 0.0,
        base: float = 0.0,
        quadratic: Float | None = None,
        linear: Float | None = None,
        weighted: bool = False,
        region: Region | None = None,
    ) -> Design:
        """Return the design of a model for columns with the given moments."""
        centre = moments.mean if fit_intercept else np.zeros(len(moments.mean))
        squares = np.append(moments.squares, moments.weight) if fit_intercept else moments.raw_squares
        factor = moments.exclusive if region is None and linear is None else range(0)
        turned = quadratic is not None or (region is not None and len(region.f) > 0)
        # Other coordinates mix columns, so that sparse ones would fill up.
        layout = None if turned else SparseLayout.of(moments.density, fit_intercept)
        if layout is not None and layout.worth_eliminating(moments.n_entries, len(factor)):
            layout = SparseLayout.of(moments.density, fit_intercept, factor)
        if layout is not None and fit_intercept:
            centre = centre.copy()
            centre[layout.sparse] = 0.0
            squares[layout.sparse] = moments.raw_squares[layout.sparse]
        levels = np.zeros(len(squares))
        if fit_intercept and _told(linear, region, len(squares))[-1]:
            single = np.flatnonzero(squares[:-1] == 0)
            levels[single] = centre[single]
            centre, squares[single] = np.where(squares[:-1] > 0, centre, 0.0), moments.raw_squares[single]
        return cls(
            loss=loss,
            fit_intercept=fit_intercept,
            ridge=ridge,
            l1=l1,
            centre=centre,
            column_squares=squares,
            constant=squares == 0,
            levels=levels,
            weight=moments.weight,
            effective=moments.effective,
            raw_squares=moments.raw_squares,
            typical_margin=1.0 if loss.classifies else _mean_deviation(moments.targets),
            offset=offset,
            layout=layout,
            base=base,
            quadratic=quadratic,
            linear=linear,
            weighted=weighted,
            region=region,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the terms that depend on the point alone, which passes over rows do not need."""
        return {**self.__dict__, "quadratic": None, "_root": None, "linear": None, "region": None, "coordinates": None}

    @property
    def n_attributes(self) -> int:
        return len(self.centre)

    @property
    def n_variables(self) -> int:
        """Number of slopes, plus 1 for an intercept."""
        return self.n_attributes + self.fit_intercept

    @property
    def n_coupled(self) -> int:
        """Number of variables, without those of an eliminated factor."""
        eliminated = None if self.layout is None else self.layout.levels
        return self.n_variables - len(eliminated or ())

    @property
    def ridge_diagonal(self) -> Float:
        diagonal = np.zeros(self.n_variables)
        diagonal[: self.n_attributes] = self.ridge
        return diagonal

    @property
    def trivial_bound(self) -> float:
        """Lower bound that needs no proof."""
        return self.base if self.linear is None else -math.inf

    @cached_property
    def coordinates(self) -> Coordinates | None:
        """Coordinates of the aggregated problems (None: those of the points)."""
        if self.quadratic is None and (self.region is None or not len(self.region.f)):
            return None
        quadratic = np.zeros((self.n_variables, self.n_variables))
        self.add_quadratic(quadratic)
        units = 1 / np.sqrt(np.where(self.column_squares > 0, self.column_squares / self.weight, 1.0))
        return Coordinates.of(quadratic, self.linear, self.region, units, self.fit_intercept)

    def add_quadratic(self, matrix: Float, factor: float = 1.0) -> None:
        """Add ``factor * P`` to a matrix of all variables."""
        matrix[np.diag_indices_from(matrix)] += self.ridge_diagonal * factor
        if self.quadratic is not None:
            matrix[: self.n_attributes, : self.n_attributes] += self.quadratic * factor

    def penalty(self, point: Float) -> float:
        """Return the part of the objective that does not depend on the entries."""
        slopes = point[: self.n_attributes]
        penalty = float(0.5 * self.ridge * slopes @ slopes + self.l1 * np.abs(slopes).sum() + self.base)
        if self.quadratic is not None:
            penalty += 0.5 * self._curved(self.quadratic, slopes)
        return penalty if self.linear is None else penalty + float(self.linear @ point)

    def _curved(self, P: Float, slopes: Float) -> float:
        """Return ``w'Pw``, for a singular P as a sum of squares, which is never negative and omits rounding errors."""
        if self._root is None:
            return float(slopes @ P @ slopes)
        parts = self._root @ slopes
        parts[np.abs(parts) <= NOISE * len(slopes) * (np.abs(self._root) @ np.abs(slopes))] = 0.0
        return float(parts @ parts)

    @cached_property
    def _root(self) -> Float | None:
        """Root R with P = R'R, if P is singular up to rounding."""
        assert self.quadratic is not None
        size = np.sqrt(np.maximum(self.quadratic.diagonal(), 0.0))
        inverse = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
        values, vectors = np.linalg.eigh(self.quadratic * np.outer(inverse, inverse))
        known = values > SINGULAR * len(values) * values[-1]
        return None if known.all() else np.asarray(np.sqrt(values[known])[:, None] * vectors[:, known].T * size)

    def penalty_gradient(self, point: Float) -> Float:
        """Return the gradient of the quadratic and the linear term."""
        gradient = self.ridge_diagonal * point
        if self.quadratic is not None:
            gradient[: self.n_attributes] += self.quadratic @ point[: self.n_attributes]
        return gradient if self.linear is None else gradient + self.linear

    @cached_property
    def ignored(self) -> NDArray[np.bool_]:
        """Mask of variables without information that no constraint, linear term or off-diagonal of P involves."""
        told = _told(self.linear, self.region, self.n_variables)
        if self.quadratic is not None:
            told[: self.n_attributes] |= np.count_nonzero(self.quadratic, axis=0) > 1
        return self.constant & ~told

    def inside(self, point: Float) -> Float:
        """Return a point of the region close to the given one, which may be outside."""
        return point if self.region is None else self.region.inside(point)

    # Rows

    def margins(self, chunk: Chunk, point: Float) -> Float:
        """Return ``z = e - sign * (X w + b)`` for the entries of a chunk."""
        score = chunk @ point[: self.n_attributes]
        if self.fit_intercept:
            score += self.intercept(point)
        return self.loss.margins(chunk.y, score)

    def planes(self, *points: Float) -> Float:
        """Return hyperplanes as rows, with the intercept last (0 without one)."""
        planes = np.zeros((len(points), self.n_attributes + 1))
        for plane, point in zip(planes, points, strict=True):
            plane[: len(point)] = point
            if self.fit_intercept:
                plane[-1] = self.intercept(point)
        return planes

    def intercept(self, point: Float) -> float:
        """Return the intercept of a point as users will get it, rounded by adding the offset of the targets."""
        return float((point[-1] + self.offset) - self.offset)

    def losses(self, chunk: Chunk, z: Float) -> float:
        """Return the sum of the losses, plus its rounding error in float64 predictions that include the offset."""
        exact = float(chunk.weight @ self.loss.values(z))
        if not self.offset:
            return exact
        predicted = (chunk.y + self.offset) - ((chunk.y - z) + self.offset)
        return exact + abs(float(chunk.weight @ self.loss.values(predicted)) - exact)

    def objective_error(self, point: Float) -> float:
        """Return the rounding error of the objective, ``4 eps sum_i s_i (|x_i|'|w| + |b|) scale``.

        Its sums are bounded by ``(sum_i s_i |x_ij|)^2 <= sum_i s_i sum_i s_i x_ij^2``.
        """
        size = float(np.sqrt(self.weight * self.raw_squares) @ np.abs(point[: self.n_attributes]))
        if self.fit_intercept:
            size += self.weight * abs(point[-1] + self.offset)
        size = self.loss.scale * size + abs(self.base)
        return 4 * EPS * (size if self.linear is None else size + float(np.abs(self.linear) @ np.abs(point)))

    def rows(self, chunk: Chunk, select: NDArray[np.integer] | slice) -> Matrix:
        """Return the selected rows ``a_i = sign_i (x_i - centre, 1)``."""
        if self.layout is not None:
            everything = isinstance(select, slice) and select == slice(None)  # which scipy would copy
            return self._sparse_rows(chunk if everything else chunk.select(select), self.layout)
        return Dense(self.dense_rows(chunk, select))

    def dense_rows(self, chunk: Chunk, select: NDArray[np.integer] | slice) -> Float:
        """Return the selected rows as an array."""
        block = chunk.dense_rows(select)
        rows = np.empty((len(block), self.n_variables))
        np.subtract(block, self.centre, out=rows[:, : self.n_attributes])
        if self.fit_intercept:
            rows[:, -1] = 1.0
        sign, _ = self.loss.fold(chunk.y[select])
        if sign is not None:
            rows *= sign[:, None]
        rows[:, self.constant] = 0.0
        return rows

    def _sparse_rows(self, chunk: Chunk, layout: SparseLayout) -> Hybrid:
        from aidlearn.linear.rows.compiled import split_columns

        sign, _ = self.loss.fold(chunk.y)
        sign = np.ones(chunk.n_entries) if sign is None else sign
        position = layout.position(self.n_variables)
        dense, others = split_columns(canonical(chunk.X), sign, position, len(layout.dense), len(layout.sparse))
        slopes = layout.dense[: len(layout.dense) - self.fit_intercept]
        dense[:, : len(slopes)] -= np.outer(sign, self.centre[slopes])
        if self.fit_intercept:
            dense[:, -1] = sign
        dense[:, self.constant[layout.dense]] = 0.0
        return Hybrid.without_sums(dense, others, layout)

    def centred_forces(self, forces: Float) -> Float:
        """Return minus the gradient, ``sum_i slope_i a_i`` on centred rows, from ``sum_i slope_i sign_i (x_i, 1)``."""
        total = forces[: self.n_variables].copy()
        if self.fit_intercept:
            total[:-1] -= self.centre * forces[-1]
        total[self.constant] = 0.0
        return total

    def step(self, centred: Float) -> Float:
        """Convert a step in centred coordinates to a change of the point."""
        if not self.fit_intercept:
            return centred
        change = centred.copy()
        change[-1] -= self.centre @ centred[:-1]
        return change

    def may_be_exact(self, objective: float, target_size: float) -> bool:
        """Return whether an objective may be that of an exact fit up to rounding (``target_size`` is sum s_i |e_i|)."""
        return objective <= EXACT_FIT * target_size

    def objective_at(self, chunk: Chunk, point: Float, z: Float) -> float:
        """Return the chunk's part of the objective, in which margins below their own rounding error count as zero."""
        objective = self.losses(chunk, z)
        _, e = self.loss.fold(chunk.y)
        size = np.broadcast_to(np.abs(e), chunk.n_entries)
        if not self.may_be_exact(objective, float(chunk.weight @ size)):
            return objective
        # Rounding errors of the point affect every row: each coefficient is known to the rounding of a typical target,
        # and the squares of their errors add up.
        absolute = Chunk(0, chunk.n_entries, abs(chunk.X), chunk.y, chunk.weight)
        size = size + math.sqrt(self.n_variables) * size.mean() + absolute @ np.abs(point[: self.n_attributes])
        noise = NOISE * (size + (abs(point[-1]) + abs(self.offset) if self.fit_intercept else 0.0))
        return float(chunk.weight @ self.loss.values(np.where(np.abs(z) <= noise, 0.0, z)))

    # Sums of rows

    def aggregate(self, chunk: Chunk, labels: NDArray[np.integer], n_clusters: int) -> Float:
        """Return sums by cluster, in columns: sum of s_i a_i, sum of s_i e_i, sum of s_i."""
        sign, e = self.loss.fold(chunk.y)
        signed = chunk.weight if sign is None else chunk.weight * sign
        m = self.n_attributes
        sums = np.empty((n_clusters, self.n_variables + 2))
        sums[:, :m] = chunk.sums_by(labels, n_clusters, signed)
        if self.fit_intercept:
            sums[:, m] = np.bincount(labels, weights=signed, minlength=n_clusters)
        sums[:, -2] = np.bincount(labels, weights=chunk.weight * e, minlength=n_clusters)
        sums[:, -1] = np.bincount(labels, weights=chunk.weight, minlength=n_clusters)
        return sums

    def sums_alone(self, chunk: Chunk) -> Any:
        """Return the sums of entries that are clusters of their own, as a CSR matrix if rows are sparse."""
        n, m = chunk.n_entries, self.n_attributes
        sign, e = self.loss.fold(chunk.y)
        signed = chunk.weight if sign is None else chunk.weight * sign
        if self.layout is not None:
            return sums_alone(chunk.X, signed, np.broadcast_to(e, n), chunk.weight, self.fit_intercept)
        sums = np.empty((n, self.n_variables + 2))
        np.multiply(chunk.dense_rows(slice(None)), signed[:, None], out=sums[:, :m])
        if self.fit_intercept:
            sums[:, m] = signed
        np.multiply(chunk.weight, e, out=sums[:, -2])
        sums[:, -1] = chunk.weight
        return sums

    def mean_margins(self, sums: Sums, point: Float) -> Float:
        """Return the margins of cluster means (0 for clusters without weight)."""
        weight = sums.column(-1)
        return (sums.column(-2) - sums.times(point)) / np.where(weight > 0, weight, 1.0)


def _told(linear: Float | None, region: Region | None, n_variables: int) -> NDArray[np.bool_]:
    """Return a mask of the variables that a constraint or the linear term involves."""
    told = np.zeros(n_variables, dtype=bool) if linear is None else linear != 0
    return told if region is None else told | (abs(region.G).sum(axis=0) > 0) | region.E.any(axis=0)


def _mean_deviation(targets: Float) -> float:
    """Return the mean distance from the median; 1 if all targets are equal."""
    return float(np.abs(targets - ranked(targets, 0.5)).mean()) or 1.0
