"""Conversion of users' data to sources; shapes and types are checked here, values in the first pass."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from aidlearn.data.encoding.levels import refuse_columns
from aidlearn.data.encoding.places import is_paths
from aidlearn.data.encoding.recipe import EncodedRows, Recipe
from aidlearn.data.encoding.rules import Rules
from aidlearn.data.rows.arrays import ArraySource, homogeneous, is_dask, to_csr
from aidlearn.data.rows.numbers import absent_values, as_array, refuse_lossy
from aidlearn.data.rows.source import DataSource
from aidlearn.data.tables.columns import ArrayColumns, Columns
from aidlearn.data.tables.in_memory import FrameColumns, KeptRows, TableSource, checked_factors, encode_columns
from aidlearn.numerics import Float

PLAIN = Rules()
PASSED = (np.dtype(np.float64), np.dtype(np.float32))
"""Array types that passes read without a copy."""
MISSING_SLICE = 1 << 16
"""Number of rows of an array that are searched for missing cells at a time."""


def is_table(X: Any) -> bool:
    """Return whether ``X`` is a data frame in memory of any library that narwhals supports (pandas, polars, ...)."""
    return not isinstance(X, np.ndarray) and bool(nw.dependencies.is_into_dataframe(X))


def is_lazy(X: Any) -> bool:
    """Return whether ``X`` is a polars LazyFrame."""
    return type(X).__module__.partition(".")[0] == "polars" and hasattr(X, "sink_ipc")


def is_stream(X: Any) -> bool:
    """Return whether ``X`` yields batches of rows without holding them."""
    if is_table(X) or isinstance(X, (np.ndarray, type)) or nw.dependencies.is_into_series(X):
        return False
    return hasattr(X, "__arrow_c_stream__") or is_lazy(X)


def is_elsewhere(X: Any) -> bool:
    """Return whether ``X`` refers to rows rather than holding them: paths, a Dask collection or a stream."""
    return not isinstance(X, np.ndarray) and (is_paths(X) or is_dask(X) or is_stream(X))


def as_source(
    X: Any,
    y: Any,
    sample_weight: Any = None,
    n_jobs: int | None = None,
    rules: Rules = PLAIN,
    intercept: bool = True,
    keep: NDArray[np.bool_] | None = None,
) -> DataSource:
    """Wrap data without copying them.

    Parameters
    ----------
    X : array, sparse matrix, table of any library that narwhals supports, or encoded rows
    y : array of shape (n_samples,)
        Numeric targets.
    sample_weight : array of shape (n_samples,), optional
    n_jobs : int, optional
        Number of threads for the passes; -1 for all cores.
    rules : Rules
        Which columns are factors, and how missing cells are treated.
    intercept : bool
        Whether the model has an intercept; if so, factors have a reference level.
    keep : array of bool, optional
        Mask of the rows of X to use (see :func:`complete_rows`); targets and weights are given for these rows only.

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import LADRegressor, as_source
    >>> X = np.arange(20.0).reshape(-1, 2)
    >>> source = as_source(X, X[:, 0] + 1)
    >>> round(LADRegressor().fit(source).objective_, 9)  # a source brings its own target
    0.0
    """
    encoded = X.recipe if isinstance(X, EncodedRows) else None
    X = X.X if isinstance(X, EncodedRows) else check_features(X, array=rules.by_dtype)
    target = check_target(y)
    check_consistent_length(X if keep is None else np.flatnonzero(keep), target)
    columns = None if encoded is not None else columns_of(X, rules)
    plain = sample_weight is None and keep is None  # then chunks make their own weights of 1
    weight = np.broadcast_to(1.0, target.shape) if plain else check_weight(sample_weight, len(target))
    # If rows are left out, KeptRows holds the targets and weights; those of the source are placeholders.
    nothing = np.broadcast_to(0.0, X.shape[:1])
    y_here, weight_here = (target, weight) if keep is None else (nothing, nothing)
    if columns is None:
        source: ArraySource | TableSource = ArraySource(X, y_here, weight_here, n_jobs)
        source.encoding = encoded
    else:
        recipe, codes = encode_columns(columns, rules, intercept, keep)
        source = TableSource(columns, y_here, None if plain else weight_here, n_jobs, recipe, codes)
    return source if keep is None else KeptRows(source, keep, target, weight)


def complete_rows(X: Any, y: Any, sample_weight: Any, rules: Rules) -> NDArray[np.bool_] | None:
    """Return a mask of the rows without a missing cell, target or weight; None if all rows are complete.

    If rows may be unlabelled, those without a target are kept.
    """
    encoded = isinstance(X, EncodedRows)
    X = X.X if encoded else check_features(X, array=rules.by_dtype)
    columns = None if encoded else columns_of(X, rules)
    keep = ~(missing_cells(X) if columns is None else columns.missing_rows(checked_factors(columns, rules)))
    for what, values in (("y", None if rules.unlabelled else y), ("sample_weight", sample_weight)):
        if values is not None and np.ndim(values) == 1:
            refuse_lossy(values, what)
            check_consistent_length(X, values)
            keep &= ~absent_values(values)
    if not keep.any():
        raise ValueError("Every row of X has a missing cell, so missing='drop' leaves none.")
    return None if keep.all() else keep


def columns_of(X: Any, rules: Rules) -> Columns | None:
    """Return the columns of checked features if these need conversion; None if the array is used unchanged."""
    if is_table(X):
        return FrameColumns(X)
    if rules.by_dtype or rules.categorical is None or len(list(rules.categorical)) == 0:
        return None
    if sparse.issparse(X):
        raise ValueError("categorical_features is for tables and dense arrays; a sparse matrix holds numbers.")
    return ArrayColumns(X)


def missing_cells(X: Any) -> NDArray[np.bool_]:
    """Return a mask of the rows of an array or CSR matrix that contain NaN."""
    if sparse.issparse(X):
        missing = np.zeros(X.shape[0], dtype=bool)
        missing[np.searchsorted(X.indptr, np.flatnonzero(np.isnan(X.data)), side="right") - 1] = True
        return missing
    parts = [np.isnan(X[k : k + MISSING_SLICE]).any(axis=1) for k in range(0, X.shape[0], MISSING_SLICE)]
    return np.concatenate(parts)


def check_features(X: Any, minimum: int = 1, array: bool = True) -> Any:
    """Return features as a 2-D float array, a CSR matrix or a table, without checking values.

    With ``array``, a frame of one float type is replaced by the array behind it.
    """
    if type(X) is np.ndarray and X.ndim == 2 and X.dtype in PASSED and X.shape[0] >= minimum and X.shape[1] > 0:
        return X
    if isinstance(X, (str, os.PathLike, DataSource)):
        raise ValueError(
            "A file or source cannot be predicted here: read the rows into an array or table, or use the command "
            "aidlearn predict, which reads files of any size."
        )
    if is_dask(X):
        raise ValueError("This model takes rows in memory, not a Dask collection: call compute() on it.")
    X = collected(X)
    if is_table(X):
        found = homogeneous(X) if array else None
        if found is None:
            if 0 in X.shape:
                raise ValueError(
                    f"Found a table with {X.shape[0]} sample(s) and {X.shape[1]} feature(s) while a minimum of 1 "
                    "of each is required."
                )
            return X
        X = found
    if not sparse.issparse(X):
        refuse_lossy(X, "X")
        X = np.ma.getdata(X) if np.ma.isMaskedArray(X) else X
    else:
        X = to_csr(X)
    return check_array(
        X,
        accept_sparse="csr",
        dtype=(np.float64, np.float32),
        ensure_all_finite=False,
        ensure_min_samples=minimum,
        input_name="X",
    )


def collected(X: Any) -> Any:
    """Return a LazyFrame or a stream of Arrow batches as a table in memory; anything else is unchanged."""
    if not is_stream(X):
        return X
    if is_lazy(X):
        return X.collect(engine="streaming")
    import pyarrow as pa

    return pa.table(X)


def refuse_arrays(X: Any, recipe: Recipe, named: bool) -> None:
    """Refuse an array for a model with factors, unless the model was fitted to an array."""
    if is_table(X):
        return
    if not named:
        if sparse.issparse(X):
            shown = ", ".join(map(str, list(recipe.factor_positions)[:3]))
            raise ValueError(
                f"This model was fitted to an array with factors (columns {shown}): it takes a dense array, "
                "got a sparse matrix."
            )
        return
    dtype = X.dtype if hasattr(X, "dtype") else np.asarray(X, dtype=object).dtype
    if sparse.issparse(X) or (dtype.kind not in "fiub" and np.ndim(X) == 2):
        factors = ", ".join(repr(factor.name) for factor in recipe.factors[:3])
        raise ValueError(
            f"This model was fitted to a table with factors ({factors}): it takes a table with the same columns, as of "
            f"pandas, polars or pyarrow, got {type(X).__name__}."
        )


def refuse_repeated_names(X: Any) -> None:
    """Refuse a table with two columns of the same name."""
    names: Any = getattr(X, "columns", None)
    if hasattr(names, "is_unique") and not names.is_unique:  # other libraries refuse such tables themselves
        raise ValueError(f"X has more than one column named {names[names.duplicated()][0]!r}; rename them.")


def check_target(y: Any) -> Float:
    """Return the target as a 1-D float64 array."""
    refuse_lossy(y, "y")
    y = y if hasattr(y, "iloc") else as_array(y)
    flat = y if type(y) is np.ndarray and y.ndim == 1 else column_or_1d(y, warn=True)
    if flat.dtype.kind not in "fiub":
        try:
            flat = flat.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"Unknown label type: y must be numeric, got dtype {flat.dtype}.") from None
    return np.ascontiguousarray(flat, dtype=np.float64)


def check_weight(sample_weight: Any, n: int) -> Float:
    if sample_weight is None:
        return np.ones(n)
    refuse_lossy(sample_weight, "sample_weight")
    weight = np.asarray(sample_weight if hasattr(sample_weight, "iloc") else as_array(sample_weight), dtype=np.float64)
    if weight.ndim == 0:
        return np.full(n, float(weight))
    if weight.shape != (n,):
        raise ValueError(f"sample_weight.shape == {weight.shape}, expected {(n,)}: one weight per row.")
    return np.ascontiguousarray(weight)


def feature_rows(X: Any, recipe: Recipe | None) -> DataSource:
    """Return checked features as a source without a target, which encodes its rows by a recipe chunk by chunk.

    Only :class:`EncodedRows` are encoded already; the number of columns does not show it.
    """
    n = X.shape[0]
    if isinstance(X, EncodedRows):
        return ArraySource(X.X, np.zeros(n), np.ones(n))
    if not is_table(X) and recipe is None:
        return ArraySource(X, np.zeros(n), np.ones(n))
    columns = FrameColumns(X) if is_table(X) else ArrayColumns(X)
    refuse_columns(columns.outline, {} if recipe is None else recipe.factor_positions, columns.holds())
    return TableSource(columns, np.zeros(n), np.ones(n), None, recipe)


def linear_scores(X: Any, coef: Float, intercept: Any, recipe: Recipe | None = None) -> Float:
    """Return ``X coef' + intercept`` for checked features, computed chunk by chunk."""
    source = feature_rows(X, recipe)
    parts = [np.empty((0, *coef.shape[:-1]))]  # partitions of a Dask collection may have no rows
    for k in range(source.n_chunks):
        chunk = source.chunk(k)
        if not sparse.issparse(chunk.X):  # sums along rows and along columns would differ in their last bits
            chunk = replace(chunk, X=np.ascontiguousarray(chunk.X))
        with np.errstate(invalid="ignore"):  # infinity times 0 gives NaN, which is found below
            scores = chunk @ coef.T + intercept
        if not np.isfinite(scores).all():
            raise ValueError(source.find_bad_cell(chunk) + ".")
        parts.append(scores)
    return np.concatenate(parts)
