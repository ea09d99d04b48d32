"""Passes for many neighbouring problems, compiled: rows between two planes, and losses at many planes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.compiled import BLOCK, add_one, compiled, count, products, rows_of, vector
from aidlearn.neighbours.segments import CODES, MIX, N_SPLIT, NOISE, STEPS
from aidlearn.numerics import Float, Int

if TYPE_CHECKING:
    from aidlearn.linear.model.design import Design

_LOW, _HIGH, _SIGN, _E = (k * BLOCK for k in range(4))


@compiled
def _between(
    rows, y, weight, planes, kinks, positive, leverage, reach, wider, carries, summed, near, regions, counts, sums
):
    n, m = count(rows), planes.shape[1] - 1
    work = np.empty(4 * BLOCK)
    alike, n_near, n_kinks = leverage.shape[0] != n, 0, kinks.shape[0]
    for first in range(0, n, BLOCK):
        last = min(n, first + BLOCK)
        size = last - first
        products(rows, first, last, planes, 0, work, _LOW)
        if planes.shape[0] > 1:
            products(rows, first, last, planes, 1, work, _HIGH)
        else:
            for k in range(size):
                work[_HIGH + k] = work[_LOW + k]
        for k in range(size):
            target = y[first + k]
            sign, e = 1.0, target
            if positive == positive:
                sign, e = (1.0 if target == positive else -1.0), 1.0
            one, two = e - sign * work[_LOW + k], e - sign * work[_HIGH + k]
            work[_LOW + k], work[_HIGH + k] = min(one, two), max(one, two)
            work[_SIGN + k], work[_E + k] = sign, e
        for k in range(size):
            i = first + k
            s, spread = weight[i], np.float64(leverage[0 if alike else i])
            share = s * spread * spread
            width = reach * spread * (1.0 + wider * share)
            low, high = work[_LOW + k], work[_HIGH + k]
            close, region = share > carries, 0
            for q in range(n_kinks):
                close |= low - width <= kinks[q] <= high + width
                region += kinks[q] < low
            if close:
                near[n_near] = i
                n_near += 1
                regions[i] = -1
            else:
                regions[i] = region
                counts[region] += 1
                if summed:
                    signed, group = s * work[_SIGN + k], np.uintp(region)
                    add_one(rows, i, signed, sums, group)
                    sums[group, m] += signed
                    sums[group, m + 1] += s * work[_E + k]
                    sums[group, m + 2] += s
    return n_near


def between(
    design: Design,
    chunk: Chunk,
    planes: Float,
    leverage: Any,
    reach: float,
    wider: float,
    carries: float,
    summed: bool,
) -> tuple[Int, Any, Int, Float]:
    """See :func:`aidlearn.neighbours.near_rows.between`."""
    n, n_regions = chunk.n_entries, design.loss.n_regions
    near, regions = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int8)
    counts, sums = np.zeros(n_regions, dtype=np.int64), np.zeros((n_regions, design.n_attributes + 3))
    spread = np.array([leverage], dtype=np.float32) if np.ndim(leverage) == 0 else vector(leverage)
    found = _between(
        rows_of(chunk.X),
        vector(chunk.y),
        vector(chunk.weight),
        planes,
        np.array(design.loss.kinks),
        float(getattr(design.loss, "positive", np.nan)),
        spread,
        reach,
        wider,
        carries,
        summed,
        near,
        regions,
        counts,
        sums,
    )
    if not design.fit_intercept:
        sums = np.delete(sums, design.n_attributes, axis=1)
    return near[:found].copy(), regions, counts, sums


@compiled
def _losses(scores, levels, y, factors, of, positive, kinks, tilts, total):
    n, n_members, n_kinks = scores.shape[0], scores.shape[1], kinks.shape[0]
    single, direct = factors.shape[1] == 1, of.shape[0] == 0
    for i in range(n):
        sign, e = 1.0, y[i]
        if positive == positive:
            sign, e = (1.0 if y[i] == positive else -1.0), 1.0
        for q in range(n_kinks):
            if single:
                s = factors[i, 0]
                for k in range(n_members):
                    z = e - sign * (scores[i, k] + levels[k]) - kinks[q, k]
                    total[k] += s * max((1.0 - tilts[q, k]) * z, -tilts[q, k] * z)
            elif direct:
                for k in range(n_members):
                    z = e - sign * (scores[i, k] + levels[k]) - kinks[q, k]
                    total[k] += factors[i, k] * max((1.0 - tilts[q, k]) * z, -tilts[q, k] * z)
            else:
                for k in range(n_members):
                    z = e - sign * (scores[i, k] + levels[k]) - kinks[q, k]
                    total[k] += factors[i, of[k]] * max((1.0 - tilts[q, k]) * z, -tilts[q, k] * z)


def losses(
    scores: Float, levels: Float, y: Any, factors: Float, of: Int, positive: float, kinks: Float, tilts: Float
) -> Float:
    """``sum_i s_ik loss_k(z_ik)`` over the scales, for scores of shape (rows, members).

    ``factors`` are the weights of the rows for each replicate, ``of`` the replicates of the members (empty: the k-th is
    that of the k-th member), ``kinks`` and ``tilts`` have a row for each kink of the losses.
    """
    total = np.zeros(scores.shape[1])
    _losses(scores, levels, vector(y), factors, of, positive, kinks, tilts, total)
    return total


@compiled
def _segments(
    ends,
    origins,
    y,
    weight,
    of,
    positive,
    kinks,
    tilts,
    steps,
    n_split,
    labels,
    homes,
    mix,
    n_codes,
    noise,
    totals,
    codes,
):
    n, n_members, n_kinks = ends.shape[0], ends.shape[1], kinks.shape[0]
    alike, split = origins.shape[1] == 1, homes.shape[0] > 0
    origin, change = np.empty(n_members), np.empty(n_members)
    for i in range(n):
        sign, e = 1.0, y[i]
        if positive == positive:
            sign, e = (1.0 if y[i] == positive else -1.0), 1.0
        for k in range(n_members):
            from_here = origins[i, 0 if alike else k]
            origin[k] = e - sign * from_here
            change[k] = -sign * (ends[i, k] - from_here)
        for t in range(steps.shape[0]):
            step = steps[t]
            for q in range(n_kinks):
                for k in range(n_members):
                    z = origin[k] + step * change[k] - kinks[q, k]
                    totals[t, k] += weight[i, of[k]] * max((1.0 - tilts[q, k]) * z, -tilts[q, k] * z)
        if not split:
            continue
        code, small, group = 0, noise * abs(e), labels[i]
        for t in range(n_split):
            mixed, found = 0, False
            for k in range(n_members):
                z = origin[k] + steps[t] * change[k]
                region, closest = 0, np.inf
                for q in range(n_kinks):
                    region += z > kinks[q, k]
                    closest = min(closest, abs(z - kinks[q, k]))
                if region != homes[group, t, k] and weight[i, of[k]] > 0.0 and closest > small:
                    mixed += mix[k % mix.shape[0]]
                    found = True
            if found:
                code ^= (mixed * (2 * t + 1)) % (n_codes - 1) + 1
        codes[i] = code


def segments(
    ends: Float,
    origins: Float,
    y: Any,
    weight: Float,
    of: Int,
    positive: float,
    kinks: Float,
    tilts: Float,
    labels: NDArray[np.int32],
    homes: NDArray[np.int8],
    codes: NDArray[np.int16],
) -> Float:
    """Losses (over their scales) at the steps of a segment of each member, and how rows lie beside their clusters.

    ``ends`` and ``origins`` are scores of shape (rows, members; one column if origins are the same), ``weight`` has a
    column for each replicate, ``of`` says which is that of a member. Rows that for some member lie in another region
    than the mean of their cluster (``homes``) get a number for these members in ``codes``.
    """
    totals = np.zeros((len(STEPS), ends.shape[1]))
    _segments(
        *(ends, origins, vector(y), weight, of, positive, kinks, tilts, STEPS, N_SPLIT),
        *(labels, homes, MIX, CODES, NOISE, totals, codes),
    )
    return totals


@compiled
def _crossings(scores, levels, weight):
    found = 0
    n_planes = scores.shape[1]
    for i in range(scores.shape[0]):
        if weight[i] > 0.0:
            size = 0.0
            for k in range(n_planes):
                size = max(size, abs(scores[i, k] + levels[k]))
            noise = -1e-12 * size
            for k in range(n_planes - 1):
                found += (scores[i, k + 1] + levels[k + 1]) - (scores[i, k] + levels[k]) < noise
    return found


def crossings(scores: Float, levels: Float, weight: Float) -> int:
    """Pairs of neighbouring planes in the wrong order, over rows with weight."""
    return int(_crossings(scores, levels, vector(weight)))
