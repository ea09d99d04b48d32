"""CPU seconds, wall seconds and peak memory of one fit."""

from __future__ import annotations

import ctypes
import gc
import resource
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from aidlearn.bench.judge import Coefficients

PATIENCE = 60.0
"""Wall seconds above which a fit is not repeated, for every solver."""
UNSEEN = 1e-9
"""Seconds reported if the process clock did not advance, as in a fit of few rows."""


@dataclass
class Measurement:
    """Measurement of one solver on one data set: times of the fastest run, memory of the first."""

    solution: Coefficients | None = None
    cpu: float = float("nan")
    wall: float = float("nan")
    extra_bytes: float = float("nan")
    """Peak resident memory during the fit, minus that with only the data loaded."""
    peak_bytes: float = float("nan")
    """Peak resident memory during the fit."""
    runs: list[float] = field(default_factory=list)
    """CPU seconds of every run."""
    notes: list[str] = field(default_factory=list)
    """Warnings issued by the solver."""
    iterations: int | None = None
    failed: str | None = None
    model: Any = None
    certificate: dict[str, Any] = field(default_factory=dict)
    """Facts that the solver reports about its own result."""

    def add_run(self, cpu: float, wall: float) -> None:
        cpu = max(cpu, UNSEEN)
        self.runs.append(cpu)
        self.cpu, self.wall = float(np.fmin(self.cpu, cpu)), float(np.fmin(self.wall, wall))


def resident(peak: bool = False) -> float:
    """Return the resident memory of this process in bytes, now or at its peak."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    key = "VmHWM:" if peak else "VmRSS:"
    return 1024.0 * float(status.split(key)[1].split()[0])


def forget_peak() -> float:
    """Return freed memory to the system, reset the peak and return the resident memory.

    If the system cannot reset the peak, the peak reached so far is returned.
    """
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError):
        return resident(peak=True)
    return resident()


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """End this process with SIGALRM if the block takes longer: compiled code cannot be stopped otherwise."""
    if seconds is None:
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def touch(n_bytes: int) -> None:
    """Use and free memory: the first use of pages that a virtual machine has reclaimed is many times slower."""
    pages = np.empty(n_bytes, dtype=np.uint8)
    pages[:: resource.getpagesize()] = 1


def measure(fit: Callable[[], Any], repeat: int = 1, timeout: float | None = None, touched: int = 0) -> Measurement:
    """Run a fit and measure it.

    Parameters
    ----------
    fit : callable
        Returns the fitted model; the model of the last run is kept.
    repeat : int
        Maximum number of runs.
    timeout : float or None
        Seconds after which a run ends this process.
    touched : int
        Bytes of memory that are used and freed before every run.
    """
    out = Measurement()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for run in range(repeat):
            out.model = None
            if touched:
                touch(touched)
            before = forget_peak()
            wall, cpu = time.perf_counter(), time.process_time()
            try:
                with time_limit(timeout):
                    out.model = fit()
            except Exception as error:
                out.failed = f"{type(error).__name__}: {error}"
                break
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            if run == 0:
                out.peak_bytes = resident(peak=True)
                out.extra_bytes = out.peak_bytes - before
            out.add_run(cpu, wall)
            if wall > PATIENCE:
                break
    out.notes = sorted({f"{w.category.__name__}: {w.message}" for w in caught})
    return out
