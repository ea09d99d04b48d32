"""Model and checkpoint files that commands read."""

from __future__ import annotations

import json
import os
import zipfile
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aidlearn.cli.errors import CliError

if TYPE_CHECKING:
    from aidlearn.engine.checkpoint import NewestCheckpoint


def kind_of_file(path: str) -> str | None:
    """Kind of an archive ("aidlearn model" or "aidlearn checkpoint"); None for any other file."""
    try:
        with zipfile.ZipFile(path) as archive:
            kind = json.loads(archive.read("meta.json")).get("kind")
    except (OSError, KeyError, ValueError, AttributeError, zipfile.BadZipFile):
        return None
    return kind if isinstance(kind, str) else None


def open_model(path: str) -> Any:
    """Load a model; an error says how to finish a checkpoint."""
    from aidlearn import load_model

    if not os.path.exists(path):
        raise CliError(f"There is no file {path}.")
    if os.path.isdir(path):
        raise CliError(f"{path} is a folder, not a model.")
    if kind_of_file(path) == "aidlearn checkpoint":
        raise CliError(f"{path} is a checkpoint, not a model; finish it with: aidlearn resume {path} -o MODEL")
    return load_model(path)


def checkpoint_files(path: str) -> list[Path]:
    """The files of a checkpoint: one, or those of several models (``run.ckpt.batch``, ``run.ckpt.0``, ...).

    A file may be missing or damaged while its predecessor is still there.
    """
    from aidlearn.engine.checkpoint import PREVIOUS, one_before

    given = Path(path)
    if given.is_file() or one_before(given).is_file():
        return [given]
    if not given.parent.is_dir() or not given.name:
        return []
    found = given.parent.glob(f"{escape(given.name)}.*")
    numbered = {p.with_name(p.name.removesuffix(PREVIOUS)) for p in found}
    together = [p for p in numbered if p.suffix == ".batch"]
    return together + sorted((p for p in numbered if p.suffix[1:].isdigit()), key=lambda p: int(p.suffix[1:]))


def read_checkpoints(files: list[Path]) -> list[NewestCheckpoint]:
    """Read the files of a checkpoint; a damaged or missing file is replaced by its predecessor."""
    from aidlearn.engine.checkpoint import read_newest

    return [found for path in files if (found := read_newest(path)) is not None]
