"""Constraints on the coefficients: ``positive``, ``bounds`` and ``constraints`` as a region of the core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint

from aidlearn.data.rows.source import DataSource
from aidlearn.estimators.checks import check_flag
from aidlearn.linear.constraints import Region
from aidlearn.numerics import Float


def is_constrained(model: Any) -> bool:
    return bool(model.positive) or model.bounds is not None or len(listed(model.constraints)) > 0


def listed(constraints: Any) -> list[Any]:
    """Return the constraints as a list."""
    if constraints is None:
        return []
    return list(constraints) if isinstance(constraints, Sequence) else [constraints]


def check_constraints(model: Any) -> None:
    """Check that constraints are objects of scipy, before any data are touched."""
    check_flag("positive", model.positive)
    if model.bounds is not None and not isinstance(model.bounds, Bounds):
        raise ValueError(
            f"bounds must be a scipy.optimize.Bounds, got {type(model.bounds).__name__}: "
            "Bounds(0, 1) keeps every coefficient between 0 and 1."
        )
    for constraint in listed(model.constraints):
        if not isinstance(constraint, LinearConstraint):
            raise ValueError(
                f"constraints must be scipy.optimize.LinearConstraint objects, got {type(constraint).__name__}: "
                "LinearConstraint(A, lb, ub) keeps A @ coef_ between lb and ub."
            )


def region_of(model: Any, source: DataSource) -> Region | None:
    """Return the feasible region of a model's coefficients (slopes, then the intercept); None if unconstrained.

    Raises
    ------
    ValueError
        If the columns of a constraint are not those of the model, or if no coefficients satisfy all constraints.
    """
    if not is_constrained(model):
        return None
    m = source.n_attributes
    p = m + bool(model.fit_intercept)
    lower, upper = _bounds(model, m, p)
    blocks, low, high = [sparse.csr_array((0, p))], [np.empty(0)], [np.empty(0)]
    names = [f"The coefficient of column {source.column_name(j)}" for j in range(m)]
    names += ["The intercept"] * (p - m)
    given = listed(model.constraints)
    for number, constraint in enumerate(given):
        rows, least, most = _rows(constraint, m, p)
        blocks.append(rows)
        low.append(least)
        high.append(most)
        which = "" if len(given) == 1 else f" of constraints[{number}]"
        names += [f"row {k}{which}" if len(given) > 1 else f"row {k} of constraints" for k in range(rows.shape[0])]
    A = sparse.csr_array(sparse.vstack(blocks, format="csr"))
    return Region.of(lower, upper, A, np.concatenate(low), np.concatenate(high), lambda k: names[k])


def _bounds(model: Any, m: int, p: int) -> tuple[Float, Float]:
    lower, upper = np.full(p, -np.inf), np.full(p, np.inf)
    if model.bounds is not None:
        for ends, values, name in ((lower, model.bounds.lb, "lb"), (upper, model.bounds.ub, "ub")):
            ends[:] = each(values, ends, m, p, f"bounds.{name}", alike=True)
    if model.positive:
        lower[:m] = np.maximum(lower[:m], 0.0)
    return lower, upper


def each(values: Any, default: Float, m: int, p: int, name: str, alike: bool = False) -> Float:
    """Return one number for each variable, from numbers for the coefficients with or without the intercept."""
    given = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if np.isnan(given).any():
        raise ValueError(f"{name} contains NaN; use -inf and inf where there is no bound.")
    if given.shape == (1,) and alike and m != 1:
        given = np.repeat(given, m)
    if given.shape == (p,):
        return given
    if given.shape != (m,):
        also = f", or {p} with that of the intercept" if p > m else ""
        raise ValueError(f"{name} must have {m} numbers, one for each coefficient{also}; got shape {given.shape}.")
    return np.append(given, default[m:])


def _rows(constraint: LinearConstraint, m: int, p: int) -> tuple[Any, Float, Float]:
    """Return the matrix of a constraint on slopes and intercept, and its two sides."""
    matrix = constraint.A
    rows = matrix.tocsr() if sparse.issparse(matrix) else np.atleast_2d(np.asarray(matrix, dtype=np.float64))
    if rows.ndim != 2 or rows.shape[1] not in (m, p):
        also = f" (or {p} with that of the intercept)" if p > m else ""
        raise ValueError(
            f"constraints: A must have {m} columns, one for each coefficient{also}; got shape {rows.shape}."
        )
    rows = sparse.csr_array(rows, dtype=np.float64)
    if not np.isfinite(rows.data).all():
        raise ValueError("constraints: A contains NaN or infinity.")
    if rows.shape[1] < p:
        rows = sparse.csr_array(sparse.hstack([rows, sparse.csr_array((rows.shape[0], 1))], format="csr"))
    sides = []
    for name, side in (("lb", constraint.lb), ("ub", constraint.ub)):
        values = np.atleast_1d(np.asarray(side, dtype=np.float64))
        if np.isnan(values).any():
            raise ValueError(f"constraints: {name} contains NaN; use -inf and inf where there is no limit.")
        if values.shape not in ((1,), (rows.shape[0],)):
            raise ValueError(f"constraints: {name} must have {rows.shape[0]} numbers, got shape {values.shape}.")
        sides.append(np.broadcast_to(values, rows.shape[0]).astype(np.float64))
    return rows, sides[0], sides[1]
