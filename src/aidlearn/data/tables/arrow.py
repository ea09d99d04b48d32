"""Columns of Arrow record batches, as read from Parquet, CSV and streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.encoding.levels import TableOutline
from aidlearn.data.encoding.recipe import Recipe
from aidlearn.data.rows.numbers import refuse_lossy
from aidlearn.data.tables.columns import Columns, floats, number_dictionary, truth_dictionary
from aidlearn.data.tables.text import level_of
from aidlearn.numerics import Float


class ArrowColumns(Columns):
    """Columns of consecutive record batches.

    Parameters
    ----------
    batches : sequence of pyarrow.RecordBatch
    outline : TableOutline
    recipe : Recipe, optional
        The recipe whose kinds decide how texts become levels.
    decimal : str, optional
        The decimal mark of a text file.
    """

    def __init__(
        self, batches: Sequence[Any], outline: TableOutline, recipe: Recipe | None = None, decimal: str | None = None
    ) -> None:
        self.batches, self.outline, self.recipe, self.decimal = batches, outline, recipe, decimal
        self.n_rows = sum(batch.num_rows for batch in batches)

    def numbers(self, column: int, start: int, stop: int) -> Float:
        return arrow_floats(self._column(column, start, stop), self.outline.names[column])

    def dictionary(self, column: int, start: int, stop: int) -> tuple[Sequence[Any], NDArray[Any]]:
        kind, cells = self.outline.kinds[column], self._column(column, start, stop)
        if kind == "number":
            return number_dictionary(arrow_floats(cells, self.outline.names[column]))
        if kind == "boolean":
            return truth_dictionary(floats(cells))
        values, codes = arrow_dictionary(cells)
        if self.recipe is not None and self.decimal is not None and kind == "text":
            values = [level_of(value, self.recipe.columns[column].kind, self.decimal) for value in values]
        return values, codes

    def _column(self, column: int, start: int, stop: int) -> Any:
        return joined(self.batches, self.outline.names[column]).slice(start, stop - start)


def joined(batches: Sequence[Any], name: str) -> Any:
    """Return one column of consecutive record batches."""
    import pyarrow as pa

    return pa.chunked_array([batch.column(name) for batch in batches])


def arrow_floats(column: Any, name: str) -> Float:
    """Return a column of numbers as float64; refuse whole numbers that would be rounded."""
    import pyarrow as pa

    if pa.types.is_int64(column.type) or pa.types.is_uint64(column.type):
        refuse_lossy(column, f"Column {name!r}", first=None)
    return floats(column)


def arrow_target(column: Any, name: str) -> NDArray[Any]:
    """Return a target as stored: texts, whole numbers and booleans keep their types."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type) and is_number(column.type.value_type):
        column = column.cast(column.type.value_type)
    if is_number(column.type):
        whole = pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)
        return np.asarray(column.to_numpy()) if whole and not column.null_count else arrow_floats(column, name)
    found, codes = arrow_dictionary(column)
    values = np.array(found)
    if (codes < 0).any():
        values = np.append(values.astype(object), np.nan)  # the code -1 selects this last element
    return values[codes]


def complete(batch: Any, names: Sequence[str]) -> Any:
    """Return the rows of a batch that have no missing cell in the named columns."""
    import pyarrow as pa

    keep = np.ones(batch.num_rows, dtype=bool)
    for column in map(batch.column, names):
        if column.null_count:
            keep &= column.is_valid().to_numpy(zero_copy_only=False)
        if pa.types.is_floating(column.type):
            keep &= ~np.isnan(column.to_numpy(zero_copy_only=False))
    return batch if keep.all() else batch.take(np.flatnonzero(keep))


def arrow_dictionary(column: Any) -> tuple[Sequence[Any], NDArray[Any]]:
    """Return the values and codes of an Arrow array or chunked array."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries() if pa.types.is_dictionary(column.type) else column
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if str(column.type) == "string_view":
        column = column.cast(pa.string())
    encoded = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
    codes = encoded.indices
    codes = codes.fill_null(-1) if codes.null_count else codes
    values, codes = encoded.dictionary.to_pylist(), codes.to_numpy(zero_copy_only=False)
    if any(value is None or value != value for value in values):  # a level that is itself a missing value
        there = [value is not None and value == value for value in values]
        renumbered = np.append(np.where(there, np.cumsum(there) - 1, -1), -1)
        return [value for value, is_there in zip(values, there, strict=True) if is_there], renumbered[codes]
    return values, codes


def is_number(kind: Any) -> bool:
    import pyarrow.types as types

    numbers = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(is_kind(kind) for is_kind in numbers)


def arrow_kind(kind: Any) -> str:
    """Return the kind of a column: number, boolean, text or category, or one that is refused."""
    import pyarrow.types as types

    if types.is_boolean(kind):
        return "boolean"
    if is_number(kind):
        return "number"
    if types.is_dictionary(kind):
        inside = arrow_kind(kind.value_type)
        return "category" if inside in ("text", "number", "boolean") else inside
    if types.is_nested(kind):  # before texts: a map of texts has "string" in its name
        return "list"
    if "string" in str(kind):
        return "text"
    if types.is_temporal(kind):
        return "date"
    return "binary" if "binary" in str(kind) else "other"
