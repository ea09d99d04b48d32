"""Columns of a table file: which of them are X, target and weight, and how they become numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.chunk import Float
from aidlearn.data.files import Block


class TextColumn(ValueError):
    """A column of X that does not hold numbers."""

    def __init__(self, column: str, message: str) -> None:
        super().__init__(message)
        self.column = column


@dataclass(frozen=True)
class Roles:
    """Which columns of a table are X, target and weight."""

    columns: list[Any]
    target: Any = None
    weight: Any = None


def find_column(names: Sequence[Any], name: Any, what: str, where: str) -> Any:
    """A column by name, or by number where no column has it as name."""
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
    """The one chooser of columns: X is what is named, or all that is neither target, weight nor hidden."""
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
        raise ValueError(f"Column {clash[0]!r} of {where} is target or weight, it cannot be in X too.")
    if not chosen:
        raise ValueError(f"{where} has no column left for X.")
    return Roles(chosen, target, weight)


class ColumnChoice:
    """Which columns of a table file are X, target and weight, and how they become numbers."""

    def __init__(
        self, schema: Any, where: str, target: Any, columns: Sequence[Any] | None, weight: Any, one_hot: dict[str, Any]
    ) -> None:
        self.schema, self.where = schema, where
        roles = choose_columns(schema.names, where, target, columns, weight, _index_columns(schema))
        self.columns, self.target, self.weight = roles.columns, roles.target, roles.weight
        unknown = [name for name in one_hot if name not in self.columns]
        if unknown:
            raise ValueError(f"one_hot names {unknown[0]!r}, which is no column of X; columns are {self.columns}.")
        self.one_hot = one_hot
        for name in self.columns:
            if name not in one_hot and not is_number(schema.field(name).type):
                raise TextColumn(
                    name,
                    f"Column {name!r} of {where} holds {_kind(schema.field(name).type)}, not numbers; "
                    f"leave it out with columns=..., or encode it with one_hot=[{name!r}].",
                )

    @property
    def names(self) -> list[str]:
        """Names of the columns of X."""
        out: list[str] = []
        for name in self.columns:
            values = self.one_hot.get(name)
            out += [name] if values is None else [f"{name}={value}" for value in values[1:]]
        return out

    @property
    def needed(self) -> list[str]:
        return [*self.columns, *(name for name in (self.target, self.weight) if name is not None)]

    def block(self, batches: Sequence[Any], into: Float | None = None) -> Block:
        """Consecutive batches of rows as numbers; X is written ``into`` an array with enough rows, if there is one."""
        rows = sum(batch.num_rows for batch in batches)
        X = np.empty((rows, len(self.names))) if into is None else into[:rows]
        first = 0
        for batch in batches:
            self._fill(X[first : first + batch.num_rows], batch)
            first += batch.num_rows
        target = np.zeros(rows) if self.target is None else _column(batches, self.target, self.raw)
        weight = np.ones(rows) if self.weight is None else _column(batches, self.weight, _floats)
        return Block(X, target, weight)

    def _fill(self, X: Float, batch: Any) -> None:
        """Write the attributes of a batch. Columns that are numbers are written together: one transposition."""
        position = 0
        for encoded, group in groupby(self.columns, key=self.one_hot.__contains__):
            names = list(group)
            if not encoded:
                columns = [_floats(batch.column(name)) for name in names]
                np.stack(columns, axis=1, out=X[:, position : position + len(names)])
                position += len(names)
                continue
            for name in names:
                values = self.one_hot[name]
                codes = _codes(batch.column(name), values)
                X[:, position : position + len(values) - 1] = codes[:, None] == np.arange(1, len(values))
                position += len(values) - 1

    @staticmethod
    def raw(column: Any) -> NDArray[Any]:
        """A target as it is stored: texts as texts, whole numbers and truth values as what they are."""
        if is_number(column.type):
            whole = _is_whole(column.type) and column.null_count == 0
            return np.asarray(column.to_numpy(zero_copy_only=False)) if whole else _floats(column)
        encoded = _plain(column).dictionary_encode()
        values = np.array(encoded.dictionary.to_pylist())
        if encoded.null_count:
            values, indices = np.append(values.astype(object), np.nan), encoded.indices.fill_null(len(values))
        else:
            indices = encoded.indices
        return values[indices.to_numpy()]


def _column(batches: Sequence[Any], name: str, values: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([values(batch.column(name)) for batch in batches])


def _codes(column: Any, values: Sequence[Any]) -> NDArray[Any]:
    """Number of each value of a column; -1 for one that was not there when the file was opened."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _plain(column)
    found = pc.index_in(column, value_set=pa.array(values, type=column.type))
    return np.asarray(found.fill_null(-1).to_numpy())


def unique_values(column: Any) -> list[Any]:
    """The different values of a column, missing ones as None."""
    return [None if value != value else value for value in _plain(column).unique().to_pylist()]


def _plain(column: Any) -> Any:
    """A column of categories, or of views of texts, as one of its values."""
    import pyarrow as pa

    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    return column.cast(pa.string()) if str(column.type) == "string_view" else column


def _index_columns(schema: Any) -> list[str]:
    """What pandas has stored beside the columns: names of its rows are no attributes."""
    described = schema.pandas_metadata or {}
    return [name for name in described.get("index_columns", []) if isinstance(name, str)]


def is_number(kind: Any) -> bool:
    import pyarrow.types as types

    numbers = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(is_kind(kind) for is_kind in numbers)


def _is_whole(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_integer(kind) or types.is_boolean(kind))


def _kind(kind: Any) -> str:
    return "texts" if "string" in str(kind) else str(kind)


def _floats(column: Any) -> NDArray[Any]:
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype == object:  # decimals, and booleans with nulls
        return np.array([np.nan if value is None else float(value) for value in values])
    return np.asarray(values, dtype=np.float64)


def listed(names: Sequence[Any]) -> str:
    """Names for a message, the first of many."""
    shown = ", ".join(map(repr, names[:12]))
    return shown if len(names) <= 12 else f"{shown} and {len(names) - 12} more"
