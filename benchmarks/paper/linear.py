"""LAD and SVM against the paper's peers: lad-a, lad-b, lad-c, svm-1, svm-2, svm-full (paper, section 4, appendix C)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.harness.cells import Cell, Row
from benchmarks.paper import measured, pictures, published
from benchmarks.paper.experiment import (
    Experiment,
    Options,
    deviation,
    done,
    falls,
    markdown,
    mean,
    scaled,
    seconds,
    shown,
    why_not,
)

FN, PFN, LIBSVM, LIBLINEAR = "R quantreg fn", "R quantreg pfn", "scikit-learn SVC", "scikit-learn LinearSVC"
ROUNDING = 1e-9
SOLVER_NOISE = 1e-3
"""Tolerance of the paper's solvers, and so of the F_t they report."""
PATIENCE = 40_000.0
"""Wall seconds after which a process that hangs is ended; fits end at their CPU limit."""

LAD_B = tuple((1_000_000, m) for m in range(50, 501, 50))
LAD_C = tuple((n * 100_000, m) for m in (50, 500) for n in (4, 6, 8, 10, 12, 14, 16))
FULL = (1_300_000, 342)


def instances(
    problem: str,
    kind: str,
    shapes: Iterable[tuple[int, int]],
    faithful: Sequence[str],
    peers: Sequence[str],
    options: Options,
    paper: dict[tuple[int, int], Row] | None = None,
    **more: Any,
) -> list[Cell]:
    """Return the cells of every solver on every instance, small instances first and peers after ours."""
    out = []
    names = ["default", *(f"faithful {name}" for name in faithful), *peers]
    for (n0, m0), solver, seed in itertools.product(sorted(shapes), names, range(options.repeat)):
        n, m = scaled(n0, m0, options.scale)
        own = solver == "default" or solver.startswith("faithful")
        arguments = {"kind": kind, "n": n, "m": m, "seed": seed, "problem": problem, "solver": solver}
        out.append(
            Cell(
                f"{kind} {n:,} x {m} #{seed}",
                solver,
                measured.call(measured.fit),
                arguments | {"limit": options.limit, "memory": options.memory} | more,
                timeout=PATIENCE,
                own=own,
                shown={"n": n, "m": m, "n0": n0, "m0": m0, "kind": kind, "paper": (paper or {}).get((n0, m0), {})},
            )
        )
    return out


def groups(rows: Sequence[Row]) -> Iterator[tuple[Row, dict[str, list[Row]]]]:
    """Yield the rows of each instance by solver."""
    for name in dict.fromkeys((row["kind"], row["n0"], row["m0"]) for row in rows):
        here = [row for row in rows if (row["kind"], row["n0"], row["m0"]) == name]
        by_solver: dict[str, list[Row]] = {}
        for row in here:
            by_solver.setdefault(row["solver"], []).append(row)
        yield here[0], by_solver


HEAD = (
    "data,n,m,r0 paper,r0,r^T paper,r^T faithful,T paper,T faithful,s paper,s faithful,s default,sigma default,"
    "peer s paper,peer s,rho paper,rho faithful,rho default,Delta faithful,Delta default,Gamma faithful,Gamma default,"
    "gap faithful,gap default,passes default,peak MB default"
)


