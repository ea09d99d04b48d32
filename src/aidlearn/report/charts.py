"""Charts as SVG. The style sheet of the page colours them, so they suit light and dark mode.

A mark names a class of the style sheet: ``a``, ``b`` and ``c`` are three colours safe for colour-blind readers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

import numpy as np

LONG = 1e7
"""Smallest number that tick labels write in scientific notation. Guess."""
TICKS = 5
ROOM = 0.06
"""Share of an axis that is free on each side of the values."""


@dataclass(frozen=True)
class Axis:
    """A map from values to pixels."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    @classmethod
    def over(cls, values: Iterable[float], start: float, end: float, log: bool = False) -> Axis:
        """Return an axis that covers all finite values."""
        found = np.asarray([v for v in values if math.isfinite(v) and (v > 0 or not log)], dtype=float)
        if log:
            found = np.log10(found)
        low, high = (float(found.min()), float(found.max())) if len(found) else (0.0, 1.0)
        room = ROOM * (high - low) or (0.5 if log else 0.5 * abs(low) or 0.5)
        return cls(low - room, high + room, start, end, log)

    def __call__(self, value: float) -> float:
        value = math.log10(value) if self.log else value
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, whole: bool = False) -> list[float]:
        if self.log:
            step = max(1, math.ceil((self.high - self.low) / TICKS))
            powers = range(math.floor(self.low), math.ceil(self.high) + 1)
            factors = (1, 2, 5) if self.high - self.low < 2 else (1,)
            values = [factor * 10.0**power for power in powers if power % step == 0 for factor in factors]
            chosen = [value for value in values if self.low <= math.log10(value) <= self.high]
            number = 3
            while len(chosen) < 2:
                chosen = [10.0**power for power in _round_numbers(self.low, self.high, number)]
                number *= 2
            return chosen
        return _round_numbers(self.low, self.high, TICKS, whole)


def _round_numbers(low: float, high: float, number: int, whole: bool = False) -> list[float]:
    raw = (high - low) / number
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * unit for factor in (1, 2, 2.5, 5, 10) if factor * unit >= raw * (1 - 1e-9))
    if whole:
        step = max(1.0, math.ceil(step))
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def written(ticks: Sequence[float]) -> list[str]:
    """Return labels of evenly spaced ticks, with as many digits as needed to distinguish them."""
    if len(ticks) == 0:
        return []
    size = max(abs(tick) for tick in ticks)
    step = min((b - a for a, b in pairwise(ticks)), default=size) or 1.0
    if size >= LONG or 0 < size < 1 / LONG:
        digits = max(0, math.floor(math.log10(size)) - math.floor(math.log10(step)) + 1)
        return [_shortened(f"{tick:.{digits}e}") for tick in ticks]
    places = next(p for p in range(16) if abs(step * 10.0**p - round(step * 10.0**p)) < 1e-6 or p == 15)
    texts = [f"{tick:,.{places}f}" for tick in ticks]
    return [text.rstrip("0").rstrip(".") if "." in text else text for text in texts]


