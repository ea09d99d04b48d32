"""Tables in memory (pandas, polars, pyarrow and others that narwhals knows), read by slices of columns.

No column is copied as a whole: numbers are read from where they are, factors are held as small codes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from aidlearn.data.encoding.levels import LevelsFound, TableOutline, make_recipe, refuse_columns
from aidlearn.data.encoding.recipe import MISSING_LEVEL, Recipe, level_text
from aidlearn.data.encoding.rules import Rules
from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.numbers import DATES, refuse_lossy
from aidlearn.data.rows.source import DataSource
from aidlearn.numerics import Float

SLICE_ROWS = 1 << 17
"""Guess. Rows of a slice whose levels are looked up at a time."""
LISTS = ("List", "Array", "Struct")


def is_table(X: Any) -> bool:
    """Whether ``X`` is a frame in memory: of pandas, polars, pyarrow or another library that narwhals knows."""
    return not isinstance(X, np.ndarray) and bool(nw.dependencies.is_into_dataframe(X))


class MemoryColumns(ABC):
    """Columns in memory, read a slice at a time."""

    outline: TableOutline
    n_rows: int

    @abstractmethod
    def numbers(self, column: int, start: int, stop: int) -> Float:
        """Some rows of a column as float64; NaN where a cell is missing."""

    @abstractmethod
    def dictionary(self, column: int, start: int, stop: int) -> tuple[Sequence[Any], NDArray[Any]]:
        """The different values in a slice of a column, and the position of each row's value (-1: missing)."""

    def held_codes(self, column: int) -> tuple[Sequence[Any], NDArray[Any]] | None:
        """Values and codes of all rows if the table stores them; None if they have to be computed."""
        return None

    def holds(self) -> list[str] | None:
        """Words for the contents of columns that are refused; None if there are none."""
        return None

    def levels(
        self, column: int, collect: Callable[[NDArray[np.int32]], None], keep: NDArray[np.bool_] | None = None
    ) -> LevelsFound:
        """The levels of a column in the rows to ``keep``; ``collect`` receives the level numbers slice by slice."""
        found = LevelsFound(self.outline.kinds[column])
        held = self.held_codes(column)
        for start in range(0, self.n_rows, SLICE_ROWS):
            stop = min(start + SLICE_ROWS, self.n_rows)
            values, codes = self.dictionary(column, start, stop) if held is None else (held[0], held[1][start:stop])
            if keep is not None:
                codes = np.where(keep[start:stop], codes, -1)
            collect(found.add(values, codes, start))
            if found.is_too_many():
                break
        return found

    def missing_rows(self, factors: Mapping[int, Any]) -> NDArray[np.bool_]:
        """Which rows have a missing cell."""
        missing = np.zeros(self.n_rows, dtype=bool)
        for column in range(len(self.outline.names)):
            for start in range(0, self.n_rows, SLICE_ROWS):
                rows = slice(start, min(start + SLICE_ROWS, self.n_rows))
                if column in factors:
                    missing[rows] |= self.dictionary(column, rows.start, rows.stop)[1] < 0
                else:
                    missing[rows] |= np.isnan(self.numbers(column, rows.start, rows.stop))
        return missing


class FrameColumns(MemoryColumns):
    """Columns of a frame."""

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
        return floats(some)

    def dictionary(self, column: int, start: int, stop: int) -> tuple[Sequence[Any], NDArray[Any]]:
        if self.outline.kinds[column] == "number":
            return number_dictionary(self.numbers(column, start, stop))
        try:
            return dictionary(self._columns[column][start:stop], self.outline.kinds[column])
        except _NoText as error:
            name = self.outline.names[column]
            raise ValueError(f"Column {column} ({name!r}) of X {error}") from None

    def held_codes(self, column: int) -> tuple[Sequence[Any], NDArray[Any]] | None:
        native = self._columns[column].to_native()
        if not (hasattr(native, "cat") and hasattr(native, "factorize")):
            return None
        return list(native.cat.categories), native.array.codes

    def holds(self) -> list[str]:
        return [
            _what_objects(column) if kind == "object" else ""
            for column, kind in zip(self._columns, self.outline.kinds, strict=True)
        ]


class ArrayColumns(MemoryColumns):
    """Columns of an array, some of which were named as factors."""

    def __init__(self, X: NDArray[Any]) -> None:
        self.X, self.n_rows = X, len(X)
        self.outline = TableOutline(list(range(X.shape[1])), ["number"] * X.shape[1], "X")

    def numbers(self, column: int, start: int, stop: int) -> Float:
        return np.asarray(self.X[start:stop, column], dtype=np.float64)

    def dictionary(self, column: int, start: int, stop: int) -> tuple[Sequence[Any], NDArray[Any]]:
        return number_dictionary(self.X[start:stop, column])


