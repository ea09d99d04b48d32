"""``aidlearn generate``: data of known form and any size, a block of rows at a time."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aidlearn.cli.errors import CliError, reported, tell
from aidlearn.cli.live import EVERY
from aidlearn.cli.options import Debug, Quiet, Seed
from aidlearn.cli.words import count, duration, short_count
from aidlearn.cli.writers import FORMATS, STDOUT, SvmlightWriter, Writer, check_table, table_writer

if TYPE_CHECKING:
    from numpy.typing import NDArray

app = typer.Typer(help="Write generated data to a file.", rich_markup_mode=None)

SVMLIGHT = (".svmlight", ".svm", ".libsvm")
DATA_FORMATS: dict[str, type[Writer]] = {**FORMATS, **dict.fromkeys(SVMLIGHT, SvmlightWriter)}
BLOCK_NUMBERS = 1 << 20
"""Numbers of X in one block; it depends on the number of columns only, so the data do not depend on the format."""


@dataclass(frozen=True)
class Recipe:
    """Data of one kind."""

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
        """X and y; y is NaN for rows without a label."""
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
        # Two clouds at distance 4 along ``truth``, spread by the noise; the first two rows have a label of each.
        y = rng.integers(0, 2, n).astype(float)
        known = rng.random(n) < self.labelled
        if start == 0:
            y[:2], known[:2] = (0.0, 1.0)[:n], True
        X = self.noise * X + np.outer(4 * y - 2, truth / np.linalg.norm(truth))
        return X, np.where(known, y, np.nan)

    def arrays(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """All rows."""
        import numpy as np

        blocks = list(self.blocks())
        return np.concatenate([X for X, _ in blocks]), np.concatenate([y for _, y in blocks])


def write(recipe: Recipe, output: str, quiet: bool) -> None:
    """Write the data; every few seconds a line says how far it is."""
    import numpy as np

    started = said = time.monotonic()
    done = 0
    # Formats of numbers mark rows without a label as scikit-learn does.
    numbers_only = output.lower().endswith((".npy", *SVMLIGHT))
    with table_writer(output, recipe.names, recipe.rows, DATA_FORMATS) as writer:
        for X, y in recipe.blocks():
            target = np.where(np.isnan(y), -1.0, y) if numbers_only else y
            writer.write([*np.ascontiguousarray(X.T), target])
            done += len(y)
            if not quiet and done < recipe.rows and time.monotonic() - said > EVERY:
                said = time.monotonic()
                speed = short_count(done / (said - started))
                sys.stderr.write(f"{100 * done // recipe.rows}% of {count(recipe.rows)} rows, {speed} rows/s\n")
    if not quiet and output != STDOUT:
        shape = f"{count(recipe.rows)} rows x {count(recipe.cols)} columns and the target"
        sys.stdout.write(f"{output}: {shape}, {duration(time.monotonic() - started)}\n")


Rows = Annotated[int, typer.Option("--rows", "-n", min=1, help="Number of rows.")]
Cols = Annotated[int, typer.Option("--cols", "-m", min=1, help="Number of columns besides the target.")]
Output = Annotated[
    str,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        show_default=False,
        help="File .csv, .tsv, .parquet, .npy (target in the last column) or .svmlight; - is CSV on standard output.",
    ),
]


def _generate(recipe: Recipe, output: str, quiet: bool) -> None:
    if not 0 <= recipe.noise < float("inf"):
        raise CliError(f"--noise must be a number >= 0, got {recipe.noise}.")
    if not 0 < recipe.labelled <= 1:
        raise CliError(f"--labelled must be a number > 0 and <= 1, got {recipe.labelled}.")
    check_table(output, "data", DATA_FORMATS)
    write(recipe, output, quiet)
    if recipe.kind == "s3vm" and recipe.rows < 2:
        tell("One row has one class only; a fit needs two.", "Warning")


@app.command()
@reported
def lad(
    output: Output,
    rows: Rows = 10_000,
    cols: Cols = 10,
    noise: Annotated[float, typer.Option(help="Scale of the Laplace noise.")] = 1.0,
    seed: Seed = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Regression: normal columns, y = X b + 3 + Laplace noise."""
    _generate(Recipe("lad", rows, cols, seed, noise), output, quiet)


@app.command()
@reported
def svm(
    output: Output,
    rows: Rows = 10_000,
    cols: Cols = 10,
    noise: Annotated[float, typer.Option(help="Standard deviation of the noise on the scores.")] = 0.5,
    seed: Seed = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Two classes, 1 and -1: normal columns, a hyperplane and noise on its scores."""
    _generate(Recipe("svm", rows, cols, seed, noise), output, quiet)


@app.command()
@reported
def s3vm(
    output: Output,
    rows: Rows = 10_000,
    cols: Cols = 10,
    noise: Annotated[float, typer.Option(help="Spread of the two clouds, whose centres are 4 apart.")] = 1.0,
    labelled: Annotated[float, typer.Option(help="Part of the rows that have a label.")] = 0.05,
    seed: Seed = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Two clouds, classes 0 and 1; most rows have an empty target (-1 in .npy and svmlight files)."""
    _generate(Recipe("s3vm", rows, cols, seed, noise, labelled), output, quiet)


@app.callback(invoke_without_command=True)
def generate(context: typer.Context) -> None:
    """Write generated data to a file."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
