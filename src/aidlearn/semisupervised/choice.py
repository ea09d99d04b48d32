"""Kernel, penalties and balance of a semi-supervised SVM, chosen from the labelled rows and the geometry of all rows.

Kernels of many kinds are compared by the leave-one-out squared error, on the labelled rows, of kernel ridge regression
on the labels. With A = K_ll + 1 + r I and alpha = A^-1 y it needs no refit:

    y_i - f_{-i}(x_i) = alpha_i / (A^-1)_ii

A count of errors takes only l + 1 values and ties for most kernels; squared errors do not. The unlabelled rows shape
the kernels through principal components, whitening, median distances and graphs of nearest neighbours. The chosen ridge
r gives C = 2 / r on features of unit mean square; the losses of all unlabelled rows together weigh as much as that of
one labelled row; their mean score is the mean label. The constants were tuned on the data sets COIL and SecStr and on
generated data (see docs/experiments.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import linalg, sparse

from aidlearn.kernel.functions import TINY, dense, kernel_from
from aidlearn.numerics import Float, Int
from aidlearn.semisupervised.features import SETTINGS as FEATURES
from aidlearn.semisupervised.features import (
    Features,
    LinearFeatures,
    RowProjection,
    Spectrum,
    kernel_features,
    of_unit_length,
)


@dataclass(frozen=True)
class ChoiceSettings:
    """The grid of kernels and ridges, tuned on COIL, SecStr and generated data, and limits on the work."""

    ridges: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0)
    """Ridges for kernels of unit mean diagonal."""
    components: tuple[int, ...] = (5, 10, 20, 50)
    """Numbers of principal components to try."""
    neighbours: tuple[int, ...] = (10, 30, 60)
    """Numbers of neighbours in a graph."""
    diffusions: tuple[float, ...] = (10.0, 30.0, 100.0)
    """Diffusion times of a graph."""
    widths: tuple[float, ...] = (0.5, 2.0, 8.0)
    """Products of the rbf kernel's gamma and the median squared distance."""
    shrinkages: tuple[float, ...] = (1.0, 0.1, 0.01)
    """Ridges on the covariance for whitening, in units of the mean variance of a column."""
    penalty: float = 2.0
    """C times the ridge."""
    many_columns: int = 4000
    """Minimum of rows and columns beyond which no principal components are computed."""
    most_labelled: int = 1000
    """Maximum labelled rows in the comparison."""
    distance_rows: int = 1000
    """Approximate size of the sample for the median distance."""
    negligible: float = 1e-12
    """Relative variance below which a principal component is rounding error."""


SETTINGS = ChoiceSettings()


@dataclass(frozen=True)
class Candidate:
    """A kernel that can be chosen."""

    name: str
    features: Callable[[Int], Float]
    """Function that returns the features of the given rows, up to a common factor."""
    mean_square: float
    """Mean squared length of the features of all rows."""
    build: Callable[[], tuple[RowProjection, Features]]
    """Function that computes the features of all rows."""


@dataclass(frozen=True)
class Choice:
    """The kernel and penalties with the smallest leave-one-out error."""

    kernel: str
    """Description, such as "graph of 10 neighbours in 5 components, diffusion 30"."""
    ridge: float
    error: float
    """Mean squared leave-one-out error."""
    C: float
    C_unlabeled: float
    balance: str = "constraint"


@dataclass(frozen=True)
class _Principal:
    """Principal axes of rows, in order of decreasing variance."""

    mean: Float
    axes: Float
    squares: Float
    """Sum of squares along each axis."""


