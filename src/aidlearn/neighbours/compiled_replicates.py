"""Compiled simplex method for a weighted sum of tilted absolute values, from vertex to vertex down to the optimum.

At a vertex, p rows (the basis) have margin 0, and the duals of all others are at the bound given by their side. The
equalities ``A'p = 0`` determine the duals of the basis. A dual outside its box selects the row that leaves and the
edge; a weighted selection among the kinks on the edge finds where to stop (Barrodale and Roberts 1973; Koenker and
d'Orey 1987). From the optimum with other weights, a few pivots per column remain.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from aidlearn.data.rows.compiled import compiled

FLAT = 1e-13
"""Largest slope along an edge, relative to its terms, that counts as 0: the row would make the basis singular."""


@compiled
def selected(places: Any, sizes: Any, rows: Any, n: int, wanted: float) -> int:
    """Return the row of the smallest place up to which sizes sum to ``wanted`` (-1 if none), and reorder the arrays."""
    first, last = 0, n
    if n == 0:
        return -1
    while True:
        pivot = places[first + (last - first) // 2]
        below, i, end = first, first, last
        total = 0.0
        while i < end:  # below the pivot, equal to it, above it
            if places[i] < pivot:
                total += sizes[i]
                places[i], places[below] = places[below], places[i]
                sizes[i], sizes[below] = sizes[below], sizes[i]
                rows[i], rows[below] = rows[below], rows[i]
                below += 1
                i += 1
            elif places[i] > pivot:
                end -= 1
                places[i], places[end] = places[end], places[i]
                sizes[i], sizes[end] = sizes[end], sizes[i]
                rows[i], rows[end] = rows[end], rows[i]
            else:
                i += 1
        if total >= wanted and below > first:
            last = below
            continue
        wanted -= total
        for k in range(below, end):
            wanted -= sizes[k]
            if wanted <= 0:
                return rows[k]
        if end == last:
            return -1
        first = end


@compiled
def descend(
    A: Any, e: Any, lower: Any, upper: Any, basis: Any, inverse: Any, w: Any, most: int, rounding: float
) -> bool:
    """Pivot until the basis duals are in their boxes; return whether they are. Update basis, inverse and w in place."""
    n, p = A.shape
    z, rate = np.empty(n), np.empty(n)
    held = np.zeros(n, dtype=np.bool_)
    places, sizes, rows = np.empty(n), np.empty(n), np.empty(n, dtype=np.int64)
    forces, dual, edge = np.zeros(p), np.empty(p), np.empty(p)
    for k in range(p):
        held[basis[k]] = True
    for i in range(n):
        margin = e[i]
        for j in range(p):
            margin -= A[i, j] * w[j]
        z[i] = 0.0 if held[i] else margin
        if not held[i]:
            side = upper[i] if margin > 0 else lower[i]
            for j in range(p):
                forces[j] += side * A[i, j]
    for _ in range(most):
        leaving, steepest, excess = -1, 0.0, 0.0
        for k in range(p):
            row = basis[k]
            dual[k], length = 0.0, 0.0
            for j in range(p):
                dual[k] -= inverse[j, k] * forces[j]
                length += inverse[j, k] * inverse[j, k]
            beyond = max(dual[k] - upper[row], lower[row] - dual[k])
            if beyond > rounding and beyond * beyond > steepest * length:
                leaving, steepest, excess = k, beyond * beyond / length, beyond
        if leaving < 0:
            return True
        old = basis[leaving]
        direction = 1.0 if dual[leaving] > upper[old] else -1.0
        for j in range(p):
            edge[j] = -direction * inverse[j, leaving]
        count = 0
        for i in range(n):
            slope, size = 0.0, 0.0
            for j in range(p):
                part = A[i, j] * edge[j]
                slope += part
                size += abs(part)
            if abs(slope) <= FLAT * size:  # rounding error of a row like one of the basis
                slope = 0.0
            rate[i] = slope
            if not held[i] and (z[i] > 0.0) == (slope > 0.0) and slope != 0.0:
                places[count] = z[i] / slope
                sizes[count] = (upper[i] - lower[i]) * abs(slope)
                rows[count] = i
                count += 1
        new = selected(places, sizes, rows, count, excess)
        if new < 0:
            return False
        step = z[new] / rate[new]
        held[old], held[new] = False, True
        # The row that leaves the basis moves to the side of the edge; the one that enters leaves the sums.
        side = upper[new] if z[new] > 0 else lower[new]
        for j in range(p):
            forces[j] -= side * A[new, j]
        for i in range(n):
            if held[i]:
                continue
            if i == old:
                z[i] = direction * step
                side = upper[i] if z[i] > 0 else lower[i]
                for j in range(p):
                    forces[j] += side * A[i, j]
                continue
            before = z[i]
            z[i] = before - step * rate[i]
            if (before > 0.0) != (z[i] > 0.0):
                change = (upper[i] - lower[i]) if z[i] > 0 else (lower[i] - upper[i])
                for j in range(p):
                    forces[j] += change * A[i, j]
        z[new] = 0.0
        for j in range(p):
            w[j] += step * edge[j]
        # Replacing a row of the basis is a rank-one update of the inverse.
        basis[leaving] = new
        for k in range(p):
            dual[k] = 0.0
            for j in range(p):
                dual[k] += A[new, j] * inverse[j, k]
        pivot = dual[leaving]
        if pivot == 0.0:
            return False
        for j in range(p):
            inverse[j, leaving] /= pivot
        for k in range(p):
            if k != leaving:
                factor = dual[k]
                for j in range(p):
                    inverse[j, k] -= factor * inverse[j, leaving]
    return False
