"""A warm start of the interior point where its matrices are large: Newton's method on the smoothed loss.

Far from the optimum an interior point weighs all rows, and each of its steps takes the Gram matrix of all of them.
With hinges rounded over a width h only rows within h / 2 of their kink have curvature,

    u_k = s_k clip(1/2 + z_k / h, 0, 1),      (P + A_B' diag(s_B / h) A_B) d = A'u - q - P w,

where B are these rows and q = A'(c s). As h shrinks, B shrinks to about as many rows as there are variables. The path
of minimisers is piecewise linear in h, so each width begins with a step that keeps B; then steps are searched along
until their gain is small compared with the cost of rounding. Nothing is proven here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from aidlearn.linear.aggregated.hinge_rows import HingeRows
from aidlearn.linear.rows.matrix import Dense, weighted_gram
from aidlearn.numerics import Float


@dataclass(frozen=True)
class SmoothingSettings:
    """Numbers of the smoothed Newton method."""

    worthwhile: float = 2e9
    """Operations of a Gram matrix of all rows below which a warm start gains nothing."""
    many_rows: int = 4
    """Rows per variable below which B is hardly smaller than the set of all rows."""
    most_steps: int = 40
    """Guess. Maximum number of Newton steps over all widths."""
    direct: float = 2.5
    """Rows per variable up to which a Gram matrix costs less than conjugate gradients."""
    cg_steps: int = 25
    """Guess. Maximum number of conjugate gradient steps."""
    cg_accuracy: float = 0.1
    """Guess. Residual of conjugate gradients, relative to the right-hand side."""
    shrink: float = 0.3
    """Guess. Factor from one width to the next."""
    settled: float = 0.5
    """Guess. Gain of a step, relative to the cost of rounding, below which a width is finished."""
    few: float = 1.3
    """Rows of B per variable at which the interior point takes over: fewer leave directions without curvature."""
    ring: float = 1.0
    """Distance beyond B, in widths, within which rows have some curvature after a short step, which was short because
    they entered B."""
    ring_weight: float = 0.1
    """Guess. Curvature of these rows, relative to that of rows in B."""
    widest_share: float = 0.15
    """Guess. Least share of the rows that the first width holds."""


SETTINGS = SmoothingSettings()


@dataclass(frozen=True)
class WarmStart:
    """A point close to the minimiser of the loss rounded over a width."""

    w: Float
    width: float


def worthwhile(rows: HingeRows) -> bool:
    """Whether an interior point would spend most of its time on Gram matrices of all rows."""
    K, p = rows.A.shape
    if rows.constrained or not isinstance(rows.A, Dense):
        return False
    return SETTINGS.many_rows * p <= K and float(K) * p * p >= SETTINGS.worthwhile


def warm_start(rows: HingeRows, w: Float, deadline: float = math.inf) -> WarmStart:
    """Follow the minimisers of the rounded loss down to about as many rows as variables."""
    path = _Path(rows, w)
    done = WarmStart(path.w.copy(), path.width)
    predict = False
    for _ in range(SETTINGS.most_steps):
        if time.monotonic() > deadline:
            break
        gain, length, near = path.step(predict)
        cost = path.rounding_cost()
        if predict or gain > SETTINGS.settled * cost or length < SETTINGS.shrink:
            predict = False
            continue
        done = WarmStart(path.w.copy(), path.width)
        if near <= SETTINGS.few * len(w):
            break
        path.width *= SETTINGS.shrink
        predict = True
    return done


class _Path:
    """The point, its margins, and the width."""

    def __init__(self, rows: HingeRows, w: Float) -> None:
        assert isinstance(rows.A, Dense)
        self.rows, self.w, self.array = rows, w.copy(), rows.A.array
        K, p = self.array.shape
        self.z = rows.margins(w)
        share = min(1.0, max(SETTINGS.widest_share, SETTINGS.direct * p / K))
        distance = np.abs(self.z)
        # A little more than twice the distance, so that rows all at the same one are inside.
        self.width = 2.2 * max(float(np.quantile(distance, share)), 1e-6 * float(distance.mean()), 1e-150)
        self.linear = rows.A.T @ (rows.tilt * rows.weight)
        self.near = np.zeros(K, dtype=bool)
        self.short = False

    def rounding_cost(self) -> float:
        """Difference between the value at the point and that of the dual, if that were feasible."""
        rows, part = self.rows, np.clip(0.5 + self.z / self.width, 0.0, 1.0)
        return float(rows.weight @ (np.maximum(self.z, 0.0) - part * self.z))

    def step(self, predict: bool) -> tuple[float, float, int]:
        """Take one step; the gain that its slope promised, its length, and the number of rows with curvature."""
        rows, z, width = self.rows, self.z, self.width
        part = 0.5 + z / width
        if not predict:
            self.near = (part > 0) & (part < 1)
        part = np.where(self.near, part, np.clip(part, 0.0, 1.0))
        gradient = rows.ridge * self.w - (rows.A.T @ (rows.weight * part) - self.linear)
        curvature = np.where(self.near, rows.weight / width, 0.0)
        if self.short and not predict:
            ring = ~self.near & (np.abs(z) < (0.5 + SETTINGS.ring) * width)
            curvature[ring] = SETTINGS.ring_weight * rows.weight[ring] / width
        change = self._direction(gradient, curvature)
        moved = rows.A @ change
        length = self._search(change, moved)
        self.w += length * change
        self.z = z - length * moved
        self.short = predict or length < 0.9
        return -float(gradient @ change), length, int(self.near.sum())

    def _direction(self, gradient: Float, curvature: Float) -> Float:
        """Minus the gradient in the metric of the curvature, by a Gram matrix or by conjugate gradients."""
        ridge, p = self.rows.ridge, len(self.w)
        used = np.flatnonzero(curvature)
        D = curvature[used]
        most = len(used) > 0.7 * len(curvature)
        if len(used) <= 2 * SETTINGS.direct * p:
            matrix = weighted_gram(self.array[used], D, self.rows.n_jobs)
            diagonal = matrix.diagonal() + ridge
            np.fill_diagonal(matrix, diagonal + 1e-10 * max(float(diagonal.max()), 1e-300))
            upper, failed = linalg.lapack.dpotrf(matrix, clean=0)
            if not failed:
                return np.asarray(linalg.lapack.dpotrs(upper, -gradient)[0])
        B = self.array if most else self.array[used]
        D = curvature if most else D
        diagonal = ridge + np.einsum("ij,ij,i->j", B, B, D, optimize=False)
        diagonal += 1e-10 * max(float(diagonal.max()), 1e-300)

        def times(v: Float) -> Float:
            return np.asarray(ridge * v + B.T @ (D * (B @ v)) + 1e-10 * diagonal * v)

        return conjugate_gradients(times, -gradient, diagonal)

    def _search(self, change: Float, moved: Float) -> float:
        """About the minimiser of the rounded loss along a direction: the root of its slope, which is monotone."""
        rows, z, width = self.rows, self.z, self.width
        square, product = float(rows.ridge @ change**2), float((rows.ridge * self.w) @ change)
        product += float(self.linear @ change)
        weighted = rows.weight * moved

        def slope(t: float) -> float:
            return product + t * square - float(weighted @ np.clip(0.5 + (z - t * moved) / width, 0.0, 1.0))

        first = slope(0.0)
        low, high, at_low, at_high = 0.0, 1.0, first, slope(1.0)
        if first >= 0 or abs(at_high) <= 0.1 * abs(first):
            return 1.0 if first < 0 else 0.0
        while at_high < 0 and high < 64:
            low, at_low, high = high, at_high, 2 * high
            at_high = slope(high)
        t = high
        for _ in range(12):
            t = low + (high - low) * min(0.9, max(0.1, at_low / (at_low - at_high))) if at_high > 0 else high
            there = slope(t)
            if abs(there) <= 0.05 * abs(first) or at_high <= 0:
                break
            if there < 0:
                low, at_low = t, there
            else:
                high, at_high = t, there
        return t


def conjugate_gradients(times: Callable[[Float], Float], right: Float, diagonal: Float) -> Float:
    """A rough solution of a positive definite system, scaled by its diagonal."""
    x = np.zeros_like(right)
    residual = right.copy()
    scaled = residual / diagonal
    direction = scaled.copy()
    square = float(residual @ scaled)
    enough = SETTINGS.cg_accuracy**2 * square
    for _ in range(SETTINGS.cg_steps):
        if square <= enough:
            break
        image = times(direction)
        length = square / float(direction @ image)
        x += length * direction
        residual -= length * image
        scaled = residual / diagonal
        before, square = square, float(residual @ scaled)
        direction = scaled + (square / before) * direction
    return x
