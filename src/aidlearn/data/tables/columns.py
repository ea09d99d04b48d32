"""Columns of a table in any storage: their roles (X, target, weight) and their conversion to rows of numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.encoding.levels import LevelsFound, TableOutline
from aidlearn.data.encoding.recipe import Recipe
from aidlearn.data.rows.numbers import as_array
from aidlearn.data.rows.source import DataSource
from aidlearn.numerics import Float

SLICE_ROWS = 1 << 17
"""Guess. Number of rows whose levels are looked up at a time."""
SHOWN = 12
"""Maximum number of columns that a message lists."""


@dataclass(frozen=True)
class Roles:
    """Columns of X, target and weight, as requested (``columns=None`` for all others) or as found in a table."""

    target: Any = None
    columns: Any = None
    weight: Any = None


def find_column(names: Sequence[Any], name: Any, what: str, where: str) -> Any:
    """Return a column by name, or by number if no column has that name."""
    number = isinstance(name, (int, np.integer)) and not isinstance(name, bool)
    if not isinstance(name, bool) and name in names:
        return names[names.index(name)]
    if number and -len(names) <= name < len(names):
        return names[name]
    listed = ", ".join(map(repr, names[:SHOWN])) + (f" and {len(names) - SHOWN} more" if names[SHOWN:] else "")
    raise ValueError(f"{where} has no column {name!r} ({what}); its columns are {listed}.")


def choose_columns(names: Sequence[Any], where: str, asked: Roles, hidden: Sequence[Any] = ()) -> Roles:
    """Choose the columns of each role; X has the named columns, or all but target, weight and hidden ones."""
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise ValueError(f"{where} has more than one column named {repeated[0]!r}.")
    target = None if asked.target is None else find_column(names, asked.target, "target", where)
    weight = None if asked.weight is None else find_column(names, asked.weight, "weight", where)
    if target is not None and target == weight:
        raise ValueError(f"Column {target!r} of {where} cannot be both target and weight.")
    used = [name for name in (target, weight) if name is not None]
    chosen = [name for name in names if name not in used and name not in hidden]
    if asked.columns is not None:
        chosen = [find_column(names, name, "columns", where) for name in asked.columns]
        twice = [name for name in chosen if chosen.count(name) > 1]
        if twice:
            raise ValueError(f"columns names {twice[0]!r} more than once.")
    clash = [name for name in chosen if name in used]
    if clash:
        raise ValueError(f"Column {clash[0]!r} of {where} is target or weight and cannot be in X as well.")
    if not chosen:
        raise ValueError(f"{where} has no column left for X.")
    return Roles(target, chosen, weight)


class EncodedSource(DataSource):
    """Base of sources that encode their input columns by a recipe; without one, columns are unchanged."""

    inputs: list[str]

    def _encode(self, recipe: Recipe | None) -> None:
        self.encoding, self.names = recipe, self.inputs if recipe is None else recipe.names
        self.n_attributes, self.is_sparse = len(self.names), recipe is not None and recipe.is_sparse

    def column_name(self, column: int) -> str:
        column = column if self.encoding is None else self.encoding.input_of(column)
        name = self.inputs[column]
        return name if name == str(column) else f"{column} ({name!r})"


class Columns(ABC):
    """Columns of a table in memory, or of consecutive rows of a file."""

    outline: TableOutline
    n_rows: int

    @abstractmethod
    def numbers(self, column: int, start: int, stop: int) -> Float:
        """Return the rows ``start:stop`` of a column as float64, with NaN for missing cells."""

    @abstractmethod
    def dictionary(self, column: int, start: int, stop: int) -> tuple[Sequence[Any], NDArray[Any]]:
        """Return the distinct values in a slice of a column, and the index of each row's value (-1 if missing)."""

    def held_codes(self, column: int) -> tuple[Sequence[Any], NDArray[Any]] | None:
        """Return the values and codes of all rows if the table stores them; None if they have to be computed."""
        return None

    def holds(self) -> list[str] | None:
        """Return a description of each refused column for messages; None for the standard descriptions."""
        return None

    def rows(
        self,
        start: int,
        stop: int,
        recipe: Recipe | None,
        codes: Mapping[int, Any] | None = None,
        into: Float | None = None,
        row_name: Callable[[int], str] = str,
    ) -> Any:
        """Return the rows ``start:stop`` as an array (in the first rows of ``into`` if given) or a CSR matrix.

        Parameters
        ----------
        recipe : encoding of the columns; None if all are numbers.
        codes : for each factor, which of its columns is 1 in each row; by default looked up.
        row_name : function that names a row in messages.
        """
        if recipe is None:
            X = np.empty((stop - start, len(self.outline.names))) if into is None else into[: stop - start]
            for j in range(X.shape[1]):
                X[:, j] = self.numbers(j, start, stop)
            return X
        parts: list[NDArray[Any]] = []
        for j, column in enumerate(recipe.columns):
            if column.levels is None:
                parts.append(self.numbers(j, start, stop))
            elif codes is not None and j in codes:
                parts.append(codes[j][start:stop])
            else:
                values, found = self.dictionary(j, start, stop)
                parts.append(recipe.positions(column, values, found, lambda row: row_name(start + row)))
        return recipe.rows(parts, into)

    def levels(self, column: int, keep: NDArray[np.bool_] | None = None) -> tuple[LevelsFound, NDArray[Any]]:
        """Return the levels of a column in the rows to ``keep``, and the index of each row's level (-1 if missing).

        The search ends early if there are too many levels.
        """
        found, parts = LevelsFound(self.outline.kinds[column]), []
        for start in range(0, self.n_rows, SLICE_ROWS):
            stop = min(start + SLICE_ROWS, self.n_rows)
            values, codes = self.dictionary(column, start, stop)
            if keep is not None:
                codes = np.where(keep[start:stop], codes, -1)
            parts.append(in_small_type(found.add(values, codes, start)))
            if found.is_too_many():
                break
        return found, np.concatenate(parts)

    def missing_rows(self, factors: Mapping[int, Any]) -> NDArray[np.bool_]:
        """Return a mask of the rows with a missing cell."""
        missing = np.zeros(self.n_rows, dtype=bool)
        for column in range(len(self.outline.names)):
            for start in range(0, self.n_rows, SLICE_ROWS):
                stop = min(start + SLICE_ROWS, self.n_rows)
                if column in factors:
                    missing[start:stop] |= self.dictionary(column, start, stop)[1] < 0
                else:
                    missing[start:stop] |= np.isnan(self.numbers(column, start, stop))
        return missing


