"""Iterations and passes of fits to many kinds of data, worst over seeds: python -m benchmarks.start.

Each kind imitates a real table that once took many iterations. A seed determines the data and the random state of the
fit. The table shows the worst of all seeds, and the median CPU seconds of one thread. ``--all-rows`` fits the same data
without aggregation (every row is its own cluster), to the same tolerance and with the same proof; it reports the faster
of two fits, one without a starting point and one from the solution.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from aidlearn import LADRegressor, LinearSVC
from aidlearn.engine import Clusters, Start
from aidlearn.linear.problem import PiecewiseLinear
from aidlearn.linear.start.sharpen import all_single

Rng = np.random.Generator
Data = tuple[Any, NDArray[np.float64]]

TOL = 1e-4
"""Certified gap of aidlearn, and stopping tolerance of liblinear."""


def levels(rng: Rng, n: int, k: int, power: float) -> NDArray[np.intp]:
    """Draw levels of a factor whose frequencies fall like a power of their rank, so that some are rare."""
    frequency = 1 / np.arange(1, k + 1) ** power
    return rng.choice(k, size=n, p=frequency / frequency.sum())


def dummies(codes: NDArray[np.intp], k: int) -> sparse.csr_array:
    """Return an indicator column for each level except the first."""
    rows = np.flatnonzero(codes)
    return sparse.csr_array((np.ones(len(rows)), (rows, codes[rows] - 1)), shape=(len(codes), k - 1))


def joined(*blocks: Any) -> sparse.csr_array:
    X = sparse.csr_array(sparse.hstack([sparse.csr_array(block) for block in blocks]))
    X.sort_indices()
    return X


def flights(rng: Rng, n: int, tied: bool = True) -> Data:
    """Draw delays by origin, destination (228 levels each) and carrier, 15 % with a long tail; ``tied`` rounds them."""
    origin, destination, carrier = levels(rng, n, 228, 0.9), levels(rng, n, 228, 0.9), levels(rng, n, 10, 0.5)
    distance = rng.gamma(2.2, 0.33, n)
    effects = (
        4 * rng.normal(size=228)[origin] + 4 * rng.normal(size=228)[destination] + 3 * rng.normal(size=10)[carrier]
    )
    y = -6 + effects + 2 * distance + 8 * rng.standard_t(3, n) + (rng.random(n) < 0.15) * rng.exponential(45, n)
    X = joined(distance[:, None], dummies(origin, 228), dummies(destination, 228), dummies(carrier, 10))
    return X, np.round(y) if tied else y


def shots(rng: Rng, n: int) -> Data:
    """Draw whether a shot scores, by player (480), action (57), zone, teams and season: 650 columns, a weak signal."""
    sizes = (480, 57, 15, 30, 30, 40)
    codes = [levels(rng, n, k, 0.6) for k in sizes]
    distance = rng.gamma(1.6, 8, n)
    score = 0.35 - 0.045 * (distance - 5) + 0.15 * rng.normal(size=480)[codes[0]] + 0.8 * rng.normal(size=57)[codes[1]]
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-score)), 1.0, -1.0)
    return joined(distance[:, None] / 10 - 1.3, *(dummies(c, k) for c, k in zip(codes, sizes, strict=True))), y


def separable(rng: Rng, n: int) -> Data:
    """Draw connections: heavy-tailed counts and services (60 levels) separate the classes except for half a percent."""
    service = levels(rng, n, 60, 1.0)
    counts = rng.lognormal(0, 1.5, size=(n, 20))
    score = 2 * rng.normal(size=60)[service] + np.log(counts) @ rng.normal(size=20)
    y = np.where((score > 0) != (rng.random(n) < 0.005), 1.0, -1.0)
    return joined((counts - counts.mean(axis=0)) / counts.std(axis=0), dummies(service, 60)), y


def rare_class(rng: Rng, n: int) -> Data:
    """Draw incomes: six percent positives, seven factors of 5 to 50 levels and five numbers."""
    sizes = (50, 45, 25, 17, 10, 8, 5)
    codes = [levels(rng, n, k, 0.8) for k in sizes]
    numbers = rng.normal(size=(n, 5))
    score = numbers @ np.array([1.0, 0.5, 0.5, 0.2, 0.0]) + sum(
        rng.normal(size=k)[c] for c, k in zip(codes, sizes, strict=True)
    )
    score = score + rng.logistic(size=n)
    y = np.where(score > np.quantile(score, 0.94), 1.0, -1.0)
    return joined(numbers, *(dummies(c, k) for c, k in zip(codes, sizes, strict=True))), y


def few_columns(rng: Rng, n: int, m: int, positives: float, apart: float, tied: bool) -> Data:
    """Draw a rare class of wider spread and a common one, in few columns; ``tied`` rounds to multiples of a fifth."""
    y = np.where(rng.random(n) < positives, 1.0, -1.0)
    X = rng.normal(size=(n, m)) * (1 + (y > 0)[:, None])
    X[:, :2] += apart * (y > 0)[:, None]
    return np.round(5 * X) / 5 if tied else X, y


def wide_classes(rng: Rng, n: int, m: int) -> Data:
    """Draw Gaussian rows and classes by a linear rule with noise."""
    X = rng.normal(size=(n, m))
    score = X @ rng.normal(size=m) / np.sqrt(m)
    return X, np.where(score + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)


def wide_target(rng: Rng, n: int, m: int) -> Data:
    X = rng.normal(size=(n, m))
    return X, X @ rng.normal(size=m) + rng.laplace(size=n)


def heavy_tails(rng: Rng, n: int) -> Data:
    """Draw columns of infinite variance, whose coefficients single rows determine."""
    X = rng.standard_t(1.5, size=(n, 30))
    return X, X @ rng.normal(size=30) + rng.standard_t(2, n)


def no_density(rng: Rng, n: int) -> Data:
    """Draw residuals of at least 1 in size: none is near its kink, and the median is hardly determined."""
    X = rng.normal(size=(n, 10))
    return X, X @ rng.normal(size=10) + np.where(rng.random(n) < 0.5, 1, -1) * (1 + rng.exponential(size=n))


@dataclass(frozen=True)
class Kind:
    """A generator, its number of rows, and C of the SVM (None for LAD)."""

    draw: Callable[[Rng, int], Data]
    n: int
    C: float | None = None


KINDS = {
    "flights, tied": Kind(flights, 1_000_000),
    "flights, not tied": Kind(lambda rng, n: flights(rng, n, tied=False), 1_000_000),
    "shots": Kind(shots, 220_000, 1.0),
    "nearly separable": Kind(separable, 400_000, 1.0),
    "rare class": Kind(rare_class, 200_000, 1.0),
    "8 columns, rare class": Kind(lambda rng, n: few_columns(rng, n, 8, 0.01, 2.1, True), 400_000, 1.0),
    "3 columns, ties": Kind(lambda rng, n: few_columns(rng, n, 3, 0.1, 0.7, True), 600_000, 1.0),
    "10 columns, separable": Kind(lambda rng, n: few_columns(rng, n, 10, 0.0005, 4.2, False), 250_000, 1.0),
    "wide, classes": Kind(lambda rng, n: wide_classes(rng, n, n // 15), 30_000, 0.1),
    "wide, LAD": Kind(lambda rng, n: wide_target(rng, n, n // 15), 30_000),
    "heavy tails": Kind(heavy_tails, 300_000),
    "no density at the kink": Kind(no_density, 300_000),
}


def timed(model: Any, X: Any, y: NDArray[np.float64]) -> float:
    """Fit a model and return the CPU seconds."""
    began = time.process_time()
    model.fit(X, y)
    return time.process_time() - began


def on_all_rows(fitted: Any, X: Any, y: NDArray[np.float64]) -> float:
    """Return the CPU seconds of a fit whose only aggregated problem is the original one, for the faster of two starts.

    Raises
    ------
    RuntimeError
        If the optimum differs.
    """

    def from_nothing(problem: PiecewiseLinear) -> Start:
        return Start(Clusters.alone(problem))

    def from_solution(problem: PiecewiseLinear) -> Start:
        return all_single(problem, np.append(fitted.coef_, fitted.intercept_ - problem.design.offset))

    seconds = []
    for start in (from_nothing, from_solution):
        whole = clone(fitted)
        whole._start_method = lambda start=start: start  # replaces the start of ``init``
        seconds.append(timed(whole, X, y))
        apart = abs(whole.objective_ - fitted.objective_) / fitted.objective_
        if whole.n_clusters_ != len(y) or whole.gap_ > TOL or apart > TOL:
            raise RuntimeError(f"on all rows: {whole.n_clusters_} clusters, gap {whole.gap_:.1g}, {apart:.1g} apart")
    return min(seconds)


def measure(kind: Kind, seed: int, scale: float, liblinear: bool, all_rows: bool = False) -> dict[str, float]:
    X, y = kind.draw(np.random.default_rng(seed), int(kind.n * scale))
    settings: dict[str, Any] = {"tol": TOL, "n_jobs": 1, "random_state": seed}
    fitted: Any = LADRegressor(**settings) if kind.C is None else LinearSVC(C=kind.C, **settings)
    found = {"cpu": timed(fitted, X, y)}
    found |= {
        "iterations": fitted.n_iter_,
        "passes": fitted.n_passes_,
        "rate": fitted.aggregation_rate_,
        "gap": fitted.gap_,
    }
    if all_rows:
        found["all rows"] = on_all_rows(fitted, X, y)
    if liblinear and kind.C is not None:
        from sklearn.svm import LinearSVC as Peer

        if sparse.issparse(X):
            X = sparse.csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
        peer = Peer(C=kind.C, loss="hinge", tol=TOL, max_iter=1000, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found["liblinear"] = timed(peer, X, y)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of the rows of each kind")
    parser.add_argument("--only", default="", help="only kinds whose name contains this text")
    parser.add_argument(
        "--liblinear", action="store_true", help="compare with scikit-learn's LinearSVC(loss='hinge', tol=1e-4)"
    )
    parser.add_argument("--all-rows", action="store_true", help="compare with aidlearn's solver without aggregation")
    options = parser.parse_args()
    print(f"Worst of {options.seeds} seeds, certified {TOL:g}, one thread; CPU seconds are medians.\n")
    print(
        "| kind | rows | iterations | passes | clusters / rows | CPU s | liblinear / ours | all rows / ours (least) |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, kind in KINDS.items():
        if options.only not in name:
            continue
        measure(kind, 0, options.scale, liblinear=False)  # loads compiled code
        peers = options.liblinear, options.all_rows
        runs = [measure(kind, seed, options.scale, *peers) for seed in range(options.seeds)]
        worst = {key: max(run[key] for run in runs) for key in ("iterations", "passes", "rate", "gap")}
        times = {peer: [run[peer] / run["cpu"] for run in runs if peer in run] for peer in ("liblinear", "all rows")}
        ratios = [f"{np.median(found):.1f}" if found else "" for found in times.values()]
        ratios[-1] += f" ({min(times['all rows']):.1f})" if times["all rows"] else ""
        cpu = float(np.median([run["cpu"] for run in runs]))
        cells = [name, f"{int(kind.n * options.scale):,}", worst["iterations"], worst["passes"], f"{worst['rate']:.3f}"]
        missed = "" if worst["gap"] <= TOL else f" gap {worst['gap']:.1g}"
        print("| " + " | ".join(map(str, [*cells, f"{cpu:.2f}", *ratios])) + " |" + missed, flush=True)


if __name__ == "__main__":
    main()
