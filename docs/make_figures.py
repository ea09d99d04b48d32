"""Draw the figures of the pages into docs/images: python docs/make_figures.py.

Pictures of a report are taken by Chromium; without it they stay as they are.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from aidlearn import ClusterDisplay, ConvergenceDisplay, LADRegressor
from aidlearn.report import write_report

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


def plots() -> None:
    """The displays of a fit by the paper's procedure."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50_000, 5))
    model = LADRegressor(init="kmeans", tol=1e-6).fit(X, X @ [1.0, 2.0, 3.0, 4.0, 5.0] + rng.laplace(size=50_000))
    figure, axes = plt.subplots(2, 2, figsize=(10.4, 7.2), layout="constrained")
    ConvergenceDisplay.from_estimator(model, ax=axes[0])
    ClusterDisplay.from_estimator(model, ax=axes[1])
    figure.savefig(IMAGES / "plots.png", dpi=110)
    plt.close(figure)


def report() -> None:
    """A report as a browser shows it, of a fit of one iteration, on a desk and on a phone."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        return
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200_000, 10))
    model = LADRegressor().fit(X, X @ np.arange(10.0) + rng.laplace(size=200_000))
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
    options += ["--disable-background-networking", "--disable-component-update", "--hide-scrollbars"]
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "report.html")
        write_report(model, page)
        for name, size in (("report.png", "1100,1180"), ("report-phone.png", "500,1600")):
            target = [f"--window-size={size}", f"--screenshot={IMAGES / name}", page.as_uri()]
            command = [browser, *options, f"--user-data-dir={folder}/{name}", *target]
            subprocess.run(command, check=True, capture_output=True, timeout=120)


if __name__ == "__main__":
    plt.rcParams["svg.hashsalt"] = "aidlearn"  # the same file from every run
    counter_example()
    plots()
    report()
