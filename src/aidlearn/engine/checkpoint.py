"""Checkpoints of a run: written after every iteration, so that a killed run continues from its last iteration.

A checkpoint is an archive (:mod:`aidlearn.archive`); the previous one is kept in the same folder.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn import archive
from aidlearn.engine.result import Iteration, StartStep

KIND, VERSION = "aidlearn checkpoint", 3
PREVIOUS = ".previous"
"""Suffix of the previous checkpoint."""
OLDEST = 2
"""Oldest version that can still be continued: its sums are dense, which version 3 allows."""


NUMBERS = ("objective", "lower_bound", "stalled", "n_passes", "seconds")
"""Fields of a :class:`Snapshot` that a checkpoint stores under their own names."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be used; the message says why."""


def damaged(what: str) -> CheckpointError:
    """Return the error for a checkpoint whose content cannot be right."""
    return CheckpointError(f"The checkpoint is damaged: {what}. Delete it to start anew, or give another file.")


@dataclass(frozen=True)
class Snapshot:
    """A run between two iterations."""

    arrays: Mapping[str, NDArray[Any]]
    """Labels of all entries, and counts, sums and homes of the clusters; the best point."""
    objective: float | None
    lower_bound: float
    stalled: bool
    n_passes: int
    seconds: float
    history: list[Iteration]
    steps: Sequence[StartStep] = ()
    plan: Mapping[str, Any] = field(default_factory=dict)
    first_is_last: bool = True
    """Value of ``last`` in the :class:`~aidlearn.engine.problem.Start` of the run."""


@dataclass(frozen=True)
class Origin:
    """The fit that a checkpoint belongs to."""

    fingerprint: dict[str, str]
    """Properties, by name, that a fit must share to continue the checkpoint."""
    recipe: dict[str, Any] | None = None
    """Estimator, parameters and source of the fit; None if JSON cannot represent them."""


@dataclass
class Checkpoint:
    """The file that a run is saved to, and the fit it belongs to."""

    path: Path
    origin: Origin
    _failed: bool = field(default=False, init=False)

    def save(self, snapshot: Snapshot) -> None:
        """Write the run; if that fails, warn the user and let the run continue."""
        meta = {
            "origin": asdict(self.origin),
            **{name: getattr(snapshot, name) for name in NUMBERS},
            "history": [asdict(record) for record in snapshot.history],
            "start": {
                "steps": [asdict(step) for step in snapshot.steps],
                "plan": dict(snapshot.plan),
                "first_is_last": snapshot.first_is_last,
            },
        }
        try:
            archive.write(self.path, KIND, VERSION, meta, snapshot.arrays, one_before(self.path))
        except OSError as error:
            if not self._failed:
                warnings.warn(
                    f"The checkpoint {self.path} could not be written ({error}); the fit continues.", stacklevel=2
                )
            self._failed = True

    def load(self) -> Snapshot | None:
        """Return the saved run, the previous one if the newest is damaged, or None if there is no file."""
        found = read_newest(self.path)
        if found is None:
            return None
        self._compare(found.path, found.origin.fingerprint)
        if found.damaged is not None:
            warnings.warn(f"{found.damaged} Continuing from the previous one, {found.path}.", stacklevel=2)
        return found.snapshot

    def _compare(self, path: Path, fingerprint: Mapping[str, str]) -> None:
        for name, value in self.origin.fingerprint.items():
            if fingerprint.get(name) != value:
                was = fingerprint.get(name, "missing")
                reason = f"another fit: {name} was {was}, now it is {value}"
                if name == "data":
                    reason = "a fit of other data: rows, their order, columns, target or weights differ"
                raise CheckpointError(
                    f"The checkpoint {path} belongs to {reason}. Delete it to start anew, or give another file."
                )


@dataclass(frozen=True)
class NewestCheckpoint:
    """The newest checkpoint that is not damaged."""

    path: Path
    snapshot: Snapshot
    origin: Origin
    damaged: CheckpointError | None
    """Error of a newer checkpoint if that one is damaged."""


def one_before(path: Path) -> Path:
    """Return the path of the previous checkpoint."""
    return path.with_name(path.name + PREVIOUS)


def read_newest(path: Path) -> NewestCheckpoint | None:
    """Read the checkpoint, or the previous one if it is damaged or lost; return None if there is neither."""
    damaged: CheckpointError | None = None
    for candidate in (path, one_before(path)):
        if not candidate.exists():
            continue
        try:
            return NewestCheckpoint(candidate, *read(candidate), damaged)
        except CheckpointError as error:
            damaged = damaged or error
    if damaged is not None:
        raise CheckpointError(f"{damaged} There is no other: give another file, or delete it to start anew.")
    return None


def read(path: Path) -> tuple[Snapshot, Origin]:
    """Read a checkpoint and the origin of its fit."""
    try:
        found = archive.read(path, KIND, VERSION)
    except archive.ArchiveError as error:
        raise CheckpointError(str(error)) from None
    if found.version < OLDEST:
        raise CheckpointError(f"The checkpoint {path} is of an older version of aidlearn; delete it to start anew.")
    try:
        return _snapshot(found.meta, found.arrays), archive.record(Origin, found.meta["origin"])
    except KeyError as error:
        raise CheckpointError(f"The checkpoint {path} is incomplete: {error} is missing.") from None
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"The checkpoint {path} is damaged: {error}.") from None


def _snapshot(meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Snapshot:
    start = meta.get("start", {})  # earlier versions did not save it
    if not (isinstance(start, dict) and isinstance(meta["history"], list) and isinstance(start.get("steps", []), list)):
        raise TypeError("its history or its start is not a list of records")
    values = {
        "arrays": arrays,
        "history": [archive.record(Iteration, one) for one in meta["history"]],
        "steps": [archive.record(StartStep, one) for one in start.get("steps", [])],
        "plan": start.get("plan", {}),
        "first_is_last": start.get("first_is_last", True),
        **{name: meta[name] for name in NUMBERS},
    }
    snapshot = archive.record(Snapshot, values)
    if not (0 <= snapshot.seconds < math.inf and snapshot.n_passes >= 0):
        raise ValueError(f"it has run for {snapshot.seconds} seconds and {snapshot.n_passes} passes")
    return snapshot


def saved_array(
    arrays: Mapping[str, NDArray[Any]], name: str, dtype: Any, *shape: int | None, finite: bool = True
) -> NDArray[Any]:
    """Return an array of a checkpoint.

    Raises
    ------
    CheckpointError
        If it is missing, or does not have this type and this shape (None: any length), or is not ``finite``.
    """
    if name not in arrays:
        raise CheckpointError(f"The checkpoint is incomplete: {name} is missing.")
    array = arrays[name]
    fits = array.ndim == len(shape) and all(n in (None, found) for n, found in zip(shape, array.shape, strict=True))
    if not fits or array.dtype != dtype:
        raise damaged(f"{name} is an array of {array.dtype} and shape {array.shape}")
    if finite and not np.isfinite(array).all():
        raise damaged(f"{name} is not finite")
    return array
