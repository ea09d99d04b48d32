"""How the columns of a table become those of a model: numbers as they are, factors as one column for each level.

A factor is a column of texts, categories or truth values, or one that was named as a factor. It is held as codes; rows
become numbers a chunk at a time, sparse where levels are many. The recipe is made once, before the first pass, and
kept by the fitted model: predictions, the command line and Dask workers all encode by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.encoding.dialect import are_separated, is_number
from aidlearn.numerics import Float

MISSING_LEVEL = "(missing)"
"""The level of missing cells, with ``missing="level"``; the last one, whatever the others are called."""
NO_COLUMN, UNKNOWN = -1, -2
"""Positions of the reference level, and of a level that the fit has not seen."""
MOST_LEVELS = 100_000
"""Of one factor: more would make a problem that no memory holds."""
SHOWN = 8
"""Levels in a message."""
MISSING_RULES, UNKNOWN_RULES = ("error", "drop", "level"), ("error", "reference")
FROM_DTYPE = "from_dtype"
FACTOR_KINDS = ("text", "category", "boolean")
READ_AS = ("number", "text", "boolean")
"""What a model remembers that its columns were read as."""


@dataclass(frozen=True)
class Column:
    """One column of the input."""

    name: str
    levels: tuple[str, ...] | None = None
    """Of a factor, in the order of texts; None of numbers."""
    reference: str | None = None
    """The level that has no column of its own, where one is left out."""
    kind: str | None = None
    """What the fit read it as: number, text or boolean (a category is what its values are); None in older files."""

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
    """Columns of the input, and what to do with cells that the fit has not seen."""

    columns: tuple[Column, ...]
    missing: str = "error"
    unknown: str = "error"

    @cached_property
    def names(self) -> list[str]:
        """Of the columns of the model: ``distance``, ``origin[LAS]``."""
        return [name for column in self.columns for name in column.names]

    @cached_property
    def firsts(self) -> NDArray[np.int64]:
        """Of every column of the input, its first one in the model; and their number."""
        return np.concatenate([[0], np.cumsum([column.width for column in self.columns])]).astype(np.int64)

    @property
    def n_attributes(self) -> int:
        return int(self.firsts[-1])

    @property
    def is_sparse(self) -> bool:
        """Whether rows are kept sparse: where more than half of their cells are zero."""
        return self.n_attributes > 2 * len(self.columns)

    @property
    def factors(self) -> list[Column]:
        return [column for column in self.columns if column.levels is not None]

    @property
    def references(self) -> dict[str, str | None]:
        """The factors and their reference levels, as sources are told them."""
        return {factor.name: factor.reference for factor in self.factors}

    @property
    def factor_positions(self) -> dict[int, None]:
        """Positions of the factors among the columns of the input."""
        return {k: None for k, column in enumerate(self.columns) if column.levels is not None}

    def input_of(self, attribute: int) -> int:
        """The column of the input that a column of the model comes from."""
        return int(np.searchsorted(self.firsts, attribute, side="right")) - 1

    def positions(
        self, column: Column, values: Sequence[Any], codes: NDArray[Any], row_name: Callable[[int], str]
    ) -> NDArray[np.int32]:
        """Of every row, which of the columns of a factor is 1.

        Parameters
        ----------
        values, codes : the rows as a dictionary of values and the number of each row's, -1 of a missing one.
        row_name : what a row is called in messages.
        """
        assert column.levels is not None
        known = {level: k for k, level in enumerate(column.own_levels)}
        if column.reference is not None:
            known[column.reference] = NO_COLUMN
        unseen = NO_COLUMN if self.unknown == "reference" else UNKNOWN
        places = [known.get(level_text(value), unseen) for value in values]
        if self.missing == "level":
            places.append(known.get(MISSING_LEVEL, unseen))
        else:
            places.append(UNKNOWN)
        found = np.array(places, dtype=np.int32)[codes]
        bad = np.flatnonzero(found == UNKNOWN)
        if len(bad):
            row = int(bad[0])
            if codes[row] < 0 and self.missing != "level":
                raise ValueError(missing_cell(column.name, row_name(row)))
            level = MISSING_LEVEL if codes[row] < 0 else level_text(values[codes[row]])
            raise ValueError(
                f"Column {column.name!r} has the level {level!r} at row {row_name(row)}, which the model was not "
                f"fitted to; it knows {listed_levels(column.levels)}. unknown='reference' takes it for the reference "
                "level."
            )
        return found

    def rows(self, parts: Sequence[NDArray[Any]], into: Float | None = None) -> Any:
        """Columns of some rows as one matrix: numbers, and positions of the levels of factors.

        A dense array (``into`` the first rows of one that is given), or a CSR matrix.
        """
        n = len(parts[0])
        if self.is_sparse:
            from aidlearn.data.encoding.indicators import csr_rows_of

            return csr_rows_of(self, parts)
        X = np.empty((n, self.n_attributes)) if into is None else into[:n]
        for column, first, part in zip(self.columns, self.firsts, parts, strict=False):
            if column.levels is None:
                X[:, first] = part
            else:
                X[:, first : first + column.width] = part[:, None] == np.arange(column.width)
        return X


@dataclass(frozen=True)
class EncodedRows:
    """Rows whose columns are those of the model already, and the recipe that made them."""

    X: Any
    recipe: Recipe

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.X.shape[0]), int(self.X.shape[1])


def level_text(value: Any) -> str:
    """A level as text, the same whatever kind of table it comes from: 2 and 2.0 are "2"."""
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
    """Levels for a message, the first of many."""
    shown = ", ".join(map(repr, levels[:SHOWN]))
    return shown if len(levels) <= SHOWN else f"{shown} and {len(levels) - SHOWN} more"


def missing_cell(name: str, row: str) -> str:
    return (
        f"Input X has a missing cell at row {row}, column {name!r}: fill it. A fit can also leave such rows out with "
        "missing='drop', or make a level of it with missing='level'; a prediction needs all its cells."
    )


@dataclass(frozen=True)
class Rules:
    """What an estimator or a source is told about the columns of tables."""

    categorical: Any = FROM_DTYPE
    missing: str = "error"
    unknown: str = "error"
    also: Mapping[Any, Any] = field(default_factory=dict)
    """Further factors, beside those by type, and their reference levels (None: the first)."""
    numeric: Sequence[Any] = ()
    """Columns that are numbers, whatever their type."""
    unlabelled: bool = False
    """Whether a row without a target is one without a label, which ``missing="drop"`` keeps."""

    def check(self) -> None:
        """One clear error for a value that is none."""
        for name, value, choices in (
            ("missing", self.missing, MISSING_RULES),
            ("unknown", self.unknown, UNKNOWN_RULES),
        ):
            if not isinstance(value, str) or value not in choices:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")
        given = self.categorical
        sound = given is None or (isinstance(given, str) and given == FROM_DTYPE)
        if not (sound or (not isinstance(given, (str, bytes)) and hasattr(given, "__iter__"))):
            raise ValueError(
                f"categorical_features must be {FROM_DTYPE!r}, None, a list of columns, a mask of them, or a dict from "
                f"columns to reference levels, got {given!r}."
            )

    @property
    def by_dtype(self) -> bool:
        return isinstance(self.categorical, str)

    def over(self, other: Rules) -> Rules:
        """These rules; where they say nothing, the others."""
        plain = Rules()
        return Rules(
            other.categorical if self.by_dtype else self.categorical,
            other.missing if self.missing == plain.missing else self.missing,
            other.unknown if self.unknown == plain.unknown else self.unknown,
            other.also if self.by_dtype else self.also,
            other.numeric if self.by_dtype else self.numeric,
            self.unlabelled or other.unlabelled,
        )

    def named_factors(self, names: Sequence[Any]) -> list[int]:
        """Positions of the columns that are factors because they were named; names of other columns are passed over."""
        given = self.also if self.by_dtype else self.categorical
        listed: list[Any] = [] if given is None else list(given)
        if not self.by_dtype and listed and all(isinstance(value, (bool, np.bool_)) for value in listed):
            return [k for k, chosen in enumerate(listed[: len(names)]) if chosen]
        return [k for k in (_place(names, name) for name in listed) if k is not None]

    def factors(self, names: Sequence[Any], kinds: Sequence[str], where: str) -> dict[int, str | None]:
        """Which columns are factors, by position, and the reference level that was asked for."""
        if self.by_dtype:
            found: dict[int, str | None] = {k: None for k, kind in enumerate(kinds) if kind in FACTOR_KINDS}
            for name, level in self.also.items():
                found[_position(names, name, where)] = None if level is None else level_text(level)
            for name in self.numeric:
                found.pop(_position(names, name, where), None)
            return dict(sorted(found.items()))
        given = self.categorical
        if given is None:
            return {}
        if isinstance(given, Mapping):
            return {
                _position(names, name, where): None if level is None else level_text(level)
                for name, level in given.items()
            }
        listed = list(given)
        if listed and all(isinstance(value, (bool, np.bool_)) for value in listed):
            if len(listed) != len(names):
                raise ValueError(f"categorical_features is a mask of {len(listed)} columns, {where} has {len(names)}.")
            return {k: None for k, chosen in enumerate(listed) if chosen}
        return {_position(names, name, where): None for name in listed}


def _place(names: Sequence[Any], name: Any) -> int | None:
    if name in names:
        return list(names).index(name)
    if isinstance(name, Integral) and -len(names) <= int(name) < len(names):
        return int(name) % len(names)
    return None


def _position(names: Sequence[Any], name: Any, where: str) -> int:
    found = _place(names, name)
    if found is not None:
        return found
    shown = listed_levels([str(known) for known in names])
    raise ValueError(f"categorical_features names {name!r}, which is no column of {where}; its columns are {shown}.")


@dataclass
class LevelsFound:
    """The levels of one column, as they come."""

    kind: str = "text"
    texts: dict[str, int] = field(default_factory=dict)
    """Each level and its number in the order of appearance."""
    missing_row: int | None = None
    """The first row without one."""
    n_missing: int = 0
    inside: set[str] = field(default_factory=set)
    """Kinds of the values of categories."""

    @property
    def read_as(self) -> str:
        """What a text file has to be read as for the same levels."""
        if self.kind != "category":
            return self.kind
        return next(iter(self.inside)) if len(self.inside) == 1 else "text"

    def add(self, values: Sequence[Any], codes: NDArray[Any], first_row: int) -> NDArray[np.int32]:
        """Levels of some rows; returns the number of each row's level, -1 of a missing one."""
        absent = np.flatnonzero(codes < 0)
        # A dictionary may hold values that no row has.
        used = np.bincount(codes[codes >= 0], minlength=len(values)) > 0
        if len(absent) and self.missing_row is None:
            self.missing_row = first_row + int(absent[0])
        self.n_missing += len(absent)
        if self.kind == "category":
            self.inside.update(_value_kind(value) for value, is_used in zip(values, used, strict=True) if is_used)
        numbers = [
            self.texts.setdefault(level_text(value), len(self.texts)) if is_used else NO_COLUMN
            for value, is_used in zip(values, used, strict=True)
        ]
        return np.array([*numbers, NO_COLUMN], dtype=np.int32)[codes]

    def is_too_many(self) -> bool:
        return len(self.texts) > MOST_LEVELS


