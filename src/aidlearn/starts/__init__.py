"""Initial clusterings by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from aidlearn.engine.problem import Start
from aidlearn.problems.piecewise import PiecewiseLinear
from aidlearn.starts.band import Band
from aidlearn.starts.given import from_callable, from_labels
from aidlearn.starts.kmeans import birch, kmeans

NAMES = ("auto", "band", "kmeans", "birch")


def start_method(init: Any) -> Callable[[PiecewiseLinear], Start]:
    """The initial clustering that ``init`` asks for."""
    if isinstance(init, str):
        if init in ("auto", "band"):
            return Band()
        if init in ("kmeans", "birch"):
            return {"kmeans": kmeans, "birch": birch}[init]
    elif callable(init):
        return from_callable(init)
    elif np.ndim(init) == 1:
        return from_labels(init)
    raise ValueError(
        f"init must be one of {', '.join(map(repr, NAMES))}, an array of cluster labels or a callable, got {init!r}."
    )
