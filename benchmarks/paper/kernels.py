"""The paper's appendix on kernels, which it never ran: its two starts, ours and no aggregation, against libsvm."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from aidlearn import SVC
from aidlearn.bench.judge import Coefficients, Data, objective
from aidlearn.bench.measure import measure
from aidlearn.bench.solvers import Job
from aidlearn.display.style import COLOURS, pyplot, tidy
from benchmarks.harness.cells import Cell, Row
from benchmarks.harness.datasets import curved_classes
from benchmarks.harness.peers import solvers
from benchmarks.paper import measured
from benchmarks.paper.experiment import Experiment, Options, done, markdown, mean, seconds, shown, why_not
from benchmarks.paper.pictures import below, save

SIZES = (20_000, 50_000, 100_000, 200_000)
COLUMNS = 30
STARTS = ("auto", "kmeans", "kernel-kmeans", "band", "rows")
"""Our default start, the two of the appendix, our start on Nystroem features, and all rows at once."""
PEER = "scikit-learn SVC"
TOLERANCE = 1e-4


def fit(n: int, seed: int, solver: str, limit: float, memory: float) -> Row:
    """Measure one start, or libsvm, on classes with a curved boundary; gamma = 1/m, C = 1."""
    import resource

    X, y = curved_classes(n, COLUMNS, seed)
    settings = {"C": 1.0, "gamma": 1 / COLUMNS}
    data = Data(X, y)
    if solver == PEER:
        used = int(time.process_time() + limit) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (used, resource.RLIM_INFINITY))
        out = solvers("kernel-svm")[solver].fit(Job("kernel-svm", data, settings, 1e-3, repeat=1, timeout=20 * limit))
        resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            SVC(init=solver, n_jobs=1, **settings).fit(X[:2000], y[:2000])
        model = SVC(init=solver, tol=TOLERANCE, time_limit=20 * limit, n_jobs=1, **settings)
        stop = time.process_time() + limit
        model.set_params(callbacks=[lambda record: time.process_time() > stop])
        out = measure(lambda: model.fit(X, y), 1)
    row: Row = {"cpu": out.cpu, "wall": out.wall, "peak": out.peak_bytes / 1e6}
    if out.failed:
        return row | {"failed": out.failed}
    if solver != PEER:
        fitted = out.model
        out.solution = Coefficients(np.ravel(fitted.dual_coef_), None, np.asarray(fitted.support_))
        history = fitted.history_
        row |= {"gap": float(fitted.gap_), "iterations": int(fitted.n_iter_), "status": str(fitted.status_)}
        row |= {"rate0": float(history[0].aggregation_rate), "rate": float(fitted.aggregation_rate_)}
        row |= {"cut": fitted.gap_ > TOLERANCE, "bounds": [float(record.lower_bound) for record in history]}
    assert out.solution is not None
    row["support"] = len(out.solution.coef)
    row["objective"] = objective("kernel-svm", data, out.solution, **settings)
    return row


def cells(options: Options) -> list[Cell]:
    out = []
    sizes = sorted({max(1000, round(n * options.scale)) for n in SIZES})
    for n in sizes:
        for solver in (*STARTS, PEER):
            for seed in range(options.repeat):
                arguments = {"n": n, "seed": seed, "solver": solver, "limit": options.limit, "memory": options.memory}
                name = f"curved {n:,} x {COLUMNS} #{seed}"
                own = solver != PEER
                more = {"n": n, "kind": "curved"}
                out.append(Cell(name, solver, measured.call(fit), arguments, timeout=40_000.0, own=own, shown=more))
    return out


def table(rows: Sequence[Row]) -> str:
    head = "n,start,CPU s,T,r0,r^T,certified gap,objective over best,support,peak MB"
    lines = []
    for n in sorted({row["n"] for row in rows}):
        same = [row for row in rows if row["n"] == n]
        best = min((row["objective"] for row in done(same)), default=np.nan)
        for solver in dict.fromkeys(row["solver"] for row in same):
            part = [row for row in same if row["solver"] == solver]
            mark = "*" if any(row.get("cut") for row in part) else ""
            value = mean(part, "objective")
            lines.append(
                [
                    f"{n:,}",
                    "libsvm" if solver == PEER else solver,
                    seconds(mean(part, "cpu")) + mark if done(part) else why_not(part),
                    shown(mean(part, "iterations"), "{:.1f}"),
                    shown(mean(part, "rate0"), "{:.2%}"),
                    shown(mean(part, "rate"), "{:.1%}"),
                    shown(mean(part, "gap"), "{:.0e}"),
                    shown(None if value is None else value / best - 1, "{:.0e}"),
                    shown(mean(part, "support"), "{:,.0f}"),
                    shown(mean(part, "peak"), "{:.0f}"),
                ]
            )
    return markdown(head.split(","), lines)


def remarks(rows: Sequence[Row]) -> Iterator[str]:
    yield "a curved boundary, 30 columns, rbf kernel, gamma = 1/30, C = 1; * ended by the limit on CPU seconds"
    for solver in STARTS[1:3]:
        mine = [row for row in done(rows) if row["solver"] == solver and not row.get("cut")]
        rising = [bool(np.all(np.diff(row["bounds"]) >= -1e-6 * np.abs(row["bounds"][1:]))) for row in mine]
        if rising:
            yield f"init={solver!r}: bounds never fall in {sum(rising)} of {len(rising)} runs"


def picture(rows: Sequence[Row], path: Path) -> None:
    figure, (left, right) = pyplot().subplots(1, 2, figsize=(11, 3.8), layout="constrained")
    for k, solver in enumerate(dict.fromkeys(row["solver"] for row in rows)):
        mine = [row for row in done(rows) if row["solver"] == solver and not row.get("cut")]
        sizes = sorted({row["n"] for row in mine})
        label = "libsvm" if solver == PEER else f"init={solver!r}"
        for ax, name in ((left, "cpu"), (right, "rate")):
            values = [mean([row for row in mine if row["n"] == n], name) for n in sizes]
            if values and None not in values:
                ax.plot(sizes, values, "o-", ms=4, color=COLOURS[k], label=label)
    for ax, words in ((left, "CPU seconds"), (right, "clusters / rows at the end")):
        ax.set_xscale("log")
        ax.set_yscale("log")
        tidy(ax, "n", words, words)
    below(figure)
    save(figure, path)


EXPERIMENTS = (
    Experiment(
        "kernel",
        "AID with direct use of kernels (appendix B, which the paper never ran)",
        cells,
        table,
        remarks,
        {"": picture},
    ),
)
