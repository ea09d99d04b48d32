"""Array types, rounding errors and small linear algebra that the whole package uses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

Float = NDArray[np.float64]
Int = NDArray[np.int64]

EPS = float(np.finfo(np.float64).eps)
"""Relative spacing of float64 numbers."""
NOISE = 8 * EPS
"""Rounding error of a margin, relative to the numbers whose difference it is."""
EXACT_FIT = 1e-10
"""Objective, relative to the size of the targets, below which a fit may be exact up to rounding."""
RIDGES = (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4)
"""Fractions of the diagonal added to a matrix, in this order, until it has a Cholesky factor."""


def regularised_cholesky(scaled: Float) -> Float:
    """Return the upper Cholesky factor of a matrix with unit diagonal, using the smallest positive ridge that works."""
    diagonal = np.diag_indices_from(scaled)
    for ridge in RIDGES[1:]:
        scaled[diagonal] = 1 + ridge
        try:
            return np.asarray(linalg.cholesky(scaled, check_finite=False))
        except linalg.LinAlgError:
            continue
    return np.eye(len(scaled))
