"""``aidlearn bootstrap MODEL DATA``: standard errors of a model by certified replicates."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from aidlearn.cli.errors import CliError, reported
from aidlearn.cli.inputs import data_file
from aidlearn.cli.live import opening
from aidlearn.cli.models import open_model
from aidlearn.cli.options import Data, Debug, Delimiter, Encoding, Jobs, Json, Quiet, Seed
from aidlearn.cli.outputs import write_json
from aidlearn.cli.words import console, count, duration
from aidlearn.cli.writers import FORMATS, check_table, table_writer

if TYPE_CHECKING:
    from aidlearn.estimators.linear.bootstrap import Bootstrap

KINDS = ("exponential", "multinomial", "cluster")
LINEAR = ("LADRegressor", "QuantileRegressor", "LinearSVC", "LinearSVR")
"""Estimators that the bootstrap supports."""


@reported
def bootstrap(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", show_default=False, help="A linear model fitted to these rows.")
    ],
    data: Data,
    replicates: Annotated[int, typer.Option("-n", "--replicates", help="Number of replicates.")] = 200,
    kind: Annotated[
        str,
        typer.Option(
            "--kind", help=f"Distribution of the weights: {', '.join(KINDS)}.", autocompletion=lambda: list(KINDS)
        ),
    ] = "exponential",
    clusters: Annotated[
        str | None, typer.Option("--clusters", show_default=False, help="Column of clusters, for --kind cluster.")
    ] = None,
    alpha: Annotated[float, typer.Option("--alpha", help="One minus the confidence level of the intervals.")] = 0.05,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="OUT",
            show_default=False,
            help="Table with one row per replicate: .csv, .tsv, .parquet or .npy.",
        ),
    ] = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    seed: Seed = 0,
    jobs: Jobs = -1,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fit a model again with random weights of the rows; every replicate has a certified gap."""
    if output is not None:
        check_table(output, "table of replicates", FORMATS, [data, model])
    if kind not in KINDS:
        raise CliError(f"--kind must be one of {', '.join(KINDS)}, got {kind!r}.")
    if (kind == "cluster") != (clusters is not None):
        raise CliError(
            "--kind cluster requires --clusters, the column with the cluster of each row; other kinds take none."
        )
    if not 0 < alpha < 1:
        raise CliError(f"--alpha must be between 0 and 1, got {alpha}.")
    if replicates < 2:
        raise CliError(f"--replicates must be at least 2, got {replicates}.")
    fitted = open_model(model)
    if type(fitted).__name__ not in LINEAR:
        raise CliError(f"bootstrap is for linear models with a fixed penalty; {model} is a {type(fitted).__name__}.")
    training = getattr(fitted, "training_", None) or {}
    if "columns" not in training:
        raise CliError(f"{model} does not record the columns of its data: use aidlearn.bootstrap from Python.")
    fitted.n_jobs = jobs
    started = time.monotonic()
    with data_file(data, delimiter, encoding) as file:
        from aidlearn import bootstrap as replicated
        from aidlearn import open_source

        with opening(data, quiet or json):
            recipe = getattr(fitted, "recipe_", None)
            truths = [] if recipe is None else [column for column in recipe.columns if column.kind == "boolean"]
            source = open_source(
                file.path,
                training["target"],
                training["columns"],
                weight=training.get("weight"),
                missing=fitted.missing,
                one_hot={} if recipe is None else recipe.references,
                numeric=[column.name for column in truths if column.levels is None],
                delimiter=file.delimiter,
                encoding=file.encoding,
                n_jobs=jobs,
            )
        column = int(clusters) if clusters is not None and clusters.isdigit() and not source.named else clusters
        found = replicated(fitted, source, None, replicates, kind, column, seed)
    seconds = time.monotonic() - started
    if output is not None:
        _write(output, found)
    _tell(model, found, alpha, seconds, json, quiet)


def _columns(found: Bootstrap) -> tuple[list[str], Any]:
    """Names and values of all coefficients, one row per replicate."""
    import numpy as np

    if found.coefficients.ndim == 2:
        return found.names, found.coefficients
    names = [f"{name} [{k}]" for k in range(len(found.coefficients)) for name in found.names]
    return names, np.concatenate(list(found.coefficients), axis=1)


def _write(output: str, found: Bootstrap) -> None:
    names, values = _columns(found)
    with table_writer(output, names, len(values)) as writer:
        writer.write(list(values.T))


def _tell(model: str, found: Bootstrap, alpha: float, seconds: float, json: bool, quiet: bool) -> None:
    import numpy as np

    names, values = _columns(found)
    estimates = np.ravel(found.estimates)
    low, high = (np.ravel(side) for side in found.intervals(alpha))
    errors = np.ravel(found.standard_errors)
    if json:
        rows = zip(names, estimates.tolist(), errors.tolist(), low.tolist(), high.tolist(), strict=True)
        keys = ("name", "estimate", "standard_error", "lower", "upper")
        write_json(
            {
                "model": model,
                "replicates": len(values),
                "largest_gap": float(np.max(found.gaps)),
                "n_refitted": found.n_refitted,
                "n_passes": found.n_passes,
                "seconds": seconds,
                "coefficients": [dict(zip(keys, row, strict=True)) for row in rows],
            }
        )
        return
    if quiet:
        return
    screen = console()
    worst = float(np.max(found.gaps))
    title = f"{count(len(values))} replicates of {model}, every one certified: largest gap {worst:.1e}"
    screen.print(Text(title, style="bold"))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("coefficient", no_wrap=True)
    for heading in ("estimate", "std. error", "lower", "upper"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, *numbers in zip(names, estimates, errors, low, high, strict=True):
        table.add_row(Text(name), *(f"{number:.6g}" for number in numbers))
    screen.print(table)
    screen.print(f"{duration(seconds)}, {count(found.n_passes)} passes, {count(found.n_refitted)} fits on all rows")
