"""``aidlearn inspect FILE`` and ``aidlearn report MODEL``: describe a model or a checkpoint and its certificate."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from aidlearn.cli.commands.statistics import show_summaries
from aidlearn.cli.errors import reported, reporting
from aidlearn.cli.inputs import STDIN, checkpoint_files, kind_of_file, open_model, read_checkpoints, training_of
from aidlearn.cli.options import Debug, Json, ModelFile, Quiet, argument, output
from aidlearn.cli.output import check_output, console, number_table, show_facts, write_json
from aidlearn.cli.run import certificate_rows, effort, factor_rows, summary
from aidlearn.words import aligned, count, duration, enclosing, gap_text

if TYPE_CHECKING:
    from aidlearn.engine.checkpoint import Snapshot

ENGINE = ("tol", "max_iter", "time_limit", "n_jobs", "verbose", "callbacks", "checkpoint", "random_state")
"""Parameters that affect the fit but not the model."""


@reported
def inspect(
    file: Annotated[str, argument("FILE", "A model or a checkpoint.")],
    top: Annotated[int, typer.Option("--top", min=0, help="Number of largest coefficients to show; 0 shows all.")] = 20,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what was fitted, what is proven about it, and its coefficients by size."""
    if _is_checkpoint(file):
        _checkpoint(file, json)
        return
    model = open_model(file)
    if json:
        write_json({"file": file, **_described(model, top)})
        return
    training = training_of(model)
    time = ("time", effort(model, training.get("seconds")))
    show_facts(f"{type(model).__name__}: {file}", [*_about(model), *certificate_rows(model), time])
    if training.get("summaries"):
        show_summaries(training)
    else:
        _show_coefficients(model, top)


