"""CSV and TSV files with a header, streamed with pyarrow and parsed again in every pass."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from aidlearn.data.encoding import levels
from aidlearn.data.encoding.places import FilePlace, first_line
from aidlearn.data.encoding.recipe import Recipe
from aidlearn.data.encoding.rules import Rules
from aidlearn.data.rows.numbers import LARGEST_WHOLE, is_rounded
from aidlearn.data.tables.arrow import is_number
from aidlearn.data.tables.columns import Roles
from aidlearn.data.tables.table_files import TableFiles, where_of
from aidlearn.data.tables.text import Dialect, kinds_to_read, warn_of_codes

NO_VALUE = ("", "null", "na", "n/a", "nan", "true", "false", "#n/a", "-nan", "none")
"""Lower-case texts that a column of numbers may contain."""
LONG_WHOLE = r"^\s*[+-]?\d{16,1000}([.,]0*)?\s*$"
"""A whole number of at least as many digits as 2^53."""


@dataclass(frozen=True)
class CsvSettings:
    """Settings for how much of a CSV file is read at a time."""

    block_bytes: int = 8 << 20
    """Guess. Bytes of text in the first block, which determines the types of the columns; the most of any block."""
    later_bytes: int = 1 << 20
    """Bytes of text decoded at a time in a pass: larger blocks gain no time, and pyarrow reads 32 of them ahead."""
    fewest_rows: int = 64
    """Guess. Minimum number of average rows in a block, as long as it does not exceed the first one."""
    held_blocks: float = 80.0
    """Memory of the reader in blocks, including what allocators retain: 57 were measured with 2 cores, 82 with 16."""
    peeked_bytes: int = 1 << 16
    """Guess. Bytes that pyarrow reads at a time after the first block if only that is wanted."""
    rows_for_codes: int = 1000
    """Guess. Number of first rows searched for numbers that look like codes (leading zeros, equal lengths)."""


SETTINGS = CsvSettings()


class CsvSource(TableFiles):
    """CSV files with the same columns, plain or compressed; encoding and delimiter are detected unless given."""

    def __init__(
        self,
        places: list[FilePlace],
        asked: Roles,
        n_jobs: int | None,
        delimiter: str | None = None,
        encoding: str | None = None,
        read_as: Rules | Recipe | None = None,
    ) -> None:
        import pyarrow as pa

        super().__init__(places, n_jobs)
        self.dialect = Dialect.of(places[0], delimiter, encoding)
        self._types: dict[str, Any] | None = None
        """Types that columns are read as; None while pyarrow infers them from the first block."""
        self._exact: set[tuple[FilePlace, str]] = set()
        """Columns whose large numbers float64 holds exactly."""
        self._block_bytes = SETTINGS.block_bytes
        schema, n_rows = self._beginning(places[0])
        for place in places[1:]:
            names = self._beginning(place)[0].names
            if names != schema.names:
                raise ValueError(f"{place} has other columns than {places[0]}: {names}, not {schema.names}.")
        rows_bytes = SETTINGS.fewest_rows * SETTINGS.block_bytes // max(1, n_rows)
        self._block_bytes = min(SETTINGS.block_bytes, max(SETTINGS.later_bytes, rows_bytes))
        self._whole = [field.name for field in schema if pa.types.is_integer(field.type)]
        dates = [field.name for field in schema if pa.types.is_temporal(field.type)]
        # The first rows decide the types; a text further down in a column of numbers is found when it is read.
        schema = pa.schema([(field.name, _widened(field.type)) for field in schema])
        try:
            self._choose(schema, where_of(places), asked, dates)
        except ValueError as error:
            if len(schema.names) > 1:
                raise
            raise ValueError(
                f"{error} There is only one column ({schema.names[0]!r}): if its delimiter is not , ; | or a tab, "
                "give it as in delimiter=' '."
            ) from None
        self.decimal = self.dialect.decimal
        self._types, self._looks = {field.name: field.type for field in schema}, self.outline
        self._read_as(read_as)
        kinds = self.outline.kinds
        self.dictionaries = [name for name, kind in zip(self.inputs, kinds, strict=True) if kind == "text"]
        self._count(self._scan([j for j, kind in enumerate(kinds) if kind in ("text", "boolean")], self.needed))
        self.reading_bytes = SETTINGS.held_blocks * self._block_bytes

    def _read_as(self, by: Rules | Recipe | None) -> None:
        """Set the kinds that columns are read as; columns encoded in folder names are not in the text."""
        import pyarrow as pa

        types = {"number": pa.float64(), "text": pa.string(), "date": pa.string(), "boolean": pa.bool_()}
        looks, names = self._looks.kinds, self.inputs
        kinds = [
            kind if name in self._inside else look
            for name, look, kind in zip(names, looks, kinds_to_read(self._looks, by), strict=True)
        ]
        self.outline = replace(self._looks, kinds=kinds)
        read = {name: types[kind] for name, kind in zip(names, kinds, strict=True) if name in self._inside}
        self._types = (self._types or {}) | read

    def _reading(self, by: Rules | Recipe | None) -> CsvSource:
        """Return the same files read by rules or a recipe, without the levels of columns whose kind changes."""
        source, before = copy(self), self.outline.kinds
        source._read_as(by)
        after = source.outline.kinds
        if after == before:
            return self
        source._found = {key: levels for key, levels in self._found.items() if before[key[0]] == after[key[0]]}
        return source

    def warn_of_codes(self, rules: Rules) -> None:
        """Warn about columns that look like codes and are read as numbers though no rule requires it."""
        kinds = dict(zip(self.inputs, self.outline.kinds, strict=True))
        numbers = [name for name, kind in kinds.items() if kind == "number" and name in self._whole]
        if numbers:
            with self._rows_of_text(self.places[0]) as (header, rows):
                warn_of_codes(islice(rows, SETTINGS.rows_for_codes), header, numbers, rules, self.where)

    def encoded(self, rules: Rules, intercept: bool) -> TableFiles:
        source = self._reading(rules.over(self.rules))
        with self._naming_first_text():
            return super(CsvSource, source).encoded(rules, intercept)

    def following(self, recipe: Recipe | None) -> TableFiles:
        source = self._reading(recipe)
        with self._naming_first_text():
            return super(CsvSource, source).following(recipe)

    @contextmanager
    def _naming_first_text(self) -> Iterator[None]:
        """Extend errors with the first text of a column if numbers precede it, because it may be a typing error."""
        try:
            yield
        except levels.TextColumn as error:
            message = str(error)
            with self._rows_of_text(self.places[0]) as (header, rows):
                k = header.index(error.column) if error.column in header else len(header)
                found = ((row, cells[k]) for row, cells in enumerate(rows) if k < len(cells))
                row, text = next(((row, cell) for row, cell in found if not self._is_number(cell)), (0, ""))
            raise ValueError(f"{message} Its first text is {text!r}, in row {row}." if row else message) from None

    def _beginning(self, place: FilePlace) -> tuple[Any, int]:
        """Return the schema of the first block and its number of rows."""
        import pyarrow as pa

        try:
            with place.stream() as stream, self._reader(pa.PythonFile(_Beginning(stream), "r"), None) as reader:
                return reader.schema, sum(batch.num_rows for batch in islice(reader, 1))
        except Exception as error:
            raise ValueError(self._explained(place, [], error, "cannot be read as CSV")) from None

    def _reader(self, stream: Any, columns: list[str] | None, as_texts: bool = False) -> Any:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        types = self._types
        if as_texts and columns is not None:
            types = dict.fromkeys(columns, pa.string())
        elif types is not None:
            coded = pa.dictionary(pa.int32(), pa.string())
            types = types | {name: coded for name in self.dictionaries if name in types}
        return arrow_csv.open_csv(
            stream,
            read_options=arrow_csv.ReadOptions(
                block_size=self._block_bytes,
                use_threads=True,
                encoding=self.dialect.encoding.replace("utf-8", "utf8"),
            ),
            # A cell may contain line breaks, even where a block ends.
            parse_options=arrow_csv.ParseOptions(delimiter=self.dialect.delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=columns,
                column_types=types,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                decimal_point=self.dialect.decimal,
            ),
        )

    def _batches(self, place: FilePlace, columns: list[str]) -> Iterator[Any]:
        import pyarrow as pa

        try:
            with self._reader(place.stream(), columns) as reader:
                for batch in reader:
                    self._refuse_rounded(place, batch)
                    yield batch
        except Exception as error:
            if type(error).__module__.startswith("pyarrow") or isinstance(error, UnicodeError):
                raise ValueError(self._explained(place, columns, error, "cannot be read")) from None
            raise
        finally:
            pa.default_memory_pool().release_unused()  # the pool retains memory that its threads have freed

    def _refuse_rounded(self, place: FilePlace, batch: Any) -> None:
        """Refuse whole numbers that float64 rounds; a column with numbers of 2^53 and more is read once as texts."""
        import pyarrow as pa
        import pyarrow.compute as pc

        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if column.type != pa.float64() or (place, name) in self._exact:
                continue
            if not (np.abs(column.to_numpy(zero_copy_only=False)) >= LARGEST_WHOLE).any():
                continue
            row, label = 0, name == self.target_name
            with self._reader(place.stream(), [name], as_texts=True) as reader:
                for (texts,) in reader:
                    long = pc.match_substring_regex(texts, LONG_WHOLE).fill_null(False).to_numpy(zero_copy_only=False)
                    for k in np.flatnonzero(long).tolist():
                        text = re.split("[.,]", texts[k].as_py().strip())[0]
                        if is_rounded(int(text)):
                            raise ValueError(
                                f"Row {row + k} of {place} has the whole number {text} in column {name!r}, which "
                                "float64 would round: subtract a constant, write it as in 1.5e16 if its last digits "
                                "do not matter, or if it is a "
                                + ("label, add a letter." if label else "category, name it in categorical_features.")
                            )
                    row += len(texts)
            self._exact.add((place, name))

    @contextmanager
    def _rows_of_text(self, place: FilePlace) -> Iterator[tuple[list[str], Iterator[list[str]]]]:
        """Open a file and give its header and its rows as texts, without empty lines."""
        csv.field_size_limit(1 << 30)
        encoding = self.dialect.encoding.replace("utf-8", "utf-8-sig")
        with io.TextIOWrapper(io.BufferedReader(place.stream()), encoding, errors="replace", newline="") as file:
            reader = csv.reader(file, delimiter=self.dialect.delimiter)
            yield next(reader, []), filter(None, reader)

    def _is_number(self, cell: str) -> bool:
        text = cell.replace(",", ".") if self.dialect.decimal == "," else cell
        return cell.strip().lower() in NO_VALUE or levels.is_number(text)

    def _explained(self, place: FilePlace, columns: list[str], error: Exception, what: str) -> str:
        """Return a message that locates the first cell that does not fit its column, or else pyarrow's message."""
        types = self._types or {}
        with self._rows_of_text(place) as (header, rows):
            numbers = [(k, name) for k, name in enumerate(header) if name in columns and is_number(types[name])]
            for row, cells in enumerate(rows):
                if len(cells) != len(header):
                    return f"Row {row} of {place} has {len(cells)} cells, the header has {len(header)}."
                for k, name in numbers:
                    if not self._is_number(cells[k]):
                        return f"Row {row} of {place} has the text {cells[k]!r} in column {k} ({name!r}) of numbers."
        if "UTF8" in str(error) or isinstance(error, UnicodeError):
            return (
                f"{place} {what} as {self.dialect.encoding} text: give its encoding, as in encoding='latin-1' or "
                "encoding='utf-16'."
            )
        return f"{place} {what}: {first_line(error)}"


class _Beginning:
    """A stream that gives one large block and then small ones, because pyarrow reads 32 blocks before any is used."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.closed, self._started = stream, False, False

    def read(self, size: int) -> bytes:
        size, self._started = min(size, SETTINGS.peeked_bytes) if self._started else size, True
        return bytes(self.stream.read(size))

    def close(self) -> None:
        """Leave the stream to the function that opened it."""
        self.closed = True


def _widened(kind: Any) -> Any:
    """Return the type to read a column as: whole numbers in the first rows may be followed by fractions."""
    import pyarrow as pa

    if pa.types.is_boolean(kind):
        return kind
    return pa.float64() if is_number(kind) else pa.string()
