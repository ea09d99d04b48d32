"""Coverage of nominal 95 % intervals in a simulation: ``python -m benchmarks.coverage [--samples N] [--bootstrap N]``.

Rows y = 1 + 2 x1 - x2 + error with n = 2,000 at the median and the 0.9 quantile; the error is iid, heteroscedastic
(its scale grows with x1, so that quantiles are linear in x) or shared by clusters of 20 rows. With ``--quantreg``,
R's standard errors of the same name are computed on the same samples.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from scipy import stats

from aidlearn import QuantileRegressor

N, PER_CLUSTER = 2000, 20
DESIGNS = {
    "iid": ("iid", "nid", "kernel", "bootstrap"),
    "heteroscedastic": ("iid", "nid", "kernel", "bootstrap"),
    "clustered": ("nid", "cluster", "bootstrap"),
}


def sample(design, quantile, rng):
    """Draw X, y, clusters and the true coefficients at a quantile."""
    clusters = np.arange(N) // PER_CLUSTER
    x1 = rng.uniform(0, 2, size=N)
    x2 = rng.normal(size=N // PER_CLUSTER)[clusters] if design == "clustered" else rng.normal(size=N)
    X = np.column_stack([x1, x2])
    error, scale = rng.normal(size=N), np.ones(N)
    if design == "clustered":
        error = (rng.normal(size=N // PER_CLUSTER)[clusters] + error) / np.sqrt(2)
    if design == "heteroscedastic":
        scale = 0.5 + x1
    z = stats.norm.ppf(quantile)
    truth = np.array([1 + 0.5 * z, 2 + z, -1.0]) if design == "heteroscedastic" else np.array([1 + z, 2.0, -1.0])
    return X, 1 + 2 * x1 - x2 + scale * error, clusters, truth


def covered(design, se, quantile, n_samples, seed=0):
    """Return how often the intervals of the coefficients contain the truth."""
    hits = np.zeros(3)
    for k in range(n_samples):
        X, y, clusters, truth = sample(design, quantile, np.random.default_rng([seed, k]))
        model = QuantileRegressor(quantile=quantile, tol=1e-7, n_jobs=1).fit(X, y)
        with_clusters = se == "cluster" or (design == "clustered" and se == "bootstrap")
        summary = model.summary(X, y, se=se, clusters=clusters if with_clusters else None, random_state=k)
        hits += (summary.lower <= truth) & (truth <= summary.upper)
    return hits / n_samples


QUANTREG = {"iid": "iid", "nid": "nid", "kernel": "ker"}
"""Names of the methods in R's quantreg."""


def covered_by_quantreg(design, se, quantile, n_samples, seed=0):
    """Return the coverage of R's ``summary.rq`` on the same samples, with t quantiles."""
    with tempfile.TemporaryDirectory() as folder:
        path, truths = Path(folder) / "samples", []
        with open(path, "wb") as file:
            for k in range(n_samples):
                X, y, _, truth = sample(design, quantile, np.random.default_rng([seed, k]))
                np.concatenate([y, *X.T]).tofile(file)
                truths.append(truth)
        program = Path(__file__).with_suffix(".R")
        call = ["Rscript", program, path, str(N), str(quantile), QUANTREG[se]]
        printed = subprocess.run(call, check=True, capture_output=True, text=True).stdout
    table = np.array([line.split() for line in printed.splitlines()], dtype=float)
    reach = stats.t.ppf(0.975, N - 3) * table[:, 3:]
    return (np.abs(table[:, :3] - truths) <= reach).mean(axis=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--bootstrap", type=int, default=500, help="samples for the bootstrap")
    parser.add_argument("--quantiles", type=float, nargs="+", default=[0.5, 0.9])
    parser.add_argument("--se", nargs="+", help="methods, by default all that a design is made for")
    parser.add_argument("--quantreg", action="store_true", help="compare with R quantreg")
    given = parser.parse_args()
    logging.getLogger("aidlearn").setLevel(logging.WARNING)
    print("| errors | quantile | se | samples | (intercept) | x1 | x2 | 3 binomial s.e. |", flush=True)
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for design, methods in DESIGNS.items():
        for quantile in given.quantiles:
            for se in [se for se in methods if given.se is None or se in given.se]:
                n = given.bootstrap if se == "bootstrap" else given.samples
                found = {se: covered(design, se, quantile, n)}
                if given.quantreg and se in QUANTREG:
                    found[f"R {QUANTREG[se]}"] = covered_by_quantreg(design, se, quantile, n)
                for name, parts in found.items():
                    cells = " | ".join(f"{100 * part:.1f}" for part in parts)
                    reach = 300 * np.sqrt(0.95 * 0.05 / n)
                    print(f"| {design} | {quantile:g} | {name} | {n} | {cells} | {reach:.1f} |", flush=True)


if __name__ == "__main__":
    main()
