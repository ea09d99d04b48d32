"""Streams of Arrow batches (DuckDB relations, lazy frames of polars, readers): kept once in a temporary file.

A fit passes over its rows many times and a stream gives them once. The file is Arrow's own format, uncompressed, which
passes read from memory-mapped pages without decoding; texts are kept as dictionaries.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from aidlearn.data.encoding.places import FilePlace
from aidlearn.data.tables.columns import ColumnChoice, arrow_kind
from aidlearn.data.tables.parquet import TableFiles, short

logger = logging.getLogger("aidlearn")


def is_stream(X: Any) -> bool:
    """Whether ``X`` yields batches of rows without holding them."""
    from aidlearn.data.tables.in_memory import is_table

    if isinstance(X, np.ndarray) or is_table(X) or isinstance(X, type) or nw.dependencies.is_into_series(X):
        return False
    return hasattr(X, "__arrow_c_stream__") or _is_lazy(X)


def _is_lazy(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "polars" and hasattr(X, "sink_ipc")


class StreamSource(TableFiles):
    """The rows of a stream, read from a temporary file."""

    def __init__(
        self, stream: Any, target: Any = None, columns: Any = None, weight: Any = None, n_jobs: int | None = None
    ) -> None:
        self.n_jobs = n_jobs
        where = f"The {type(stream).__name__}"
        folder = tempfile.mkdtemp(prefix="aidlearn-")
        self._folder = _Folder(folder)
        path = str(Path(folder) / "rows.arrow")
        schema, n_rows = _spool(stream, path, where)
        place = FilePlace(path, where.replace("The", "the", 1))
        self.paths = [place]
        self._remember([place])
        self._describe(ColumnChoice(schema, where, target, columns, weight), [n_rows], where)

    def batches(self, columns: list[str]) -> Iterator[Any]:
        import pyarrow as pa

        with pa.memory_map(self.paths[0].path) as file, pa.ipc.open_stream(file) as reader:
            for batch in reader:
                yield batch.select(columns)


class _Folder:
    """A temporary folder that is removed with the last source that reads from it."""

    def __init__(self, path: str) -> None:
        self._end = weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)


def _spool(stream: Any, path: str, where: str) -> tuple[Any, int]:
    """Write the batches of a stream; returns their schema and the number of rows."""
    import pyarrow as pa

    n_rows, writer, schema = 0, None, None
    try:
        for batch in _batches(stream):
            kept = _with_dictionaries(batch)
            if writer is None:
                schema = kept.schema
                writer = pa.ipc.new_stream(path, schema)
                size = kept.nbytes / max(1, kept.num_rows)
                free = shutil.disk_usage(os.path.dirname(path)).free
                logger.info(
                    "%s is kept in a temporary file: about %.0f bytes a row, %.1f GB are free in %s",
                    where,
                    size,
                    free / 1e9,
                    os.path.dirname(path),
                )
            writer.write_batch(kept)
            n_rows += kept.num_rows
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"{where} cannot be kept in a temporary file: {short(error)}") from None
    finally:
        if writer is not None:
            writer.close()
    if schema is None:
        raise ValueError(f"{where} has no rows.")
    return schema, n_rows


def _batches(stream: Any) -> Iterator[Any]:
    import pyarrow as pa

    if _is_lazy(stream):
        if hasattr(stream, "collect_batches"):
            for frame in stream.collect_batches(maintain_order=True):
                yield from frame.to_arrow().to_batches()
            return
        stream = stream.collect(engine="streaming").to_arrow()
    yield from pa.RecordBatchReader.from_stream(stream)


def _with_dictionaries(batch: Any) -> Any:
    """Texts as dictionaries of their values."""
    import pyarrow as pa

    columns = []
    for column in batch.columns:
        if arrow_kind(column.type) == "text":
            column = column.cast(pa.string()) if str(column.type) != "string" else column
            column = column.dictionary_encode()
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
