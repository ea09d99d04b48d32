"""``aidlearn generate``: data of a known form and any size, written block by block."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aidlearn.cli.errors import CliError, reporting, say, tell
from aidlearn.cli.live import EVERY
from aidlearn.cli.options import PRINTED, REQUIRED, Described, Seed, add_command, group, option, output
from aidlearn.cli.output import FORMATS, STDOUT, SvmlightWriter, Writer, check_table, shape, table_writer
from aidlearn.words import count, duration, short_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

app = group("Write generated data to a file.")

SVMLIGHT = (".svmlight", ".svm", ".libsvm")
DATA_FORMATS: dict[str, type[Writer]] = {**FORMATS, **dict.fromkeys(SVMLIGHT, SvmlightWriter)}
BLOCK_NUMBERS = 1 << 20
"""Number of cells of X in one block, the same for every format so that the data do not depend on the format."""


@dataclass(frozen=True)
class Generated:
    """Generated data of one kind."""

    kind: str
    rows: int
    cols: int
    seed: int = 0
    noise: float = 1.0
    labelled: float = 0.05

    @property
    def names(self) -> list[str]:
        return [*(f"x{k}" for k in range(self.cols)), "y"]

    def blocks(self) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yield X and y block by block; y is NaN for rows without a label."""
        import numpy as np

        rng = np.random.default_rng(self.seed)
        truth = rng.standard_normal(self.cols)
        size = max(1, BLOCK_NUMBERS // self.cols)
        for start in range(0, self.rows, size):
            n = min(size, self.rows - start)
            X = rng.standard_normal((n, self.cols))
            yield self._rows(X, truth, rng, start)

    def _rows(self, X: Any, truth: Any, rng: Any, start: int) -> tuple[Any, Any]:
        import numpy as np

        n = len(X)
        if self.kind == "lad":
            return X, X @ truth + 3.0 + self.noise * rng.laplace(size=n)
        if self.kind == "svm":
            scores = X @ truth / np.sqrt(self.cols) + self.noise * rng.standard_normal(n)
            return X, np.where(scores > 0.3, 1.0, -1.0)
        # Two clouds at distance 4 along ``truth``, spread by the noise; the first two rows are labelled, one per class.
        y = rng.integers(0, 2, n).astype(float)
        known = rng.random(n) < self.labelled
        if start == 0:
            y[:2], known[:2] = (0.0, 1.0)[:n], True
        X = self.noise * X + np.outer(4 * y - 2, truth / np.linalg.norm(truth))
        return X, np.where(known, y, np.nan)

    def arrays(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return X and y of all rows."""
        import numpy as np

        blocks = list(self.blocks())
        return np.concatenate([X for X, _ in blocks]), np.concatenate([y for _, y in blocks])


def write(data: Generated, file: str, quiet: bool) -> None:
    """Write the data and print a line of progress every few seconds."""
    import numpy as np

    started = said = time.monotonic()
    done = 0
    # Numeric formats mark rows without a label by -1, as scikit-learn does.
    numbers_only = file.lower().endswith((".npy", *SVMLIGHT))
    with table_writer(file, data.names, data.rows, DATA_FORMATS) as writer:
        for X, y in data.blocks():
            target = np.where(np.isnan(y), -1.0, y) if numbers_only else y
            writer.write([*np.ascontiguousarray(X.T), target])
            done += len(y)
            if not quiet and done < data.rows and time.monotonic() - said > EVERY:
                said = time.monotonic()
                speed = short_count(done / (said - started))
                say(f"{100 * done // data.rows}% of {count(data.rows)} rows, {speed} rows/s")
    if not quiet and file != STDOUT:
        size = f"{shape(data.rows, data.cols)} and the target"
        with reporting(file):
            sys.stdout.write(f"{file}: {size}, {duration(time.monotonic() - started)}\n")


Rows = Annotated[int, typer.Option("--rows", "-n", min=1, help="Number of rows.")]
Cols = Annotated[int, typer.Option("--cols", "-m", min=1, help="Number of columns besides the target.")]
Output = Annotated[
    str,
    output(
        "FILE", "File .csv, .tsv, .parquet, .npy (target in the last column) or .svmlight; - is CSV on standard output."
    ),
]


def generate(kind: str, file: str, quiet: bool, debug: bool, **given: Any) -> None:
    """Check the options of a command and write its data."""
    data = Generated(kind, **given)
    if not 0 <= data.noise < float("inf"):
        raise CliError(f"--noise must be a number >= 0, got {data.noise}.")
    if not 0 < data.labelled <= 1:
        raise CliError(f"--labelled must be a number > 0 and <= 1, got {data.labelled}.")
    check_table(file, "data", DATA_FORMATS)
    write(data, file, quiet)
    if data.kind == "s3vm" and data.rows < 2:
        tell("One row has one class only; a fit needs two.", "Warning")


LABELLED = option(float, 0.05, "--labelled", help="Share of the rows that have a label.")
KINDS = {
    "lad": ("Regression: normal columns, y = X b + 3 + Laplace noise.", 1.0, "Scale of the Laplace noise."),
    "svm": (
        "Two classes, 1 and -1: normal columns, a hyperplane and noise on its scores.",
        0.5,
        "Standard deviation of the noise on the scores.",
    ),
    "s3vm": (
        "Two clouds, classes 0 and 1; most rows have an empty target (-1 in .npy and svmlight files).",
        1.0,
        "Spread of the two clouds, whose centres are 4 apart.",
    ),
}
"""Description of each kind of data, and the default and description of its noise."""


def with_usual_noise(kind: str, rows: int, cols: int, seed: int = 0) -> Generated:
    return Generated(kind, rows, cols, seed, KINDS[kind][1])


for _kind, (_help, _noise, _about_noise) in KINDS.items():
    _options: dict[str, Described] = {
        "file": (Output, REQUIRED),
        "rows": (Rows, 10_000),
        "cols": (Cols, 10),
        "noise": option(float, _noise, "--noise", help=_about_noise),
        **({"labelled": LABELLED} if _kind == "s3vm" else {}),
        "seed": (Seed, 0),
        **PRINTED,
    }
    add_command(app, _kind, _help, _options, partial(generate, _kind))
