"""Conversion of users' values to float64 and coding of targets and classes; no other module converts values.

Values that float64 cannot hold are refused: long whole numbers, masked values, dates and complex numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from numbers import Real
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from aidlearn.data.rows.chunk import Chunk
from aidlearn.numerics import Float, Int

LARGEST_WHOLE = 2**53
"""Bound up to which float64 represents every whole number."""
LONG = ("Int64", "UInt64", "Int128", "UInt128")
"""Types of columns that may hold whole numbers above :data:`LARGEST_WHOLE`."""
DATES = ("Datetime", "Date", "Duration", "Time")
HELD_DATES = "dates or times; convert it to numbers, such as days since a date"


def refuse_lossy(values: Any, what: str, first: int | None = 0, whole: bool = True) -> None:
    """Raise an error for values that lose digits or meaning as float64.

    Parameters
    ----------
    values : array, sparse matrix, list or column of a table
        Floats pass without a check; 64-bit whole numbers are compared with 2^53.
    what : str
        Name of the values in messages.
    first : int, optional
        Number of the first row; None if it is not known.
    whole : bool
        Whether whole numbers become floats (class labels do not).
    """
    if type(values) is np.ndarray and values.dtype.kind in "fb" and values.dtype.itemsize <= 8:
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


def as_array(values: Any) -> NDArray[Any]:
    """Return a target, weight or column as an array; polars cannot convert its 128-bit whole numbers itself."""
    if str(getattr(values, "dtype", None)) in ("Int128", "UInt128"):
        return np.array([np.nan if value is None else value for value in values.to_list()])
    return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)


def _array(values: Any) -> NDArray[Any]:
    if isinstance(values, np.ndarray):
        return values
    if sparse.issparse(values):
        return np.asarray(values.data) if values.format in ("csr", "csc", "coo") else np.asarray(values.tocoo().data)
    try:
        array = np.asarray(values)
        mixed = isinstance(values, (list, tuple)) and array.dtype.kind == "f" and (abs(array) >= LARGEST_WHOLE).any()
        return np.asarray(values, dtype=object) if mixed else array  # whole numbers among others are rounded by now
    except (TypeError, ValueError):  # rows of different lengths; their conversion is refused later
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
    """Refuse whole numbers beyond 2^53, except smaller ones times a power of two, which float64 holds exactly."""
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        if array.size == 0 or (int(array.min()) >= -LARGEST_WHOLE and int(array.max()) <= LARGEST_WHOLE):
            return
        size = np.where(array < 0, -array, array).astype(np.uint64) if array.dtype.kind == "i" else array
        odd = size // np.maximum(size & (~size + np.uint64(1)), np.uint64(1))
        bad = np.flatnonzero(odd > LARGEST_WHOLE)
    elif array.dtype.kind == "O":
        bad = np.array([k for k, value in enumerate(array.ravel().tolist()) if is_rounded(value)][:1], dtype=np.intp)
    elif array.dtype.kind == "f" and array.dtype.itemsize > 8:
        long = (abs(array) > LARGEST_WHOLE) & (array == np.floor(array))
        bad = np.flatnonzero(long & (array != array.astype(np.float64)))
    else:
        return
    if not len(bad):
        return
    place = np.unravel_index(int(bad[0]), array.shape)
    row = "" if first is None else f" at row {first + int(place[0])}"
    column = f", column {int(place[1])}" if first is not None and len(place) > 1 else ""
    raise ValueError(
        f"{what} holds the whole number {int(array[place])}{row}{column}, which float64 would round: subtract a "
        "constant, or convert it to float64 where its last digits do not matter."
    )


def is_rounded(value: Any) -> bool:
    """Return whether a value is a whole number that float64 would round."""
    if not isinstance(value, (int, np.integer)) or abs(int(value)) <= LARGEST_WHOLE:
        return False
    try:
        return int(float(value)) != int(value)
    except OverflowError:
        return True


MOST_CLASSES = 1000
"""Maximum number of classes of a target in a file."""
DATED = (
    "The target holds dates, which are not classes: convert them to texts or whole numbers, such as months or years."
)
CONTINUOUS = "The target holds numbers with decimals (Unknown label type: continuous); fit a regression."


@dataclass(frozen=True)
class Targets:
    """Function that converts stored targets and weights to those of a problem."""

    classes: NDArray[Any] | None = None
    """Sorted class labels, whose indices replace the targets; None for numeric targets."""
    factors: Float | None = None
    """Factor of each class on the weights of its entries."""
    offset: float = 0.0
    """Offset subtracted from numeric targets; the intercept restores it."""
    name: str = "y"
    """Name of the target in messages."""
    ignored: bool = False
    """Whether the model ignores the stored targets and uses 0 instead."""

    def __call__(self, target: NDArray[Any], weight: Float) -> tuple[Float, Float]:
        """Return targets as numbers (less the offset, or class indices), and weights times those of the classes."""
        if self.ignored:
            return np.zeros(len(target)), weight
        if self.classes is None:
            if target.dtype.kind in "OUS":
                raise ValueError(f"The target {self.name!r} holds texts; a regression needs numbers.")
            refuse_lossy(target, f"The target {self.name!r}", first=None)
            values = np.asarray(target, dtype=np.float64)
            return (values - self.offset if self.offset else values), weight
        if target.dtype == object:
            target = np.array(target.tolist())  # an array of texts, because comparing objects is slow
        codes = np.minimum(np.searchsorted(self.classes, target), len(self.classes) - 1)
        return codes.astype(np.float64), weight if self.factors is None else weight * self.factors[codes]

    def code(self, chunk: Chunk) -> Chunk:
        """Return a chunk of a source with coded targets and weights."""
        y, weight = self(chunk.y, chunk.weight)
        return chunk if y is chunk.y and weight is chunk.weight else replace(chunk, y=y, weight=weight)


FIRST_LABELS, FEW_CLASSES = 1000, 16
"""Guesses. Number of labels searched for classes first, and maximum number of classes coded by comparisons."""


@dataclass(frozen=True)
class Classes:
    """Class labels in ascending order, with the number of entries of each."""

    labels: NDArray[Any]
    counts: Int

    @classmethod
    def of_labels(cls, labels: NDArray[Any]) -> tuple[Classes, Int]:
        """Return the classes of labels in memory, and the index of each entry's class."""
        found, codes = _encoded(labels)
        if found.dtype.kind == "f" and (found != np.round(found)).any():
            raise ValueError(CONTINUOUS)
        if found.dtype.kind == "O":
            try:
                check_classification_targets(found)
            except (TypeError, ValueError):
                raise ValueError(_why_no_classes(found.tolist())) from None
        return cls(found, np.bincount(codes, minlength=len(found))), codes

    @classmethod
    def of_parts(cls, parts: Iterable[TargetCounts], row_name: Callable[[int], str]) -> Classes:
        """Return the classes of consecutive parts of a target; ``row_name`` names a row in messages."""
        counts: dict[Any, int] = {}
        row = 0
        for part in parts:
            if part.bad is not None:
                raise ValueError(f"Input y contains NaN or infinity at row {row_name(row + part.bad)}.")
            for value, count in zip(part.values, part.counts, strict=True):
                counts[value] = counts.get(value, 0) + count
            row += part.n_entries
            if len(counts) > MOST_CLASSES:
                raise ValueError(
                    f"The target has more than {MOST_CLASSES} different values; to predict a number, fit a regression."
                )
        if any(isinstance(value, (float, np.floating)) and value != round(value) for value in counts):
            raise ValueError(CONTINUOUS)
        with _ordering(counts):
            labels = sorted(counts)
        return cls(_whole(np.array(labels)), np.array([counts[label] for label in labels]))

    def several(self, who: str) -> Classes:
        """Return these classes, or raise an error if there is only one."""
        if len(self.labels) < 2:
            raise ValueError(
                f"{who} needs at least 2 classes in y, but the data contains only one class: "
                f"{self.labels.tolist()[0]!r}."
            )
        return self

    def factors(self, class_weight: Any) -> Float | None:
        """Return one weight per class from ``class_weight``; None if it is None."""
        if class_weight is None:
            return None
        if isinstance(class_weight, str) and class_weight == "balanced":
            return np.asarray(self.counts.sum() / (len(self.counts) * self.counts))
        try:
            return np.asarray(compute_class_weight(class_weight, classes=self.labels, y=self.labels), dtype=np.float64)
        except ValueError as error:
            raise ValueError(f"class_weight does not fit the classes {self.labels.tolist()}: {error}") from None


