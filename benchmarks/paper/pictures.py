"""Pictures of tables: times and ratios as the paper draws them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aidlearn.display.style import COLOURS, INK, legend, pyplot, tidy
from benchmarks.harness.cells import Row
from benchmarks.paper.experiment import done, mean

NAMES = {
    "default": "aidlearn, default",
    "R quantreg fn": "quantreg fn",
    "R quantreg pfn": "quantreg pfn",
    "scikit-learn SVC": "libsvm",
    "scikit-learn LinearSVC": "liblinear",
}
MARKERS = "osD^vP"
Series = dict[str, dict[tuple[int, int], float]]


def below(figure: Any) -> None:
    """Draw one legend for all axes below the figure, where it hides none of them."""
    found = {}
    for ax in figure.axes:
        handles, labels = ax.get_legend_handles_labels()
        found.update(dict(zip(labels, handles, strict=True)))
    figure.legend(found.values(), found, loc="outside lower center", ncols=3, frameon=False, fontsize="small")


def save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=130)
    pyplot().close(figure)


def named(solver: str) -> str:
    if solver.startswith("faithful"):
        return f"the paper's procedure ({solver.split()[1].replace('auto', 'interior point')})"
    return NAMES.get(solver, solver)


def series(rows: Sequence[Row], value: str = "cpu") -> Series:
    """Return means over the instances of a size, by solver."""
    out: Series = {}
    for solver in dict.fromkeys(row["solver"] for row in rows):
        mine = [row for row in rows if row["solver"] == solver]
        for size in sorted({(row["n0"], row["m0"]) for row in mine}):
            part = [row for row in mine if (row["n0"], row["m0"]) == size]
            found = mean(part, value)
            if found is not None and not any(row.get("cut") for row in done(part)):
                out.setdefault(solver, {})[size] = found
    return out


def sizes(rows: Sequence[Row]) -> list[tuple[int, int]]:
    return sorted({(row["n0"], row["m0"]) for row in rows})


def _by_instance(ax: Any, rows: Sequence[Row], found: Series) -> list[tuple[int, int]]:
    """Plot every instance at its own place on the axis, those of the same n side by side."""
    order = sizes(rows)
    for k, (solver, values) in enumerate(found.items()):
        x = [order.index(size) for size in values]
        ax.plot(x, list(values.values()), MARKERS[k] + "-", color=COLOURS[k], ms=4, lw=1, label=named(solver))
    shape = {(row["n0"], row["m0"]): (row["n"], row["m"]) for row in rows}
    ax.set_xticks(range(len(order)), [f"{shape[size][1]}" for size in order], fontsize=7)
    for n in sorted({size[0] for size in order}):
        places = [k for k, size in enumerate(order) if size[0] == n]
        count = shape[order[places[0]]][0]
        ax.text(np.mean(places), -0.17, f"n = {count:,}", transform=ax.get_xaxis_transform(), ha="center", fontsize=7)
        if places[0]:
            ax.axvline(places[0] - 0.5, color=INK, lw=0.6, alpha=0.4)
    return order


def _grid(rows: Sequence[Row], path: Path, logarithm: bool) -> None:
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    figure, axes = pyplot().subplots(
        len(kinds), 2, figsize=(12, 3.7 * len(kinds) + 0.4), layout="constrained", squeeze=False
    )
    for (left, right), kind in zip(axes, kinds, strict=True):
        mine = [row for row in rows if row["kind"] == kind]
        found = series(mine)
        _by_instance(left, mine, found)
        left.set_yscale("log")
        tidy(left, "m, below n\n", "CPU seconds", f"{kind}: execution times")
        lead = next((solver for solver in found if solver in NAMES and solver != "default"), None)
        ratios: Series = {}
        for solver in found:
            if lead is None or not (solver == "default" or solver.startswith("faithful")):
                continue
            both = {size: found[solver][size] / found[lead][size] for size in found[solver] if size in found[lead]}
            ratios[solver] = {size: float(np.log10(v)) if logarithm else v for size, v in both.items()}
        published_values: dict[tuple[int, int], float] = {}
        for row in mine:
            if row["paper"].get("rho"):
                value = row["paper"]["rho"]
                published_values[row["n0"], row["m0"]] = float(np.log10(value)) if logarithm else value
        order = _by_instance(right, mine, ratios)
        if published_values:
            x = [order.index(size) for size in sorted(published_values)]
            values = [published_values[size] for size in sorted(published_values)]
            right.plot(x, values, "x:", color=INK, ms=4, lw=1, label="printed in the paper")
        right.axhline(0.0 if logarithm else 1.0, color=INK, lw=0.8)
        if not logarithm:
            right.set_yscale("log")
        words = "log10 of rho" if logarithm else "rho"
        tidy(right, "m, below n\n", words, f"{kind}: {words}, time over that of {NAMES.get(lead or '', 'no peer')}")
    below(figure)
    save(figure, path)


def times_and_ratios(rows: Sequence[Row], path: Path) -> None:
    _grid(rows, path, logarithm=False)


def times_and_log_ratios(rows: Sequence[Row], path: Path) -> None:
    _grid(rows, path, logarithm=True)


def times_over(axis: str) -> Callable[[Sequence[Row], Path], None]:
    """Return a function that draws times over n or m, with a linear and a logarithmic panel per value of the other."""
    fixed = "m0" if axis == "n0" else "n0"

    def draw(rows: Sequence[Row], path: Path) -> None:
        values = sorted({row[fixed] for row in rows})
        figure, axes = pyplot().subplots(
            len(values), 2, figsize=(11, 3.5 * len(values)), layout="constrained", squeeze=False
        )
        for pair, value in zip(axes, values, strict=True):
            mine = [row for row in rows if row[fixed] == value]
            shape = {(row["n0"], row["m0"]): row[axis[0]] for row in mine}
            for ax, scale in zip(pair, ("linear", "log"), strict=True):
                for k, (solver, found) in enumerate(series(mine).items()):
                    x = [shape[size] for size in found]
                    ax.plot(x, list(found.values()), MARKERS[k] + "-", color=COLOURS[k], ms=4, label=named(solver))
                ax.set_yscale(scale)
                other = mine[0][fixed[0]]
                tidy(
                    ax, axis[0], "CPU seconds", f"{fixed[0]} = {other:,}" + (", logarithmic" if scale == "log" else "")
                )
        below(figure)
        save(figure, path)

    return draw


def iterations(rows: Sequence[Row], path: Path) -> None:
    """Draw F_t, E_best and the aggregation rate over the iterations."""
    shown = [row for row in done(rows) if row.get("history")]
    figure, (left, right) = pyplot().subplots(1, 2, figsize=(11, 3.8), layout="constrained")
    for k, row in enumerate(shown):
        t = range(len(row["history"]))
        best = [record["best_objective"] for record in row["history"]]
        values = row.get("F") or [record["lower_bound"] for record in row["history"]]
        left.plot(t, best, MARKERS[k] + "-", color=COLOURS[k], ms=4)
        left.plot(range(len(values)), values, MARKERS[k] + ":", color=COLOURS[k], ms=3)
        rates = [record["aggregation_rate"] for record in row["history"]]
        right.plot(t, rates, MARKERS[k] + "-", color=COLOURS[k], ms=4, label=named(row["solver"]))
    for style, words in (("-", "best objective E"), (":", "aggregated value F_t")):
        left.plot([], [], style, color=INK, label=words)
    left.set_yscale("log")
    right.set_yscale("log")
    tidy(left, "iteration t", "objective", "Best objective and aggregated value")
    tidy(right, "iteration t", "clusters / rows", "Aggregation rate r^t")
    legend(left)
    legend(right)
    save(figure, path)
