"""Run the cells of a table, each in a single-threaded process of its own; a crash or timeout becomes a row too."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import aidlearn
from aidlearn.bench.solvers import OURS, Aidlearn
from benchmarks.harness.datasets import DataSet
from benchmarks.harness.peers import interpreter, limits, solvers

LOADING = 600.0
"""Seconds that a process may take in addition to its fits, which have their own limit."""
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One row of a table: a function with JSON arguments that returns a dict of JSON values.

    Parameters
    ----------
    data, solver : str
        First two columns of the table.
    call : str
        Module and function, "module:function".
    arguments : dict
        Arguments of the function.
    timeout : float
        Time limit of the process in seconds.
    own : bool
        Whether the cell measures aidlearn, not a peer.
    slow : bool
        Whether the cell is measured after all others.
    skip : str or None
        Reason why the cell is not measured.
    python : str
        Interpreter of the process.
    shown : dict
        Further values of the row.
    """

    data: str
    solver: str
    call: str
    arguments: dict[str, Any] = field(default_factory=dict)
    timeout: float = 3600.0
    own: bool = True
    slow: bool = False
    skip: str | None = None
    python: str = sys.executable
    shown: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.data}, {self.solver}"


def measured(
    problem: str,
    data: DataSet,
    solver: str = OURS,
    *,
    settings: dict[str, float] | None = None,
    tol: float = 1e-4,
    params: dict[str, Any] | None = None,
    repeat: int = 2,
    timeout: float | None = None,
    **shown: Any,
) -> Cell:
    """Return the cell of one solver on one data set.

    Parameters
    ----------
    problem : str
        Name used by the judge.
    data : DataSet
    solver : str
        One of ``peers.solvers(problem)``.
    settings : dict or None
        Constants of the problem.
    tol : float
        Certified gap of aidlearn; stopping tolerance of peers.
    params : dict or None
        Further parameters of aidlearn's estimator.
    repeat : int
        Number of runs; the fastest counts.
    timeout : float or None
        Time limit of one run in seconds; None means the limit of the solver.
    **shown
        Further values of the row.
    """
    program = solvers(problem)[solver]
    constants = settings or {}
    allowed = limits(problem, solver)
    seconds = allowed.seconds if timeout is None else timeout
    python = interpreter(program)
    return Cell(
        " ".join([data.name, *(f"{key}={value:g}" for key, value in constants.items() if key != "gamma")]),
        solver,
        "benchmarks.harness.process:fit",
        {
            "problem": problem,
            "data": asdict(data),
            "solver": solver,
            "settings": constants,
            "tol": tol,
            "params": params or {},
            "repeat": repeat,
            "timeout": seconds,
        },
        timeout=repeat * seconds + LOADING,
        own=isinstance(program, Aidlearn),
        slow=allowed.slow,
        skip=(program.missing() if python == sys.executable else None) or allowed.too_large(*data.shape),
        python=python,
        shown=shown,
    )


def run(cell: Cell) -> Row:
    """Measure one cell; a crash, a timeout and missing data or programs become rows with the reason."""
    row: Row = {"data": cell.data, "solver": cell.solver, "own": cell.own, "arguments": cell.arguments} | cell.shown
    if cell.skip is not None:
        return row | {"skipped": cell.skip}
    limit = cell.arguments.get("timeout", cell.arguments.get("limit", cell.timeout))
    over = {"failed": f"over {limit:g} s", "cpu_over": limit}
    call = json.dumps({"call": cell.call, "arguments": cell.arguments})
    with _environment(cell.python) as environment:
        try:
            process = subprocess.Popen(
                [cell.python, "-m", "benchmarks.harness.process", call],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        except OSError as error:
            return row | {"skipped": f"the interpreter for peers does not start: {error.strerror}"}
        try:
            written, errors = process.communicate(timeout=cell.timeout)
        except subprocess.TimeoutExpired:
            return row | over
        finally:
            if process.poll() is None:  # together with the programs that it started
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
    if process.returncode in (-signal.SIGALRM, -signal.SIGXCPU):
        return row | over
    lines = written.splitlines()
    if process.returncode != 0 or not lines:
        reason = f"process ended with code {process.returncode}: {errors.strip()[-300:]}"
        return row | {"failed": " ".join(reason.split()).rstrip(":")}
    return row | json.loads(lines[-1])


@contextmanager
def _environment(python: str) -> Iterator[dict[str, str]]:
    """Yield environment variables for one thread; other interpreters get only our packages aidlearn and benchmarks."""
    variables = os.environ | dict.fromkeys(THREADS, "1")
    packages = [Path(aidlearn.__file__).parent, Path(__file__).parents[1]]
    if python == sys.executable:
        places = [*(str(package.parent) for package in packages), os.environ.get("PYTHONPATH", "")]
        yield variables | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
        return
    with tempfile.TemporaryDirectory(prefix="aidlearn-") as name:
        for package in packages:
            (Path(name) / package.name).symlink_to(package)
        yield variables | {"PYTHONPATH": name}


def run_all(cells: Sequence[Cell], jobs: int = 1, done: Callable[[Row], None] | None = None) -> list[Row]:
    """Measure all cells, slow ones last; rows are in the order of the cells.

    Parameters
    ----------
    cells : sequence of Cell
    jobs : int
        Processes at once; use 1 to measure times.
    done : callable or None
        Called with every row once it is measured.
    """
    order = sorted(range(len(cells)), key=lambda k: cells[k].slow)
    rows: list[Row] = [{}] * len(cells)

    def work(k: int) -> int:
        rows[k] = run(cells[k])
        return k

    with ThreadPoolExecutor(jobs) as pool:
        for k in pool.map(work, order) if jobs > 1 else map(work, order):
            if done is not None:
                done(rows[k])
    return rows


def save(row: Row, path: Path) -> None:
    """Append a row as a line of JSON, with the time and the version of Python."""
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"time": time.strftime("%Y-%m-%dT%H:%M:%S"), "python": platform.python_version()}
    with open(path, "a") as file:
        file.write(json.dumps(about | row) + "\n")
