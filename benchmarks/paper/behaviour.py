"""Behaviour of the paper's procedure: r0, rates, birch and dual (paper, sections 3.2, 5.2 and 5.3)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aidlearn import LinearSVC
from aidlearn.display.style import COLOURS, INK, legend, percentages, pyplot, tidy, whole_numbers
from benchmarks.harness.cells import Cell, Row
from benchmarks.paper import generators, measured
from benchmarks.paper.experiment import Experiment, Options, done, markdown, mean, scaled, seconds, shown
from benchmarks.paper.linear import PATIENCE, groups
from benchmarks.paper.pictures import save

R0_SHAPE = (150_000, 10)
RATES = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.02, 0.05)
GRID = tuple(itertools.product((200_000, 400_000, 800_000), (10, 100, 500)))
BIRCH = (
    ("lad", "lad", 400_000, 50),
    ("lad", "lad", 400_000, 100),
    ("svm", "ibm", 150_000, 50),
    ("svm", "rcv", 150_000, 50),
)
DUAL = (("ibm", 50_000, 30), ("rcv", 50_000, 30))


def _cell(
    options: Options, seed: int, problem: str, kind: str, size: tuple[int, int], solver: str, **more: Any
) -> Cell:
    n, m = scaled(*size, options.scale)
    arguments = {"kind": kind, "n": n, "m": m, "seed": seed, "problem": problem, "solver": solver}
    params = more.pop("params", {})
    label = "".join(f" {key}={value}" for key, value in params.items())
    return Cell(
        f"{kind} {n:,} x {m}{label} #{seed}",
        solver,
        measured.call(measured.fit),
        arguments | {"params": params, "limit": options.limit, "memory": options.memory} | more,
        timeout=PATIENCE,
        shown={"n": n, "m": m, "n0": size[0], "m0": size[1], "kind": kind, "paper": {}, "params": params},
    )


def r0(options: Options) -> list[Cell]:
    size = (R0_SHAPE[0], round(R0_SHAPE[1] / options.scale**0.5))  # ten columns at every scale
    fewest = 12 / scaled(*size, options.scale)[0]
    rates = [rate for rate in RATES if rate >= fewest]
    return [
        _cell(options, seed, "svm", kind, size, "faithful libsvm", params={"initial_rate": rate})
        for kind in ("ibm", "rcv")
        for rate in rates
        for seed in range(options.repeat)
    ]


def by_rate(rows: Sequence[Row]) -> Iterator[tuple[str, float, list[Row]]]:
    for kind, rate in dict.fromkeys((row["kind"], row["params"]["initial_rate"]) for row in rows):
        yield kind, rate, [r for r in rows if r["kind"] == kind and r["params"]["initial_rate"] == rate]


def r0_table(rows: Sequence[Row]) -> str:
    lines = []
    for kind, rate, part in by_rate(rows):
        size = f"{part[0]['n']:,} x {part[0]['m']}"
        values = [seconds(mean(part, name)) for name in ("start_cpu", "loop_cpu", "cpu")]
        counts = [shown(mean(part, "iterations"), "{:.1f}"), shown(mean(part, "rate"), "{:.2%}")]
        lines.append([kind, size, f"{rate:.2%}", *values, *counts])
    return markdown(["data", "size", "r0", "start s", "loop s", "total s", "T", "r^T"], lines)


def r0_remarks(rows: Sequence[Row]) -> Iterator[str]:
    for kind in dict.fromkeys(row["kind"] for row in rows):
        parts = [(rate, part) for k, rate, part in by_rate(rows) if k == kind and done(part)]
        T = [mean(part, "iterations") or 0 for _, part in parts]
        loop = [mean(part, "loop_cpu") or 0 for _, part in parts]
        yield f"{kind}: T falls from {max(T):.1f} to {T[-1]:.1f} with r0 (paper: it decreases)"
        best = parts[int(np.argmin([mean(part, "cpu") or np.inf for _, part in parts]))][0]
        words = f"{loop[0]:.2f} s at the smallest r0, {loop[-1]:.2f} s at the largest"
        yield f"{kind}: loop time {words}; least total at {best:.2%}"


def r0_picture(rows: Sequence[Row], path: Path) -> None:
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    figure, axes = pyplot().subplots(
        1, len(kinds), figsize=(5.6 * len(kinds), 3.8), layout="constrained", squeeze=False
    )
    for ax, kind in zip(axes[0], kinds, strict=True):
        parts = [(rate, part) for k, rate, part in by_rate(rows) if k == kind and done(part)]
        x = np.arange(len(parts))
        start = np.array([mean(part, "start_cpu") for _, part in parts])
        loop = np.array([mean(part, "loop_cpu") for _, part in parts])
        ax.bar(x, start, color="white", edgecolor=INK, label="initialisation")
        ax.bar(x, loop, bottom=start, color=COLOURS[5], edgecolor=INK, label="loop")
        other = ax.twinx()
        other.plot(x, [mean(part, "iterations") for _, part in parts], "o-", color="black", ms=5, label="iterations")
        other.set_ylabel("iterations")
        other.set_ylim(0, 1.45 * max(mean(part, "iterations") or 0 for _, part in parts))
        ax.set_ylim(0, 1.45 * float((start + loop).max()))
        ax.set_xticks(x, [f"{rate:.2%}" for rate, _ in parts], rotation=30)
        tidy(ax, "initial aggregation rate", "CPU seconds", f"{kind}: {parts[0][1][0]['n']:,} x {parts[0][1][0]['m']}")
        legend(ax, loc="upper left")
        legend(other, loc="upper center")
    save(figure, path)


def rates(options: Options) -> list[Cell]:
    return [_cell(options, 0, "lad", "lad", size, "faithful auto", keep_history=True) for size in GRID]


def rates_table(rows: Sequence[Row]) -> str:
    lines = []
    for row in done(rows):
        last = row["history"][-1]
        words = [f"{row['n']:,}", f"{row['m']}", f"{row['iterations']}" + ("*" if row.get("cut") else "")]
        names = ("aggregation_rate", "near_rate", "far_rate")
        lines.append([*words, *(shown(last[name], "{:.2%}") for name in names)])
    return markdown(["n", "m", "T", "r^T all", "near", "far"], lines)


def rates_remarks(rows: Sequence[Row]) -> Iterator[str]:
    ended = [row["history"][-1] for row in done(rows)]
    above = sum((last["near_rate"] or 0) > (last["far_rate"] or 0) for last in ended)
    yield f"near clusters have the larger rate at the end in {above} of {len(ended)} instances (paper: all)"
    yield "* ended by the limit on CPU seconds"


def rates_picture(rows: Sequence[Row], path: Path) -> None:
    ns, ms = sorted({row["n0"] for row in rows}), sorted({row["m0"] for row in rows})
    figure, axes = pyplot().subplots(
        len(ns), len(ms), figsize=(3.6 * len(ms), 2.7 * len(ns)), layout="constrained", squeeze=False
    )
    for row in done(rows):
        ax = axes[ns.index(row["n0"]), ms.index(row["m0"])]
        t = range(len(row["history"]))
        for name, marker, face, label in (
            ("aggregation_rate", "+", INK, "all"),
            ("near_rate", "o", "black", "near"),
            ("far_rate", "o", "white", "far"),
        ):
            values = [record[name] for record in row["history"]]
            ax.plot(t, values, marker=marker, mfc=face, mec="black", color=INK, lw=0.8, ms=5, label=label)
        percentages(ax.yaxis)
        tidy(ax, "iteration t", "r^t", f"n = {row['n']:,}, m = {row['m']}")
        whole_numbers(ax)
    legend(axes[0, 0])
    save(figure, path)


def birch(options: Options) -> list[Cell]:
    solver = {"lad": "auto", "svm": "libsvm"}
    return [
        _cell(options, seed, problem, kind, (n, m), f"faithful {solver[problem]}", params={"init": init})
        for problem, kind, n, m in BIRCH
        for init in ("kmeans", "birch")
        for seed in range(options.repeat)
    ]


def birch_table(rows: Sequence[Row]) -> str:
    lines = []
    for first, _ in groups(rows):
        same = [row for row in rows if (row["kind"], row["n0"], row["m0"]) == (first["kind"], first["n0"], first["m0"])]
        for init in ("kmeans", "birch"):
            part = [row for row in same if row["params"]["init"] == init]
            values = [shown(mean(part, "rate0"), "{:.2%}"), shown(mean(part, "rate"), "{:.2%}")]
            values += [
                shown(mean(part, "iterations"), "{:.1f}"),
                seconds(mean(part, "start_cpu")),
                seconds(mean(part, "cpu")),
            ]
            lines.append([first["kind"], f"{first['n']:,} x {first['m']}", init, *values])
    return markdown(["data", "size", "start", "r0", "r^T", "T", "start s", "total s"], lines)


def birch_picture(rows: Sequence[Row], path: Path) -> None:
    kinds = [first for first, _ in groups(rows)]
    figure, axes = pyplot().subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for ax, (name, words) in zip(axes, (("cpu", "CPU seconds"), ("iterations", "T"), ("rate", "r^T")), strict=True):
        for k, init in enumerate(("kmeans", "birch")):
            heights = []
            for first in kinds:
                same = ("kind", "n0", "m0")
                part = [r for r in rows if all(r[s] == first[s] for s in same) and r["params"]["init"] == init]
                heights.append(mean(part, name) or np.nan)
            ax.bar(np.arange(len(kinds)) + 0.4 * k - 0.2, heights, 0.4, color=COLOURS[k], label=init)
        ax.set_xticks(range(len(kinds)), [f"{f['kind']}\n{f['n']:,} x {f['m']}" for f in kinds], fontsize=7)
        tidy(ax, "", words, words)
    legend(axes[0])
    save(figure, path)


def dual_fit(kind: str, n: int, m: int, seed: int) -> Row:
    """Recover the duals of all rows by three-way declustering, and check them on the original problem."""
    import time

    X, y = generators.KINDS[kind](n, m, seed)
    row: Row = {}
    for name, dual in (("two-way", False), ("three-way", True)):
        before = time.process_time()
        C = measured.PENALTY
        model = LinearSVC(
            C=C, init="kmeans", tol=1e-8, max_iter=measured.MOST_ITERATIONS, row_duals=dual, n_jobs=1
        ).fit(X, y)
        row[f"{name} cpu"] = time.process_time() - before
        row[f"{name} T"], row[f"{name} rate"] = int(model.n_iter_), float(model.aggregation_rate_)
    alpha = np.zeros(n)
    alpha[model.support_] = np.ravel(model.dual_coef_)  # times the label
    w = alpha @ X
    value = float(np.abs(alpha).sum() - 0.5 * w @ w)
    slack = 1 - y * (X @ np.ravel(model.coef_) + model.intercept_[0])
    strict = np.abs(slack) > 1e-6
    wrong = strict & ~np.where(slack > 0, np.abs(np.abs(alpha) - C) < 1e-6 * C, np.abs(alpha) < 1e-6 * C)
    return row | {
        "cpu": row["three-way cpu"],
        "objective": float(model.objective_),
        "dual_value": value,
        "duality_gap": float(model.objective_ - value) / float(model.objective_),
        "balance": float(abs(alpha.sum())) / max(1e-300, float(np.abs(alpha).sum())),
        "box": float(np.abs(alpha).max() / C),
        "w_difference": float(np.abs(w - np.ravel(model.coef_)).max()) / max(1e-12, float(np.abs(w).max())),
        "wrong_side": int(wrong.sum()),
        "on_margin": int((~strict).sum()),
        "support": len(model.support_),
    }


def dual(options: Options) -> list[Cell]:
    out = []
    for (kind, n0, m0), seed in itertools.product(DUAL, range(options.repeat)):
        n, m = scaled(n0, m0, max(options.scale, 0.1))
        arguments = {"kind": kind, "n": n, "m": m, "seed": seed}
        out.append(
            Cell(
                f"{kind} {n:,} x {m} #{seed}",
                "three-way",
                measured.call(dual_fit),
                arguments,
                timeout=PATIENCE,
                shown=arguments,
            )
        )
    return out


def dual_table(rows: Sequence[Row]) -> str:
    head = (
        "data,size,T two-way,T three-way,r^T two-way,r^T three-way,primal,dual of all rows,relative gap,balance,"
        "w from duals,rows on the margin,support,rows against the rule"
    )
    lines = [
        [
            row["kind"],
            f"{row['n']:,} x {row['m']}",
            f"{row['two-way T']}",
            f"{row['three-way T']}",
            f"{row['two-way rate']:.2%}",
            f"{row['three-way rate']:.2%}",
            f"{row['objective']:.6f}",
            f"{row['dual_value']:.6f}",
            f"{row['duality_gap']:.1e}",
            f"{row['balance']:.0e}",
            f"{row['w_difference']:.0e}",
            f"{row['on_margin']}",
            f"{row['support']:,}",
            f"{row['wrong_side']}",
        ]
        for row in done(rows)
    ]
    return markdown(head.split(","), lines)


def dual_remarks(rows: Sequence[Row]) -> Iterator[str]:
    yield "the dual of row i is that of its cluster over the cluster's size; all is recomputed from the rows"
    yield "rows against the rule: beyond the margin with a dual that is not 0, or inside with one that is not M"


EXPERIMENTS = (
    Experiment(
        "r0",
        "Impact of the initial rate, n = 150,000, m = 10 (Figure 8)",
        r0,
        r0_table,
        r0_remarks,
        {"": r0_picture},
        repeat=2,
        scale=1.0,
    ),
    Experiment(
        "rates",
        "Aggregation rate over iterations: all, near, far (Figure 9)",
        rates,
        rates_table,
        rates_remarks,
        {"": rates_picture},
    ),
    Experiment(
        "birch",
        "The start the paper recommends where k-means is not precise enough (section 5.2)",
        birch,
        birch_table,
        pictures={"": birch_picture},
    ),
    Experiment(
        "dual",
        "Three-way declustering and the duals of the original rows (section 3.2)",
        dual,
        dual_table,
        dual_remarks,
    ),
)
