"""CSV and TSV files with a header, streamed with pyarrow and parsed anew in every pass."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.encoding.dialect import Dialect
from aidlearn.data.encoding.levels import LevelsFound, TextColumn
from aidlearn.data.encoding.places import FilePlace
from aidlearn.data.encoding.recipe import Recipe
from aidlearn.data.encoding.rules import Rules
from aidlearn.data.rows.source import DataSource
from aidlearn.data.tables.columns import ColumnChoice, is_number
from aidlearn.data.tables.parquet import FolderKeys, TableFiles, short, where_of
from aidlearn.data.tables.text_columns import Reading, as_they_look, by_recipe, by_rules, warn_of_codes

EXACT_WHOLE = 2.0**53
"""Bound up to which float64 holds every whole number."""
NO_VALUE = ("", "null", "na", "n/a", "nan", "true", "false", "#n/a", "-nan", "none")
"""Texts, in lower case, that a column of numbers may hold."""


@dataclass(frozen=True)
class CsvSettings:
    """How much of a CSV file is read at a time."""

    block_bytes: int = 8 << 20
    """Guess. Bytes of text that are decoded at a time; a column's type is taken from the first block."""
    held_blocks: float = 12.0
    """Guess. Memory of the reader in blocks: those decoded ahead by pyarrow's threads and their columns."""
    rows_for_codes: int = 1000
    """Guess. First rows that are searched for numbers that may be codes (leading zeros, equal lengths)."""


SETTINGS = CsvSettings()


