"""Partitions of Dask collections and their conversion to rows of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.data.encoding.levels import LevelsFound, TableOutline
from aidlearn.data.encoding.recipe import Recipe
from aidlearn.data.rows.numbers import refuse_lossy
from aidlearn.data.rows.remote import Backend, Sealed
from aidlearn.data.tables.columns import ArrayColumns, Columns, Roles, choose_columns
from aidlearn.data.tables.in_memory import FrameColumns
from aidlearn.numerics import Int


def kind_of(collection: Any) -> str:
    """Return the kind of a Dask collection: array, frame or series."""
    names = {kind.__name__ for kind in type(collection).__mro__}
    for name, kind in (("Array", "array"), ("DataFrame", "frame"), ("Series", "series")):
        if name in names:
            return kind
    raise ValueError(
        f"A Dask {type(collection).__name__} is not a table of rows; give a Dask array, DataFrame or Series."
    )


@dataclass
class DaskPartitions:
    """Partitions of one collection, in the order of their rows."""

    backend: Backend
    what: str
    """Name of the collection in messages."""
    parts: list[Any]
    """Task of each partition."""
    lengths: Int
    """Number of rows of each partition."""
    as_given: bool = True
    """Whether these are the user's partitions (Dask may join small ones when it reads few columns)."""
    _pieces: dict[tuple[int, int, int], Any] = field(default_factory=dict)

    @cached_property
    def starts(self) -> Int:
        """First row of each partition, followed by the number of rows."""
        return np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64)

    @property
    def n_rows(self) -> int:
        return int(self.lengths.sum())

    def rows(self, first: int, last: int) -> list[Any]:
        """Return tasks for the pieces of partitions that make up rows ``first:last``."""
        starts = self.starts
        begin = int(np.searchsorted(starts, first, side="right")) - 1
        pieces = []
        for part in range(begin, len(self.parts)):
            low, high = max(first, int(starts[part])), min(last, int(starts[part + 1]))
            if low >= last:
                break
            if low < high:
                pieces.append(self._piece(part, low - int(starts[part]), high - int(starts[part])))
        return pieces

    def _piece(self, part: int, low: int, high: int) -> Any:
        """Return the task of a piece, so that workers exchange the piece and not the whole partition."""
        key = (part, low, high)
        if key not in self._pieces:
            n = int(self.lengths[part])
            self._pieces[key] = self.backend.task(cut, self.parts[part], low, high, n, f"{part} of {self.what}")
        return self._pieces[key]


def cut(part: Any, low: int, high: int, expected: int, name: str) -> Any:
    """Return rows ``low:high`` of a partition."""
    if len(part) != expected:
        raise ValueError(
            f"Partition {name} had {expected} rows and now has {len(part)}: its tasks do not give the same rows "
            "each time; persist the collection first."
        )
    if (low, high) == (0, expected):
        return part
    return part.iloc[low:high] if hasattr(part, "iloc") else part[low:high]


def partitions_of(collection: Any, what: str, columns: Sequence[Any] | None, backend: Backend) -> DaskPartitions:
    """Return the partitions of a collection with their lengths, which are computed if it does not know them."""
    kind = kind_of(collection)
    if kind == "array":
        if collection.ndim == 2 and collection.numblocks[1] > 1:
            collection = collection.rechunk({1: -1})
        parts, lengths = list(collection.to_delayed().ravel()), np.array(collection.chunks[0])
        unknown = np.isnan(lengths).any()
        return DaskPartitions(backend, what, parts, _lengths(parts, backend) if unknown else lengths.astype(np.int64))
    given = collection.npartitions
    if kind == "frame":
        collection = collection[list(columns or [])]
    # Lengths come from these tasks, not from fewer columns: how Dask joins partitions depends on the columns.
    parts = list(collection.to_delayed())
    return DaskPartitions(backend, what, parts, _lengths(parts, backend), len(parts) == given)


def complete_partitions(main: DaskPartitions) -> DaskPartitions:
    """Return partitions without the rows that have missing cells."""
    parts = [main.backend.task(complete_part, part) for part in main.parts]
    return DaskPartitions(main.backend, main.what, parts, _lengths(parts, main.backend), False)


def _lengths(parts: Iterable[Any], backend: Backend) -> Int:
    tasks = [backend.task(len, part) for part in parts]
    return np.array(list(backend.results(backend.start(tasks, ours=False))), dtype=np.int64)


@dataclass(frozen=True)
class DaskMatrix:
    """Function that extracts X from (pieces of) partitions: columns chosen by position, as float64 or float32."""

    columns: tuple[int, ...] | None
    dtype: str
    recipe: Recipe | None = None
    """Recipe of the columns, if some are factors."""

    def __call__(self, pieces: Sequence[Any]) -> Any:
        parts = [self._one(piece) for piece in pieces]
        if len(parts) == 1:
            return parts[0] if sparse.issparse(parts[0]) else np.require(parts[0], self.dtype, ["C", "A"])
        if sparse.issparse(parts[0]):
            return sparse.vstack(parts, format="csr")
        out = np.empty((sum(map(len, parts)), parts[0].shape[1]), dtype=self.dtype)
        return np.concatenate(parts, out=out)

    def _one(self, piece: Any) -> Any:
        if self.recipe is None and self.dtype == "float32" and hasattr(piece, "iloc"):
            return np.asarray(self._chosen(piece).to_numpy(dtype=np.float32))
        if self.recipe is None and not hasattr(piece, "iloc"):
            array = np.asarray(self._chosen(piece))
            refuse_lossy(array, "X", first=None)
            return array
        columns = self.inputs(piece)
        return columns.rows(0, columns.n_rows, self.recipe)

    def _chosen(self, piece: Any) -> Any:
        if self.columns is None:
            return piece
        return piece.iloc[:, list(self.columns)] if hasattr(piece, "iloc") else piece[:, list(self.columns)]

    def inputs(self, piece: Any) -> Columns:
        """Return the chosen columns of (a piece of) a partition."""
        chosen = self._chosen(piece)
        return FrameColumns(chosen) if hasattr(chosen, "iloc") else ArrayColumns(np.asarray(chosen))


