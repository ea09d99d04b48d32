"""Initial clusters from the user: labels, or a function that makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.rows.arrays import ArraySource
from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.problem import Start
from aidlearn.engine.sums import Assignment
from aidlearn.linear.problem import PiecewiseLinear


def from_labels(labels: Any) -> Callable[[PiecewiseLinear], Start]:
    """A start with the cluster of each entry given."""

    def start(problem: PiecewiseLinear) -> Start:
        return _build(problem, np.asarray(labels))

    return start


def from_callable(function: Callable[[Any, Any], Any]) -> Callable[[PiecewiseLinear], Start]:
    """A start whose labels are ``function(X, y)``."""

    def start(problem: PiecewiseLinear) -> Start:
        source = problem.source
        if not isinstance(source, ArraySource) or source.X is None:
            raise ValueError("init as a callable needs an array or a sparse matrix as X.")
        return _build(problem, np.asarray(function(source.X, source.y)))

    return start


def cluster_codes(labels: NDArray[Any], n: int) -> tuple[NDArray[np.int32], int]:
    """Clusters numbered from 0, and how many there are."""
    if labels.shape != (n,):
        raise ValueError(f"init must give one cluster label per row: expected shape ({n},), got {labels.shape}.")
    names, codes = np.unique(labels, return_inverse=True)
    return codes.astype(np.int32), len(names)


def _build(problem: PiecewiseLinear, labels: NDArray[Any]) -> Start:
    codes, n_clusters = cluster_codes(labels, problem.run.n_entries)

    def assign(chunk: Chunk, state: Any) -> Assignment:
        return Assignment(codes[chunk.start : chunk.stop])

    return Start(Clusters.build(problem, assign, n_clusters)[0])
