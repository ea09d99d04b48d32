"""Rows of a file as features of a model: columns are matched by name and encoded as in the fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aidlearn.cli.errors import CliError
from aidlearn.cli.inputs import DataFile

if TYPE_CHECKING:
    from aidlearn.data.encoding.recipe import Recipe
    from aidlearn.data.tables.files import FileSource

SHOWN = 8
"""Maximum number of missing columns that a message names."""


@dataclass(frozen=True)
class Features:
    """Rows of a file without its target. The columns are all or some of the features of a model."""

    source: FileSource
    n_features: int
    first: int = 0
    """Position of the first column among the features; features that the file lacks are zero."""

    @property
    def n_rows(self) -> int:
        return self.source.n_entries

    def blocks(self) -> Iterator[Any]:
        """Yield the rows chunk by chunk; an error names file, row and column of a cell that is not finite."""
        import numpy as np
        from scipy import sparse

        from aidlearn.data.encoding.recipe import EncodedRows

        for chunk in self.source.chunks():
            X = chunk.X
            if not np.isfinite(X.data if sparse.issparse(X) else X).all():
                raise ValueError(self.source.find_bad_cell(chunk) + ".")
            if self.source.encoding is not None:
                yield EncodedRows(X, self.source.encoding)
                continue
            if self.n_features != X.shape[1]:
                X = sparse.csr_matrix((X.data, X.indices + self.first, X.indptr), shape=(X.shape[0], self.n_features))
            yield X


def open_features(file: DataFile, model: Any) -> Features:
    """The rows of the file as features of the model."""
    training = getattr(model, "training_", None) or {}
    n = int(model.n_features_in_)
    if file.kind == "svmlight":
        return _svmlight(file, n, training)
    source = _npy(file, model, training) if file.kind == "npy" else _table(file, model, training)
    return Features(source, n)


def _open(file: DataFile, columns: list[Any] | None, recipe: Recipe | None = None) -> FileSource:
    from aidlearn.data.opening import open_rows

    return open_rows(file.path, columns, recipe, delimiter=file.delimiter, encoding=file.encoding)


def _table(file: DataFile, model: Any, training: dict[str, Any]) -> FileSource:
    names = getattr(model, "feature_names_in_", None)
    if not file.names:
        return _open(file, None)  # raises the error that describes the file
    recipe = _recipe(model, training)
    if names is None:
        return _open(file, [file.names[k] for k in _positions(file, model, training, len(file.names))], recipe)
    needed = [str(name) for name in names] if recipe is None else [column.name for column in recipe.columns]
    _refuse_missing(file, [name for name in needed if name not in file.names])
    return _open(file, needed, recipe)


def _recipe(model: Any, training: dict[str, Any]) -> Recipe | None:
    """The recipe of the model; files of earlier versions hold it among the facts of training."""
    from aidlearn.data.encoding.recipe import Column, Recipe, level_text

    if hasattr(model, "recipe_"):
        return replace(model.recipe_, unknown=model.unknown)
    one_hot: dict[str, list[Any]] = training.get("one_hot") or {}
    if not one_hot:
        return None
    columns = []
    for name in training["columns"]:
        levels = tuple(map(level_text, one_hot[name])) if name in one_hot else None
        columns.append(Column(name, levels, None if levels is None else levels[0]))
    return Recipe(tuple(columns))


def _refuse_missing(file: DataFile, missing: list[str]) -> None:
    if missing:
        listed = ", ".join(map(repr, missing[:SHOWN])) + (
            f" and {len(missing) - SHOWN} more" if missing[SHOWN:] else ""
        )
        raise CliError(f"{file.path} lacks columns that the model was fitted to: {listed}.")


def _npy(file: DataFile, model: Any, training: dict[str, Any]) -> FileSource:
    from aidlearn.data.tables.npy import NpyFile

    shape = NpyFile(Path(file.path)).shape
    if len(shape) != 2:
        return _open(file, None)  # raises the error that describes the file
    return _open(file, _positions(file, model, training, shape[1]))


def _positions(file: DataFile, model: Any, training: dict[str, Any], width: int) -> list[int]:
    """Positions of the features: all columns, or those of the fit if the file has the target as well."""
    n = int(model.n_features_in_)
    if width == n:
        return list(range(n))
    if training.get("width") == width:
        return [int(column) for column in training["columns"]]
    with_target = f", or {training['width']} with the target" if training.get("width") else ""
    raise CliError(f"{file.path} has {width} columns; the model was fitted to {n}{with_target}.")


def _svmlight(file: DataFile, n: int, training: dict[str, Any]) -> Features:
    """Rows of sparse text, widened to the features of the model; indices begin at 0 or 1 as in the fit."""
    source = _open(file, None)
    smallest, largest = int(source.names[0]), int(source.names[-1])
    columns = training.get("columns") or []
    base = int(columns[0]) if columns and columns[0] in ("0", "1") else smallest
    if smallest < base or largest - base + 1 > n:
        raise CliError(
            f"{file.path} has indices {smallest} to {largest}; the model was fitted to {base} to {base + n - 1}."
        )
    return Features(source, n, smallest - base)
