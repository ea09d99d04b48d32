"""Recipes: how the columns of a table become those of a model, numbers unchanged and factors as indicators.

A factor is a column of texts, categories or booleans, or one that was named as a factor. It is held as codes; rows are
encoded one chunk at a time, as sparse rows if there are many levels. The recipe is made once, before the first pass,
and kept by the fitted model: predictions, the command line and Dask workers all use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.numerics import Float

MISSING_LEVEL = "(missing)"
"""The level of missing cells with ``missing="level"``; always the last level."""
NO_COLUMN, UNKNOWN = -1, -2
"""Position of the reference level, and of a level that the fit has not seen."""
SHOWN = 8
"""Maximum number of levels that a message lists."""
READ_AS = ("number", "text", "boolean")
"""Kinds of columns that a model records."""


@dataclass(frozen=True)
class Column:
    """One column of the input."""

    name: str
    levels: tuple[str, ...] | None = None
    """Sorted levels of a factor; None for a column of numbers."""
    reference: str | None = None
    """Level without a column of its own; None if there is none."""
    kind: str | None = None
    """Kind that the fit read: number, text or boolean (that of the values for categories); None in older files."""

    @property
    def own_levels(self) -> tuple[str, ...]:
        """Levels with a column of their own."""
        assert self.levels is not None
        return tuple(level for level in self.levels if level != self.reference)

    @property
    def width(self) -> int:
        return 1 if self.levels is None else len(self.own_levels)

    @property
    def names(self) -> list[str]:
        return [self.name] if self.levels is None else [f"{self.name}[{level}]" for level in self.own_levels]


@dataclass(frozen=True)
class Recipe:
    """Columns of the input, and the rules for missing cells and unknown levels."""

    columns: tuple[Column, ...]
    missing: str = "error"
    unknown: str = "error"

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns of the model, such as ``distance`` and ``origin[LAS]``."""
        return [name for column in self.columns for name in column.names]

    @cached_property
    def firsts(self) -> NDArray[np.int64]:
        """Position in the model of each input column's first column, followed by the number of model columns."""
        return np.concatenate([[0], np.cumsum([column.width for column in self.columns])]).astype(np.int64)

    @property
    def n_attributes(self) -> int:
        return int(self.firsts[-1])

    @property
    def is_sparse(self) -> bool:
        """Whether rows are sparse, which they are if more than half of their cells are zero."""
        return self.n_attributes > 2 * len(self.columns)

    @property
    def factors(self) -> list[Column]:
        return [column for column in self.columns if column.levels is not None]

    @property
    def references(self) -> dict[str, str | None]:
        """Reference level of each factor."""
        return {factor.name: factor.reference for factor in self.factors}

    @property
    def factor_positions(self) -> dict[int, None]:
        """Positions of the factors among the columns of the input."""
        return {k: None for k, column in enumerate(self.columns) if column.levels is not None}

    def input_of(self, attribute: int) -> int:
        """Return the column of the input that a column of the model comes from."""
        return int(np.searchsorted(self.firsts, attribute, side="right")) - 1

    def positions(
        self, column: Column, values: Sequence[Any], codes: NDArray[Any], row_name: Callable[[int], str]
    ) -> NDArray[np.int32]:
        """Return the index of the factor's column that is 1 in each row.

        Parameters
        ----------
        values, codes : the distinct values, and the index of each row's value (-1 if missing).
        row_name : function that names a row in messages.
        """
        assert column.levels is not None
        known = {level: k for k, level in enumerate(column.own_levels)}
        if column.reference is not None:
            known[column.reference] = NO_COLUMN
        unseen = NO_COLUMN if self.unknown == "reference" else UNKNOWN
        places = [known.get(level_text(value), unseen) for value in values]
        places.append(known.get(MISSING_LEVEL, unseen) if self.missing == "level" else UNKNOWN)
        found = np.array(places, dtype=np.int32)[codes]
        bad = np.flatnonzero(found == UNKNOWN)
        if len(bad):
            row = int(bad[0])
            if codes[row] < 0 and self.missing != "level":
                raise ValueError(missing_cell(column.name, row_name(row)))
            level = MISSING_LEVEL if codes[row] < 0 else level_text(values[codes[row]])
            raise ValueError(
                f"Column {column.name!r} has the level {level!r} at row {row_name(row)}, which the model was not "
                f"fitted to; it knows {listed_levels(column.levels)}. unknown='reference' treats it as the reference "
                "level."
            )
        return found

    def rows(self, parts: Sequence[NDArray[Any]], into: Float | None = None) -> Any:
        """Join columns into rows; each part holds the numbers of a column or the positions of a factor's levels.

        The rows are a CSR matrix, or a dense array (in the first rows of ``into`` if given).
        """
        n = len(parts[0])
        if self.is_sparse:
            return _csr_rows(self, parts)
        X = np.empty((n, self.n_attributes)) if into is None else into[:n]
        for column, first, part in zip(self.columns, self.firsts, parts, strict=False):
            if column.levels is None:
                X[:, first] = part
            else:
                X[:, first : first + column.width] = part[:, None] == np.arange(column.width)
        return X


def _csr_rows(recipe: Recipe, parts: Sequence[NDArray[Any]]) -> Any:
    """Return CSR rows of numbers, with a 1 for the level of each factor (nothing for the reference level).

    Columns are in the order of the table, so that the indices of a row ascend.
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


@dataclass(frozen=True)
class EncodedRows:
    """Rows that are already encoded, and the recipe that encoded them."""

    X: Any
    recipe: Recipe

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.X.shape[0]), int(self.X.shape[1])


def level_text(value: Any) -> str:
    """Return a level as text, the same from every kind of table: 2 and 2.0 are both "2"."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
    return str(value)


def listed_levels(levels: Sequence[str]) -> str:
    """List levels for a message, only the first if there are many."""
    shown = ", ".join(map(repr, levels[:SHOWN]))
    return shown if len(levels) <= SHOWN else f"{shown} and {len(levels) - SHOWN} more"


def missing_cell(name: str, row: str) -> str:
    return (
        f"Input X has a missing cell at row {row}, column {name!r}: fill it. A fit can also leave such rows out with "
        "missing='drop', or make a level of it with missing='level'; a prediction needs all its cells."
    )
