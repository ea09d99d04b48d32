"""The paper's four pictures of clusters splitting (Figures 1 to 4), drawn from runs of its procedure in the plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from aidlearn.data.passes.moments import inspect
from aidlearn.data.passes.run import Run
from aidlearn.data.rows.arrays import ArraySource
from aidlearn.display.style import COLOURS, INK, pyplot, tidy
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.loop import aid
from aidlearn.engine.problem import Problem, Solution
from aidlearn.engine.progress import Limits
from aidlearn.engine.result import Iteration
from aidlearn.linear.aggregated.solvers import SOLVERS
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import hinge, pinball
from aidlearn.linear.problem import PiecewiseLinear, Procedure
from aidlearn.linear.start.methods import from_labels
from aidlearn.semisupervised.problem import SemiSupervised, SemiSupervisedSettings
from aidlearn.semisupervised.start import from_labels as given_clusters
from benchmarks.harness.cells import Cell, Row
from benchmarks.paper import measured
from benchmarks.paper.experiment import Experiment, Options, done, markdown
from benchmarks.paper.pictures import save

PICTURES = ("lad", "svm", "s3vm")


@dataclass
class Kept:
    """Observer that keeps the clusters and the hyperplane of every iteration."""

    labels: list[Any]
    points: list[Any]
    records: list[Iteration]

    def __call__(self, clusters: Clusters, solution: Solution, record: Iteration) -> None:
        self.labels.append(clusters.labels().copy())
        self.points.append(np.array(solution.point))
        self.records.append(record)


def plane(name: str) -> tuple[Any, Any, Any]:
    """Draw rows in the plane, their targets (or labels; 0 means unlabelled), and small initial clusters."""
    rng = np.random.default_rng({"lad": 5, "svm": 4, "s3vm": 11}[name])
    if name == "lad":
        x = rng.uniform(0, 10, 33)
        y = 1.0 + 0.6 * x + rng.laplace(scale=1.2, size=33)
        return x[:, None], y, _neighbours(np.column_stack([x, y]), 5)
    if name == "svm":
        y = np.repeat([1.0, -1.0], 22)
        X = rng.normal(size=(44, 2)) * 1.15 + np.where(y[:, None] > 0, (1.2, 1.2), (-1.2, -1.2))
        labels = np.where(y > 0, _neighbours(X, 5, y > 0), 10 + _neighbours(X, 5, y < 0))
        return X, y, labels
    X = np.concatenate([rng.normal(size=(26, 2)) * 0.9 + (1.6, 1.0), rng.normal(size=(26, 2)) * 0.9 - (1.6, 1.0)])
    y = np.zeros(52)
    y[:3], y[26:29] = 1.0, -1.0
    labels = np.where(y == 0, _neighbours(X, 6, y == 0), 20 + np.arange(52))
    return X, y, labels


def _neighbours(points: Any, k: int, of: Any = None) -> Any:
    """Assign points to random centres, as one k-means iteration of the paper's start does."""
    rng = np.random.default_rng(1)
    candidates = np.arange(len(points)) if of is None else np.flatnonzero(of)
    centres = points[rng.choice(candidates, k, replace=False)]
    return ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)


def problem_of(name: str, X: Any, y: Any, labels: Any) -> Problem:
    run = Run(ArraySource(X, y, np.ones(len(y))))
    if name == "s3vm":
        settings = SemiSupervisedSettings(1.0, 0.3, given_clusters(labels), balance=True)
        return SemiSupervised(run, settings, np.random.default_rng(0))
    loss, ridge = (pinball(0.5), 0.0) if name == "lad" else (hinge(1.0), 1.0)
    design = Design.of(loss, inspect(run), ridge=ridge)
    return PiecewiseLinear(run, design, Procedure(SOLVERS["auto"], from_labels(labels), paper_split=True))


def trace(name: str) -> Row:
    """Run the paper's rules; return the clusters and the hyperplane of every iteration."""
    X, y, labels = plane(name)
    kept = Kept([], [], [])
    result = aid(problem_of(name, X, y, labels), Limits(tol=1e-9, max_iter=20), observer=kept)
    rows = X if name != "lad" else np.column_stack([X[:, 0], y])
    return {
        "name": name,
        "cpu": 0.0,
        "status": str(result.status),
        "x": rows.tolist(),
        "y": y.tolist(),
        "labels": [part.tolist() for part in kept.labels],
        "points": [point.tolist() for point in kept.points],
        "clusters": [record.n_clusters for record in kept.records],
        "violated": [record.n_violated for record in kept.records],
        "bounds": [float(record.lower_bound) for record in kept.records],
        "objectives": [float(record.objective) for record in kept.records],
    }


def cells(options: Options) -> list[Cell]:
    return [
        Cell(f"plane, {name}", "faithful rules", measured.call(trace), {"name": name}, shown={"name": name})
        for name in PICTURES
    ]


def table(rows: Sequence[Row]) -> str:
    lines = []
    for row in done(rows):
        n = len(row["y"])
        path = " -> ".join(f"{k}" for k in row["clusters"])
        lines.append(
            [row["name"], f"{n}", path, " -> ".join(f"{k}" for k in row["violated"]), row["status"].split(":")[0]]
        )
    return markdown(["picture", "rows", "clusters by iteration", "clusters that violate", "end"], lines)


