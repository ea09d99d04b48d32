"""CPU seconds, wall seconds and peak memory of one call."""

from __future__ import annotations

import ctypes
import gc
import resource
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

PATIENCE = 60.0
"""A fit that takes longer (seconds) is not repeated, whichever solver it is."""


@dataclass
class Measured:
    """What one solver did on one data set. Times are the best of the runs, memory is the first run's."""

    coef: Any = None
    intercept: float = 0.0
    cpu: float = float("nan")
    wall: float = float("nan")
    extra_bytes: float = float("nan")
    """Peak resident memory during the fit, minus that with only the data loaded."""
    runs: list[float] = field(default_factory=list)
    """CPU seconds of every run."""
    notes: list[str] = field(default_factory=list)
    """Warnings, as the solver gave them."""
    iterations: int | None = None
    failed: str | None = None
    model: Any = None


def resident(peak: bool = False) -> float:
    """Resident memory of this process in bytes, now or at its peak."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    key = "VmHWM:" if peak else "VmRSS:"
    return 1024.0 * float(status.split(key)[1].split()[0])


def forget_peak() -> float:
    """Return freed memory to the system and restart the peak; gives the resident memory now.

    Where the system cannot restart it, the peak of loading the data counts as loaded data.
    """
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError):
        return resident(peak=True)
    return resident()


def measure(fit: Callable[[], Any], repeat: int) -> Measured:
    """Run ``fit`` up to ``repeat`` times; the model of the last run is kept."""
    out = Measured()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for run in range(repeat):
            out.model = None
            before = forget_peak()
            wall, cpu = time.perf_counter(), time.process_time()
            try:
                out.model = fit()
            except Exception as error:
                out.failed = f"{type(error).__name__}: {error}"
                break
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            if run == 0:
                out.extra_bytes = resident(peak=True) - before
            out.runs.append(cpu)
            out.cpu, out.wall = float(np.fmin(out.cpu, cpu)), float(np.fmin(out.wall, wall))
            if wall > PATIENCE:
                break
    out.notes = sorted({f"{w.category.__name__}: {w.message}" for w in caught})
    return out


def product_seconds(X: np.ndarray, b: np.ndarray, repeat: int = 5) -> float:
    """CPU seconds of one ``X @ b``, best of ``repeat``."""
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        X @ b
        best = min(best, time.process_time() - start)
    return best


def lad_objective(X: np.ndarray, y: np.ndarray, coef: Any, intercept: float) -> float:
    """sum |y - X coef - intercept|: the one function that judges every solver."""
    coef = np.asarray(coef, dtype=float)
    blocks = range(0, len(y), 65_536)
    return float(sum(np.abs(y[i : i + 65_536] - X[i : i + 65_536] @ coef - intercept).sum() for i in blocks))
