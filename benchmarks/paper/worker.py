"""Run a cell in a forked child, which has its own memory and limits but needs no imports."""

from __future__ import annotations

import json
import os
import select
import signal
import time
import traceback
from importlib import import_module
from typing import Any

from benchmarks.harness.cells import Cell, Row
from benchmarks.harness.datasets import DataMissing

CHUNK = 1 << 16


def run(cell: Cell) -> Row:
    """Measure one cell; a crash, a limit and missing data become rows with the reason."""
    row: Row = {"data": cell.data, "solver": cell.solver, "own": cell.own, "arguments": cell.arguments} | cell.shown
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.setsid()  # it can be ended together with the programs it starts
        _answer(cell, writer)
    os.close(writer)
    written, in_time = _read(reader, time.monotonic() + cell.timeout)
    if not in_time:
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    limit = cell.arguments.get("limit", cell.timeout)
    if not in_time or code in (-signal.SIGXCPU, -signal.SIGALRM):
        return row | {"failed": f"over {limit:g} s", "cpu_over": limit}
    if code != 0 or not written:
        return row | {"failed": f"process ended with code {code}"}
    return row | json.loads(written)


def _answer(cell: Cell, writer: int) -> None:
    """Call the function in the child, write its result as JSON and exit."""
    module, _, name = cell.call.partition(":")
    code = 0
    try:
        found = getattr(import_module(module), name)(**cell.arguments)
    except DataMissing as error:
        found = {"skipped": str(error)}
    except BaseException as error:
        found = {"failed": " ".join(f"{type(error).__name__}: {error}".split())[:300], "trace": traceback.format_exc()}
    try:
        text = json.dumps(found, default=_plain).encode()
        for start in range(0, len(text), CHUNK):
            os.write(writer, text[start : start + CHUNK])
    except BaseException:
        code = 1
    os._exit(code)


def _plain(value: Any) -> Any:
    """Convert NumPy scalars to plain numbers."""
    return value.item()


def _read(reader: int, deadline: float) -> tuple[bytes, bool]:
    """Read all bytes until the writer closes the pipe; return them, and whether that was before the deadline."""
    parts = []
    try:
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([reader], [], [], left)[0]:
                return b"".join(parts), False
            part = os.read(reader, CHUNK)
            if not part:
                return b"".join(parts), True
            parts.append(part)
    finally:
        os.close(reader)
