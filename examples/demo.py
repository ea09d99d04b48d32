"""The main job on generated data: fit, watch the proof close, compare with scikit-learn where it can follow."""

from __future__ import annotations

import time

import numpy as np
from sklearn.linear_model import QuantileRegressor as SklearnQuantile

from aidlearn import Iteration, LADRegressor, QuantileRegressor


def show(record: Iteration) -> None:
    print(
        f"  iteration {record.iteration}: {record.n_clusters:,} clusters ({record.aggregation_rate:.2%} of the rows), "
        f"proven {record.best_lower_bound:,.3f} <= optimum <= {record.best_objective:,.3f}, gap {record.gap:.1e}, "
        f"{record.seconds:.2f} s"
    )


def generate(n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, m))
    return X, X @ rng.standard_normal(m) + 3 + rng.laplace(size=n)


def main() -> None:
    n, m = 1_000_000, 50
    print(f"Generating {n:,} rows x {m} columns ...")
    X, y = generate(n, m)

    print("\nLeast absolute deviation, default start, tolerance 1e-6:")
    started = time.perf_counter()
    model = LADRegressor(tol=1e-6, callbacks=show, n_jobs=-1).fit(X, y)
    print(f"  {model.status_.sentence} ({time.perf_counter() - started:.2f} s, {model.n_passes_} passes)")

    print("\nThe paper's own start (one k-means iteration) on 100,000 of the rows, tolerance 1e-3:")
    LADRegressor(tol=1e-3, init="kmeans", callbacks=show).fit(X[:100_000], y[:100_000])

    print("\nThree quantiles in one call:")
    started = time.perf_counter()
    several = QuantileRegressor(quantile=[0.1, 0.5, 0.9], n_jobs=-1).fit(X, y)
    for quantile, gap, intercept in zip([0.1, 0.5, 0.9], several.gap_, several.intercept_, strict=True):
        print(f"  quantile {quantile}: certified gap {gap:.1e}, intercept {intercept:.3f}")
    print(f"  {time.perf_counter() - started:.2f} s together")

    few = 3000
    print(f"\nAgainst scikit-learn on {few:,} rows (it solves the full linear program):")
    started = time.perf_counter()
    theirs = SklearnQuantile(alpha=0, quantile=0.5).fit(X[:few], y[:few])
    theirs_seconds = time.perf_counter() - started
    started = time.perf_counter()
    ours = QuantileRegressor(quantile=0.5, tol=1e-7).fit(X[:few], y[:few])
    ours_seconds = time.perf_counter() - started
    residual = np.abs(y[:few] - theirs.predict(X[:few])).sum() / 2
    print(f"  scikit-learn {theirs_seconds:.2f} s, objective {residual:.6f}")
    print(f"  aidlearn     {ours_seconds:.2f} s, objective {ours.objective_:.6f}, proven within {ours.gap_:.1e}")


if __name__ == "__main__":
    main()
