"""Semi-supervised SVM: python -m benchmarks.s3vm [--labels 100] [--only NAME] [--fixed | --kernels | --large].

Without an option: AID1 and AID5 with the linear kernel, best over the paper's grid. Best over a grid is chosen with the
labels of the test rows, as in the paper, and says so. The supervised machine (C_unlabeled = 0) stands beside it.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedKFold

from aidlearn import SemiSupervisedSVC
from aidlearn.kernels.graph import graph_features
from benchmarks.harness import save
from benchmarks.ssl_book import Split, splits

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


def grid_cell(task: tuple[str, int, int, int]) -> dict[str, Any]:
    """All parameters of the grid on one split."""
    name, n_labelled, number, max_iter = task
    split = _splits(name, n_labelled)[number]
    found = [
        fit(split, C_unlabeled=C, initial_rate=rate, balance=balance, max_iter=max_iter) for C, rate, balance in GRID
    ]
    control = [fit(split, C_unlabeled=0.0, balance=balance)[0] for balance in ("constraint", "cost")]
    return {"set": name, "l": n_labelled, "split": number, "max_iter": max_iter, "found": found, "control": control}


def fixed_cell(task: tuple[str, int, int, int]) -> dict[str, Any]:
    """The paper's fixed parameters on one split."""
    name, n_labelled, number, max_iter = task
    split = _splits(name, n_labelled)[number]
    balance = FIXED.get(name, "constraint")
    accuracy, seconds = fit(split, C_unlabeled=1.0, initial_rate=0.01, balance=balance, max_iter=max_iter)
    control = fit(split, C_unlabeled=0.0, balance=balance)[0]
    return {"set": name, "l": n_labelled, "split": number, "max_iter": max_iter} | {
        "accuracy": accuracy,
        "seconds": seconds,
        "control": control,
    }


@cache
def _features(name: str, n_labelled: int, choice: tuple[int | None, str, int, float]) -> Any:
    """Features of a kernel: they do not depend on the labels, so all splits share them."""
    components, kernel, neighbors, diffusion = choice
    X = _splits(name, n_labelled)[0].X
    if components is not None:
        X = PCA(components, random_state=0).fit_transform(X.toarray() if hasattr(X, "toarray") else X)
    return X if kernel == "linear" else graph_features(X, neighbors, diffusion).features


def kernel_cell(task: tuple[str, int, int, int]) -> dict[str, Any]:
    """The kernel chosen by cross-validation on the labelled rows of one split; test labels are not used."""
    name, n_labelled, number, max_iter = task
    split = _splits(name, n_labelled)[number]
    known = split.labelled
    folds = min(5, int(np.bincount(split.truth[known]).min()))
    parameters: dict[str, Any] = {"C": 1.0, "C_unlabeled": 0.01, "balance": "cost", "max_iter": 1}
    scores = []
    for choice in KERNELS:
        X = _features(name, n_labelled, choice)
        hits = 0
        for train, test in StratifiedKFold(max(2, folds), shuffle=True, random_state=0).split(
            known, split.truth[known]
        ):
            part = Split(X, split.truth, known[train])
            model = SemiSupervisedSVC(**parameters).fit(X, part.y)
            hits += int((model.transduction_[known[test]] == split.truth[known[test]]).sum())
        scores.append(hits / len(known))
    chosen = KERNELS[int(np.argmax(scores))]
    X = _features(name, n_labelled, chosen)
    accuracy, seconds = fit(split, X, **(parameters | {"max_iter": max_iter}))
    control = fit(split, X, C=1.0, C_unlabeled=0.0, balance="cost")[0]
    return {"set": name, "l": n_labelled, "split": number, "max_iter": max_iter, "chosen": str(chosen)} | {
        "accuracy": accuracy,
        "seconds": seconds,
        "control": control,
    }


def run(cell: Callable[[Any], dict[str, Any]], tasks: Sequence[Any], jobs: int, name: str) -> list[dict[str, Any]]:
    """All cells, in processes, each row saved when it is there."""
    rows = []
    with ProcessPoolExecutor(jobs) as pool:
        for row in pool.map(cell, tasks):
            save([row], name)
            rows.append(row)
    return rows


