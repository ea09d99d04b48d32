"""Columns of a table file: their roles (X, target, weight), and how they become numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.encoding.levels import TableOutline
from aidlearn.data.encoding.recipe import Recipe
from aidlearn.data.rows.numbers import refuse_lossy
from aidlearn.data.tables.files import RowBlock
from aidlearn.data.tables.in_memory import arrow_dictionary, number_dictionary
from aidlearn.data.tables.text_columns import level_of
from aidlearn.numerics import Float


@dataclass(frozen=True)
class Roles:
    """Columns of X, target and weight in a table."""

    columns: list[Any]
    target: Any = None
    weight: Any = None


def find_column(names: Sequence[Any], name: Any, what: str, where: str) -> Any:
    """A column by name, or by number if no column has that name."""
    number = isinstance(name, (int, np.integer)) and not isinstance(name, bool)
    if not isinstance(name, bool) and name in names:
        return names[names.index(name)]
    if number and -len(names) <= name < len(names):
        return names[name]
    raise ValueError(f"{where} has no column {name!r} ({what}); its columns are {listed(names)}.")


def choose_columns(
    names: Sequence[Any],
    where: str,
    target: Any,
    columns: Sequence[Any] | None,
    weight: Any,
    hidden: Sequence[Any] = (),
) -> Roles:
    """Choose the columns: X is what is named, or all columns but target, weight and hidden ones."""
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise ValueError(f"{where} has more than one column named {repeated[0]!r}.")
    target = None if target is None else find_column(names, target, "target", where)
    weight = None if weight is None else find_column(names, weight, "weight", where)
    if target is not None and target == weight:
        raise ValueError(f"Column {target!r} of {where} cannot be both target and weight.")
    used = [name for name in (target, weight) if name is not None]
    chosen = [name for name in names if name not in used and name not in hidden]
    if columns is not None:
        chosen = [find_column(names, name, "columns", where) for name in columns]
        twice = [name for name in chosen if chosen.count(name) > 1]
        if twice:
            raise ValueError(f"columns names {twice[0]!r} more than once.")
    clash = [name for name in chosen if name in used]
    if clash:
        raise ValueError(f"Column {clash[0]!r} of {where} is target or weight and cannot be in X as well.")
    if not chosen:
        raise ValueError(f"{where} has no column left for X.")
    return Roles(chosen, target, weight)


class ColumnChoice:
    """Roles of the columns of a table file, and how they become numbers."""

    recipe: Recipe | None = None
    """Recipe of the columns, if some are factors."""
    row_name: Callable[[int], str] = staticmethod(str)
    """Names a row in messages."""
    drops = False
    """Whether rows with missing cells are left out."""
    unlabelled = False
    """Whether rows with only a missing target are kept."""
    decimal: str | None = None
    """The decimal mark of a text file."""

    def __init__(
        self,
        schema: Any,
        where: str,
        target: Any,
        columns: Sequence[Any] | None,
        weight: Any,
        dates: Sequence[str] = (),
    ) -> None:
        self.schema, self.where = schema, where
        roles = choose_columns(schema.names, where, target, columns, weight, _index_columns(schema))
        self.columns, self.target, self.weight = roles.columns, roles.target, roles.weight
        kinds = ["date" if name in dates else arrow_kind(schema.field(name).type) for name in self.columns]
        self.outline = TableOutline(self.columns, kinds, where)

    def encoding(self, recipe: Recipe | None, drops: bool, unlabelled: bool = False) -> ColumnChoice:
        """The same columns, encoded by a recipe."""
        choice = copy(self)
        choice.recipe, choice.drops, choice.unlabelled = recipe, drops, unlabelled
        return choice

    @property
    def used_rows(self) -> str:
        """Words for the rows that are used."""
        if not self.drops:
            return "all"
        return "complete but for the target" if self.unlabelled else "complete"

    def reading(self, kinds: list[str]) -> ColumnChoice:
        """The same columns, read as other kinds."""
        choice = copy(self)
        choice.outline = replace(self.outline, kinds=kinds)
        return choice

    @property
    def names(self) -> list[str]:
        """Names of the columns of X."""
        return self.columns if self.recipe is None else self.recipe.names

    @property
    def needed(self) -> list[str]:
        return [*self.columns, *(name for name in (self.target, self.weight) if name is not None)]

    def complete(self, batch: Any) -> Any:
        """The rows of a batch without missing cells; a missing target may mark an unlabelled row."""
        keep = np.ones(batch.num_rows, dtype=bool)
        for name in self.needed:
            if name == self.target and self.unlabelled:
                continue
            column = batch.column(name)
            if column.null_count:
                keep &= column.is_valid().to_numpy(zero_copy_only=False)
            if _is_floating(column.type):
                keep &= ~np.isnan(_floats(column))
        return batch if keep.all() else batch.take(np.flatnonzero(keep))

    def block(self, batches: Sequence[Any], into: Float | None = None, start: int = 0) -> RowBlock:
        """Consecutive batches of rows as numbers; X is written into the first rows of ``into`` if given.

        ``start`` is the number of their first row.
        """
        rows = sum(batch.num_rows for batch in batches)
        if self.recipe is None:
            X = np.empty((rows, len(self.names))) if into is None else into[:rows]
            first = 0
            for batch in batches:
                columns = [_floats(batch.column(name), name) for name in self.columns]
                np.stack(columns, axis=1, out=X[first : first + batch.num_rows])
                first += batch.num_rows
        else:
            X = self.recipe.rows([self._part(batches, j, start) for j in range(len(self.columns))], into)
        target = np.zeros(rows) if self.target is None else _column(batches, self.target, self.raw)
        weight = np.ones(rows) if self.weight is None else _column(batches, self.weight, _floats)
        return RowBlock(X, target, weight)

    def _part(self, batches: Sequence[Any], j: int, start: int) -> NDArray[Any]:
        """One column of some batches: numbers, or positions of levels."""
        assert self.recipe is not None
        column, name = self.recipe.columns[j], self.columns[j]
        if column.levels is None:
            return _column(batches, name, _floats)
        parts = []
        for batch in batches:
            values, codes = self.dictionary(batch, j)
            if self.decimal is not None and self.outline.kinds[j] == "text":
                values = [level_of(value, column.kind, self.decimal) for value in values]
            parts.append(self.recipe.positions(column, values, codes, partial(self._row_name, start)))
            start += batch.num_rows
        return np.concatenate(parts)

    def _row_name(self, first: int, row: int) -> str:
        return self.row_name(first + row)

    def dictionary(self, batch: Any, j: int) -> tuple[Sequence[Any], NDArray[Any]]:
        """The different values of a column, and the position of each row's value among them (-1: missing)."""
        column, kind = batch.column(self.columns[j]), self.outline.kinds[j]
        if kind == "number":
            return number_dictionary(_floats(column, self.columns[j]))
        if kind == "boolean":
            truths = _floats(column)
            return [False, True], np.where(np.isnan(truths), -1, np.nan_to_num(truths)).astype(np.int8)
        return arrow_dictionary(column)

    @staticmethod
    def raw(column: Any, name: str = "target") -> NDArray[Any]:
        """A target as stored: texts, whole numbers and truth values keep their types."""
        if is_number(column.type):
            whole = _is_whole(column.type) and column.null_count == 0
            return np.asarray(column.to_numpy(zero_copy_only=False)) if whole else _floats(column, name)
        encoded = _plain(column).dictionary_encode()
        values = np.array(encoded.dictionary.to_pylist())
        if encoded.null_count:
            values, indices = np.append(values.astype(object), np.nan), encoded.indices.fill_null(len(values))
        else:
            indices = encoded.indices
        return values[indices.to_numpy()]


