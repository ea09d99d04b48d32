"""Covariances of quantile regression coefficients, by passes over the rows.

With u the residuals at quantile tau, weights w and rows x_i (w x_i and w u_i below, as in R's ``rq(weights=)``):

    sqrt(n)-consistent b has covariance  H^-1 M H^-1,   H = sum_i f_i x_i x_i',   M = tau (1 - tau) sum_i x_i x_i'

where f_i is the density of u_i at 0. The methods differ in f_i (and for clusters in M):

* ``iid``     one f for all, 1/f the difference quotient of the quantiles of u (Siddiqui 1960; Koenker and Bassett 1978)
* ``nid``     f_i from the fits at tau - h and tau + h (Hendricks and Koenker 1992)
* ``kernel``  a Gaussian kernel at u_i (Powell 1991)
* ``cluster`` a uniform kernel; M sums the outer products of the clusters' scores (Parente and Santos Silva 2016)

Bandwidths h are those of Hall and Sheather (1988) and Bofinger (1975). All matrices are computed on centred columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg
from scipy.special import ndtri

from aidlearn.data.passes.run import Run, fold
from aidlearn.data.rows.chunk import Chunk
from aidlearn.inference.centred_gram import CentredGram, GramPart
from aidlearn.inference.order_statistics import SampledValues, quantiles
from aidlearn.linear.model.design import Design
from aidlearn.numerics import Float, Int


@dataclass(frozen=True)
class CovarianceSettings:
    """Tolerances of the covariance estimates."""

    singular_pivot: float = 1e-13
    """Guess. Relative pivot of a Gram matrix, per column, up to which a column is a combination of the others."""
    zero_residual: float = 1e-9
    """Guess. Residuals up to this part of the mean residual belong to rows that the solution interpolates."""
    least_quantile_step: float = 1e-8
    """Guess. Part of the mean residual that is subtracted from differences of fitted quantiles (epsilon of
    :func:`neighbours`)."""
    exact_fit: float = 1e-10
    """Guess. Mean residual over mean target up to which all residuals are rounding errors."""


SETTINGS = CovarianceSettings()


@dataclass(frozen=True)
class ClusterCodes:
    """Groups of dependent rows: a number from 0 for the group of each row."""

    codes: NDArray[np.int32]
    n: int

    @classmethod
    def of(cls, labels: ArrayLike) -> ClusterCodes:
        """Number the groups of some labels."""
        found, codes = np.unique(labels, return_inverse=True)
        return cls(codes.astype(np.int32), len(found))

    def within(self, chunk: Chunk) -> tuple[Int, Int]:
        """Return the groups that occur in a chunk, and the place of each row's group among them."""
        here, places = np.unique(self.codes[chunk.start : chunk.stop], return_inverse=True)
        return here.astype(np.int64), places


class InferenceError(ValueError):
    """Standard errors do not exist or cannot be estimated; the message says what to do."""


def normal_density(z: ArrayLike) -> Float:
    """The standard normal density."""
    return np.asarray(np.exp(-0.5 * np.square(z)) / math.sqrt(2 * math.pi))


def hall_sheather(quantile: float, n: float, alpha: float = 0.05) -> float:
    """``n^(-1/3) z^(2/3) (1.5 phi^2(q) / (2 q^2 + 1))^(1/3)`` with q the normal quantile."""
    q = float(ndtri(quantile))
    shape = 1.5 * float(normal_density(q)) ** 2 / (2 * q * q + 1)
    return float(n ** (-1 / 3) * ndtri(1 - alpha / 2) ** (2 / 3) * shape ** (1 / 3))


def bofinger(quantile: float, n: float, alpha: float = 0.05) -> float:
    """``n^(-1/5) (4.5 phi^4(q) / (2 q^2 + 1)^2)^(1/5)``: the best mean squared error (alpha is not used)."""
    q = float(ndtri(quantile))
    return float(n ** (-1 / 5) * (4.5 * float(normal_density(q)) ** 4 / (2 * q * q + 1) ** 2) ** (1 / 5))


BANDWIDTHS: dict[str, Callable[[float, float, float], float]] = {"hall-sheather": hall_sheather, "bofinger": bofinger}