def _blob(ax: Any, points: Any, shaded: bool) -> None:
    """Draw a rounded outline around the members of a cluster."""
    centre = points.mean(axis=0)
    colour = "#c9cdd3" if shaded else "none"
    try:
        corners = points[ConvexHull(points).vertices]
    except (QhullError, ValueError):
        corners = points[np.argsort(points @ (points[-1] - points[0] + 1e-9))][[0, -1]]
    angles = np.linspace(0, 2 * np.pi, 24)
    ring = 0.28 * np.column_stack([np.cos(angles), np.sin(angles)])
    cloud = (corners[:, None] + ring).reshape(-1, 2)
    edge = cloud[ConvexHull(cloud).vertices]
    ax.fill(*np.vstack([edge, edge[:1]]).T, facecolor=colour, edgecolor=INK, ls=":", lw=1.1, alpha=0.8, zorder=1)
    ax.plot(*centre, "+", color=COLOURS[1], ms=8, mew=1.8, zorder=4)


def _panel(ax: Any, row: Row, t: int, split: bool) -> None:
    """Draw the clusters and the hyperplane of iteration t; ``split`` shades clusters that violate the condition."""
    x, y, labels = np.array(row["x"]), np.array(row["y"]), np.array(row["labels"][t])
    regions = _regions(row, t)
    for k in np.unique(labels):
        members = labels == k
        if row["name"] == "s3vm" and y[members][0] != 0:
            continue
        _blob(ax, x[members], split and len(np.unique(regions[members])) > 1)
    if row["name"] == "lad":
        ax.scatter(*x.T, s=22, c=np.where(regions > 0, "white", INK), edgecolors="black", lw=0.8, zorder=3)
    else:
        alone = row["name"] == "svm"  # in "s3vm" labelled rows are few and drawn in black
        for value, marker, face in (
            (1, "o" if alone else "s", "white" if alone else "black"),
            (-1, "x", "black"),
            (0, "o", "white"),
        ):
            chosen = y == value
            edges = {} if marker == "x" else {"edgecolors": "black", "lw": 0.8}
            ax.scatter(*x[chosen].T, s=24, marker=marker, c=face, **edges, zorder=3)
    _lines(ax, row, t, x)


def _regions(row: Row, t: int) -> Any:
    x, y, p = np.array(row["x"]), np.array(row["y"]), np.array(row["points"][t])
    if row["name"] == "lad":
        return (y > p[0] * x[:, 0] + p[1]).astype(int)
    z = x @ p[:2] + p[2]
    if row["name"] == "svm":
        return (1 - y * z > 0).astype(int)
    slack = 1 - np.where(y != 0, y * z, np.abs(z))
    return (slack > 0).astype(int) + 2 * ((y == 0) & (z > 0))


def _lines(ax: Any, row: Row, t: int, x: Any) -> None:
    p = np.array(row["points"][t])
    low, high = x.min(axis=0) - 0.8, x.max(axis=0) + 0.8
    u = np.linspace(low[0], high[0], 2)
    if row["name"] == "lad":
        ax.plot(u, p[0] * u + p[1], color=COLOURS[0], lw=1.6, zorder=2)
    elif abs(p[1]) > 1e-9:
        for level, style in ((0.0, "-"), (1.0, ":"), (-1.0, ":")):
            ax.plot(u, (level - p[2] - p[0] * u) / p[1], color=COLOURS[0], ls=style, lw=1.4, zorder=2)
    ax.set_xlim(low[0], high[0])
    ax.set_ylim(low[1], high[1])


def splitting(name: str) -> Any:
    """Return a function that draws three panels: clusters and hyperplane, those that are split, the new clusters."""

    def draw(rows: Sequence[Row], path: Path) -> None:
        row = next(row for row in done(rows) if row["name"] == name)
        t = next((k for k, count in enumerate(row["violated"][:-1]) if count), 0)
        figure, axes = pyplot().subplots(1, 3, figsize=(12, 3.9), layout="constrained")
        words = ("clusters and hyperplane", "clusters that violate the condition", "new clusters, solved again")
        for ax, what, shown, split in zip(axes, words, (t, t, t + 1), (False, True, False), strict=True):
            _panel(ax, row, shown, split)
            tidy(ax, "x" if name == "lad" else "x1", "y" if name == "lad" else "x2", f"t = {shown}: {what}")
            ax.set_title(f"t = {shown}: {what} ({row['clusters'][shown]} clusters)", fontsize="medium", loc="left")
        save(figure, path)

    return draw


def concept(rows: Sequence[Row], path: Path) -> None:
    """Draw initial, declustered and final clusters of the SVM's run (the paper's Figure 1)."""
    row = next(row for row in done(rows) if row["name"] == "svm")
    last = len(row["labels"]) - 1
    figure, axes = pyplot().subplots(1, 3, figsize=(12, 3.9), layout="constrained")
    n = len(row["y"])
    for ax, t, words in zip(axes, (0, min(1, last), last), ("initial", "declustered", "final"), strict=True):
        _panel(ax, row, t, False)
        tidy(ax, "x1", "x2", f"{words} clusters, r^{t} = {row['clusters'][t]}/{n}")
    save(figure, path)


EXPERIMENTS = (
    Experiment(
        "illustrations",
        "Clusters splitting, from real runs (Figures 1 to 4)",
        cells,
        table,
        pictures={"concept": concept} | {name: splitting(name) for name in PICTURES},
    ),
)
