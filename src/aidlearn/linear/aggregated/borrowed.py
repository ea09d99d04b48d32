"""A time limit for solvers that cannot be stopped: runs of more and more steps, as long as another one fits."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Found = TypeVar("Found")


@dataclass(frozen=True)
class BorrowedSettings:
    """Numbers of the growing runs of a solver that cannot be stopped."""

    growth: int = 8
    """Maximum factor from the steps of one run to those of the next: earlier runs are then a small part of the time."""
    share: float = 0.6
    """Part of the remaining time that the next run is expected to take; steps do not all cost the same."""
    worth: float = 2.0
    """Least factor from the steps of one run to those of the next: a smaller one does not repay the restart."""


SETTINGS = BorrowedSettings()


@dataclass(frozen=True)
class Attempt(Generic[Found]):
    """The result of the last run, and whether there was no time for another."""

    found: Found
    out_of_time: bool


def within(
    deadline: float, run: Callable[[int], tuple[Found, int]], first: int, most: int, unlimited: int | None = None
) -> Attempt[Found]:
    """The result of the longest run that a deadline allows; ``run`` returns its result and the steps it took.

    A run that took fewer steps than it was allowed is finished. Without a deadline there is one run, of at most
    ``unlimited`` steps (``most`` by default; -1 is no limit to libsvm).
    """
    if math.isinf(deadline):
        return Attempt(run(most if unlimited is None else unlimited)[0], False)
    steps = min(first, most)
    while True:
        began = time.monotonic()
        found, taken = run(steps)
        now = time.monotonic()
        pace = max(now - began, 1e-6) / steps
        affordable = int(SETTINGS.share * max(deadline - now, 0.0) / pace)
        following = min(SETTINGS.growth * steps, affordable, most)
        if taken < steps or steps >= most:
            return Attempt(found, False)
        if following < SETTINGS.worth * steps and following < most:
            return Attempt(found, True)
        steps = following
