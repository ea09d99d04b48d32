"""Covariances of quantile regression coefficients, by passes over the rows.

With u the residuals at quantile tau, weights w and rows x_i (w x_i and w u_i below, as in R's ``rq(weights=)``):

    sqrt(n)-consistent b has covariance  H^-1 M H^-1,   H = sum_i f_i x_i x_i',   M = tau (1 - tau) sum_i x_i x_i'

where f_i is the density of u_i at 0. The methods differ in f_i (and for clusters in M):

* ``iid``     one f for all, 1/f the difference quotient of the quantiles of u (Siddiqui 1960; Koenker and Bassett 1978)
* ``nid``     f_i from the fits at tau - h and tau + h (Hendricks and Koenker 1992)
* ``kernel``  a Gaussian kernel at u_i (Powell 1991)
* ``cluster`` a uniform kernel; M sums the outer products of the clusters' scores (Parente and Santos Silva 2016)

Bandwidths h are those of Hall and Sheather (1988) and Bofinger (1975). Everything is computed on centred columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.special import ndtri

from aidlearn.data.passes.run import Run
from aidlearn.data.rows.chunk import Chunk
from aidlearn.inference.order_statistics import Sampled, quantiles
from aidlearn.inference.products import Products
from aidlearn.linear.model.design import Design
from aidlearn.numerics import Float

SINGULAR = 1e-13
"""Relative pivot of a Gram matrix up to which a column counts as a combination of others."""
ZERO_RESIDUAL = 1e-9
"""Part of the mean residual up to which one is of the rows that the solution interpolates."""
TINY_DENSITY_STEP = 1e-8
"""Part of the mean residual that keeps a difference of fitted quantiles away from 0."""
ROUNDED_PIVOT = 1e-3
"""Squared pivot from which products of columns may be rounded to float32: 1e-7 of a density becomes 1e-4 at most."""
EXACT_FIT = 1e-10
"""Mean residual over mean target up to which residuals are rounding errors."""
NORMAL_IQR = 1.34
"""Distance between the quartiles of a normal distribution, in standard deviations."""


@dataclass(frozen=True)
class ClusterCodes:
    """Groups of dependent rows: a number from 0 for the group of each row."""

    codes: NDArray[np.int32]
    n: int

    @classmethod
    def of(cls, labels: NDArray[Any]) -> ClusterCodes:
        found, codes = np.unique(labels, return_inverse=True)
        return cls(codes.astype(np.int32), len(found))


class InferenceError(ValueError):
    """Standard errors that do not exist or cannot be estimated, and what to do."""


def normal_density(z: Any) -> Any:
    return np.exp(-0.5 * np.square(z)) / math.sqrt(2 * math.pi)


def hall_sheather(quantile: float, n: float, alpha: float = 0.05) -> float:
    """``n^(-1/3) z^(2/3) (1.5 phi^2(q) / (2 q^2 + 1))^(1/3)`` with q the normal quantile."""
    q = float(ndtri(quantile))
    shape = 1.5 * float(normal_density(q)) ** 2 / (2 * q * q + 1)
    return float(n ** (-1 / 3) * ndtri(1 - alpha / 2) ** (2 / 3) * shape ** (1 / 3))


def bofinger(quantile: float, n: float, alpha: float = 0.05) -> float:
    """``n^(-1/5) (4.5 phi^4(q) / (2 q^2 + 1)^2)^(1/5)``: the best mean squared error (alpha has no part in it)."""
    q = float(ndtri(quantile))
    return float(n ** (-1 / 5) * (4.5 * float(normal_density(q)) ** 4 / (2 * q * q + 1) ** 2) ** (1 / 5))


BANDWIDTHS: dict[str, Callable[[float, float, float], float]] = {"hall-sheather": hall_sheather, "bofinger": bofinger}


def inside(quantile: float, bandwidth: float) -> float:
    """The bandwidth, or half the way to 0 or 1 where it would reach beyond."""
    room = min(quantile, 1 - quantile)
    return bandwidth if bandwidth < room else room / 2


@dataclass(frozen=True)
class Survey:
    """One pass around a solution."""

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
    residuals: Sampled
    """Some of the ``w_i u_i``, or all of few."""
    weakest: float = 0.0
    """Smallest pivot of the columns, scaled to norm 1: how far they are from being combinations of one another."""

    @property
    def zero(self) -> float:
        """Size up to which a residual is 0 but for rounding."""
        return ZERO_RESIDUAL * self.mean_size

    @cached_property
    def nonzero(self) -> Sampled:
        """The residuals that are not."""
        return self.residuals.restricted(lambda u: u[np.abs(u) > self.zero])

    @property
    def share_of_zeros(self) -> float:
        return 1 - self.nonzero.n / self.residuals.n


def residuals(design: Design, chunk: Chunk, point: Float) -> Float:
    """``w_i u_i`` of the rows with a positive weight."""
    u = chunk.weight * design.margins(chunk, point)
    return u if chunk.weight.all() else u[chunk.weight > 0]


def survey(run: Run, design: Design, point: Float) -> Survey:
    """What all methods need to know, by one pass."""
    gram, total, size = Products(run, design), np.zeros(4), np.zeros(2)
    sampled = Sampled.planned(run.n_entries)
    step = sampled.step

    def measure(chunk: Chunk, state: Any) -> tuple[Any, None]:
        u = chunk.weight * design.margins(chunk, point)
        some = u[-chunk.start % step :: step][chunk.weight[-chunk.start % step :: step] > 0]
        loss = float(design.loss.values(u).sum())  # w rho(u) = rho(w u)
        sums = np.array([np.count_nonzero(chunk.weight), loss, float(u.sum()), float(u @ u)])
        sizes = np.array([np.abs(u).sum(), chunk.weight @ np.abs(chunk.y)])
        return (gram.of(chunk), sums, sizes, some.copy()), None

    def collect(value: Any) -> None:
        gram.add(value[0])
        total[:] += value[1]
        size[:] += value[2]
        sampled.add(value[3])

    run.map(measure, collect=collect)
    n = int(total[0])
    mean = total[2] / n
    variance = max(total[3] - n * mean * mean, 0.0) / max(n - 1, 1)
    return Survey(
        n, gram.whole(), float(total[1]), float(size[0]) / n, float(size[1]) / n, math.sqrt(variance), sampled
    )


@dataclass(frozen=True)
class Density:
    """``H = sum f_i x_i x_i'`` on centred columns, and what it came from."""

    gram: Float
    sparsity: float
    """1 over the mean density."""
    bandwidth: float
    without: int = 0
    """Rows whose density came out as 0: neighbouring quantiles cross there."""