def _shortened(text: str) -> str:
    mantissa, exponent = text.split("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return "0" if float(mantissa) == 0 else f"{mantissa}e{int(exponent)}"


@dataclass(frozen=True)
class Chart:
    """Title, axes and tick labels of a chart."""

    title: str
    x_label: str
    y_label: str
    across: Axis
    up: Axis
    y_text: Callable[[float], str] | None = None
    """Formatter of a tick; the default uses as many digits as needed to distinguish the ticks."""
    whole: bool = False

    def svg(self, inside: str, legend: str = "") -> str:
        """Return the chart as a figure; ``inside`` is the content of its axes."""
        label = escape(f"{self.title}: {self.y_label} over {self.x_label}")
        return (
            f'<figure class="chart"><figcaption>{escape(self.title)}{legend}</figcaption>'
            f'<svg viewBox="0 0 {CANVAS.width} {CANVAS.height}" role="img" aria-label="{label}">'
            f"{self.frame()}{inside}</svg></figure>"
        )

    def frame(self) -> str:
        """Return grid, ticks and labels."""
        x0, x1, y0, y1 = self.across.start, self.across.end, self.up.start, self.up.end
        parts = []
        ticks = self.across.ticks(self.whole)
        for value, text in zip(ticks, written(ticks), strict=True):
            x = self.across(value)
            parts.append(f'<path class="grid" d="M{x:.1f} {y0}V{y1}"/>')
            parts.append(f'<text x="{x:.1f}" y="{y0 + 16}" text-anchor="middle">{text}</text>')
        ticks = self.up.ticks()
        texts = written(ticks) if self.y_text is None else [escape(self.y_text(value)) for value in ticks]
        for value, text in zip(ticks, texts, strict=True):
            y = self.up(value)
            parts.append(f'<path class="grid" d="M{x0} {y:.1f}H{x1}"/>')
            parts.append(f'<text x="{x0 - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
        parts.append(f'<path class="axis" d="M{x0} {y1}V{y0}H{x1}"/>')
        middle = f"{(x0 + x1) / 2:.1f}"
        parts.append(
            f'<text class="name" x="{middle}" y="{y0 + 34}" text-anchor="middle">{escape(self.x_label)}</text>'
        )
        return "".join(parts)


@dataclass(frozen=True)
class Canvas:
    """Size and margins of a chart in pixels."""

    width: int = 460
    height: int = 300
    left: int = 68
    right: int = 14
    top: int = 14
    bottom: int = 44

    def chart(
        self,
        title: str,
        x_label: str,
        y_label: str,
        x: Iterable[float],
        y: Iterable[float],
        log: bool = False,
        y_text: Callable[[float], str] | None = None,
        whole: bool = False,
    ) -> Chart:
        """Return a chart whose axes cover all values; ``log`` makes the vertical one logarithmic."""
        across = Axis.over(x, self.left, self.width - self.right)
        up = Axis.over(y, self.height - self.bottom, self.top, log)
        return Chart(title, x_label, y_label, across, up, y_text, whole)


CANVAS = Canvas()
"""Canvas of all charts except the pictures of clusters."""


@dataclass(frozen=True)
class Series:
    """A line with points."""

    name: str
    mark: str
    x: Sequence[float]
    y: Sequence[float]
    tips: Sequence[str] = field(default_factory=list)
    dashed: bool = False


def lines(chart: Chart, series: Sequence[Series], band: bool = False, level: float | None = None) -> str:
    """Draw lines with points that show their values on hover; a band fills the space between the first two lines."""
    parts = []
    drawn = [_places(chart, one.x, one.y) for one in series]
    if band and drawn[0] and drawn[1]:
        edge = [*drawn[0].values(), *reversed(drawn[1].values())]
        parts.append(f'<path class="band" d="M{"L".join(edge)}Z"/>')
    items = [(one.mark + " dashed" * one.dashed, one.name) for one in series if one.name]
    if level is not None:
        y = f"{chart.up(level):.1f}"
        parts.append(f'<path class="level" d="M{chart.across.start} {y}H{chart.across.end}"/>')
        items.append(("level", f"tolerance {level:g}"))
    for one, places in zip(series, drawn, strict=True):
        if len(places) > 1:
            path = "L".join(places.values())
            parts.append(f'<path class="line {one.mark}{" dashed" * one.dashed}" d="M{path}"/>')
        for k, place in places.items():
            x, y = place.split()
            tip = f' data-tip="{escape(one.tips[k])}" tabindex="0"' if one.tips else ""
            parts.append(f'<circle class="dot {one.mark}" cx="{x}" cy="{y}" r="3.2"{tip}/>')
    return chart.svg("".join(parts), f'<span class="legend">{legend(items)}</span>')


def legend(items: Iterable[tuple[str, str]]) -> str:
    """Return a legend of marks and their names."""
    return "".join(f'<span class="key"><i class="{mark}"></i>{escape(name)}</span>' for mark, name in items)


def scatter(chart: Chart, x: Sequence[float], y: Sequence[float], mark: str) -> str:
    """Draw points without lines, as one path of round dots."""
    dots = "".join(f"M{place}h0" for place in _places(chart, x, y).values())
    return chart.svg(f'<path class="cloud {mark}" d="{dots}"/>')


def _places(chart: Chart, x: Sequence[float], y: Sequence[float]) -> dict[int, str]:
    """Return the pixels of the points that can be drawn, by index."""
    return {
        k: f"{chart.across(a):.1f} {chart.up(b):.1f}"
        for k, (a, b) in enumerate(zip(x, y, strict=True))
        if math.isfinite(a) and math.isfinite(b) and (b > 0 or not chart.up.log)
    }
