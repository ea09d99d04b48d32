"""``aidlearn bootstrap MODEL DATA``: standard errors of a model by certified replicates."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from aidlearn.cli.errors import DONE, STOPPED, CliError, reported, reporting
from aidlearn.cli.inputs import clusters_column, data_file, open_model, training_of
from aidlearn.cli.live import working
from aidlearn.cli.options import Data, Debug, Delimiter, Encoding, Jobs, Json, Quiet, Seed, argument, output
from aidlearn.cli.output import FORMATS, check_table, console, number_table, table_writer, write_json
from aidlearn.words import count, duration

if TYPE_CHECKING:
    from aidlearn.estimators.linear.bootstrap import Bootstrap

KINDS = ("exponential", "multinomial", "cluster")


@reported
def bootstrap(
    model: Annotated[str, argument("MODEL", "A linear model fitted to these rows.")],
    data: Data,
    replicates: Annotated[int, typer.Option("-n", "--replicates", help="Number of replicates.")] = 200,
    kind: Annotated[
        str,
        typer.Option(
            "--kind", help=f"Distribution of the weights: {', '.join(KINDS)}.", autocompletion=lambda: list(KINDS)
        ),
    ] = "exponential",
    clusters: Annotated[str | None, typer.Option("--clusters", help="Column of clusters, for --kind cluster.")] = None,
    alpha: Annotated[float, typer.Option("--alpha", help="One minus the confidence level of the intervals.")] = 0.05,
    table: Annotated[
        str | None, output("OUT", "Table with one row per replicate: .csv, .tsv, .parquet or .npy.")
    ] = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    seed: Seed = 0,
    jobs: Jobs = -1,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> int:
    """Fit a model again with random weights of the rows; every replicate has a certified gap."""
    import numpy as np

    if table is not None:
        check_table(table, "table of replicates", FORMATS, [data, model])
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
    reason = getattr(fitted, "no_bootstrap", "it is not linear")
    if reason:
        raise CliError(f"{model} is a {type(fitted).__name__}, which has no bootstrap: {reason}.")
    training = training_of(fitted)
    if "columns" not in training:
        raise CliError(f"{model} does not record the columns of its data: use aidlearn.bootstrap from Python.")
    fitted.n_jobs = jobs
    started = time.monotonic()
    with data_file(data, delimiter, encoding) as file:
        from aidlearn import bootstrap as replicated
        from aidlearn import open_source

        with working(f"Reading {file.shown}", quiet or json):
            recipe = getattr(fitted, "recipe_", None)
            columns = () if recipe is None else recipe.columns
            source = open_source(
                file.path,
                training["target"],
                training["columns"],
                weight=training.get("weight"),
                missing=fitted.missing,
                one_hot={} if recipe is None else recipe.references,
                numeric=[column.name for column in columns if column.kind == "boolean" and column.levels is None],
                delimiter=file.delimiter,
                encoding=file.encoding,
                n_jobs=jobs,
            )
        column = None if clusters is None else clusters_column(clusters, source)
        found = replicated(fitted, source, None, replicates, kind, column, seed)
    seconds = time.monotonic() - started
    names, values = _columns(found)
    if table is not None:
        with table_writer(table, names, len(values)) as writer:
            writer.write(list(values.T))
    low, high = found.intervals(alpha)
    numbers = (np.ravel(part).tolist() for part in (found.estimates, found.standard_errors, low, high))
    rows = list(zip(names, *numbers, strict=True))
    worst = float(np.max(found.gaps))
    with reporting(table):
        if json:
            keys = ("name", "estimate", "standard_error", "lower", "upper")
            about = {"model": model, "replicates": len(values), "largest_gap": worst, "n_refitted": found.n_refitted}
            about |= {"n_passes": found.n_passes, "seconds": seconds}
            write_json({**about, "coefficients": [dict(zip(keys, row, strict=True)) for row in rows]})
        elif not quiet:
            title = f"{count(len(values))} replicates of {model}, every one certified: largest gap {worst:.1e}"
            shown = number_table("coefficient", "estimate", "std. error", "lower", "upper")
            for name, *row in rows:
                shown.add_row(Text(name), *(f"{number:.6g}" for number in row))
            effort = f"{duration(seconds)}, {count(found.n_passes)} passes, {count(found.n_refitted)} fits on all rows"
            console().print(Text(title, style="bold"), shown, Text(effort), sep="\n")
    return DONE if len(values) == replicates else STOPPED


def _columns(found: Bootstrap) -> tuple[list[str], Any]:
    """Return the names and the values of all coefficients, one row per replicate."""
    import numpy as np

    if found.coefficients.ndim == 2:
        return found.names, found.coefficients
    names = [f"{name} [{k}]" for k in range(len(found.coefficients)) for name in found.names]
    return names, np.concatenate(list(found.coefficients), axis=1)