def siddiqui(run: Run, design: Design, point: Float, seen: Survey, quantile: float, h: float) -> Density:
    """One density for all rows: ``1/f = (Q(tau + h) - Q(tau - h)) / 2h`` of the residuals that are not zero."""

    def values(chunk: Chunk) -> Float:
        u = residuals(design, chunk, point)
        return u[np.abs(u) > seen.zero]

    zeros = seen.share_of_zeros
    if zeros > 2 * h + design.n_variables / seen.n:
        # More than the rows that a solution interpolates: the residuals have an atom where their density is wanted.
        raise InferenceError(no_density(f"{100 * zeros:.0f}% of the residuals are zero"))
    low, high = quantiles(run, values, seen.nonzero, [quantile - h, quantile + h])
    sparsity = (high - low) / (2 * h)
    if not sparsity > seen.zero:
        raise InferenceError(no_density(f"the residuals are tied around their {quantile:g} quantile"))
    return Density(seen.gram / sparsity, sparsity, h)


def neighbours(run: Run, design: Design, low: Float, high: Float, seen: Survey, h: float) -> Density:
    """``f_i = max(0, 2h / (x_i'(b(tau + h) - b(tau - h)) - epsilon))``, from these two points."""
    difference, step = high - low, TINY_DENSITY_STEP * seen.mean_size

    def density(chunk: Chunk) -> Float:
        fitted = chunk @ difference[: design.n_attributes]
        if design.fit_intercept:
            fitted += difference[-1]
        gap = chunk.weight * fitted - step
        return np.divide(2 * h, gap, out=np.zeros_like(gap), where=gap > 0)

    found = _weighted_gram(run, design, seen, density)
    if found.total == 0:
        raise InferenceError(no_density("the fits at the two neighbouring quantiles coincide or cross everywhere"))
    return Density(found.gram, seen.n / found.total, h, found.without)


