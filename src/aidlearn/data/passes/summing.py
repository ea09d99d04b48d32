"""Passes that keep nothing with the chunks: their values are folded in chunk order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from aidlearn.data.passes.run import Run
from aidlearn.data.rows.chunk import Chunk
from aidlearn.numerics import Float

Value = TypeVar("Value")


def fold(run: Run, function: Callable[[Chunk], Value], collect: Callable[[Value], None]) -> None:
    """Call ``collect(function(chunk))`` in chunk order, by one pass."""
    run.map(lambda chunk, state: (function(chunk), None), collect=collect)


def total(run: Run, function: Callable[[Chunk], Float]) -> Float:
    """Sum an array over all chunks, by one pass; the order of the terms is that of the chunks."""
    sums: list[Float] = []

    def collect(part: Float) -> None:
        sums[:] = [sums[0] + part] if sums else [0.0 + part]

    fold(run, function, collect)
    return sums[0]
