"""Kernel, penalties and balance of a semi-supervised SVM, chosen from the labelled rows and the geometry of all rows.

Kernels of many kinds are compared by one number each: the squared error of leaving out each labelled row in turn, for
kernel ridge regression on the labels. With A = K_ll + 1 + r I and alpha = A^-1 y it is known without refitting:

    y_i - f_{-i}(x_i) = alpha_i / (A^-1)_ii

A count of errors takes l + 1 values and ties for most kernels; squares do not. The unlabelled rows decide what the
kernels are: principal components, whitening, median distances, graphs of nearest neighbours. Then C = 2 / r on features
of unit mean square; the losses of all unlabelled rows weigh as much as that of one labelled row; their mean score is
the mean label. Constants were set on the sets COIL and SecStr and on generated data, see docs/experiments.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse

from aidlearn.kernel.functions import TINY, kernel_from
from aidlearn.numerics import Float, Int
from aidlearn.semisupervised.features import (
    EXACT_ROWS,
    GraphFeatures,
    KernelFeatures,
    LinearFeatures,
    Spectrum,
    kernel_features,
)

RIDGES = (0.01, 0.1, 1.0, 10.0)
"""Of kernels of unit mean diagonal."""
COMPONENTS = (5, 10, 20, 50)
NEIGHBOURS = (10, 30, 60)
DIFFUSIONS = (10.0, 30.0, 100.0)
WIDTHS = (0.5, 2.0, 8.0)
"""gamma of the rbf kernel times the median squared distance."""
SHRINKAGES = (1.0, 0.1, 0.01)
"""Of the covariance that whitens, in units of the mean variance of a column."""
SUPPLY = 2.0
"""C times the ridge."""
MANY_ROWS = EXACT_ROWS
"""Beyond this number of rows only kernels that are linear in the columns are compared."""
MANY_COLUMNS = 4000
"""Beyond this number of columns, and of rows, no principal components are computed."""
MOST_LABELLED = 1000
"""Labelled rows that the comparison looks at."""
DISTANCES = 1000
"""Rows that the median distance is taken of."""


@dataclass(frozen=True)
class Projection:
    """What is done to a row before its kernel: unit length, minus a centre, times a matrix."""

    unit_length: bool
    centre: Float
    """Empty: nothing is subtracted."""
    matrix: Float
    """Empty: the columns as they are."""

    def apply(self, X: Any) -> Any:
        if self.unit_length:
            X = of_unit_length(X)
        if self.matrix.size:
            rows = np.asarray(X @ self.matrix)
            return rows - self.centre @ self.matrix if self.centre.size else rows
        return X - self.centre if self.centre.size else X


def of_unit_length(X: Any) -> Any:
    """Rows over their norms; rows of zeros stay."""
    squares = X.multiply(X).sum(axis=1) if sparse.issparse(X) else (X**2).sum(axis=1)
    norms = np.sqrt(np.asarray(squares).ravel())
    return sparse.csr_array(sparse.diags_array(1 / np.where(norms > 0, norms, 1.0)) @ X)


@dataclass(frozen=True)
class Candidate:
    """A kernel that can be chosen: its name, the labelled rows' features, and how to make all of it."""

    name: str
    features: Callable[[Int], Float]
    """Of some rows, up to a factor."""
    mean_square: float
    """Of the features of all rows."""
    build: Callable[[], tuple[Projection, KernelFeatures | GraphFeatures | LinearFeatures]]


@dataclass(frozen=True)
class Choice:
    """What the labelled rows are best predicted with."""

    kernel: str
    """In words: "graph of 10 neighbours in 5 components, diffusion 30"."""
    ridge: float
    error: float
    """Mean squared error of rows left out."""
    C: float
    C_unlabeled: float
    balance: str = "constraint"