class ArrayColumns(Columns):
    """Columns of an array, some of which are named as factors."""

    def __init__(self, X: NDArray[Any]) -> None:
        self.X, self.n_rows = X, len(X)
        self.outline = TableOutline(list(range(X.shape[1])), ["number"] * X.shape[1], "X")

    def numbers(self, column: int, start: int, stop: int) -> Float:
        return np.asarray(self.X[start:stop, column], dtype=np.float64)

    def dictionary(self, column: int, start: int, stop: int) -> tuple[Sequence[Any], NDArray[Any]]:
        return number_dictionary(self.X[start:stop, column])


def number_dictionary(values: NDArray[Any]) -> tuple[Sequence[Any], NDArray[Any]]:
    """Return the distinct numbers of a column, and the index of each row's number (-1 for NaN)."""
    found, codes = np.unique(values, return_inverse=True)
    if found.dtype.kind == "f" and len(found) and np.isnan(found[-1]):  # np.unique puts one NaN last
        codes = np.where(codes == len(found) - 1, -1, codes)
        found = found[:-1]
    return found.tolist(), codes


def truth_dictionary(values: Float) -> tuple[Sequence[Any], NDArray[Any]]:
    """Return the two booleans, and the index of each row's value, which is given as 0, 1 or NaN (missing)."""
    return [False, True], np.where(np.isnan(values), -1, np.nan_to_num(values)).astype(np.int8)


def floats(column: Any) -> Float:
    """Return a column of pandas, polars or Arrow as float64, with NaN for missing cells; a view if possible."""
    if hasattr(column, "iloc"):
        # pandas looks for missing cells even where the type has none, which takes longer than reading the cells.
        plain = isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf"
        values = column.to_numpy() if plain else column.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.asarray(values, dtype=np.float64)
    values = as_array(column)
    if values.dtype == object:  # decimals, or booleans with missing values
        return np.array([np.nan if value is None else float(value) for value in values])
    return np.asarray(values, dtype=np.float64)


def in_small_type(codes: NDArray[Any]) -> NDArray[Any]:
    """Return codes in the smallest integer type that holds them."""
    largest = int(codes.max(initial=0))
    return codes.astype(np.int8 if largest < 2**7 else np.int16 if largest < 2**15 else np.int32)