def number_dictionary(values: NDArray[Any]) -> tuple[Sequence[Any], NDArray[Any]]:
    """The different numbers of a column, and the position of each row's number; NaN is missing."""
    found, codes = np.unique(values, return_inverse=True)
    if found.dtype.kind == "f" and len(found) and np.isnan(found[-1]):  # np.unique puts one NaN last
        codes = np.where(codes == len(found) - 1, -1, codes)
        found = found[:-1]
    return found.tolist(), codes


def _kind(column: Any) -> str:
    """Kind of a column: number, boolean, text or category, or one that is refused."""
    dtype = column.dtype
    name = type(dtype).__name__ if not isinstance(dtype, type) else dtype.__name__
    if dtype.is_numeric():
        return "number"
    kinds = {"Boolean": "boolean", "String": "text", "Categorical": "category", "Enum": "category", "Binary": "binary"}
    if name in kinds:
        return kinds[name]
    if name in DATES or name in LISTS:
        return "date" if name in DATES else "list"
    if type(getattr(column.to_native(), "dtype", None)).__name__ == "SparseDtype":
        return "sparse"
    return "object" if name == "Object" else "other"


def _what_objects(column: Any) -> str:
    """Words for the contents of a column of Python objects, from its first value, and for what to do."""
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


class _NoText(ValueError):
    pass


def dictionary(column: Any, kind: str) -> tuple[Sequence[Any], NDArray[Any]]:
    """The different values of a (slice of a) column, and the position of each row's value (-1: missing)."""
    native = column.to_native()
    if kind == "boolean":
        return _truths(column)
    if hasattr(native, "cat") and hasattr(native, "factorize"):  # categories of pandas
        values, codes = list(native.cat.categories), np.asarray(native.cat.codes)
    elif hasattr(native, "factorize"):
        codes, uniques = native.factorize()
        values = list(uniques)
        strange = next((value for value in values if not isinstance(value, (str, bool, np.bool_))), None)
        if strange is not None:
            raise _NoText(f"mixes texts with other values such as {strange!r}; convert it to texts or to numbers.")
    elif hasattr(native, "dictionary_encode"):
        return arrow_dictionary(native)
    else:
        texts = column.cast(nw.String) if kind == "category" else column
        different = texts.drop_nulls().unique().sort()
        values = different.to_list()
        numbered = texts.replace_strict(values, list(range(len(values))), return_dtype=nw.Int32) if values else texts
        codes = np.asarray(numbered.fill_null(-1).to_numpy()) if values else np.full(len(column), -1)
    return values, codes


def _truths(column: Any) -> tuple[Sequence[Any], NDArray[Any]]:
    truths = floats(column)
    return [False, True], np.where(np.isnan(truths), -1, np.nan_to_num(truths)).astype(np.int8)


def arrow_dictionary(column: Any) -> tuple[Sequence[Any], NDArray[Any]]:
    """Values and codes of an Arrow array or chunked array."""
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


def floats(column: Any) -> Float:
    """A (slice of a) column of numbers as float64, NaN where a cell is missing; a view if possible."""
    native = column.to_native() if hasattr(column, "to_native") else column
    if hasattr(native, "iloc"):
        return np.asarray(native.to_numpy(dtype=np.float64, na_value=np.nan))
    values = native.to_numpy()
    if values.dtype == object:  # decimals, and truth values with missing ones
        return np.array([np.nan if value is None else float(value) for value in values])
    return np.asarray(values, dtype=np.float64)


@dataclass(frozen=True)
class Renumbered:
    """Codes stored in a table, translated to others when rows are read."""

    held: NDArray[Any]
    places: NDArray[Any]
    """Translation of each code; the last is that of -1."""

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        return self.places[self.held[rows]]


