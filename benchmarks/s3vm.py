"""Semi-supervised SVM on the sets of Chapelle, Schoelkopf and Zien's book: python -m benchmarks.s3vm.

The table "grid" has AID1 and AID5 with the linear kernel, best over the paper's grid: chosen with the labels of the
test rows, as in the paper. The supervised machine (C_unlabeled = 0) stands beside it. Tables that end in "-10" have 10
labels, the others 100.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedKFold

from aidlearn import SemiSupervisedSVC
from aidlearn.bench.harness import Cell, Row
from aidlearn.bench.ssl_book import Split, splits
from aidlearn.bench.table import Layout
from aidlearn.semisupervised.features import graph_features
from benchmarks.command import Options, Table, main

SETS = ("Digit1", "USPS", "BCI", "g241c", "g241d", "Text", "COIL2")
PAPER = {
    10: dict(zip(SETS, (86.6, 80.1, 52.9, 79.7, 59.5, 66.4, 90.9), strict=True)),
    100: dict(zip(SETS, (92.6, 86.5, 71.7, 82.6, 72.6, 75.8, 87.0), strict=True)),
}
"""AID5, linear, best parameters."""
GRID = list(itertools.product((1.0, 1e-1, 1e-2, 1e-3, 1e-4), (0.01, 0.05), ("constraint", "cost")))
"""C_unlabeled, initial rate and balance; C = 5."""
FIXED = {"USPS": "cost", "BCI": "cost", "COIL2": "cost"}
"""Balance of the paper's fixed parameters (C = 5, C_unlabeled = 1, rate 0.01); "constraint" for the others."""
KERNELS: list[tuple[int | None, str, int, float]] = [
    *((pca, "linear", 0, 0.0) for pca in (None, 3, 5)),
    *itertools.product((None, 5, 10), ("graph",), (10, 60), (10.0, 30.0, 100.0)),
]
"""Principal components (None: all columns), kernel, neighbours and diffusion time to choose from."""


@cache
def _splits(name: str, n_labelled: int) -> list[Split]:
    return splits(name, n_labelled)


def fit(split: Split, X: Any = None, *, C: float = 5.0, **parameters: Any) -> tuple[float, float]:
    """Accuracy on the unlabelled rows and CPU seconds."""
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SemiSupervisedSVC(C=C, **parameters).fit(split.X if X is None else X, split.y)
    return split.accuracy(model.transduction_), time.process_time() - started


def summary(accuracy: Sequence[float], control: Sequence[float], seconds: Any, **more: Any) -> Row:
    """A row: means over splits in per cent, with standard errors."""

    def told(values: Sequence[float]) -> str:
        if len(values) < 2:
            return f"{100 * np.mean(values):.1f}"
        return f"{100 * np.mean(values):.1f} +- {100 * np.std(values, ddof=1) / np.sqrt(len(values)):.1f}"

    times = {"cpu": float(np.mean(seconds)), "longest": float(np.max(seconds))}
    return {"accuracy": told(accuracy), "supervised": told(control), "splits": list(accuracy)} | times | more


def grid(name: str, n_labelled: int, max_iter: int, count: int | None) -> Row:
    """All parameters of the grid on every split; the best on average."""
    found, control = [], []
    for split in _splits(name, n_labelled)[:count]:
        found.append(
            [fit(split, C_unlabeled=C, initial_rate=rate, balance=b, max_iter=max_iter) for C, rate, b in GRID]
        )
        control.append([fit(split, C_unlabeled=0.0, balance=balance)[0] for balance in ("constraint", "cost")])
    accuracy, seconds = np.moveaxis(np.array(found), 2, 0)  # splits x grid
    best = int(accuracy.mean(axis=0).argmax())
    supervised = np.array(control)[:, np.mean(control, axis=0).argmax()]
    chosen = f"C_unlabeled={GRID[best][0]:g}, rate {GRID[best][1]}, {GRID[best][2]} (with test labels)"
    return summary(accuracy[:, best].tolist(), supervised.tolist(), seconds, chosen=chosen)


def fixed(name: str, n_labelled: int, max_iter: int, count: int | None) -> Row:
    """One set of parameters: the paper's fixed ones."""
    balance = FIXED.get(name, "constraint")
    chosen = _splits(name, n_labelled)[:count]
    found = [fit(split, C_unlabeled=1.0, initial_rate=0.01, balance=balance, max_iter=max_iter) for split in chosen]
    control = [fit(split, C_unlabeled=0.0, balance=balance)[0] for split in chosen]
    return summary([a for a, _ in found], control, [seconds for _, seconds in found])