def kernel(run: Run, design: Design, point: Float, seen: Survey, quantile: float, h: float) -> Density:
    """Powell's estimate with a Gaussian kernel: ``f_i = phi(u_i / c) / c`` with
    ``c = min(sd, IQR / 1.34) (Phi^-1(tau + h) - Phi^-1(tau - h))``."""
    low, high = quantiles(run, lambda chunk: residuals(design, chunk, point), seen.residuals, [0.25, 0.75])
    scale = min(seen.deviation, (high - low) / NORMAL_IQR)
    c = _width(scale, seen, quantile, h)
    return _around(run, design, point, seen, c, lambda u: np.asarray(normal_density(u / c) / c))


def uniform(run: Run, design: Design, point: Float, seen: Survey, quantile: float, h: float) -> Density:
    """``f_i = 1(|u_i| < c) / 2c`` with c as above, but for the scale the median absolute deviation."""

    def values(chunk: Chunk) -> Float:
        return residuals(design, chunk, point)

    (middle,) = quantiles(run, values, seen.residuals, [0.5])
    few = seen.residuals.restricted(lambda u: np.abs(u - middle))
    (scale,) = quantiles(run, lambda chunk: np.abs(values(chunk) - middle), few, [0.5])
    c = _width(scale, seen, quantile, h)
    return _around(run, design, point, seen, c, lambda u: (np.abs(u) < c) / (2 * c))


def _width(scale: float, seen: Survey, quantile: float, h: float) -> float:
    """``c = scale (Phi^-1(tau + h) - Phi^-1(tau - h))``, within which there are more rows than the fit interpolates."""
    c = scale * float(ndtri(quantile + h) - ndtri(quantile - h))
    if not c > seen.zero or c == 0:
        raise InferenceError(no_density("half of the residuals are equal"))
    if not (np.abs(seen.nonzero.values) < c).any():
        raise InferenceError(no_density(f"no residual lies within the bandwidth {c:.3g}"))
    return c


def _around(
    run: Run, design: Design, point: Float, seen: Survey, c: float, density: Callable[[Float], Float]
) -> Density:
    """The estimate of a kernel: a density of each row by its ``w_i u_i``."""
    found = _weighted_gram(run, design, seen, lambda chunk: density(chunk.weight * design.margins(chunk, point)))
    return Density(found.gram, seen.n / found.total, c)


@dataclass(frozen=True)
class _Summed:
    gram: Float
    total: float
    without: int


def _weighted_gram(run: Run, design: Design, seen: Survey, density: Callable[[Chunk], Float]) -> _Summed:
    """``sum_i f_i w_i^2 x_i x_i'``, by one pass over the rows whose density is not zero."""
    # Sums about zero lose the digits that squared means have more than variances.
    lost = design.weight * design.centre**2 / np.maximum(design.column_squares[: design.n_attributes], 1e-300)
    rounded = seen.weakest**2 >= ROUNDED_PIVOT * (1 + lost.max(initial=0.0))
    gram, without = Products(run, design, rounded), 0
    total: list[float] = []

    def measure(chunk: Chunk, state: Any) -> tuple[Any, None]:
        f = np.where(chunk.weight > 0, density(chunk), 0.0)
        used = np.count_nonzero(f)
        missing = np.count_nonzero(chunk.weight) - used
        if used == 0:
            return (None, 0.0, missing), None
        if used < chunk.n_entries // 2:
            few = np.flatnonzero(f)
            return (gram.of(chunk.select(few), f[few]), float(f.sum()), missing), None
        return (gram.of(chunk, f), float(f.sum()), missing), None

    def collect(value: Any) -> None:
        nonlocal without
        if value[0] is not None:
            gram.add(value[0])
        total.append(value[1])
        without += value[2]

    run.map(measure, collect=collect)
    return _Summed(gram.whole(), math.fsum(total), without)


