"""Class labels of a source: found by one pass over the targets, then targets are their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight

from aidlearn.data.files import FileSource
from aidlearn.data.source import Chunk, DataSource

MOST_CLASSES = 1000


class CodedSource(DataSource):
    """A source of numbers whose targets become the numbers of their classes."""

    def __init__(self, base: DataSource) -> None:
        self.base = base
        self.n_entries, self.n_attributes, self.n_jobs = base.n_entries, base.n_attributes, base.n_jobs
        self.sequential = base.sequential

    def chunk(self, k: int) -> Chunk:
        return self._coded(self.base.chunk(k))

    def chunks(self) -> Iterator[Chunk]:
        return map(self._coded, self.base.chunks())

    def _coded(self, chunk: Chunk) -> Chunk:
        y, weight = self.coded(chunk.y, chunk.weight)
        return replace(chunk, y=y, weight=weight)

    def column_name(self, column: int) -> str:
        return self.base.column_name(column)

    def row_name(self, row: int) -> str:
        return self.base.row_name(row)


def classified(source: DataSource, class_weight: Any) -> DataSource:
    """The source with classes: ``classes`` is set, targets are codes, weights carry the factors of the classes."""
    stored = source.targets() if isinstance(source, FileSource) else (chunk.y for chunk in source.chunks())
    counts: dict[Any, int] = {}
    row = 0
    for target in stored:
        missing = np.array([value is None or value != value for value in target.tolist()])
        if missing.any():
            raise ValueError(f"Input y contains NaN at row {source.row_name(row + int(np.flatnonzero(missing)[0]))}.")
        for value, count in zip(*np.unique(target, return_counts=True), strict=True):
            counts[value] = counts.get(value, 0) + int(count)
        row += len(target)
        if len(counts) > MOST_CLASSES:
            raise ValueError(
                f"The target has more than {MOST_CLASSES} different values; to predict a number, fit a regression."
            )
    if any(isinstance(value, float) and value != round(value) for value in counts):
        raise ValueError("The target holds numbers with decimals (Unknown label type: continuous); fit a regression.")
    coded = source if isinstance(source, FileSource) else CodedSource(source)
    coded.classes = _whole(np.array(sorted(counts)))
    if class_weight is not None:
        example = np.repeat(coded.classes, 1)
        factors = compute_class_weight(class_weight, classes=coded.classes, y=example)
        if class_weight == "balanced":
            sizes = np.array([counts[value] for value in sorted(counts)])
            factors = sizes.sum() / (len(sizes) * sizes)
        coded.class_factors = np.asarray(factors, dtype=np.float64)
    return coded


def _whole(classes: NDArray[Any]) -> NDArray[Any]:
    """Labels 0.0, 1.0 as 0, 1."""
    if classes.dtype.kind == "f" and (classes == np.round(classes)).all():
        return classes.astype(np.int64)
    return classes
