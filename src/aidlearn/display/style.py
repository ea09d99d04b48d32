"""Axes, colours safe for colour-blind readers, and a plain style for all plots."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    AnyAxes = Axes | Sequence[Axes] | NDArray[np.object_] | None

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5C00", "#5F6B7A")
"""Palette of Okabe and Ito without black and yellow."""
LINES = ("-", "--", ":", "-.")
INK = "#5F6B7A"
SMALLEST_GAP = 1e-16
"""Smallest gap on a logarithmic axis; smaller gaps are drawn at this value."""
LARGE_RANGE = 20.0
"""Ratio of largest to smallest value above which an axis is logarithmic. Guess."""
RATES = (("aggregation_rate", "all clusters"), ("near_rate", "near the hyperplane"), ("far_rate", "far from it"))
"""Aggregation rates of an iteration, and the clusters they count."""


def pyplot() -> ModuleType:
    """Return matplotlib.pyplot, or raise an ImportError that says how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError('Plots need matplotlib: pip install "aidlearn[plot]".') from None
    return plt


def axes_for(ax: AnyAxes, number: int) -> list[Axes]:
    """Return ``number`` axes: those given, parts of a single given one, or new ones."""
    plt = pyplot()
    if ax is None:
        _, found = plt.subplots(1, number, figsize=(5.2 * number, 3.6), layout="constrained", squeeze=False)
        return list(found[0])
    if isinstance(ax, (Sequence, np.ndarray)):
        given = list(np.asarray(ax, dtype=object).ravel())
        if len(given) != number:
            raise ValueError(f"ax must hold {number} axes for this plot, got {len(given)}.")
        return given
    if number == 1:
        return [ax]
    grid = ax.get_subplotspec()
    if grid is None:
        raise ValueError(f"This plot needs {number} axes: pass a list of them, or one made by plt.subplots.")
    ax.set_axis_off()
    inner = grid.subgridspec(1, number, wspace=0.35)
    return [ax.figure.add_subplot(inner[k]) for k in range(number)]


def tidy(ax: Axes, xlabel: str, ylabel: str, title: str = "") -> None:
    """Set labels and a light grid, and hide the frame at the right and at the top."""
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    if title:
        ax.set_title(title, fontsize="medium", loc="left")
    ax.grid(True, color=INK, alpha=0.18, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(INK)
    ax.tick_params(colors=INK)


def whole_numbers(ax: Axes) -> None:
    """Put ticks at whole numbers, and leave room on both sides of a single iteration."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    low, high = ax.get_xlim()
    if high - low < 1:
        middle = round((low + high) / 2)
        ax.set_xlim(middle - 0.5, middle + 0.5)


def percentages(axis: Axis) -> None:
    """Write ticks as percentages."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.3g}%"))
    axis.set_minor_formatter(NullFormatter())


def legend(ax: Axes, **options: Any) -> None:
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        columns = 1 if len(handles) < 7 else 2
        ax.legend(handles, labels, frameon=False, fontsize="small", ncols=columns, **options)
