"""The package ships the benchmark code of its own command, and no more."""

import ast
from pathlib import Path

import aidlearn

ROOT = Path(aidlearn.__file__).parent


def imported_from_bench(path):
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    return {node.module.removeprefix("aidlearn.bench.") for node in nodes if node.module.startswith("aidlearn.bench.")}


def test_every_module_is_needed_by_the_command():
    needed, new = set(), imported_from_bench(ROOT / "cli" / "commands" / "bench.py")
    while new:
        needed |= new
        new = set().union(*(imported_from_bench(ROOT / "bench" / f"{name}.py") for name in new)) - needed
    assert needed == {path.stem for path in (ROOT / "bench").glob("*.py")} - {"__init__"}