def mean_and_error(values: Sequence[float]) -> str:
    return f"{100 * np.mean(values):5.1f} +- {100 * np.std(values, ddof=1) / np.sqrt(len(values)):.1f}"


def table(options: argparse.Namespace) -> None:
    """AID1 and AID5, linear kernel, best over the grid (chosen with test labels, as in the paper)."""
    for name in options.sets:
        for max_iter in (1, 5):
            tasks = [(name, options.labels, k, max_iter) for k in range(len(_splits(name, options.labels)))]
            rows = run(grid_cell, tasks, options.jobs, "s3vm-grid")
            found = np.array([row["found"] for row in rows])  # splits x grid x (accuracy, seconds)
            best = int(found[:, :, 0].mean(axis=0).argmax())
            control = np.array([row["control"] for row in rows])
            print(
                f"{name:7s} l={options.labels} AID{max_iter}: {mean_and_error(found[:, best, 0])} at "
                f"C_unlabeled={GRID[best][0]:g}, rate {GRID[best][1]}, {GRID[best][2]} (chosen with test labels); "
                f"supervised {mean_and_error(control[:, control.mean(axis=0).argmax()])}; paper AID5 "
                f"{PAPER[options.labels][name]}; CPU s per fit: mean {found[:, :, 1].mean():.2f}, "
                f"max {found[:, :, 1].max():.2f}",
                flush=True,
            )


def _with_one_parameter_set(options: argparse.Namespace, cell: Any, name: str, iterations: Sequence[int]) -> None:
    for data in options.sets:
        for max_iter in iterations:
            tasks = [(data, options.labels, k, max_iter) for k in range(len(_splits(data, options.labels)))]
            rows = run(cell, tasks, options.jobs, name)
            accuracy, control, seconds = ([row[key] for row in rows] for key in ("accuracy", "control", "seconds"))
            print(
                f"{data:7s} l={options.labels} AID{max_iter}: {mean_and_error(accuracy)}; supervised "
                f"{mean_and_error(control)}; CPU s {np.mean(seconds):.2f}",
                flush=True,
            )
            if "chosen" in rows[0]:
                names, counts = np.unique([row["chosen"] for row in rows], return_counts=True)
                print("        chosen:", ", ".join(f"{n} {c}x" for n, c in zip(names, counts, strict=True)))


def fixed(options: argparse.Namespace) -> None:
    """The paper's fixed parameters."""
    _with_one_parameter_set(options, fixed_cell, "s3vm-fixed", (1, 5))


def kernels(options: argparse.Namespace) -> None:
    """Kernels chosen by cross-validation on labelled rows."""
    _with_one_parameter_set(options, kernel_cell, "s3vm-kernels", (5,))


def large(options: argparse.Namespace) -> None:
    """SecStr, 83,679 x 315, with 1,000 and 10,000 labels: AID1 and AID5 on the first splits."""
    for n_labelled, max_iter in itertools.product((1000, 10_000), (1, 5)):
        found, control = [], []
        for split in _splits("SecStr", n_labelled)[:2]:
            wall = time.perf_counter()
            accuracy, seconds = fit(split, C_unlabeled=0.01, balance="constraint", max_iter=max_iter)
            found.append((accuracy, seconds, time.perf_counter() - wall))
            control.append(fit(split, C_unlabeled=0.0, balance="constraint")[0])
        accuracy, cpu, wall = np.mean(found, axis=0)
        print(
            f"SecStr l={n_labelled} AID{max_iter}: {100 * accuracy:.1f}, CPU {cpu:.1f} s, wall {wall:.1f} s, "
            f"supervised {100 * np.mean(control):.1f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--labels", type=int, default=100, choices=(10, 100))
    parser.add_argument("--only", dest="sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--jobs", type=int, default=1)
    which = parser.add_mutually_exclusive_group()
    for mode in (fixed, kernels, large):
        which.add_argument(f"--{mode.__name__}", dest="mode", action="store_const", const=mode, help=mode.__doc__)
    options = parser.parse_args()
    (options.mode or table)(options)


if __name__ == "__main__":
    main()