def cluster_scores(
    run: Run, design: Design, point: Float, seen: Survey, quantile: float, clusters: ClusterCodes
) -> Float:
    """``M = sum_g s_g s_g'`` with ``s_g`` the sum of ``w_i x_i (tau - 1(u_i <= 0))`` over the rows of cluster g.

    The p rows that the solution interpolates have residuals of rounding errors, which count as 0.
    """
    sums = np.zeros((clusters.n, design.n_variables))
    zero = seen.zero

    def measure(chunk: Chunk, state: Any) -> tuple[Any, None]:
        u = design.margins(chunk, point)
        here, codes = np.unique(clusters.codes[chunk.start : chunk.stop], return_inverse=True)
        score = chunk.weight * (quantile - (chunk.weight * u <= zero))
        part = np.empty((len(here), design.n_variables))
        part[:, : design.n_attributes] = chunk.sums_by(codes, len(here), score)
        total = np.bincount(codes, weights=score, minlength=len(here))
        part[:, : design.n_attributes] -= np.outer(total, design.centre)
        if design.fit_intercept:
            part[:, -1] = total
        return (here, part), None

    def collect(value: Any) -> None:
        sums[value[0]] += value[1]

    run.map(measure, collect=collect)
    return np.asarray(sums.T @ sums)


def check_rank(gram: Float, names: list[str]) -> float:
    """Refuse columns that are combinations of others, by name; the smallest pivot of the others."""
    size = np.sqrt(gram.diagonal())
    empty = np.flatnonzero(~(size > 0))
    if len(empty):
        raise InferenceError(
            f"Standard errors do not exist: column {names[int(empty[0])]} is constant or zero. Leave it out."
        )
    factor, pivots, rank, _ = linalg.lapack.dpstrf(gram / np.outer(size, size), tol=SINGULAR * len(gram))
    if rank < len(gram):
        raise InferenceError(
            f"Standard errors do not exist: column {names[int(pivots[rank]) - 1]} is a linear combination of the other "
            f"columns (X has rank {rank} of {len(gram)} columns, the intercept included). Leave it out."
        )
    return float(np.diag(factor).min())


def sandwich(H: Float, M: Float) -> Float:
    """``H^-1 M H^-1``; an error where H is singular."""
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
    """The covariance of (intercept, slopes) from that of (slopes, intercept on centred columns)."""
    if not design.fit_intercept:
        return covariance
    p = design.n_variables
    back = np.zeros((p, p))
    back[0, :-1], back[0, -1] = -design.centre, 1.0
    back[1:, :-1] = np.eye(p - 1)
    return np.asarray(back @ covariance @ back.T)


def uncentred_gram(design: Design, gram: Float) -> Float:
    """``sum w_i^2 x_i x_i'`` with the intercept first, from the same of centred rows with the intercept last."""
    if not design.fit_intercept:
        return gram
    p = design.n_variables
    rows = np.zeros((p, p))  # x = rows @ (x - centre, 1)
    rows[0, -1] = 1.0
    rows[1:, :-1], rows[1:, -1] = np.eye(p - 1), design.centre
    return np.asarray(rows @ gram @ rows.T)


def no_density(why: str) -> str:
    return f'The density of the residuals cannot be estimated: {why}. Use se="bootstrap", or another bandwidth.'