def check_labels(y: Any, advice: str = "") -> NDArray[Any]:
    """Return class labels as a 1-D array; refuse missing values."""
    kind = getattr(getattr(y, "dtype", None), "kind", "")
    if kind == "M":
        raise ValueError(DATED)
    refuse_lossy(y, "y", whole=False)
    if hasattr(y, "iloc") and kind in ("i", "u") and not y.isna().any():  # column_or_1d would convert Int64 to floats
        y = y.to_numpy(dtype=np.uint64 if kind == "u" else np.int64)
    y = y if hasattr(y, "iloc") else as_array(y)
    labels = y if type(y) is np.ndarray and y.ndim == 1 else np.asarray(column_or_1d(y, warn=True))
    if len(labels) == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    bad = _bad(labels)
    if len(bad):
        row = int(bad[0])
        what = "infinity" if labels.dtype.kind == "f" and np.isinf(labels[row]) else "NaN"
        raise ValueError(f"Input y contains {what} at row {row}{advice}.")
    return labels


def absent_values(values: Any) -> NDArray[np.bool_]:
    """Return a mask of the targets or weights that are missing (NaN or None)."""
    array = as_array(values)
    if array.dtype.kind == "f":
        return np.isnan(array)
    if array.dtype.kind != "O":
        return np.zeros(len(array), dtype=bool)
    # Comparing pandas.NA gives no boolean, so a value counts as missing unless it certainly equals itself.
    return np.array([value is None or not _equals_itself(value) for value in array.tolist()])


