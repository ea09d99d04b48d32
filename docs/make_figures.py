"""Draw the figures of the pages into docs/images: python docs/make_figures.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

IMAGES = Path(__file__).with_name("images")
BLUE, ORANGE, INK = "#0072B2", "#D55E00", "#444444"


def counter_example() -> None:
    """The two solutions of the page on theory: scores of rows and of cluster means, under the loss."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
    for ax, (w, b, name) in zip(axes, [(4 / 9, -1.0, "w = 4/9, b = -1"), (0.4, -4.0, "w = 0.4, b = -4")], strict=True):
        _draw_solution(ax, w, b)
        ax.set_title(f"{name}: objective {w**2 / 2:.4f}", loc="left", fontsize="medium")
    axes[0].set_ylabel("loss of an unlabelled row")
    figure.savefig(IMAGES / "counter-example.svg", metadata={"Date": None})
    plt.close(figure)


def _draw_solution(ax: Any, w: float, b: float) -> None:
    z = np.linspace(-4.6, 5, 500)
    ax.plot(z, np.maximum(0, 1 - np.abs(z)), color=INK, lw=1.2)
    ax.axvline(0, color=INK, lw=0.8, ls=":")
    for x, count in ((4.5, 20), (7.5, 3), (12.5, 1)):
        score = w * x + b
        ax.plot(score, max(0, 1 - abs(score)), "o", color=BLUE, ms=4 + 2 * np.sqrt(count), zorder=3)
        ax.annotate(f"{x:g} ({count}x)", (score, 0), (0, -24), textcoords="offset points", ha="center", color=BLUE)
    mean = w * 8.75 + b
    loss = max(0, 1 - abs(mean))
    ax.plot(mean, loss, "D", color=ORANGE, ms=8, zorder=4)
    words = f"mean 8.75 of the cluster\n{{7.5, 7.5, 7.5, 12.5}}: 4 x {loss:g}"
    ax.annotate(words, (mean, loss), (14, 22), textcoords="offset points", color=ORANGE)
    for x, sign in ((0, "-"), (12.5, "+")):
        ax.annotate(
            f"labelled {sign}",
            (w * x + b, 0),
            (0, -40),
            textcoords="offset points",
            ha="center",
            color=INK,
            fontsize="small",
        )
        ax.plot(w * x + b, 0, "|", color=INK, ms=16)
    ax.set(xlabel="score z = w x + b", ylim=(-0.52, 1.35), yticks=[0, 0.5, 1])
    ax.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    plt.rcParams["svg.hashsalt"] = "aidlearn"  # the same file from every run
    counter_example()
