"""Parquet and CSV files, streamed with pyarrow."""

from __future__ import annotations

import csv
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.files import Block, FileSource, read_ahead
from aidlearn.data.source import Float

BATCH_BYTES = 2 << 20
"""Of one batch of a Parquet file."""
BLOCK_BYTES = 8 << 20
"""Of one block of a CSV file."""
PAGE_BYTES = 2.2e6
"""Of a page of a Parquet column as it is stored and decoded, as most programs write them."""
READ_BYTES = 1 << 18
"""Read at once of each column of a Parquet file."""


class TextColumn(ValueError):
    """A column of X that does not hold numbers."""

    def __init__(self, column: str, message: str) -> None:
        super().__init__(message)
        self.column = column


class ColumnChoice:
    """Which columns of a table are X, target and weight, and how they become numbers."""

    def __init__(
        self, schema: Any, where: str, target: Any, columns: Sequence[Any] | None, weight: Any, one_hot: dict[str, Any]
    ) -> None:
        self.schema, self.where = schema, where
        repeated = [name for name in schema.names if schema.names.count(name) > 1]
        if repeated:
            raise ValueError(f"{where} has more than one column named {repeated[0]!r}.")
        self.target = None if target is None else self.find(target, "target")
        self.weight = None if weight is None else self.find(weight, "weight")
        used = {self.target, self.weight}
        chosen = [name for name in schema.names if name not in used]
        if columns is not None:
            chosen = [self.find(name, "columns") for name in columns]
        clash = [name for name in chosen if name in used]
        if clash:
            raise ValueError(f"Column {clash[0]!r} of {where} is target or weight, it cannot be in X too.")
        unknown = [name for name in one_hot if name not in chosen]
        if unknown:
            raise ValueError(f"one_hot names {unknown[0]!r}, which is no column of X; columns are {chosen}.")
        self.columns, self.one_hot = chosen, one_hot
        for name in chosen:
            if name not in one_hot and not _is_number(schema.field(name).type):
                raise TextColumn(
                    name,
                    f"Column {name!r} of {where} holds {_kind(schema.field(name).type)}, not numbers; "
                    f"leave it out with columns=..., or encode it with one_hot=[{name!r}].",
                )
        if not chosen:
            raise ValueError(f"{where} has no column left for X.")

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

    def find(self, name: Any, what: str) -> str:
        """A column by name or number."""
        if isinstance(name, (int, np.integer)) and not isinstance(name, bool):
            if -len(self.schema.names) <= name < len(self.schema.names):
                return self.schema.names[name]
        elif name in self.schema.names:
            return str(name)
        raise ValueError(f"{self.where} has no column {name!r} ({what}); its columns are {_listed(self.schema.names)}.")

    def block(self, batches: Sequence[Any]) -> Block:
        """Consecutive batches of rows as numbers."""
        rows = sum(batch.num_rows for batch in batches)
        X = np.empty((rows, len(self.names)))
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
        """A target as it is stored (texts as texts)."""
        if _is_number(column.type):
            return _floats(column)
        encoded = column.dictionary_encode()
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

    found = pc.index_in(column, value_set=pa.array(values, type=column.type))
    return np.asarray(found.fill_null(-1).to_numpy())


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
        # Decoding and making arrays of it have a thread each.
        batches = read_ahead(self.batches(self.choice.needed))
        return (self.choice.block(parts) for parts in recut(batches, self.rows_per_chunk))

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
        n_jobs: int = 1,
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
            if not found.equals(schema):
                raise ValueError(f"{path} has other columns or types than {paths[0]}: {_difference(schema, found)}.")
            self._sizes.append(n_rows)
        where = str(paths[0]) if len(paths) == 1 else f"{paths[0].parent} ({len(paths)} files)"
        values = _levels(self, schema, one_hot, where)
        self._describe(ColumnChoice(schema, where, target, columns, weight, values), self._sizes, where)
        # Of every column a page as it is stored, one decoded, a buffer and some batches.
        self.reading_bytes = (PAGE_BYTES + READ_BYTES) * len(self.choice.needed) + 32.0 * BATCH_BYTES

    def batches(self, columns: list[str]) -> Iterator[Any]:
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


class CsvSource(TableFiles):
    """A CSV or TSV file with a header, parsed anew in every pass."""

    def __init__(
        self,
        path: Path,
        target: Any = None,
        columns: Any = None,
        weight: Any = None,
        one_hot: Any = (),
        n_jobs: int = 1,
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
                return reader.schema
        except Exception as error:
            raise ValueError(f"{path} cannot be read as CSV: {_short(error)}") from None

    def _reader(self, columns: list[str] | None) -> Any:
        from pyarrow import csv as arrow_csv

        return arrow_csv.open_csv(
            self.paths[0],
            read_options=arrow_csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=True),
            parse_options=arrow_csv.ParseOptions(delimiter=self._delimiter),
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

    def _first_text(self, column: str) -> str:
        """Where the first text of a column is, if there are numbers before it: it may be a slip."""
        with open(self.paths[0], newline="", encoding="utf-8", errors="replace") as file:
            for row, cells in enumerate(csv.DictReader(file, delimiter=self._delimiter)):
                if not _parses(cells[column] or ""):
                    return f"Its first text is {cells[column]!r}, in row {row}." if row else ""
        return ""

    def _where(self, columns: list[str], error: Exception) -> str:
        """Row and column of the first cell that is not what its column should be."""
        path = self.paths[0]
        with open(path, newline="", encoding="utf-8", errors="replace") as file:
            reader = csv.reader(file, delimiter=self._delimiter)
            header = next(reader)
            assert self._types is not None
            numeric = [(k, name) for k, name in enumerate(header) if name in columns and _is_number(self._types[name])]
            for row, cells in enumerate(reader):
                if cells and len(cells) != len(header):
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
            raise ValueError(f"{where} has no column {name!r} (one_hot); its columns are {_listed(schema.names)}.")
    found: dict[str, set[Any]] = {name: set() for name in names}
    if names:
        for batch in source.batches(names):
            for name in names:
                found[name].update(batch.column(name).unique().to_pylist())
    for name, values in found.items():
        if None in values:
            raise ValueError(f"Column {name!r} of {where} has missing values, so it cannot be encoded.")
        if len(values) > 1000:
            raise ValueError(f"Column {name!r} of {where} has {len(values)} different values, too many to encode.")
    return {name: sorted(values) for name, values in found.items()}


def _is_number(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind))


def _kind(kind: Any) -> str:
    return "texts" if "string" in str(kind) else str(kind)


def _floats(column: Any) -> NDArray[Any]:
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype == object:  # booleans with nulls
        return np.array([np.nan if value is None else float(value) for value in values])
    return np.asarray(values, dtype=np.float64)


def _widened(kind: Any) -> Any:
    """Whole numbers in the first rows may be followed by others."""
    import pyarrow as pa

    if pa.types.is_boolean(kind):
        return kind
    return pa.float64() if _is_number(kind) else pa.string()


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


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:12]))
    return shown if len(names) <= 12 else f"{shown} and {len(names) - 12} more"


def _parses(cell: str) -> bool:
    if cell.strip().lower() in ("", "null", "na", "n/a", "nan", "true", "false", "#n/a", "-nan", "none"):
        return True
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _short(error: Exception) -> str:
    return str(error).splitlines()[0]
