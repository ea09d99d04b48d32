"""Expected places of the points of a cross-validation, and the points solved so far."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from aidlearn.data.passes.run import Run
from aidlearn.estimators.batch_file import BatchFile
from aidlearn.estimators.fitting import BatchProgress, tell_batch
from aidlearn.linear.model.design import Design
from aidlearn.neighbours.batch import Solved, better
from aidlearn.neighbours.near_rows import Corridor
from aidlearn.neighbours.sampled_start import Sampled, SampledSolution
from aidlearn.numerics import Float

DOUBT = 3.0
"""Guess. Distance between the solutions of a fold and of a sample that near rows cover, in typical distances."""
MERGED = 1.5
"""Guess. Penalties share near rows if that takes at most this many times the near rows of one."""


class Path:
    """Corridors of the solutions of folds along a path of penalties, around those of a sample of all rows."""

    def __init__(self, sampled: Sampled, designs: Sequence[Design], n_folds: int) -> None:
        self.sampled, self.designs, self.n_folds = sampled, designs, n_folds
        self.points: list[Float] = []

    def corridors(self) -> list[Corridor]:
        """Corridors of near rows; penalties whose solutions are close share one."""
        found: list[SampledSolution] = []
        for design in self.designs:
            found.append(self.sampled.solution(design, found[-1].point if found else None))
        self.points = [solution.point for solution in found]
        corridors: list[Corridor] = []
        first, most = 0, self.sampled.largest_share(self.n_folds)
        for last in range(len(found)):
            reach = DOUBT * max(solution.error for solution in found[first : last + 1])
            share = self.sampled.share(self.designs[first], (self.points[first], self.points[last]), reach)
            alone = self.sampled.share(self.designs[last], (self.points[last],) * 2, DOUBT * found[last].error)
            if first < last and share > min(MERGED * alone, most):
                first, reach = last, DOUBT * found[last].error
            else:
                corridors[len(corridors) - (first < last) :] = []
            numbers = range(first * self.n_folds, (last + 1) * self.n_folds)
            corridors.append(Corridor(numbers, (self.points[first], self.points[last]), reach, reach / DOUBT))
        return corridors

    def begin(self, number: int, points: Mapping[int, Float]) -> Float:
        """Starting point from the previous fold and penalty; the first fold moves along the path as the sample does."""
        k, fold = divmod(number, self.n_folds)
        before = number - self.n_folds
        if fold == 0:
            return self.points[k] if k == 0 else points[before] + (self.points[k] - self.points[k - 1])
        return points[number - 1] if k == 0 else points[number - 1] + (points[before] - points[before - 1])


class PathProgress:
    """Points of a path that are solved: keeps and saves them, and reports their number to callbacks."""

    def __init__(self, callbacks: Sequence[Any], file: BatchFile, run: Run) -> None:
        self.callbacks, self.file, self.run = callbacks, file, run
        self.started, self.solved = time.monotonic(), dict[int, Solved]()
        saved = file.load()
        if saved is not None:
            self.started, self.solved = self.started - saved.seconds, saved.solved

    def left(self, tol: float) -> list[int]:
        """Members whose gap is still open."""
        return [k for k in range(self.file.n_members) if k not in self.solved or not self.solved[k].gap <= tol]

    def __call__(self, found: Mapping[int, Solved]) -> None:
        seen = {k: solved for k, solved in found.items() if math.isfinite(solved.objective)}
        for k, solved in seen.items():
            self.solved[k] = better(self.solved[k], solved) if k in self.solved else solved
        if not seen:
            return
        seconds, worst = time.monotonic() - self.started, max(solved.gap for solved in self.solved.values())
        self.file.save(self.solved, self.run.n_passes, seconds)
        tell_batch(self.callbacks, BatchProgress(len(self.solved), self.file.n_members, worst, seconds))