def inside(quantile: float, bandwidth: float) -> float:
    """Return the bandwidth, or half the distance to 0 or 1 if it would reach beyond."""
    room = min(quantile, 1 - quantile)
    return bandwidth if bandwidth < room else room / 2


@dataclass(frozen=True)
class Survey:
    """Sums and residuals at a solution, from one pass."""

    n: int
    """Rows with a positive weight."""
    gram: Float
    """``sum w_i^2 x_i x_i'`` on centred columns."""
    loss: float
    """``sum w_i rho_tau(u_i)``."""
    mean_size: float
    """Mean of ``|w_i u_i|``."""
    mean_target: float
    """Mean of ``|w_i y_i|``."""
    deviation: float
    """Standard deviation of ``w_i u_i``."""
    residuals: SampledValues
    """The ``w_i u_i`` of all rows, or of a sample of many rows."""

    @property
    def zero(self) -> float:
        """Largest size of a residual that is zero up to rounding."""
        return SETTINGS.zero_residual * self.mean_size

    @cached_property
    def nonzero(self) -> SampledValues:
        """The residuals that are not zero up to rounding."""
        return self.residuals.mapped(lambda u: u[np.abs(u) > self.zero])

    @property
    def share_of_zeros(self) -> float:
        """The part of the residuals that is zero up to rounding."""
        return 1 - self.nonzero.n / self.residuals.n

    @property
    def fits_exactly(self) -> bool:
        """Whether all residuals are rounding errors."""
        return self.mean_size <= SETTINGS.exact_fit * self.mean_target


def residuals(design: Design, chunk: Chunk, point: Float) -> Float:
    """``w_i u_i`` of the rows with a positive weight."""
    u = chunk.weight * design.margins(chunk, point)
    return u if chunk.weight.all() else u[chunk.weight > 0]


def survey(run: Run, design: Design, point: Float) -> Survey:
    """Compute the sums that all methods share, by one pass."""
    gram, sums = CentredGram(run, design), np.zeros(6)
    sampled = SampledValues.planned(run.n_entries)
    step = sampled.step

    def measure(chunk: Chunk) -> tuple[GramPart, Float, Float]:
        u = chunk.weight * design.margins(chunk, point)
        some = u[-chunk.start % step :: step][chunk.weight[-chunk.start % step :: step] > 0]
        loss = design.loss.values(u).sum()  # w rho(u) = rho(w u)
        sizes = np.abs(u).sum(), chunk.weight @ np.abs(chunk.y)
        return gram.part(chunk), np.array([np.count_nonzero(chunk.weight), loss, u.sum(), u @ u, *sizes]), some.copy()

    def collect(value: tuple[GramPart, Float, Float]) -> None:
        gram.add(value[0])
        sums[:] += value[1]
        sampled.add(value[2])

    fold(run, measure, collect)
    count, loss, total, squares, size, target = sums.tolist()
    mean = total / count
    variance = max(squares - count * mean * mean, 0.0) / max(count - 1, 1)
    return Survey(int(count), gram.whole(), loss, size / count, target / count, math.sqrt(variance), sampled)


@dataclass(frozen=True)
class Density:
    """``H = sum f_i x_i x_i'`` on centred columns, with the sparsity and bandwidth of the estimate."""

    gram: Float
    sparsity: float
    """1 over the mean density."""
    bandwidth: float
    without: int = 0
    """Number of rows whose estimated density is 0 because neighbouring quantiles cross there."""


def siddiqui(run: Run, design: Design, point: Float, seen: Survey, quantile: float, h: float) -> Density:
    """One density for all rows: ``1/f = (Q(tau + h) - Q(tau - h)) / 2h`` of the residuals that are not zero."""

    def values(chunk: Chunk) -> Float:
        u = residuals(design, chunk, point)
        return u[np.abs(u) > seen.zero]

    zeros = seen.share_of_zeros
    if zeros > 2 * h + design.n_variables / seen.n:
        # These are more rows than a solution interpolates: the residuals have an atom where their density is wanted.
        raise InferenceError(no_density(f"{100 * zeros:.0f}% of the residuals are zero"))
    low, high = quantiles(run, values, seen.nonzero, [quantile - h, quantile + h])
    sparsity = (high - low) / (2 * h)
    if not sparsity > seen.zero:
        raise InferenceError(no_density(f"the residuals are tied around their {quantile:g} quantile"))
    return Density(seen.gram / sparsity, sparsity, h)


