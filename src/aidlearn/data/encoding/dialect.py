"""The dialect of a CSV file, recognised from its first bytes: encoding, delimiter and decimal mark."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from aidlearn.data.encoding.places import FilePlace

LOOKED_AT = 1 << 18
"""Guess. Bytes from which the dialect is recognised."""
SEPARATORS = (",", ";", "\t", "|")
WITH_COMMA, WITH_POINT = re.compile(r"[+-]?\d+,\d+"), re.compile(r"[+-]?\d*\.\d+")


@dataclass(frozen=True)
class Dialect:
    """How the text of a file is read."""

    encoding: str
    delimiter: str
    decimal: str

    @classmethod
    def of(cls, place: FilePlace, delimiter: str | None = None, encoding: str | None = None) -> Dialect:
        """Recognise the dialect of a file, unless delimiter or encoding are given."""
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
        lines = lines[:-1] if len(data) == LOOKED_AT else lines  # the last line may be incomplete
        if delimiter is None:
            delimiter = "\t" if place.suffix == ".tsv" else _delimiter(lines)
        return cls(found, delimiter, "," if delimiter != "," and _has_decimal_commas(lines, delimiter) else ".")


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
    """The delimiter that splits the header into the most cells; a comma if none does."""
    header = next((line for line in lines if line.strip()), "")
    cells = {mark: len(next(csv.reader([header], delimiter=mark), [])) for mark in SEPARATORS}
    return max(SEPARATORS, key=lambda mark: (cells[mark], mark == ","))


def _has_decimal_commas(lines: list[str], delimiter: str) -> bool:
    cells = [cell.strip() for row in islice(csv.reader(lines, delimiter=delimiter), 1, 200) for cell in row]
    return any(map(WITH_COMMA.fullmatch, cells)) and not any(map(WITH_POINT.fullmatch, cells))


SEPARATED = re.compile(r"[+-]?\d{1,3}(?:([,.' \u00a0\u202f])\d{3})(?:\1\d{3})*(?:[.,]\d+)?")
"""A number with thousands separators."""


def is_number(text: str) -> bool:
    """Whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def are_separated(texts: Iterable[str]) -> bool:
    """Whether all texts are numbers, some of them with thousands separators."""
    others = [text for text in texts if not is_number(text)]
    return len(others) > 0 and all(SEPARATED.fullmatch(text.strip()) for text in others)
