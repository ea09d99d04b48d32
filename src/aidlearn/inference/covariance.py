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

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg
from scipy.special import ndtri

from aidlearn.data.passes.run import total
from aidlearn.data.rows.chunk import Chunk
from aidlearn.inference.survey import InferenceError, Survey, centred_gram
from aidlearn.linear.model.design import Design
from aidlearn.numerics import Float


@dataclass(frozen=True)
class CovarianceSettings:
    """Tolerances of the covariance estimates, and thresholds below which the density counts as zero."""

    singular_pivot: float = 1e-13
    """Guess. Relative pivot of a Gram matrix, per column, up to which a column is a combination of the others."""
    least_quantile_step: float = 1e-8
    """Guess. Fraction of the mean residual that is subtracted from differences of fitted quantiles (epsilon of
    :func:`hendricks_koenker`)."""
    enough_rows: int = 30
    """Minimum expected number of rows between the neighbouring fits for a meaningful count: fewer than a tenth of 30
    rows fall into the middle half with probability 1 % if a quarter is expected there, 3e-7 if half is."""
    sparse_share: float = 0.45
    """Guess. The density may be zero if less than this fraction of the residuals between the two quantiles lies in the
    middle half."""
    empty_share: float = 0.1
    """The density is zero if less than this fraction of the expected rows lies in the middle half (see
    ``enough_rows``)."""


SETTINGS = CovarianceSettings()


def normal_density(z: ArrayLike) -> Float:
    """Return the standard normal density."""
    return np.asarray(np.exp(-0.5 * np.square(z)) / math.sqrt(2 * math.pi))


def hall_sheather(quantile: float, n: int) -> float:
    """Return ``n^(-1/3) z^(2/3) (1.5 phi^2(q) / (2 q^2 + 1))^(1/3)``.

    q and z are the standard normal quantiles at tau and 97.5 %.
    """
    q = float(ndtri(quantile))
    shape = 1.5 * float(normal_density(q)) ** 2 / (2 * q * q + 1)
    return float(n ** (-1 / 3) * ndtri(0.975) ** (2 / 3) * shape ** (1 / 3))


def bofinger(quantile: float, n: int) -> float:
    """Return ``n^(-1/5) (4.5 phi^4(q) / (2 q^2 + 1)^2)^(1/5)``, which minimises the mean squared error."""
    q = float(ndtri(quantile))
    return float(n ** (-1 / 5) * (4.5 * float(normal_density(q)) ** 4 / (2 * q * q + 1) ** 2) ** (1 / 5))


BANDWIDTHS = {"hall-sheather": hall_sheather, "bofinger": bofinger}


def bandwidth(name: str, quantile: float, n: int) -> float:
    """Return the named bandwidth, or half the distance to 0 or 1 if it would reach beyond."""
    h, room = BANDWIDTHS[name](quantile, n), min(quantile, 1 - quantile)
    return h if h < room else room / 2


# Densities


@dataclass(frozen=True)
class Density:
    """``H = sum f_i x_i x_i'`` on centred columns, with the sparsity and bandwidth of the estimate."""

    gram: Float
    sparsity: float
    """Reciprocal of the mean density."""
    bandwidth: float
    without: int = 0
    """Number of rows whose estimated density is 0."""


def siddiqui(seen: Survey, h: float) -> Density:
    """Estimate one density for all rows: ``1/f = (Q(tau + h) - Q(tau - h)) / 2h``, Q of the nonzero residuals."""
    zeros = seen.share_of_zeros
    if zeros > 2 * h + seen.design.n_variables / seen.n:
        # These are more rows than a solution interpolates: the residuals have an atom at the quantile.
        raise InferenceError(no_density(f"{100 * zeros:.0f}% of the residuals are zero"))
    low, high = seen.quantiles([seen.quantile - h, seen.quantile + h], seen.nonzero)
    sparsity = (high - low) / (2 * h)
    if not sparsity > seen.zero:
        raise InferenceError(no_density(f"the residuals are tied around their {seen.quantile:g} quantile"))
    return Density(seen.gram / sparsity, sparsity, h)


def hendricks_koenker(seen: Survey, h: float, low: Float, high: Float) -> Density:
    """Estimate ``f_i = max(0, 2h / (x_i'(b(tau + h) - b(tau - h)) - epsilon))`` from the fits ``low`` and ``high``."""
    design, difference = seen.design, high - low
    epsilon = SETTINGS.least_quantile_step * seen.mean_size

    def density(chunk: Chunk) -> Float:
        fitted = chunk @ difference[: design.n_attributes]
        if design.fit_intercept:
            fitted += difference[-1]
        step = chunk.weight * fitted - epsilon
        return np.divide(2 * h, step, out=np.zeros_like(step), where=step > 0)

    return _density(seen, h, density)


def gaussian_kernel(seen: Survey, h: float) -> Density:
    """Compute Powell's estimate ``f_i = phi(u_i / c) / c`` with
    ``c = min(sd, IQR / 1.34) (Phi^-1(tau + h) - Phi^-1(tau - h))``."""
    low, high = seen.quantiles([0.25, 0.75])
    c = _kernel_width(seen, h, min(seen.deviation, (high - low) / 1.34))
    return _density(seen, c, lambda chunk: normal_density(seen.residuals(chunk) / c) / c)


def uniform_kernel(seen: Survey, h: float) -> Density:
    """Estimate ``f_i = 1(|u_i| < c) / 2c``, c as in :func:`gaussian_kernel` but with the median absolute deviation."""
    (middle,) = seen.quantiles([0.5])
    (scale,) = seen.quantiles([0.5], lambda u: np.abs(u - middle))
    c = _kernel_width(seen, h, scale)
    return _density(seen, c, lambda chunk: (np.abs(seen.residuals(chunk)) < c) / (2 * c))