class Kernels:
    """All kernels of some rows; what is expensive is computed once, whatever the labels.

    Parameters
    ----------
    X : array or CSR
        Sparse rows are taken to unit length, as texts are.
    deadline : float
        ``time.monotonic()`` after which no more kernels are made.
    rng : Generator
        Of landmarks, where there are more rows than a Gram matrix can have.
    """

    def __init__(self, X: Any, rng: np.random.Generator, deadline: float = math.inf) -> None:
        self.unit_length = bool(sparse.issparse(X))
        self.rows = of_unit_length(X) if self.unit_length else X
        self.rng, self.deadline = rng, deadline
        self.n, self.m = X.shape
        nothing = np.empty(0)
        self.centre = nothing if self.unit_length else np.asarray(X.mean(axis=0))
        self.plain = Projection(self.unit_length, self.centre, np.empty((0, 0)))
        self._spectra: dict[tuple[int | None, int], Spectrum] = {}

    @cached_property
    def _principal(self) -> tuple[Float, Float, Float]:
        """Mean of the rows, axes by falling variance, and their sums of squares."""
        mean = np.asarray(self.rows.mean(axis=0)).ravel()
        if self.n <= self.m:
            gram = self.rows @ self.rows.T
            gram = gram.toarray() if sparse.issparse(gram) else gram
            gram = gram - gram.mean(axis=0)
            gram = gram - gram.mean(axis=1)[:, None]
            values, left = linalg.eigh(gram, check_finite=False, driver="evd")
            kept = np.flatnonzero(values > values[-1] * 1e-12)[::-1]
            values, left = values[kept], left[:, kept]
            axes = np.asarray(self.rows.T @ left) - np.outer(mean, left.sum(axis=0))
            return mean, axes / np.sqrt(values), values
        products = self.rows.T @ self.rows
        products = products.toarray() if sparse.issparse(products) else products
        values, axes = linalg.eigh(products - self.n * np.outer(mean, mean), check_finite=False, driver="evd")
        kept = np.flatnonzero(values > max(values[-1], TINY) * 1e-12)[::-1]
        return mean, axes[:, kept], values[kept]

    def _projected(self, count: int | None) -> Projection:
        if count is None:
            return self.plain
        mean, axes, _ = self._principal
        return Projection(self.unit_length, mean, axes[:, :count])

    def _spectrum(self, count: int | None, neighbours: int) -> Spectrum:
        found = self._spectra.get((count, neighbours))
        if found is None:
            rows = self.rows if count is None else self._coordinates[:, :count]
            found = Spectrum.of(rows, neighbours, self.deadline)
            self._spectra[count, neighbours] = found
        return found

    @cached_property
    def _coordinates(self) -> Float:
        """The rows in their principal axes."""
        mean, axes, _ = self._principal
        return np.asarray(self.rows @ axes) - mean @ axes

    @cached_property
    def _median(self) -> float:
        """Median squared distance of two rows."""
        step = max(1, self.n // DISTANCES)
        some = self.rows[::step]
        gram = some @ some.T
        gram = gram.toarray() if sparse.issparse(gram) else gram
        squares = np.diag(gram)
        return max(float(np.median(squares[:, None] + squares - 2 * gram)), TINY)

    def __iter__(self) -> Iterator[Candidate]:
        """Simple ones first: they win ties."""
        yield self._linear("linear", self.plain)
        if min(self.n, self.m) > MANY_COLUMNS:
            return
        _, axes, values = self._principal
        for count in COMPONENTS:
            if count < len(values):
                yield self._linear(f"linear in {count} components", self._projected(count))
        mean_variance = values.sum() / min(self.n, self.m)
        for shrinkage in SHRINKAGES:
            factors = 1 / np.sqrt(values + shrinkage * mean_variance)
            mean = self._principal[0]
            yield self._linear(f"whitened by {shrinkage:g}", Projection(self.unit_length, mean, axes * factors))
        if self.n > MANY_ROWS:
            return
        for width in WIDTHS:
            yield self._rbf(width)
        for place in (None, *COMPONENTS):
            if place is None or place < len(values):
                yield from self._graphs(place)

    def _linear(self, name: str, projection: Projection) -> Candidate:
        if projection.matrix.size:
            made = self._coordinates_of(projection)
            squares = float((made**2).sum())
            of: Callable[[Int], Float] = lambda rows: made[rows]  # noqa: E731
        else:
            made = projection.apply(self.rows) if not self.unit_length else self.rows
            squares = float(made.multiply(made).sum() if sparse.issparse(made) else (made**2).sum())
            of = lambda rows: made[rows].toarray() if sparse.issparse(made) else made[rows]  # noqa: E731
        scale = 1 / math.sqrt(max(squares / self.n, TINY))
        return Candidate(name, of, squares / self.n, lambda: (projection, LinearFeatures(made * scale, scale)))

    def _coordinates_of(self, projection: Projection) -> Float:
        return np.asarray(self.rows @ projection.matrix) - projection.centre @ projection.matrix

    def _rbf(self, width: float) -> Candidate:
        kernel = kernel_from("rbf", width / self._median, 3, 0.0, self.rows, np.ones(self.n), ("rbf",))

        def of(rows: Int) -> Float:
            values, vectors = linalg.eigh(kernel.block(self.rows[rows], self.rows[rows]), check_finite=False)
            return vectors * np.sqrt(np.maximum(values, 0.0))

        def build() -> tuple[Projection, KernelFeatures]:
            unmoved = Projection(self.unit_length, np.empty(0), np.empty((0, 0)))
            return unmoved, kernel_features(kernel, self.rows, None, self.rng)

        return Candidate(f"rbf, gamma {width:g} over the median squared distance", of, 1.0, build)

    def _graphs(self, count: int | None) -> Iterator[Candidate]:
        projection = self._projected(count)
        if count is None:
            projection = Projection(self.unit_length, np.empty(0), np.empty((0, 0)))
        place = "" if count is None else f" in {count} components"
        for neighbours in NEIGHBOURS:
            if neighbours >= self.n:
                continue
            spectrum = self._spectrum(count, neighbours)
            for diffusion in DIFFUSIONS:
                name = f"graph of {neighbours} neighbours{place}, diffusion {diffusion:g}"

                def of(rows: Int, spectrum: Spectrum = spectrum, diffusion: float = diffusion) -> Float:
                    return spectrum.rows(rows, diffusion)

                def build(
                    spectrum: Spectrum = spectrum, diffusion: float = diffusion
                ) -> tuple[Projection, GraphFeatures]:
                    return projection, spectrum.features(diffusion)

                yield Candidate(name, of, 1.0, build)


def left_out_error(K: Float, Y: Float, weight: Float, ridge: float) -> float:
    """Mean squared error of each row predicted from the others; a column of Y for each machine."""
    inverse = linalg.inv(K + 1.0 + np.diag(ridge / weight), check_finite=False)
    errors = (inverse @ Y) / np.diag(inverse)[:, None]
    return float(weight @ (errors**2).mean(axis=1) / weight.sum())


def choose(kernels: Kernels, codes: Int, weight: Float, unlabelled: int) -> tuple[Choice, Candidate]:
    """The kernel and the ridge with the smallest error of labelled rows left out.

    Parameters
    ----------
    kernels : Kernels
    codes : array of shape (n,)
        Class of every row.
    weight : array of shape (n,)
    unlabelled : int
        The code of rows without a label.
    """
    known = np.flatnonzero((codes != unlabelled) & (weight > 0))
    free = weight[codes == unlabelled].sum()
    if len(known) > MOST_LABELLED:
        known = np.sort(kernels.rng.choice(known, MOST_LABELLED, replace=False))
    classes = np.unique(codes[known])
    Y = np.where(codes[known, None] == (classes[1:] if len(classes) == 2 else classes), 1.0, -1.0)
    of_row = weight[known] / weight[known].mean()
    best: tuple[float, float, Candidate] | None = None
    for candidate in kernels:
        features = candidate.features(known)
        K = features @ features.T / max(candidate.mean_square, TINY)
        for ridge in RIDGES:
            error = left_out_error(K, Y, of_row, ridge)
            if best is None or error < best[0]:
                best = error, ridge, candidate
    assert best is not None
    error, ridge, candidate = best
    C = SUPPLY / ridge
    return Choice(candidate.name, ridge, error, C, C / free if free > 0 else 0.0), candidate
