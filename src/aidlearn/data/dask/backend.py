"""Backends of Dask passes: the cluster of a client, or Dask's schedulers on this machine."""

from __future__ import annotations

import concurrent.futures
import logging
import os
import queue
import threading
import time
from asyncio import CancelledError as LoopCancelledError
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from aidlearn.data.rows.remote import Backend

logger = logging.getLogger("aidlearn")


@dataclass(frozen=True)
class ClusterSettings:
    """Time limits in seconds for a cluster that gives no result, and the share of its memory that is used."""

    look_after: float = 1.0
    """Guess. Seconds without a result after which the workers are counted."""
    warn_after: float = 30.0
    """Guess. Seconds without a result before a warning is logged, and between two warnings."""
    without_workers: float = 30.0
    """Guess. Seconds without any worker after which the fit ends."""
    idle: float = 60.0
    """Guess. Seconds without a task on any worker after which the fit ends: the scheduler has lost its tasks."""
    kept_share: float = 0.5
    """Guess. Share of the workers' memory up to which data are kept there between passes."""


SETTINGS = ClusterSettings()


class DaskBackend(Backend):
    """Base of backends whose tasks are ``dask.delayed`` objects."""

    def task(self, function: Any, *arguments: Any) -> Any:
        from dask import delayed

        return delayed(function, pure=False)(*arguments)

    def key(self, task: Any) -> str:
        return str(task.key)


class Local(DaskBackend):
    """Backend that uses Dask's own schedulers (threads, synchronous), as configured or as given."""

    def __init__(self, scheduler: str | None = None) -> None:
        import dask

        self._scheduler = {} if scheduler is None else {"scheduler": scheduler}
        self.n_threads = int(dask.config.get("num_workers", None) or os.cpu_count() or 1)

    def start(self, tasks: Sequence[Any], ours: bool = True) -> list[Any]:
        import dask

        return list(dask.persist(*tasks, **self._scheduler))

    def results(self, tasks: Sequence[Any]) -> Iterator[Any]:
        import dask

        # The tasks are done; only their results are fetched.
        return iter(dask.compute(*tasks, scheduler="synchronous"))

    def keeps(self, n_bytes: float) -> bool:
        """Return False, because keeping data would load them into this process."""
        return False


