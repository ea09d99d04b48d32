"""Streams of Arrow batches (DuckDB relations, polars LazyFrames, readers), written once to a temporary file.

A fit passes over its rows many times, but a stream yields them once. The file is in Arrow's own format, uncompressed,
which passes read from memory-mapped pages without decoding; texts are stored as dictionaries.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aidlearn.data.encoding.places import FilePlace, first_line
from aidlearn.data.tables.arrow import arrow_kind
from aidlearn.data.tables.columns import Roles
from aidlearn.data.tables.conversion import is_lazy
from aidlearn.data.tables.table_files import TableFiles

logger = logging.getLogger("aidlearn")


class StreamSource(TableFiles):
    """Rows of a stream, read from a temporary file."""

    def __init__(self, stream: Any, asked: Roles, n_jobs: int | None) -> None:
        where = f"The {type(stream).__name__}"
        self._folder = _Folder()
        path = str(self._folder.path / "rows.arrow")
        schema, n_rows = _spool(stream, path, where)
        super().__init__([FilePlace(path, where.replace("The", "the", 1))], n_jobs)
        self._choose(schema, where, asked)
        self._count([n_rows])

    def _batches(self, place: FilePlace, columns: list[str]) -> Iterator[Any]:
        import pyarrow as pa

        with pa.memory_map(place.path) as file, pa.ipc.open_stream(file) as reader:
            for batch in reader:
                yield batch.select(columns)


class _Folder:
    """A temporary folder that is removed with the last source that reads from it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="aidlearn-"))
        self._end = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def _spool(stream: Any, path: str, where: str) -> tuple[Any, int]:
    """Write the batches of a stream to a file, and return their schema and the number of rows."""
    import pyarrow as pa

    n_rows, writer = 0, None
    try:
        for batch in map(_with_dictionaries, _batches(stream)):
            if writer is None:
                schema, writer = batch.schema, pa.ipc.new_stream(path, batch.schema)
                free = shutil.disk_usage(Path(path).parent).free / 1e9
                logger.info("%s is kept in the temporary file %s; %.1f GB are free there", where, path, free)
            writer.write_batch(batch)
            n_rows += batch.num_rows
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"{where} cannot be kept in a temporary file: {first_line(error)}") from None
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        raise ValueError(f"{where} has no rows.")
    return schema, n_rows


def _batches(stream: Any) -> Iterator[Any]:
    import pyarrow as pa

    if is_lazy(stream):
        long = [name for name, kind in stream.collect_schema().items() if str(kind) in ("Int128", "UInt128")]
        if long:
            raise ValueError(f"Column {long[0]!r} of the LazyFrame has whole numbers of 128 bits; cast it to Int64.")
        if hasattr(stream, "collect_batches"):
            for frame in stream.collect_batches(maintain_order=True):
                yield from frame.to_arrow().to_batches()
            return
        stream = stream.collect(engine="streaming").to_arrow()
    yield from pa.RecordBatchReader.from_stream(stream)


def _with_dictionaries(batch: Any) -> Any:
    """Return a batch with its texts encoded as dictionaries."""
    import pyarrow as pa

    columns = [
        column.cast(pa.string()).dictionary_encode() if arrow_kind(column.type) == "text" else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
