"""``make test-minimum``: the lowest versions that pyproject.toml allows, one requirement per line."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

EXTRAS = ("s3vm", "parquet", "plot", "cli", "dask", "formula")
FLOORS = {"pandas": "pandas==2.2.*"}
"""What the tests need beside is not ours to promise; pandas 2.0 and 2.1 have no wheels for the numpy of the floor."""


def lowest(requirement: str) -> str:
    """``name>=1.2,<3`` as ``name==1.2.*``, the newest patch of the lowest version."""
    name, floor = re.match(r"([A-Za-z0-9_.-]+(?:\[[^\]]*\])?)\s*>=\s*([0-9.]+)", requirement).groups()
    return f"{name}=={floor}.*" if floor.count(".") < 2 else f"{name}=={floor}"


def main() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own = [r for extra in EXTRAS for r in project["optional-dependencies"][extra]]
    lines = [lowest(requirement) for requirement in [*project["dependencies"], *own]]
    tests = [r for r in project["optional-dependencies"]["test"] if not r.startswith("aidlearn")]
    tests = [FLOORS.get(re.split(r"[<>=]", r)[0], r) for r in tests]
    sys.stdout.write("\n".join([*lines, *(r for r in tests if not r.startswith("pyarrow"))]) + "\n")


if __name__ == "__main__":
    main()
