"""Solvers of others that cannot be stopped, within a time limit: ever more steps, as long as another run may fit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Found = TypeVar("Found")

GROWTH = 8
"""Most times the steps of the run before: what those cost is a small part then."""
SHARE = 0.6
"""Part of the time left that a run is expected to take; steps do not all cost the same."""
WORTH = 2.0
"""A run of fewer than so many times the steps before is not worth its beginning."""


@dataclass(frozen=True)
class Reached(Generic[Found]):
    """What was found, and whether there was no time for more."""

    found: Found
    out_of_time: bool


def within(
    deadline: float, run: Callable[[int], tuple[Found, int]], first: int, most: int, unlimited: int | None = None
) -> Reached[Found]:
    """What the longest run has found that a deadline allows; ``run`` returns it with the steps it took.

    A run that took fewer steps than it was allowed is finished. Without a deadline there is one run, of at most
    ``unlimited`` steps (``most`` by default; -1 is no limit to libsvm).
    """
    if math.isinf(deadline):
        return Reached(run(most if unlimited is None else unlimited)[0], False)
    steps = min(first, most)
    while True:
        began = time.monotonic()
        found, taken = run(steps)
        now = time.monotonic()
        pace = max(now - began, 1e-6) / steps
        affordable = int(SHARE * max(deadline - now, 0.0) / pace)
        following = min(GROWTH * steps, affordable, most)
        if taken < steps or steps >= most:
            return Reached(found, False)
        if following < WORTH * steps and following < most:
            return Reached(found, True)
        steps = following
