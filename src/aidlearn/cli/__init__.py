"""The command line: ``aidlearn fit|predict|inspect|resume|report|generate|bench|demo``."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 an error, 2 stopped at a limit with a usable model."""
    try:
        from aidlearn.cli.app import run

        return run(arguments)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("typer", "rich", "click"):
            raise
        sys.stderr.write("Error: The command line needs typer and rich: pip install 'aidlearn[cli]'.\n")
    except KeyboardInterrupt:  # before a command has begun
        sys.stderr.write("Error: Interrupted before there was anything to save; nothing was written.\n")
    return 1
