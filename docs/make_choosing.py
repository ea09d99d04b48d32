"""Write the table of times in docs/choosing.md: python docs/make_choosing.py. It takes a few minutes.

CPU seconds of one thread, the second of two fits (the first may load compiled code), on generated data.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_moons

import aidlearn as al

PAGE = Path(__file__).with_name("choosing.md")
START, END = "<!-- times: made by docs/make_choosing.py -->", "<!-- end of times -->"


def regression(n: int, m: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, m))
    return X, X @ rng.normal(size=m) + rng.laplace(size=n)


def classes(n: int, m: int) -> tuple[Any, Any]:
    X, y = regression(n, m)
    return X, y > 0


def half_labelled(n: int, m: int) -> tuple[Any, Any]:
    X, y = make_moons(n, noise=0.15, random_state=0)
    return X, np.where(np.random.default_rng(0).uniform(size=n) < 0.02, y, -1)


def rows_alone(n: int, m: int) -> tuple[Any, Any]:
    return np.abs(regression(n, m)[0]) + 0.1, None


CASES: list[tuple[str, Any, Callable[[int, int], tuple[Any, Any]], list[tuple[int, int]]]] = [
    ("LADRegressor", al.LADRegressor(n_jobs=1), regression, [(10_000, 20), (100_000, 20), (1_000_000, 20), (200_000, 100)]),
    ("QuantileRegressor, 9 quantiles", al.QuantileRegressor(quantile=[k / 10 for k in range(1, 10)], n_jobs=1), regression, [(10_000, 20), (100_000, 20), (1_000_000, 20)]),
    ("LinearSVC", al.LinearSVC(C=0.1, n_jobs=1), classes, [(10_000, 20), (100_000, 20), (1_000_000, 20), (200_000, 100)]),
    ("LinearSVR", al.LinearSVR(epsilon=0.5, n_jobs=1), regression, [(10_000, 20), (100_000, 20), (1_000_000, 20)]),
    ("LinearOneClassSVM", al.LinearOneClassSVM(nu=0.1, n_jobs=1), rows_alone, [(10_000, 20), (100_000, 20)]),
    ("LinearSVCCV, 10 C, 5 folds", al.LinearSVCCV(Cs=10, cv=5, n_jobs=1), classes, [(10_000, 20), (100_000, 20)]),
    ("SVC, rbf", al.SVC(n_jobs=1), classes, [(2_000, 20), (10_000, 20), (20_000, 20)]),
    ("SemiSupervisedSVC, 2 % labels", al.SemiSupervisedSVC(C=1.0, C_unlabeled=0.1, balance="constraint", kernel="graph", n_jobs=1), half_labelled, [(500, 2), (2_000, 2)]),
]  # fmt: skip


def seconds(model: Any, X: Any, y: Any) -> tuple[float, float]:
    for _ in range(2):
        began = time.process_time()
        model.fit(X, y)
        spent = time.process_time() - began
    return spent, float(np.max(model.gap_))


def main() -> None:
    lines = ["| model | rows x columns | CPU seconds | gap |", "|---|---|---|---|"]
    for name, model, data, sizes in CASES:
        for n, m in sizes:
            spent, gap = seconds(model, *data(n, m))
            lines.append(f"| {name} | {n:,} x {m} | {spent:.2g} | {gap:.0e} |")
    text = PAGE.read_text(encoding="utf-8")
    table = "\n".join([START, "", *lines, "", END])
    PAGE.write_text(re.sub(f"{START}.*?{END}", lambda _: table, text, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
