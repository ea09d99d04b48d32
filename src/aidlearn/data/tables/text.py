"""Text files: their dialect, detected from the first bytes, and the kinds that columns are read as."""

from __future__ import annotations

import codecs
import csv
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from aidlearn.data.encoding.levels import TableOutline
from aidlearn.data.encoding.places import FilePlace
from aidlearn.data.encoding.recipe import Recipe, level_text
from aidlearn.data.encoding.rules import Rules

LOOKED_AT = 1 << 18
"""Guess. Number of bytes from which the dialect is detected."""
SEPARATORS = (",", ";", "\t", "|")
WITH_COMMA, WITH_POINT = re.compile(r"[+-]?\d+,\d+"), re.compile(r"[+-]?\d*\.\d+")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
TRUTHS = dict.fromkeys(("0", "false", "FALSE"), "False") | dict.fromkeys(("1", "true", "TRUE"), "True")
"""Spellings of booleans that pyarrow reads, and their levels."""
LIKE_CODES = re.compile(r"\d{2,}")


@dataclass(frozen=True)
class Dialect:
    """Encoding, delimiter, decimal mark and header of a text file."""

    encoding: str
    delimiter: str
    decimal: str
    header: tuple[str, ...]
    """Cells of the first line."""

    @classmethod
    def of(cls, place: FilePlace, delimiter: str | None = None, encoding: str | None = None) -> Dialect:
        """Detect the dialect of a file, except a delimiter or encoding that is given."""
        if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'):
            raise ValueError(f"delimiter must be one character between cells such as ';' or a tab, got {delimiter!r}.")
        with place.stream() as stream:
            data = stream.read(LOOKED_AT)
        found = _encoding(data) if encoding is None else encoding
        try:
            text = codecs.getincrementaldecoder(found)(errors="replace").decode(data)
        except LookupError:
            raise ValueError(f"encoding must be one that Python knows, got {encoding!r}.") from None
        lines = text.lstrip("\ufeff").splitlines()
        if delimiter is None:
            delimiter = "\t" if place.suffix == ".tsv" else _delimiter(lines)
        header = tuple(next(csv.reader(lines, delimiter=delimiter), []))
        lines = lines[:-1] if len(data) == LOOKED_AT else lines  # the last line may be incomplete
        decimal = "," if delimiter != "," and _has_decimal_commas(lines, delimiter) else "."
        return cls(found, delimiter, decimal, header)


def _encoding(data: bytes) -> str:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        # Western European text: cp1252 has letters where latin-1 has control characters.
        return "cp1252" if re.search(rb"[\x80-\x9f]", data) else "latin-1"
    return "utf-8"


def _delimiter(lines: list[str]) -> str:
    """Return the delimiter that splits the header into the most cells; a comma if none does."""
    header = next((line for line in lines if line.strip()), "")
    cells = {mark: len(next(csv.reader([header], delimiter=mark), [])) for mark in SEPARATORS}
    return max(SEPARATORS, key=lambda mark: (cells[mark], mark == ","))


def _has_decimal_commas(lines: list[str], delimiter: str) -> bool:
    cells = [cell.strip() for row in islice(csv.reader(lines, delimiter=delimiter), 1, 200) for cell in row]
    return any(map(WITH_COMMA.fullmatch, cells)) and not any(map(WITH_POINT.fullmatch, cells))


def kinds_to_read(outline: TableOutline, by: Rules | Recipe | None) -> list[str]:
    """Return the kinds that columns of text are read as, by the rules of a fit or for the recipe of a model.

    Columns named as factors are read as exact texts, which :func:`level_of` converts to the levels of a recipe.
    Booleans remain booleans. Other columns, and factors of models that do not record their kind, are read as the kind
    that they look like.
    """
    kinds = list(outline.kinds)
    if isinstance(by, Recipe):
        return [
            look if column.levels is None or column.kind is None else "text"
            for look, column in zip(kinds, by.columns, strict=True)
        ]
    if by is None:
        return kinds
    for k in by.named_factors(outline.names, outline.where):
        kinds[k] = "text" if kinds[k] in ("number", "date") else kinds[k]
    for k, name in enumerate(outline.names):
        if by.by_dtype and name in by.numeric and kinds[k] != "boolean":
            kinds[k] = "number"
    return kinds


def level_of(text: str, kind: str | None, decimal: str) -> str:
    """Return the level of a text in a factor that the fit read as texts, numbers or booleans."""
    if kind == "boolean":
        return TRUTHS.get(text, text)
    if kind == "number" and NUMBER.fullmatch(number := text.strip().replace(decimal, ".")):
        return level_text(float(number))
    return text


def warn_of_codes(
    rows: Iterable[Sequence[str]], header: Sequence[str], numbers: Sequence[str], rules: Rules, where: str
) -> None:
    """Warn about columns of numbers whose first rows look like codes (leading zeros, equal lengths)."""
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
