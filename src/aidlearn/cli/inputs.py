"""Files that commands read: data with their columns by name or number, models and checkpoints."""

from __future__ import annotations

import csv
import json
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aidlearn.cli.errors import STATE, CliError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aidlearn.data.encoding.rules import Rules
    from aidlearn.data.rows.chunk import Chunk
    from aidlearn.data.rows.source import DataSource
    from aidlearn.data.tables.files import FileSource
    from aidlearn.engine.checkpoint import NewestCheckpoint
    from aidlearn.formula import ListedColumns

STDIN, SHOWN_STDIN = "-", "standard input"
MISSING_LABELS = ("", "na", "n/a", "nan", "null", "none")
"""Texts in the target, in lower case, that mark a row without a label."""
MARKS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
"""Names of delimiters that are hard to type in a shell."""


@dataclass(frozen=True)
class DataFile:
    """The DATA argument of a command, with its options for reading text. The header is read once."""

    path: Path | str
    shown: str
    """Name of the file for users."""
    delimiter: str | None = None
    encoding: str | None = None

    @cached_property
    def kind(self) -> str | None:
        """Format of the file: npy, parquet, csv or svmlight."""
        from aidlearn.data.encoding.places import find_places

        try:
            return find_places(self.path)[0].kind
        except (ValueError, OSError):
            return None

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns; empty if the file has none or cannot be read (opening it raises the error)."""
        from aidlearn.data.opening import column_names

        try:
            return column_names(self.path, self.delimiter, self.encoding)
        except Exception:
            return []

    def column(self, text: str | None) -> str | int | None:
        """Return a column by name, or by number if no column has that name."""
        try:
            number = int(text or "")
        except ValueError:
            return text
        return text if text in self.names else number

    def name_of(self, text: str) -> str:
        """Return the name of a column given by name or number."""
        column, names = self.column(text), self.names
        return names[column] if isinstance(column, int) and -len(names) <= column < len(names) else text


@contextmanager
def data_file(data: str, delimiter: str | None = None, encoding: str | None = None) -> Iterator[DataFile]:
    """Yield DATA as a path, pattern or address; "-" is CSV on standard input, copied to a temporary file."""
    delimiter = None if delimiter is None else MARKS.get(delimiter.lower(), delimiter)
    if data != STDIN:
        from aidlearn.data.encoding.places import find_places

        if not os.path.exists(data):
            find_places(data)
        yield DataFile(Path(data) if os.path.exists(data) else data, data, delimiter, encoding)
        return
    with tempfile.TemporaryDirectory(prefix="aidlearn-") as folder:
        path = Path(folder) / "stdin.csv"
        STATE.aliases[str(path)] = SHOWN_STDIN
        with open(path, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        if path.stat().st_size == 0:
            raise CliError("Standard input is empty; CSV with a header line is expected there.")
        yield DataFile(path, SHOWN_STDIN, delimiter, encoding)


def split_names(text: str | None, file: DataFile) -> list[str]:
    """Split names at commas; a name that contains a comma, or spaces at its ends, is quoted as in CSV."""
    if text is None:
        return []
    given = next(csv.reader([text], skipinitialspace=True), [])
    # The header is read only for names that end in spaces.
    names = [name if name.endswith(" ") and name in file.names else name.rstrip() for name in given]
    if not all(names):
        raise CliError(f"{text!r} is not a list of columns: separate names or numbers by commas.")
    return names


def open_data(
    file: DataFile,
    options: dict[str, Any],
    terms: ListedColumns | None,
    rules: Rules,
    needs_target: bool,
    **settings: Any,
) -> FileSource:
    """Open the columns of a file that options or the terms of a formula name, as a source for ``fit``."""
    from aidlearn.data.opening import open_by_rules
    from aidlearn.data.tables.files import FileSource

    target = file.column(options["target"])
    chosen: list[Any] | None = [file.column(name) for name in split_names(options["columns"], file)] or None
    if terms is not None:
        target, chosen = terms.target, terms.columns
    if target is None and needs_target and file.kind != "svmlight":
        names = file.names
        listed = f" Its columns are {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}." if names else ""
        raise CliError(f"Name the column of the target in {file.path} with --target.{listed}")
    factors: dict[str, str | None] = {} if terms is None else dict(terms.factors)
    for text in split_names(options["categorical"], file):
        name, equals, level = text.partition("=")
        whole = not equals or text in file.names
        factors[file.name_of(text if whole else name)] = None if whole else level  # its reference level
    source = open_by_rules(
        file.path,
        target,
        chosen,
        replace(rules, also=factors, numeric=list(map(file.name_of, split_names(options["numeric"], file)))),
        weight=file.column(options["weight"]),
        delimiter=file.delimiter,
        encoding=file.encoding,
        n_jobs=options["n_jobs"],
        **settings,
    )
    if file.shown == SHOWN_STDIN and source.origin is not None:
        source.origin = {**source.origin, "path": STDIN}
    assert isinstance(source, FileSource)
    return source


def check_finite(source: FileSource, chunk: Chunk) -> None:
    """Refuse cells that are not finite; the error names their row and column."""
    import numpy as np
    from scipy import sparse

    cells = chunk.X.data if sparse.issparse(chunk.X) else chunk.X
    if not (np.isfinite(cells).all() and np.isfinite(chunk.weight).all()):
        raise ValueError(source.find_bad_cell(chunk) + ".")


def load_rows(source: FileSource) -> tuple[Any, NDArray[Any], NDArray[Any]]:
    """Load all rows for a kernel machine: X, the target as stored, and the weights."""
    import numpy as np
    from scipy import sparse

    chunks = list(source.chunks(held=source.n_chunks))
    for chunk in chunks:
        check_finite(source, replace(chunk, y=np.zeros(len(chunk.y))))
    X = [chunk.X for chunk in chunks]
    rows = sparse.vstack(X, format="csr") if sparse.issparse(X[0]) else np.concatenate(X)
    return rows, np.concatenate([chunk.y for chunk in chunks]), np.concatenate([chunk.weight for chunk in chunks])


def semi_supervised_labels(target: NDArray[Any], where: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the class number of each row of a semi-supervised file (-1 without a label), and the classes.

    Rows with an empty target (or NA, NaN, null) have no label. In a file without such cells, -1 marks rows without a
    label, as in scikit-learn; in a file with them, -1 is a class like any other.
    """
    import numpy as np

    values = target.tolist()
    free = np.array([_is_missing(value) for value in values])
    if not free.any():
        free = np.array([value == -1 or str(value).strip() == "-1" for value in values])
    given = np.array([value for value, without in zip(values, free, strict=True) if not without])
    if given.dtype.kind == "f":
        if (given != np.round(given)).any():
            raise CliError(f"The target of {where} holds numbers with decimals; classes are texts or whole numbers.")
        given = given.astype(np.int64)
    classes, known = np.unique(given, return_inverse=True)
    if len(classes) < 2:
        found = f"of the class {classes[0]} only" if len(classes) else "of no class"
        raise CliError(
            f"{where} has labelled rows {found}; two classes are needed. "
            "Rows without a label have an empty target, or -1 in a file without empty ones."
        )
    codes = np.full(len(values), -1)
    codes[~free] = known
    return codes, classes