def large(name: str, n_labelled: int, max_iter: int, count: int | None) -> Row:
    """SecStr, 83,679 x 315, on the first splits."""
    chosen = _splits(name, n_labelled)[: count or 2]
    found = [fit(split, C_unlabeled=0.01, balance="constraint", max_iter=max_iter) for split in chosen]
    control = [fit(split, C_unlabeled=0.0, balance="constraint")[0] for split in chosen]
    return summary([a for a, _ in found], control, [seconds for _, seconds in found])


@cache
def _features(name: str, n_labelled: int, choice: tuple[int | None, str, int, float]) -> Any:
    """Features of a kernel: they do not depend on the labels, so all splits share them."""
    components, kernel, neighbors, diffusion = choice
    X = _splits(name, n_labelled)[0].X
    if components is not None:
        X = PCA(components, random_state=0).fit_transform(X.toarray() if hasattr(X, "toarray") else X)
    return X if kernel == "linear" else graph_features(X, neighbors, diffusion).features


def kernels(name: str, n_labelled: int, max_iter: int, count: int | None) -> Row:
    """The kernel chosen by cross-validation on the labelled rows of each split; test labels are not used."""
    parameters: dict[str, Any] = {"C": 1.0, "C_unlabeled": 0.01, "balance": "cost"}
    accuracy, control, seconds, chosen = [], [], [], []
    for split in _splits(name, n_labelled)[:count]:
        scores = [_score(split, _features(name, n_labelled, choice), parameters) for choice in KERNELS]
        chosen.append(KERNELS[int(np.argmax(scores))])
        X = _features(name, n_labelled, chosen[-1])
        found, took = fit(split, X, max_iter=max_iter, **parameters)
        accuracy.append(found)
        seconds.append(took)
        control.append(fit(split, X, C=1.0, C_unlabeled=0.0, balance="cost")[0])
    words = ", ".join(f"{choice} {chosen.count(choice)}x" for choice in dict.fromkeys(chosen))
    return summary(accuracy, control, seconds, chosen=words)


def _score(split: Split, X: Any, parameters: dict[str, Any]) -> float:
    """Cross-validated accuracy on the labelled rows."""
    known, hits = split.labelled, 0
    folds = StratifiedKFold(max(2, min(5, np.bincount(split.truth[known]).min())), shuffle=True, random_state=0)
    for train, test in folds.split(known, split.truth[known]):
        part = Split(X, split.truth, known[train])
        model = SemiSupervisedSVC(**parameters, max_iter=1).fit(X, part.y)
        hits += int((model.transduction_[known[test]] == split.truth[known[test]]).sum())
    return hits / len(known)


def cells(cell: Callable[..., Row], sets: Sequence[str], labels: Sequence[int], iterations: Sequence[int]) -> Any:
    def made(options: Options) -> list[Cell]:
        return [
            Cell(
                f"{name} {n_labelled} labels",
                f"AID{max_iter}",
                f"benchmarks.s3vm:{cell.__name__}",
                {"name": name, "n_labelled": n_labelled, "max_iter": max_iter, "count": 1 if options.quick else None},
                timeout=86_400.0 if options.timeout is None else options.timeout,
                shown={"paper": PAPER.get(n_labelled, {}).get(name)},
            )
            for name, n_labelled, max_iter in itertools.product(sets, labels, iterations)
        ]

    return made


SHOWN = Layout(
    {
        "accuracy": ("accuracy %", "{}"),
        "supervised": ("supervised %", "{}"),
        "paper": ("paper AID5 %", "{}"),
        "cpu": ("CPU s per fit", "{:.2f}"),
        "longest": ("longest", "{:.2f}"),
        "chosen": ("chosen", "{}"),
    }
)
TABLES = [
    Table(name + ending, cell.__doc__.split("\n")[0], cells(cell, SETS, [labels], iterations), SHOWN)
    for ending, labels in (("", 100), ("-10", 10))
    for name, cell, iterations in (("grid", grid, (1, 5)), ("fixed", fixed, (1, 5)), ("kernels", kernels, (5,)))
]
TABLES.append(Table("large", large.__doc__, cells(large, ["SecStr"], (1000, 10_000), (1, 5)), SHOWN))

if __name__ == "__main__":
    main("s3vm", __doc__.split("\n")[0], *TABLES)