def levels_of(part: Any, plan: Sealed) -> Sealed:
    """Return the levels of the factors of a partition, on its worker; the plan is a DaskMatrix and the factors."""
    matrix, factors = plan.content
    columns = matrix.inputs(part)
    return Sealed({j: columns.levels(j)[0] for j in factors})


def complete_part(part: Any) -> Any:
    """Return the rows of a partition that have no missing cells, on its worker."""
    if hasattr(part, "iloc"):
        return part[part.notna().all(axis=1)]
    return part[~np.isnan(part).any(axis=1)]


def joined_levels(parts: Iterable[tuple[int, LevelsFound]]) -> LevelsFound:
    """Join the levels of a column from consecutive partitions, each given with the number of its first row."""
    whole = LevelsFound()
    for first, found in parts:
        whole.kind = found.kind
        whole.inside |= found.inside
        for text in found.texts:
            whole.texts.setdefault(text, len(whole.texts))
        whole.n_missing += found.n_missing
        if found.missing_row is not None and whole.missing_row is None:
            whole.missing_row = first + found.missing_row
    return whole


@dataclass(frozen=True)
class DaskVector:
    """Function that extracts a target or weight from partitions; texts stay texts, missing values become NaN."""

    column: int | None
    number: bool

    def __call__(self, pieces: Sequence[Any]) -> NDArray[Any]:
        parts = [self._one(piece) for piece in pieces]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _one(self, piece: Any) -> NDArray[Any]:
        if hasattr(piece, "iloc"):
            values = piece if piece.ndim == 1 else piece.iloc[:, self.column or 0]
            if not self.number:
                return np.asarray(values.to_numpy(dtype=object, na_value=np.nan))
            if isinstance(values.dtype, np.dtype):
                return np.asarray(values.to_numpy())
            if values.isna().any():
                refuse_lossy(values, f"Column {values.name!r}", first=None)
            if values.isna().any() or values.dtype.kind == "f":
                return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
            return np.asarray(values.to_numpy(dtype=values.dtype.numpy_dtype))
        array = np.asarray(piece)
        return array[:, self.column or 0] if array.ndim == 2 else array


@dataclass(frozen=True)
class DaskLayout:
    """Roles of the columns of a collection: X, target and weight."""

    outline: TableOutline
    """Outline of the columns of X."""
    labels: list[Any] | None
    """Names of the needed columns in the collection, those of X first; None for arrays."""
    columns: tuple[int, ...] | None
    """Positions of X among the columns of the partitions; None if X has all of them."""
    target: int | None
    weight: int | None
    target_is_number: bool
    dtype: str

    @classmethod
    def of(cls, X: Any, asked: Roles) -> DaskLayout:
        kind, where = kind_of(X), f"Dask {type(X).__name__}"
        if kind == "series" or (kind == "array" and X.ndim != 2):
            raise ValueError(f"X must have rows and columns, got a {where} of {X.ndim} dimension(s).")
        if kind == "array":
            _check_blocks(X)
            names: list[Any] = list(range(int(X.shape[1])))
            kinds = dict.fromkeys(names, "number" if X.dtype.kind in "fiub" else "other")
        else:
            names = list(X.columns)
            kinds = dict(zip(names, FrameColumns(X._meta).outline.kinds, strict=True))
        numeric = {name: kind in ("number", "boolean") for name, kind in kinds.items()}
        roles = choose_columns(names, f"The {where}", asked)
        chosen = roles.columns
        if roles.weight is not None and not numeric[roles.weight]:
            raise ValueError(f"Column {roles.weight!r} (weight) does not hold numbers.")
        types = {X.dtype} if kind == "array" else {X._meta.dtypes[name] for name in chosen}
        # Partitions are reduced to the needed columns in this order, and positions refer to it.
        needed = names if kind == "array" else [*chosen, *(n for n in (roles.target, roles.weight) if n is not None)]
        return cls(
            TableOutline(chosen, [kinds[name] for name in chosen], f"the {where}"),
            None if kind == "array" else needed,
            None if chosen == needed else tuple(map(needed.index, chosen)),
            None if roles.target is None else needed.index(roles.target),
            None if roles.weight is None else needed.index(roles.weight),
            roles.target is None or numeric[roles.target],
            "float32" if types == {np.dtype(np.float32)} else "float64",
        )


def _check_blocks(X: Any) -> None:
    if X.shape[1] != X.shape[1]:
        raise ValueError("The Dask array does not know its number of columns; call compute_chunk_sizes() first.")
    if not isinstance(X._meta, np.ndarray):
        raise ValueError(f"The blocks of the Dask array are {type(X._meta).__name__}; they must be NumPy arrays.")


def check_vector(collection: Any, what: str, texts: bool) -> bool:
    """Check that there is one value per row, and return whether the values are numbers."""
    kind = kind_of(collection)
    if collection.ndim > 2 or (collection.ndim == 2 and collection.shape[1] != 1):
        raise ValueError(f"{what} must have one value per row, got a Dask {type(collection).__name__} of more columns.")
    if kind == "array":
        dtype = collection.dtype
    else:
        dtype = collection._meta.dtypes.iloc[0] if kind == "frame" else collection._meta.dtype
    number = getattr(dtype, "kind", "O") in "fiub"
    if not number and not texts:
        raise ValueError(f"{what} holds {dtype}, not numbers.")
    return number
