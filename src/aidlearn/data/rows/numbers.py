"""Refusal of values that float64 cannot hold: long whole numbers, masked values, dates, complex numbers."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

LARGEST_WHOLE = 2**53
"""Bound up to which float64 holds every whole number."""
LONG = ("Int64", "UInt64", "Int128", "UInt128")
"""Types of columns that may hold larger whole numbers."""
DATES = ("Datetime", "Date", "Duration", "Time")
HELD_DATES = "dates or times; convert it to numbers, such as days since a date"


def refuse_lossy(values: Any, what: str, first: int | None = 0, whole: bool = True) -> None:
    """Raise an error for values that lose digits or meaning as float64.

    Parameters
    ----------
    values : array, sparse matrix, list or column of a table
        Floats cost nothing; only whole numbers of 64 bits are looked at.
    what : str
        Name of the values in messages.
    first : int, optional
        Number of the first row; None where it is not known.
    whole : bool
        Whether whole numbers become floats. Class labels do not.
    """
    if type(values) is np.ndarray and values.dtype.kind in "fb":
        return
    if np.ma.isMaskedArray(values):
        if np.ma.is_masked(values):
            raise ValueError(
                f"{what} is a masked array with masked values: leave these rows out, or fill them with numbers."
            )
        values = np.ma.getdata(values)
    if isinstance(values, nw.Series) or nw.dependencies.is_into_series(values):
        _refuse_column(nw.from_native(values, series_only=True, pass_through=False), what, first, whole)
        return
    array = _array(values)
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {what} holds complex numbers; give their real parts.")
    if array.dtype.kind in "Mm":
        raise ValueError(f"could not convert to float: {what} holds {HELD_DATES}.")
    if whole:
        _refuse_whole(array, what, first)


def _array(values: Any) -> NDArray[Any]:
    if isinstance(values, np.ndarray):
        return values
    if sparse.issparse(values):
        return np.asarray(values.data) if values.format in ("csr", "csc", "coo") else np.asarray(values.tocoo().data)
    try:
        return np.asarray(values)
    except (TypeError, ValueError):  # rows of different lengths are refused when they are converted
        return np.empty(0)


def _refuse_column(column: Any, what: str, first: int | None, whole: bool) -> None:
    dtype = column.dtype
    name = dtype.__name__ if isinstance(dtype, type) else type(dtype).__name__
    if name in DATES:
        raise ValueError(f"could not convert to float: {what} holds {HELD_DATES}.")
    if not whole or name not in (*LONG, "Object"):
        return
    if name == "Object":
        _refuse_whole(np.asarray(column.to_list(), dtype=object), what, first)
        return
    low, high = column.min(), column.max()
    if low is None or (int(low) >= -LARGEST_WHOLE and int(high) <= LARGEST_WHOLE):
        return
    _refuse_whole(np.array([0 if value is None else value for value in column.to_list()], dtype=object), what, first)


def _refuse_whole(array: NDArray[Any], what: str, first: int | None) -> None:
    """Whole numbers beyond 2^53 pass if they are a smaller one times a power of two: these lose nothing."""
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        if array.size == 0 or (int(array.min()) >= -LARGEST_WHOLE and int(array.max()) <= LARGEST_WHOLE):
            return
        size = np.where(array < 0, -array, array).astype(np.uint64) if array.dtype.kind == "i" else array
        odd = size // np.maximum(size & (~size + np.uint64(1)), np.uint64(1))
        bad = np.flatnonzero(odd > LARGEST_WHOLE)
    elif array.dtype.kind == "O":
        bad = np.array([k for k, value in enumerate(array.ravel().tolist()) if _is_rounded(value)][:1], dtype=np.intp)
    else:
        return
    if not len(bad):
        return
    place = np.unravel_index(int(bad[0]), array.shape)
    row = "" if first is None else f" at row {first + int(place[0])}"
    column = f", column {int(place[1])}" if first is not None and len(place) > 1 else ""
    raise ValueError(
        f"{what} holds the whole number {array[place]}{row}{column}, which float64 would round: subtract a constant, "
        "or convert it to float64 where its last digits do not matter."
    )


def _is_rounded(value: Any) -> bool:
    if not isinstance(value, (int, np.integer)) or abs(int(value)) <= LARGEST_WHOLE:
        return False
    try:
        return int(float(value)) != int(value)
    except OverflowError:
        return True
