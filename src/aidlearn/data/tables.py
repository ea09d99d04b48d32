"""Parquet and CSV files, streamed with pyarrow."""

from __future__ import annotations

import codecs
import csv
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.chunk import Chunk, Float
from aidlearn.data.columns import ColumnChoice, TextColumn, is_number, listed, unique_values
from aidlearn.data.files import Block, FileSource, read_ahead

BATCH_BYTES = 2 << 20
"""Of one batch of a Parquet file."""
BLOCK_BYTES = 8 << 20
"""Of one block of a CSV file."""
EXACT_WHOLE = 2.0**53
"""Up to here float64 holds every whole number."""
PAGE_BYTES = 2.2e6
"""Of a page of a Parquet column as it is stored and decoded, as most programs write them."""
READ_BYTES = 1 << 18
"""Read at once of each column of a Parquet file."""


def recut(batches: Iterator[Any], size: int) -> Iterator[list[Any]]:
    """Batches of any size as lists of slices that make ``size`` rows each (the last fewer); nothing is copied."""
    waiting: list[Any] = []
    missing = size
    for batch in batches:
        first = 0
        while batch.num_rows - first >= missing:
            yield [*waiting, batch.slice(first, missing)]
            first += missing
            waiting, missing = [], size
        if first < batch.num_rows:
            waiting.append(batch.slice(first))
            missing -= batch.num_rows - first
    if waiting:
        yield waiting


class TableFiles(FileSource):
    """What Parquet and CSV share: chosen columns of record batches."""

    named = True
    choice: ColumnChoice
    paths: list[Path]
    first_rows: list[int]

    @abstractmethod
    def batches(self, columns: list[str]) -> Iterator[Any]:
        """Record batches of some columns, from the first row to the last."""

    def _describe(self, choice: ColumnChoice, n_rows: Sequence[int], where: str) -> None:
        self.choice, self.names = choice, choice.names
        self.n_entries, self.n_attributes = sum(n_rows), len(self.names)
        self.target_name, self.has_target = str(choice.target), choice.target is not None
        self.first_rows = np.concatenate([[0], np.cumsum(n_rows)]).astype(int).tolist()
        if self.n_entries == 0:
            raise ValueError(f"{where} has no rows.")

    def row_name(self, row: int) -> str:
        file = int(np.searchsorted(self.first_rows, row, side="right")) - 1
        return f"{row - self.first_rows[file]} of {self.paths[file]}"

    def blocks(self) -> Iterator[Block]:
        return map(self.choice.block, self._chunk_parts())

    def _chunk_parts(self) -> Iterator[list[Any]]:
        """Batches that make a chunk each; decoding them and making arrays of them have a thread each."""
        return recut(read_ahead(self.batches(self.choice.needed)), self.rows_per_chunk)

    def _cut(self, held: int = 1) -> Iterator[Chunk]:
        return (load() for load in self._loads(held))

    def _loads(self, held: int) -> Iterator[Callable[[], Chunk]]:
        """What makes numbers of the batches of each chunk, in memory that is used again for later ones."""
        start, ring = 0, self._ring(np.float64, held)

        def load(parts: list[Any], into: Float, start: int) -> Chunk:
            return self._chunk(self.choice.block(parts, into), start)

        for parts in self._chunk_parts():
            yield partial(load, parts, next(ring), start)
            start += sum(batch.num_rows for batch in parts)

    def loads(self, held: int) -> Iterator[Callable[[], Chunk]]:
        self._check_unchanged()
        yield from read_ahead(self._loads(held))
        self._check_unchanged()

    def targets(self) -> Iterator[NDArray[Any]]:
        target = self.choice.target
        assert target is not None
        return (self.choice.raw(batch.column(target)) for batch in self.batches([target]))


