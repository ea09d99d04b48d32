"""Iterations and passes on tables drawn at random: python -m benchmarks.random_tables [--cases 200] [--first 0].

No two tables are alike. They have numbers (normal, skewed, heavy-tailed, rounded, copies of others), factors of 2 to
400 levels with flat or steep frequencies, targets with ties, gaps and tails, classes down to one row in three hundred,
and penalties over four decades. Cases that take more than three iterations are listed with a description; a case
depends on its number alone.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn import LADRegressor, LinearSVC, QuantileRegressor
from benchmarks.start import TOL, Rng, dummies, joined, levels

MOST = 3
"""Number of iterations above which a case is listed."""


def numbers(rng: Rng, n: int, words: list[str]) -> NDArray[np.float64]:
    """Draw a few columns of one kind."""
    kind = rng.choice(["normal", "lognormal", "t2", "rounded", "binary", "copies"])
    k = int(rng.integers(1, 12))
    words.append(f"{k} {kind}")
    X = rng.normal(size=(n, k))
    if kind == "lognormal":
        return np.exp(1.5 * X)
    if kind == "t2":
        return X / np.sqrt(rng.chisquare(2, size=(n, k)) / 2)
    if kind == "rounded":
        return np.round(2 * X)
    if kind == "binary":
        return (rng.normal(size=k) < X).astype(float)
    if kind == "copies":
        return X[:, [0]] + 0.01 * X
    return X


def table(rng: Rng, n: int, words: list[str]) -> Any:
    """Draw numeric columns and, for 40 % of the tables, factors."""
    blocks: list[Any] = [numbers(rng, n, words) for _ in range(rng.integers(1, 4))]
    n_factors = int(rng.integers(0, 5)) * int(rng.integers(0, 2))
    for _ in range(n_factors):
        k, power = int(np.exp(rng.uniform(np.log(2), np.log(400)))), float(rng.uniform(0, 1.5))
        words.append(f"{k} levels^{power:.1f}")
        blocks.append(dummies(levels(rng, n, k, power), k))
    return joined(*blocks) if n_factors else np.hstack(blocks)


def effects(rng: Rng, X: Any) -> NDArray[np.float64]:
    """Return the predictions of a random model of the columns, scaled to mean absolute deviation 1."""
    spread = np.sqrt(np.asarray((X.multiply(X) if sparse.issparse(X) else X * X).mean(axis=0)).ravel())
    chosen = rng.random(X.shape[1]) < rng.uniform(0.1, 1.0)
    score = np.asarray(X @ (chosen * rng.normal(size=X.shape[1]) / np.maximum(spread, 0.01)))
    return (score - np.median(score)) / max(float(np.abs(score - np.median(score)).mean()), 1e-9)


def case(number: int, rows: tuple[int, int] = (12_000, 80_000)) -> tuple[Any, NDArray[np.float64], Any, str]:
    """Draw data, a model for them, and a description; the number of rows lies between two limits."""
    rng = np.random.default_rng([7, number])
    n = int(np.exp(rng.uniform(np.log(rows[0]), np.log(rows[1]))))
    words: list[str] = []
    X = table(rng, n, words)
    score = effects(rng, X)
    settings: dict[str, Any] = {"tol": TOL, "n_jobs": 1, "random_state": number}
    if rng.random() < 0.5:
        share, noise = float(np.exp(rng.uniform(np.log(1 / 300), np.log(0.5)))), float(10 ** rng.uniform(-2, 0.5))
        hidden = score + noise * rng.logistic(size=n)
        y = np.where(hidden > np.quantile(hidden, 1 - share), 1.0, -1.0)
        C = float(10 ** rng.uniform(-3, 1))
        model: Any = LinearSVC(C=C, **settings)
        words.append(f"SVM C={C:.2g}, {share:.2%} positive, noise {noise:.2g}")
    else:
        shape = rng.choice(["laplace", "t1", "gap", "rounded", "spread"])
        error = {
            "laplace": lambda: rng.laplace(size=n),
            "t1": lambda: rng.standard_t(1, n),
            "gap": lambda: rng.choice([-1.0, 1.0], n) * (1 + rng.exponential(size=n)),
            "rounded": lambda: rng.normal(size=n),
            "spread": lambda: rng.normal(size=n) * np.exp(np.clip(score, -3, 3)),
        }[str(shape)]()
        y = score + float(10 ** rng.uniform(-1, 0.5)) * error
        y = np.round(4 * y) if shape == "rounded" else y
        q = float(rng.choice([0.5, 0.5, 0.1, 0.95]))
        model = LADRegressor(**settings) if q == 0.5 else QuantileRegressor(quantile=q, alpha=0.0, **settings)
        words.append(f"quantile {q}, {shape} errors")
    return X, y, model, f"{n:,} rows, {X.shape[1]} columns: " + ", ".join(words)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    options = parser.parse_args()
    iterations: Counter[int] = Counter()
    passes, began = [], time.process_time()
    for number in range(options.first, options.first + options.cases):
        X, y, model, words = case(number)
        model.fit(X, y)
        iterations[model.n_iter_] += 1
        passes.append(model.n_passes_)
        if model.n_iter_ > MOST or model.gap_ > TOL:
            print(
                f"{number}: {model.n_iter_} iterations, {model.n_passes_} passes, gap {model.gap_:.1g}; {words}",
                flush=True,
            )
    shares = ", ".join(f"{count} in {number}" for number, count in sorted(iterations.items()))
    print(f"{options.cases} tables, certified {TOL:g}, {time.process_time() - began:.0f} CPU s with their generation.")
    print(f"Iterations: {shares}. Passes: median {np.median(passes):.0f}, at most {max(passes)}.")


if __name__ == "__main__":
    main()
