"""``aidlearn predict MODEL DATA -o OUT``: predictions of a file, a block of rows at a time."""

from __future__ import annotations

import time
from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aidlearn.cli.errors import CliError, reported
from aidlearn.cli.features import open_features
from aidlearn.cli.inputs import data_file
from aidlearn.cli.live import opening
from aidlearn.cli.models import open_model
from aidlearn.cli.options import Data, Debug, Delimiter, Encoding, Jobs, Json, Quiet
from aidlearn.cli.outputs import write_json
from aidlearn.cli.words import console, count, duration
from aidlearn.cli.writers import FORMATS, STDOUT, check_table, table_writer

if TYPE_CHECKING:
    from numpy.typing import NDArray


@reported
def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", show_default=False, help="A model file.")],
    data: Data,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="OUT",
            show_default=False,
            help="File .csv, .tsv, .parquet or .npy; overwritten. - is CSV on standard output.",
        ),
    ],
    scores: Annotated[
        bool, typer.Option("--scores", help="Add decision values; .npy files hold nothing else then.")
    ] = False,
    unknown: Annotated[
        str | None,
        typer.Option(
            "--unknown", show_default=False, help="Factor levels that the fit has not seen: error or reference."
        ),
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
    if json and output == STDOUT:
        raise CliError("--json and -o - both write to standard output; give the predictions a file.")
    check_table(output, "table of predictions", FORMATS, [data, model])
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
        with opening(data, quiet or json):
            features = open_features(file, fitted)
        names = column_names(fitted, scores, numbers_only=output.lower().endswith(".npy"))
        with table_writer(output, names, features.n_rows) as writer:
            for X in features.blocks():
                writer.write(columns(fitted, X, names, scores))
    seconds = time.monotonic() - started
    if json:
        write_json({"output": output, "rows": features.n_rows, "columns": names, "seconds": seconds})
    elif not quiet and output != STDOUT:
        shape = f"{count(features.n_rows)} rows, columns {', '.join(names)}"
        console().print(f"{output}: {shape}, {duration(seconds)}", soft_wrap=True)


def column_names(model: Any, scores: bool, numbers_only: bool) -> list[str]:
    """Names of the output columns: one per quantile, or the prediction and its scores."""
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
    """The output columns for a block of rows."""
    import numpy as np

    parts = []
    if names[0].startswith("q") or names[0] == "prediction":
        parts.append(np.asarray(model.predict(X)))
    if scores:
        parts.append(np.asarray(model.decision_function(X)))
    return [column for part in parts for column in part.reshape(len(part), -1).T]
