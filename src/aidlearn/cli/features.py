"""Rows of a file in the shape of a model's features: columns by name whatever their order, encoded as in the fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aidlearn.cli.errors import CliError
from aidlearn.cli.inputs import header, kind_of

if TYPE_CHECKING:
    from aidlearn.data.files import FileSource

SHOWN = 8
"""Names of missing columns in a message."""


@dataclass(frozen=True)
class Features:
    """Rows of a file without a target; its columns are features of a model, all or some of them."""

    source: FileSource
    n_features: int
    first: int = 0
    """The feature that the first column is; others that the file does not have are zero."""

    @property
    def n_rows(self) -> int:
        return self.source.n_entries

    def blocks(self) -> Iterator[Any]:
        """Finite rows, a chunk at a time; a cell that is none is named with its file, row and column."""
        import numpy as np
        from scipy import sparse

        for chunk in self.source.chunks():
            X = chunk.X
            if not np.isfinite(X.data if sparse.issparse(X) else X).all():
                raise ValueError(self.source.find_bad_cell(chunk) + ".")
            if self.n_features != X.shape[1]:
                X = sparse.csr_matrix((X.data, X.indices + self.first, X.indptr), shape=(X.shape[0], self.n_features))
            yield X


def open_features(path: Path, model: Any) -> Features:
    """The rows of the file as features of the model."""
    training = getattr(model, "training_", None) or {}
    n = int(model.n_features_in_)
    kind = kind_of(path)
    if kind == "svmlight":
        return _svmlight(path, n, training)
    source = _npy(path, model, training) if kind == "npy" else _table(path, model, training, header(path))
    return Features(source, n)


def _open(path: Path, columns: list[Any] | None, one_hot: list[str] | None = None) -> FileSource:
    from aidlearn import open_source
    from aidlearn.data.files import FileSource

    source = open_source(path, columns=columns, one_hot=one_hot or [])
    assert isinstance(source, FileSource)
    return source


def _table(path: Path, model: Any, training: dict[str, Any], present: list[str]) -> FileSource:
    names = getattr(model, "feature_names_in_", None)
    if not present:
        return _open(path, None)  # says what is wrong with the file
    if names is None:
        return _by_position(path, model, training, present)
    from aidlearn.files.encoding import decode

    one_hot = {name: decode(values, {}) for name, values in (training.get("one_hot") or {}).items()}
    needed = training.get("columns") if one_hot else [str(name) for name in names]
    assert needed is not None
    _refuse_missing(path, [name for name in needed if name not in present])
    source = _open(path, list(needed), list(one_hot))
    if one_hot:
        _encode_as_before(source, path, one_hot)
    return source


def _refuse_missing(path: Path, missing: list[str]) -> None:
    if missing:
        listed = ", ".join(map(repr, missing[:SHOWN])) + (
            f" and {len(missing) - SHOWN} more" if missing[SHOWN:] else ""
        )
        raise CliError(f"{path} lacks columns that the model was fitted to: {listed}.")


def _encode_as_before(source: Any, path: Path, one_hot: dict[str, list[Any]]) -> None:
    """One column per value of the fit; a value that the fit did not see has no coefficient."""
    from aidlearn.data.columns import ColumnChoice

    choice = source.choice
    for name, values in one_hot.items():
        unknown = [value for value in choice.one_hot[name] if value not in values]
        if unknown:
            raise CliError(
                f"Column {name!r} of {path} has the value {unknown[0]!r}, which the model was not fitted to; "
                f"it knows {', '.join(map(repr, values[:SHOWN]))}{', ...' if values[SHOWN:] else ''}."
            )
    source.choice = ColumnChoice(choice.schema, choice.where, None, choice.columns, None, one_hot)
    source.names = source.choice.names
    source.n_attributes = len(source.names)


def _by_position(path: Path, model: Any, training: dict[str, Any], present: list[str]) -> FileSource:
    """A table for a model without names: all its columns in order, or the same columns of as wide a table."""
    chosen = _positions(path, model, training, len(present))
    return _open(path, [present[k] for k in chosen])


def _npy(path: Path, model: Any, training: dict[str, Any]) -> FileSource:
    from aidlearn.data.npy import NpyFile

    shape = NpyFile(path).shape
    if len(shape) != 2:
        return _open(path, None)  # says what is wrong
    return _open(path, _positions(path, model, training, shape[1]))


def _positions(path: Path, model: Any, training: dict[str, Any], width: int) -> list[int]:
    """Which columns are the features: all, or those of the fit if the target is in the file as it was there."""
    n = int(model.n_features_in_)
    if width == n:
        return list(range(n))
    if training.get("width") == width:
        return [int(column) for column in training["columns"]]
    with_target = f", or {training['width']} with the target" if training.get("width") else ""
    raise CliError(f"{path} has {width} columns; the model was fitted to {n}{with_target}.")


def _svmlight(path: Path, n: int, training: dict[str, Any]) -> Features:
    """Sparse text does not say how wide it is: rows are widened to the model's, indices begin as in the fit."""
    source = _open(path, None)
    smallest, largest = int(source.names[0]), int(source.names[-1])
    columns = training.get("columns") or []
    base = int(columns[0]) if columns and columns[0] in ("0", "1") else smallest
    if smallest < base or largest - base + 1 > n:
        raise CliError(f"{path} has indices {smallest} to {largest}; the model was fitted to {base} to {base + n - 1}.")
    return Features(source, n, smallest - base)