class Cluster(DaskBackend):
    """Backend that uses the workers of a client's scheduler."""

    def __init__(self, client: Any) -> None:
        if client.asynchronous:
            raise ValueError("The Dask client is asynchronous; a fit needs one made with asynchronous=False.")
        self.client = client
        self.n_threads = max(1, sum(self._threads().values()))

    def _threads(self) -> dict[str, int]:
        with self._explaining():
            return dict(self.client.nthreads())

    def start(self, tasks: Sequence[Any], ours: bool = True) -> list[Any]:
        import dask

        limit = "1TiB" if ours else dask.config.get("distributed.admin.large-graph-warning-threshold")
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": limit}), self._explaining():
            return list(self.client.persist(list(tasks), optimize_graph=True))

    def results(self, tasks: Sequence[Any]) -> Iterator[Any]:
        from distributed import futures_of

        futures = [futures_of(task)[0] for task in tasks]
        ready: queue.Queue[Any] = queue.Queue()

        # Results are gathered in a thread, because gathering without workers never ends.
        def gather() -> None:
            position = 0
            try:
                while position < len(futures):
                    futures[position].exception()  # waits until it is done
                    end = position + 1
                    while end < len(futures) and futures[end].done():
                        end += 1
                    for value in self.client.gather(futures[position:end]):
                        ready.put((value, None))
                    position = end
            except BaseException as error:
                ready.put((None, error))

        reader = threading.Thread(target=gather, daemon=True)
        reader.start()
        received = 0
        try:
            while received < len(futures):
                value, error = self._next(ready)
                if error is not None:
                    raise self._explained(error) from (None if _is_own(error) else error)
                received += 1
                yield value
        finally:
            if received < len(futures) and self.client.status == "running":
                self.client.cancel(futures, force=True)

    def _next(self, ready: queue.Queue[Any]) -> Any:
        """Return the next result; warn while workers are slow, raise an error if there are none or they are idle."""
        alone_since: float | None = None
        watch = _Watch(time.monotonic())
        while True:
            try:
                return ready.get(timeout=SETTINGS.look_after)
            except queue.Empty:
                if workers := self._threads():
                    alone_since = None
                    watch.look(len(workers), self._running())
                    continue
            alone_since = alone_since or time.monotonic()
            if time.monotonic() - alone_since > SETTINGS.without_workers:
                raise RuntimeError(
                    f"The Dask cluster has had no worker for {SETTINGS.without_workers:.0f} seconds; "
                    "start workers and fit again (with checkpoint=... a fit continues where it was)."
                )

    def _running(self) -> int:
        """Return the number of unfinished tasks of any client on the workers."""
        with self._explaining():
            return sum(len(tasks) for tasks in self.client.processing().values())

    def keeps(self, n_bytes: float) -> bool:
        with self._explaining():
            workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        limits = [worker.get("memory_limit") for worker in workers]
        return not all(limits) or n_bytes <= SETTINGS.kept_share * sum(limits)

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise self._explained(error) from error

    def _explained(self, error: BaseException) -> BaseException:
        """Return an error of the cluster as one sentence; an error raised by a task is unchanged."""
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        if isinstance(error, KilledWorker):
            return RuntimeError(
                f"The workers that ran a task died {error.args[2] + 1} times, most often for lack of memory: "
                "give them more (the worker logs say why they died), or cut the collection into smaller partitions."
            )
        lost = (concurrent.futures.CancelledError, LoopCancelledError, CommClosedError, TimeoutError)
        if isinstance(error, lost) or type(error).__name__ == "ClosedClientError":
            if self.client.status == "running" and not isinstance(error, (CommClosedError, TimeoutError)):
                return RuntimeError("The tasks of the fit were cancelled on the Dask cluster; fit again.")
            return RuntimeError(
                "The connection to the Dask scheduler was lost; start it again, connect a new client and fit again "
                "(with checkpoint=... a fit continues where it was)."
            )
        if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("aidlearn"):
            return RuntimeError("The Dask workers cannot import aidlearn: install it on each of them.")
        return error


@dataclass
class _Watch:
    """Monitor of workers that give no result: it warns if they are slow and raises an error if they are idle."""

    began: float
    warned: float = 0.0
    idle_since: float | None = None

    def look(self, n_workers: int, n_running: int) -> None:
        now = time.monotonic()
        if now - max(self.began, self.warned) > SETTINGS.warn_after:
            self.warned = now
            words = "no result from the Dask cluster for %.0f s: %d tasks on %d workers"
            logger.warning(words, now - self.began, n_running, n_workers)
        self.idle_since = None if n_running else self.idle_since or now
        if self.idle_since is not None and now - self.idle_since > SETTINGS.idle:
            raise RuntimeError(
                f"The workers of the Dask cluster have had nothing to do for {SETTINGS.idle:.0f} seconds while the fit "
                "waits for its tasks: the scheduler has lost track of them. Restart the client and fit again (with "
                "checkpoint=... a fit continues where it was)."
            )


def _is_own(error: BaseException) -> bool:
    """Return whether an error was raised by a task and needs no explanation."""
    return isinstance(error, (ValueError, TypeError))


def find_backend() -> DaskBackend:
    """Return the backend that Dask would use now: the client if there is one, else its local schedulers."""
    import dask

    chosen = dask.config.get("scheduler", None)
    if chosen is None or chosen in ("dask.distributed", "distributed"):
        try:
            from distributed import get_client

            return Cluster(get_client())
        except ImportError:
            pass
        except ValueError as error:
            if "asynchronous" in str(error):
                raise
    if chosen in ("processes", "multiprocessing"):
        # Processes would exchange rows and labels in every pass, which takes a hundred times as long as threads.
        # Passes release the interpreter lock, and results do not depend on the scheduler.
        logger.info(
            "Dask's scheduler %r would send all rows between processes in every pass: threads are used.", chosen
        )
        return Local("threads")
    return Local()
