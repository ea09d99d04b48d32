"""Entry point of ``python -m aidlearn``, the command line."""

from __future__ import annotations

import sys

from aidlearn.cli import main

if __name__ == "__main__":
    sys.exit(main())
