"""Compiled loops of the passes over the rows of one linear model (see :mod:`aidlearn.linear.passes.compiled`).

A hyperplane has the intercept last (0 if the model has none). A loss is the vector returned by
:meth:`aidlearn.linear.model.losses.Loss.packed`.
"""

from __future__ import annotations

import math

import numpy as np

from aidlearn.data.rows.compiled import BLOCK, add, add_one, compiled, count, products
from aidlearn.linear.passes.records import WIDER_BY_LEVERAGE

# Slots of the scratch array of a pass. With one array and constant offsets, the compiler knows that slots do not
# overlap; otherwise it would not vectorise loops over several slots.
_SIGN, _OFFSET, _Z, _VALUE, _DISTANCE, _REGION, _A, _B, _C, _W = (k * BLOCK for k in range(10))
SCRATCH = 10 * BLOCK


@compiled
def folded(y, positive):
    """Return the sign and offset e of an entry (see :meth:`aidlearn.linear.model.losses.Loss.fold`)."""
    if positive != positive:
        return 1.0, np.float64(y)
    return (1.0 if y == positive else -1.0), 1.0


@compiled
def _margins(rows, y, first, last, planes, q, positive, work):
    """Write the margins ``z = e - sign * (x'w + b)`` of a block, and their signs and offsets e, into their slots."""
    products(rows, first, last, planes, q, work, _Z)
    for k in range(last - first):
        sign, e = folded(y[first + k], positive)
        work[_SIGN + k], work[_OFFSET + k] = sign, e
        work[_Z + k] = e - sign * work[_Z + k]


@compiled
def _weights(weight, first, size, work):
    """Copy the weights of a block into slot W.

    Sums read only the scratch array: in a loop that reads one array and writes another, the compiled code checks
    whether they overlap in memory, and the order of the additions depends on the result.
    """
    for k in range(size):
        work[_W + k] = weight[first + k]


@compiled
def _losses(work, size, loss):
    """Write the loss of each margin, divided by the scale, into its slot."""
    for k in range(size):
        work[_VALUE + k] = 0.0
    for q in range(3, loss.shape[0], 4):
        kink, right, left = loss[q], loss[q + 1], loss[q + 2]
        for k in range(size):
            from_kink = work[_Z + k] - kink
            work[_VALUE + k] += max(right * from_kink, left * from_kink)


@compiled
def _regions(work, size, loss, cuts):
    """Write the number of cuts below each margin, and its distance to the nearest kink, into their slots."""
    kink = loss[3]
    for k in range(size):
        work[_REGION + k] = 0.0
        work[_DISTANCE + k] = abs(work[_Z + k] - kink)
    for q in range(cuts.shape[0]):
        cut = cuts[q]
        for k in range(size):
            work[_REGION + k] += 1.0 if work[_Z + k] > cut else 0.0
    for q in range(7, loss.shape[0], 4):
        kink = loss[q]
        for k in range(size):
            work[_DISTANCE + k] = min(work[_DISTANCE + k], abs(work[_Z + k] - kink))


@compiled
def _spread(leverage, first, size, alike, work):
    """Copy the leverages of the rows of a block into slot A."""
    if alike:
        value = np.float64(leverage[0])
        for k in range(size):
            work[_A + k] = value
    else:
        for k in range(size):
            work[_A + k] = leverage[first + k]


@compiled
def local_sums(rows, y, weight, planes, loss, leverage, kappa, work, forces, near, curvatures):
    n = count(rows)
    scale, positive, alike = loss[0], loss[1], leverage.shape[0] != n
    at_rest, n_near = loss[2], 0
    objective, curvature, intercept = 0.0, 0.0, 0.0
    for first in range(0, n, BLOCK):
        last = min(n, first + BLOCK)
        size = last - first
        _weights(weight, first, size, work)
        _margins(rows, y, first, last, planes, 0, positive, work)
        _losses(work, size, loss)
        _spread(leverage, first, size, alike, work)
        # Slots: A is one over the width, B the slope, C the jumps of the kinks within the width.
        for k in range(size):
            work[_A + k] = 1.0 / (kappa * work[_A + k])
            work[_B + k] = at_rest
            work[_C + k] = 0.0
        for q in range(3, loss.shape[0], 4):
            kink, jump = loss[q], loss[q + 3]
            half = 0.5 * jump
            for k in range(size):
                relative = (work[_Z + k] - kink) * work[_A + k]
                work[_C + k] += jump if abs(relative) < 1.0 else 0.0
                work[_B + k] += half * min(max(relative, -1.0), 1.0)
        n_here = 0.0
        for k in range(size):
            s = scale * work[_W + k]
            objective += s * work[_VALUE + k]
            slope = work[_B + k] * s * work[_SIGN + k]
            curved = 0.5 * s * work[_C + k] * work[_A + k]
            intercept += slope
            curvature += curved
            work[_B + k] = slope
            work[_VALUE + k] = curved
            n_here += curved
        if n_here > 0.0:
            for k in range(size):
                # No branch, because whether a row is near is unpredictable.
                near[n_near] = first + k
                curvatures[n_near] = work[_VALUE + k]
                n_near += work[_VALUE + k] > 0.0
        add(rows, first, last, work, _B, forces)
    forces[forces.shape[0] - 1] = intercept
    return objective, curvature, n_near


