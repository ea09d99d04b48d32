"""Fit a problem for an estimator: limits, callbacks, checkpoint, certificate and plots."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint

from aidlearn.data.passes.run import PassProgress
from aidlearn.engine.checkpoint import Checkpoint, Origin, Snapshot
from aidlearn.engine.loop import aid
from aidlearn.engine.problem import Problem
from aidlearn.engine.progress import Callback, Limits, logger
from aidlearn.engine.result import Iteration, Result
from aidlearn.estimators.registry import model_of
from aidlearn.neighbours.batch import Solved
from aidlearn.trace import Draw, Frame, Profile, Trace

FREE_TO_CHANGE = ("max_iter", "time_limit", "n_jobs", "verbose", "callbacks", "checkpoint")
"""Parameters that may change when a fit is continued."""
LATER = {
    "categorical_features": "from_dtype",
    "missing": "error",
    "unknown": "error",
    "standardize": False,
    "warm_start": False,
    "rearrange": False,
    "l1_ratio": 1.0,
    "positive": False,
    "bounds": None,
    "constraints": None,
}
"""Parameters that older checkpoints lack, with the values that match what older versions did."""
BATCH = "batch"
"""Suffix of the checkpoint of a batch."""
RENAMED = {"row_duals": "dual"}
"""Names of parameters in checkpoints, where they differ."""


@dataclass(frozen=True)
class Fitted:
    """The result of a solved problem, with data for plots."""

    result: Result
    profile: Profile | None
    frames: list[Frame]


def fit_problem(
    problem: Problem,
    limits: Limits,
    callbacks: Sequence[Callback],
    draw: Draw | None = None,
    checkpoint: Checkpoint | None = None,
) -> Fitted:
    """Solve a problem; ``draw`` makes a picture of each iteration."""
    trace = None if draw is None else Trace(draw)
    result = aid(problem, limits, callbacks, checkpoint, trace)
    return Fitted(result, Profile.of(result), [] if trace is None else trace.frames)


@dataclass(frozen=True)
class BatchProgress:
    """How far a batch of neighbouring fits has come."""

    done: int
    """Number of certified members."""
    n_members: int
    worst_gap: float
    """Largest gap of the certified members."""
    seconds: float


def listed_callbacks(given: Any, verbose: int) -> list[Any]:
    """Callbacks as a list, with the log that ``verbose`` asks for."""
    listed = [] if given is None else list(given) if isinstance(given, Sequence) else [given]
    return [*listed, IterationLog()] if verbose else listed


def tell(callbacks: Sequence[Any], method: str, *arguments: Any) -> None:
    """Call a method of all callbacks that have it: ``on_fit``, ``on_pass`` or ``on_batch``."""
    for callback in callbacks:
        if hasattr(callback, method):
            getattr(callback, method)(*arguments)


def pass_listener(callbacks: Sequence[Any]) -> Callable[[PassProgress], None] | None:
    """A function that reports progress to all callbacks with a method ``on_pass``; None if there are none."""
    return partial(tell, callbacks, "on_pass") if any(hasattr(one, "on_pass") for one in callbacks) else None


def tell_of_fit(model: Any, callbacks: Sequence[Any], n_rows: int) -> None:
    """Report the model, tolerance, rows and number of fits to callbacks with a method ``on_fit``."""
    declared = model_of(model)
    n_fits = len(declared.fit_names(model, getattr(model, "classes_", ()))) if declared else 1
    tell(callbacks, "on_fit", type(model).__name__, model.tol, n_rows, n_fits)


def checkpoint_of(
    model: Any, recipe: dict[str, Any] | None, digest: str, number: int | str | None, **also: str
) -> Checkpoint | None:
    """The checkpoint of a model (the ``number``-th of several, or a named part), with its fingerprint."""
    if model.checkpoint is None:
        return None
    parameters = {name: value for name, value in model.get_params().items() if name not in FREE_TO_CHANGE}
    name = type(model).__name__
    told = {key: value for key, value in parameters.items() if not (key in LATER and _same(value, LATER[key]))}
    described = {RENAMED.get(key, key): _described(value) for key, value in told.items()}
    fingerprint = {"model": name, "number": str(number), "data": digest, **described, **also}
    source = model.rows_from if recipe is None else recipe
    origin: dict[str, Any] | None = {"estimator": name, "parameters": parameters, "source": source}
    try:
        json.dumps(origin)
    except TypeError:
        origin = None  # a callable or an array among the parameters
    path = Path(model.checkpoint)
    path = path if number is None else path.with_name(f"{path.name}.{number}")
    return Checkpoint(path, Origin(fingerprint, origin))


def _same(value: Any, other: Any) -> bool:
    return type(value) is type(other) and bool(value == other)


def _described(value: Any) -> str:
    """A parameter as text that changes with its value."""
    if isinstance(value, Bounds):
        return f"bounds from {_described(np.asarray(value.lb))} to {_described(np.asarray(value.ub))}"
    if isinstance(value, LinearConstraint):
        matrix = value.A.toarray() if sparse.issparse(value.A) else np.asarray(value.A)
        return f"constraint of {', '.join(_described(np.asarray(part)) for part in (matrix, value.lb, value.ub))}"
    if isinstance(value, list):
        return f"[{', '.join(map(_described, value))}]"
    if isinstance(value, np.ndarray):
        return f"array of digest {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]}"
    return getattr(value, "__qualname__", None) or repr(value)


class IterationLog:
    """Callback behind ``verbose``: a line per iteration, and one every few seconds of a long pass."""

    EVERY = 2.0
    """Seconds between two lines about the same pass."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        if not logger.handlers and not logging.getLogger().handlers:
            logger.addHandler(logging.StreamHandler())
            logger.setLevel(logging.INFO)

    def __call__(self, record: Iteration) -> None:
        logger.info(
            "iteration %d: %d clusters (%.3g%%), bound %.10g, objective %.10g, gap %.2e, %d violated, %.2f s",
            record.iteration,
            record.n_clusters,
            100 * record.aggregation_rate,
            record.best_lower_bound,
            record.best_objective,
            record.gap,
            record.n_violated,
            record.seconds,
        )

    def on_pass(self, progress: PassProgress) -> None:
        now = time.monotonic()
        if now - self._last < self.EVERY:
            return
        self._last = now
        part = 100 * progress.rows / progress.n_rows
        logger.info("pass %d: %.0f%% of the rows, %.3g rows/s", progress.number, part, progress.rows_per_second)

    def on_batch(self, progress: BatchProgress) -> None:
        done, n = progress.done, progress.n_members
        logger.info("%d of %d fits done, worst gap %.2e, %.2f s", done, n, progress.worst_gap, progress.seconds)


