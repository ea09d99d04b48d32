"""Outputs of commands: paths that are checked before the work begins, and JSON."""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from aidlearn.cli.errors import CliError

DATA_EXTENSIONS = (".csv", ".tsv", ".parquet", ".pq", ".npy", ".svm", ".svmlight", ".libsvm")


def check_output(path: str, what: str, extensions: Collection[str] = (), inputs: Collection[str] = ()) -> Path:
    """Check that a file can be written, and return its path with links resolved.

    ``extensions`` lists the extensions allowed; without it the file is a model, which may not have one of data.
    """
    given = Path(path)
    if not given.name:
        raise CliError(f"-o {path} is not a file name for the {what}.")
    resolved = Path(os.path.realpath(path))
    if resolved.is_dir():
        raise CliError(f"-o {path} is a folder; name a file for the {what}.")
    if not resolved.parent.is_dir():
        raise CliError(f"-o {path} lies in a folder that does not exist.")
    if resolved.exists() and not resolved.is_file():
        raise CliError(f"-o {path} is a device, not a file.")
    extension = given.suffix.lower()
    if extensions and extension not in extensions:
        found = f"the extension {given.suffix!r}" if given.suffix else "no extension"
        raise CliError(f"-o {path} has {found}; the {what} can be {', '.join(extensions)}.")
    if not extensions and extension in DATA_EXTENSIONS:
        raise CliError(f"-o {path} has an extension of data; call the {what} something like {given.stem}.aid.")
    for name in inputs:
        if name != "-" and os.path.realpath(name) == str(resolved):
            raise CliError(f"-o {path} is the file that is read; give the {what} another name.")
    try:
        with tempfile.TemporaryFile(dir=resolved.parent):
            pass
        if resolved.exists() and not os.access(resolved, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise CliError(f"-o {path} cannot be written: {error.strerror}.") from None
    return resolved


def json_value(value: Any) -> Any:
    """Convert a value for JSON: NumPy values become plain ones, numbers that are not finite become null."""
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    if hasattr(value, "tolist"):  # arrays and numbers of NumPy
        return json_value(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def write_json(value: Any) -> None:
    """Print the result of a command with --json."""
    sys.stdout.write(json.dumps(json_value(value), indent=2, allow_nan=False, ensure_ascii=False) + "\n")
