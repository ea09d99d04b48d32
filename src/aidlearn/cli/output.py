"""What commands write: text and tables on a terminal, JSON, and tables of rows in files."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from aidlearn.cli.errors import CliError
from aidlearn.words import count

if TYPE_CHECKING:
    from numpy.typing import NDArray

PIPE_WIDTH = 120
"""Width of lines that are written to a file or a pipe."""
STDOUT = "-"


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # handled by ``reported`` for all output


def console(error: bool = False) -> Console:
    """Return a console on standard output or error."""
    stream = sys.stderr if error else sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return _Console(file=stream, highlight=False, markup=False, width=width)


def show_facts(title: str, rows: list[tuple[str, Any]]) -> None:
    """Print a title, and names and values in two aligned columns."""
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, what in rows:
        facts.add_row(Text("  " + name), Text(what) if isinstance(what, str) else what)
    console().print(Text(title, style="bold"), facts, sep="\n")


def number_table(name: str, *numbers: str) -> Table:
    """Return a table with a column of names and columns of numbers."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(name, overflow="fold")
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def shape(n_rows: int, n_columns: int) -> str:
    return f"{count(n_rows)} rows x {count(n_columns)} columns"


def check_output(path: str, what: str, extensions: Collection[str] = (), inputs: Collection[str] = ()) -> Path:
    """Check that a file can be written, and return its path with links resolved.

    ``extensions`` lists the allowed extensions; if it is empty the file is a model, and data extensions are refused.
    """
    from aidlearn.data.encoding.places import EXTENSIONS

    given = Path(path)
    if path == STDOUT:
        raise CliError(f"-o - is standard output; name a file for the {what}.")
    if not given.name:
        raise CliError(f"-o {path} is not a file name for the {what}.")
    resolved = Path(os.path.realpath(path))
    if resolved.is_dir():
        raise CliError(f"-o {path} is a folder; name a file for the {what}.")
    if not resolved.parent.is_dir():
        raise CliError(f"-o {path} lies in a folder that does not exist.")
    if resolved.exists() and not resolved.is_file():
        raise CliError(f"-o {path} is a device, not a file.")
    extension = given.suffix.lower()
    if extensions and extension not in extensions:
        found = f"the extension {given.suffix!r}" if given.suffix else "no extension"
        raise CliError(f"-o {path} has {found}; the {what} can be {', '.join(extensions)}.")
    if not extensions and extension in EXTENSIONS:
        raise CliError(f"-o {path} has an extension of data; call the {what} something like {given.stem}.aid.")
    for name in inputs:
        if name != "-" and os.path.realpath(name) == str(resolved):
            raise CliError(f"-o {path} is the file that is read; give the {what} another name.")
    try:
        with tempfile.TemporaryFile(dir=resolved.parent):
            pass
        if resolved.exists() and not os.access(resolved, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise CliError(f"-o {path} cannot be written: {error.strerror}.") from None
    return resolved


def json_value(value: Any) -> Any:
    """Convert a value for JSON: NumPy values become plain ones, numbers that are not finite become null."""
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    if hasattr(value, "tolist"):  # arrays and numbers of NumPy
        return json_value(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def write_json(value: Any) -> None:
    """Print the result of a command with --json."""
    plain = not sys.stdout.encoding.lower().startswith("utf")
    sys.stdout.write(json.dumps(json_value(value), indent=2, allow_nan=False, ensure_ascii=plain) + "\n")


class Writer(ABC):
    """Writer of blocks of rows, which are columns of equal length in the order of ``names``."""

    def __init__(self, file: BinaryIO, names: Sequence[str], n_rows: int) -> None:
        self.file, self.names, self.n_rows = file, list(names), n_rows

    @abstractmethod
    def write(self, columns: Sequence[NDArray[Any]]) -> None:
        """Write the next rows."""

    def close(self) -> None:  # noqa: B027  # most formats end with their last row
        """Finish the file after the last row."""


class CsvWriter(Writer):
    """Writer of CSV with a header; numbers keep all their digits, and missing values (NaN, None) are empty cells.

    The header is written with the first rows, so that a failed prediction leaves standard output empty.
    """

    delimiter = ","
    _has_header = False

    def write(self, columns: Sequence[NDArray[Any]]) -> None:
        self._write_header()
        if find_spec("pyarrow") is not None and all(column.dtype.kind in "fiub" for column in columns):
            self._write_numbers(columns)
        else:
            self._rows(zip(*([_cell(value) for value in column.tolist()] for column in columns), strict=True))

    def close(self) -> None:
        self._write_header()

    def _write_header(self) -> None:
        if not self._has_header:
            self._rows([self.names])
            self._has_header = True

    def _rows(self, rows: Any) -> None:
        text = io.StringIO()
        csv.writer(text, delimiter=self.delimiter, lineterminator="\n").writerows(rows)
        self.file.write(text.getvalue().encode())

    def _write_numbers(self, columns: Sequence[NDArray[Any]]) -> None:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        arrays = [pa.array(column, from_pandas=True) for column in columns]
        rows = pa.table(arrays, [str(k) for k in range(len(arrays))])
        arrow_csv.write_csv(rows, self.file, arrow_csv.WriteOptions(include_header=False, delimiter=self.delimiter))


class TsvWriter(CsvWriter):
    delimiter = "\t"


class ParquetWriter(Writer):
    _writer: Any = None

    def write(self, columns: Sequence[NDArray[Any]]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        arrays = [
            pa.array(column if column.dtype.kind in "fiub" else column.tolist(), from_pandas=True) for column in columns
        ]
        batch = pa.record_batch(arrays, names=self.names)
        if self._writer is None:
            self._writer = pq.ParquetWriter(self.file, batch.schema, use_dictionary=False)
        self._writer.write_batch(batch)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class NpyWriter(Writer):
    """Writer of one array, one-dimensional for a single column and otherwise two-dimensional."""

    _started = False

    def write(self, columns: Sequence[NDArray[Any]]) -> None:
        import numpy as np

        rows = columns[0] if len(columns) == 1 else np.column_stack(columns)
        if rows.dtype.kind == "O":
            rows = rows.astype(str)
        if not self._started:
            shape = (self.n_rows, *rows.shape[1:])
            described = {"descr": np.lib.format.dtype_to_descr(rows.dtype), "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(self.file, described)
            self._started = True
        self.file.write(np.ascontiguousarray(rows).tobytes())


class SvmlightWriter(Writer):
    """Writer of lines ``target index:value ...`` with indices from 1; the last column is the target."""

    def write(self, columns: Sequence[NDArray[Any]]) -> None:
        import numpy as np
        from sklearn.datasets import dump_svmlight_file

        written = io.BytesIO()
        dump_svmlight_file(np.column_stack(columns[:-1]), columns[-1], written, zero_based=False)
        self.file.write(written.getvalue())


FORMATS: dict[str, type[Writer]] = {".csv": CsvWriter, ".tsv": TsvWriter, ".parquet": ParquetWriter, ".npy": NpyWriter}


def _cell(value: Any) -> Any:
    return "" if value is None or value != value else value


def check_table(output: str, what: str, formats: dict[str, type[Writer]], inputs: Sequence[str] = ()) -> None:
    """Check the path of a table before anything is computed."""
    if output == STDOUT:
        return
    path = check_output(output, what, tuple(formats), inputs)
    if path.suffix.lower() == ".parquet" and find_spec("pyarrow") is None:
        raise CliError(f"Writing {output} needs pyarrow: pip install 'aidlearn[parquet]'.")


@contextmanager
def table_writer(
    output: str, names: Sequence[str], n_rows: int, formats: dict[str, type[Writer]] = FORMATS
) -> Iterator[Writer]:
    """Yield a writer of a file that is either complete or absent, or of CSV on standard output."""
    if output == STDOUT:
        writer: Writer = CsvWriter(sys.stdout.buffer, names, n_rows)
        yield writer
        writer.close()
        sys.stdout.buffer.flush()
        return
    from aidlearn.archive import whole_file

    path = check_output(output, "table", tuple(formats))
    with whole_file(path) as file:
        writer = formats[Path(output).suffix.lower()](file, names, n_rows)
        yield writer
        writer.close()