@compiled
def groups(rows, y, weight, planes, loss, cuts, leverage, limits, parts, work, labels, alone, counts, sums):
    near, bins, n_bins, carries = limits
    part, n_parts, first_part = parts
    n, m = count(rows), planes.shape[1] - 1
    scale, positive, alike = loss[0], loss[1], leverage.shape[0] != n
    # Groups of the positive class follow the others; a regression has one class.
    behind = (cuts.shape[0] + 1.0) * n_bins if positive == positive else 0.0
    objective, size_of_targets, most, n_alone = 0.0, 0.0, n_bins - 1.0, 0
    for first in range(0, n, BLOCK):
        last = min(n, first + BLOCK)
        size = last - first
        _weights(weight, first, size, work)
        _margins(rows, y, first, last, planes, 0, positive, work)
        _losses(work, size, loss)
        _regions(work, size, loss, cuts)
        _spread(leverage, first, size, alike, work)
        # Slots: A is the leverage, then whether a row stays alone; B is the label.
        for k in range(size):
            s, leverage_here = work[_W + k], work[_A + k]
            objective += s * work[_VALUE + k]
            size_of_targets += s * abs(work[_OFFSET + k])
            distance, share = work[_DISTANCE + k] / leverage_here, s * leverage_here * leverage_here
            close = distance <= near * (1.0 + WIDER_BY_LEVERAGE * share)
            # A label is an index, so a NaN distance (from a NaN point) goes into the last bin.
            place = distance * bins
            label = work[_REGION + k] * n_bins + (math.floor(place) if 0.0 <= place < most else most)
            close |= share > carries
            work[_A + k] = 1.0 if close else 0.0
            work[_B + k] = label + (behind if work[_SIGN + k] > 0.0 else 0.0)
        # The planes after the first divide the groups further.
        for q in range(1, planes.shape[0]):
            products(rows, first, last, planes, q, work, _C)
            for k in range(size):
                work[_B + k] = 2.0 * work[_B + k] + (1.0 if work[_C + k] > 0.0 else 0.0)
        # Groups of rows with rare columns come last.
        if part.shape[0] > 0:
            another = cuts.shape[0] + 1.0 if positive == positive else 0.0
            for k in range(size):
                if part[first + k] < n_parts:
                    kind = work[_REGION + k] + (another if work[_SIGN + k] > 0.0 else 0.0)
                    work[_B + k] = first_part + kind * n_parts + part[first + k]
        for k in range(size):
            labels[first + k] = np.int32(work[_B + k])
        for k in range(size):
            if work[_A + k] > 0.0:
                alone[n_alone] = first + k
                n_alone += 1
            else:
                s, group = work[_W + k], np.uintp(labels[first + k])
                signed = s * work[_SIGN + k]
                counts[group] += 1
                add_one(rows, first + k, signed, sums, group)
                sums[group, m] += signed
                sums[group, m + 1] += s * work[_OFFSET + k]
                sums[group, m + 2] += s
    return scale * objective, size_of_targets, n_alone


@compiled
def moves(rows, y, weight, planes, steps, n_split, loss, regions, labels, homes, work, objectives, moved, codes):
    cuts, tolerance = regions.cuts, regions.tolerance
    n, n_steps = count(rows), steps.shape[0]
    scale, positive, base = loss[0], loss[1], cuts.shape[0] + 1.0
    ones, n_moved, size_of_targets = 0.0, 0, 0.0
    for _ in range(n_split):
        ones = ones * base + 1.0
    for first in range(0, n, BLOCK):
        last = min(n, first + BLOCK)
        size = last - first
        # Slots: A is the margin at the end minus that at the origin, B the code, C the home.
        if n_steps > 1:
            _margins(rows, y, first, last, planes, 1, positive, work)
            for k in range(size):
                work[_A + k] = work[_Z + k]
        _weights(weight, first, size, work)
        _margins(rows, y, first, last, planes, 0, positive, work)
        for k in range(size):
            work[_A + k] = work[_Z + k] - work[_A + k]
            size_of_targets += work[_W + k] * abs(work[_OFFSET + k])
            work[_B + k] = 0.0
        for k in range(size):
            work[_C + k] = homes[np.uintp(labels[first + k])]
        here = 1.0
        for t in range(n_steps):
            if t > 0:
                ahead = steps[t] - here
                for k in range(size):
                    work[_Z + k] += ahead * work[_A + k]
                here = steps[t]
            _losses(work, size, loss)
            total = 0.0
            for k in range(size):
                total += work[_W + k] * work[_VALUE + k]
            objectives[t] += scale * total
            if t < n_split:
                _regions(work, size, loss, cuts)
                for k in range(size):
                    region = work[_REGION + k]
                    if tolerance >= 0.0:
                        region = work[_C + k] if work[_DISTANCE + k] <= tolerance * abs(work[_OFFSET + k]) else region
                    region = work[_C + k] if work[_W + k] == 0.0 else region
                    work[_B + k] = work[_B + k] * base + region
        n_here = 0.0
        for k in range(size):
            work[_A + k] = 1.0 if work[_B + k] != ones * work[_C + k] else 0.0
            work[_A + k] *= 1.0 if work[_C + k] >= 0.0 else 0.0
            n_here += work[_A + k]
        if n_here > 0.0:
            for k in range(size):
                moved[n_moved] = first + k
                codes[n_moved] = np.int16(work[_B + k])
                n_moved += work[_A + k] > 0.0
    return size_of_targets, n_moved


@compiled
def scaled_rows(rows, y, selected, factor, positive, centre, used, out):
    """``factor sign (x - centre, 1)`` of selected dense rows, 0 in columns that are not used."""
    X, m = rows[0], centre.shape[0]
    for k in range(selected.shape[0]):
        i, f = np.uintp(selected[k]), factor[k]
        if positive == positive and y[i] != positive:
            f = -f
        for j in range(m):
            out[k, j] = f * used[j] * (X[i, j] - centre[j])
        if out.shape[1] > m:
            out[k, m] = f
