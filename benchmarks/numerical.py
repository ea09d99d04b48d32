"""How often a kernel machine ends `numerical`, by kind of data, kernel and tolerance: python -m benchmarks.numerical.

Such a fit lacks the floating-point precision to prove the requested tolerance. The cases are seeded: run them on two
versions to compare these.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter, defaultdict
from typing import Any

import numpy as np

from aidlearn import SVC, Status

KINDS = ("gaussian", "offset", "scaled", "heavy", "repeated", "whole")
TOLERANCES = (1e-3, 1e-6, 1e-9, 1e-9, 1e-12)
KERNELS = ("rbf", "poly", "linear")


def case(seed: int) -> tuple[dict[str, Any], str, Any, Any]:
    """Draw parameters, kind of data, rows and labels."""
    rng = np.random.default_rng(seed)
    n, m = int(np.exp(rng.uniform(np.log(4), np.log(260)))), int(rng.integers(1, 7))
    kind = KINDS[seed % len(KINDS)]
    X = rng.normal(size=(n, m))
    if kind == "offset":
        X += 10.0 ** rng.uniform(0, 5)
    elif kind == "scaled":
        X *= 10.0 ** rng.uniform(-3, 3, m)
    elif kind == "heavy":
        X = rng.standard_t(1.5, size=(n, m))
    elif kind == "repeated":
        X = X[rng.integers(0, max(2, n // 3), n)]
    elif kind == "whole":
        X = rng.integers(-3, 4, size=(n, m)).astype(float)
    spread = float(X.std(axis=0).max()) or 1.0
    score = (X - X.mean(axis=0)) @ rng.normal(size=m) / spread + 0.7 * rng.normal(size=n)
    y = score > np.median(score)
    if y.all() or not y.any():
        y[0] = not y[0]
    parameters = {
        "kernel": str(rng.choice(KERNELS)),
        "tol": float(rng.choice(TOLERANCES)),
        "C": float(10.0 ** rng.uniform(-2, 3)),
        "init": str(rng.choice(["auto", "band", "kmeans", "rows"])),
        "solver": str(rng.choice(["auto", "smo", "libsvm"])),
        "degree": int(rng.integers(2, 5)),
        "coef0": float(rng.choice([0.0, 1.0])),
        "n_jobs": 1,
    }
    return parameters, kind, X, y


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.numerical", description=__doc__)
    parser.add_argument("--cases", type=int, default=600)
    parser.add_argument("--list", action="store_true", help="the seeds that end so")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    counts: dict[str, Counter[bool]] = defaultdict(Counter)
    began = time.process_time()
    for seed in range(options.cases):
        parameters, kind, X, y = case(seed)
        model = SVC(**parameters).fit(X, y)
        ended = model.status_ is Status.numerical
        for group in ("all", kind, parameters["kernel"], f"tol {parameters['tol']:g}"):
            counts[group][ended] += 1
        if ended and options.list:
            print(seed, kind, f"{len(y)} x {X.shape[1]}", f"gap {model.gap_:.1e}", parameters)
    for group, counted in counts.items():
        print(f"{group:10s} {counted[True]:4d} of {counted.total():4d} numerical")
    print(f"{time.process_time() - began:.0f} s of CPU")


if __name__ == "__main__":
    main()
