"""Checkpoints of a run: written after every iteration, so that a run that was killed goes on where it was.

A checkpoint is a line of JSON (format, version, checksum) and a zip of .npy arrays and JSON: nothing in it is code.
It is written to a temporary file, flushed to the disk and renamed; the one before is kept beside it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from aidlearn.engine.result import Iteration

FORMAT, VERSION = "aidlearn checkpoint", 1
HEADER = 256
"""Bytes of the first line, padded with blanks."""


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


class Checkpoint:
    """Where a run is saved, and what it belongs to.

    Parameters
    ----------
    path : path of the file
    fingerprint : dict of str
        What a saved run must agree with to be continued: names what differs if it does not.
    """

    def __init__(self, path: Any, fingerprint: Mapping[str, str]) -> None:
        self.path, self.fingerprint = Path(path), dict(fingerprint)
        self.previous = self.path.with_name(self.path.name + ".previous")
        self._failed = False

    def save(self, snapshot: Snapshot) -> None:
        """Write the run; a disk that does not take it costs a warning, not the run."""
        temporary = self.path.with_name(self.path.name + ".writing")
        try:
            with open(temporary, "wb") as file:
                _write(file, snapshot, self.fingerprint)
                file.flush()
                os.fsync(file.fileno())
            if self.path.exists():
                os.replace(self.path, self.previous)
            os.replace(temporary, self.path)
            _sync_folder(self.path.parent)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            if not self._failed:
                warnings.warn(
                    f"The checkpoint {self.path} could not be written ({error}); the fit goes on.", stacklevel=2
                )
            self._failed = True

    def load(self) -> Snapshot | None:
        """The saved run, or None if there is none; the one before if the newest is damaged."""
        damaged: list[CheckpointError] = []
        for path in (self.path, self.previous):
            if not path.exists():
                continue
            try:
                snapshot, fingerprint = read(path)
            except CheckpointError as error:
                damaged.append(error)
                continue
            self._compare(path, fingerprint)
            if damaged:
                warnings.warn(f"{damaged[0]} Going on from the one before, {path}.", stacklevel=2)
            return snapshot
        if damaged:
            raise CheckpointError(f"{damaged[0]} There is no other; delete it to start anew.")
        return None

    def _compare(self, path: Path, fingerprint: Mapping[str, str]) -> None:
        for name, value in self.fingerprint.items():
            if fingerprint.get(name) != value:
                was = fingerprint.get(name, "missing")
                raise CheckpointError(
                    f"The checkpoint {path} belongs to another fit: {name} was {was}, now it is {value}. "
                    "Delete it to start anew, or give another file."
                )


def read(path: Path) -> tuple[Snapshot, dict[str, str]]:
    """A checkpoint and the fingerprint of the fit it belongs to."""
    try:
        with open(path, "rb") as file:
            header = _header(file.read(HEADER), path)
            payload = file.read()
    except OSError as error:
        raise CheckpointError(f"The checkpoint {path} cannot be read: {error}.") from None
    if len(payload) != header["bytes"] or hashlib.sha256(payload).hexdigest() != header["sha256"]:
        raise CheckpointError(f"The checkpoint {path} is damaged: its checksum does not agree.")
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        meta = json.loads(archive.read("meta.json"))
        arrays = {
            name[: -len(".npy")]: np.lib.format.read_array(io.BytesIO(archive.read(name)), allow_pickle=False)
            for name in archive.namelist()
            if name.endswith(".npy")
        }
    history = [Iteration(**{k: _from_text(v) for k, v in record.items()}) for record in meta["history"]]
    objective = None if meta["objective"] is None else _from_text(meta["objective"])
    run = (objective, _from_text(meta["lower_bound"]), meta["stalled"], meta["n_passes"], meta["seconds"])
    return Snapshot(arrays, *run, history), meta["fingerprint"]


def _write(file: BinaryIO, snapshot: Snapshot, fingerprint: Mapping[str, str]) -> None:
    file.write(b" " * HEADER)
    hashing = _Hashing(file)
    meta = {
        "fingerprint": dict(fingerprint),
        "objective": None if snapshot.objective is None else _to_text(snapshot.objective),
        "lower_bound": _to_text(snapshot.lower_bound),
        "stalled": snapshot.stalled,
        "n_passes": snapshot.n_passes,
        "seconds": snapshot.seconds,
        "history": [{k: _to_text(v) for k, v in asdict(record).items()} for record in snapshot.history],
    }
    with zipfile.ZipFile(hashing, "w") as archive:  # type: ignore[call-overload]
        archive.writestr("meta.json", json.dumps(meta))
        for name, array in snapshot.arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.ascontiguousarray(array), allow_pickle=False)
    header = {"format": FORMAT, "version": VERSION, "bytes": hashing.size, "sha256": hashing.digest.hexdigest()}
    file.seek(0)
    file.write(json.dumps(header).encode().ljust(HEADER - 1) + b"\n")


def _header(line: bytes, path: Path) -> dict[str, Any]:
    try:
        header = json.loads(line)
        if header["format"] != FORMAT:
            raise KeyError
        version = int(header["version"])
        int(header["bytes"]), str(header["sha256"])
    except (ValueError, KeyError, TypeError):
        raise CheckpointError(f"{path} is not a checkpoint, or its first line is damaged.") from None
    if version != VERSION:
        raise CheckpointError(f"The checkpoint {path} has format version {version}; this version reads {VERSION}.")
    return dict(header)


def _to_text(value: Any) -> Any:
    """Floats to the last bit (JSON has no infinity)."""
    return value.hex() if isinstance(value, float) else value


def _from_text(value: Any) -> Any:
    return float.fromhex(value) if isinstance(value, str) else value


class _Hashing:
    """A file to be written from front to back, with the digest of what was written."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.digest, self.size = file, hashlib.sha256(), 0

    def write(self, data: Any) -> int:
        self.digest.update(data)
        self.size += memoryview(data).nbytes
        return self.file.write(data)

    def flush(self) -> None:
        self.file.flush()


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