class TableSource(DataSource):
    """Columns in memory, joined into rows chunk by chunk.

    Making a chunk takes longer than waking a thread, so threads take one chunk at a time.

    Parameters
    ----------
    columns : MemoryColumns
    weight : array, optional
        By default 1 for every row.
    recipe : Recipe, optional
        How columns become numbers; None where all are.
    codes : dict, optional
        For each factor, which of its columns is 1 in each row; by default looked up when rows are read.
    """

    chunks_at_once = 1

    def __init__(
        self,
        columns: MemoryColumns,
        y: NDArray[Any],
        weight: Float | None,
        n_jobs: int | None = None,
        recipe: Recipe | None = None,
        codes: Mapping[int, NDArray[Any] | Renumbered] | None = None,
    ) -> None:
        self.columns, self.encoding, self.y, self.weight, self.n_jobs = columns, recipe, y, weight, n_jobs
        self.codes = codes or {}
        self.inputs = [str(name) for name in columns.outline.names]
        self.names = self.inputs if recipe is None else recipe.names
        self.n_entries, self.n_attributes = columns.n_rows, len(self.names)
        self.is_sparse = recipe is not None and recipe.is_sparse

    def chunk(self, k: int) -> Chunk:
        start = k * self.rows_per_chunk
        return self.rows(start, min(start + self.rows_per_chunk, self.n_entries))

    def rows(self, start: int, stop: int) -> Chunk:
        """The rows ``start:stop``."""
        rows = slice(start, stop)
        weight = np.ones(stop - start) if self.weight is None else self.weight[rows]
        return Chunk(start, stop, self._matrix(start, stop), self.y[rows], weight)

    def _matrix(self, start: int, stop: int) -> Any:
        recipe = self.encoding
        if recipe is None:
            X = np.empty((stop - start, self.n_attributes))
            for j in range(self.n_attributes):
                X[:, j] = self.columns.numbers(j, start, stop)
            return X
        parts: list[NDArray[Any]] = []
        for j, column in enumerate(recipe.columns):
            if column.levels is None:
                parts.append(self.columns.numbers(j, start, stop))
            elif j in self.codes:
                parts.append(self.codes[j][start:stop])
            else:
                values, codes = self.columns.dictionary(j, start, stop)
                parts.append(recipe.positions(column, values, codes, lambda row: str(start + row)))
        return recipe.rows(parts)

    def column_name(self, column: int) -> str:
        column = column if self.encoding is None else self.encoding.input_of(column)
        return f"{column} ({self.columns.outline.names[column]!r})"


def checked_factors(columns: MemoryColumns, rules: Rules) -> dict[int, str | None]:
    """The factors among columns in memory; an error for a column that cannot be encoded."""
    outline = columns.outline
    factors = rules.factors(outline.names, outline.kinds, outline.where)
    refuse_columns(outline, factors, columns.holds())
    return factors


def encode_columns(
    columns: MemoryColumns, rules: Rules, intercept: bool, keep: NDArray[np.bool_] | None = None
) -> tuple[Recipe | None, dict[int, NDArray[Any] | Renumbered]]:
    """The recipe of columns in memory (None without factors) and the codes of their factors."""
    outline, factors = columns.outline, checked_factors(columns, rules)
    if not factors:
        return None, {}
    found: dict[int, LevelsFound] = {}
    numbers: dict[int, NDArray[Any]] = {}
    for j in factors:
        if columns.held_codes(j) is not None:
            found[j] = columns.levels(j, lambda part: None, keep)
            continue
        parts: list[NDArray[Any]] = []
        found[j] = columns.levels(j, partial(_keep_small, parts), keep)
        numbers[j] = np.concatenate(parts)
    recipe = make_recipe(outline, rules, factors, found, columns.n_rows, intercept)
    codes: dict[int, NDArray[Any] | Renumbered] = {}
    for j, column in enumerate(recipe.columns):
        if j not in factors:
            continue
        held = columns.held_codes(j)
        if held is not None:
            levels = [level_text(value) for value in held[0]]
        else:
            levels = sorted(found[j].texts, key=found[j].texts.__getitem__)
        own = {level: k for k, level in enumerate(column.own_levels)}
        # The last entry is reached by the code -1, a missing cell.
        places = [*(own.get(level, -1) for level in levels), own.get(MISSING_LEVEL, -1)]
        small = _small(np.array(places, dtype=np.int32))
        codes[j] = small[numbers.pop(j)] if held is None else Renumbered(held[1], small)
    return recipe, codes


def _keep_small(parts: list[NDArray[Any]], part: NDArray[Any]) -> None:
    parts.append(_small(part))


def _small(codes: NDArray[np.int32]) -> NDArray[Any]:
    """Codes in the smallest type that holds them."""
    largest = int(codes.max(initial=0))
    return codes.astype(np.int8 if largest < 2**7 else np.int16 if largest < 2**15 else np.int32)


class KeptRows(DataSource):
    """Complete rows of a source in memory; target and weight belong to these rows."""

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
