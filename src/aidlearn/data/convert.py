"""From what users pass to a data source: shapes and types are checked here, values in the first pass."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from aidlearn.data.arrays import ArraySource, TableSource, homogeneous, is_dask, is_table, to_csr
from aidlearn.data.chunk import Float
from aidlearn.data.source import DataSource


def as_source(X: Any, y: Any, sample_weight: Any = None, n_jobs: int | None = None) -> DataSource:
    """Wrap data without copying them.

    Parameters
    ----------
    X : array, sparse matrix, or pandas / polars / pyarrow table of shape (n_samples, n_features)
    y : array of shape (n_samples,)
        Numeric targets.
    sample_weight : array of shape (n_samples,), optional
    n_jobs : int, optional
        Threads for the passes; -1 for all cores.
    """
    X = check_features(X)
    target = check_target(y)
    check_consistent_length(X, target)
    weight = check_weight(sample_weight, len(target))
    kind = TableSource if is_table(X) else ArraySource
    return kind(X, target, weight, n_jobs)


def check_features(X: Any, minimum: int = 1) -> Any:
    """A 2-D float array, a CSR matrix or a numeric table (values are not looked at)."""
    if isinstance(X, (str, os.PathLike, DataSource)):
        raise ValueError(
            "A file or source cannot be predicted here: read the rows into an array or table, or use the command "
            "aidlearn predict, which reads files of any size."
        )
    if is_dask(X):
        raise ValueError("This model takes rows in memory, not a Dask collection: call compute() on it.")
    if is_table(X):
        array = homogeneous(X)
        if array is None:
            _check_table(X)
            return X
        X = array
    if sparse.issparse(X):
        X = to_csr(X)
    return check_array(
        X,
        accept_sparse="csr",
        dtype=(np.float64, np.float32),
        ensure_all_finite=False,
        ensure_min_samples=minimum,
        input_name="X",
    )


def refuse_repeated_names(X: Any) -> None:
    """Two columns of one name cannot be told apart."""
    names: Any = getattr(X, "columns", None)
    if hasattr(names, "is_unique") and not names.is_unique:  # pandas; other tables cannot be made so
        raise ValueError(f"X has more than one column named {names[names.duplicated()][0]!r}; rename them.")


def check_target(y: Any) -> Float:
    """A 1-D float64 array."""
    if hasattr(y, "to_numpy") and not hasattr(y, "iloc"):
        y = y.to_numpy()
    flat = column_or_1d(y, warn=True)
    if flat.dtype.kind not in "fiub":
        try:
            flat = flat.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"Unknown label type: y must be numeric, got dtype {flat.dtype}.") from None
    return np.ascontiguousarray(flat, dtype=np.float64)


def check_weight(sample_weight: Any, n: int) -> Float:
    if sample_weight is None:
        return np.ones(n)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.ndim == 0:
        return np.full(n, float(weight))
    if weight.shape != (n,):
        raise ValueError(f"sample_weight.shape == {weight.shape}, expected {(n,)}: one weight per row.")
    return np.ascontiguousarray(weight)


def linear_scores(X: Any, coef: Float, intercept: Any) -> Float:
    """``X coef' + intercept`` for checked features, a table one chunk at a time."""
    n = X.shape[0]
    kind = TableSource if is_table(X) else ArraySource
    source = kind(X, np.zeros(n), np.ones(n))
    parts = []
    for k in range(source.n_chunks):
        chunk = source.chunk(k)
        scores = chunk @ coef.T + intercept
        if not np.isfinite(scores).all():
            raise ValueError(source.find_bad_cell(chunk) + ".")
        parts.append(scores)
    return np.concatenate(parts)


def _check_table(table: Any) -> None:
    if table.shape[0] == 0 or table.shape[1] == 0:
        raise ValueError(
            f"Found a table with {table.shape[0]} sample(s) and {table.shape[1]} feature(s) while a minimum of 1 "
            "of each is required."
        )
    for position, (name, kind) in enumerate(column_kinds(table)):
        if not kind:
            raise ValueError(
                f"could not convert string to float: column {position} ({name!r}) of X is not numeric; "
                "encode or drop it."
            )


def column_kinds(table: Any) -> list[tuple[str, bool]]:
    """Name of each column and whether it holds numbers (dates and texts do not)."""
    if hasattr(table, "column_names"):
        words = ("int", "uint", "float", "double", "halffloat", "bool", "decimal")
        return [(field.name, str(field.type).startswith(words)) for field in table.schema]
    if hasattr(table, "iloc"):
        return [(str(n), getattr(t, "kind", "O") in "fiub") for n, t in zip(table.columns, table.dtypes, strict=True)]
    return [(n, t.is_numeric() or str(t) == "Boolean") for n, t in table.schema.items()]