def _is_missing(value: Any) -> bool:
    return value is None or value != value or (isinstance(value, str) and value.strip().lower() in MISSING_LABELS)


def class_weights(text: str | None, labels: NDArray[Any]) -> str | dict[Any, float] | None:
    """Parse ``balanced``, or factors such as ``yes=2,no=1`` whose keys get the type of the class labels."""
    if text is None or text == "balanced":
        return text
    is_text = labels.dtype.kind in "OUS"
    factors: dict[Any, float] = {}
    for part in next(csv.reader([text]), []):
        label, _, factor = part.rpartition("=")
        try:
            key: Any = (label if label in labels else label.strip()) if is_text else float(label)
            factors[int(key) if not is_text and key == int(key) else key] = float(factor)
        except (ValueError, OverflowError):
            raise CliError(
                f"--class-weight must be 'balanced' or a factor for each class such as 1=2.5,0=1, got {text!r}."
            ) from None
    return factors


def clusters_column(text: str, source: DataSource) -> str | int:
    """Return the column of clusters: a name, or a number in a file without names."""
    return int(text) if text.isdigit() and not source.named else text


def training_of(model: Any) -> dict[str, Any]:
    """Return the facts that were saved with a model; empty if there are none."""
    return getattr(model, "training_", None) or {}


def kind_of_file(path: str) -> str | None:
    """Return the kind of an archive ("aidlearn model" or "aidlearn checkpoint"); None for any other file."""
    try:
        with zipfile.ZipFile(path) as archive:
            kind = json.loads(archive.read("meta.json")).get("kind")
    except (OSError, KeyError, ValueError, AttributeError, zipfile.BadZipFile):
        return None
    return kind if isinstance(kind, str) else None


def open_model(path: str) -> Any:
    """Load a model; for a checkpoint, the error says how to finish it."""
    from aidlearn import load_model

    if not os.path.exists(path):
        raise CliError(f"There is no file {path}.")
    if os.path.isdir(path):
        raise CliError(f"{path} is a folder, not a model.")
    if kind_of_file(path) == "aidlearn checkpoint":
        raise CliError(f"{path} is a checkpoint, not a model; finish it with: aidlearn resume {path} -o MODEL")
    return load_model(path)


def checkpoint_files(path: str) -> list[Path]:
    """Return the files of a checkpoint: one, or those of several models (``run.ckpt.batch``, ``run.ckpt.0``, ...).

    A file may be missing or damaged if its predecessor still exists.
    """
    from aidlearn.engine.checkpoint import PREVIOUS, one_before

    given = Path(path)
    if given.is_file() or one_before(given).is_file():
        return [given]
    if not given.parent.is_dir() or not given.name:
        return []
    found = given.parent.glob(f"{escape(given.name)}.*")
    numbered = {p.with_name(p.name.removesuffix(PREVIOUS)) for p in found}
    together = [p for p in numbered if p.suffix == ".batch"]
    return together + sorted((p for p in numbered if p.suffix[1:].isdigit()), key=lambda p: int(p.suffix[1:]))


def read_checkpoints(files: list[Path]) -> list[NewestCheckpoint]:
    """Read the files of a checkpoint; a damaged or missing file is replaced by its predecessor."""
    from aidlearn.engine.checkpoint import read_newest

    return [found for path in files if (found := read_newest(path)) is not None]
