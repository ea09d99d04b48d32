"""Fits on a Dask cluster whose workers are killed at random moments, and what travels in a fit.

    python -m benchmarks.dask_kill --kills 10

Every fit must end with the bits of a fit in memory; times are those of this machine.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import pickle
import signal
import threading
import time

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import aidlearn.data.dask as rows_elsewhere
from aidlearn import LADRegressor, LinearSVC

N, M, BLOCKS = 100_000, 50, 10


def block(k: int) -> np.ndarray:
    return np.random.default_rng(k).normal(size=(N // BLOCKS, M))


def collection() -> tuple[da.Array, da.Array]:
    """X and y that the workers make themselves."""
    chunks = ((N // BLOCKS,) * BLOCKS, (M,))
    X = da.map_blocks(lambda block_id=None: block(block_id[0]), chunks=chunks, dtype=float, meta=np.empty((0, 0)))
    return X, X.sum(axis=1) + X[:, 0] ** 3


def bits(model) -> tuple:
    history = [(r.n_clusters, r.lower_bound, r.objective) for r in model.history_]
    return model.coef_.tobytes(), np.asarray(model.intercept_).tobytes(), history


def kill_one(cluster: LocalCluster, after: float, rng: np.random.Generator, killed: list[int]) -> threading.Thread:
    """Kill a worker after some seconds."""

    def work() -> None:
        time.sleep(after)
        pids = [nanny.pid for nanny in cluster.workers.values() if nanny.pid]
        os.kill(pids[int(rng.integers(len(pids)))], signal.SIGKILL)
        killed.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def traffic(client: Client, model, X, y) -> tuple[float, int, int]:
    """Seconds of a fit, bytes of the functions that went out, and bytes of the values that came back."""
    sent, received = [], []
    original_sent, original_gather = rows_elsewhere._sent, client.gather

    def count_sent(function):
        task = original_sent(function)
        sent.append(sum(len(pickle.dumps(value)) for value in task.dask.values()))
        return task

    def count_received(futures, *args, **kwargs):
        values = original_gather(futures, *args, **kwargs)
        received.append(len(pickle.dumps(values)))
        return values

    rows_elsewhere._sent, client.gather = count_sent, count_received
    try:
        started = time.perf_counter()
        model.fit(X, y)
        return time.perf_counter() - started, sum(sent), sum(received)
    finally:
        rows_elsewhere._sent = original_sent
        del client.gather


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--workers", type=int, default=3)
    arguments = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    rng = np.random.default_rng(0)
    X, y = collection()
    memory_X, memory_y = (values.compute(scheduler="synchronous") for values in (X, y))
    models = {
        "LAD": LADRegressor(init="kmeans", tol=1e-5, max_iter=8),
        "SVM": LinearSVC(C=0.01, init="kmeans", tol=1e-5, max_iter=8),
    }
    targets = {"LAD": (y, memory_y), "SVM": (y > 0, memory_y > 0)}
    expected = {}
    for name, model in models.items():
        started = time.perf_counter()
        expected[name] = bits(model.fit(memory_X, targets[name][1]))
        print(f"{name}: {N} x {M} in memory {time.perf_counter() - started:.2f} s, {model.n_iter_} iterations")
    settings = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    settings["n_workers"] = arguments.workers
    peaceful = {}
    with LocalCluster(**settings) as cluster, Client(cluster) as client:
        for name, model in models.items():
            model.fit(X, targets[name][0])  # workers import what they need
            seconds, out, back = traffic(client, model, X, targets[name][0])
            peaceful[name] = seconds
            print(
                f"{name}: {arguments.workers} workers {seconds:.2f} s, {model.n_passes_} passes, "
                f"{out / model.n_passes_ / 1e3:.1f} kB out and {back / model.n_passes_ / 1e3:.1f} kB back per pass, "
                f"data {8 * N * M / 1e6:.0f} MB; same bits: {bits(model) == expected[name]}",
                flush=True,
            )
    for number in range(arguments.kills):
        name = list(models)[number % 2]
        # A cluster of its own for each kill: a worker that does not come back is no concern of the next fit.
        with LocalCluster(**settings) as cluster, Client(cluster):
            killed: list[int] = []
            after = float(rng.uniform(0.1, 0.9)) * peaceful[name]
            thread = kill_one(cluster, after, rng, killed)
            faulthandler.dump_traceback_later(120, exit=True)
            started = time.perf_counter()
            model = models[name].fit(X, targets[name][0])
            seconds, during = time.perf_counter() - started, bool(killed)
            faulthandler.cancel_dump_traceback_later()
            thread.join()
        when = f"killed after {after:.2f} s" if during else "ended before the kill"
        print(f"{number}: {name} {when}, {seconds:.2f} s, same bits: {bits(model) == expected[name]}", flush=True)


if __name__ == "__main__":
    main()