@dataclass(frozen=True)
class SavedBatch:
    """Content of a checkpoint of a batch."""

    solved: dict[int, Solved]
    seconds: float
    history: list[Iteration]


@dataclass(frozen=True)
class BatchFile:
    """The file that a batch is saved to, if there is one."""

    checkpoint: Checkpoint | None
    n_members: int

    def save(
        self, solved: Mapping[int, Solved], n_passes: int, seconds: float, history: Sequence[Iteration] = ()
    ) -> None:
        if self.checkpoint is None or not solved:
            return
        numbers = sorted(solved)
        members = [solved[k] for k in numbers]
        profiles = [member.profile for member in members if member.profile is not None]
        nothing = np.empty(0)
        arrays = {
            "members": np.array([self.n_members]),
            "numbers": np.array(numbers),
            "points": np.array([member.point for member in members]),
            "values": np.array([[member.objective, member.lower_bound] for member in members]),
            "clusters": np.array([[m.n_clusters, 0 if m.profile is None else len(m.profile.sizes)] for m in members]),
            "sizes": np.concatenate([nothing.astype(np.int64), *(profile.sizes for profile in profiles)]),
            "distances": np.concatenate([nothing, *(profile.distances for profile in profiles)]),
        }
        self.checkpoint.save(Snapshot(arrays, None, 0.0, False, n_passes, seconds, list(history)))

    def load(self) -> SavedBatch | None:
        saved = None if self.checkpoint is None else self.checkpoint.load()
        if saved is None:
            return None
        arrays, first = saved.arrays, 0
        solved: dict[int, Solved] = {}
        rows = zip(arrays["numbers"], arrays["points"], arrays["values"], arrays["clusters"], strict=True)
        for k, point, (objective, bound), (n_clusters, length) in rows:
            part = slice(first, first + int(length))
            profile = Profile(arrays["sizes"][part], arrays["distances"][part]) if length else None
            solved[int(k)] = Solved(point, float(objective), float(bound), profile, int(n_clusters))
            first += int(length)
        return SavedBatch(solved, saved.seconds, saved.history)
