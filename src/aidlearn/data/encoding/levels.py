"""The levels that are found for factors, and the recipe that follows from them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.encoding.recipe import (
    MISSING_LEVEL,
    NO_COLUMN,
    Column,
    Recipe,
    level_text,
    listed_levels,
    missing_cell,
)
from aidlearn.data.encoding.rules import Rules

MOST_LEVELS = 100_000
"""Maximum number of levels of a factor; a problem with more would exceed any memory."""

SEPARATED = re.compile(r"[+-]?\d{1,3}(?:([,.' \u00a0\u202f])\d{3})(?:\1\d{3})*(?:[.,]\d+)?")
"""Pattern of a number with thousands separators."""


@dataclass
class LevelsFound:
    """The levels of one column, collected part by part."""

    kind: str = "text"
    texts: dict[str, int] = field(default_factory=dict)
    """Index of each level, in order of appearance."""
    missing_row: int | None = None
    """The first row with a missing cell."""
    n_missing: int = 0
    inside: set[str] = field(default_factory=set)
    """Kinds of the values of a column of categories."""

    @property
    def read_as(self) -> str:
        """Kind that a column of a text file must be read as to have the same levels."""
        if self.kind != "category":
            return self.kind
        return next(iter(self.inside)) if len(self.inside) == 1 else "text"

    def add(self, values: Sequence[Any], codes: NDArray[Any], first_row: int) -> NDArray[np.int32]:
        """Add the levels of some rows and return the index of each row's level (-1 if missing)."""
        absent = np.flatnonzero(codes < 0)
        # A dictionary may hold unused values.
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
    """Names and kinds of the columns of a table before it is encoded."""

    names: list[Any]
    kinds: list[str]
    where: str
    """Name of the table in messages."""


def make_recipe(
    outline: TableOutline,
    rules: Rules,
    factors: Mapping[int, str | None],
    found: Mapping[int, LevelsFound],
    n_rows: int,
    intercept: bool,
    row_name: Callable[[int], str] = str,
) -> Recipe:
    """Return the recipe for a table whose levels are known.

    With an intercept, the reference level of each factor (the first, unless one was named) has no column, because the
    columns of all levels would sum to the intercept's column of 1.
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
    repeated = next((name for name, count in Counter(recipe.names).items() if count > 1), None)
    if repeated is not None:
        raise ValueError(
            f"{outline.where} has a factor and a column that would both have a coefficient {repeated!r}: rename one."
        )
    if recipe.n_attributes == 0:
        raise ValueError(f"Every column of {outline.where} has only one level: there is nothing to fit.")
    return recipe


def _levels(
    name: str, rules: Rules, found: LevelsFound, n_rows: int, where: str, row_name: Callable[[int], str]
) -> tuple[str, ...]:
    if found.missing_row is not None and rules.missing == "error":
        raise ValueError(missing_cell(name, row_name(found.missing_row)))
    levels = sorted(found.texts) if found.kind != "boolean" else ["False", "True"]
    absent = [MISSING_LEVEL] if found.missing_row is not None and rules.missing == "level" else []
    if MISSING_LEVEL in levels and absent:
        raise ValueError(f"Column {name!r} of {where} has a level called {MISSING_LEVEL!r} and also has missing cells.")
    if not levels and not absent:
        raise ValueError(f"Column {name!r} of {where} has no level: all its cells are missing.")
    problem = _unlike_factor(levels, found, n_rows, by_itself=rules.by_dtype and name not in rules.also)
    if problem:
        raise TextColumn(name, f"Column {name!r} of {where} holds {problem}.")
    return tuple(levels + absent)


def _unlike_factor(levels: Sequence[str], found: LevelsFound, n_rows: int, by_itself: bool) -> str:
    """Describe for a message why levels are unlike a factor's, and the remedy; named factors are checked less."""
    many, all_differ = found.is_too_many(), len(levels) == n_rows - found.n_missing and len(levels) > 10
    if many or (by_itself and (all_differ or (len(levels) > 100 and 2 * len(levels) > n_rows))):
        n = f"more than {MOST_LEVELS}" if many else str(len(levels))
        return (
            f"{n} different texts in {n_rows} rows, not numbers: it looks like a row identifier. Leave it out, or "
            "convert it to categories or numbers"
        )
    others = [level for level in levels if not is_number(level)]
    if not by_itself or found.kind != "text" or not others:
        return ""
    if all(SEPARATED.fullmatch(level.strip()) for level in others):
        return (
            f"numbers with separators, such as {others[0]!r}: write them without, or if it is a category, name it in "
            "categorical_features"
        )
    if len(levels) > 10 and 0.8 * len(levels) < len(levels) - len(others):
        return (
            f"numbers and {len(others)} other text(s), such as {others[0]!r}: correct these cells, or if it is a "
            "category, name it in categorical_features"
        )
    return ""


REFUSED = {
    "date": "dates or times; convert it to numbers (days since a date, the hour) or categories (month, weekday), or "
    "leave it out",
    "list": "lists or records; make a column of each of their parts, or leave it out",
    "binary": "bytes; decode them to texts, or leave it out",
    "object": "Python objects; convert it to numbers or texts, or leave it out",
    "sparse": "a sparse array of pandas; hand over X.sparse.to_coo().tocsr(), or dense columns",
    "other": "values that are neither numbers nor texts; convert it, or leave it out",
}


def refuse_columns(outline: TableOutline, factors: Mapping[int, Any], holds: Sequence[str] | None = None) -> None:
    """Raise an error for the first column that can become neither numbers nor levels."""
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


def is_number(text: str) -> bool:
    """Return whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


class TextColumn(ValueError):
    """Error about a column of X that does not hold numbers."""

    def __init__(self, column: str, message: str) -> None:
        super().__init__(message)
        self.column = column
