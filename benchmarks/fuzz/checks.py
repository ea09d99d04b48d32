"""Checks of every fit: bounds enclose the optimum, reported objectives are correct, equivariance laws hold."""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import sparse

import aidlearn
from aidlearn.cli import main
from benchmarks.fuzz.cases import Case, named, write
from benchmarks.fuzz.oracles import machine, oracle
from benchmarks.fuzz.programs import stated

CLAIMS = ("gap", "optimal", "certified")
"""Names of the statuses that claim the tolerance."""

ROUNDING = 1e-9
"""Relative rounding error allowed between enclosures; it grows with the targets if the objective is small."""

ALIKE = 1e4
"""Maximum ratio of column sizes at which columns are mixed by a random matrix."""


class Violation(AssertionError):
    """A law that a fit breaks; the first word of the message names it."""


def check(case: Case, folder: Path, laws: bool = True) -> Any:
    """Fit a case, check everything and return the model; the CPU seconds of the fit are added to ``case.notes``.

    The model is None if the problem is unbounded, or if its time limit left nothing to return.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.process_time()
        try:
            model = case.fitted(folder)
        except aidlearn.Unbounded:
            nowhere = SimpleNamespace(coef_=np.zeros(case.X.shape[1]), intercept_=0.0)
            [of] = stated(case, nowhere)
            found = of.solved()
            # Where a solver stops on the way to minus infinity, the objective goes on falling behind its point. The
            # curvature of a singular matrix in its null space is a rounding error.
            if (
                found is not None
                and np.ndim(case.parameters.get("quadratic")) < 2
                and of.exactly(found)[0] <= of.exactly(1e3 * found)[0]
            ):
                raise Violation("unbounded: others find an optimum") from None
            return None
        except TimeoutError:
            if case.parameters.get("time_limit") is None:
                raise
            return None
        case.notes["seconds"] = time.process_time() - began
        _certificate(case, model)
        _against_oracle(case, model)
        if laws:
            _predictions(case, model, folder)
            if case.source in ("array", "csr", "frame"):
                _laws(case, model, folder)
    return model


def _fits(model: Any) -> list[tuple[float, float, float, Any]]:
    several = isinstance(model.status_, list)
    parts = [model.objective_, model.lower_bound_, model.gap_, model.status_]
    return list(zip(*parts, strict=True)) if several else [tuple(parts)]


def _certificate(case: Case, model: Any) -> None:
    limited = case.parameters.get("time_limit") is not None
    for value, bound, gap, status in _fits(model):
        unproven = limited or (status.name == "numerical" and case.parameters.get("linear") is not None)
        if not np.isfinite(value) or not (np.isfinite(bound) or unproven):
            raise Violation(f"finite: objective {value}, bound {bound}")
        if gap < 0 or bound > value:
            raise Violation(f"order: objective {value!r} below bound {bound!r}, gap {gap}")
        if status.name in CLAIMS and gap > case.parameters["tol"]:
            raise Violation(f"status: {status.name} with a gap of {gap}")
    gaps = getattr(model, "gaps_", np.zeros(1))
    if (gaps < 0).any() or not (limited or np.isfinite(gaps).all()):
        raise Violation(f"order: gaps of the points {gaps.tolist()}")
    predicted = model.predict(case.X[:5])
    if predicted.dtype.kind == "f" and not np.isfinite(predicted).all():
        raise Violation("finite: predictions")


def _against_oracle(case: Case, model: Any) -> None:
    fits, programs = _fits(model), stated(case, model)
    case.notes |= {"fits": len(fits), "exact": len(programs), "solved": 0, "weak": 0}
    if not programs:
        kernel = machine(case, model)
        if kernel is not None:
            _belongs(model.objective_, *kernel, 1e-12, rounded_up=True)
        truth = oracle(case) if len(fits) == 1 else None
        if truth is not None:
            case.notes["solved"] = 1
            _encloses(case, fits[0], truth.low, truth.high, 1e-6 * abs(truth.high))
    for fit, of in zip(fits, programs, strict=bool(programs)):
        truth, size = of.exactly()
        relative = 1e-12
        if case.parameters.get("standardize"):
            # Standard deviations have a rounding error of their own: they are differences of sums of squares.
            spread, squares = case.X.std(axis=0), (case.X**2).mean(axis=0)
            relative += 1e-15 * float((squares[spread > 0] / spread[spread > 0] ** 2).max(initial=0.0))
        _belongs(fit[0], truth, size, relative, case.estimator in ("SVC", "SVR"))
        missed = of.missed(of.point)
        if missed > 1e-9:
            raise Violation(f"constraint: missed by {missed}")
        # No point has an objective below the optimum, so that one that is feasible decides, however good it is.
        found = of.solved()
        if found is not None and of.missed(found) <= 1e-8:
            high, _ = of.exactly(found)
            case.notes["solved"] += 1
            case.notes["weak"] += high > truth + 1e-6 * abs(truth) + ROUNDING * size
            free = not len(of.program.low)
            slack = ROUNDING * abs(high) + 1e-13 * size if free else 1e-6 * abs(high) + ROUNDING * size
            slack += relative * size
            if case.estimator != "SemiSupervisedSVC":
                _encloses(case, fit, -np.inf, high, slack)
    if case.estimator == "SemiSupervisedSVC" and (truth := oracle(case)) is not None:
        _encloses(case, fits[0], truth.low, truth.high, 1e-6 * abs(truth.high))


def _belongs(value: float, truth: float, size: float, relative: float, rounded_up: bool = False) -> None:
    """Check that an objective is that of the returned coefficients, up to the rounding of its terms."""
    rounding = 64 * 2.3e-16 * size + relative * (abs(truth) if relative < 1e-11 else size)
    # Losses below their rounding error may be reported as zero; kernel machines round theirs up.
    below, above = 1e-11 * abs(truth) if value > 0 else rounding, rounding
    if rounded_up:
        below, above = rounding, np.inf
    if not truth - max(below, 1e-15 * size, 0.0 if relative < 1e-11 else relative * size) <= value <= truth + above:
        raise Violation(f"objective: {value!r} is {truth!r}, allowed {below:.3g} below, {above:.3g} above")


def _encloses(case: Case, fit: Any, low: float, high: float, slack: float) -> None:
    """Check a fit against the optimum, which lies between two numbers."""
    value, bound, _, status = fit
    if bound > high + slack:
        raise Violation(f"bound: {bound!r} above the optimum {high!r}")
    if value < low - slack:
        raise Violation(f"value: {value!r} below the optimum {low!r}")
    if status.name in CLAIMS and value > high + case.parameters["tol"] * abs(value) + slack:
        raise Violation(f"optimum: {status.name} at {value!r}, the optimum is {high!r}")


def _predictions(case: Case, model: Any, folder: Path) -> None:
    """Check that rows have the same scores in every form, and from the saved model by the command line."""
    method = "decision_function" if hasattr(model, "decision_function") else "predict"
    score = getattr(model, method)
    known = np.asarray(score(case.X))
    size = float(np.abs(known).max()) + 1.0
    if hasattr(model, "coef_"):
        size = float((np.abs(case.X) @ np.abs(np.reshape(model.coef_, (-1, case.X.shape[1]))).T).max()) + size
    forms = {"csr": sparse.csr_array(case.X), "fortran": np.asfortranarray(case.X), "frame": named(case.X)}
    for name, rows in forms.items():
        if np.abs(score(rows) - known).max() > 1e-12 * size:
            raise Violation(f"predict: {name} rows have other scores than arrays")
    kind = ("npy", "csv", "parquet")[len(case.y) % 3]
    rows, model_file, found = folder / f"new.{kind}", folder / "model.aid", folder / "found.npy"
    aidlearn.save_model(model, model_file)
    loaded = aidlearn.load_model(model_file)
    if not np.array_equal(getattr(loaded, method)(case.X), known):
        raise Violation("predict: the saved model has other scores")
    write(case.X, kind, rows)
    scores = ["--scores"] if method == "decision_function" else []
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = main(["predict", str(model_file), str(rows), "-o", str(found), *scores])
    if code != 0:
        raise Violation(f"predict: the command line ends with {code}: {out.getvalue()} {err.getvalue()}")
    if np.abs(np.load(found).reshape(known.shape) - known).max() > 1e-12 * size:
        raise Violation(f"predict: rows of a {kind} file have other scores than arrays")


def _laws(case: Case, model: Any, folder: Path) -> None:
    """Check that the enclosures of this problem and of its transformed versions intersect."""
    if case.estimator not in ("LADRegressor", "QuantileRegressor", "LinearSVC") or len(_fits(model)) > 1:
        return
    if any(case.parameters.get(name) is not None for name in ("bounds", "constraints", "class_weight", "time_limit")):
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
