"""Targets as they are stored (numbers or texts), counted and coded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_CLASSES = 1000


@dataclass(frozen=True)
class TargetCounts:
    """The different values among some targets, and how often each occurs; or the first one that is none."""

    n_entries: int
    values: list[Any]
    counts: list[int]
    bad: int | None = None
    """Position of the first missing or infinite value."""


def count_targets(target: NDArray[Any]) -> TargetCounts:
    """Count the values of some targets (of more than :data:`MOST_CLASSES`, the first few)."""
    n = len(target)
    bad = np.flatnonzero(~np.isfinite(target) if target.dtype.kind == "f" else [])
    if target.dtype.kind == "O":
        bad = np.flatnonzero([_is_bad(value) for value in target.tolist()])
    if len(bad):
        return TargetCounts(n, [], [], int(bad[0]))
    try:
        values, counts = np.unique(target, return_counts=True)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in target.tolist()})
        raise ValueError(f"The target mixes values that have no order: {' and '.join(kinds)}.") from None
    most = MOST_CLASSES + 1
    return TargetCounts(n, list(values[:most]), [int(count) for count in counts[:most]])


def _is_bad(value: Any) -> bool:
    return value is None or value != value or (isinstance(value, float) and value in (np.inf, -np.inf))


def code(
    target: NDArray[Any],
    weight: NDArray[np.float64],
    classes: NDArray[Any] | None,
    factors: NDArray[np.float64] | None,
    offset: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Targets as numbers (less the offset, or the index of their class) and weights times those of the classes."""
    if classes is None:
        values = np.asarray(target, dtype=np.float64)
        return (values - offset if offset else values), weight
    if target.dtype == object:
        target = np.array(target.tolist())  # texts as texts: comparing objects is slow
    codes = np.minimum(np.searchsorted(classes, target), len(classes) - 1)
    return codes.astype(np.float64), weight if factors is None else weight * factors[codes]
