"""Folds of cross-validation as weights: a row that a fold leaves out has weight 0."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.passes.resampling import Weights
from aidlearn.numerics import Float


@dataclass(frozen=True)
class Folds(Weights):
    """Training and test rows of each fold; the replicate after the last fold trains on all rows."""

    training: NDArray[np.bool_]
    """Mask (folds x rows) of the training rows."""
    testing: NDArray[np.bool_]
    codes: NDArray[np.integer] | None = None
    """Class of each row, if classes have weights."""
    factors: Float | None = None
    """Weights of the classes in each fold, and last in all rows."""

    @classmethod
    def of(cls, splits: Iterable[tuple[Any, Any]], n_rows: int) -> Folds:
        """Folds from the indices or masks of their rows."""
        training: list[NDArray[np.bool_]] = []
        testing: list[NDArray[np.bool_]] = []
        for train, test in splits:
            for rows, masks in ((train, training), (test, testing)):
                mask = np.zeros(n_rows, dtype=bool)
                try:
                    mask[np.asarray(rows) if len(rows) else slice(0)] = True
                except IndexError as error:
                    raise ValueError(f"cv gives rows that X, which has {n_rows}, does not have: {error}.") from None
                if not mask.any():
                    raise ValueError(f"cv gives a fold without rows to {'train' if masks is training else 'test'} on.")
                masks.append(mask)
        if not training:
            raise ValueError("cv gives no folds.")
        return cls(np.array(training), np.array(testing))

    def weighing(self, weight: Float) -> Folds:
        """Check that every fold trains on a row of positive weight, and that some fold tests on one."""
        for fold, mask in enumerate(self.training):
            if not weight[mask].any():
                raise ValueError(
                    f"Fold {fold} of cv trains on rows of weight 0 only: leave these rows out, or choose other folds."
                )
        if not any(weight[mask].any() for mask in self.testing):
            raise ValueError("All folds of cv are tested on rows of weight 0 only: choose other folds.")
        return self

    @property
    def n(self) -> int:
        return len(self.training)

    @property
    def digest(self) -> str:
        """Digest of the folds."""
        parts = np.packbits(self.training), np.packbits(self.testing)
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()[:16]

    def __call__(self, start: int, stop: int, replicates: Sequence[int]) -> Float:
        out = np.ones((len(replicates), stop - start))
        for row, k in zip(out, replicates, strict=True):
            if k < self.n:
                row[:] = self.training[k, start:stop]
            if self.factors is not None and self.codes is not None:
                row *= self.factors[k][self.codes[start:stop]]
        return out
