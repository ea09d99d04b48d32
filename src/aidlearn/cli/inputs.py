"""DATA of the commands: files and standard input, columns by name or number, labels of semi-supervised files."""

from __future__ import annotations

import csv
import io
import os
import select
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aidlearn.cli.errors import STATE, CliError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aidlearn.data.encoding.rules import Rules
    from aidlearn.data.tables.files import FileSource
    from aidlearn.formula import Terms

STDIN = "-"
PATIENCE = 0.2
"""Seconds between two looks at standard input, so that a signal is noticed."""
MISSING_LABELS = ("", "na", "n/a", "nan", "null", "none")
"""Texts in the target, in lower case, that mark a row without a label."""


MARKS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
"""Names of delimiters that are hard to type in a shell."""


@dataclass(frozen=True)
class DataFile:
    """DATA of a command, and how its text is read where the options say so. Its header is read once."""

    path: Path | str
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
        """A column by name, or by number if no column has that name."""
        if text is None or text in self.names:
            return text
        try:
            return int(text)
        except ValueError:
            return text

    def name_of(self, text: str) -> str:
        """The name of a column that was given by name or number."""
        column, names = self.column(text), self.names
        return names[column] if isinstance(column, int) and -len(names) <= column < len(names) else text


@dataclass(frozen=True)
class ColumnOptions:
    """The columns of DATA as the options describe them."""

    target: str | None = None
    chosen: str | None = None
    weight: str | None = None
    categorical: str | None = None
    numeric: str | None = None
    terms: Terms | None = None
    """Terms of a formula, which replaces the options."""


@contextmanager
def data_file(data: str, delimiter: str | None = None, encoding: str | None = None) -> Iterator[DataFile]:
    """DATA as a path, pattern or address; "-" is CSV on standard input, kept in a temporary file meanwhile."""
    delimiter = None if delimiter is None else MARKS.get(delimiter.lower(), delimiter)
    if data != STDIN:
        from aidlearn.data.encoding.places import find_places

        if not os.path.exists(data):
            find_places(data)
        yield DataFile(Path(data) if os.path.exists(data) else data, delimiter, encoding)
        return
    with tempfile.TemporaryDirectory(prefix="aidlearn-") as folder:
        path = Path(folder) / "stdin.csv"
        STATE.aliases[str(path)] = "standard input"
        with open(path, "wb") as file:
            for block in _stdin_blocks():
                file.write(block)
        if path.stat().st_size == 0:
            raise CliError("Standard input is empty; CSV with a header line is expected there.")
        yield DataFile(path, delimiter, encoding)


def _stdin_blocks() -> Iterator[bytes]:
    """Yield standard input as it arrives. Waiting is interrupted regularly, or a signal could go unnoticed."""
    given: Any = sys.stdin.buffer
    try:
        waitable = [given.fileno()] if os.name == "posix" else []
    except OSError:
        waitable = []
    while True:
        while waitable and not select.select(waitable, [], [], PATIENCE)[0]:
            pass
        block = given.read1(1 << 20)
        if not block:
            return
        yield block


def split_names(text: str | None) -> list[str]:
    """Split names at commas; a name that contains a comma is quoted as in CSV."""
    if text is None:
        return []
    names = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
    if not all(names):
        raise CliError(f"{text!r} is not a list of columns: separate names or numbers by commas.")
    return names


def open_data(
    file: DataFile,
    columns: ColumnOptions,
    rules: Rules,
    jobs: int,
    *,
    needs_target: bool = True,
    intercept: bool = True,
    memory_limit: str | None = None,
) -> FileSource:
    """The file as a source for ``fit``, encoded by the rules of a model with or without an intercept."""
    from aidlearn.data.opening import open_by_rules
    from aidlearn.data.tables.files import FileSource

    target = file.column(columns.target)
    if target is None and needs_target and file.kind != "svmlight":
        names = file.names
        listed = f" Its columns are {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}." if names else ""
        raise CliError(f"Name the column of the target in {file.path} with --target.{listed}")
    chosen: list[Any] | None = [file.column(name) for name in split_names(columns.chosen)] or None
    if columns.terms is not None:
        target, chosen = columns.terms.target, columns.terms.columns
    numeric = [file.name_of(name) for name in split_names(columns.numeric)]
    source = open_by_rules(
        file.path,
        target,
        chosen,
        replace(rules, also=_factors(file, columns), numeric=numeric),
        weight=file.column(columns.weight),
        delimiter=file.delimiter,
        encoding=file.encoding,
        memory_limit=memory_limit,
        n_jobs=jobs,
        intercept=intercept,
    )
    if str(file.path) in STATE.aliases and source.origin is not None:
        source.origin = {**source.origin, "path": STDIN}
    assert isinstance(source, FileSource)
    return source


def _factors(file: DataFile, columns: ColumnOptions) -> dict[str, str | None]:
    """Columns named as factors, each with the reference level that follows an equals sign."""
    factors: dict[str, str | None] = {} if columns.terms is None else dict(columns.terms.factors)
    for text in split_names(columns.categorical):
        name, equals, level = text.partition("=")
        whole = not equals or text in file.names
        factors[file.name_of(text if whole else name)] = None if whole else level
    return factors


def load_rows(source: FileSource) -> tuple[Any, Any, Any]:
    """Load all rows for a kernel machine: X, the target as stored, and the weights.

    An error names row and column of a cell that is not finite.
    """
    import numpy as np
    from scipy import sparse

    from aidlearn.data.rows.chunk import Chunk

    blocks, start = [], 0
    for block in source.blocks():
        stop = start + len(block.target)
        values = block.X.data if sparse.issparse(block.X) else block.X
        if not (np.isfinite(values).all() and np.isfinite(block.weight).all()):
            chunk = Chunk(start, stop, block.X, np.zeros(stop - start), block.weight)
            raise ValueError(source.find_bad_cell(chunk) + ".")
        blocks.append(block)
        start = stop
    X = [block.X for block in blocks]
    return (
        sparse.vstack(X, format="csr") if sparse.issparse(X[0]) else np.concatenate(X),
        np.concatenate([block.target for block in blocks]),
        np.concatenate([block.weight for block in blocks]),
    )


@dataclass(frozen=True)
class Labels:
    """Classes of a semi-supervised file, and the class number of each row, -1 without a label."""

    codes: Any
    classes: Any

    @property
    def n_labelled(self) -> int:
        return int((self.codes >= 0).sum())


def semi_supervised_labels(target: Any, where: str) -> Labels:
    """Find the labels of a semi-supervised file.

    Rows with an empty target (or NA, NaN, null) have none. In a file without such cells -1 marks rows without a label,
    scikit-learn's convention; in a file with them -1 is a class like any other.
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
    return Labels(codes, classes)


def _is_missing(value: Any) -> bool:
    return value is None or value != value or (isinstance(value, str) and value.strip().lower() in MISSING_LABELS)


def class_weights(text: str | None, labels: NDArray[Any]) -> str | dict[Any, float] | None:
    """``balanced``, or factors such as ``yes=2,no=1``, with keys of the type of the class labels."""
    if text is None or text == "balanced":
        return text
    is_text = labels.dtype.kind in "OUS"
    factors: dict[Any, float] = {}
    for part in next(csv.reader(io.StringIO(text)), []):
        label, _, factor = part.rpartition("=")
        try:
            key: Any = label.strip() if is_text else float(label)
            factors[int(key) if not is_text and key == int(key) else key] = float(factor)
        except (ValueError, OverflowError):
            raise CliError(
                f"--class-weight must be 'balanced' or a factor for each class such as 1=2.5,0=1, got {text!r}."
            ) from None
    return factors
