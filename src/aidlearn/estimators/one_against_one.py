"""Machines of two classes each, laid out and combined as in scikit-learn (one against one)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from aidlearn.data.source import Float, Int
from aidlearn.engine.result import Result


@dataclass(frozen=True)
class Machine:
    """The fit of two classes: the second is positive."""

    result: Result
    rows: Int
    coef: Float
    intercept: float


@dataclass(frozen=True)
class Layout:
    """The rows in the expansion of any machine, grouped by class, and their coefficients."""

    support: Int
    n_support: Int
    expansion: Float
    """One column per machine; the scores of several machines are positive for their first class."""
    intercept: Float
    dual_coef: Float
    """``n_classes - 1`` rows: a row of class i has its coefficient against class j in row j, or j - 1 if j > i."""


def pairs_of(n_classes: int) -> list[tuple[int, int]]:
    return list(combinations(range(n_classes), 2))


def lay_out(machines: list[Machine], codes: Int, n_classes: int) -> Layout:
    """Fitted machines, in the order of their pairs of classes."""
    sign = 1.0 if n_classes == 2 else -1.0
    support = np.unique(np.concatenate([machine.rows for machine in machines]))
    support = support[np.argsort(codes[support], kind="stable")]
    of_class = codes[support]
    place = np.full(len(codes), -1)
    place[support] = np.arange(len(support))
    expansion = np.zeros((len(support), len(machines)))
    dual_coef = np.zeros((n_classes - 1, len(support)))
    for k, ((first, second), machine) in enumerate(zip(pairs_of(n_classes), machines, strict=True)):
        expansion[place[machine.rows], k] = sign * machine.coef
        for label, row in ((first, second - 1), (second, first)):
            here = of_class == label
            dual_coef[row, here] = expansion[here, k]
    return Layout(
        support=support.astype(np.int32),
        n_support=np.bincount(of_class, minlength=n_classes).astype(np.int32),
        expansion=expansion,
        intercept=sign * np.array([machine.intercept for machine in machines]),
        dual_coef=dual_coef,
    )


def winners(scores: Float, n_classes: int) -> Any:
    """The class that wins most machines, the first of several."""
    votes = np.zeros((scores.shape[0], n_classes))
    for k, (first, second) in enumerate(pairs_of(n_classes)):
        votes[:, first] += scores[:, k] > 0
        votes[:, second] += scores[:, k] <= 0
    return votes.argmax(axis=1)
