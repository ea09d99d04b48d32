"""What the columns of a text file are read as: what was said goes before what its first rows look like."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence

from aidlearn.data.encoding.levels import TableOutline
from aidlearn.data.encoding.recipe import Recipe, level_text
from aidlearn.data.encoding.rules import Rules

Reading = Callable[[TableOutline], list[str]]
"""Of columns as they look, what each is read as: number, text or boolean, or what is refused."""
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
TRUTHS = dict.fromkeys(("0", "false", "FALSE"), "False") | dict.fromkeys(("1", "true", "TRUE"), "True")
"""Texts of truth values other than those of the levels, as pyarrow reads them."""
LIKE_CODES = re.compile(r"\d{2,}")


def as_they_look(outline: TableOutline) -> list[str]:
    """Nothing was said."""
    return list(outline.kinds)


def by_rules(rules: Rules) -> Reading:
    """A column that is named as a factor is read as texts, exactly as they are; truth values stay what they are."""

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
    """A factor is read as texts, of which :func:`level_of` makes the levels that the fit had.

    Numbers are guessed, and what is none is refused; so are factors of models that do not say what the fit read.
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
    """The level that a text stands for in a factor that the fit had as texts, numbers or truth values."""
    if kind == "boolean":
        return TRUTHS.get(text, text)
    if kind == "number" and NUMBER.fullmatch(number := text.strip().replace(decimal, ".")):
        return level_text(float(number))
    return text


def warn_of_codes(
    rows: Iterable[Sequence[str]], header: Sequence[str], numbers: Sequence[str], rules: Rules, where: str
) -> None:
    """One line for columns of numbers whose first rows look like codes: leading zeros, all of the same length."""
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