def _value_kind(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "boolean"
    return "number" if isinstance(value, (Integral, float, np.floating)) else "text"


@dataclass(frozen=True)
class TableOutline:
    """What a table looks like before its columns have become numbers."""

    names: list[Any]
    kinds: list[str]
    where: str
    """What it is called in messages."""


def make_recipe(
    outline: TableOutline,
    rules: Rules,
    factors: Mapping[int, str | None],
    found: Mapping[int, LevelsFound],
    n_rows: int,
    intercept: bool,
    row_name: Callable[[int], str] = str,
) -> Recipe:
    """The recipe for a table whose levels are known.

    With an intercept the reference level of each factor (the first, unless one was named) has no column: the columns of
    all levels sum to 1, as the intercept's does.
    """
    columns = []
    for k, name in enumerate(outline.names):
        if k not in factors:
            columns.append(Column(str(name), kind=outline.kinds[k]))
            continue
        levels, reference = _levels(str(name), rules, found[k], n_rows, outline.where, row_name), factors[k]
        if reference is not None and reference not in levels:
            raise ValueError(
                f"categorical_features names {reference!r} as the reference of column {name!r}, which has no such "
                f"level; it has {listed_levels(levels)}."
            )
        left_out = (levels[0] if reference is None else reference) if intercept or reference is not None else None
        columns.append(Column(str(name), levels, left_out, found[k].read_as))
    recipe = Recipe(tuple(columns), rules.missing, rules.unknown)
    if recipe.n_attributes == 0:
        raise ValueError(f"Every column of {outline.where} has one level only: there is nothing to fit to.")
    return recipe


def _levels(
    name: str, rules: Rules, found: LevelsFound, n_rows: int, where: str, row_name: Callable[[int], str]
) -> tuple[str, ...]:
    if found.missing_row is not None and rules.missing == "error":
        raise ValueError(missing_cell(name, row_name(found.missing_row)))
    levels = sorted(found.texts) if found.kind != "boolean" else ["False", "True"]
    absent = [MISSING_LEVEL] if found.missing_row is not None and rules.missing == "level" else []
    if MISSING_LEVEL in levels and absent:
        raise ValueError(
            f"Column {name!r} of {where} has a level called {MISSING_LEVEL!r} and missing cells beside it."
        )
    if not levels and not absent:
        raise ValueError(f"Column {name!r} of {where} has no level: all its cells are missing.")
    by_itself = rules.by_dtype and name not in rules.also
    many, all_differ = found.is_too_many(), len(levels) == n_rows - found.n_missing and len(levels) > 10
    if many or (by_itself and (all_differ or (len(levels) > 100 and 2 * len(levels) > n_rows))):
        n = f"more than {MOST_LEVELS}" if many else str(len(levels))
        raise TextColumn(
            name,
            f"Column {name!r} of {where} holds {n} different texts in {n_rows} rows, not numbers: that is a name of "
            "rows, not a category. Leave it out, or make categories or numbers of it.",
        )
    if by_itself and found.kind == "text" and are_separated(levels):
        strange = next(level for level in levels if not is_number(level))
        raise TextColumn(
            name,
            f"Column {name!r} of {where} holds numbers with separators, such as {strange!r}: write them without, or if "
            "it is a category, name it in categorical_features.",
        )
    if by_itself and found.kind == "text" and len(levels) > 10:
        numbers = sum(map(is_number, levels))
        if 0.8 * len(levels) < numbers < len(levels):
            strange = next(level for level in levels if not is_number(level))
            raise TextColumn(
                name,
                f"Column {name!r} of {where} holds numbers and {len(levels) - numbers} other text(s), such as "
                f"{strange!r}: mend these cells, or if it is a category, name it in categorical_features.",
            )
    return tuple(levels + absent)


REFUSED = {
    "date": "dates or times; make numbers of it (days since a day, the hour) or categories (month, weekday), or leave "
    "it out",
    "list": "lists or records; make a column of each of their parts, or leave it out",
    "binary": "bytes; decode them to texts, or leave it out",
    "object": "Python objects; convert it to numbers or texts, or leave it out",
    "sparse": "a sparse array of pandas; hand over X.sparse.to_coo().tocsr(), or dense columns",
    "other": "values that are neither numbers nor texts; convert it, or leave it out",
}


def refuse_columns(outline: TableOutline, factors: Mapping[int, Any], holds: Sequence[str] | None = None) -> None:
    """One clear error for the first column that can become neither numbers nor levels."""
    for k, (name, kind) in enumerate(zip(outline.names, outline.kinds, strict=True)):
        shown = f"column {k} ({str(name)!r}) of {outline.where}"
        if kind in REFUSED:
            what = holds[k] if holds is not None and holds[k] else REFUSED[kind]
            raise TextColumn(str(name), f"could not convert to float: {shown} holds {what}.")
        if k not in factors and kind in ("text", "category"):
            raise TextColumn(
                str(name),
                f"could not convert string to float: {shown} holds texts, not numbers; name it in "
                "categorical_features, or leave it out.",
            )


class TextColumn(ValueError):
    """A column of X that does not hold numbers."""

    def __init__(self, column: str, message: str) -> None:
        super().__init__(message)
        self.column = column