def _column(batches: Sequence[Any], name: str, values: Callable[[Any, str], NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([values(batch.column(name), name) for batch in batches])


def _plain(column: Any) -> Any:
    """A column of categories or text views as a column of plain values."""
    import pyarrow as pa

    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    return column.cast(pa.string()) if str(column.type) == "string_view" else column


def _index_columns(schema: Any) -> list[str]:
    """Columns in which pandas stored its index; row names are not attributes."""
    described = schema.pandas_metadata or {}
    return [name for name in described.get("index_columns", []) if isinstance(name, str)]


def is_number(kind: Any) -> bool:
    import pyarrow.types as types

    numbers = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(is_kind(kind) for is_kind in numbers)


def _is_whole(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_integer(kind) or types.is_boolean(kind))


def _is_floating(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_floating(kind))


def arrow_kind(kind: Any) -> str:
    """Kind of a column: number, boolean, text or category, or one that is refused."""
    import pyarrow.types as types

    if types.is_boolean(kind):
        return "boolean"
    if is_number(kind):
        return "number"
    if types.is_dictionary(kind):
        inside = arrow_kind(kind.value_type)
        return "category" if inside in ("text", "number", "boolean") else inside
    if "string" in str(kind):
        return "text"
    if types.is_temporal(kind):
        return "date"
    if types.is_nested(kind):
        return "list"
    return "binary" if "binary" in str(kind) else "other"


def _floats(column: Any, name: str = "") -> NDArray[Any]:
    import pyarrow as pa

    if pa.types.is_int64(column.type) or pa.types.is_uint64(column.type):
        refuse_lossy(pa.chunked_array([column]), f"Column {name!r}", first=None)
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype == object:  # decimals, and booleans with nulls
        return np.array([np.nan if value is None else float(value) for value in values])
    return np.asarray(values, dtype=np.float64)


def listed(names: Sequence[Any]) -> str:
    """Names for a message, the first of many."""
    shown = ", ".join(map(repr, names[:12]))
    return shown if len(names) <= 12 else f"{shown} and {len(names) - 12} more"
