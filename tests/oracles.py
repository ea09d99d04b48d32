"""Shared oracles: independent solvers of the full problem."""

from __future__ import annotations

import numpy as np
from scipy import optimize


def highs_quantile(X, y, quantile=0.5, weight=None, fit_intercept=True, l1=0.0):
    """Optimal value of the full quantile regression LP, by HiGHS on the primal."""
    n = len(y)
    weight = np.ones(n) if weight is None else np.asarray(weight, dtype=float)
    scale = np.abs(X).max(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    size = max(np.abs(y).max(), 1e-300)
    columns = [X / scale, -X / scale]
    cost = [l1 / scale / size, l1 / scale / size]
    if fit_intercept:
        columns += [np.ones((n, 1)), -np.ones((n, 1))]
        cost += [np.zeros(2)]
    columns += [np.eye(n), -np.eye(n)]
    cost += [quantile * weight, (1 - quantile) * weight]
    answer = optimize.linprog(
        np.concatenate(cost) if l1 == 0 else np.concatenate([c * size if i < 2 else c for i, c in enumerate(cost)]),
        A_eq=np.hstack(columns),
        b_eq=y / size,
        method="highs",
    )
    assert answer.status == 0, answer.message
    return answer.fun * size
