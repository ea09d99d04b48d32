"""The clusters of each iteration around the hyperplane, for data that can be drawn in a plane.

All geometry is done here: the page gets pixels, and its script only switches between pictures.
"""

from __future__ import annotations

import json
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.estimators.fits import Fit, feature_names, percent
from aidlearn.report.charts import Axis, Canvas, legend
from aidlearn.trace import Frame

CANVAS = Canvas(height=350, left=72, top=22)
SMALLEST, LARGEST = 1.8, 17.0
"""Range of cluster radii in pixels; the area grows with the number of rows."""


def stepper(model: Any, fit: Fit, number: int) -> str:
    """Return the section with the pictures; it is empty if the fit has none."""
    frames = [frame for frame in fit.frames if len(frame.x)]
    if not frames:
        return ""
    classifies = bool(hasattr(model, "classes_"))
    names = feature_names(model)
    edge_on = not classifies and len(names) == 2
    x_label, y_label = (names[0], names[1]) if classifies else ("fitted value" if edge_on else names[0], "target")
    # Axes cover the cluster means of all iterations; fitted values of early iterations may lie outside.
    y = np.concatenate([frame.y for frame in frames])
    x = y if edge_on else np.concatenate([frame.x for frame in frames])
    chart = CANVAS.chart("", x_label, y_label, x.tolist(), y.tolist())
    across, up = chart.across, chart.up
    largest = max(int(frame.sizes.max()) for frame in frames)
    gaps = {record.iteration: record.gap for record in fit.history}
    pictures = [_picture(frame, across, up, largest, classifies, gaps.get(frame.iteration)) for frame in frames]
    data = json.dumps(pictures, separators=(",", ":")).replace("<", "\\u003c")
    clip = f"plane-{number}"
    hint = "Each circle is a cluster: its area grows with the number of rows, its centre is their mean. " + (
        "Filled circles have a loss; the others lie beyond their margin (dashed)."
        if classifies
        else "The hyperplane is shown edge-on: a circle on the line has residual 0."
        if edge_on
        else "Clusters cut by the line are split in the next iteration."
    )
    return f"""<section class="card stepper" tabindex="0" aria-label="Clusters by iteration">
<h3>Clusters split around the hyperplane</h3><p class="hint">{escape(hint)}</p>
<p class="legend">{_legend(model, frames, classifies)}</p>
<svg viewBox="0 0 {CANVAS.width} {CANVAS.height}" role="img" aria-label="Clusters and hyperplane">
<defs><clipPath id="{clip}"><rect x="{across.start}" y="{up.end}" width="{across.end - across.start}"
height="{up.start - up.end}"/></clipPath></defs>{chart.frame()}
<text class="name" x="8" y="{up.end - 4}">{escape(y_label)}</text>
<g clip-path="url(#{clip})" class="stage"></g></svg>
<p class="caption" aria-live="polite"></p>
<div class="controls"><button type="button" class="previous" aria-label="Previous iteration">&#9664;</button>
<button type="button" class="play">Play</button>
<button type="button" class="next" aria-label="Next iteration">&#9654;</button>
<input type="range" min="0" max="{len(pictures) - 1}" value="0" step="1" aria-label="Iteration"></div>
<script type="application/json" class="pictures">{data}</script>
<noscript><p class="hint">The pictures need JavaScript.</p></noscript></section>"""


def _picture(frame: Frame, across: Axis, up: Axis, largest: int, classifies: bool, gap: float | None) -> dict[str, Any]:
    radius = SMALLEST + (LARGEST - SMALLEST) * np.sqrt(np.maximum(frame.sizes - 1, 0) / max(1, largest - 1))
    order = np.argsort(-frame.sizes, kind="stable")  # small ones on top
    kinds = _kinds(frame, classifies)
    places = [(across(float(frame.x[k])), up(float(frame.y[k])), float(radius[k])) for k in order]
    circles = [[*(round(pixels, 1) for pixels in place), int(kinds[k])] for k, place in zip(order, places, strict=True)]
    shown = f", {len(frame.x):,} of them shown" if len(frame.x) < frame.n_clusters else ""
    proven = "" if gap is None else f", gap {percent(gap)}".replace(" %", "\u00a0%")
    return {
        "caption": f"Iteration {frame.iteration}: {frame.n_clusters:,} clusters{shown}{proven}",
        "circles": circles,
        "lines": [
            [*segment, int(k > 0)]
            for k, level in enumerate([0.0, *frame.levels.tolist()])
            if (segment := _segment(frame.line, level, across, up)) is not None
        ],
    }


def _kinds(frame: Frame, classifies: bool) -> NDArray[np.integer]:
    """Return class numbers of the style sheet: colour by label and fill by loss, or colour by region."""
    if not classifies:
        return frame.regions
    colour = np.select([frame.labels > 0, frame.labels < 0], [0, 1], 2)
    return 3 + 2 * colour + (frame.regions % 2 == 1)


def _segment(line: NDArray[np.float64], level: float, across: Axis, up: Axis) -> list[float] | None:
    """Return the ends of the line ``p x + q y + r = level`` in pixels, well outside the chart."""
    p, q, r = (float(value) for value in line)
    x_unit, y_unit = across.high - across.low, up.high - up.low
    if p == 0 and q == 0:
        return None
    if abs(p) * x_unit <= abs(q) * y_unit:
        x = [across.low - x_unit, across.high + x_unit]
        y = [(level - r - p * value) / q for value in x]
    else:
        y = [up.low - y_unit, up.high + y_unit]
        x = [(level - r - q * value) / p for value in y]
    ends = [across(x[0]), up(y[0]), across(x[1]), up(y[1])]
    return [round(end, 1) for end in ends] if np.isfinite(ends).all() and max(map(abs, ends)) < 1e6 else None


def _legend(model: Any, frames: list[Frame], classifies: bool) -> str:
    if classifies:
        names = [str(label) for label in model.classes_]
        several = len(names) > 2
        items = [("a", "the class" if several else names[1]), ("b", "the rest" if several else names[0])]
        items += [("c", "unlabelled")] if any((frame.labels == 0).any() for frame in frames) else []
    elif any(len(frame.levels) for frame in frames):
        items = [("a", "below the tube"), ("b", "in the tube"), ("c", "above the tube")]
    else:
        items = [("a", "below the line"), ("b", "above the line")]
    return legend((f"{mark} round", name) for mark, name in items)
