"""The sections of a report. Text from data or users is escaped here."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from html import escape
from inspect import signature
from typing import Any

import numpy as np

from aidlearn.engine.result import Iteration, Status
from aidlearn.estimators.fits import Fit, by_size, certificate, factor_words, feature_names, percent, precise
from aidlearn.estimators.registry import model_of, one_against_one
from aidlearn.files.checks import NOT_SAVED
from aidlearn.files.models import environment_of
from aidlearn.report.charts import CANVAS, scatter
from aidlearn.report.course import bounds, gaps, rates, short
from aidlearn.report.html import SETTINGS, bar, card, drawn_table, hint, table
from aidlearn.trace import sample

STATUS = {
    Status.optimal: "optimal",
    Status.gap: "within the tolerance",
    Status.one_region: "local optimum",
    Status.certified: "certified global optimum",
    Status.iteration_limit: "stopped at the iteration limit",
    Status.time_limit: "stopped at the time limit",
    Status.memory_limit: "stopped at the memory limit",
    Status.interrupted: "interrupted",
    Status.numerical: "limit of floating-point precision",
}


def title(model: Any, fits: list[Fit]) -> str:
    return f"{type(model).__name__}: gap {percent(max(fit.gap for fit in fits))}"


def subtitle(model: Any, fits: list[Fit]) -> str:
    size = f"{_rows(model, fits):,} rows, {model.n_features_in_:,} feature{'' if model.n_features_in_ == 1 else 's'}"
    several = f", {len(fits)} models" if len(fits) > 1 else ""
    return f"{size}{several}; a certified fit of aidlearn"


def _rows(model: Any, fits: list[Fit]) -> int:
    """Return the number of rows; in one-against-one machines a row takes part in every pair with its class."""
    if getattr(model, "shape_fit_", (0,))[0]:
        return int(model.shape_fit_[0])
    rows = [fit.n_clusters / fit.aggregation_rate for fit in fits]
    declared = model_of(model)
    pairs = len(fits) > 1 and declared is not None and declared.fit_names is one_against_one
    return round(sum(rows) / (len(model.classes_) - 1) if pairs else max(rows))


def overview(fits: list[Fit]) -> str:
    """Return a table of all certificates, if there are several models."""
    if len(fits) == 1:
        return ""
    worst = max(fits, key=lambda fit: fit.gap)
    words = f"The largest gap of the {len(fits)} models is {percent(worst.gap)} ({worst.name})."
    rows = []
    for fit in fits:
        values = precise(fit.objective, fit.lower_bound)
        numbers = [percent(fit.gap), *values, str(len(fit.history)), f"{fit.n_clusters:,}"]
        rows.append([fit.name, STATUS[fit.status], *numbers])
    head = ["model", "status", "gap", "objective", "lower bound", "iterations", "clusters"]
    return f'<section class="card"><p class="claim">{escape(words)}</p>{table(head, rows)}</section>'


def proof(model: Any, fit: Fit) -> str:
    """Return the certificate in words and numbers."""
    claim, *rest = certificate(fit)
    declared = model_of(model)
    kernel = declared.certified_kernel(model) if declared else "exact"
    if kernel != "exact":
        rest.append(f"Objective and bound are those of an approximated kernel: {kernel}.")
    good = "good" if fit.status in (Status.optimal, Status.gap, Status.certified) else "partial"
    objective, bound = precise(fit.objective, fit.lower_bound)
    seconds = fit.history[-1].seconds if fit.history else math.nan
    numbers = [
        ("objective", objective),
        ("lower bound", bound if math.isfinite(fit.lower_bound) else "none"),
        ("certified gap", percent(fit.gap) if math.isfinite(fit.gap) else "none"),
        ("iterations", str(len(fit.history))),
        ("clusters", f"{fit.n_clusters:,}"),
        ("clusters / rows", percent(fit.aggregation_rate)),
        ("time", "" if math.isnan(seconds) else f"{seconds:.3g} s"),
    ]
    cells = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in numbers if value)
    more = "".join(f"<p>{escape(sentence)}</p>" for sentence in rest)
    status = escape(STATUS[fit.status])
    return (
        f'<section class="card proof"><p><span class="badge {good}">{status}</span></p>'
        f'<p class="claim">{escape(claim)}</p>{more}<dl class="numbers">{cells}</dl></section>'
    )


def plots(model: Any, fit: Fit) -> str:
    """Draw bounds, gap, aggregation rates and sizes of clusters."""
    if not fit.history:
        return '<section class="card"><p>The fit was interrupted during its first iteration.</p></section>'
    charts = [bounds(fit), gaps(fit, model.tol), rates(fit), _sizes(fit)]
    return f'<section class="card charts">{"".join(charts)}</section>'


def _sizes(fit: Fit) -> str:
    if fit.cluster_sizes is None or fit.cluster_distances is None:
        return ""
    shown = sample(fit.cluster_sizes, fit.cluster_distances, SETTINGS.clusters)
    x, y = fit.cluster_distances[shown].tolist(), fit.cluster_sizes[shown].tolist()
    note = f" ({len(shown):,} of {fit.n_clusters:,})" if len(shown) < fit.n_clusters else ""
    name = f"Rows of each final cluster{note}"
    chart = CANVAS.chart(name, "distance of its mean from the nearest kink", "rows", x, y, log=True, y_text=short)
    return scatter(chart, x, y, "a")


def coefficients(model: Any, fit: Fit) -> str:
    """List coefficients by name, the largest first, or count the support vectors of a kernel machine."""
    if fit.coef is None:
        count = getattr(model, "support_", None)
        words = f"{len(count):,} support vectors" if count is not None else "a kernel machine"
        text = f"{words.capitalize()}, kernel {getattr(model, 'kernel', '')!r}, intercept {fit.intercept:.6g}."
        return card("Machine", f"<p>{escape(text)}</p>")
    names = feature_names(model)
    order = by_size(model, np.abs(fit.coef))
    largest = float(np.abs(fit.coef).max(initial=0.0)) or 1.0
    shown = [(names[k], float(fit.coef[k])) for k in order[: SETTINGS.coefficients]]
    rows = [(name, f"{value:.6g}", bar("b" if value < 0 else "a", abs(value) / largest)) for name, value in shown]
    left = len(order) - len(rows)
    rest = hint(f"and {left:,} smaller ones") if left else ""
    return card("Coefficients", f"<p>Intercept {fit.intercept:.6g}.</p>", drawn_table(rows, "bars"), rest)


def iterations(fit: Fit) -> str:
    """Return a table with one row per iteration."""
    if not fit.history:
        return ""
    head = ["iteration", "clusters", "of the rows", "split next", "bound", "objective", "best bound", "best objective"]
    head += ["gap", "seconds"]
    records, half = fit.history, SETTINGS.iterations // 2
    gone = len(records) - SETTINGS.iterations
    rows = [_row(record) for record in (records if gone <= 0 else [*records[:half], *records[-half:]])]
    if gone > 0:
        rows.insert(half, [f"({gone:,} more)"] + [""] * (len(head) - 1))
    return card("Iterations", table(head, rows))


def _row(record: Iteration) -> list[str]:
    values = [record.lower_bound, record.objective, record.best_lower_bound, record.best_objective]
    return [
        str(record.iteration),
        f"{record.n_clusters:,}",
        percent(record.aggregation_rate),
        f"{record.n_violated:,}",
        *[f"{value:.9g}" if math.isfinite(value) else "none" for value in values],
        percent(record.gap),
        f"{record.seconds:.3f}",
    ]


def facts(model: Any, fits: list[Fit]) -> str:
    """Return tables of data, parameters and environment."""
    data: list[tuple[str, str]] = [("rows", f"{_rows(model, fits):,}"), ("features", f"{model.n_features_in_:,}")]
    if hasattr(model, "classes_"):
        data.append(("classes", ", ".join(str(label) for label in model.classes_[:20])))
    if factor_words(model):
        data.append(("factors", factor_words(model)))
    data.append(("passes over the data", f"{model.n_passes_:,}"))
    given = getattr(model, "training_", None) or {}
    known = ("rows", "features", "summaries")  # standard errors have a section of their own
    data += [(str(key), text) for key, value in given.items() if key not in known and (text := _value(value, ""))]
    usual = {name: parameter.default for name, parameter in signature(type(model)).parameters.items()}
    parameters = [(name, _value(v)) for name, v in model.get_params(deep=False).items() if name not in NOT_SAVED]
    changed = {name for name, text in parameters if text != _value(usual.get(name))}
    return (
        f'<section class="card facts"><div><h3>Data and training</h3>{_pairs(data)}</div>'
        f"<div><h3>Parameters</h3>{_pairs(parameters, changed)}{hint('Bold: not the default.')}</div>"
        f"<div><h3>Environment</h3>{_pairs(environment_of(model).items())}</div></section>"
    )


def _pairs(rows: Iterable[tuple[str, str]], bold: Collection[str] = ()) -> str:
    cells = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td{" class=changed" if name in bold else ""}>{escape(text)}</td></tr>'
        for name, text in rows
    )
    return f'<table class="pairs"><tbody>{cells}</tbody></table>'


def _value(value: Any, nothing: str = "None") -> str:
    """Return a parameter or fact as text, without memory addresses."""
    if value is None:
        return nothing
    if isinstance(value, np.ndarray) and value.size > 12:
        return f"array of {' x '.join(map(str, value.shape))}"
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_value(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        shown = ", ".join(_value(item) for item in value[:20])
        return f"{shown}, and {len(value) - 20:,} more" if len(value) > 20 else shown
    if isinstance(value, (bool, int, float)):
        return f"{value:.6g}" if isinstance(value, float) else str(value)
    if isinstance(value, str):
        return value
    name = getattr(value, "__name__", "") if callable(value) else ""
    return f"function {name}" if name else type(value).__name__
