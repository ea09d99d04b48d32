"""Linear hinge SVM against its peers, and weights over five orders of magnitude: python -m benchmarks.svm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.harness.cells import Cell, Row, measured
from benchmarks.harness.command import Options, Table, comparison, main
from benchmarks.harness.datasets import DataSet, generated
from benchmarks.harness.table import ROUNDING, TableLayout, pick

CELEBA = DataSet("celeba", "standardised", (202_599, 39), {"name": "celeba"})
CAMPAIGN = DataSet("campaign", "standardised", (41_188, 62), {"name": "campaign"})


def peers(options: Options) -> list[Cell]:
    sets = [(data, C) for data in (CELEBA, CAMPAIGN) for C in (0.1, 1.0, 10.0)]
    sets += [(generated("two_classes", n, m), 0.1) for n, m in ((30_000, 50), (800_000, 90))]
    if options.quick:
        sets = [(generated("two_classes", n, 10), 0.1) for n in (5_000, 50_000)]
    return [cell for data, C in sets for cell in comparison("svm", data, options, C=C)]


def weights(options: Options) -> list[Cell]:
    """Return cells for the gap, and for bounds that must hold when the solver stops early."""
    data = generated("weighted_classes", 2_000 if options.quick else 20_000, 50)
    early = {"solver": "liblinear", "max_iter": 5}
    return [
        measured("svm", data, settings={"C": 1.0}, tol=options.tol, repeat=options.repeat, by="auto"),
        measured("svm", data, settings={"C": 1.0}, tol=options.tol, repeat=1, params=early, by="liblinear"),
    ]


def bounds(rows: Sequence[Row]) -> Iterator[str]:
    done = [row for row in rows if "objective" in row]
    best = min((row["objective"] for row in done), default=0.0)
    for row in done:
        excess = [f"{bound / best - 1:.2e}" for bound in row["bounds"]]
        exceeds = max(row["bounds"]) > best * (1 + ROUNDING)
        yield f"{row['by']}: lower bounds over best known objective - 1: {', '.join(excess)}; exceeds it: {exceeds}"


MORE = {"by": ("by", "{}"), "status": ("status", "{}"), "objective": ("objective", "{:.12g}")}
TABLES = (
    Table("svm", "Linear SVM, tol={tol:g}, one thread, best of {repeat}", peers, TableLayout(exact=1e-2)),
    Table(
        "weights",
        "Weights log-uniform over 1..1e5, tol={tol:g}; liblinear with max_iter=5",
        weights,
        TableLayout(pick("cpu", "wall", "gap", "iterations", "clusters", "memory", "products", **MORE)),
        bounds,
        tol=1e-8,
    ),
)

if __name__ == "__main__":
    main("svm", __doc__.split("\n")[0], *TABLES)