class CsvSource(TableFiles):
    """CSV files with the same columns, plain or compressed; encoding and delimiter are recognised or given."""

    def __init__(
        self,
        places: list[FilePlace],
        target: Any = None,
        columns: Any = None,
        weight: Any = None,
        n_jobs: int | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
        read_as: Reading = as_they_look,
    ) -> None:
        import pyarrow as pa

        self.paths, self.n_jobs = places, n_jobs
        self._remember(places)
        self.dialect = Dialect.of(places[0], delimiter, encoding)
        self._types: dict[str, Any] | None = None
        schema = self._first_schema(places[0])
        self._inside = list(schema.names)
        for place in places[1:]:
            names = self._first_schema(place).names
            if names != self._inside:
                raise ValueError(f"{place} has other columns than {places[0]}: {names}, not {self._inside}.")
        # The first rows decide what is text; a column of numbers with a text further down is found when it is read.
        self._types = {field.name: _widened(field.type) for field in schema}
        self._whole = [field.name for field in schema if pa.types.is_integer(field.type)]
        dates = [field.name for field in schema if pa.types.is_temporal(field.type)]
        self._partitions = FolderKeys(places)
        typed = [pa.field(name, self._types[name]) for name in self._inside]
        schema = pa.schema([*typed, *self._partitions.fields(self._inside)])
        where = where_of(places)
        try:
            choice = ColumnChoice(schema, where, target, columns, weight, dates)
        except ValueError as error:
            if len(self._inside) == 1:
                raise ValueError(f"{error} {_single(self._inside[0])}") from None
            raise
        choice.decimal = self.dialect.decimal
        self._looks = choice.outline
        choice = self._typed(choice, read_as)
        kinds = choice.outline.kinds
        self.dictionaries = [name for name, kind in zip(choice.columns, kinds, strict=True) if kind == "text"]
        found = {j: LevelsFound(kind) for j, kind in enumerate(kinds) if kind in ("text", "boolean")}
        sizes = self._counted(choice, found)
        self._describe(choice, sizes, where)
        self._found.update({(j, "all"): levels for j, levels in found.items()})
        self.reading_bytes = SETTINGS.held_blocks * SETTINGS.block_bytes

    def _counted(self, choice: ColumnChoice, found: dict[int, LevelsFound]) -> list[int]:
        """Count the rows of every file by reading it, and collect the levels of texts."""
        sizes, row = [], 0
        for place in self.paths:
            first = row
            for batch in self._batches_of(place, choice.needed):
                for j, levels in found.items():
                    if not levels.is_too_many():
                        levels.add(*choice.dictionary(batch, j), row)
                row += batch.num_rows
            sizes.append(row - first)
        return sizes

    def _typed(self, choice: ColumnChoice, read_as: Reading) -> ColumnChoice:
        """The choice with the kinds as which its columns are read; sets the types of the reader."""
        import pyarrow as pa

        # Columns encoded in folder names are not in the text.
        kinds = [
            kind if name in self._inside else look
            for name, look, kind in zip(choice.columns, self._looks.kinds, read_as(self._looks), strict=True)
        ]
        types = {"number": pa.float64(), "text": pa.string(), "date": pa.string(), "boolean": pa.bool_()}
        told = {name: types[kind] for name, kind in zip(choice.columns, kinds, strict=True) if name in self._inside}
        self._types = (self._types or {}) | told
        return choice.reading(kinds)

    def _reading(self, read_as: Reading) -> CsvSource:
        """The same files with columns read as other kinds."""
        source, before = copy(self), self.choice.outline.kinds
        source.choice = source._typed(self.choice, read_as)
        after = source.choice.outline.kinds
        if after == before:
            return self
        source._found = {key: levels for key, levels in self._found.items() if before[key[0]] == after[key[0]]}
        return source

    def warn_of_codes(self, rules: Rules) -> None:
        """Warn of columns that look like codes and are read as numbers without a rule."""
        numbers = [
            name
            for name, kind in zip(self.choice.columns, self.choice.outline.kinds, strict=True)
            if kind == "number" and name in self._whole
        ]
        if not numbers:
            return
        with self._opened(self.paths[0]) as file:
            reader = csv.reader(file, delimiter=self.dialect.delimiter)
            header = next(reader, [])
            warn_of_codes(islice(reader, SETTINGS.rows_for_codes), header, numbers, rules, self.choice.where)

    def encoded(self, rules: Rules, intercept: bool) -> DataSource:
        source = self._reading(by_rules(rules.over(self.rules)))
        try:
            return super(CsvSource, source).encoded(rules, intercept)
        except TextColumn as error:
            raise ValueError(f"{error} {self._first_text(error.column)}".strip()) from None

    def following(self, recipe: Recipe | None) -> TableFiles:
        source = self._reading(by_recipe(recipe))
        try:
            return super(CsvSource, source).following(recipe)
        except TextColumn as error:
            raise ValueError(f"{error} {self._first_text(error.column)}".strip()) from None

    def _first_schema(self, place: FilePlace) -> Any:
        try:
            with self._reader(place, None) as reader:
                return reader.schema
        except Exception as error:
            told = self._uneven_row(place) or self._explained(place, error, "cannot be read as CSV")
            raise ValueError(told) from None

    def _uneven_row(self, place: FilePlace) -> str:
        """The first row with more or fewer cells than the header, empty if there is none."""
        with self._opened(place) as file:
            reader = csv.reader(file, delimiter=self.dialect.delimiter)
            width = len(next(reader, []))
            for row, cells in enumerate(cells for cells in reader if cells):
                if len(cells) != width:
                    return f"Row {row} of {place} has {len(cells)} cells, the header has {width}."
        return ""

    def _reader(self, place: FilePlace, columns: list[str] | None) -> Any:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        types = self._types
        if types is not None:
            levels = pa.dictionary(pa.int32(), pa.string())
            types = types | {name: levels for name in self.dictionaries if name in types}
        return arrow_csv.open_csv(
            place.stream(),
            read_options=arrow_csv.ReadOptions(
                block_size=SETTINGS.block_bytes,
                use_threads=True,
                encoding=self.dialect.encoding.replace("utf-8", "utf8"),
            ),
            # A cell may hold line breaks wherever a block ends.
            parse_options=arrow_csv.ParseOptions(delimiter=self.dialect.delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=columns,
                column_types=types,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                decimal_point=self.dialect.decimal,
            ),
        )

    def targets(self) -> Iterator[NDArray[Any]]:
        """Class labels; numbers in text are read as float64, which does not distinguish those beyond 2^53."""
        for values in super().targets():
            if values.dtype.kind == "f" and np.abs(values).max(initial=0.0) >= EXACT_WHOLE:
                raise ValueError(
                    f"The target {self.target_name!r} of {self.paths[0]} has whole numbers of 2^53 and more as labels, "
                    "which float64 does not distinguish; write them with a letter, or use Parquet."
                )
            yield values

    def batches(self, columns: list[str]) -> Iterator[Any]:
        for place in self.paths:
            yield from self._batches_of(place, columns)

    def _batches_of(self, place: FilePlace, columns: list[str]) -> Iterator[Any]:
        import pyarrow as pa

        inside = [name for name in columns if name in self._inside]
        try:
            with self._reader(place, inside or self._inside[:1]) as reader:
                for batch in reader:
                    if inside == columns:
                        yield batch
                        continue
                    parts = [
                        batch.column(name)
                        if name in self._inside
                        else self._partitions.column(place, name, batch.num_rows)
                        for name in columns
                    ]
                    yield pa.RecordBatch.from_arrays(parts, names=columns)
        except Exception as error:
            if type(error).__module__.startswith("pyarrow") or isinstance(error, UnicodeError):
                raise ValueError(self._where(place, inside, error)) from None
            raise

    def _opened(self, place: FilePlace) -> Any:
        csv.field_size_limit(1 << 30)
        encoding = self.dialect.encoding.replace("utf-8", "utf-8-sig")
        return io.TextIOWrapper(io.BufferedReader(place.stream()), encoding, errors="replace", newline="")

    def _is_number(self, cell: str) -> bool:
        if cell.strip().lower() in NO_VALUE:
            return True
        try:
            float(cell.replace(",", ".") if self.dialect.decimal == "," else cell)
        except ValueError:
            return False
        return True

    def _first_text(self, column: str) -> str:
        """Words that locate the first text of a column if numbers precede it, as it may be a typing error."""
        with self._opened(self.paths[0]) as file:
            for row, cells in enumerate(csv.DictReader(file, delimiter=self.dialect.delimiter)):
                if not self._is_number(cells.get(column) or ""):
                    return f"Its first text is {cells[column]!r}, in row {row}." if row else ""
        return ""

    def _where(self, place: FilePlace, columns: list[str], error: Exception) -> str:
        """Row and column of the first cell that is not what its column should be."""
        with self._opened(place) as file:
            reader = csv.reader(file, delimiter=self.dialect.delimiter)
            header = next(reader)
            assert self._types is not None
            numeric = [(k, name) for k, name in enumerate(header) if name in columns and is_number(self._types[name])]
            for row, cells in enumerate(cells for cells in reader if cells):
                if len(cells) != len(header):
                    return f"Row {row} of {place} has {len(cells)} cells, the header has {len(header)}."
                for k, name in numeric:
                    if not self._is_number(cells[k]):
                        return f"Row {row} of {place} has the text {cells[k]!r} in column {k} ({name!r}) of numbers."
        return self._explained(place, error, "cannot be read")

    def _explained(self, place: FilePlace, error: Exception, what: str) -> str:
        if "UTF8" in str(error) or isinstance(error, UnicodeError):
            return (
                f"{place} {what} as {self.dialect.encoding} text: give its encoding, as in encoding='latin-1' or "
                "encoding='utf-16'."
            )
        return f"{place} {what}: {short(error)}"


def _single(name: str) -> str:
    return f"There is only one column ({name!r}): if its delimiter is not , ; | or a tab, give it as in delimiter=' '."


def _widened(kind: Any) -> Any:
    """The type to read: whole numbers in the first rows may be followed by fractions."""
    import pyarrow as pa

    if pa.types.is_boolean(kind):
        return kind
    return pa.float64() if is_number(kind) else pa.string()
