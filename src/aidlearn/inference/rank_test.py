"""Confidence intervals of quantile regression coefficients by inverting a rank test (Koenker 1994), for small data.

For coefficient j, regress ``y - x_j b`` on the other columns at quantile tau. The dual solution p (the regression rank
scores less ``1 - tau``) gives the test that the coefficient is b,

    T(b) = x_j'p(b) / sqrt(tau (1 - tau) |x_j less its projection on the others|^2),

asymptotically standard normal for iid errors and a decreasing step function of b. The interval is where |T| does not
exceed its critical value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from aidlearn.data.passes.run import Run, fold
from aidlearn.data.rows.chunk import Chunk
from aidlearn.numerics import Float


@dataclass(frozen=True)
class RankTestSettings:
    """Limits of the rank test."""

    most_rows: int = 2000
    """Maximum number of rows: every interval takes about a hundred linear programs on all rows."""
    precision: float = 1e-7
    """Guess. Accuracy of the ends of an interval, relative to the width of the first bracket."""
    doublings: int = 60
    """Maximum doublings of the first bracket: 2^60 times its width counts as infinite."""


SETTINGS = RankTestSettings()


def weighted_rows(run: Run, fit_intercept: bool) -> tuple[Float, Float]:
    """Read X (with the intercept first) and y of the rows with a positive weight, multiplied by it, by one pass."""
    parts: list[tuple[Float, Float]] = []

    def read(chunk: Chunk) -> tuple[Float, Float]:
        w = chunk.weight[:, None]
        rows = chunk.dense_rows(slice(None))
        X = np.hstack([np.ones_like(w), rows]) if fit_intercept else rows
        used = chunk.weight > 0
        return (X * w)[used], (chunk.y * chunk.weight)[used]

    fold(run, read, parts.append)
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])


class RankTest:
    """The statistic T(b) of coefficient j."""

    def __init__(self, X: Float, y: Float, j: int, quantile: float) -> None:
        self.x, self.y = X[:, j], y
        self.others = np.delete(X, j, axis=1)
        self.bounds = np.tile([quantile - 1, quantile], (len(y), 1))
        rest = self.x - self.others @ np.linalg.lstsq(self.others, self.x, rcond=None)[0]
        self.scale = float(np.sqrt(quantile * (1 - quantile) * rest @ rest))

    def __call__(self, b: float) -> float:
        """Solve the dual linear program at b."""
        z = self.y - self.x * b
        size = float(np.abs(z).max()) or 1.0
        zero = np.zeros(self.others.shape[1])
        found = optimize.linprog(-z / size, A_eq=self.others.T, b_eq=zero, bounds=self.bounds, method="highs")
        if found.x is None:
            raise ArithmeticError(f"The linear program of a rank test failed: {found.message}")
        return float(self.x @ found.x) / self.scale

    def crossing(self, critical: float, inside: float, step: float) -> float:
        """Find where T passes a critical value, from a point ``inside`` the interval in the direction of ``step``."""
        sign = -1.0 if step > 0 else 1.0  # T decreases
        for _ in range(SETTINGS.doublings):
            end = inside + step
            if sign * self(end) > critical:
                break
            step *= 2
        else:
            return math.copysign(math.inf, step)
        while abs(end - inside) > SETTINGS.precision * abs(step):
            middle = (inside + end) / 2
            inside, end = (inside, middle) if sign * self(middle) > critical else (middle, end)
        return (inside + end) / 2
