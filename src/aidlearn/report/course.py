"""Charts of a fit: objective and bound, gap and clusters, over seconds or, if the start is unknown, iterations.

Most fits need one iteration. The charts then show the start: the objective on samples of growing size, then on all
rows in a few passes, and the single aggregated problem whose bound meets it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from aidlearn.display.style import LARGE_RANGE, RATES, SMALLEST_GAP
from aidlearn.engine.result import relative_gap
from aidlearn.estimators.fits import Fit, percent
from aidlearn.report.charts import CANVAS, Chart, Series, lines
from aidlearn.report.html import bar, drawn_table

SMALLEST_RANGE = 1e-5
"""Minimum range of the plot of bounds on each side of the objective, relative to the objective. Guess."""


def bounds(fit: Fit) -> str:
    """Draw the objective and the lower bound."""
    across = _across(fit)
    objective = [record.best_objective for record in fit.history]
    bound = [record.best_lower_bound for record in fit.history]
    on_all, on_samples = fit.steps_on_all, fit.steps_on_samples
    series = [
        Series(
            "objective, on all rows",
            "a",
            [step.seconds for step in on_all] + across,
            [step.objective for step in on_all] + objective,
            [f"pass {s.n_passes}: objective {s.objective:.9g}" for s in on_all] + _tips(fit, objective, "objective"),
        ),
        Series("proven lower bound", "b", across, bound, _tips(fit, bound, "bound"), dashed=True),
    ]
    if on_samples:
        tips = [f"sample of {step.n_rows:,} rows: about {step.objective:.6g}" for step in on_samples]
        x, y = [step.seconds for step in on_samples], [step.objective for step in on_samples]
        series.append(Series("on samples, an estimate", "c", x, y, tips))
    found = [value for one in series for value in one.y if math.isfinite(value)]
    log = min(found, default=0.0) > 0 and max(found) > LARGE_RANGE * min(found)
    # The plot of gaps shows smaller differences.
    room = [fit.objective * (1 - SMALLEST_RANGE), fit.objective * (1 + SMALLEST_RANGE)]
    chart = _chart(fit, "Objective and lower bound", "value", series, log, short if log else None, room)
    return lines(chart, series, band=not fit.start)


def gaps(fit: Fit, tol: float) -> str:
    """Draw the certified gap, and the distance of the start from the final bound."""
    tips = [f"iteration {record.iteration}: gap {percent(record.gap)}" for record in fit.history]
    certified = Series("certified gap", "a", _across(fit), [_shown(record.gap) for record in fit.history], tips)
    series = [certified]
    if fit.steps_on_all and math.isfinite(fit.lower_bound):
        above = [relative_gap(step.objective, fit.lower_bound) for step in fit.steps_on_all]
        steps = zip(fit.steps_on_all, above, strict=True)
        words = [f"pass {step.n_passes}: {percent(gap)} above the final bound" for step, gap in steps]
        x, y = [step.seconds for step in fit.steps_on_all], [_shown(gap) for gap in above]
        # The line of the start ends at the first certified gap, whose dot covers its end.
        ends = [*x, *certified.x[:1]], [*y, *certified.y[:1]], [*words, *tips[:1]]
        series.insert(0, Series("start: above the final bound", "c", *ends, dashed=True))
    shown = [*series, Series("", "", certified.x[:1], [tol])] if tol > 0 else series
    chart = _chart(fit, "Certified gap", "gap", shown, True, _power)
    return lines(chart, series, level=tol if tol > 0 else None)


def rates(fit: Fit) -> str:
    """Draw the aggregation rates of all, near and far clusters, or list them if there is one iteration."""
    x = [float(record.iteration) for record in fit.history]
    series = []
    for mark, (name, label) in zip("abc", RATES, strict=True):
        values = np.array([getattr(record, name) for record in fit.history], dtype=float).tolist()
        tips = [f"iteration {k:.0f}, {label}: {percent(rate)} of their rows" for k, rate in zip(x, values, strict=True)]
        if any(map(math.isfinite, values)):
            series.append(Series(label, mark, x, values, tips))
    if len(fit.history) == 1:
        return _figures(series)
    all_rates = [value for one in series for value in one.y]
    chart = CANVAS.chart("Clusters over rows", "iteration", "clusters / rows", x, all_rates, True, _percentage, True)
    return lines(chart, series)


def _figures(series: Sequence[Series]) -> str:
    largest = max((one.y[0] for one in series), default=1.0) or 1.0
    rows = [(one.name, percent(one.y[0]), bar(one.mark, one.y[0] / largest)) for one in series]
    table = drawn_table(rows, "bars")
    return f'<figure class="chart"><figcaption>Clusters over rows</figcaption>{table}</figure>'


def _across(fit: Fit) -> list[float]:
    """Return the positions of iterations: their time if the start is known, otherwise their number."""
    return [record.seconds if fit.start else float(record.iteration) for record in fit.history]


def _chart(
    fit: Fit,
    name: str,
    y_label: str,
    series: list[Series],
    log: bool,
    text: Callable[[float], str] | None,
    also: Sequence[float] = (),
) -> Chart:
    x = [value for one in series for value in one.x]
    y = [*also, *(value for one in series for value in one.y)]
    return CANVAS.chart(name, "seconds" if fit.start else "iteration", y_label, x, y, log, text, whole=not fit.start)


def _shown(gap: float) -> float:
    return max(gap, SMALLEST_GAP)


def _tips(fit: Fit, values: Sequence[float], name: str) -> list[str]:
    return [f"iteration {r.iteration}: {name} {v:.9g}" for r, v in zip(fit.history, values, strict=True)]


def short(value: float) -> str:
    """Return a short tick label."""
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.3g}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")
    return f"{value:,.6g}"


def _power(value: float) -> str:
    return f"{value:.0e}".replace("e+0", "e").replace("e-0", "e-")


def _percentage(value: float) -> str:
    return f"{100 * value:.3g}%"