def _kernel_width(seen: Survey, h: float, scale: float) -> float:
    """Return ``c = scale (Phi^-1(tau + h) - Phi^-1(tau - h))``; refuse it if no nonzero residual lies within c."""
    c = scale * float(ndtri(seen.quantile + h) - ndtri(seen.quantile - h))
    if not c > seen.zero or c == 0:
        raise InferenceError(no_density("half of the residuals are equal"))
    if not (np.abs(seen.nonzero(seen.sample)) < c).any():
        raise InferenceError(no_density(f"no residual lies within the bandwidth {c:.3g}"))
    return c


def _density(seen: Survey, bandwidth: float, density: Callable[[Chunk], Float]) -> Density:
    """Sum ``f_i x_i x_i'`` over the rows by one pass, given the density of each row."""

    def measure(chunk: Chunk) -> tuple[Float, tuple[float, int]]:
        f = np.where(chunk.weight > 0, density(chunk), 0.0)
        return f, (float(f.sum()), int(np.count_nonzero(chunk.weight) - np.count_nonzero(f)))

    gram, parts = centred_gram(seen.run, seen.design, measure)
    total = math.fsum(f for f, _ in parts)
    if total == 0:
        raise InferenceError(no_density("the fits at the two neighbouring quantiles coincide or cross everywhere"))
    return Density(gram, seen.n / total, bandwidth, sum(without for _, without in parts))


# If the density is zero, the fit may lie anywhere between two groups of residuals: it tilts, and jumps from one edge to
# the other with the sample. A kernel sees one edge and estimates a large density; a difference quotient measures the
# width between the groups. The fits at tau - h and tau + h lie beyond the edges. If the density is positive, about half
# of the 2 h n rows between these fits lie in the middle half of the distance (a quarter of them in the tails of a
# Pareto distribution without a mean); if it is zero, almost none do.


def may_be_zero(seen: Survey, h: float) -> bool:
    """Return whether the residuals of the fit are sparse around zero; a tilted fit hides part of an empty interval."""
    u = seen.sample
    if 2 * h * seen.n < SETTINGS.enough_rows:
        return False
    low, high = np.quantile(u, [seen.quantile - h, seen.quantile + h])
    between = u[(u > low) & (u < high)]
    quarter = (high - low) / 4
    middle = np.count_nonzero((between > low + quarter) & (between < high - quarter) & (between != 0))
    return bool(middle < SETTINGS.sparse_share * len(between) or len(between) == 0)


def refuse_zero(seen: Survey, h: float, low: Float, high: Float) -> None:
    """Refuse a density of zero between the fits ``low`` and ``high`` at the quantiles ``tau -+ h``, by one pass."""
    design, tau = seen.design, seen.quantile

    def in_the_middle(chunk: Chunk) -> Float:
        below, above = design.margins(chunk, low), design.margins(chunk, high)
        width = below - above
        # At an atom both planes coincide, up to rounding, and its rows lie on them: the density is not zero.
        within = (below >= 0.25 * width - seen.zero) & (below <= 0.75 * width + seen.zero) & (chunk.weight > 0)
        return np.array([np.count_nonzero(within)], dtype=np.float64)

    middle, expected = int(total(seen.run, in_the_middle)[0]), 2 * h * seen.n
    if middle < SETTINGS.empty_share * expected:
        raise InferenceError(
            f"The density of the residuals cannot be estimated: they leave a gap at their {tau:g} quantile (of "
            f"{expected:.0f} rows between the fits at quantiles {tau - h:.3g} and {tau + h:.3g}, {middle} "
            'lie in the middle half). Use se="rank" (for few rows) or se="bootstrap", or add a jitter to rounded '
            "targets."
        )


def no_density(why: str) -> str:
    """Return the message that the density cannot be estimated."""
    return f'The density of the residuals cannot be estimated: {why}. Use se="bootstrap", or another bandwidth.'


# Matrices


def check_full_rank(gram: Float, names: list[str]) -> None:
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
    """Return ``H^-1 M H^-1``; refuse a singular H."""
    size = np.sqrt(np.maximum(H.diagonal(), 0.0))
    if not (size > 0).all():
        raise InferenceError(no_density("some column has no row with a positive density"))
    scale = np.outer(size, size)
    refusal = InferenceError(no_density("the density is zero in some direction of the columns"))
    try:
        factor = linalg.cho_factor(H / scale)
    except linalg.LinAlgError:
        raise refusal from None
    half = linalg.cho_solve(factor, M / scale)
    found = linalg.cho_solve(factor, half.T) / scale
    if not np.isfinite(found).all() or (found.diagonal() <= 0).any():
        raise refusal
    return np.asarray((found + found.T) / 2)


def uncentred(design: Design, matrix: Float, *, of_rows: bool = False) -> Float:
    """Return the covariance of (intercept, slopes) from that of (slopes, intercept on centred columns).

    With ``of_rows``, the matrix is a Gram matrix of rows instead of a covariance.
    """
    if not design.fit_intercept:
        return matrix
    back = np.zeros_like(matrix)
    back[0, -1] = 1.0
    back[1:, :-1] = np.eye(design.n_attributes)
    if of_rows:
        back[1:, -1] = design.centre
    else:
        back[0, :-1] = -design.centre
    return np.asarray(back @ matrix @ back.T)
