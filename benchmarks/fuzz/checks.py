"""Checks of every fit: bounds enclose the optimum, reported objectives are correct, equivariance laws hold."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fuzz.cases import Case
from benchmarks.fuzz.oracles import objective, oracle

ROUNDING = 1e-9
"""Relative rounding error allowed between enclosures; it grows with the targets if the objective is small."""

ALIKE = 1e4
"""Maximum ratio of column sizes at which columns are mixed by a random matrix."""


class Violation(AssertionError):
    """A law that a fit breaks; the first word of the message names it."""


def check(case: Case, folder: Path, laws: bool = True) -> Any:
    """Fit a case, check everything and return the model; the CPU seconds of the fit are added to ``case.notes``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.process_time()
        model = case.fitted(folder)
        case.notes["seconds"] = time.process_time() - began
        _certificate(case, model)
        _against_oracle(case, model)
        if laws and case.source in ("array", "csr", "frame"):
            _laws(case, model, folder)
    return model


def _fits(model: Any) -> list[tuple[float, float, float, Any]]:
    several = isinstance(model.status_, list)
    parts = [model.objective_, model.lower_bound_, model.gap_, model.status_]
    return list(zip(*parts, strict=True)) if several else [tuple(parts)]


def _certificate(case: Case, model: Any) -> None:
    for value, bound, gap, status in _fits(model):
        if not (np.isfinite(value) and np.isfinite(bound)):
            raise Violation(f"finite: objective {value}, bound {bound}")
        if gap < 0 or bound > value:
            raise Violation(f"order: objective {value!r} below bound {bound!r}, gap {gap}")
        if status.reached_tolerance and status.name in ("gap", "optimal", "certified") and gap > case.parameters["tol"]:
            raise Violation(f"status: {status.name} with a gap of {gap}")
    found = objective(case, model)
    if found is not None:
        truth, below, above = found
        if not truth - below <= model.objective_ <= truth + above:
            raise Violation(
                f"objective: {model.objective_!r} is {truth!r}, allowed {below:.3g} below, {above:.3g} above"
            )
    predicted = model.predict(case.X[:5])
    if predicted.dtype.kind == "f" and not np.isfinite(predicted).all():
        raise Violation("finite: predictions")


def _against_oracle(case: Case, model: Any) -> None:
    fits = _fits(model)
    truth = oracle(case) if len(fits) == 1 else None
    if truth is None:
        return
    [(value, bound, _, status)] = fits
    slack = 1e-6 * abs(truth.high)
    if bound > truth.high + slack:
        raise Violation(f"bound: {bound!r} above the optimum {truth.high!r}")
    if value < truth.low - slack:
        raise Violation(f"value: {value!r} below the optimum {truth.low!r}")
    claims = status.name in ("gap", "optimal", "certified")
    if claims and value > truth.high + case.parameters["tol"] * abs(value) + slack:
        raise Violation(f"optimum: {status.name} at {value!r}, the optimum is {truth.high!r}")


def _laws(case: Case, model: Any, folder: Path) -> None:
    """Check that the enclosures of this problem and of its transformed versions intersect."""
    if case.estimator not in ("LADRegressor", "QuantileRegressor", "LinearSVC") or len(_fits(model)) > 1:
        return
    rng = np.random.default_rng(len(case.y))
    X, y, weight, given = case.X, case.y, case.weight, case.parameters
    regression = case.estimator != "LinearSVC"
    order = rng.permutation(len(y))
    # Columns that differ by 1e-9 lose digits when they are shifted or mixed, and so does a column that is added to one
    # of 1e9 times its size: the result is a different problem.
    exact = case.kind != "collinear"
    sizes = np.abs(X).max(axis=0)
    alike = float(sizes.max()) <= ALIKE * float(sizes[sizes > 0].min(initial=np.inf))
    variants: list[tuple[str, Any, Any, Any, float]] = []
    init = given["init"]
    by_rows = not isinstance(init, str)
    if not by_rows:
        variants.append(("order", X[order], y[order], None if weight is None else weight[order], 1.0))
        times = rng.integers(1, 4, len(y))
        total = times if weight is None else times * weight
        repeated = np.repeat(np.arange(len(y)), times)
        variants.append(("repeated", X[repeated], y[repeated], None if weight is None else weight[repeated], 1.0))
        variants.append(("weights", X, y, total, 1.0))
    if regression and given["alpha"] == 0:
        variants.append(("scale of y", X, y * 1024.0, weight, 1024.0))
        if given["fit_intercept"] and np.abs(y).max() > 0:
            variants.append(("shift of y", X, y + np.abs(y).max(), weight, 1.0))
        variants.append(("columns", X * 2.0 ** rng.integers(-20, 21, X.shape[1]), y, weight, 1.0))
        turn = rng.normal(size=(X.shape[1], X.shape[1]))
        if exact and alike and not given.get("positive") and np.linalg.cond(turn) < 20 and np.abs(X).max() < 1e4:
            variants.append(("turned columns", X @ turn, y, weight, 1.0))
    if exact and given["fit_intercept"] and np.abs(X).max() < 1e3:
        # Shifts are multiples of the columns' sizes: a shift of 1 would cost a column of size 1e-9 half of its digits.
        variants.append(("shift of X", X + rng.integers(-9, 10, X.shape[1]) * sizes, y, weight, 1.0))
    known: dict[str, tuple[float, float]] = {}
    size = float(np.abs(np.asarray(y, dtype=float)).sum() if regression else len(y))
    for name, rows, target, weights, factor in variants:
        other = case.model().fit(rows, target, sample_weight=weights)
        known[name] = (other.lower_bound_ / factor, other.objective_ / factor)
    first = (model.lower_bound_, model.objective_)
    pairs = [(name, first, known[name]) for name in known if name not in ("repeated", "weights")]
    if "weights" in known:
        pairs.append(("repeated rows as weights", known["repeated"], known["weights"]))
    slack = ROUNDING * max(abs(first[1]), 1e-6 * size)
    for name, one, two in pairs:
        if one[0] > two[1] + slack or two[0] > one[1] + slack:
            raise Violation(f"law: {name}: {one} and {two} do not meet")
