"""Run a fit from the command line (fit, resume, demo): show progress, save the model, print the certificate."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from aidlearn.cli.errors import DONE, STOPPED, CliError, reporting
from aidlearn.cli.inputs import class_weights, load_rows, semi_supervised_labels
from aidlearn.cli.live import watching
from aidlearn.cli.output import number_table, shape, show_facts, write_json
from aidlearn.words import count, duration, enclosing, enclosing_all, gap_text, percent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aidlearn.data.rows.numbers import Classes
    from aidlearn.data.tables.files import FileSource
    from aidlearn.estimators.registry import Model

PENALTIES = {"LinearSVCCV": ("Cs", "C"), "QuantileRegressorCV": ("alphas", "alpha")}
"""Parameter that lists the penalties of a cross-validated model, and the name of a single penalty."""


@dataclass(frozen=True)
class OutputOptions:
    """Path of the model that a command writes, and what it prints."""

    model: str
    json: bool = False
    quiet: bool = False


@dataclass(frozen=True)
class PreparedFit:
    """A fit whose data are open."""

    estimator: Any
    run: Callable[[], Any]
    n_fits: int
    facts: dict[str, Any]
    """Facts about the data that are saved with the model, such as the columns that became its features."""
    title: str


def prepare(
    model: Model, estimator: Any, source: FileSource, shown: str, class_weight: str | None = None, note: str = ""
) -> PreparedFit:
    """Prepare a fit of a source, which messages call ``shown``."""
    from aidlearn.data.tables.npy import NpySource
    from aidlearn.files.models import check_can_be_saved

    width = source.width if isinstance(source, NpySource) else None
    facts: dict[str, Any] = {
        "data": shown,
        "rows": source.n_entries,
        "target": getattr(source, "target_name", None),
        "columns": list(source.inputs or source.names),
        "dropped": source.n_dropped,
        "weight": (source.origin or {}).get("weight"),
        "width": width,
    }
    title = f"{model.name} of {Path(shown).name}{note}: {shape(source.n_entries, source.n_attributes)}"
    if model.in_memory:
        run, labels = _in_memory(model, estimator, source, facts)
    else:
        run, labels = partial(estimator.fit, source), _classes(model, source.classes)
    if "labelled" in facts:
        title += f", {count(facts['labelled'])} labelled"
    if class_weight is not None and labels is not None:
        estimator.class_weight = class_weights(class_weight, labels)
    classes = [] if labels is None else labels.tolist()
    check_can_be_saved(estimator, facts, classes)
    return PreparedFit(estimator, run, len(model.fit_names(estimator, classes)), facts, title)


def _classes(model: Model, find: Callable[[], Classes]) -> NDArray[Any] | None:
    """Return the classes of the target; None if there are none, or if the fit will refuse them with its own error."""
    try:
        return find().labels if model.classifies else None
    except ValueError:
        return None


def _in_memory(
    model: Model, estimator: Any, source: FileSource, facts: dict[str, Any]
) -> tuple[Callable[[], Any], NDArray[Any] | None]:
    """Load the rows of a kernel machine; return its fit, which keeps the names of the columns, and its classes."""
    import numpy as np

    from aidlearn.data.encoding.recipe import EncodedRows
    from aidlearn.data.rows.numbers import Classes, check_labels

    X, target, weight = load_rows(source)
    estimator.rows_from = source.origin
    rows = X if source.encoding is None else EncodedRows(X, source.encoding)
    labels: Any = None
    missing = estimator.missing
    estimator.missing = "error" if missing == "drop" else missing  # incomplete rows have been left out already
    if model.unlabelled_rows:
        target, labels = semi_supervised_labels(target, facts["data"])
        facts["labelled"] = int((target >= 0).sum())
    else:
        if target.dtype.kind == "f" and np.isfinite(target).all() and (target == np.round(target)).all():
            target = target.astype(np.int64)
        labels = _classes(model, lambda: Classes.of_labels(check_labels(target))[0])

    def run() -> None:
        estimator.fit(rows, target, sample_weight=weight)
        if model.unlabelled_rows:
            estimator.classes_, estimator.transduction_ = labels, labels[estimator.transduction_]
        estimator.missing, estimator.n_dropped_ = missing, source.n_dropped
        if source.named and source.encoding is None:
            estimator.feature_names_in_ = np.array(source.names, dtype=object)

    return run, labels


def fit_and_save(prepared: PreparedFit, output: OutputOptions) -> int:
    """Fit with a display, write the model to its checked path, print the result and return the exit code."""
    from aidlearn.data.rows.threads import uninterrupted
    from aidlearn.files.checks import missing_attributes

    model, facts = prepared.estimator, prepared.facts
    started = time.monotonic()
    with watching(prepared.title, model.tol, prepared.n_fits, output.quiet) as display:
        model.callbacks = [display]
        try:
            prepared.run()
        except KeyboardInterrupt:
            if missing_attributes(model):
                raise
    model.callbacks = None
    seconds = time.monotonic() - started
    with suppress(KeyboardInterrupt), uninterrupted():  # another Ctrl-C cannot stop what is being saved
        _save(model, output.model, {**facts, "seconds": seconds})
    with reporting(output.model):
        if output.json:
            about = {"model": output.model, "rows": facts["rows"], "seconds": seconds, **summary(model)}
            write_json(about | ({"summaries": facts["summaries"]} if "summaries" in facts else {}))
        elif not output.quiet:
            rows = [*factor_rows(model), *_penalty_rows(model), *certificate_rows(model)]
            show_facts(prepared.title, [*rows, ("time", effort(model, seconds)), ("model", output.model)])
    return STOPPED if display.stopping else exit_code(model)


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
    """Describe a model and its certificate for JSON: totals, and each fit."""
    from aidlearn.estimators.fits import fits_of

    fits = fits_of(model)
    factors = model.recipe_.factors if hasattr(model, "recipe_") else ()
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
        "factors": {factor.name: len(factor.levels) for factor in factors},
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


def factor_rows(model: Any) -> list[tuple[str, Any]]:
    """Return lines about factors and about rows that were left out."""
    from aidlearn.estimators.fits import factor_words

    words, dropped = factor_words(model), getattr(model, "n_dropped_", 0)
    rows: list[tuple[str, Any]] = [("factors", words)] if words else []
    return rows + ([("missing", f"{count(dropped)} rows with missing cells were left out")] if dropped else [])


def _penalty_rows(model: Any) -> list[tuple[str, Any]]:
    """Return lines about the penalty that cross-validation chose."""
    if type(model).__name__ not in PENALTIES:
        return []
    import numpy as np

    _, name = PENALTIES[type(model).__name__]
    n_folds, n = model.scores_.shape
    score = np.nanmax(model.scores_.mean(axis=0))
    seen = np.isfinite(model.gaps_)
    certified = "every point certified" if seen.all() else f"{seen.sum()} of {seen.size} points fitted and certified"
    words = f"{getattr(model, name + '_'):g}, the best of {n} over {n_folds} folds: mean score {score:.6g}"
    return [(name, words), ("folds", f"{certified}, largest gap {model.gaps_[seen].max():.1e}")]


def effort(model: Any, seconds: float | None) -> str:
    """Describe time, iterations and passes of a fit in words."""
    from aidlearn.estimators.fits import fits_of

    n = sum(len(fit.history) for fit in fits_of(model))
    spent = "" if seconds is None else f"{duration(seconds)}, "
    return f"{spent}{count(n)} iteration{'' if n == 1 else 's'}, {count(model.n_passes_)} passes"


def certificate_rows(model: Any) -> list[tuple[str, Any]]:
    """Return lines about the certificate: words for one fit, a table for several."""
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
    table = number_table("fit", "objective", "lower bound", "gap")
    table.add_column("status", no_wrap=True)
    shown = enclosing_all([(fit.lower_bound, fit.objective) for fit in fits])
    for fit, (low, high) in zip(fits, shown, strict=True):
        table.add_row(Text(fit.name), high, low, gap_text(fit.gap), Text(str(fit.status), style=_colour(fit.status)))
    statuses = sorted({fit.status for fit in fits}, key=lambda status: status.name)
    sentences = [Text(status.sentence, style=_colour(status)) for status in statuses]
    return [("status", sentences[0]), *(("", sentence) for sentence in sentences[1:]), ("fits", table)]


def _colour(status: Any) -> str:
    return "green" if status.reached_tolerance else "yellow"
