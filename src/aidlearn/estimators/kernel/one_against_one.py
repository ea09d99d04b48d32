"""Machines of two classes each, laid out and combined as in scikit-learn (one against one)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from aidlearn.estimators.fitting import Fitted
from aidlearn.numerics import Float, Int


@dataclass(frozen=True)
class Plane:
    """A machine of the linear kernel as a hyperplane: scores are ``x'slopes + intercept``."""

    slopes: Float
    intercept: float


@dataclass(frozen=True)
class Machine:
    """The machine of two classes; the second class is positive."""

    fit: Fitted
    rows: Int
    coef: Float
    intercept: float
    plane: Plane | None = None
    """The hyperplane of the linear kernel, whose objective is reported; None for other kernels."""


@dataclass(frozen=True)
class PairLayout:
    """The support vectors of all machines, grouped by class, and their coefficients."""

    support: Int
    n_support: Int
    expansion: Float
    """Coefficients, a column per machine; with several machines, scores are positive for the first class of a pair."""
    intercept: Float
    planes: list[Plane]
    """Hyperplanes of the linear kernel, one per machine."""
    dual_coef: Float
    """``n_classes - 1`` rows: a row of class i has its coefficient against class j in row j, or j - 1 if j > i."""


def pairs_of(n_classes: int) -> list[tuple[int, int]]:
    """List the pairs of classes in scikit-learn's order."""
    return list(combinations(range(n_classes), 2))


def lay_out(machines: list[Machine], codes: Int, n_classes: int) -> PairLayout:
    """Lay out fitted machines, which are in the order of their pairs of classes."""
    sign = 1.0 if n_classes == 2 else -1.0
    support = machines[0].rows  # ascending
    if len(machines) > 1:
        support = np.unique(np.concatenate([machine.rows for machine in machines]))
    support = support[np.argsort(codes[support], kind="stable")]
    of_class = codes[support]
    place = np.full(len(codes), -1)
    place[support] = np.arange(len(support))
    expansion = np.zeros((len(support), len(machines)))
    dual_coef = np.zeros((n_classes - 1, len(support)))
    for k, machine in enumerate(machines):
        expansion[place[machine.rows], k] = sign * machine.coef
    for k, row, here in _blocks(of_class, n_classes):
        dual_coef[row, here] = expansion[here, k]
    return PairLayout(
        support=support.astype(np.int32),
        n_support=np.bincount(of_class, minlength=n_classes).astype(np.int32),
        expansion=expansion,
        intercept=sign * np.array([machine.intercept for machine in machines]),
        planes=[Plane(sign * m.plane.slopes, sign * m.plane.intercept) for m in machines if m.plane is not None],
        dual_coef=dual_coef,
    )


def expansion_of(dual_coef: Float, n_support: Int) -> Float:
    """Return the expansion of a layout from scikit-learn's ``dual_coef_`` and ``n_support_``."""
    n_classes = len(n_support)
    of_class = np.repeat(np.arange(n_classes), n_support)
    expansion = np.zeros((len(of_class), len(pairs_of(n_classes))))
    for k, row, here in _blocks(of_class, n_classes):
        expansion[here, k] = dual_coef[row, here]
    return expansion


def _blocks(of_class: Int, n_classes: int) -> Iterator[tuple[int, int, NDArray[np.bool_]]]:
    """Iterate over both classes of each pair: the machine, the row of ``dual_coef``, the class's support vectors."""
    for k, (first, second) in enumerate(pairs_of(n_classes)):
        yield k, second - 1, of_class == first
        yield k, first, of_class == second


def winners(scores: Float, n_classes: int) -> Int:
    """Return the class that wins most machines, the first one in a tie."""
    votes = np.zeros((scores.shape[0], n_classes))
    for k, (first, second) in enumerate(pairs_of(n_classes)):
        votes[:, first] += scores[:, k] > 0
        votes[:, second] += scores[:, k] <= 0
    return np.asarray(votes.argmax(axis=1), dtype=np.int64)
