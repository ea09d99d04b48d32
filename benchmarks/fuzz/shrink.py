"""Shrink a finding to fewer rows and columns, and plainer parameters and values, as long as it still fails."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize

from benchmarks.fuzz.cases import Case
from benchmarks.fuzz.checks import check

SECONDS = 60.0
KEPT = (
    *("tol", "gamma", "random_state", "fit_intercept", "C", "init", "kernel", "alpha"),
    *("epsilon", "nu", "kinks", "slopes", "C_unlabeled"),
)
"""Parameters that checks read; they get plain values instead of being left out."""
PLAIN = {
    "tol": 1e-4,
    "gamma": 1.0,
    "random_state": 0,
    "fit_intercept": True,
    "C": 1.0,
    "init": "auto",
    "kernel": "rbf",
    "alpha": 0.0,
}


def kind_of_failure(case: Case) -> str | None:
    """Return the law that breaks or the exception that is raised; None if the case passes."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            check(case, Path(folder))
        except Exception as error:
            name = type(error).__name__
            return str(error).split(":")[0] if name == "Violation" else f"{name}: {str(error)[:40]}"
    return None


def shrunk(case: Case) -> Case:
    """Return the smallest case found that fails in the same way."""
    wanted, until = kind_of_failure(case), time.monotonic() + SECONDS
    going = True
    while going and time.monotonic() < until:
        going = False
        for smaller in _smaller(case):
            if time.monotonic() > until:
                break
            if kind_of_failure(smaller) == wanted:
                case, going = smaller, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    n = len(case.y)
    size = n // 2
    while size >= 1:
        for start in range(0, n, size):
            kept = np.delete(np.arange(n), np.arange(start, min(n, start + size)))
            if len(kept) >= 2:
                yield _rows(case, kept)
        size //= 2
    for k in range(case.X.shape[1] if case.X.shape[1] > 1 else 0):
        yield replace(case, X=np.delete(case.X, k, axis=1))
    if case.weight is not None:
        yield replace(case, weight=None)
    if case.source != "array":
        yield replace(case, source="array")
    for name, value in case.parameters.items():
        if name not in KEPT:
            yield replace(case, parameters={k: v for k, v in case.parameters.items() if k != name})
        elif not isinstance(value, np.ndarray) and value != PLAIN.get(name, value):
            yield replace(case, parameters={**case.parameters, name: PLAIN[name]})
    for digits in (0, 2, 4):
        X = np.round(case.X, digits)
        if not np.array_equal(X, case.X):
            yield replace(case, X=X)


def _rows(case: Case, kept: Any) -> Case:
    given = dict(case.parameters)
    if isinstance(given.get("init"), np.ndarray):
        given["init"] = given["init"][kept]
    weight = None if case.weight is None else case.weight[kept]
    return replace(case, X=case.X[kept], y=case.y[kept], weight=weight, parameters=given)


def script(case: Case, seed: int, failure: str) -> str:
    """Return a self-contained program that shows the finding."""
    return f'''"""Seed {seed}: {failure}"""

import tempfile
from pathlib import Path

from numpy import array, int64, float64, nan, inf  # noqa: F401
from scipy.optimize import Bounds, LinearConstraint  # noqa: F401

from benchmarks.fuzz.cases import Case
from benchmarks.fuzz.checks import check

case = Case(
    {case.estimator!r},
    {_text(case.parameters)},
    {case.kind!r},
    {case.source!r},
    X=array({case.X.tolist()!r}),
    y=array({case.y.tolist()!r}),
    weight={"None" if case.weight is None else f"array({case.weight.tolist()!r})"},
)
with tempfile.TemporaryDirectory() as folder:
    check(case, Path(folder))
'''


def _text(parameters: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{name!r}: {_value(value)}" for name, value in parameters.items()) + "}"


def _value(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"array({value.tolist()!r})"
    if isinstance(value, optimize.Bounds):
        return f"Bounds({value.lb.tolist()}, {value.ub.tolist()})"
    if isinstance(value, optimize.LinearConstraint):
        return f"LinearConstraint({value.A.tolist()}, {value.lb.tolist()}, {value.ub.tolist()})"
    return repr(value)