def neighbours(run: Run, design: Design, low: Float, high: Float, seen: Survey, h: float) -> Density:
    """``f_i = max(0, 2h / (x_i'(b(tau + h) - b(tau - h)) - epsilon))`` from the fits ``low`` and ``high``."""
    difference, step = high - low, SETTINGS.least_quantile_step * seen.mean_size

    def density(chunk: Chunk) -> Float:
        fitted = chunk @ difference[: design.n_attributes]
        if design.fit_intercept:
            fitted += difference[-1]
        gap = chunk.weight * fitted - step
        return np.divide(2 * h, gap, out=np.zeros_like(gap), where=gap > 0)

    found = _weighted_gram(run, design, density)
    if found.total == 0:
        raise InferenceError(no_density("the fits at the two neighbouring quantiles coincide or cross everywhere"))
    return Density(found.gram, seen.n / found.total, h, found.without)


def kernel(run: Run, design: Design, point: Float, seen: Survey, quantile: float, h: float) -> Density:
    """Powell's estimate with a Gaussian kernel: ``f_i = phi(u_i / c) / c`` with
    ``c = min(sd, IQR / 1.34) (Phi^-1(tau + h) - Phi^-1(tau - h))``."""
    low, high = quantiles(run, lambda chunk: residuals(design, chunk, point), seen.residuals, [0.25, 0.75])
    scale = min(seen.deviation, (high - low) / 1.34)
    c = _width(scale, seen, quantile, h)
    return _around(run, design, point, seen, c, lambda u: normal_density(u / c) / c)


def uniform(run: Run, design: Design, point: Float, seen: Survey, quantile: float, h: float) -> Density:
    """``f_i = 1(|u_i| < c) / 2c`` with c as in :func:`kernel`, but scaled by the median absolute deviation."""

    def values(chunk: Chunk) -> Float:
        return residuals(design, chunk, point)

    (middle,) = quantiles(run, values, seen.residuals, [0.5])
    few = seen.residuals.mapped(lambda u: np.abs(u - middle))
    (scale,) = quantiles(run, lambda chunk: np.abs(values(chunk) - middle), few, [0.5])
    c = _width(scale, seen, quantile, h)
    return _around(run, design, point, seen, c, lambda u: (np.abs(u) < c) / (2 * c))


def _width(scale: float, seen: Survey, quantile: float, h: float) -> float:
    """``c = scale (Phi^-1(tau + h) - Phi^-1(tau - h))``; refuses a c within which no residual other than zeros lies."""
    c = scale * float(ndtri(quantile + h) - ndtri(quantile - h))
    if not c > seen.zero or c == 0:
        raise InferenceError(no_density("half of the residuals are equal"))
    if not (np.abs(seen.nonzero.values) < c).any():
        raise InferenceError(no_density(f"no residual lies within the bandwidth {c:.3g}"))
    return c


def _around(
    run: Run, design: Design, point: Float, seen: Survey, c: float, density: Callable[[Float], Float]
) -> Density:
    """Return a kernel estimate: the density of each row is a function of its ``w_i u_i``."""
    found = _weighted_gram(run, design, lambda chunk: density(chunk.weight * design.margins(chunk, point)))
    return Density(found.gram, seen.n / found.total, c)


@dataclass(frozen=True)
class _WeightedGram:
    """``sum_i f_i w_i^2 x_i x_i'``, the sum of the ``f_i``, and the number of rows where it is 0."""

    gram: Float
    total: float
    without: int


def _weighted_gram(run: Run, design: Design, density: Callable[[Chunk], Float]) -> _WeightedGram:
    """Sum over the rows whose density is not zero, by one pass."""
    gram = CentredGram(run, design)
    sums: list[float] = []
    missing: list[int] = []

    def measure(chunk: Chunk) -> tuple[GramPart | None, float, int]:
        f = np.where(chunk.weight > 0, density(chunk), 0.0)
        used = np.count_nonzero(f)
        part = None
        if used >= chunk.n_entries // 2 and used:
            part = gram.part(chunk, f)
        elif used:
            few = np.flatnonzero(f)
            part = gram.part(chunk.select(few), f[few])
        return part, float(f.sum()), int(np.count_nonzero(chunk.weight) - used)

    def collect(value: tuple[GramPart | None, float, int]) -> None:
        if value[0] is not None:
            gram.add(value[0])
        sums.append(value[1])
        missing.append(value[2])

    fold(run, measure, collect)
    return _WeightedGram(gram.whole(), math.fsum(sums), sum(missing))


