"""Initial clusterings by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from aidlearn.engine.problem import Start
from aidlearn.linear.problem import PiecewiseLinear
from aidlearn.linear.start.paper import birch, kmeans
from aidlearn.linear.start.sharpen import Band
from aidlearn.linear.start.user_labels import from_callable, from_labels

PAPER = ("kmeans", "birch")
"""The paper's own initial clusterings, which are used with its rules of splitting."""

METHODS: dict[str, Callable[[], Callable[[PiecewiseLinear], Start]]] = {
    "auto": Band,
    "band": Band,
    "kmeans": lambda: kmeans,
    "birch": lambda: birch,
}


def start_method(init: Any) -> Callable[[PiecewiseLinear], Start]:
    """The initial clustering that ``init`` asks for."""
    if isinstance(init, str) and init in METHODS:
        return METHODS[init]()
    if callable(init):
        return from_callable(init)
    if not isinstance(init, str) and np.ndim(init) == 1:
        return from_labels(init)
    raise ValueError(
        f"init must be one of {', '.join(map(repr, METHODS))}, an array of cluster labels or a callable, got {init!r}."
    )