@reported
def report(
    model: ModelFile,
    file: Annotated[str, output("HTML", "File of the page; overwritten.")],
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a page about a model: certificate, convergence, coefficients."""
    check_output(file, "report", (".html", ".htm"), [model])
    fitted = open_model(model)
    from aidlearn.report import write_report

    write_report(fitted, os.path.realpath(file))
    with reporting(file):
        if not quiet:
            sys.stdout.write(f"{file} written\n")


def _is_checkpoint(file: str) -> bool:
    """Return whether a file is a checkpoint, or is damaged or missing but still has its predecessor."""
    from aidlearn.engine.checkpoint import one_before

    kind = kind_of_file(file) or kind_of_file(str(one_before(Path(file))))
    return kind == "aidlearn checkpoint" or (not os.path.exists(file) and bool(checkpoint_files(file)))


def _described(model: Any, top: int) -> dict[str, Any]:
    """Describe a model for JSON."""
    from aidlearn.estimators.fits import feature_names, fits_of
    from aidlearn.files.checks import NOT_SAVED

    out = summary(model)
    out["parameters"] = {name: v for name, v in model.get_params().items() if name not in NOT_SAVED}
    out["training"] = getattr(model, "training_", None)
    out["classes"] = getattr(model, "classes_", None)
    names = feature_names(model)
    for entry, fit in zip(out["fits"], fits_of(model), strict=True):
        entry["intercept"] = fit.intercept
        if fit.coef is not None:
            entry["coefficients"] = [{"name": names[k], "value": fit.coef[k]} for k in _largest(model, fit.coef, top)]
    if hasattr(model, "support_") and not hasattr(model, "coef_"):
        out["n_support"] = len(model.support_)
    return out


def _about(model: Any) -> list[tuple[str, Any]]:
    training, usual = training_of(model), type(model)().get_params()
    own = {name: v for name, v in model.get_params().items() if name not in ENGINE}
    changed = ", ".join(f"{name}={v}" for name, v in own.items() if v != usual[name])
    rows: list[tuple[str, Any]] = []
    if "data" in training:
        rows.append(("data", f"{training['data']}, {count(training['rows'])} rows"))
        if training.get("target") not in (None, "None"):
            rows.append(("target", str(training["target"])))
    rows.append(("features", count(model.n_features_in_)))
    rows += factor_rows(model)
    if hasattr(model, "classes_"):
        listed = [str(label) for label in model.classes_]
        rows.append(("classes", ", ".join(listed[:12]) + (f" and {len(listed) - 12} more" if listed[12:] else "")))
    rows.append(("options", changed or "defaults"))
    return rows


def _largest(model: Any, coef: Any, top: int) -> list[int]:
    """Return the positions of the coefficients by decreasing size; levels of a factor stay together."""
    import numpy as np

    from aidlearn.estimators.fits import by_size

    order = by_size(model, np.abs(np.asarray(coef)))
    return order[:top] if top else order


def _show_coefficients(model: Any, top: int) -> None:
    import numpy as np

    from aidlearn.estimators.fits import feature_names, fits_of

    fits = fits_of(model)
    if fits[0].coef is None:
        n_support = f", {count(len(model.support_))} support vectors" if hasattr(model, "support_") else ""
        console().print(Text(f"  kernel machine{n_support}", style="dim"))
        return
    slopes = np.array([fit.coef for fit in fits])
    chosen = _largest(model, np.abs(slopes).max(axis=0), top)
    names = feature_names(model)
    table = number_table("  coefficient", *(fit.name or "value" for fit in fits))
    columns = [aligned([fit.intercept, *coef[chosen]]) for fit, coef in zip(fits, slopes, strict=True)]
    for name, *cells in zip(["(intercept)", *(names[k] for k in chosen)], *columns, strict=True):
        table.add_row(Text(f"  {name}"), *cells)
    console().print(table)
    left = len(names) - len(chosen)
    if left:
        console().print(Text(f"  and {count(left)} smaller ones; --top 0 shows all", style="dim"))


def _checkpoint(file: str, json: bool) -> None:
    files = checkpoint_files(file)
    found = read_checkpoints(files)
    for one in found:
        if one.damaged is not None:
            warnings.warn(f"{one.damaged} Shown is its predecessor {one.path}.", stacklevel=2)
    origin = found[0].origin
    recipe = origin.recipe or {}
    source = recipe.get("source") or {}
    name = recipe.get("estimator") or origin.fingerprint.get("model", "a fit")
    resumable = bool(source) and source.get("path") != STDIN
    fits = [_progress(one.snapshot) for one in found]
    if json:
        listed = [{"file": str(path), **fit} for path, fit in zip(files, fits, strict=True)]
        about = {"file": file, "checkpoint_of": name, "recipe": origin.recipe, "resumable": resumable}
        write_json({**about, "fits": listed})
        return
    rows: list[tuple[str, Any]] = [("data", str(source.get("path", "arrays of a Python program")))]
    for path, fit in zip(files, fits, strict=True):
        label = path.name if len(files) > 1 else "so far"
        if "n_done" in fit:
            worst = "" if fit["worst_gap"] is None else f", worst gap {gap_text(fit['worst_gap'])}"
            of = "" if fit["n_members"] is None else f" of {count(fit['n_members'])}"
            rows.append((label, f"{count(fit['n_done'])}{of} fits{worst}, {duration(fit['seconds'])}"))
            continue
        low, high = enclosing(fit["lower_bound"], fit["objective"])
        proven = f"optimum {low} to {high}, gap {gap_text(fit['gap'])}"
        rows.append((label, proven if fit["n_iter"] else "no bound yet"))
        rows.append(("", f"{count(fit['n_iter'])} iterations, {duration(fit['seconds'])}"))
    alone = files == [Path(file)] and files[0].suffix != ".batch"
    base = Path(file) if alone else Path(file).with_name(files[0].name.rpartition(".")[0])
    again = "run the same fit again with the same checkpoint"
    rows.append(("continue", f"aidlearn resume {base} -o MODEL" if resumable else again))
    show_facts(f"Checkpoint of {name}: {file}", rows)


def _progress(snapshot: Snapshot) -> dict[str, Any]:
    """Return the progress of a fit or of a batch of fits."""
    from aidlearn.engine.result import relative_gap

    found: dict[str, Any]
    if "numbers" not in snapshot.arrays:
        low, high = snapshot.lower_bound, float("inf") if snapshot.objective is None else snapshot.objective
        found = {"n_iter": len(snapshot.history), "objective": high, "lower_bound": low, "gap": relative_gap(high, low)}
        return {**found, "seconds": snapshot.seconds}
    gaps = [relative_gap(float(high), float(low)) for high, low in snapshot.arrays["values"]]
    # Checkpoints of earlier versions do not record the number of members.
    n_members = int(snapshot.arrays["members"][0]) if "members" in snapshot.arrays else None
    found = {"n_done": len(gaps), "n_members": n_members, "worst_gap": max(gaps, default=None)}
    return {**found, "seconds": snapshot.seconds}
