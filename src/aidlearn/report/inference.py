"""Standard errors in a report: the summaries saved with the model, their intervals, and bands over quantiles."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from aidlearn.inference.summary import Summary
from aidlearn.report.charts import CANVAS, Series, lines
from aidlearn.report.html import SETTINGS, card, drawn_table, hint

WIDTH, HEIGHT = 260, 14
"""Size of the drawing of an interval in pixels."""


def summaries_in(facts: Mapping[str, Any] | None) -> list[Summary]:
    """Return the summaries among the facts saved with a model."""
    return [Summary.from_dict(content) for content in (facts or {}).get("summaries", [])]


def standard_errors(model: Any, number: int) -> str:
    """Return the summary of one fit and a drawing of its intervals."""
    found = summaries_in(getattr(model, "training_", None))
    if number >= len(found):
        return ""
    summary = found[number]
    return card("Standard errors", f'<div class="wide">{summary.to_html()}</div>', _intervals(summary))


def _intervals(summary: Summary) -> str:
    """Draw the intervals of the slopes with the largest statistics, each on its own scale."""
    slopes = [k for k, name in enumerate(summary.names) if name != "(intercept)"]
    chosen = sorted(slopes, key=lambda k: -abs(summary.statistics[k]))[: SETTINGS.intervals]
    if not chosen:
        return ""
    rows = []
    for k in chosen:
        low, high = float(summary.lower[k]), float(summary.upper[k])
        ends = min(low, 0.0), max(high, 0.0)
        room = (ends[1] - ends[0]) or 1.0
        x = [4 + (WIDTH - 8) * (value - ends[0]) / room for value in (0.0, low, high, float(summary.coefficients[k]))]
        middle = HEIGHT / 2
        mark = "b" if summary.coefficients[k] < 0 else "a"
        drawn = (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
            f'aria-label="{low:.4g} to {high:.4g}"><path class="axis" d="M{x[0]:.1f} 0V{HEIGHT}"/>'
            f'<path class="line {mark}" d="M{x[1]:.1f} {middle}H{x[2]:.1f}"/>'
            f'<circle class="dot {mark}" cx="{x[3]:.1f}" cy="{middle}" r="3.2"/></svg>'
        )
        rows.append((summary.names[k], f"{low:.5g} to {high:.5g}", drawn))
    words = f"{100 * (1 - summary.alpha):g}% intervals. The vertical line is zero; each row has its own scale."
    return f"<h3>Confidence intervals</h3><p>{words}</p>{drawn_table(rows)}{_left_out(len(slopes) - len(chosen))}"


def _left_out(number: int) -> str:
    return hint(f"and {number:,} more with smaller statistics") if number else ""


def bands(model: Any) -> str:
    """Draw the coefficients over the quantiles with confidence bands, if there are several quantiles."""
    found = sorted(summaries_in(getattr(model, "training_", None)), key=lambda summary: summary.quantile)
    if len(found) < 2 or any(summary.names != found[0].names for summary in found):
        return ""
    largest = np.max([np.abs(summary.statistics) for summary in found], axis=0)
    slopes = [k for k, name in enumerate(found[0].names) if name != "(intercept)"]
    chosen = [k for k, name in enumerate(found[0].names) if name == "(intercept)"]
    chosen += sorted(slopes, key=lambda k: -largest[k])[: SETTINGS.bands - len(chosen)]
    charts = "".join(_band(found, k) for k in sorted(chosen))
    words = f"{100 * (1 - found[0].alpha):g}% confidence bands, standard errors by {found[0].se!r}."
    left_out = _left_out(len(found[0].names) - len(chosen))
    return card(
        "Coefficients over quantiles", f"<p>{escape(words)}</p>", f'<div class="charts">{charts}</div>', left_out
    )


def _band(found: list[Summary], k: int) -> str:
    x = [summary.quantile for summary in found]
    parts = [[float(getattr(s, name)[k]) for s in found] for name in ("lower", "upper", "coefficients")]
    lower, upper, middle = parts
    tips = [
        f"quantile {q:g}: {value:.5g} ({low:.5g} to {high:.5g})" for q, low, high, value in zip(x, *parts, strict=True)
    ]
    chart = CANVAS.chart(found[0].names[k], "quantile", "coefficient", x, [*lower, *upper])
    ends = [Series("", "a", x, end, dashed=True) for end in (lower, upper)]
    return lines(chart, [*ends, Series("", "b", x, middle, tips)], band=True)
