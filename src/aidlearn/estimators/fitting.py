"""Fit a problem for an estimator: limits, callbacks, checkpoint, certificate and plots."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint

from aidlearn.data.passes.run import PassProgress, Run
from aidlearn.data.rows.threads import uninterrupted
from aidlearn.engine.checkpoint import Checkpoint, Origin, Snapshot, damaged, saved_array
from aidlearn.engine.loop import aid
from aidlearn.engine.problem import Problem
from aidlearn.engine.progress import Callback, Limits, logger
from aidlearn.engine.result import Iteration, Result
from aidlearn.estimators.registry import model_of
from aidlearn.neighbours.batch import Batch, Solved, better
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
"""Parameters that older checkpoints lack, with the values that reproduce older versions."""
BATCH = "batch"
"""Suffix of the checkpoint of a batch."""
RENAMED = {"row_duals": "dual"}
"""Parameters that have another name in checkpoints, with that name."""


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
    with uninterrupted(problem.run.stop):
        return Fitted(result, Profile.of(result), [] if trace is None else trace.frames)


@dataclass(frozen=True)
class BatchProgress:
    """Progress of a batch of neighbouring fits."""

    done: int
    """Number of certified members."""
    n_members: int
    worst_gap: float
    """Largest gap of the certified members."""
    seconds: float


def tell(callbacks: Sequence[Any], method: str, *arguments: Any) -> None:
    """Call a method of all callbacks that have it: ``on_fit``, ``on_pass``, ``on_batch`` or ``on_search``."""
    for callback in callbacks:
        if hasattr(callback, method):
            getattr(callback, method)(*arguments)


def pass_listener(callbacks: Sequence[Any]) -> Callable[[PassProgress], None] | None:
    """Return a function that reports progress to all callbacks with a method ``on_pass``; None if there are none."""
    return partial(tell, callbacks, "on_pass") if any(hasattr(one, "on_pass") for one in callbacks) else None


def tell_of_fit(model: Any, callbacks: Sequence[Any], n_rows: int) -> None:
    """Report the model, tolerance, rows and number of fits to callbacks with a method ``on_fit``."""
    declared = model_of(model)
    n_fits = len(declared.fit_names(model, getattr(model, "classes_", ()))) if declared else 1
    tell(callbacks, "on_fit", type(model).__name__, model.tol, n_rows, n_fits)


def checkpoint_of(
    model: Any, recipe: dict[str, Any] | None, digest: str, number: int | str | None, **also: str
) -> Checkpoint | None:
    """Return the checkpoint of a model (the ``number``-th of several, or a named part), with its fingerprint."""
    if model.checkpoint is None:
        return None
    parameters = {name: value for name, value in model.get_params().items() if name not in FREE_TO_CHANGE}
    name = type(model).__name__
    changed = {key: value for key, value in parameters.items() if not (key in LATER and _same(value, LATER[key]))}
    described = {RENAMED.get(key, key): _described(value) for key, value in changed.items()}
    fingerprint = {"model": name, "number": str(number), "data": digest, **described, **also}
    source = model.rows_from if recipe is None else recipe
    origin: dict[str, Any] | None = {"estimator": name, "parameters": parameters, "source": source}
    try:
        json.dumps(origin)
    except TypeError:
        origin = None  # a parameter is a callable or an array
    path = Path(model.checkpoint)
    path = path if number is None else path.with_name(f"{path.name}.{number}")
    return Checkpoint(path, Origin(fingerprint, origin))


def _same(value: Any, other: Any) -> bool:
    return type(value) is type(other) and bool(value == other)


def _described(value: Any) -> str:
    """Return a text that identifies the value of a parameter."""
    if isinstance(value, Bounds):
        return f"bounds from {_described(np.asarray(value.lb))} to {_described(np.asarray(value.ub))}"
    if isinstance(value, LinearConstraint):
        matrix = value.A.toarray() if sparse.issparse(value.A) else np.asarray(value.A)
        return f"constraint of {', '.join(_described(np.asarray(part)) for part in (matrix, value.lb, value.ub))}"
    if isinstance(value, list):
        return f"[{', '.join(map(_described, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_described, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, np.ndarray):
        return f"array of digest {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]}"
    return getattr(value, "__qualname__", None) or repr(value)


class IterationLog:
    """Callback behind ``verbose``: it logs a line per iteration, and one every few seconds of a long pass."""

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

    def _is_time(self) -> bool:
        now = time.monotonic()
        late = now - self._last >= self.EVERY
        self._last = now if late else self._last
        return late

    def on_search(self, n_nodes: int) -> None:
        if self._is_time():
            logger.info("branch and bound: %d nodes", n_nodes)

    def on_pass(self, progress: PassProgress) -> None:
        if not self._is_time():
            return
        part = 100 * progress.rows / progress.n_rows
        logger.info("pass %d: %.0f%% of the rows, %.3g rows/s", progress.number, part, progress.rows_per_second)

    def on_batch(self, progress: BatchProgress) -> None:
        done, n = progress.done, progress.n_members
        logger.info("%d of %d fits done, worst gap %.2e, %.2f s", done, n, progress.worst_gap, progress.seconds)


class BatchRecord:
    """Members of a batch that were evaluated on all rows: saved to a checkpoint and reported to callbacks."""

    def __init__(self, model: Any, callbacks: Sequence[Any], run: Run, n_members: int, checkpoint: Checkpoint | None):
        self.tol, self.callbacks, self.run = model.tol, callbacks, run
        self.n_members, self.checkpoint = n_members, checkpoint
        self.started, self.solved = time.monotonic(), dict[int, Solved]()
        self.history: list[Iteration] = []
        self._saved = dict[int, Solved]()
        """Members of a checkpoint, whose objectives and bounds are not believed yet."""
        saved = None if checkpoint is None else checkpoint.load()
        if saved is not None:
            self.started -= saved.seconds
            self._saved, self.history = _members(saved.arrays, n_members), saved.history

    @property
    def seconds(self) -> float:
        """Time of the batch so far in seconds, including that before an interruption."""
        return time.monotonic() - self.started

    def prove(self, batch: Callable[[], Batch]) -> None:
        """Evaluate the members of a checkpoint on all rows, and prove their bounds again."""
        if not self._saved:
            return
        made, widths = batch(), {len(solved.point) for solved in self._saved.values()}
        if widths != {made.design.n_variables}:
            raise damaged("its points do not have one number per coefficient")
        self.solved = made.proven_again(self._saved)

    def left(self) -> list[int]:
        """Return the members whose gap is still open."""
        return [k for k in range(self.n_members) if k not in self.solved or not self.solved[k].gap <= self.tol]

    def improve(self, found: Mapping[int, Solved]) -> None:
        """Keep the better point and the better bound of each member."""
        seen = {k: solved for k, solved in found.items() if math.isfinite(solved.objective)}
        if seen:
            self.keep({k: better(self.solved[k], one) if k in self.solved else one for k, one in seen.items()})

    def keep(self, found: Mapping[int, Solved], history: Sequence[Iteration] = ()) -> None:
        """Keep members, save all and report how many are certified."""
        self.solved |= found
        if self.checkpoint is not None and self.solved:
            # Members of an earlier part that were not proven again before the run ended are not lost.
            arrays = {"members": np.array([self.n_members]), **_arrays(self._saved | self.solved)}
            self.checkpoint.save(Snapshot(arrays, None, 0.0, False, self.run.n_passes, self.seconds, list(history)))
        gaps = [solved.gap for solved in self.solved.values() if solved.gap <= self.tol]
        if gaps:
            tell(self.callbacks, "on_batch", BatchProgress(len(gaps), self.n_members, max(gaps), self.seconds))


def _arrays(solved: Mapping[int, Solved]) -> dict[str, NDArray[Any]]:
    """Convert members to the arrays of a checkpoint."""
    members = [solved[k] for k in sorted(solved)]
    profiles = [member.profile for member in members if member.profile is not None]
    return {
        "numbers": np.array(sorted(solved)),
        "points": np.array([member.point for member in members]),
        "values": np.array([[member.objective, member.lower_bound] for member in members]),
        "clusters": np.array([[m.n_clusters, 0 if m.profile is None else len(m.profile.sizes)] for m in members]),
        "sizes": np.concatenate([np.empty(0, dtype=np.int64), *(profile.sizes for profile in profiles)]),
        "distances": np.concatenate([np.empty(0), *(profile.distances for profile in profiles)]),
    }


def _members(arrays: Mapping[str, NDArray[Any]], n_members: int) -> dict[int, Solved]:
    """Read members from the arrays of a checkpoint."""
    numbers = saved_array(arrays, "numbers", np.int64, None)
    points = saved_array(arrays, "points", np.float64, len(numbers), None)
    values = saved_array(arrays, "values", np.float64, len(numbers), 2, finite=False)  # a bound may be -inf
    clusters = saved_array(arrays, "clusters", np.int64, len(numbers), 2)
    sizes = saved_array(arrays, "sizes", np.int64, None)
    distances = saved_array(arrays, "distances", np.float64, len(sizes))
    if (np.diff(numbers) <= 0).any() or (numbers < 0).any() or (numbers >= n_members).any():
        raise damaged("it numbers members that the fit has not")
    if (clusters < 0).any() or clusters[:, 1].sum() != len(sizes):
        raise damaged("its clusters do not match their sizes")
    ends = np.cumsum(clusters[:, 1])
    solved = dict[int, Solved]()
    for k, point, (objective, bound), (n_clusters, length), end in zip(
        numbers, points, values, clusters, ends, strict=True
    ):
        part = slice(int(end - length), int(end))
        profile = Profile(sizes[part], distances[part]) if length else None
        solved[int(k)] = Solved(point, float(objective), float(bound), profile, int(n_clusters))
    return solved
