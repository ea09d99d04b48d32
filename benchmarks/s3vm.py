"""Semi-supervised SVM on the sets of Chapelle, Schoelkopf and Zien's book: python -m benchmarks.s3vm.

``SemiSupervisedSVC(kernel="auto")``, which uses no test labels, and the supervised linear machine are fitted to all
official splits. ``python -m benchmarks.paper s3vm-best`` and its neighbours make the paper's tables, whose parameters
were chosen with test labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from aidlearn import SemiSupervisedSVC
from benchmarks.harness.cells import Cell, Row
from benchmarks.harness.command import Options, Table, main
from benchmarks.harness.table import TableLayout
from benchmarks.paper import published
from benchmarks.paper.semi import mean_with_error, official, rule, split_of


def fit(name: str, labels: int, count: int) -> Row:
    """Fit ``kernel="auto"`` and the supervised machine to the first splits of a set."""
    found = rule(name, {f"{labels}": count}, 1.0)
    control = []
    for number in range(count):
        split = split_of(name, labels, number, 1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = SemiSupervisedSVC(C=5.0, C_unlabeled=0.0, balance="constraint", n_jobs=1).fit(split.X, split.y)
        control.append(split.accuracy(model.transduction_))
    kernels = [chosen["kernel"] for chosen in found["chosen"][f"{labels}"]]
    words = max(dict.fromkeys(kernels), key=kernels.count)
    values = found["accuracies"][f"{labels}"]
    times = {"cpu": float(np.mean(found["seconds"])), "longest": float(np.max(found["seconds"]))}
    return {
        "accuracy": mean_with_error(values),
        "supervised": mean_with_error(control),
        "chosen": words,
        "splits": values,
    } | times


def cells(labels: int) -> object:
    def made(options: Options) -> list[Cell]:
        out = []
        for name in published.SETS:
            count = len(official(name, labels, 0.01 if options.quick else 1.0))
            arguments = {"name": name, "labels": labels, "count": count}
            shown = {"paper": published.best_published(name, labels)}
            timeout = 86_400.0 if options.timeout is None else options.timeout
            out.append(Cell(f"{name} {labels} labels", "auto", "benchmarks.s3vm:fit", arguments, timeout, shown=shown))
        return out

    return made


SHOWN = TableLayout(
    {
        "accuracy": ("accuracy %", "{}"),
        "supervised": ("supervised linear %", "{}"),
        "paper": ("best published %", "{}"),
        "cpu": ("CPU s per fit", "{:.2f}"),
        "longest": ("longest", "{:.2f}"),
        "chosen": ("kernel chosen most often", "{}"),
    }
)
TITLE = "SemiSupervisedSVC(kernel='auto'), no test labels"
TABLES: Sequence[Table] = (Table("auto", TITLE, cells(100), SHOWN), Table("auto-10", TITLE, cells(10), SHOWN))

if __name__ == "__main__":
    main("s3vm", __doc__.split("\n")[0], *TABLES)
