"""Parquet files, streamed in batches of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aidlearn.data.encoding.places import FilePlace, first_line
from aidlearn.data.tables.arrow import arrow_kind
from aidlearn.data.tables.columns import Roles
from aidlearn.data.tables.table_files import TableFiles, where_of


@dataclass(frozen=True)
class ParquetSettings:
    """Settings for how much of a Parquet file is read at a time."""

    batch_bytes: int = 2 << 20
    """Guess. Bytes of a decoded batch, counted as float64 cells."""
    held_batches: float = 40.0
    """Guess. Memory of the reader in batches, including what allocators retain."""
    page_bytes: float = 2.2e6
    """Bytes of a page of a column, stored and decoded; writers cut pages at 1 MiB by default."""
    buffer_bytes: int = 1 << 18
    """Guess. Bytes of each column that are read at a time."""
    fewest_rows: int = 1024
    """Guess. Minimum number of rows in a batch."""


SETTINGS = ParquetSettings()


class ParquetSource(TableFiles):
    """Parquet files, read in the order of their names."""

    def __init__(self, places: list[FilePlace], asked: Roles, n_jobs: int | None) -> None:
        import pyarrow.parquet as pq

        super().__init__(places, n_jobs)
        schema, sizes = None, []
        for place in places:
            try:
                with pq.ParquetFile(place.file()) as file:
                    found, n_rows = file.schema_arrow, file.metadata.num_rows
            except Exception as error:
                raise ValueError(f"{place} cannot be read as Parquet: {first_line(error)}") from None
            schema = found if schema is None else schema
            if list(zip(found.names, found.types, strict=True)) != list(zip(schema.names, schema.types, strict=True)):
                raise ValueError(f"{place} has other columns or types than {places[0]}: {_difference(schema, found)}.")
            sizes.append(n_rows)
        self._choose(schema, where_of(places), asked)
        self._count(sizes)
        column_bytes = SETTINGS.page_bytes + SETTINGS.buffer_bytes
        self.reading_bytes = column_bytes * len(self.needed) + SETTINGS.held_batches * SETTINGS.batch_bytes

    def _batches(self, place: FilePlace, columns: list[str]) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq
        from pyarrow.lib import ArrowException

        rows = max(SETTINGS.fewest_rows, SETTINGS.batch_bytes // (8 * len(columns)))
        levels = [name for name in columns if name in self.dictionaries and arrow_kind(self.types[name]) == "text"]
        try:
            # Without pre_buffer=False and a buffer size, pyarrow holds whole row groups, or the whole file.
            with pq.ParquetFile(
                place.file(), pre_buffer=False, buffer_size=SETTINGS.buffer_bytes, read_dictionary=levels
            ) as file:
                yield from file.iter_batches(batch_size=rows, columns=columns, use_threads=True)
        except (OSError, ArrowException) as error:
            raise ValueError(f"{place} cannot be read to its end: {first_line(error)}") from None
        finally:
            pa.default_memory_pool().release_unused()  # the pool retains memory that its threads have freed


def _difference(schema: Any, other: Any) -> str:
    for name in schema.names:
        if name not in other.names:
            return f"it has no column {name!r}"
        if schema.field(name).type != other.field(name).type:
            return f"{name!r} is {other.field(name).type}, not {schema.field(name).type}"
    extra = [name for name in other.names if name not in schema.names]
    return f"it has a column {extra[0]!r} more" if extra else "their order differs"
