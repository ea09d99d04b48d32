"""One door to data that stay where they are: files of any size and collections on a cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aidlearn.data.convert import n_threads
from aidlearn.data.files import FileSource, NpySource
from aidlearn.data.memory import parse_bytes
from aidlearn.data.source import DataSource, chunk_rows

EXTENSIONS = {
    ".npy": "npy",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
}
BYTES_PER_ROW = 40
"""Labels, the numbers of moved rows, leverages and targets of a sample."""


def open_source(
    path: Any,
    target: Any = None,
    columns: Sequence[Any] | None = None,
    *,
    weight: Any = None,
    one_hot: str | Sequence[str] = (),
    memory_limit: float | str | None = None,
    n_jobs: int | None = None,
) -> DataSource:
    """Open data for passes over them; nothing is loaded as a whole.

    Parameters
    ----------
    path : str or path
        A file .npy, .parquet, .csv, .tsv or .svmlight (.svm, .libsvm), or a folder of Parquet files.
    target : str or int, optional
        Column of the target, by name or number; for .npy also another .npy file. A svmlight file brings its own.
    columns : sequence of str or int, optional
        Columns of X; all others than target and weight by default.
    weight : str or int, optional
        Column (or .npy file) of sample weights.
    one_hot : str or sequence of str
        Columns of texts (or numbers) to be encoded: one column per value, without the first.
    memory_limit : float or str, optional
        Refuse data for which a fit needs more memory than this, in bytes or as in "2GB".
    n_jobs : int, optional
        Threads for the passes.

    Returns
    -------
    DataSource
        To be given to ``fit``.
    """
    source = _open(_checked_path(path), target, columns, weight, one_hot, n_threads(n_jobs))
    source.recipe = _recipe(path, target, columns, weight, one_hot)
    if memory_limit is not None:
        limit, needed = parse_bytes("memory_limit", memory_limit), memory_needed(source)
        if needed > limit:
            raise ValueError(
                f"A fit of {path} ({source.n_entries} rows x {source.n_attributes} columns) needs about "
                f"{needed / 1e6:.0f} MB, more than memory_limit={memory_limit!r}."
            )
    return source


def _recipe(path: Any, target: Any, columns: Any, weight: Any, one_hot: Any) -> dict[str, Any]:
    """Arguments that open the same data again, from any folder."""

    def plain(value: Any) -> Any:
        if isinstance(value, (str, os.PathLike)):
            return os.path.abspath(value) if str(value).endswith(".npy") else str(value)
        return int(value) if isinstance(value, np.integer) else value

    listed = None if columns is None else [plain(column) for column in columns]
    encoded = [one_hot] if isinstance(one_hot, str) else list(one_hot)
    return {
        "path": os.path.abspath(path),
        "target": plain(target),
        "columns": listed,
        "weight": plain(weight),
        "one_hot": encoded,
    }


def memory_needed(source: DataSource) -> float:
    """Bytes that a fit holds at most, beyond the libraries: see the page on scaling."""
    from aidlearn.starts.band import sample_rows

    m = source.n_attributes
    chunks = 8 * chunk_rows(m) * m * (4 + 2 * source.n_jobs)
    sample = 8 * (m + 2) * sample_rows(source.n_entries, m + 1) * 2
    clusters = 8 * (m + 3) * 6 * min(source.n_entries, 4 * (m * source.n_entries) ** 0.5 + 2000)
    return BYTES_PER_ROW * source.n_entries + chunks + sample + clusters


def is_path(X: Any) -> bool:
    return isinstance(X, (str, os.PathLike))


def _checked_path(path: Any) -> Path:
    if not is_path(path):
        raise ValueError(f"open_source takes a path, got {type(path).__name__}; arrays and tables go to fit directly.")
    checked = Path(path)
    if not checked.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    return checked


def _open(path: Path, target: Any, columns: Any, weight: Any, one_hot: Any, n_jobs: int) -> FileSource:
    if path.is_dir():
        files = sorted(path.glob("*.parquet"))
        if not files:
            raise ValueError(f"The folder {path} has no file *.parquet.")
        return _parquet(files, target, columns, weight, one_hot, n_jobs)
    kind = EXTENSIONS.get(path.suffix.lower())
    if kind is None:
        raise ValueError(f"{path} has the extension {path.suffix!r}; known are {', '.join(EXTENSIONS)}.")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty.")
    if kind in ("npy", "svmlight") and one_hot:
        raise ValueError(f"one_hot needs named columns, which {path} does not have.")
    if kind == "npy":
        return NpySource(path, target, columns, weight, n_jobs)
    if kind == "parquet":
        return _parquet([path], target, columns, weight, one_hot, n_jobs)
    if kind == "csv":
        _need_pyarrow(path)
        from aidlearn.data.tables import CsvSource

        return CsvSource(path, target, columns, weight, one_hot, n_jobs)
    if columns is not None or weight is not None or target is not None:
        raise ValueError(f"{path} is svmlight text with its own target: give neither target, columns nor weight.")
    from aidlearn.data.svmlight import SvmlightSource

    return SvmlightSource(path, n_jobs)


def _parquet(files: list[Path], target: Any, columns: Any, weight: Any, one_hot: Any, n_jobs: int) -> FileSource:
    _need_pyarrow(files[0])
    from aidlearn.data.tables import ParquetSource

    return ParquetSource(files, target, columns, weight, one_hot, n_jobs)


def _need_pyarrow(path: Path) -> None:
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        raise ImportError(f"Reading {path} needs pyarrow: pip install 'aidlearn[parquet]'.")
