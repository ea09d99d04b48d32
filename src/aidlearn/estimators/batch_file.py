"""The checkpoint of a batch: members evaluated on all rows, with their proven bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aidlearn.engine.checkpoint import Checkpoint, Snapshot
from aidlearn.engine.result import Iteration
from aidlearn.neighbours.batch import Solved
from aidlearn.trace import Profile

PART = "batch"
"""Suffix of the file name."""


@dataclass(frozen=True)
class Saved:
    """Content of a checkpoint of a batch."""

    solved: dict[int, Solved]
    seconds: float
    history: list[Iteration]


@dataclass(frozen=True)
class BatchFile:
    """The file that a batch is saved to, if there is one."""

    checkpoint: Checkpoint | None
    n_members: int

    def save(
        self, solved: Mapping[int, Solved], n_passes: int, seconds: float, history: Sequence[Iteration] = ()
    ) -> None:
        if self.checkpoint is None or not solved:
            return
        numbers = sorted(solved)
        members = [solved[k] for k in numbers]
        profiles = [member.profile for member in members if member.profile is not None]
        nothing = np.empty(0)
        arrays = {
            "members": np.array([self.n_members]),
            "numbers": np.array(numbers),
            "points": np.array([member.point for member in members]),
            "values": np.array([[member.objective, member.lower_bound] for member in members]),
            "clusters": np.array([[m.n_clusters, 0 if m.profile is None else len(m.profile.sizes)] for m in members]),
            "sizes": np.concatenate([nothing.astype(np.int64), *(profile.sizes for profile in profiles)]),
            "distances": np.concatenate([nothing, *(profile.distances for profile in profiles)]),
        }
        self.checkpoint.save(Snapshot(arrays, None, 0.0, False, n_passes, seconds, list(history)))

    def load(self) -> Saved | None:
        saved = None if self.checkpoint is None else self.checkpoint.load()
        if saved is None:
            return None
        arrays, first = saved.arrays, 0
        solved: dict[int, Solved] = {}
        rows = zip(arrays["numbers"], arrays["points"], arrays["values"], arrays["clusters"], strict=True)
        for k, point, (objective, bound), (n_clusters, length) in rows:
            part = slice(first, first + int(length))
            profile = Profile(arrays["sizes"][part], arrays["distances"][part]) if length else None
            solved[int(k)] = Solved(point, float(objective), float(bound), profile, int(n_clusters))
            first += int(length)
        return Saved(solved, saved.seconds, saved.history)
