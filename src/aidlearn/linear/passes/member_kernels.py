"""Compiled loops of the passes for many members (see :mod:`aidlearn.linear.passes.compiled`).

The losses of members are :class:`aidlearn.linear.passes.records.MemberLosses`, with one row per kink and one column
per member.
"""

from __future__ import annotations

import numpy as np

from aidlearn.data.rows.compiled import BLOCK, add_one, compiled, count, products
from aidlearn.linear.passes.kernels import folded

_LOW, _HIGH, _SIGN, _OFFSET = (k * BLOCK for k in range(4))


@compiled
def between(rows, y, weight, planes, kinks, positive, leverage, reach, near, regions, counts, sums):
    distance, wider, carries = reach
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
        # One loop computes both margins: two calls of the one-plane kernel take a sixth longer.
        for k in range(size):
            sign, e = folded(y[first + k], positive)
            one, two = e - sign * work[_LOW + k], e - sign * work[_HIGH + k]
            work[_LOW + k], work[_HIGH + k] = min(one, two), max(one, two)
            work[_SIGN + k], work[_OFFSET + k] = sign, e
        for k in range(size):
            i = first + k
            s, spread = weight[i], np.float64(leverage[0 if alike else i])
            share = s * spread * spread
            width = distance * spread * (1.0 + wider * share)
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
                signed, group = s * work[_SIGN + k], np.uintp(region)
                add_one(rows, i, signed, sums, group)
                sums[group, m] += signed
                sums[group, m + 1] += s * work[_OFFSET + k]
                sums[group, m + 2] += s
    return n_near


@compiled
def losses(scores, levels, y, factors, of, losses, total):
    positive, _, kinks, right, left = losses
    n, n_members, n_kinks = scores.shape[0], scores.shape[1], kinks.shape[0]
    single, direct, gathered = factors.shape[1] == 1, of.shape[0] == 0, np.empty(n_members)
    for i in range(n):
        sign, e = folded(y[i], positive)
        own = factors[i] if direct and not single else gathered
        if single or not direct:
            for k in range(n_members):
                own[k] = factors[i, 0 if single else of[k]]
        for q in range(n_kinks):
            for k in range(n_members):
                z = e - sign * (scores[i, k] + levels[k]) - kinks[q, k]
                total[k] += own[k] * max(right[q, k] * z, left[q, k] * z)


@compiled
def segments(ends, origins, y, weight, of, losses, settings, labels, homes, noise, totals, codes):
    positive, _, kinks, right, left = losses
    steps, n_split, n_codes, mix = settings
    n, n_members, n_kinks = ends.shape[0], ends.shape[1], kinks.shape[0]
    alike, split = origins.shape[1] == 1, homes.shape[0] > 0
    origin, change = np.empty(n_members), np.empty(n_members)
    for i in range(n):
        sign, e = folded(y[i], positive)
        for k in range(n_members):
            from_here = origins[i, 0 if alike else k]
            origin[k] = e - sign * from_here
            change[k] = -sign * (ends[i, k] - from_here)
        for t in range(steps.shape[0]):
            step = steps[t]
            for q in range(n_kinks):
                for k in range(n_members):
                    z = origin[k] + step * change[k] - kinks[q, k]
                    totals[t, k] += weight[i, of[k]] * max(right[q, k] * z, left[q, k] * z)
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


@compiled
def crossings(scores, levels, weight, same_place):
    found = 0
    n_planes = scores.shape[1]
    for i in range(scores.shape[0]):
        if weight[i] > 0.0:
            size = 0.0
            for k in range(n_planes):
                size = max(size, abs(scores[i, k] + levels[k]))
            noise = -same_place * size
            for k in range(n_planes - 1):
                found += (scores[i, k + 1] + levels[k + 1]) - (scores[i, k] + levels[k]) < noise
    return found
