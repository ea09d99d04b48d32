"""Fits of fewer rows than columns in the space that the rows span.

Margins see slopes only through products with the rows. If a ridge treats all columns alike, the optimum lies in the
span of the rows; without a ridge, one of the optima does. With Q an orthonormal basis of that span and D the units of
the columns, the slopes are ``w = D Q u``, and u is fitted to the rows ``Q' D x``, which are as short as there are rows.
The ridge is the same, and the cost grows as ``n^2 m`` instead of ``m^3``.

A linear term and the rows of constraints become part of the span. What ties single coefficients does not: an l1
penalty, bounds, a matrix P, or ridges that differ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg, sparse

from aidlearn.data.passes.mixing import EXTENDED
from aidlearn.data.passes.moments import inspect
from aidlearn.data.passes.run import Systematic
from aidlearn.data.rows.arrays import ArraySource
from aidlearn.engine.problem import NEGLIGIBLE
from aidlearn.engine.result import Status
from aidlearn.estimators.fitting import Fitted
from aidlearn.estimators.linear.coordinates import Extended, MeasuredRows, Terms, as_reported, with_objective
from aidlearn.linear.constraints import Region
from aidlearn.linear.hurried import evaluated
from aidlearn.linear.model.design import Design
from aidlearn.numerics import EPS, Float

MANY_COLUMNS = 100
"""Fits of fewer columns take a few hundredths of a second in either space."""


def spans_less(rows: MeasuredRows, terms: Terms, design: Design) -> bool:
    """Return whether the rows span fewer dimensions than there are columns, and a fit may stay in their span."""
    run, region, m = rows.run, rows.region, rows.run.n_attributes
    if design.n_coupled <= max(run.n_entries, MANY_COLUMNS):
        return False
    if terms.l1 > 0 or terms.quadratic is not None or isinstance(terms.ridge, np.ndarray):
        return False
    if region is not None and np.isfinite([region.lower[:m], region.upper[:m]]).any():
        return False
    in_memory = isinstance(run.source, ArraySource) and not run.source.is_sparse
    return in_memory or run.n_entries * m <= run.budget.sample


@dataclass(frozen=True)
class Span:
    """An orthonormal basis of the span of given rows, as Householder reflections and a rotation."""

    reflections: Float
    scales: Float
    rotation: Float
    """The matrix that picks independent directions among those of the reflections."""

    @classmethod
    def of(cls, rows: Float) -> tuple[Span, Float]:
        """Return the span of rows, which are overwritten, and the rows in its coordinates."""
        (raw, scales), triangle = linalg.qr(rows.T, mode="raw", overwrite_a=True, check_finite=False)
        k = len(scales)
        triangle = np.asarray(triangle[:k])
        noise = max(rows.shape) * EPS * np.linalg.norm(triangle, axis=0)  # of each row's own size
        triangle[np.abs(triangle) <= noise] = 0.0
        rotation, used = np.eye(k), np.asarray(triangle.any(axis=1))
        if (triangle.diagonal()[used[: triangle.shape[1]]] == 0).any():  # another basis has fewer directions
            rotation, pivoted, order = linalg.qr(triangle, mode="economic", pivoting=True, check_finite=False)
            pivoted[np.abs(pivoted) <= noise[order]] = 0.0
            triangle[:, order] = pivoted
            used = np.asarray(triangle.any(axis=1))
        used[:1] = True  # equal rows span nothing, but a fit has a column
        return cls(raw[:, :k], scales, rotation[:, used]), np.ascontiguousarray(triangle[used].T)

    def expand(self, coordinates: Float) -> Float:
        """Return the vector that has these coordinates."""
        padded = np.zeros((len(self.reflections), 1), order="F")
        padded[: len(self.rotation), 0] = self.rotation @ coordinates
        return self._reflected(padded, "N")

    def coordinates(self, vector: Float) -> Float:
        """Return the coordinates of the projection of a vector."""
        return np.asarray(self.rotation.T @ self._reflected(vector[:, None], "T")[: len(self.rotation)])

    def _reflected(self, column: Float, trans: str) -> Float:
        found, *_ = linalg.lapack.dormqr("L", trans, self.reflections, self.scales, column, max(1, len(self.scales)))
        return np.asarray(found[:, 0])


@dataclass(frozen=True)
class RowSpace:
    """Coordinates u of slopes ``w = D Q u``, with the intercept of centred columns."""

    rows: MeasuredRows
    """The rows in these coordinates, with the terms of the objective."""
    span: Span
    """The basis Q."""
    units: Float
    """The diagonal of D."""
    centre: Extended
    """Means of the columns, which are subtracted if the intercept is free; else 0."""

    @classmethod
    def of(cls, rows: MeasuredRows, terms: Terms) -> RowSpace:
        """Return the coordinates of the span of the rows, the constraints and the linear term."""
        run, moments, region, m = rows.run, rows.moments, rows.region, rows.run.n_attributes
        others = np.zeros((0, m + rows.fit_intercept))
        if region is not None:
            others = np.concatenate([region.G.toarray(), region.E])
        if terms.linear is not None:
            others = np.concatenate([others, terms.linear[None]])
        centred = rows.fit_intercept and not others[:, m:].any()
        units = np.ones(m)
        if not terms.ridge:  # units are free, and columns of one size keep their digits
            squares = moments.squares if centred else moments.raw_squares
            units = np.exp2(-np.round(np.log2(np.where(squares > 0, squares / moments.weight, 1.0)) / 2))
        chunk = run.every(Systematic(1, 0))
        n, X, centre = chunk.n_entries, chunk.dense_rows(slice(None)), np.zeros(m, dtype=EXTENDED)
        for _ in range(2 if centred else 0):  # twice, because the mean of a large offset is rounded
            mean = chunk.weight @ X / moments.weight
            X, centre = X - mean, centre + mean
        spanning = np.concatenate([X, others[:, :m]]) * units
        span, turned = Span.of(spanning)
        others = np.column_stack([turned[n:], others[:, m:]])
        if terms.linear is not None:
            terms = replace(terms, linear=others[-1])
        if region is not None:
            k, free = len(region.h), np.full(turned.shape[1], np.inf)
            ends = np.append(-free, region.lower[m:]), np.append(free, region.upper[m:])
            inside = np.append(span.coordinates(region.centre[:m] / units), region.centre[m:])
            E = others[k : k + len(region.f)]
            region = Region(sparse.csr_array(others[:k]), region.h, E, region.f, *ends, inside)
        own = run.of(ArraySource(turned[:n], chunk.y, chunk.weight, run.n_jobs))
        found = replace(inspect(own, rows.fit_intercept), targets=moments.targets, digest=moments.digest)
        measured = replace(rows, run=own, moments=found, region=region, terms=terms, is_mixed=True)
        return cls(measured, span, units, centre)

    def to_original(self, point: Float) -> Float:
        """Convert a point to the columns of the data, rounded to float64."""
        r = self.span.rotation.shape[1]
        slopes = self.units * self.span.expand(point[:r])
        # Uses the rounded slopes, so that the intercept absorbs the mean of their rounding errors.
        moved = point[r:].astype(EXTENDED) - slopes.astype(EXTENDED) @ self.centre
        return np.append(slopes, moved.astype(np.float64))

    def in_original(self, rows: MeasuredRows, designs: list[Design], fits: list[Fitted], tol: float) -> list[Fitted]:
        """Return fits in these coordinates as fits of the rows, with the objectives of their rounded coefficients."""
        points = [d.inside(self.to_original(fit.result.point)) for d, fit in zip(designs, fits, strict=True)]
        found = []
        for fit, design, reached in zip(fits, designs, evaluated(rows.run, designs, points), strict=True):
            moved = replace(fit, result=replace(fit.result, point=reached.point), frames=[])
            allowed = max(tol, NEGLIGIBLE) if fit.result.status is Status.optimal else tol
            found.append(with_objective(moved, reached.objective, design.trivial_bound, allowed))
        return as_reported(rows, designs, found, tol)
