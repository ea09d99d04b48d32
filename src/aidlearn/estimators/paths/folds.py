"""Rows of a cross-validation, and the corridors in which solutions of folds lie along a path of penalties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aidlearn.data.passes.run import Run
from aidlearn.data.passes.transforms import Folds
from aidlearn.engine.clusters import Clusters
from aidlearn.estimators.linear.coordinates import MeasuredRows
from aidlearn.estimators.linear.template import LinearEstimator
from aidlearn.linear.model.design import Design
from aidlearn.neighbours.corridors import Corridor, Sampled, SampledSolution
from aidlearn.numerics import Float


@dataclass(frozen=True)
class PathSettings:
    """Limits of shared near rows, and the least time of the final fit."""

    doubt: float = 3.0
    """Guess. Near rows allow for this many typical distances between the solutions of a fold and of a sample."""
    merged: float = 1.5
    """Guess. Penalties share near rows if these are at most this many times the near rows of one penalty."""
    few: float = 0.25
    """Guess. Largest fraction of rows near a solution; above it, shared clusters cost less."""
    least_time: float = 1e-3
    """Guess. Time limit in seconds of a hurried final fit, if the points have used up the time."""


SETTINGS = PathSettings()


@dataclass
class FoldRows:
    """Rows of a cross-validation and their measurements."""

    run: Run
    folds: Folds
    measured: MeasuredRows
    """The rows with the weights of the fit on all rows."""
    probe: LinearEstimator
    """Model of these rows, with their classes."""
    n_fits: int
    """Number of classes fitted against the rest."""
    partition: Clusters | None = None
    """Clusters that all folds share, if there are any."""


class Path:
    """Corridors of the solutions of folds along a path of penalties, around those of a sample of all rows."""

    def __init__(self, sampled: Sampled, designs: Sequence[Design], n_folds: int) -> None:
        self.sampled, self.designs, self.n_folds = sampled, designs, n_folds
        self.points: list[Float] = []

    def corridors(self) -> list[Corridor]:
        """Return corridors of near rows; penalties with close solutions share one."""
        found: list[SampledSolution] = []
        for design in self.designs:
            found.append(self.sampled.solution(design, found[-1].point if found else None))
        self.points = [solution.point for solution in found]
        corridors: list[Corridor] = []
        first, most = 0, self.sampled.largest_share(self.n_folds)
        for last in range(len(found)):
            reach = SETTINGS.doubt * max(solution.error for solution in found[first : last + 1])
            share = self.sampled.share(self.designs[first], (self.points[first], self.points[last]), reach)
            alone = self.sampled.share(self.designs[last], (self.points[last],) * 2, SETTINGS.doubt * found[last].error)
            if first < last and share > min(SETTINGS.merged * alone, most):
                first, reach = last, SETTINGS.doubt * found[last].error
            else:
                corridors[len(corridors) - (first < last) :] = []
            numbers = range(first * self.n_folds, (last + 1) * self.n_folds)
            corridors.append(Corridor(numbers, (self.points[first], self.points[last]), reach, reach / SETTINGS.doubt))
        return corridors

    def begin(self, number: int, points: Mapping[int, Float]) -> Float:
        """Return a start from the previous fold and penalty; the first fold moves along the path as the sample does."""
        k, fold = divmod(number, self.n_folds)
        before = number - self.n_folds
        if fold == 0:
            return self.points[k] if k == 0 else points[before] + (self.points[k] - self.points[k - 1])
        return points[number - 1] if k == 0 else points[number - 1] + (points[before] - points[before - 1])
