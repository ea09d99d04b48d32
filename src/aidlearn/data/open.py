"""One door to data that stay where they are: files of any size and collections on a cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aidlearn.data.arrays import is_dask
from aidlearn.data.dask import DaskSource
from aidlearn.data.files import FileSource
from aidlearn.data.memory import check_limit, parse_bytes
from aidlearn.data.npy import NpySource
from aidlearn.data.source import DataSource

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
    path : str, path, Dask array or Dask DataFrame
        A file .npy, .parquet, .csv, .tsv or .svmlight (.svm, .libsvm), a folder of Parquet files, or a Dask collection.
    target : str or int, optional
        Column of the target, by name or number; for .npy also another .npy file, beside a Dask collection also another
        one. A svmlight file brings its own.
    columns : sequence of str or int, optional
        Columns of X; all others than target and weight by default.
    weight : str or int, optional
        Column (or .npy file, or Dask collection) of sample weights.
    one_hot : str or sequence of str
        Columns of texts (or numbers) to be encoded: one column per value, without the first.
    memory_limit : float or str, optional
        Memory that a fit may take, in bytes or as in "2GB", beyond what the process holds already: samples and first
        clusters are made to fit, several classes are fitted in groups if need be, and data for which even that is
        not enough are refused with the amount needed.
    n_jobs : int, optional
        Threads for the passes.

    Returns
    -------
    DataSource
        To be given to ``fit``.
    """
    if is_dask(path):
        if len(one_hot) or memory_limit is not None:
            raise ValueError(
                "one_hot and memory_limit are for files: encode columns with Dask, and limit the memory of its workers."
            )
        return DaskSource(path, target, columns, weight, n_jobs)
    for name, value in (("target", target), ("weight", weight)):
        if not (value is None or is_path(value) or isinstance(value, (int, np.integer))):
            raise ValueError(
                f"The {name} of a file is one of its columns, by name or number, got {type(value).__name__}."
            )
    source = _open(_checked_path(path), target, columns, weight, one_hot, n_jobs)
    source.recipe = _recipe(path, target, columns, weight, one_hot)
    if memory_limit is not None:
        source.memory_limit = parse_bytes("memory_limit", memory_limit)
        check_limit(source, repr(memory_limit))
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


def is_path(X: Any) -> bool:
    return isinstance(X, (str, os.PathLike))


def is_elsewhere(X: Any) -> bool:
    """Whether ``X`` says where the rows are rather than holding them: a path, or a Dask collection."""
    return is_path(X) or is_dask(X)


def _checked_path(path: Any) -> Path:
    if not is_path(path):
        raise ValueError(f"open_source takes a path, got {type(path).__name__}; arrays and tables go to fit directly.")
    checked = Path(path)
    if not checked.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    return checked


def _open(path: Path, target: Any, columns: Any, weight: Any, one_hot: Any, n_jobs: int | None) -> FileSource:
    if path.is_dir():
        files = sorted([*path.glob("*.parquet"), *path.glob("*.pq")])
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


def _parquet(files: list[Path], target: Any, columns: Any, weight: Any, one_hot: Any, n_jobs: int | None) -> FileSource:
    _need_pyarrow(files[0])
    from aidlearn.data.tables import ParquetSource

    return ParquetSource(files, target, columns, weight, one_hot, n_jobs)


def _need_pyarrow(path: Path) -> None:
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        raise ImportError(f"Reading {path} needs pyarrow: pip install 'aidlearn[parquet]'.")