def compared(rows: Sequence[Row]) -> str:
    """Return the paper's columns with its number, the faithful one and ours; rho is the time over the first peer's."""
    lines = []
    for first, solvers in groups(rows):
        paper = first["paper"]
        ours = solvers.get("default", [])
        faithful = next((part for name, part in solvers.items() if name.startswith("faithful")), [])
        peers = {name: part for name, part in solvers.items() if part[0]["own"] is False}
        lead = next(iter(peers.values()), [])
        peer = mean(lead, "cpu")
        marked = "*" if any(row.get("cut") for row in faithful) else ""
        lines.append(
            [
                first["kind"],
                f"{first['n']:,}",
                f"{first['m']}",
                shown(paper.get("r0"), "{:.2%}"),
                shown(mean(faithful, "rate0"), "{:.2%}"),
                shown(paper.get("rate"), "{:.1%}"),
                shown(mean(faithful, "rate"), "{:.1%}") + marked,
                shown(paper.get("T"), "{:g}"),
                shown(mean(faithful, "iterations"), "{:.1f}") + marked,
                shown(paper.get("seconds"), "{:.0f}"),
                seconds(mean(faithful, "cpu")) + marked if done(faithful) else why_not(faithful),
                f"**{seconds(mean(ours, 'cpu'))}**",
                shown(deviation(ours, "cpu"), "{:.2f}"),
                shown(paper.get("peer"), "{:.0f}"),
                "; ".join(f"{SHORT[name]} {_time(part)}" for name, part in peers.items()) or "-",
                shown(paper.get("rho"), "{:.3g}"),
                _ratio(faithful, peer),
                _ratio(ours, peer),
                _difference(faithful, lead, "objective"),
                _difference(ours, lead, "objective"),
                _difference(faithful, lead, "train"),
                _difference(ours, lead, "train"),
                shown(mean(faithful, "gap"), "{:.0e}"),
                shown(mean(ours, "gap"), "{:.0e}"),
                shown(mean(ours, "passes"), "{:.0f}"),
                shown(mean(ours, "peak"), "{:.0f}"),
            ]
        )
    return markdown(HEAD.split(","), lines)


SHORT = {FN: "fn", PFN: "pfn", LIBSVM: "libsvm", LIBLINEAR: "liblinear"}


def _time(part: Sequence[Row]) -> str:
    return seconds(mean(part, "cpu")) if done(part) else why_not(part)


def _ratio(part: Sequence[Row], peer: float | None) -> str:
    cpu = mean(part, "cpu")
    return "-" if cpu is None or peer is None else f"{cpu / peer:.2g}"


def _difference(part: Sequence[Row], peer: Sequence[Row], name: str) -> str:
    """Return the mean Delta (relative) or Gamma (absolute) over the instances that both have."""
    other = {row["arguments"]["seed"]: row[name] for row in done(peer) if row.get(name) is not None}
    pairs = [(row[name], other[row["arguments"]["seed"]]) for row in done(part) if row["arguments"]["seed"] in other]
    if not pairs:
        return "-"
    if name == "objective":
        return f"{np.mean([ours / theirs - 1 for ours, theirs in pairs if theirs]):.3%}"
    return f"{np.mean([ours - theirs for ours, theirs in pairs]):.2%}"


def outcome(rows: Sequence[Row]) -> Iterator[str]:
    """Yield where the default is slower than a peer, and whether the paper's trends hold."""
    cells = lost = unknown = 0
    for first, solvers in groups(rows):
        ours = mean(solvers.get("default", []), "cpu")
        peers = {name: part for name, part in solvers.items() if part[0]["own"] is False}
        if ours is None or not peers:
            continue
        cells += 1
        times = {name: mean(part, "cpu") for name, part in peers.items()}
        faster = {name: cpu for name, cpu in times.items() if cpu is not None and cpu < ours}
        limits = [row["cpu_over"] for part in peers.values() for row in part if "cpu_over" in row]
        if faster:
            lost += 1
            words = ", ".join(f"{SHORT[name]} {seconds(cpu)}" for name, cpu in faster.items())
            exact = {name: _difference(peers[name], solvers["default"], "objective") for name in faster}
            above = ", ".join(f"{SHORT[name]} {value}" for name, value in exact.items())
            size = f"{first['kind']} {first['n']:,} x {first['m']}"
            yield f"lost: {size}: default {seconds(ours)} s, {words} s (objective over ours: {above})"
        elif not any(times.values()) and not (limits and max(limits) > ours):
            unknown += 1
    if cells:
        won = cells - lost - unknown
        yield f"default faster than every peer that ended and than the limit of the others: {won} of {cells} instances"
    gaps = [row["gap"] for row in done(rows) if row["solver"] == "default"]
    if gaps:
        yield f"largest certified gap of the default: {max(gaps):.1e}"
    yield from trends(rows)


