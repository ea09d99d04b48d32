"""``aidlearn predict MODEL DATA -o OUT``: predictions of a file, a block of rows at a time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aidlearn.cli.errors import CliError, reported, reporting
from aidlearn.cli.inputs import DataFile, check_finite, data_file, open_model, training_of
from aidlearn.cli.live import working
from aidlearn.cli.options import Data, Debug, Delimiter, Encoding, Jobs, Json, ModelFile, Quiet, output
from aidlearn.cli.output import FORMATS, STDOUT, check_table, console, table_writer, write_json
from aidlearn.words import count, duration

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aidlearn.data.encoding.recipe import Recipe
    from aidlearn.data.tables.files import FileSource

SHOWN = 8
"""Maximum number of missing columns that a message names."""


@reported
def predict(
    model: ModelFile,
    data: Data,
    table: Annotated[
        str, output("OUT", "File .csv, .tsv, .parquet or .npy; overwritten. - is CSV on standard output.")
    ],
    scores: Annotated[
        bool, typer.Option("--scores", help="Add decision values; .npy files hold nothing else then.")
    ] = False,
    unknown: Annotated[
        str | None,
        typer.Option("--unknown", help="Factor levels that the fit has not seen: error or reference."),
    ] = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    jobs: Jobs = 1,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict the target of the rows of a file.

    Columns are matched by name in any order; other columns (such as the target) are ignored.
    """
    if json and table == STDOUT:
        raise CliError("--json and -o - both write to standard output; give the predictions a file.")
    check_table(table, "table of predictions", FORMATS, [data, model])
    fitted = open_model(model)
    if scores and not hasattr(fitted, "decision_function"):
        raise CliError(f"--scores is for classifiers; {model} is a {type(fitted).__name__}.")
    fitted.n_jobs = jobs
    if unknown is not None:
        from aidlearn.data.encoding.rules import Rules

        Rules(unknown=unknown).check()
        fitted.unknown = unknown
    started = time.monotonic()
    with data_file(data, delimiter, encoding) as file:
        with working(f"Reading {file.shown}", quiet or json):
            features = open_features(file, fitted)
        names = column_names(fitted, scores, numbers_only=table.lower().endswith(".npy"))
        with table_writer(table, names, features.n_rows) as writer:
            for X in features.blocks():
                writer.write(columns(fitted, X, names, scores))
    seconds = time.monotonic() - started
    if table == STDOUT:
        return
    with reporting(table):
        if json:
            write_json({"output": table, "rows": features.n_rows, "columns": names, "seconds": seconds})
        elif not quiet:
            shape = f"{count(features.n_rows)} rows, columns {', '.join(names)}"
            console().print(f"{table}: {shape}, {duration(seconds)}", soft_wrap=True)


def column_names(model: Any, scores: bool, numbers_only: bool) -> list[str]:
    """Return the names of the output columns: one per quantile, or the prediction and its scores."""
    import numpy as np

    if np.ndim(getattr(model, "quantile", 0)):
        seen: Counter[str] = Counter()
        names = []
        for quantile in model.quantile:
            name = f"q{float(quantile):.15g}"
            seen[name] += 1
            names.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
        return names
    if not scores:
        return ["prediction"]
    classes = [str(label) for label in getattr(model, "classes_", ("outlier", "inlier"))]
    named = [f"score_{label}" for label in classes]
    if len(classes) == 2:
        named = ["score"]
    elif getattr(model, "decision_function_shape", "ovr") == "ovo":
        named = [f"score_{first}_{second}" for first, second in combinations(classes, 2)]
    return named if numbers_only else ["prediction", *named]


def columns(model: Any, X: Any, names: list[str], scores: bool) -> list[NDArray[Any]]:
    """Return the output columns for a block of rows."""
    import numpy as np

    parts = []
    if names[0].startswith("q") or names[0] == "prediction":
        parts.append(np.asarray(model.predict(X)))
    if scores:
        parts.append(np.asarray(model.decision_function(X)))
    return [column for part in parts for column in part.reshape(len(part), -1).T]


@dataclass(frozen=True)
class Features:
    """Rows of a file without its target; the columns are all or some of the features of a model."""

    source: FileSource
    n_features: int
    first: int = 0
    """Position of the first column among the features; features that the file lacks are zero."""

    @property
    def n_rows(self) -> int:
        return self.source.n_entries

    def blocks(self) -> Iterator[Any]:
        """Yield the rows chunk by chunk; an error names file, row and column of a cell that is not finite."""
        from scipy import sparse

        from aidlearn.data.encoding.recipe import EncodedRows

        for chunk in self.source.chunks():
            check_finite(self.source, chunk)
            X = chunk.X
            if self.source.encoding is not None:
                yield EncodedRows(X, self.source.encoding)
                continue
            if self.n_features != X.shape[1]:
                X = sparse.csr_matrix((X.data, X.indices + self.first, X.indptr), shape=(X.shape[0], self.n_features))
            yield X


def open_features(file: DataFile, model: Any) -> Features:
    """Return the rows of the file as features of the model."""
    training = training_of(model)
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
    missing = [name for name in needed if name not in file.names]
    if missing:
        more = f" and {len(missing) - SHOWN} more" if missing[SHOWN:] else ""
        listed = ", ".join(map(repr, missing[:SHOWN]))
        raise CliError(f"{file.path} lacks columns that the model was fitted to: {listed}{more}.")
    return _open(file, needed, recipe)


def _recipe(model: Any, training: dict[str, Any]) -> Recipe | None:
    """Return the recipe of the model; files of earlier versions hold it in ``training_``."""
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


def _npy(file: DataFile, model: Any, training: dict[str, Any]) -> FileSource:
    from aidlearn.data.tables.npy import NpyFile

    shape = NpyFile(Path(file.path)).shape
    if len(shape) != 2:
        return _open(file, None)  # raises the error that describes the file
    return _open(file, _positions(file, model, training, shape[1]))


def _positions(file: DataFile, model: Any, training: dict[str, Any], width: int) -> list[int]:
    """Return the positions of the features: all columns, or those of the fit if the file also has the target."""
    n = int(model.n_features_in_)
    if width == n:
        return list(range(n))
    if training.get("width") == width:
        return [int(column) for column in training["columns"]]
    with_target = f", or {training['width']} with the target" if training.get("width") else ""
    raise CliError(f"{file.path} has {width} columns; the model was fitted to {n}{with_target}.")


def _svmlight(file: DataFile, n: int, training: dict[str, Any]) -> Features:
    """Return rows of sparse text, widened to the features of the model; indices begin at 0 or 1 as in the fit."""
    source = _open(file, None)
    smallest, largest = int(source.names[0]), int(source.names[-1])
    columns = training.get("columns") or []
    base = int(columns[0]) if columns and columns[0] in ("0", "1") else smallest
    if smallest < base or largest - base + 1 > n:
        raise CliError(
            f"{file.path} has indices {smallest} to {largest}; the model was fitted to {base} to {base + n - 1}."
        )
    return Features(source, n, smallest - base)
