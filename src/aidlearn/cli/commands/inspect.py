"""``aidlearn inspect FILE``: what a model or a checkpoint is, and what it proves."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from aidlearn.cli.commands.statistics import show_summaries, summaries_of
from aidlearn.cli.errors import reported
from aidlearn.cli.models import checkpoint_files, kind_of_file, open_model, read_checkpoints
from aidlearn.cli.options import Debug, Json
from aidlearn.cli.outputs import write_json
from aidlearn.cli.run import certificate_rows, factor_rows, iterations, summary
from aidlearn.cli.words import aligned, console, count, duration, enclosing, facts, gap_text

if TYPE_CHECKING:
    from aidlearn.engine.checkpoint import Snapshot

ENGINE = ("tol", "max_iter", "time_limit", "n_jobs", "verbose", "callbacks", "checkpoint", "random_state")
"""Parameters that affect the fit but not the model."""


@reported
def inspect(
    file: Annotated[str, typer.Argument(metavar="FILE", show_default=False, help="A model or a checkpoint.")],
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
        write_json({"file": file, **described(model, top)})
        return
    screen = console()
    screen.print(Text(f"{type(model).__name__}: {file}", style="bold"))
    screen.print(facts(_about(model) + certificate_rows(model) + _effort(model)))
    summaries = summaries_of(model)
    if summaries:
        show_summaries(summaries)
    else:
        screen.print(*_coefficients(model, top), sep="\n")


def _is_checkpoint(file: str) -> bool:
    """Whether a file is a checkpoint, or is damaged or missing while its predecessor is still there."""
    from aidlearn.engine.checkpoint import one_before

    kind = kind_of_file(file) or kind_of_file(str(one_before(Path(file))))
    return kind == "aidlearn checkpoint" or (not os.path.exists(file) and bool(checkpoint_files(file)))


def described(model: Any, top: int) -> dict[str, Any]:
    """Description of a model for JSON."""
    from aidlearn.estimators.fits import feature_names, fits_of
    from aidlearn.files.models import NOT_SAVED

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
    training = getattr(model, "training_", None) or {}
    own = {name: v for name, v in model.get_params().items() if name not in ENGINE}
    changed = ", ".join(f"{name}={v}" for name, v in own.items() if v != _default(model, name))
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


def _default(model: Any, name: str) -> Any:
    return type(model)().get_params()[name]


def _effort(model: Any) -> list[tuple[str, Any]]:
    from aidlearn.estimators.fits import fits_of

    seconds = (getattr(model, "training_", None) or {}).get("seconds")
    spent = "" if seconds is None else f"{duration(seconds)}, "
    return [("time", f"{spent}{iterations(fits_of(model))}, {count(model.n_passes_)} passes")]


def _largest(model: Any, coef: Any, top: int) -> list[int]:
    """Positions of the coefficients by decreasing size; levels of a factor stay together."""
    import numpy as np

    from aidlearn.estimators.fits import by_size

    order = by_size(model, np.abs(np.asarray(coef)))
    return order[:top] if top else order


def _coefficients(model: Any, top: int) -> list[Any]:
    import numpy as np

    from aidlearn.estimators.fits import feature_names, fits_of

    fits = fits_of(model)
    if fits[0].coef is None:
        n_support = f", {count(len(model.support_))} support vectors" if hasattr(model, "support_") else ""
        return [Text(f"  kernel machine{n_support}", style="dim")]
    names = feature_names(model)
    slopes = [fit.coef for fit in fits if fit.coef is not None]
    chosen = _largest(model, np.max(np.abs(slopes), axis=0), top)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("  coefficient", overflow="fold")
    for fit in fits:
        table.add_column(fit.name or "value", justify="right", no_wrap=True)
    columns = [
        aligned([fit.intercept, *(float(coef[k]) for k in chosen)]) for fit, coef in zip(fits, slopes, strict=True)
    ]
    for name, *cells in zip(["(intercept)", *(names[k] for k in chosen)], *columns, strict=True):
        table.add_row(Text(f"  {name}"), *cells)
    left = len(names) - len(chosen)
    return [table, *([Text(f"  and {count(left)} smaller ones; --top 0 shows all", style="dim")] if left else [])]


def _checkpoint(file: str, json: bool) -> None:
    from aidlearn.engine.result import relative_gap

    files = checkpoint_files(file)
    found = read_checkpoints(files)
    snapshots, origin = [one.snapshot for one in found], found[0].origin
    for one in found:
        if one.damaged is not None:
            warnings.warn(f"{one.damaged} Shown is its predecessor {one.path}.", stacklevel=2)
    recipe = origin.recipe or {}
    source = recipe.get("source") or {}
    best = [(s.lower_bound, float("inf") if s.objective is None else s.objective) for s in snapshots]
    name = recipe.get("estimator") or origin.fingerprint.get("model", "a fit")
    resumable = bool(source) and source.get("path") != "-"
    if json:
        entries = [
            {"file": str(path), **_of_batch(s), "seconds": s.seconds}
            if _of_batch(s)
            else {
                "file": str(path),
                "n_iter": len(s.history),
                "objective": high,
                "lower_bound": low,
                "gap": relative_gap(high, low) if s.objective is not None else None,
                "seconds": s.seconds,
            }
            for path, s, (low, high) in zip(files, snapshots, best, strict=True)
        ]
        write_json(
            {"file": file, "checkpoint_of": name, "recipe": origin.recipe, "resumable": resumable, "fits": entries}
        )
        return
    screen = console()
    screen.print(Text(f"Checkpoint of {name}: {file}", style="bold"))
    rows: list[tuple[str, Any]] = [("data", str(source.get("path", "arrays of a Python program")))]
    for path, s, (low, high) in zip(files, snapshots, best, strict=True):
        batch = _of_batch(s)
        if batch:
            worst = "" if batch["worst_gap"] is None else f", worst gap {gap_text(batch['worst_gap'])}"
            of = "" if batch["n_members"] is None else f" of {count(batch['n_members'])}"
            done = f"{count(batch['n_done'])}{of} fits{worst}"
            rows.append((path.name if len(files) > 1 else "so far", f"{done}, {duration(s.seconds)}"))
            continue
        low_text, high_text = enclosing(low, high)
        proven = f"optimum {low_text} to {high_text}, gap {gap_text(relative_gap(high, low))}"
        rows.append((path.name if len(files) > 1 else "so far", proven if s.history else "no bound yet"))
        rows.append(("", f"{count(len(s.history))} iterations, {duration(s.seconds)}"))
    alone = len(files) == 1 and files[0] == Path(file) and files[0].suffix != ".batch"
    base = str(Path(file)) if alone else str(Path(file).with_name(_base_name(files)))
    how = f"aidlearn resume {base} -o MODEL"
    if not resumable:
        how = "run the same fit again with the same checkpoint"
    rows.append(("continue", how))
    screen.print(facts(rows))


def _of_batch(snapshot: Snapshot) -> dict[str, Any]:
    """Progress of a batch; empty for a checkpoint of a single fit."""
    if "numbers" not in snapshot.arrays:
        return {}
    from aidlearn.engine.result import relative_gap

    gaps = [relative_gap(float(high), float(low)) for high, low in snapshot.arrays["values"]]
    # Checkpoints of earlier versions do not record the number of members.
    n_members = int(snapshot.arrays["members"][0]) if "members" in snapshot.arrays else None
    return {"n_done": len(gaps), "n_members": n_members, "worst_gap": max(gaps, default=None)}


def _base_name(files: list[Path]) -> str:
    return files[0].name.rpartition(".")[0]