class ParquetSource(TableFiles):
    """One Parquet file or a folder of them, in the order of their names; row groups are streamed."""

    def __init__(
        self,
        paths: list[Path],
        target: Any = None,
        columns: Any = None,
        weight: Any = None,
        one_hot: Any = (),
        n_jobs: int | None = None,
    ) -> None:
        import pyarrow.parquet as pq

        self.paths, self.n_jobs = paths, n_jobs
        self._remember(paths)
        schema, self._sizes = None, []
        for path in paths:
            try:
                with pq.ParquetFile(path) as file:
                    found, n_rows = file.schema_arrow, file.metadata.num_rows
            except Exception as error:
                raise ValueError(f"{path} cannot be read as Parquet: {_short(error)}") from None
            schema = found if schema is None else schema
            if list(zip(found.names, found.types, strict=True)) != list(zip(schema.names, schema.types, strict=True)):
                raise ValueError(f"{path} has other columns or types than {paths[0]}: {_difference(schema, found)}.")
            self._sizes.append(n_rows)
        where = str(paths[0]) if len(paths) == 1 else f"{paths[0].parent} ({len(paths)} files)"
        values = _levels(self, schema, one_hot, where)
        self._describe(ColumnChoice(schema, where, target, columns, weight, values), self._sizes, where)
        # Of every column a page as it is stored, one decoded, a buffer; batches, and what allocators keep of them.
        self.reading_bytes = (PAGE_BYTES + READ_BYTES) * len(self.choice.needed) + 60.0 * BATCH_BYTES

    def batches(self, columns: list[str]) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq
        from pyarrow.lib import ArrowException

        rows = max(1024, BATCH_BYTES // (8 * max(1, len(columns))))
        for path in self.paths:
            try:
                # Without these two, pyarrow holds whole row groups, or the whole file.
                with pq.ParquetFile(path, pre_buffer=False, buffer_size=READ_BYTES) as file:
                    yield from file.iter_batches(batch_size=rows, columns=columns, use_threads=True)
            except (OSError, ArrowException) as error:
                raise ValueError(f"{path} cannot be read to its end: {_short(error)}") from None
            finally:
                pa.default_memory_pool().release_unused()  # it keeps what its threads have freed


class CsvSource(TableFiles):
    """A CSV or TSV file with a header, parsed anew in every pass."""

    def __init__(
        self,
        path: Path,
        target: Any = None,
        columns: Any = None,
        weight: Any = None,
        one_hot: Any = (),
        n_jobs: int | None = None,
    ) -> None:
        self.paths, self.n_jobs = [path], n_jobs
        self._remember([path])
        self._delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        self._types: dict[str, Any] | None = None
        schema = self._first_schema(path)
        # The first rows decide what is text; a column of numbers with a text further down is found when it is read.
        self._types = {field.name: _widened(field.type) for field in schema}
        schema = _typed(schema, self._types)
        values = _levels(self, schema, one_hot, str(path))
        try:
            choice = ColumnChoice(schema, str(path), target, columns, weight, values)
        except TextColumn as error:
            raise ValueError(f"{error} {self._first_text(error.column)}".strip()) from None
        n_rows = sum(batch.num_rows for batch in self.batches(choice.needed))
        self._describe(choice, [n_rows], str(path))
        self.reading_bytes = 12.0 * BLOCK_BYTES

    def _first_schema(self, path: Path) -> Any:
        try:
            with self._reader(None) as reader:
                assert all(isinstance(name, str) for name in reader.schema.names)  # decodes them
                return reader.schema
        except Exception as error:
            told = not_utf8(path) or self._uneven_row() or f"{path} cannot be read as CSV: {_short(error)}"
            raise ValueError(told) from None

    def _uneven_row(self) -> str:
        """The first row with more or fewer cells than the header, empty if there is none."""
        with self._opened() as file:
            reader = csv.reader(file, delimiter=self._delimiter)
            width = len(next(reader, []))
            for row, cells in enumerate(cells for cells in reader if cells):
                if len(cells) != width:
                    return f"Row {row} of {self.paths[0]} has {len(cells)} cells, the header has {width}."
        return ""

    def _reader(self, columns: list[str] | None) -> Any:
        from pyarrow import csv as arrow_csv

        return arrow_csv.open_csv(
            self.paths[0],
            read_options=arrow_csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=True),
            # A cell may hold line breaks wherever a block ends.
            parse_options=arrow_csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=columns,
                column_types=self._types,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def batches(self, columns: list[str]) -> Iterator[Any]:
        try:
            with self._reader(columns) as reader:
                yield from reader
        except Exception as error:
            if type(error).__module__.startswith("pyarrow"):
                raise ValueError(self._where(columns, error)) from None
            raise

    def targets(self) -> Iterator[NDArray[Any]]:
        """Labels of classes; numbers of a text are float64, in which those beyond 2^53 are not told apart."""
        for values in super().targets():
            if values.dtype.kind == "f" and np.abs(values).max(initial=0.0) >= EXACT_WHOLE:
                raise ValueError(
                    f"The target {self.target_name!r} of {self.paths[0]} has whole numbers of 2^53 and more as labels, "
                    "which float64 does not tell apart; write them with a letter, or use Parquet."
                )
            yield values

    def _opened(self) -> Any:
        csv.field_size_limit(1 << 30)
        return open(self.paths[0], newline="", encoding="utf-8-sig", errors="replace")

    def _first_text(self, column: str) -> str:
        """Where the first text of a column is, if there are numbers before it: it may be a slip."""
        with self._opened() as file:
            for row, cells in enumerate(csv.DictReader(file, delimiter=self._delimiter)):
                if not _parses(cells.get(column) or ""):
                    return f"Its first text is {cells[column]!r}, in row {row}." if row else ""
        return ""

    def _where(self, columns: list[str], error: Exception) -> str:
        """Row and column of the first cell that is not what its column should be."""
        path = self.paths[0]
        if told := not_utf8(path):
            return told
        with self._opened() as file:
            reader = csv.reader(file, delimiter=self._delimiter)
            header = next(reader)
            assert self._types is not None
            numeric = [(k, name) for k, name in enumerate(header) if name in columns and is_number(self._types[name])]
            for row, cells in enumerate(cells for cells in reader if cells):
                if len(cells) != len(header):
                    return f"Row {row} of {path} has {len(cells)} cells, the header has {len(header)}."
                for k, name in numeric:
                    if not _parses(cells[k]):
                        return f"Row {row} of {path} has the text {cells[k]!r} in column {k} ({name!r}) of numbers."
        return f"{path} cannot be read: {_short(error)}"


def _levels(source: TableFiles, schema: Any, one_hot: Any, where: str) -> dict[str, Any]:
    """Sorted values of the columns to be encoded, by one pass over them."""
    names = [one_hot] if isinstance(one_hot, str) else list(one_hot)
    for name in names:
        if name not in schema.names:
            raise ValueError(f"{where} has no column {name!r} (one_hot); its columns are {listed(schema.names)}.")
    found: dict[str, set[Any]] = {name: set() for name in names}
    if names:
        for batch in source.batches(names):
            for name in names:
                found[name].update(unique_values(batch.column(name)))
    for name, values in found.items():
        if None in values:
            raise ValueError(f"Column {name!r} of {where} has missing values, so it cannot be encoded.")
        if len(values) > 1000:
            raise ValueError(f"Column {name!r} of {where} has {len(values)} different values, too many to encode.")
    return {name: sorted(values) for name, values in found.items()}


def _widened(kind: Any) -> Any:
    """Whole numbers in the first rows may be followed by others."""
    import pyarrow as pa

    if pa.types.is_boolean(kind):
        return kind
    return pa.float64() if is_number(kind) else pa.string()


def _typed(schema: Any, types: dict[str, Any]) -> Any:
    import pyarrow as pa

    return pa.schema([pa.field(name, types[name]) for name in schema.names])


def _difference(schema: Any, other: Any) -> str:
    for name in schema.names:
        if name not in other.names:
            return f"it has no column {name!r}"
        if schema.field(name).type != other.field(name).type:
            return f"{name!r} is {other.field(name).type}, not {schema.field(name).type}"
    extra = [name for name in other.names if name not in schema.names]
    return f"it has a column {extra[0]!r} more" if extra else "their order differs"


def _parses(cell: str) -> bool:
    if cell.strip().lower() in ("", "null", "na", "n/a", "nan", "true", "false", "#n/a", "-nan", "none"):
        return True
    try:
        float(cell)
    except ValueError:
        return False
    return True


def not_utf8(path: Path) -> str:
    """What to say of a text that is not UTF-8, empty if it is."""
    with open(path, "rb") as file:
        if file.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            return f"{path} is text in UTF-16; save it as UTF-8."
        file.seek(0)
        decoder, line = codecs.getincrementaldecoder("utf-8")(), 1
        while block := file.read(BLOCK_BYTES):
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                line += error.object[: error.start].count(b"\n")
                return f"{path} is not text in UTF-8 (line {line}); if it is in another encoding, save it as UTF-8."
            line += block.count(b"\n")
    return ""


def _short(error: Exception) -> str:
    """The first line of a message of Arrow, which numbers lines of a text as rows."""
    return re.sub(r"Row #(\d+)", r"line \1", str(error).splitlines()[0])
