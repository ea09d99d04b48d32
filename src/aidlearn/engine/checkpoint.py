"""Checkpoints of a run: written after every iteration, so that a run that was killed goes on where it was.

A checkpoint is an archive (:mod:`aidlearn.archive`); the one before is kept beside it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from aidlearn import archive
from aidlearn.engine.result import Iteration, StartStep

KIND, VERSION = "aidlearn checkpoint", 3
PREVIOUS = ".previous"
"""Added to the name of a checkpoint, it is that of the one before."""
OLDEST = 2
"""Version that can still be continued: it has dense sums only, as version 3 may have."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be used, and why."""


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
    steps: list[StartStep] = field(default_factory=list)
    plan: Mapping[str, Any] = field(default_factory=dict)
    first_is_last: bool = True
    """What the start has told (see :class:`~aidlearn.engine.problem.Start`)."""


@dataclass(frozen=True)
class Origin:
    """The fit that a checkpoint belongs to."""

    fingerprint: dict[str, str]
    """What a fit must agree with to continue it: names what differs if it does not."""
    recipe: dict[str, Any] | None = None
    """How to make that fit again, where words can say it."""


@dataclass
class Checkpoint:
    """Where a run is saved, and what it belongs to."""

    path: Path
    origin: Origin
    _failed: bool = field(default=False, init=False)

    @property
    def previous(self) -> Path:
        return one_before(self.path)

    def save(self, snapshot: Snapshot) -> None:
        """Write the run; a disk that does not take it costs a warning, not the run."""
        meta = {
            "origin": asdict(self.origin),
            "objective": snapshot.objective,
            "lower_bound": snapshot.lower_bound,
            "stalled": snapshot.stalled,
            "n_passes": snapshot.n_passes,
            "seconds": snapshot.seconds,
            "history": [asdict(record) for record in snapshot.history],
            "start": {
                "steps": [asdict(step) for step in snapshot.steps],
                "plan": dict(snapshot.plan),
                "first_is_last": snapshot.first_is_last,
            },
        }
        try:
            archive.write(self.path, KIND, VERSION, meta, snapshot.arrays, self.previous)
        except OSError as error:
            if not self._failed:
                warnings.warn(
                    f"The checkpoint {self.path} could not be written ({error}); the fit goes on.", stacklevel=2
                )
            self._failed = True

    def load(self) -> Snapshot | None:
        """The saved run, or None if there is none; the one before if the newest is damaged."""
        found = read_newest(self.path)
        if found is None:
            return None
        self._compare(found.path, found.origin.fingerprint)
        if found.damaged is not None:
            warnings.warn(f"{found.damaged} Going on from the one before, {found.path}.", stacklevel=2)
        return found.snapshot

    def _compare(self, path: Path, fingerprint: Mapping[str, str]) -> None:
        for name, value in self.origin.fingerprint.items():
            if fingerprint.get(name) != value:
                if name == "data":
                    raise CheckpointError(
                        f"The checkpoint {path} belongs to a fit of other data: rows, their order, columns, target or "
                        "weights differ. Delete it to start anew, or give another file."
                    )
                was = fingerprint.get(name, "missing")
                raise CheckpointError(
                    f"The checkpoint {path} belongs to another fit: {name} was {was}, now it is {value}. "
                    "Delete it to start anew, or give another file."
                )


@dataclass(frozen=True)
class Found:
    """The newest checkpoint that is whole."""

    path: Path
    snapshot: Snapshot
    origin: Origin
    damaged: CheckpointError | None
    """What is wrong with a newer one."""


def one_before(path: Path) -> Path:
    """Where the checkpoint before the newest is kept."""
    return path.with_name(path.name + PREVIOUS)


def read_newest(path: Path) -> Found | None:
    """The checkpoint, or the one before if it is damaged or was lost; None if there is neither."""
    damaged: CheckpointError | None = None
    for candidate in (path, one_before(path)):
        if not candidate.exists():
            continue
        try:
            return Found(candidate, *read(candidate), damaged)
        except CheckpointError as error:
            damaged = damaged or error
    if damaged is not None:
        raise CheckpointError(f"{damaged} There is no other: give another file, or delete it to start anew.")
    return None


def read(path: Path) -> tuple[Snapshot, Origin]:
    """A checkpoint and the fit it belongs to."""
    try:
        found = archive.read(path, KIND, VERSION)
    except archive.ArchiveError as error:
        raise CheckpointError(str(error)) from None
    if found.version < OLDEST:
        raise CheckpointError(f"The checkpoint {path} is of an older version of aidlearn; delete it to start anew.")
    try:
        return _snapshot(found), Origin(**found.meta["origin"])
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"The checkpoint {path} is incomplete: {error}.") from None


def _snapshot(found: archive.Archive) -> Snapshot:
    meta = found.meta
    start = meta.get("start", {})  # which earlier versions did not save
    return Snapshot(
        found.arrays,
        meta["objective"],
        meta["lower_bound"],
        meta["stalled"],
        meta["n_passes"],
        meta["seconds"],
        [Iteration(**record) for record in meta["history"]],
        [StartStep(**step) for step in start.get("steps", [])],
        start.get("plan", {}),
        start.get("first_is_last", True),
    )
