"""Rows of the aggregated problem of a design: the mean rows of clusters, penalties and constraints."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.engine.sums import Sums
from aidlearn.linear.aggregated.hinge_rows import NO_INTERCEPT, HingeRows, power_of_two
from aidlearn.linear.model.design import Design
from aidlearn.linear.rows.hybrid import Hybrid, joined
from aidlearn.linear.rows.matrix import Dense, Matrix
from aidlearn.numerics import Float


def aggregated_rows(design: Design, sums: Sums, n_jobs: int = 1) -> HingeRows:
    """Each cluster gives one row per kink; the l1 penalty adds one row per slope."""
    total = sums.column(-1)
    used = total > 0
    weight = total[used]
    means = _means(design, sums, used)
    e = sums.column(-2)[used] / weight
    blocks = [
        (means, e - kink, design.loss.scale * jump * weight, np.full(len(weight), tilt))
        for kink, tilt, jump in design.loss.parts
    ]
    if design.l1 > 0:
        # l1 |w_j| = 2 l1 max(z / 2, -z / 2) at z = 0 - w_j
        m = design.n_attributes
        # In the size that a slope has in margins, so that these rows are comparable with the others.
        size = np.array([power_of_two(math.sqrt(square / design.weight)) for square in design.column_squares[:m]])
        diagonal = sparse.csr_array((size, (np.arange(m), np.arange(m))), shape=(m, design.n_variables))
        blocks.append((_extra_rows(design, diagonal, sums), np.zeros(m), 2 * design.l1 / size, np.full(m, 0.5)))
    if design.region is not None:
        n_limits = len(design.region.h)
        limits = _extra_rows(design, design.region.G, sums)
        blocks.append((limits, design.region.h, np.full(n_limits, np.inf), np.zeros(n_limits)))
    A, *others = zip(*blocks, strict=True)
    e, s, c = map(np.concatenate, others)
    rows = HingeRows(
        joined(A), e, s, c, design.ridge_diagonal, n_jobs=n_jobs, linear=design.linear, constant=design.base
    )
    return rows if design.coordinates is None else design.coordinates.apply(rows)


def _means(design: Design, sums: Sums, used: NDArray[np.bool_]) -> Matrix:
    """Mean rows of the clusters with weight."""
    layout = design.layout
    if layout is None or sums.singles is None:
        means = sums.dense[used, :-2] / sums.dense[used, -1:]
        return Dense(_with_constants(means, design.ignored, design.levels))
    from aidlearn.linear.rows.compiled import split_columns

    alone = sums.alone
    groups = sums.dense[used[~alone]]
    groups = groups[:, :-2] / groups[:, -1:]
    groups[:, design.ignored] = 0.0
    weight = sums.column(-1)[alone]
    kept = used[alone]
    position = layout.position(sums.shape[1])
    inverse = np.divide(1.0, weight, out=np.zeros_like(weight), where=kept)
    q = len(layout.dense)
    cells, others = split_columns(sums.singles, inverse, position, q + 2, len(layout.sparse))
    if not kept.all():
        cells, others = cells[kept], others[np.flatnonzero(kept)]
    dense = np.empty((int(used.sum()), q))
    here = alone[used]
    dense[here], dense[~here] = cells[:, :q], groups[:, layout.dense]
    dense = _with_constants(dense, design.ignored[layout.dense], design.levels[layout.dense])
    return Hybrid.of_parts(dense, others, groups[:, layout.sparse], np.flatnonzero(~here), layout)


def _with_constants(means: Float, ignored: NDArray[np.bool_], levels: Float) -> Float:
    """The same with columns that are ignored 0, and constant ones what they are: sums of many rows round them."""
    means[:, ignored] = 0.0
    told = np.flatnonzero(levels)
    if len(told):
        one = means[:, -1] if np.abs(means[:, -1]).max() > NO_INTERCEPT else np.zeros(len(means))
        means[:, told] = np.outer(one, levels[told])
    return means


def _extra_rows(design: Design, rows: sparse.csr_array, sums: Sums) -> Matrix:
    """Rows of penalties and constraints (a CSR matrix), stored like those of the clusters."""
    layout = design.layout
    if layout is None or sums.singles is None:
        return Dense(rows.toarray())
    others = sparse.csr_array(rows[:, layout.sparse])
    others.sort_indices()
    return Hybrid.without_sums(rows[:, layout.dense].toarray(), others, layout)
