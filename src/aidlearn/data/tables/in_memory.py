"""Tables in memory (pandas, polars, pyarrow and others that narwhals supports), read in slices of columns.

No column is copied as a whole: numbers are read in place, factors are held as small codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from aidlearn.data.encoding.levels import LevelsFound, TableOutline, make_recipe, refuse_columns
from aidlearn.data.encoding.recipe import MISSING_LEVEL, NO_COLUMN, Recipe, level_text
from aidlearn.data.encoding.rules import Rules
from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.numbers import DATES, refuse_lossy
from aidlearn.data.rows.source import DataSource
from aidlearn.data.tables.arrow import arrow_dictionary, arrow_kind
from aidlearn.data.tables.columns import (
    SLICE_ROWS,
    Columns,
    EncodedSource,
    floats,
    in_small_type,
    number_dictionary,
    truth_dictionary,
)
from aidlearn.numerics import Float

LISTS = ("List", "Array", "Struct")


class FrameColumns(Columns):
    """Columns of a data frame."""

    def __init__(self, table: Any) -> None:
        names = [str(name) for name in getattr(table, "column_names", table.columns)]
        repeated = [name for name in names if names.count(name) > 1]
        if repeated:
            raise ValueError(f"X has more than one column named {repeated[0]!r}.")
        self.frame = nw.from_native(table, eager_only=True)
        self.n_rows = len(self.frame)
        self._columns = [self.frame.get_column(name) for name in self.frame.columns]
        kinds = [_kind(column) for column in self._columns]
        self.outline = TableOutline(names, kinds, "X")

    def numbers(self, column: int, start: int, stop: int) -> Float:
        some = self._columns[column][start:stop]
        refuse_lossy(some, f"Column {column} ({self.outline.names[column]!r}) of X", start)
        return floats(some.to_native())

    def dictionary(self, column: int, start: int, stop: int) -> tuple[Sequence[Any], NDArray[Any]]:
        kind = self.outline.kinds[column]
        if kind == "number":
            return number_dictionary(self.numbers(column, start, stop))
        some = self._columns[column][start:stop]
        native = some.to_native()
        if kind == "boolean":
            return truth_dictionary(floats(native))
        if _has_categories(native):
            return list(native.cat.categories), np.asarray(native.cat.codes)
        if hasattr(native, "factorize"):
            codes, uniques = native.factorize()
            strange = next((value for value in uniques if not isinstance(value, (str, bool, np.bool_))), None)
            if strange is not None:
                raise ValueError(
                    f"Column {column} ({self.outline.names[column]!r}) of X mixes texts with other values such as "
                    f"{strange!r}; convert it to texts or to numbers."
                )
            return list(uniques), codes
        if hasattr(native, "dictionary_encode"):
            return arrow_dictionary(native)
        texts = some.cast(nw.String) if kind == "category" else some
        values = texts.drop_nulls().unique().sort().to_list()
        if not values:
            return [], np.full(stop - start, -1)
        numbered = texts.replace_strict(values, list(range(len(values))), return_dtype=nw.Int32)
        return values, np.asarray(numbered.fill_null(-1).to_numpy())

    def held_codes(self, column: int) -> tuple[Sequence[Any], NDArray[Any]] | None:
        native = self._columns[column].to_native()
        if not _has_categories(native):
            return None
        return list(native.cat.categories), native.array.codes

    def holds(self) -> list[str]:
        return [
            _what_objects(column) if kind == "object" else ""
            for column, kind in zip(self._columns, self.outline.kinds, strict=True)
        ]


def _kind(column: Any) -> str:
    """Return the kind of a column: number, boolean, text or category, or one that is refused."""
    dtype, native = column.dtype, column.to_native()
    if hasattr(native, "dictionary_encode"):
        return arrow_kind(native.type)
    name = type(dtype).__name__ if not isinstance(dtype, type) else dtype.__name__
    if dtype.is_numeric():
        return "number"
    kinds = {"Boolean": "boolean", "String": "text", "Categorical": "category", "Enum": "category", "Binary": "binary"}
    if name in kinds:
        return kinds[name]
    if name in DATES or name in LISTS:
        return "date" if name in DATES else "list"
    if type(getattr(native, "dtype", None)).__name__ == "SparseDtype":
        return "sparse"
    return "object" if name == "Object" else "other"


def _has_categories(native: Any) -> bool:
    """Return whether a column is a pandas categorical."""
    return hasattr(native, "cat") and hasattr(native, "factorize")


def _what_objects(column: Any) -> str:
    """Describe for a message what a column of Python objects holds, judged by its first value, and the remedy."""
    first = next((value for value in column[:SLICE_ROWS].to_list() if value is not None and value == value), None)
    if isinstance(first, (bool, np.bool_)):
        return "truth values as Python objects; convert it with .astype('boolean')"
    if isinstance(first, (int, float, Decimal, np.number)):
        return (
            f"numbers as Python objects ({type(first).__name__}); convert it with .astype(float) or pandas.to_numeric"
        )
    if isinstance(first, (list, tuple, dict, np.ndarray, set)):
        return "lists or records; make a column of each of their parts, or leave it out"
    return "" if first is None else f"Python objects ({type(first).__name__}); convert it to numbers or texts"


@dataclass(frozen=True)
class Renumbered:
    """Codes stored in a table, translated as rows are read, because a copy would take memory."""

    held: NDArray[Any]
    places: NDArray[Any]
    """Translation of each code; the last entry is for the code -1."""

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        return self.places[self.held[rows]]


class TableSource(EncodedSource):
    """Columns in memory, joined into rows chunk by chunk.

    Making a chunk takes longer than waking a thread, so threads take one chunk at a time.

    Parameters
    ----------
    columns : Columns
    y : array
    weight : array, optional
        By default 1 for every row.
    recipe : Recipe, optional
        Encoding of the columns; None if all are numbers.
    codes : dict, optional
        For each factor, which of its columns is 1 in each row; by default looked up when rows are read.
    """

    chunks_at_once = 1

    def __init__(
        self,
        columns: Columns,
        y: NDArray[Any],
        weight: Float | None,
        n_jobs: int | None = None,
        recipe: Recipe | None = None,
        codes: Mapping[int, NDArray[Any] | Renumbered] | None = None,
    ) -> None:
        self.columns, self.y, self.weight, self.n_jobs, self.codes = columns, y, weight, n_jobs, codes
        self.inputs, self.n_entries = [str(name) for name in columns.outline.names], columns.n_rows
        self._encode(recipe)

    def chunk(self, k: int) -> Chunk:
        start = k * self.rows_per_chunk
        return self.rows(start, min(start + self.rows_per_chunk, self.n_entries))

    def rows(self, start: int, stop: int) -> Chunk:
        """Return the rows ``start:stop`` as one chunk."""
        weight = np.ones(stop - start) if self.weight is None else self.weight[start:stop]
        X = self.columns.rows(start, stop, self.encoding, self.codes)
        return Chunk(start, stop, X, self.y[start:stop], weight)


def checked_factors(columns: Columns, rules: Rules) -> dict[int, str | None]:
    """Return the factors among columns in memory, and refuse a column that cannot be encoded."""
    outline = columns.outline
    factors = rules.factors(outline.names, outline.kinds, outline.where)
    refuse_columns(outline, factors, columns.holds())
    return factors


def encode_columns(
    columns: Columns, rules: Rules, intercept: bool, keep: NDArray[np.bool_] | None = None
) -> tuple[Recipe | None, dict[int, Any]]:
    """Return the recipe of columns in memory (None without factors) and the codes of their factors."""
    factors = checked_factors(columns, rules)
    if not factors:
        return None, {}
    found: dict[int, LevelsFound] = {}
    codes: dict[int, Any] = {}
    held = {j: columns.held_codes(j) for j in factors}
    for j in factors:
        found[j], numbers = columns.levels(j, keep)
        if held[j] is None:
            codes[j] = numbers
    recipe = make_recipe(columns.outline, rules, factors, found, columns.n_rows, intercept)
    for j, stored in held.items():
        own = {level: k for k, level in enumerate(recipe.columns[j].own_levels)}
        levels = found[j].texts if stored is None else map(level_text, stored[0])
        # The last entry is for the code -1, a missing cell.
        places = in_small_type(np.array([own.get(level, NO_COLUMN) for level in (*levels, MISSING_LEVEL)]))
        codes[j] = places[codes[j]] if stored is None else Renumbered(stored[1], places)
    return recipe, codes


class KeptRows(DataSource):
    """Complete rows of a source in memory; targets and weights are given for these rows only."""

    chunks_at_once = 1

    def __init__(self, source: Any, keep: NDArray[np.bool_], y: NDArray[Any], weight: Float) -> None:
        self.source, self.keep, self.y, self.weight = source, keep, y, weight
        self.n_entries, self.n_attributes = len(y), source.n_attributes
        self.n_jobs, self.is_sparse = source.n_jobs, source.is_sparse
        self.names = getattr(source, "names", [])
        self.encoding, self.inputs, self.n_dropped = source.encoding, source.inputs, len(keep) - len(y)
        # First row of the source in each chunk.
        self._starts = [*np.flatnonzero(keep)[:: self.rows_per_chunk].tolist(), len(keep)]

    def chunk(self, k: int) -> Chunk:
        low, high = self._starts[k], self._starts[k + 1]
        X = self.source.rows(low, high).X[np.flatnonzero(self.keep[low:high])]
        start = k * self.rows_per_chunk
        stop = start + X.shape[0]
        return Chunk(start, stop, X, self.y[start:stop], self.weight[start:stop])

    def column_name(self, column: int) -> str:
        return str(self.source.column_name(column))

    def row_name(self, row: int) -> str:
        return str(int(np.flatnonzero(self.keep)[row]))
