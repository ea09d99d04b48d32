"""Initial clusterings by name, and those given by the user as labels or as a function that returns them."""

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
from aidlearn.linear.problem import PiecewiseLinear, StartMethod
from aidlearn.linear.start.paper import birch, kmeans
from aidlearn.linear.start.sharpen import Band

PAPER = ("kmeans", "birch")
"""The paper's initial clusterings, which are used with the paper's splitting rules."""

METHODS: dict[str, Callable[[], StartMethod]] = {
    "auto": Band,
    "band": Band,
    "kmeans": lambda: kmeans,
    "birch": lambda: birch,
}


def start_method(init: Any) -> StartMethod:
    """Return the initial clustering that ``init`` asks for."""
    if isinstance(init, str) and init in METHODS:
        return METHODS[init]()
    if callable(init) or (not isinstance(init, str) and np.ndim(init) == 1):
        return from_labels(init)
    raise ValueError(
        f"init must be one of {', '.join(map(repr, METHODS))}, an array of cluster labels or a callable, got {init!r}."
    )


def from_labels(labels: Any) -> StartMethod:
    """Return a start with given clusters: an array of labels, or a function ``labels(X, y)`` that returns one."""

    def start(problem: PiecewiseLinear) -> Start:
        given = labels
        if callable(labels):
            source = problem.source
            if not isinstance(source, ArraySource) or source.X is None:
                raise ValueError("init as a callable needs an array or a sparse matrix as X.")
            given = labels(source.X, source.y)
        codes, n_clusters = cluster_codes(np.asarray(given), problem.run.n_entries)

        def assign(chunk: Chunk, state: Any) -> Assignment:
            return Assignment(codes[chunk.start : chunk.stop])

        return Start(Clusters.build(problem, assign, n_clusters)[0])

    return start


def cluster_codes(labels: NDArray[Any], n: int) -> tuple[NDArray[np.int32], int]:
    """Return the labels as integers from 0, and the number of clusters."""
    if labels.shape != (n,):
        raise ValueError(f"init must give one cluster label per row: expected shape ({n},), got {labels.shape}.")
    names, codes = np.unique(labels, return_inverse=True)
    return codes.astype(np.int32), len(names)
