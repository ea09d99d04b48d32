"""A fit from the command line: show progress, save the model, print the certificate. Used by fit, resume and demo."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from aidlearn.cli.errors import DONE, STOPPED, CliError, ignoring_closed_output
from aidlearn.cli.live import watching
from aidlearn.cli.outputs import write_json
from aidlearn.cli.penalties import chosen_rows
from aidlearn.cli.words import console, count, duration, enclosing, enclosing_all, facts, gap_text, percent
from aidlearn.estimators.registry import model_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aidlearn.data.tables.files import FileSource


@dataclass(frozen=True)
class OutputOptions:
    """Path of the model that a command writes, and what it prints."""

    model: str
    json: bool = False
    quiet: bool = False


def training_facts(source: FileSource, shown: str) -> dict[str, Any]:
    """Facts about the data that are saved with a model, such as the columns that became its features."""
    choice = getattr(source, "choice", None)
    return {
        "data": shown,
        "rows": source.n_entries,
        "target": getattr(source, "target_name", None),
        "columns": list(source.names) if choice is None else list(choice.columns),
        "dropped": source.n_dropped,
        "weight": (source.origin or {}).get("weight"),
        "width": _width(source),
    }


def _width(source: FileSource) -> int | None:
    """Number of columns of an .npy file, including target and weight."""
    from aidlearn.data.tables.npy import NpyFile, NpySource

    return int(NpyFile(source.path).shape[1]) if isinstance(source, NpySource) else None


def count_fits(model: Any, classes: NDArray[Any] | None) -> int:
    """Number of fits inside a model: one per quantile, per class of several, or per pair of classes.

    ``classes`` is None if the fit will refuse the target, with its own message. Classes that a model file cannot hold
    are refused here.
    """
    from aidlearn.files.models import check_can_be_saved

    declared = model_of(model)
    assert declared is not None
    labels: list[Any] = [] if classes is None else classes.tolist()
    check_can_be_saved(model, classes=labels)
    return len(declared.fit_names(model, labels))


def fit_and_save(
    model: Any, fit: Callable[[], Any], training: dict[str, Any], output: OutputOptions, title: str, n_fits: int
) -> int:
    """Fit with a display, write the model to its checked path, print the result and return the exit code."""
    from aidlearn.files.models import check_can_be_saved

    check_can_be_saved(model, training)
    started = time.monotonic()
    with watching(title, model.tol, n_fits, output.quiet) as display:
        model.callbacks = [display]
        fit()
    model.callbacks = None
    seconds = time.monotonic() - started
    _save(model, output.model, {**training, "seconds": seconds})
    with ignoring_closed_output():
        if output.json:
            write_json(
                {
                    "model": output.model,
                    "rows": training["rows"],
                    "seconds": seconds,
                    **summary(model),
                    **_statistics(training),
                }
            )
        elif not output.quiet:
            tell_fit(model, title, seconds, output.model)
        sys.stdout.flush()
    return exit_code(model)


def _statistics(training: dict[str, Any]) -> dict[str, Any]:
    return {"summaries": training["summaries"]} if "summaries" in training else {}


def _save(model: Any, path: str, training: dict[str, Any]) -> None:
    """Write the model; if that fails (a full disk, a folder that was removed), keep it in a temporary file."""
    from aidlearn import save_model

    try:
        save_model(model, os.path.realpath(path), training=training)
    except ValueError as error:
        handle, refuge = tempfile.mkstemp(prefix="aidlearn-", suffix=".aid")
        os.close(handle)
        try:
            save_model(model, refuge, training=training)
        except ValueError:
            os.unlink(refuge)
            raise error from None
        raise CliError(f"{error} The model is kept in {refuge}.") from None


def exit_code(model: Any) -> int:
    from aidlearn.estimators.fits import fits_of

    return DONE if all(fit.status.reached_tolerance for fit in fits_of(model)) else STOPPED


def summary(model: Any) -> dict[str, Any]:
    """Model and certificate for JSON: totals, and each fit."""
    from aidlearn.estimators.fits import fits_of

    fits = fits_of(model)
    worst = max(fits, key=lambda fit: (not fit.status.reached_tolerance, fit.gap))
    return {
        "estimator": type(model).__name__,
        "status": worst.status.name,
        "sentence": worst.status.sentence,
        "reached_tolerance": all(fit.status.reached_tolerance for fit in fits),
        "tol": model.tol,
        "gap": worst.gap,
        "n_features": model.n_features_in_,
        "n_dropped": getattr(model, "n_dropped_", 0),
        "factors": {factor.name: len(factor.levels) for factor in model.recipe_.factors}
        if hasattr(model, "recipe_")
        else {},
        "n_passes": model.n_passes_,
        "fits": [
            {
                "name": fit.name or None,
                "status": fit.status.name,
                "objective": fit.objective,
                "lower_bound": fit.lower_bound,
                "gap": fit.gap,
                "n_iter": len(fit.history),
                "n_clusters": fit.n_clusters,
                "aggregation_rate": fit.aggregation_rate,
            }
            for fit in fits
        ],
    }


def tell_fit(model: Any, title: str, seconds: float, output: str) -> None:
    """Print the result on standard output."""
    from aidlearn.estimators.fits import fits_of

    screen = console()
    screen.print(Text(title, style="bold"))
    rows = [*factor_rows(model), *chosen_rows(model), *certificate_rows(model)]
    rows.append(("time", f"{duration(seconds)}, {iterations(fits_of(model))}, {count(model.n_passes_)} passes"))
    rows.append(("model", output))
    screen.print(facts(rows))


def factor_rows(model: Any) -> list[tuple[str, Any]]:
    """Lines about factors and rows that were left out."""
    from aidlearn.estimators.fits import factor_words

    words, dropped = factor_words(model), getattr(model, "n_dropped_", 0)
    rows: list[tuple[str, Any]] = [("factors", words)] if words else []
    return rows + ([("missing", f"{count(dropped)} rows with missing cells were left out")] if dropped else [])


def iterations(fits: list[Any]) -> str:
    n = sum(len(fit.history) for fit in fits)
    return f"{count(n)} iteration{'' if n == 1 else 's'}"


def certificate_rows(model: Any) -> list[tuple[str, Any]]:
    """Lines about the certificate: words for one fit, a table for several."""
    from aidlearn.estimators.fits import fits_of

    fits = fits_of(model)
    if len(fits) == 1:
        [fit] = fits
        low, high = enclosing(fit.lower_bound, fit.objective)
        width = max(len(low), len(high))
        return [
            ("status", Text(fit.status.sentence, style=_colour(fit.status))),
            ("objective", f"{high:>{width}}"),
            ("lower bound", f"{low:>{width}}"),
            ("gap", f"{gap_text(fit.gap)}, tolerance {model.tol:g}"),
            ("clusters", f"{count(fit.n_clusters)}, {percent(fit.aggregation_rate)} of the rows"),
        ]
    statuses = {fit.status for fit in fits}
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("fit", no_wrap=True)
    for name in ("objective", "lower bound", "gap"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    shown = enclosing_all([(fit.lower_bound, fit.objective) for fit in fits])
    for fit, (low, high) in zip(fits, shown, strict=True):
        table.add_row(Text(fit.name), high, low, gap_text(fit.gap), Text(str(fit.status), style=_colour(fit.status)))
    sentences = [
        ("status" if k == 0 else "", Text(status.sentence, style=_colour(status)))
        for k, status in enumerate(sorted(statuses, key=lambda status: status.name))
    ]
    return [*sentences, ("fits", table)]


def _colour(status: Any) -> str:
    return "green" if status.reached_tolerance else "yellow"