def _equals_itself(value: Any) -> bool:
    try:
        return bool(value == value)
    except TypeError:
        return False


def _encoded(labels: NDArray[Any]) -> tuple[NDArray[Any], Int]:
    """Return the distinct labels in ascending order, and the index of each entry's label.

    Sorting many labels takes longer than several passes over the data; usually the first labels show all classes.
    """
    with _ordering(labels[:FIRST_LABELS]):
        found = np.unique(labels[:FIRST_LABELS])
    if len(found) <= FEW_CLASSES and labels.dtype.kind in "biuf":
        codes = np.zeros(len(labels), dtype=np.int64)
        for value in found[1:]:
            codes += labels >= value
        if np.array_equal(found[codes], labels):
            return found, codes
    with _ordering(labels):
        found, codes = np.unique(labels, return_inverse=True)
    return found, codes.astype(np.int64, copy=False)


@contextmanager
def _ordering(labels: Iterable[Any]) -> Iterator[None]:
    """Replace the error of labels that have no common order."""
    try:
        yield
    except TypeError:
        raise ValueError(_why_no_classes(list(labels))) from None


def _why_no_classes(values: list[Any]) -> str:
    """Return a sentence about values that are not classes, or that have no common order."""
    values = [value.item() if isinstance(value, np.generic) else value for value in values]
    if any(isinstance(value, date) for value in values):
        return DATED
    if all(isinstance(value, (Real, Decimal)) and not isinstance(value, bool) for value in values):
        return CONTINUOUS
    kinds = " and ".join(sorted({type(value).__name__ for value in values}))
    return f"The target holds values of the type {kinds}, which are not classes: convert all to texts or whole numbers."


@dataclass(frozen=True)
class TargetCounts:
    """Distinct values of consecutive targets with their counts, or the position of the first bad value."""

    n_entries: int
    values: list[Any]
    counts: list[int]
    bad: int | None = None
    """Position of the first missing or infinite value."""


def count_targets(target: NDArray[Any]) -> TargetCounts:
    """Count the distinct values of consecutive targets; keep at most one more than :data:`MOST_CLASSES`."""
    n = len(target)
    bad = _bad(target)
    if len(bad):
        return TargetCounts(n, [], [], int(bad[0]))
    with _ordering(target):
        values, counts = np.unique(target, return_counts=True)
    most = MOST_CLASSES + 1
    return TargetCounts(n, list(values[:most]), [int(count) for count in counts[:most]])


def _bad(target: NDArray[Any]) -> NDArray[np.intp]:
    """Return the positions of missing and infinite values."""
    if target.dtype.kind == "f":
        return np.flatnonzero(~np.isfinite(target))
    if target.dtype.kind != "O":
        return np.empty(0, dtype=np.intp)
    infinite = [isinstance(value, float) and value in (np.inf, -np.inf) for value in target.tolist()]
    return np.flatnonzero(absent_values(target) | infinite)


def _whole(classes: NDArray[Any]) -> NDArray[Any]:
    """Return labels such as 0.0 and 1.0 as the integers 0 and 1."""
    if classes.dtype.kind == "f" and (classes == np.round(classes)).all() and (np.abs(classes) < LARGEST_WHOLE).all():
        return classes.astype(np.int64)
    return classes
