"""Class labels of a source: found by one pass over the targets, then targets are their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight

from aidlearn.data.source import Chunk, DataSource
from aidlearn.data.targets import MOST_CLASSES


class CodedSource(DataSource):
    """A source of numbers whose targets become the numbers of their classes."""

    def __init__(self, base: DataSource) -> None:
        self.base = base
        self.n_entries, self.n_attributes, self.n_jobs = base.n_entries, base.n_attributes, base.n_jobs
        self.sequential, self.recipe = base.sequential, base.recipe

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
    counts: dict[Any, int] = {}
    row = 0
    for part in source.target_counts():
        if part.bad is not None:
            raise ValueError(f"Input y contains NaN or infinity at row {source.row_name(row + part.bad)}.")
        for value, count in zip(part.values, part.counts, strict=True):
            counts[value] = counts.get(value, 0) + count
        row += part.n_entries
        if len(counts) > MOST_CLASSES:
            raise ValueError(
                f"The target has more than {MOST_CLASSES} different values; to predict a number, fit a regression."
            )
    if any(isinstance(value, (float, np.floating)) and value != round(value) for value in counts):
        raise ValueError("The target holds numbers with decimals (Unknown label type: continuous); fit a regression.")
    coded = source if source.codes_targets else CodedSource(source)
    classes = _whole(np.array(sorted(counts)))
    factors = None
    if class_weight is not None:
        try:
            factors = np.asarray(compute_class_weight(class_weight, classes=classes, y=classes), dtype=np.float64)
        except ValueError as error:
            raise ValueError(f"class_weight does not fit the classes {classes.tolist()}: {error}") from None
        if class_weight == "balanced":
            sizes = np.array([counts[value] for value in sorted(counts)])
            factors = sizes.sum() / (len(sizes) * sizes)
    coded.set_classes(classes, factors)
    return coded


def _whole(classes: NDArray[Any]) -> NDArray[Any]:
    """Labels 0.0, 1.0 as 0, 1."""
    if classes.dtype.kind == "f" and (classes == np.round(classes)).all():
        return classes.astype(np.int64)
    return classes