class CandidateKernels:
    """All candidate kernels of the rows of X; expensive parts are computed once for all of them.

    Parameters
    ----------
    X : array or CSR
        Sparse rows are scaled to unit length, as is usual for texts.
    rng : Generator
        Random number generator that draws landmarks if the rows are too many for a Gram matrix.
    deadline : float
        ``time.monotonic()`` of the deadline, after which graphs are approximated.
    """

    def __init__(self, X: Any, rng: np.random.Generator, deadline: float = math.inf) -> None:
        self.unit_length = bool(sparse.issparse(X))
        self.rows = of_unit_length(X) if self.unit_length else X
        self.rng, self.deadline = rng, deadline
        self.n, self.m = X.shape
        self.unmoved = RowProjection(self.unit_length)
        self.centred = self.unmoved if self.unit_length else RowProjection(False, np.asarray(X.mean(axis=0)))
        self._spectra: dict[tuple[str, int], Spectrum] = {}

    @cached_property
    def _principal(self) -> _Principal:
        mean = np.asarray(self.rows.mean(axis=0)).ravel()
        if self.n <= self.m:
            gram = dense(self.rows @ self.rows.T)
            gram = gram - gram.mean(axis=0)
            gram = gram - gram.mean(axis=1)[:, None]
            values, left = linalg.eigh(gram, check_finite=False, driver="evd")
            kept = np.flatnonzero(values > values[-1] * SETTINGS.negligible)[::-1]
            values, left = values[kept], left[:, kept]
            axes = np.asarray(self.rows.T @ left) - np.outer(mean, left.sum(axis=0))
            return _Principal(mean, axes / np.sqrt(values), values)
        products = dense(self.rows.T @ self.rows) - self.n * np.outer(mean, mean)
        values, axes = linalg.eigh(products, check_finite=False, driver="evd")
        kept = np.flatnonzero(values > max(values[-1], TINY) * SETTINGS.negligible)[::-1]
        return _Principal(mean, axes[:, kept], values[kept])

    def _onto(self, axes: Float) -> RowProjection:
        """Return the projection of centred rows onto the given axes."""
        return RowProjection(self.unit_length, self._principal.mean, axes)

    @cached_property
    def _coordinates(self) -> Float:
        """The rows in their principal axes."""
        return self._projected(self._onto(self._principal.axes))

    def _projected(self, projection: RowProjection) -> Float:
        return np.asarray(self.rows @ projection.matrix) - projection.centre @ projection.matrix

    @cached_property
    def _median(self) -> float:
        """Median squared distance of two rows."""
        sample = self.rows[:: max(1, self.n // SETTINGS.distance_rows)]
        gram = dense(sample @ sample.T)
        squares = np.diag(gram)
        return max(float(np.median(squares[:, None] + squares - 2 * gram)), TINY)

    def __iter__(self) -> Iterator[Candidate]:
        """Iterate from simple to complex kernels, so that simple ones win ties."""
        yield self._linear("linear", self.centred)
        if min(self.n, self.m) > SETTINGS.many_columns:
            return
        axes, squares = self._principal.axes, self._principal.squares
        counts = [count for count in SETTINGS.components if count < len(squares)]
        for count in counts:
            yield self._linear(f"linear in {count} components", self._onto(axes[:, :count]))
        mean_variance = squares.sum() / min(self.n, self.m)
        for shrinkage in SETTINGS.shrinkages:
            factors = 1 / np.sqrt(squares + shrinkage * mean_variance)
            yield self._linear(f"whitened by {shrinkage:g}", self._onto(axes * factors))
        if self.n > FEATURES.exact_rows:
            return  # only kernels that are linear in the columns are compared
        for width in SETTINGS.widths:
            yield self._rbf(width)
        yield from self._graphs("", self.rows, self.unmoved)
        for count in counts:
            place, projection = f" in {count} components", self._onto(axes[:, :count])
            yield from self._graphs(place, self._coordinates[:, :count], projection)

    def _linear(self, name: str, projection: RowProjection) -> Candidate:
        if projection.matrix.size:
            made: Any = self._projected(projection)
        else:
            made = self.rows if self.unit_length else projection.apply(self.rows)
        squares = float(made.multiply(made).sum() if sparse.issparse(made) else (made**2).sum())
        scale = 1 / math.sqrt(max(squares / self.n, TINY))

        def build() -> tuple[RowProjection, Features]:
            return projection, LinearFeatures(made * scale, scale)

        return Candidate(name, lambda rows: dense(made[rows]), squares / self.n, build)

    def _rbf(self, width: float) -> Candidate:
        kernel = kernel_from("rbf", width / self._median, 3, 0.0, self.rows, np.ones(self.n), ("rbf",))

        def of(rows: Int) -> Float:
            values, vectors = linalg.eigh(kernel.block(self.rows[rows], self.rows[rows]), check_finite=False)
            return vectors * np.sqrt(np.maximum(values, 0.0))

        def build() -> tuple[RowProjection, Features]:
            return self.unmoved, kernel_features(kernel, self.rows, None, self.rng)

        return Candidate(f"rbf, gamma {width:g} over the median squared distance", of, 1.0, build)

    def _graphs(self, place: str, rows: Any, projection: RowProjection) -> Iterator[Candidate]:
        def build(spectrum: Spectrum, diffusion: float) -> tuple[RowProjection, Features]:
            return projection, spectrum.features(diffusion)

        for neighbours in SETTINGS.neighbours:
            if neighbours >= self.n:
                continue
            if (place, neighbours) not in self._spectra:
                self._spectra[place, neighbours] = Spectrum.of(rows, neighbours, self.deadline)
            spectrum = self._spectra[place, neighbours]
            for diffusion in SETTINGS.diffusions:
                name = f"graph of {neighbours} neighbours{place}, diffusion {diffusion:g}"
                features = partial(spectrum.rows, diffusion=diffusion)
                yield Candidate(name, features, 1.0, partial(build, spectrum, diffusion))


def left_out_error(K: Float, Y: Float, weight: Float, ridge: float) -> float:
    """Return the mean squared leave-one-out error; Y has one column per machine."""
    inverse = linalg.inv(K + 1.0 + np.diag(ridge / weight), check_finite=False)
    errors = (inverse @ Y) / np.diag(inverse)[:, None]
    return float(weight @ (errors**2).mean(axis=1) / weight.sum())


def choose(kernels: CandidateKernels, codes: Int, weight: Float, unlabelled: int) -> tuple[Choice, Candidate]:
    """Return the kernel and the ridge with the smallest leave-one-out error of labelled rows.

    Parameters
    ----------
    kernels : CandidateKernels
    codes : array of shape (n,)
        Class of every row.
    weight : array of shape (n,)
        Weight of every row.
    unlabelled : int
        Code of rows without a label.
    """
    known = np.flatnonzero((codes != unlabelled) & (weight > 0))
    free = weight[codes == unlabelled].sum()
    if len(known) > SETTINGS.most_labelled:
        known = np.sort(kernels.rng.choice(known, SETTINGS.most_labelled, replace=False))
    classes = np.unique(codes[known])
    Y = np.where(codes[known, None] == (classes[1:] if len(classes) == 2 else classes), 1.0, -1.0)
    relative = weight[known] / weight[known].mean()
    best: tuple[float, float, Candidate] | None = None
    for candidate in kernels:
        features = candidate.features(known)
        K = features @ features.T / max(candidate.mean_square, TINY)
        for ridge in SETTINGS.ridges:
            error = left_out_error(K, Y, relative, ridge)
            if best is None or error < best[0]:
                best = error, ridge, candidate
    assert best is not None
    error, ridge, candidate = best
    C = SETTINGS.penalty / ridge
    return Choice(candidate.name, ridge, error, C, C / free if free > 0 else 0.0), candidate
