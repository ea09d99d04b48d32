"""What the plots share: axes, colours that colour-blind people can tell apart, and a quiet look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aidlearn.estimators.fits import Fit

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5C00", "#5F6B7A")
"""Okabe and Ito's, without black and yellow."""
LINES = ("-", "--", ":", "-.")
INK = "#5F6B7A"
SMALLEST_GAP = 1e-16
"""Where a gap of 0 is drawn on a logarithmic axis."""
LARGE_RANGE = 20.0
"""Ratio of values from which on an axis is logarithmic."""
RATES = (("aggregation_rate", "all clusters"), ("near_rate", "near the hyperplane"), ("far_rate", "far from it"))
"""Aggregation rates of an iteration, and which clusters they are of."""


def pyplot() -> Any:
    """matplotlib's interface, or one sentence on how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError('Plots need matplotlib: pip install "aidlearn[plot]".') from None
    return plt


def check_kind(kind: str, kinds: Sequence[str]) -> None:
    """A ValueError unless a plot has this kind."""
    if kind not in kinds:
        raise ValueError(f"kind must be one of {', '.join(map(repr, kinds))}, got {kind!r}.")


def check_iterations(fits: Sequence[Fit]) -> None:
    """A ValueError unless a fit has an iteration to draw."""
    if not any(fit.history for fit in fits):
        raise ValueError("The fit has no iteration to draw: it was interrupted before its first one ended.")


def axes_for(ax: Any, number: int) -> Any:
    """One axes or an array of them: new ones, those given, or parts of the one given."""
    plt = pyplot()
    if ax is None:
        _, found = plt.subplots(1, number, figsize=(5.2 * number, 3.6), layout="constrained", squeeze=False)
        return found[0] if number > 1 else found[0, 0]
    if number == 1:
        return ax
    if isinstance(ax, (Sequence, np.ndarray)):
        given = np.asarray(ax, dtype=object).ravel()
        if len(given) != number:
            raise ValueError(f"ax must hold {number} axes for this plot, got {len(given)}.")
        return given
    grid = ax.get_subplotspec()
    if grid is None:
        raise ValueError(f"This plot needs {number} axes: pass a list of them, or one that plt.subplots made.")
    ax.set_axis_off()
    inner = grid.subgridspec(1, number, wspace=0.35)
    return np.array([ax.figure.add_subplot(inner[k]) for k in range(number)], dtype=object)


def draw_parts(ax: Any, parts: Sequence[Callable[[Any], None]]) -> tuple[Any, Any]:
    """Draw each part on axes of its own, given or new; the axes (an array of several) and their figure."""
    found = axes_for(ax, len(parts))
    axes = [found] if len(parts) == 1 else list(found)
    for draw, where in zip(parts, axes, strict=True):
        draw(where)
    return found, axes[0].figure


def tidy(ax: Any, xlabel: str, ylabel: str, title: str = "") -> None:
    """Labels, a light grid and no frame on the right and on top."""
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    if title:
        ax.set_title(title, fontsize="medium", loc="left")
    ax.grid(True, color=INK, alpha=0.18, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(INK)
    ax.tick_params(colors=INK)


def whole_numbers(ax: Any) -> None:
    """Ticks of iterations; a single one has room on both sides."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    low, high = ax.get_xlim()
    if high - low < 1:
        middle = round((low + high) / 2)
        ax.set_xlim(middle - 0.5, middle + 0.5)


def percentages(axis: Any) -> None:
    """Ticks of parts, written as percentages."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.3g}%"))
    axis.set_minor_formatter(NullFormatter())


def legend(ax: Any, **options: Any) -> None:
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        columns = 1 if len(handles) < 7 else 2
        ax.legend(handles, labels, frameon=False, fontsize="small", ncols=columns, **options)
