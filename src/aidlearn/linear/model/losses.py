"""Losses as sums of tilted hinges at their kinks.

    loss(z) = scale * sum_j J_j max((1 - c_j)(z - k_j), -c_j (z - k_j))

A loss is described by its kinks k_j (ascending), their tilts c_j and the jumps J_j of its slope there; the region of
an entry is the linear piece its margin z lies on. Convexity makes the aggregated problem a lower bound (Jensen).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aidlearn.numerics import Float


@dataclass(frozen=True)
class Loss:
    """A convex piecewise-linear loss of the margin ``z = e - sign * (x'w + b)``."""

    scale: float
    kinks: tuple[float, ...]
    tilts: tuple[float, ...]
    jumps: tuple[float, ...] = ()
    """Jumps of the slope at the kinks, in units of the scale (empty: all are 1)."""

    @property
    def parts(self) -> list[tuple[float, float, float]]:
        """Kink, tilt and jump of each part."""
        return list(zip(self.kinks, self.tilts, self.jumps or (1.0,) * len(self.kinks), strict=True))

    @property
    def n_regions(self) -> int:
        return len(self.kinks) + 1

    @property
    def positive(self) -> float:
        """Number of the positive class; NaN if targets are numbers."""
        return math.nan

    def packed(self) -> Float:
        """The loss as compiled passes take it: ``(scale, positive, rest, k_1, right_1, left_1, J_1, k_2, ...)``.

        ``rest`` is the sum of the mean slopes of its hinges; each hinge has its kink, the slopes to its right and left,
        and their difference, the jump.
        """
        rest = sum(jump * (0.5 - tilt) for _, tilt, jump in self.parts)
        hinges = [(kink, (1.0 - tilt) * jump, -tilt * jump, jump) for kink, tilt, jump in self.parts]
        return np.array([self.scale, self.folding, rest, *(value for hinge in hinges for value in hinge)])

    @property
    def folding(self) -> float:
        """The ``positive`` by which passes over many members and compiled ones fold targets as :meth:`fold` does."""
        if type(self).fold not in (Loss.fold, Hinge.fold):
            raise NotImplementedError(
                f"{type(self).__name__} folds targets in its own way, which these passes do not know: add it to "
                "`folded` in linear/passes/kernels.py and to `_folded` in linear/passes/in_numpy.py."
            )
        return self.positive

    def fold(self, y: Float) -> tuple[Float | None, Float | float]:
        """``sign, e`` of entries with target y; a sign of None means 1 for all."""
        return None, y

    def margins(self, y: Float, score: Float) -> Float:
        """``z = e - sign * score`` of entries with target y and score ``x'w + b``."""
        sign, e = self.fold(y)
        return e - (score if sign is None else sign * score)

    @property
    def classifies(self) -> bool:
        """Whether targets are classes (folded into the sign) rather than numbers."""
        return False

    def position(self, y: Float, z: Float) -> Float:
        """Columns: a group never clustered with others, then what the paper's k-means compares."""
        return np.column_stack([np.zeros_like(z), z, y])

    def paper_rate(self, n: int, m: int) -> float:
        """Initial aggregation rate r^0 of the paper's section 4."""
        return max((3 if m * n > 5e8 else 2) * m / n, 0.0005)

    def values(self, z: Float) -> Float:
        """Loss of each margin."""
        total = np.zeros_like(z)
        for kink, tilt, jump in self.parts:
            from_kink = z - kink if kink else z
            part = np.maximum((1 - tilt) * from_kink, -tilt * from_kink)
            total += part if jump == 1 else jump * part
        return total if self.scale == 1 else self.scale * total

    def slopes(self, z: Float) -> Float:
        """Slope of the loss at each margin; on a kink that of the piece below it."""
        total = np.zeros_like(z)
        for kink, tilt, jump in self.parts:
            total += jump * ((z > kink) - tilt)
        return self.scale * total

    def distance(self, z: Float) -> Float:
        """Distance of each margin to the nearest kink."""
        nearest = np.abs(z - self.kinks[0])
        for kink in self.kinks[1:]:
            np.minimum(nearest, np.abs(z - kink), out=nearest)
        return nearest

    def smoothed(self, z: Float, width: Float) -> tuple[Float, NDArray[np.intp], Float]:
        """Slope of the loss with every kink rounded off over ``+- width``, and where it is curved.

        Returns the slope of every margin, the rows within the width of a kink and their second derivative,
        ``scale / (2 width)`` for each such kink.
        """
        slope = np.full_like(z, sum(jump * (0.5 - tilt) for _, tilt, jump in self.parts))
        rows, curvatures = [], []
        for kink, _, jump in self.parts:
            relative = (z - kink if kink else z) / width
            rows.append(np.flatnonzero(np.abs(relative) < 1))
            curvatures.append(np.full(len(rows[-1]), jump))
            np.minimum(relative, 1.0, out=relative)
            np.maximum(relative, -1.0, out=relative)
            relative *= 0.5 * jump
            slope += relative
        near, curvature = rows[0], curvatures[0]
        if len(rows) > 1:
            near, which = np.unique(np.concatenate(rows), return_inverse=True)
            curvature = np.bincount(which, weights=np.concatenate(curvatures), minlength=len(near))
        if self.scale != 1:
            slope *= self.scale
        return slope, near, self.scale * curvature / (2 * width[near])


def pinball(quantile: float) -> Loss:
    """Check function of quantile regression: ``max(tau z, (tau - 1) z)``."""
    return Loss(1.0, (0.0,), (1.0 - quantile,))


def absolute() -> Loss:
    """``|z|``, twice the check function of the median."""
    return Loss(2.0, (0.0,), (0.5,))


@dataclass(frozen=True)
class Hinge(Loss):
    """``C max(0, 1 - label * score)``; the label is +1 for the class with index ``positive``, else -1."""

    positive: float = 1.0

    def fold(self, y: Float) -> tuple[Float | None, Float | float]:
        return np.where(y == self.positive, 1.0, -1.0), 1.0

    @property
    def classifies(self) -> bool:
        return True

    def position(self, y: Float, z: Float) -> Float:
        return np.column_stack([y == self.positive, z])

    def paper_rate(self, n: int, m: int) -> float:
        return max(1.1 * m / n, 0.0001)


def one_class(nu: float, weight: float) -> Loss:
    """The loss of the one-class SVM whose linear term is absorbed (see :mod:`aidlearn.estimators.linear.one_class`)."""
    return Loss(1.0 / (nu * weight), (0.0,), (nu,))


def hinge(C: float, positive: float = 1.0) -> Hinge:
    """Hinge loss of the SVM."""
    return Hinge(C, (0.0,), (0.0,), positive=positive)


def piecewise_linear(kinks: Sequence[float], slopes: Sequence[float]) -> Loss:
    """The convex function with these slopes left of, between and right of its kinks, whose smallest value is 0.

    Slopes ascend from one that is not positive to one that is not negative. Hinges left of the smallest value turn
    left, those right of it right, and one kink between them does both.
    """
    jumps = np.diff(np.asarray(slopes, dtype=np.float64))
    scale = float(jumps.max())
    tilts = np.clip(-np.asarray(slopes[:-1], dtype=np.float64) / jumps, 0.0, 1.0)
    even = bool((jumps == scale).all())
    return Loss(scale, tuple(map(float, kinks)), tuple(tilts.tolist()), () if even else tuple((jumps / scale).tolist()))


def epsilon_insensitive(C: float, epsilon: float) -> Loss:
    """``C max(0, |z| - epsilon)``, as a hinge on either side of the tube."""
    if epsilon == 0:
        return Loss(2 * C, (0.0,), (0.5,))
    return Loss(C, (-epsilon, epsilon), (1.0, 0.0))