def trends(rows: Sequence[Row]) -> Iterator[str]:
    """Check the paper's findings: r^T falls in n and grows in m, rho falls in both, and F_t never falls."""
    for kind in dict.fromkeys(row["kind"] for row in rows):
        table = {}
        ratio = {}
        for first, solvers in groups([row for row in rows if row["kind"] == kind]):
            faithful = next((p for name, p in solvers.items() if name.startswith("faithful")), [])
            lead = next((part for part in solvers.values() if part[0]["own"] is False), [])
            if done(faithful) and not any(row.get("cut") for row in faithful):
                table[first["n0"], first["m0"]] = mean(faithful, "rate")
                if done(lead):
                    ratio[first["n0"], first["m0"]] = (mean(faithful, "cpu") or 0) / (mean(lead, "cpu") or 1)
        for words, values in (("r^T", table), ("rho", ratio)):
            yield from _directions(kind, words, values)
    for solver in dict.fromkeys(row["solver"] for row in rows if row["solver"].startswith("faithful")):
        runs = [row for row in done(rows) if row["solver"] == solver and row.get("F")]
        if runs:
            bounds, values = (max(_largest_fall(row[name]) for row in runs) for name in ("bounds", "F"))
            yield (
                f"{solver}: largest fall of F_t over its size in {len(runs)} runs: {bounds:.0e} of proven bounds, "
                f"{values:.0e} of the values that the solver reports (its tolerance: {SOLVER_NOISE:g})"
            )


def _largest_fall(values: Sequence[float]) -> float:
    """Return the largest relative fall; 0 if the values never fall by more than rounding."""
    array = np.asarray(values)
    falls_by = -np.diff(array) / np.maximum(np.abs(array[:-1]), 1e-300)
    largest = float(falls_by.max(initial=0.0))
    return largest if largest > ROUNDING else 0.0


def _directions(kind: str, words: str, values: dict[tuple[int, int], Any]) -> Iterator[str]:
    for fixed, free, down in ((1, "n", True), (0, "m", words == "rho")):
        trends = []
        for value in sorted({size[fixed] for size in values}):
            line = [values[size] for size in sorted(values) if size[fixed] == value]
            if len(line) > 2:
                trends.append(falls(line if down else [-v for v in line]))
        if trends:
            name = "m" if fixed else "n"
            way = "falls" if down else "grows"
            yield f"{kind}: faithful {words} {way} in {free} for {sum(trends)} of {len(trends)} values of {name}"


def lad(
    shapes: Iterable[tuple[int, int]], paper: dict[tuple[int, int], Row] | None = None
) -> Callable[[Options], list[Cell]]:
    return lambda options: instances("lad", "lad", shapes, ["auto"], [FN, PFN], options, paper)


REAL_1 = ((30_000, 10), (30_000, 30), (100_000, 10), (100_000, 30))
REAL_2 = ((200_000, 10), (200_000, 30))
"""Instances of a real table, in addition to the generated ones."""


def svm_1(options: Options) -> list[Cell]:
    out = []
    sets: tuple[tuple[str, Any, Any], ...] = (
        ("ibm", published.SVM_IBM, published.SVM_IBM),
        ("rcv", published.SVM_RCV, published.SVM_RCV),
        ("celeba", REAL_1, None),
    )
    for kind, shapes, paper in sets:
        out += instances("svm", kind, shapes, ["libsvm", "auto"], [LIBSVM, LIBLINEAR], options, paper)
    return out


def svm_2(options: Options) -> list[Cell]:
    paper = published.SVM_LARGE
    out = instances("svm", "ibm", paper, ["liblinear", "auto"], [LIBLINEAR], options, paper)
    return out + instances("svm", "celeba", REAL_2, ["liblinear", "auto"], [LIBLINEAR], options)


