"""Constrained fits against solvers of the full problem: python -m benchmarks.constraints [instances|cvar] [--quick].

``instances``: generated models with bounds, equations, redundant and degenerate constraints and elastic nets, against
HiGHS (linear programs) and Clarabel (quadratic ones). ``cvar``: the portfolio of examples/cvar_portfolio.py against
Clarabel and HiGHS's interior point and simplex on the full linear program, CPU seconds of one thread in one run.
"""

from __future__ import annotations

import argparse
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize, sparse

from aidlearn import LADRegressor, LinearSVC, LinearSVR, QuantileRegressor
from benchmarks.full_programs import generated, solve_by_clarabel, solve_by_highs

MODELS: dict[str, Any] = {
    "quantile": QuantileRegressor,
    "lad": LADRegressor,
    "svc": LinearSVC,
    "svr": LinearSVR,
}
SIZES = ((20_000, 20), (200_000, 50))
LARGE = (1_000_000, 50)


def instances(count: int) -> bool:
    """Compare generated models with the full program; return whether all agree to 1e-6 and all bounds hold."""
    worst, highest, farthest, wrong = 0.0, -np.inf, 0.0, []
    kinds: dict[str, int] = {}
    for seed in range(count):
        case = generated(seed)
        solve = solve_by_clarabel if case.program.P.any() else solve_by_highs
        optimum, _ = solve(case.program)
        model = MODELS[case.model](tol=1e-8, **case.parameters).fit(case.X, case.y, case.weight)
        slopes = np.ravel(model.coef_)
        point = np.append(slopes, model.intercept_) if model.fit_intercept else slopes
        size = max(abs(optimum), 1e-9)
        off, above = abs(model.objective_ - optimum) / size, (model.lower_bound_ - optimum) / size
        missed = case.program.violation(point)
        worst, highest, farthest = max(worst, off), max(highest, above), max(farthest, missed)
        for kind in case.kind.split("+"):
            kinds[kind] = kinds.get(kind, 0) + 1
        # Clarabel's optimum is accurate to about 1e-9.
        if off > 1e-6 or above > 1e-8 or missed > 1e-9:
            wrong.append(seed)
            print(f"seed {seed} ({case.model}, {case.kind}): off {off:.1e}, bound {above:+.1e}, missed {missed:.1e}")
    print(f"{count} instances ({', '.join(f'{n} {kind}' for kind, n in sorted(kinds.items()))})")
    print(f"objective off by at most {worst:.1e}, bound above the optimum by at most {max(highest, 0):.1e}", end="")
    print(f" (both relative), constraints missed by at most {farthest:.1e}; {len(wrong)} instances fail")
    return not wrong


def cvar(sizes: Any, time_limit: float) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    example = import_module("cvar_portfolio")
    for n, m in sizes:
        returns = example.scenarios(n, m)
        began = time.process_time()
        model = example.portfolio(returns, tol=1e-6, n_jobs=1)
        ours = time.process_time() - began
        print(
            f"{n:,} x {m}: {ours:.2f} s, CVaR {model.objective_:.10f}, gap {model.gap_:.1e}, "
            f"{model.n_iter_} iteration(s), {model.n_clusters_:,} clusters",
            flush=True,
        )
        if n > 500_000:
            continue
        for method in ("clarabel", "highs-ipm", "highs-ds"):
            began = time.process_time()
            value = full_program(returns, method, time_limit)
            theirs = time.process_time() - began
            shown = f"not done in {time_limit:.0f} s" if value is None else f"{value:.10f}"
            print(f"    {method}: {theirs:.1f} s, {shown}, {theirs / ours:.0f}x", flush=True)


def full_program(returns: Any, method: str, time_limit: float, beta: float = 0.95) -> float | None:
    """Solve Rockafellar and Uryasev's program in weights, value at risk and one excess loss per scenario."""
    n, m = returns.shape
    mean = returns.mean(axis=0)
    cost = np.concatenate([np.zeros(m), [1.0], np.full(n, 1 / ((1 - beta) * n))])
    excess = sparse.hstack([-returns, -np.ones((n, 1)), -sparse.eye_array(n)], format="csc")
    target = sparse.csc_array(np.concatenate([-mean, np.zeros(n + 1)])[None])
    budget = sparse.csc_array(np.concatenate([np.ones(m), np.zeros(n + 1)])[None])
    above, right = sparse.vstack([excess, target], format="csc"), np.append(np.zeros(n), -np.median(mean))
    if method == "clarabel":
        clarabel: Any = import_module("clarabel")
        positive = -sparse.eye_array(m + 1 + n, format="csr")[np.arange(m + 1 + n) != m]
        rows = sparse.vstack([budget, above, positive], format="csc")
        cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(rows.shape[0] - 1)]
        settings = clarabel.DefaultSettings()
        settings.verbose, settings.time_limit = False, time_limit
        ends = np.concatenate([[1.0], right, np.zeros(m + n)])
        found = clarabel.DefaultSolver(sparse.csc_array((m + 1 + n,) * 2), cost, rows, ends, cones, settings).solve()
        return float(found.obj_val) if str(found.status) == "Solved" else None
    answer = optimize.linprog(
        cost,
        A_ub=above,
        b_ub=right,
        A_eq=budget,
        b_eq=[1.0],
        bounds=[*[(0, None)] * m, (None, None), *[(0, None)] * n],
        method=method,
        options={"time_limit": time_limit},
    )
    return float(answer.fun) if answer.status == 0 else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", nargs="?", choices=["instances", "cvar"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--time-limit", type=float, default=1800.0, help="Seconds for HiGHS.")
    options = parser.parse_args()
    if options.table in (None, "instances"):
        instances(30 if options.quick else 200)
    if options.table in (None, "cvar"):
        cvar(SIZES[:1] if options.quick else (*SIZES, LARGE), options.time_limit)


if __name__ == "__main__":
    main()
