"""Codes of factors and columns of numbers as rows of a CSR matrix, a chunk at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

if TYPE_CHECKING:
    from aidlearn.data.encoding.recipe import Recipe


def csr_rows_of(recipe: Recipe, parts: Sequence[NDArray[Any]]) -> Any:
    """Each row holds its numbers and a 1 for the level of each factor (nothing for the reference level).

    Columns follow each other as in the table, so the indices of a row ascend.
    """
    n, k = len(parts[0]), len(parts)
    indices = np.empty((n, k), dtype=np.int32)
    values = np.ones((n, k))
    there: NDArray[np.bool_] | None = None
    for j, (column, first, part) in enumerate(zip(recipe.columns, recipe.firsts, parts, strict=False)):
        if column.levels is None:
            indices[:, j] = first
            values[:, j] = part
            continue
        np.add(part, np.int32(first), out=indices[:, j], casting="unsafe")
        if column.reference is not None or recipe.unknown == "reference":
            there = np.ones((n, k), dtype=bool) if there is None else there
            np.greater_equal(part, 0, out=there[:, j])
    if there is None:
        pointers = np.arange(0, n * k + 1, k, dtype=np.int32)
        data, columns = values.ravel(), indices.ravel()
    else:
        pointers = np.zeros(n + 1, dtype=np.int32)
        np.cumsum(there.sum(axis=1), out=pointers[1:])
        data, columns = values[there], indices[there]
    rows = sparse.csr_array((data, columns, pointers), shape=(n, recipe.n_attributes))
    rows.has_sorted_indices = True
    rows.has_canonical_format = True
    return rows
