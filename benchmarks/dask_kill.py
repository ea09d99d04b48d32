"""Fits on a Dask cluster that loses workers, and their traffic: python -m benchmarks.dask_kill --repeat 5.

Every fit must be bitwise equal to a fit in memory; ``--repeat`` is the number of kills at random moments.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import threading
import time

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from aidlearn import LADRegressor, LinearSVC
from aidlearn.data.rows.remote import Backend
from benchmarks.harness.cells import Cell, Row
from benchmarks.harness.command import Options, Table, main
from benchmarks.harness.table import TableLayout

N, M, BLOCKS = 100_000, 50, 10


def block(k: int) -> np.ndarray:
    return np.random.default_rng(k).normal(size=(N // BLOCKS, M))


def collection() -> tuple[da.Array, da.Array]:
    """Return X and y, which the workers generate themselves."""
    chunks = ((N // BLOCKS,) * BLOCKS, (M,))
    X = da.map_blocks(lambda block_id=None: block(block_id[0]), chunks=chunks, dtype=float, meta=np.empty((0, 0)))
    return X, X.sum(axis=1) + X[:, 0] ** 3


def bits(model) -> tuple:
    history = [(r.n_clusters, r.lower_bound, r.objective) for r in model.history_]
    return model.coef_.tobytes(), np.asarray(model.intercept_).tobytes(), history


def kill_one(cluster: LocalCluster, after: float, rng: np.random.Generator, killed: list[int]) -> threading.Thread:
    """Kill a random worker after a number of seconds."""

    def work() -> None:
        time.sleep(after)
        pids = [nanny.pid for nanny in cluster.workers.values() if nanny.pid]
        os.kill(pids[int(rng.integers(len(pids)))], signal.SIGKILL)
        killed.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def traffic(client: Client, model, X, y) -> tuple[float, int, int]:
    """Return the seconds of a fit, the bytes of functions sent, and the bytes of values received."""
    sent, received = [], []
    original_sent, original_gather = Backend.sent, client.gather

    def count_sent(self, function):
        task = original_sent(self, function)
        sent.append(sum(len(pickle.dumps(value)) for value in task.dask.values()))
        return task

    def count_received(futures, *args, **kwargs):
        values = original_gather(futures, *args, **kwargs)
        received.append(len(pickle.dumps(values)))
        return values

    Backend.sent, client.gather = count_sent, count_received
    try:
        started = time.perf_counter()
        model.fit(X, y)
        return time.perf_counter() - started, sum(sent), sum(received)
    finally:
        Backend.sent = original_sent
        del client.gather


CLUSTER = {
    "n_workers": 3,
    "threads_per_worker": 1,
    "processes": True,
    "dashboard_address": ":0",
    "silence_logs": logging.CRITICAL,
}


def fit(name: str, kills: int) -> Row:
    """Fit in memory, on an undisturbed cluster, and on clusters that lose a worker."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    X, y = collection()
    memory_X, memory_y = (values.compute(scheduler="synchronous") for values in (X, y))
    settings = {"init": "kmeans", "tol": 1e-5, "max_iter": 8}
    if name == "LAD":
        model, target, memory_target = LADRegressor(**settings), y, memory_y
    else:
        model, target, memory_target = LinearSVC(C=0.01, **settings), y > 0, memory_y > 0
    started = time.perf_counter()
    expected = bits(model.fit(memory_X, memory_target))
    row: Row = {"memory_wall": time.perf_counter() - started}
    with LocalCluster(**CLUSTER) as cluster, Client(cluster) as client:
        model.fit(X, target)  # workers import what they need
        calm, out, back = traffic(client, model, X, target)
        same = [bits(model) == expected]
    row |= {"wall": calm, "passes": model.n_passes_}
    row |= {"out": out / model.n_passes_ / 1e3, "back": back / model.n_passes_ / 1e3}
    rng = np.random.default_rng(0)
    seconds, during = [], 0
    for _ in range(kills):
        # Each kill gets a new cluster, so that a worker that does not come back does not affect the next fit.
        with LocalCluster(**CLUSTER) as cluster, Client(cluster):
            killed: list[int] = []
            thread = kill_one(cluster, float(rng.uniform(0.1, 0.9)) * calm, rng, killed)
            started = time.perf_counter()
            model.fit(X, target)
            seconds.append(time.perf_counter() - started)
            during += bool(killed)
            thread.join()
        same.append(bits(model) == expected)
    slowest = {"slowest": max(seconds)} if seconds else {}
    return row | slowest | {"kills": f"{during} of {kills}", "same": f"{sum(same)} of {len(same)}", "seconds": seconds}


def cells(options: Options) -> list[Cell]:
    return [
        Cell(f"{name} {N:,} x {M}", "aidlearn", "benchmarks.dask_kill:fit", {"name": name, "kills": kills})
        for name, kills in (("LAD", options.repeat), ("SVM", options.repeat))
    ]


SHOWN = {
    "memory_wall": ("memory s", "{:.2f}"),
    "wall": ("cluster s", "{:.2f}"),
    "passes": ("passes", "{}"),
    "out": ("kB out per pass", "{:.1f}"),
    "back": ("kB back per pass", "{:.1f}"),
    "kills": ("killed during the fit", "{}"),
    "slowest": ("slowest s", "{:.2f}"),
    "same": ("same bits", "{}"),
}
TABLE = Table("kills", "Three workers, {repeat} kills of a worker", cells, TableLayout(SHOWN), repeat=5)

if __name__ == "__main__":
    main("dask_kill", __doc__.split("\n")[0], TABLE)