def cluster_scores(
    run: Run, design: Design, point: Float, seen: Survey, quantile: float, clusters: ClusterCodes
) -> Float:
    """``M = sum_g s_g s_g'`` with ``s_g`` the sum of ``w_i x_i (tau - 1(u_i <= 0))`` over the rows of cluster g.

    The residuals of the p rows that the solution interpolates are rounding errors, which count as 0.
    """
    sums = np.zeros((clusters.n, design.n_variables))

    def measure(chunk: Chunk) -> tuple[Int, Float]:
        u = design.margins(chunk, point)
        here, codes = clusters.within(chunk)
        score = chunk.weight * (quantile - (chunk.weight * u <= seen.zero))
        part = np.empty((len(here), design.n_variables))
        part[:, : design.n_attributes] = chunk.sums_by(codes, len(here), score)
        total = np.bincount(codes, weights=score, minlength=len(here))
        part[:, : design.n_attributes] -= np.outer(total, design.centre)
        if design.fit_intercept:
            part[:, -1] = total
        return here, part

    def collect(value: tuple[Int, Float]) -> None:
        sums[value[0]] += value[1]

    fold(run, measure, collect)
    return np.asarray(sums.T @ sums)


def check_rank(gram: Float, names: list[str]) -> None:
    """Refuse columns that are combinations of others, by name."""
    size = np.sqrt(gram.diagonal())
    empty = np.flatnonzero(~(size > 0))
    if len(empty):
        raise InferenceError(
            f"Standard errors do not exist: column {names[int(empty[0])]} is constant or zero. Leave it out."
        )
    scaled = gram / np.outer(size, size)
    _, pivots, rank, _ = linalg.lapack.dpstrf(scaled, tol=SETTINGS.singular_pivot * len(gram))
    if rank < len(gram):
        raise InferenceError(
            f"Standard errors do not exist: column {names[int(pivots[rank]) - 1]} is a linear combination of the other "
            f"columns (X has rank {rank} of {len(gram)} columns, the intercept included). Leave it out."
        )


def sandwich(H: Float, M: Float) -> Float:
    """``H^-1 M H^-1``; refuses a singular H."""
    size = np.sqrt(np.maximum(H.diagonal(), 0.0))
    if not (size > 0).all():
        raise InferenceError(no_density("some column has no row with a positive density"))
    try:
        factor = linalg.cho_factor(H / np.outer(size, size))
    except linalg.LinAlgError:
        raise InferenceError(no_density("the density is zero in some direction of the columns")) from None
    half = linalg.cho_solve(factor, M / np.outer(size, size))
    found = linalg.cho_solve(factor, half.T) / np.outer(size, size)
    if not np.isfinite(found).all() or (found.diagonal() <= 0).any():
        raise InferenceError(no_density("the density is zero in some direction of the columns"))
    return np.asarray((found + found.T) / 2)


def uncentred(design: Design, covariance: Float) -> Float:
    """Return the covariance of (intercept, slopes) from that of (slopes, intercept on centred columns)."""
    if not design.fit_intercept:
        return covariance
    p = design.n_variables
    back = np.zeros((p, p))
    back[0, :-1], back[0, -1] = -design.centre, 1.0
    back[1:, :-1] = np.eye(p - 1)
    return np.asarray(back @ covariance @ back.T)


def uncentred_gram(design: Design, gram: Float) -> Float:
    """``sum w_i^2 x_i x_i'`` with the intercept first, from the sum of centred rows with the intercept last."""
    if not design.fit_intercept:
        return gram
    p = design.n_variables
    rows = np.zeros((p, p))  # x = rows @ (x - centre, 1)
    rows[0, -1] = 1.0
    rows[1:, :-1], rows[1:, -1] = np.eye(p - 1), design.centre
    return np.asarray(rows @ gram @ rows.T)


def no_density(why: str) -> str:
    """Word the error that the density cannot be estimated."""
    return f'The density of the residuals cannot be estimated: {why}. Use se="bootstrap", or another bandwidth.'
