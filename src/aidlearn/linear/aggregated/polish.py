"""From an interior point to the exact solution: guess the rows on their kink and solve for them.

With B the rows on the kink and p at a bound elsewhere, the optimum solves the linear system

    P w - A_B' p_B = A_N' p_N - q,      A_B w = e_B.

A constraint is on its kink if it holds with equality.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import optimize

from aidlearn.linear.aggregated.certificate import Certificate, certify
from aidlearn.linear.aggregated.hinge_rows import EPS, HingeRows
from aidlearn.numerics import Float


@dataclass(frozen=True)
class PolishSettings:
    """Settings of the polishing step."""

    proven: float = 1e-12
    """Relative gap below which the certificate is not improved further."""
    on_kink: float = 1e-9
    """Distance from the kinks, relative to the largest margin, above which the guess of rows on them is rejected."""
    box_steps: int = 30
    """Maximum number of steps to a solution inside the box. A dozen usually suffice; if thirty do not, only rounding
    errors remain."""
    kinks_per_variable: int = 4
    """Guess. Maximum number of rows on their kinks, per variable and in addition to ``more_kinks``, for polishing."""
    more_kinks: int = 50
    """Guess. Number of rows on their kinks for polishing, in addition to ``kinks_per_variable``."""


SETTINGS = PolishSettings()


@dataclass(frozen=True)
class Polished:
    """An exact solution on the guessed rows, and its certificate."""

    w: Float
    certificate: Certificate


def polish(rows: HingeRows, w: Float, dual: Float) -> Polished | None:
    """Solve exactly on the rows that an almost optimal primal-dual pair puts on their kink."""
    z = rows.margins(w)
    size = max(float(np.abs(z).max(initial=0.0)), np.finfo(float).tiny)
    n = rows.n_soft
    room = np.minimum(dual - rows.lower, rows.upper - dual)
    room[:n] /= rows.weight[:n]
    if n < len(room):  # multipliers have no box: they are compared with each other
        room[n:] /= max(float(room[n:].max()), np.finfo(float).tiny)
    on_kink = room > np.abs(z) / size
    n_kink, p = int(on_kink.sum()), len(w)
    if n_kink == 0 or n_kink > SETTINGS.kinks_per_variable * p + SETTINGS.more_kinks:
        return None
    fixed = np.where(z > 0, rows.upper, rows.lower)
    fixed[n:] = 0.0
    fixed[on_kink] = 0.0
    B = rows.A.rows(on_kink)
    target = rows.A.T @ fixed if rows.linear is None else rows.A.T @ fixed - rows.linear
    system = np.zeros((p + n_kink, p + n_kink))
    system.flat[: p * (p + n_kink + 1) : p + n_kink + 1] = rows.ridge
    system[:p, p:], system[p:, :p] = -B.T, B
    right = np.concatenate([target - rows.ridge * w, z[on_kink]])
    try:
        # Solving for the correction to w keeps the digits that the interior point got right.
        unknown = np.linalg.lstsq(system, right, rcond=EPS)[0]
    except np.linalg.LinAlgError:
        return None
    new_w, kink_dual = w + unknown[:p], unknown[p:]
    lower, upper = rows.lower[on_kink], rows.upper[on_kink]
    if (kink_dual < lower).any() or (kink_dual > upper).any():
        if np.abs(B @ unknown[:p] - z[on_kink]).max() > SETTINGS.on_kink * size:
            return None  # no point has all of them on their kinks: the guess is wrong
        # There are more rows on the kink than equations: any solution inside the box will do.
        wanted = rows.ridge * new_w - target
        bounded = optimize.lsq_linear(
            B.T, wanted, (lower, upper), tol=1e-14, lsq_solver="exact", max_iter=SETTINGS.box_steps
        )
        kink_dual = np.clip(bounded.x, lower, upper)
    fixed[on_kink] = kink_dual
    value = rows.value(new_w)
    return Polished(new_w, certify(rows, fixed, new_w, enough=value - SETTINGS.proven * abs(value)))