def svm_full(options: Options) -> list[Cell]:
    return instances(
        "svm", "ibm", [FULL], ["libsvm", "liblinear", "auto"], [LIBLINEAR], options, None, keep_history=True
    )


FULL_HEAD = "t,r^t paper,r^t,F_t paper,F_t,E_best paper,E_best,gap paper,gap,proven gap,cum s paper,cum s,"


def iterations(rows: Sequence[Row]) -> str:
    """Return the paper's table of the full data, for each solver of aggregated problems and for the default."""
    parts = [compared(rows)]
    for row in done(rows):
        if "history" not in row:
            continue
        name = row["solver"].split()[-1]
        paper = published.FULL.get(name, [])
        lines = []
        values = row.get("F", [None] * len(row["history"]))
        for t in range(max(len(paper), len(row["history"]))):
            ours = row["history"][t] if t < len(row["history"]) else None
            published_step = paper[t] if t < len(paper) else {}
            value = values[t] if ours and t < len(values) else None
            best = ours["best_objective"] if ours else None
            lines.append(
                [
                    f"{t}",
                    shown(published_step.get("rate"), "{:.2%}"),
                    shown(ours and ours["aggregation_rate"], "{:.2%}"),
                    shown(published_step.get("bound"), "{:,.0f}"),
                    shown(value, "{:,.0f}"),
                    shown(published_step.get("best"), "{:,.0f}"),
                    shown(best, "{:,.0f}"),
                    shown(published_step.get("gap"), "{:.2%}"),
                    shown(None if value is None or not value else (best - value) / value, "{:.2%}"),
                    shown(ours and ours["gap"], "{:.1%}"),
                    shown(published_step.get("seconds"), "{:.0f}"),
                    shown(ours and ours["seconds"], "{:.1f}"),
                ]
            )
        title = f"{row['solver']}: {row['cpu']:.1f} CPU s, training rate {row['train']:.2%}"
        title += f", start {row['start_cpu']:.1f} s" if "start_cpu" in row else ""
        parts.append(f"\n{title} (cum s is wall time)\n\n{markdown(FULL_HEAD.rstrip(',').split(','), lines)}")
    return "\n".join(parts)


EXPERIMENTS = (
    Experiment(
        "lad-a",
        "LAD, Set A: n in 2..16e5, m in 10..800, against R quantreg (Table 2)",
        lad(published.LAD_A, published.LAD_A),
        compared,
        outcome,
        {"": pictures.times_and_ratios},
    ),
    Experiment(
        "lad-b",
        "LAD, Set B: n = 1e6, m = 50..500 (Figure 5a)",
        lad(LAD_B),
        compared,
        outcome,
        {"": pictures.times_over("m0")},
    ),
    Experiment(
        "lad-c",
        "LAD, Set C: n = 4..16e5, m = 50 and 500 (Figures 5b, 5c)",
        lad(LAD_C),
        compared,
        outcome,
        {"": pictures.times_over("n0")},
    ),
    Experiment(
        "svm-1",
        "SVM, Set 1: n in 3..15e4, m in 10..90, two kinds of data, against libsvm (Tables 3, 4, Figure 6)",
        svm_1,
        compared,
        outcome,
        {"": pictures.times_and_ratios},
        scale=0.1,
    ),
    Experiment(
        "svm-2",
        "SVM, Set 2: n in 2..8e5, m in 10..90, against liblinear (Table 5, Figure 7)",
        svm_2,
        compared,
        outcome,
        {"": pictures.times_and_log_ratios},
        scale=0.1,
    ),
    Experiment(
        "svm-full",
        "SVM on 1.3 million x 342, iteration by iteration (Table 10)",
        svm_full,
        iterations,
        outcome,
        {"": pictures.iterations},
    ),
)
