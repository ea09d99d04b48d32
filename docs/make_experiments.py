"""Put results of ``python -m benchmarks.paper`` into docs/experiments.md: python docs/make_experiments.py FOLDER [FULL].

Between the marks ``<!-- NAME -->`` and ``<!-- end -->`` goes the table of FOLDER/NAME.md with its command and commit, and
between ``<!-- NAME full -->`` and the next end that of the paper's sizes in the other folder; pictures go to docs/images.
Blocks whose results are not there stay as they are.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

PAGE = Path(__file__).parent / "experiments.md"
IMAGES = Path(__file__).parent / "images"
BLOCK = re.compile(r"<!-- (?P<name>[a-z0-9-]+)(?P<full> full)? -->\n.*?<!-- end -->", re.DOTALL)


def block(name: str, folder: Path) -> str | None:
    """The table and the remarks of a result, behind the command that made them."""
    path = folder / f"{name}.md"
    if not path.exists():
        return None
    lines = path.read_text().splitlines()
    command = next(k for k, line in enumerate(lines) if line.startswith("`python -m"))
    commits = lines[command + 1].split(",")[:-1]
    head = f"{lines[command].rstrip(',')}, {', '.join(part.strip() for part in commits)}:"
    body = "\n".join(lines[1:command]).strip()
    return f"{head}\n\n{body}"


def main(folders: list[Path]) -> None:
    """Replace the blocks and copy the pictures."""

    def replaced(match: re.Match[str]) -> str:
        full = bool(match["full"])
        if full and len(folders) < 2:
            return match[0]
        found = block(match["name"], folders[full])
        return match[0] if found is None else f"<!-- {match['name']}{match['full'] or ''} -->\n{found}\n<!-- end -->"

    PAGE.write_text(BLOCK.sub(replaced, PAGE.read_text()))
    for picture in sorted(folders[0].glob("*.png")):
        shutil.copy(picture, IMAGES / f"paper-{picture.name}")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
