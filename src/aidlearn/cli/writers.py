"""Tables written a block of rows at a time: CSV, TSV, Parquet, .npy and svmlight text."""

from __future__ import annotations

import csv
import io
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from aidlearn.archive import whole_file
from aidlearn.cli.errors import CliError
from aidlearn.cli.outputs import check_output

if TYPE_CHECKING:
    from numpy.typing import NDArray

STDOUT = "-"


class Writer(ABC):
    """Writes blocks of rows, as columns of equal length in the order of ``names``."""

    def __init__(self, file: BinaryIO, names: Sequence[str], n_rows: int) -> None:
        self.file, self.names, self.n_rows = file, list(names), n_rows

    @abstractmethod
    def write(self, columns: Sequence[NDArray[Any]]) -> None:
        """Write the next rows."""

    def close(self) -> None:  # noqa: B027  # most formats end with their last row
        """Write what follows the last row."""


class CsvWriter(Writer):
    """Text with a header; numbers keep all their digits. A missing value (NaN, None) is an empty cell.

    The header is written with the first rows, so that a failed prediction leaves standard output empty.
    """

    delimiter = ","

    def __init__(self, file: BinaryIO, names: Sequence[str], n_rows: int) -> None:
        super().__init__(file, names, n_rows)
        self._fast = find_spec("pyarrow") is not None
        self._has_header = False

    def write(self, columns: Sequence[NDArray[Any]]) -> None:
        self._write_header()
        if self._fast and all(column.dtype.kind in "fiub" for column in columns):
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

        table = pa.table(
            [pa.array(column, from_pandas=True) for column in columns], [str(k) for k in range(len(columns))]
        )
        written = io.BytesIO()
        arrow_csv.write_csv(table, written, arrow_csv.WriteOptions(include_header=False, delimiter=self.delimiter))
        self.file.write(written.getvalue())


class TsvWriter(CsvWriter):
    delimiter = "\t"


class ParquetWriter(Writer):
    def __init__(self, file: BinaryIO, names: Sequence[str], n_rows: int) -> None:
        super().__init__(file, names, n_rows)
        self._writer: Any = None

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
    """One array: one-dimensional for a single column, else two-dimensional."""

    def __init__(self, file: BinaryIO, names: Sequence[str], n_rows: int) -> None:
        super().__init__(file, names, n_rows)
        self._started = False

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
    """``target index:value ...`` with indices from 1; the last column is the target."""

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
    """Writer of a file that is either complete or absent, or of CSV on standard output."""
    if output == STDOUT:
        on_screen = CsvWriter(sys.stdout.buffer, names, n_rows)
        yield on_screen
        on_screen.close()
        sys.stdout.buffer.flush()
        return
    path = check_output(output, "table", tuple(formats))
    with whole_file(path) as file:
        writer = formats[Path(output).suffix.lower()](file, names, n_rows)
        yield writer
        writer.close()
