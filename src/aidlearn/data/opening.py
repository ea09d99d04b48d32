"""Opening of data without loading them: files of any size, streams, and collections on a cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import PurePath
from typing import Any

import numpy as np

from aidlearn.data.dask.source import DaskSource
from aidlearn.data.encoding.places import EXTENSIONS, find_places, is_path, is_paths
from aidlearn.data.encoding.recipe import Recipe
from aidlearn.data.encoding.rules import FROM_DTYPE, Rules
from aidlearn.data.rows.arrays import is_dask
from aidlearn.data.rows.memory import check_limit, parse_bytes
from aidlearn.data.rows.source import DataSource
from aidlearn.data.tables.columns import Roles, find_column
from aidlearn.data.tables.conversion import is_stream
from aidlearn.data.tables.csv import CsvSource
from aidlearn.data.tables.files import FileSource
from aidlearn.data.tables.npy import NpySource
from aidlearn.data.tables.parquet import ParquetSource
from aidlearn.data.tables.streams import StreamSource
from aidlearn.data.tables.table_files import FolderKeys, TableFiles
from aidlearn.data.tables.text import Dialect

__all__ = ["column_names", "open_rows", "open_source"]


def open_source(
    path: Any,
    target: Any = None,
    columns: Sequence[Any] | None = None,
    *,
    weight: Any = None,
    categorical_features: Any = FROM_DTYPE,
    missing: str = "error",
    one_hot: str | Sequence[Any] | Mapping[Any, Any] = (),
    numeric: Sequence[Any] = (),
    delimiter: str | None = None,
    encoding: str | None = None,
    memory_limit: float | str | None = None,
    n_jobs: int | None = None,
) -> DataSource:
    """Open data that are read in passes and never loaded as a whole.

    Parameters
    ----------
    path : str, path, list of paths, Dask array or DataFrame, or stream of Arrow batches
        A .npy, .parquet, .csv, .tsv (also .csv.gz, .csv.zst) or .svmlight (.svm, .libsvm) file, a list or pattern of
        Parquet or CSV files, a folder of them (folders such as ``year=2024`` are columns), or an address such as
        ``s3://bucket/folder``; a Dask collection; a DuckDB relation, a polars LazyFrame or an Arrow reader, whose rows
        are written once to a temporary file.
    target : str or int, optional
        Target column, by name or number; for .npy files also another .npy file, for a Dask collection also another
        collection. A svmlight file contains its own target.
    columns : sequence of str or int, optional
        Columns of X; by default all except target and weight.
    weight : str or int, optional
        Column (or .npy file, or Dask collection) of sample weights.
    categorical_features : "from_dtype", list, mask, dict or None
        Columns that are factors, as in the estimators, whose own rules take precedence.
    missing : {"error", "drop", "level"}
        How to treat missing cells, as in the estimators.
    one_hot : str, sequence of str, or dict
        Columns that are factors in addition to those recognised by type; a dict gives their reference levels.
    numeric : sequence
        Columns treated as numbers, whatever their type.
    delimiter, encoding : str, optional
        Delimiter and encoding of CSV files; by default they are detected.
    memory_limit : float or str, optional
        Memory that a fit may use beyond what the process already holds, in bytes or as in "2GB". Samples and first
        clusters are sized to fit, and several classes are fitted in groups if necessary. Data that need still more
        are refused with an error that states the amount.
    n_jobs : int, optional
        Number of threads for the passes.

    Returns
    -------
    DataSource
        The data for ``fit``.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from aidlearn import LADRegressor, open_source
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(5000, 3))  # two columns of X and, last, the target
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(folder + "/rows.npy", rows)
    ...     source = open_source(folder + "/rows.npy", target=2, memory_limit="1GB")
    ...     model = LADRegressor().fit(source)
    >>> source.n_entries, source.n_attributes, bool(model.gap_ <= 1e-4)
    (5000, 2, True)
    """
    rules = rules_from(categorical_features, missing, one_hot, numeric)
    return open_by_rules(
        path,
        target,
        columns,
        rules,
        weight=weight,
        delimiter=delimiter,
        encoding=encoding,
        memory_limit=memory_limit,
        n_jobs=n_jobs,
    )


def rules_from(
    categorical_features: Any = FROM_DTYPE,
    missing: str = "error",
    one_hot: str | Sequence[Any] | Mapping[Any, Any] = (),
    numeric: Sequence[Any] = (),
) -> Rules:
    """Return the rules that arguments of :func:`open_source` describe."""
    also = (
        one_hot if isinstance(one_hot, Mapping) else dict.fromkeys([one_hot] if isinstance(one_hot, str) else one_hot)
    )
    rules = Rules(categorical_features, missing, also=also, numeric=list(numeric))
    rules.check()
    return rules


def open_by_rules(
    path: Any,
    target: Any,
    columns: Sequence[Any] | None,
    rules: Rules,
    *,
    weight: Any = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    memory_limit: float | str | None = None,
    n_jobs: int | None = None,
    intercept: bool = True,
) -> DataSource:
    """Open data as :func:`open_source` does, encoded by rules for a model with or without an intercept."""
    asked = Roles(target, columns, weight)
    if is_dask(path):
        if memory_limit is not None:
            raise ValueError("memory_limit is for files: limit the memory of Dask's workers.")
        return DaskSource(path, asked, n_jobs, rules).encoded(Rules(), intercept)
    for name, value in (("target", target), ("weight", weight)):
        if not (value is None or is_path(value) or isinstance(value, (int, np.integer))):
            raise ValueError(
                f"The {name} of a file is one of its columns, by name or number, got {type(value).__name__}."
            )
    text = {"delimiter": delimiter, "encoding": encoding}
    source: DataSource = _open(path, asked, n_jobs, text, rules)
    if isinstance(source, TableFiles):
        for what, names in (("one_hot", rules.also), ("numeric", rules.numeric)):
            for name in names:
                find_column(source.inputs, name, what, source.where)
        source = source.opened_with(rules).encoded(Rules(), intercept)
    elif rules.also or rules.numeric:
        raise ValueError(f"one_hot needs named columns, which {source.row_name(0).partition(' of ')[2]} does not have.")
    else:
        source = source.encoded(rules, intercept)
    if not is_stream(path):
        source.origin = _origin(path, asked, rules, text)
    if isinstance(source, CsvSource):
        source.warn_of_codes(rules)
    if memory_limit is not None:
        source.memory_limit = parse_bytes("memory_limit", memory_limit)
        check_limit(source, repr(memory_limit))
    return source


def open_rows(
    path: Any,
    columns: Sequence[Any] | None,
    recipe: Recipe | None,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> FileSource:
    """Open the rows of a file without a target, encoded by the recipe of a model."""
    text = {"delimiter": delimiter, "encoding": encoding}
    source = _open(path, Roles(columns=columns), None, text, recipe)
    return source.following(recipe) if isinstance(source, TableFiles) else source


def _origin(path: Any, asked: Roles, rules: Rules, text: dict[str, Any]) -> dict[str, Any]:
    """Return arguments that open the same data again, from any folder."""

    def plain(value: Any) -> Any:
        if isinstance(value, (str, os.PathLike)):
            return os.path.abspath(value) if str(value).endswith(".npy") else str(value)
        return int(value) if isinstance(value, np.integer) else value

    def absolute(path: Any) -> str:
        return os.fspath(path) if "://" in os.fspath(path) else os.path.abspath(path)

    given = rules.categorical
    found = {
        "path": absolute(path) if is_path(path) else [absolute(one) for one in path],
        "target": plain(asked.target),
        "columns": None if asked.columns is None else [plain(column) for column in asked.columns],
        "weight": plain(asked.weight),
        "one_hot": dict(rules.also) if any(rules.also.values()) else list(rules.also),
    }
    defaults: dict[str, Any] = {
        "categorical_features": FROM_DTYPE,
        "missing": "error",
        "numeric": [],
        "delimiter": None,
        "encoding": None,
    }
    others = {
        "categorical_features": given if given is None or isinstance(given, (str, dict)) else list(given),
        "missing": rules.missing,
        "numeric": rules.numeric,
        **text,
    }
    return found | {name: value for name, value in others.items() if value != defaults[name]}


def column_names(path: Any, delimiter: str | None = None, encoding: str | None = None) -> list[str]:
    """Return the column names of table files without reading their rows; none for other files."""
    places = find_places(path)
    if places[0].kind == "parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(places[0].file()) as file:
            inside = list(file.schema_arrow.names)
    elif places[0].kind == "csv":
        inside = list(Dialect.of(places[0], delimiter, encoding).header)
    else:
        return []
    return inside + [field.name for field in FolderKeys(places).fields(inside)]


def _open(
    path: Any, asked: Roles, n_jobs: int | None, text: dict[str, Any], read_as: Rules | Recipe | None
) -> FileSource:
    """Open files or a stream without encoding factors; CSV is read by rules or for the recipe of a model."""
    if is_stream(path):
        _need_pyarrow(type(path).__name__)
        return StreamSource(path, asked, n_jobs)
    if not is_paths(path):
        raise ValueError(f"open_source takes a path, got {type(path).__name__}; arrays and tables go to fit directly.")
    if "://" in str(path):
        _need_pyarrow(path)
    places = find_places(path)
    first, kinds = places[0], {place.kind for place in places}
    for place in places:
        if place.kind is None:
            suffix = place.suffix or PurePath(place.path).suffix
            raise ValueError(f"{place} has the extension {suffix!r}; known are {', '.join(EXTENSIONS)}.")
    if len(kinds) > 1:
        raise ValueError(
            f"{first} and {len(places) - 1} more are files of several kinds: {', '.join(sorted(map(str, kinds)))}."
        )
    for place in places:
        stamp = place.stamp()
        if stamp is not None and stamp[0] == 0:
            raise ValueError(f"{place} is empty.")
    for name, value in text.items():
        if value is not None and first.kind != "csv":
            raise ValueError(f"{name} is for CSV files, which {first} is not: leave it out.")
    if first.kind in ("parquet", "csv"):
        _need_pyarrow(first)
        if first.kind == "parquet":
            return ParquetSource(places, asked, n_jobs)
        return CsvSource(places, asked, n_jobs, **text, read_as=read_as)
    if len(places) > 1 or first.system is not None:
        raise ValueError(
            f"{first} is read as one file on the disk; lists, patterns and addresses are for Parquet and CSV."
        )
    if first.kind == "npy":
        return NpySource(first, asked, n_jobs)
    if first.kind != "svmlight":
        raise NotImplementedError(f"Files of the kind {first.kind!r} have an extension, but no source that reads them.")
    if asked != Roles():
        raise ValueError(f"{first} is svmlight text with its own target: give neither target, columns nor weight.")
    from aidlearn.data.tables.svmlight import SvmlightSource  # imports sklearn.datasets, which is slow

    return SvmlightSource(first, n_jobs)


def _need_pyarrow(path: Any) -> None:
    if find_spec("pyarrow") is None:
        raise ImportError(f"Reading {path} needs pyarrow: pip install 'aidlearn[parquet]'.")
