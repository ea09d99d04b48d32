"""Machines of two classes each, laid out and combined as in scikit-learn (one against one)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.estimators.fitting import Fitted
from aidlearn.numerics import Float, Int


@dataclass(frozen=True)
class Plane:
    """A machine of the linear kernel in the features themselves: scores are ``x'slopes + intercept``."""

    slopes: Float
    intercept: float


@dataclass(frozen=True)
class Machine:
    """The fit of two classes: the second is positive."""

    fit: Fitted
    rows: Int
    coef: Float
    intercept: float
    plane: Plane | None = None
    """Of the linear kernel only; what is returned, so that its objective is the one reported."""


@dataclass(frozen=True)
class Layout:
    """The rows in the expansion of any machine, grouped by class, and their coefficients."""

    support: Int
    n_support: Int
    expansion: Float
    """One column per machine; the scores of several machines are positive for their first class."""
    intercept: Float
    planes: list[Plane]
    """Of the linear kernel, one per machine."""
    dual_coef: Float
    """``n_classes - 1`` rows: a row of class i has its coefficient against class j in row j, or j - 1 if j > i."""


def pairs_of(n_classes: int) -> list[tuple[int, int]]:
    return list(combinations(range(n_classes), 2))


def lay_out(machines: list[Machine], codes: Int, n_classes: int) -> Layout:
    """Fitted machines, in the order of their pairs of classes."""
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
    return Layout(
        support=support.astype(np.int32),
        n_support=np.bincount(of_class, minlength=n_classes).astype(np.int32),
        expansion=expansion,
        intercept=sign * np.array([machine.intercept for machine in machines]),
        planes=[Plane(sign * m.plane.slopes, sign * m.plane.intercept) for m in machines if m.plane is not None],
        dual_coef=dual_coef,
    )


def expansion_of(dual_coef: Float, n_support: Int) -> Float:
    """The expansion of a layout, from what scikit-learn shows of it."""
    n_classes = len(n_support)
    of_class = np.repeat(np.arange(n_classes), n_support)
    expansion = np.zeros((len(of_class), len(pairs_of(n_classes))))
    for k, row, here in _blocks(of_class, n_classes):
        expansion[here, k] = dual_coef[row, here]
    return expansion


def _blocks(of_class: Int, n_classes: int) -> Iterator[tuple[int, int, NDArray[np.bool_]]]:
    """For both classes of each pair: the machine, the row of ``dual_coef`` and the support vectors of the class."""
    for k, (first, second) in enumerate(pairs_of(n_classes)):
        yield k, second - 1, of_class == first
        yield k, first, of_class == second


def winners(scores: Float, n_classes: int) -> Any:
    """The class that wins most machines, the first of several."""
    votes = np.zeros((scores.shape[0], n_classes))
    for k, (first, second) in enumerate(pairs_of(n_classes)):
        votes[:, first] += scores[:, k] > 0
        votes[:, second] += scores[:, k] <= 0
    return votes.argmax(axis=1)
