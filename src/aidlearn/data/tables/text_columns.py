"""Kinds as which the columns of a text file are read: rules take precedence over its first rows."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence

from aidlearn.data.encoding.levels import TableOutline
from aidlearn.data.encoding.recipe import Recipe, level_text
from aidlearn.data.encoding.rules import Rules

Reading = Callable[[TableOutline], list[str]]
"""Maps columns as they look to the kinds as which they are read."""
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
TRUTHS = dict.fromkeys(("0", "false", "FALSE"), "False") | dict.fromkeys(("1", "true", "TRUE"), "True")
"""Spellings of truth values that pyarrow reads, and their levels."""
LIKE_CODES = re.compile(r"\d{2,}")


def as_they_look(outline: TableOutline) -> list[str]:
    """Read columns as they look."""
    return list(outline.kinds)


def by_rules(rules: Rules) -> Reading:
    """Read columns named as factors as exact texts; truth values remain truth values."""

    def read_as(outline: TableOutline) -> list[str]:
        kinds = list(outline.kinds)
        for k in rules.named_factors(outline.names):
            kinds[k] = "text" if kinds[k] in ("number", "date") else kinds[k]
        for k, name in enumerate(outline.names):
            if rules.by_dtype and name in rules.numeric and kinds[k] != "boolean":
                kinds[k] = "number"
        return kinds

    return read_as


def by_recipe(recipe: Recipe | None) -> Reading:
    """Read factors as texts, which :func:`level_of` converts to the levels of the fit.

    Other columns, and factors of models that do not record their kind, are read as they look.
    """

    def read_as(outline: TableOutline) -> list[str]:
        if recipe is None:
            return list(outline.kinds)
        return [
            look if column.levels is None or column.kind is None else "text"
            for look, column in zip(outline.kinds, recipe.columns, strict=True)
        ]

    return read_as


def level_of(text: str, kind: str | None, decimal: str) -> str:
    """The level of a text in a factor that the fit read as texts, numbers or truth values."""
    if kind == "boolean":
        return TRUTHS.get(text, text)
    if kind == "number" and NUMBER.fullmatch(number := text.strip().replace(decimal, ".")):
        return level_text(float(number))
    return text


def warn_of_codes(
    rows: Iterable[Sequence[str]], header: Sequence[str], numbers: Sequence[str], rules: Rules, where: str
) -> None:
    """Warn of columns of numbers whose first rows look like codes: leading zeros, equal lengths."""
    cells: dict[str, set[str]] = {name: set() for name in numbers if name not in rules.numeric}
    places = {name: header.index(name) for name in cells}
    for row in rows:
        for name, k in places.items():
            if k < len(row) and row[k].strip():
                cells[name].add(row[k].strip())
    codes = [
        repr(name)
        for name, found in cells.items()
        if any(cell.startswith("0") for cell in found)
        and len({len(cell) for cell in found}) == 1
        and all(map(LIKE_CODES.fullmatch, found))
    ]
    if codes:
        one = len(codes) == 1
        they, are, them, kind = ("it", "is", "it", "a category") if one else ("they", "are", "them", "categories")
        warnings.warn(
            f"Column{'' if one else 's'} {', '.join(codes)} of {where} {are} read as numbers, though leading zeros and "
            f"cells of one length look like codes: name {them} in categorical_features if {they} {are} {kind}, or in "
            f"numeric if {they} {are} not.",
            stacklevel=3,
        )
