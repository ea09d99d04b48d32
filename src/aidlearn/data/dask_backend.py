"""Where the tasks of a Dask pass run: on a cluster behind a client, or with Dask's schedulers on this machine."""

from __future__ import annotations

import concurrent.futures
import logging
import os
import queue
import threading
import time
from asyncio import CancelledError as LoopCancelledError
from collections.abc import Iterator, Sequence
from typing import Any

from aidlearn.data.remote import Backend

logger = logging.getLogger("aidlearn")

WITHOUT_WORKERS = 30.0
"""Seconds that a pass waits for a first or a new worker when there is none."""
LOOK_AFTER = 1.0
"""Seconds without a result after which the workers are counted."""
KEEP_SHARE = 0.5
"""Data up to this part of the workers' memory are kept there between passes."""


class DaskBackend(Backend):
    """Tasks as ``dask.delayed`` objects."""

    def task(self, function: Any, *arguments: Any) -> Any:
        from dask import delayed

        return delayed(function, pure=False)(*arguments)

    def key(self, task: Any) -> str:
        return str(task.key)


class Local(DaskBackend):
    """Dask's own schedulers (threads, processes, synchronous), as configured."""

    def __init__(self) -> None:
        import dask

        self.n_threads = int(dask.config.get("num_workers", None) or os.cpu_count() or 1)

    def start(self, tasks: Sequence[Any], ours: bool = True) -> list[Any]:
        import dask

        return list(dask.persist(*tasks))

    def results(self, tasks: Sequence[Any]) -> Iterator[Any]:
        import dask

        # They are done: what is left is to take them out.
        return iter(dask.compute(*tasks, scheduler="synchronous"))

    def keeps(self, n_bytes: float) -> bool:
        """Never: that would be to load the data here."""
        return False


class Cluster(DaskBackend):
    """The workers of a client's scheduler."""

    def __init__(self, client: Any) -> None:
        if client.asynchronous:
            raise ValueError("The Dask client is asynchronous; a fit needs one made with asynchronous=False.")
        self.client = client
        self.n_threads = max(1, sum(self._threads().values()))

    def _threads(self) -> dict[str, int]:
        try:
            return dict(self.client.nthreads())
        except Exception as error:
            raise self._explained(error) from error

    def start(self, tasks: Sequence[Any], ours: bool = True) -> list[Any]:
        import dask

        limit = "1TiB" if ours else dask.config.get("distributed.admin.large-graph-warning-threshold")
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": limit}):
            try:
                return list(self.client.persist(list(tasks), optimize_graph=True))
            except Exception as error:
                raise self._explained(error) from error

    def results(self, tasks: Sequence[Any]) -> Iterator[Any]:
        from distributed import futures_of

        futures = [futures_of(task)[0] for task in tasks]
        ready: queue.Queue[Any] = queue.Queue()

        # A thread gathers, because a gather ends by itself only when there are workers.
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
        """The next result; an error if the workers stay away."""
        alone_since: float | None = None
        while True:
            try:
                return ready.get(timeout=LOOK_AFTER)
            except queue.Empty:
                if self._threads():
                    alone_since = None
                    continue
            alone_since = alone_since or time.monotonic()
            if time.monotonic() - alone_since > WITHOUT_WORKERS:
                raise RuntimeError(
                    f"The Dask cluster has had no worker for {WITHOUT_WORKERS:.0f} seconds; "
                    "start workers and fit again (with checkpoint=... a fit goes on where it was)."
                )

    def keeps(self, n_bytes: float) -> bool:
        try:
            workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        except Exception as error:
            raise self._explained(error) from error
        limits = [worker.get("memory_limit") for worker in workers]
        return not all(limits) or n_bytes <= KEEP_SHARE * sum(limits)

    def _explained(self, error: BaseException) -> BaseException:
        """Errors of the cluster in one sentence; those that a task raised as they are."""
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        if isinstance(error, KilledWorker):
            return RuntimeError(
                f"The workers that ran a task died {error.args[2] + 1} times, most often for want of memory: "
                "give them more (the worker logs say why they died), or cut the collection into smaller partitions."
            )
        lost = (concurrent.futures.CancelledError, LoopCancelledError, CommClosedError, TimeoutError)
        if isinstance(error, lost) or type(error).__name__ == "ClosedClientError":
            if self.client.status == "running" and not isinstance(error, (CommClosedError, TimeoutError)):
                return RuntimeError("The tasks of the fit were cancelled on the Dask cluster; fit again.")
            return RuntimeError(
                "The connection to the Dask scheduler was lost; start it again, connect a new client and fit again "
                "(with checkpoint=... a fit goes on where it was)."
            )
        if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("aidlearn"):
            return RuntimeError("The Dask workers cannot import aidlearn: install it on each of them.")
        return error


def _is_own(error: BaseException) -> bool:
    """Whether an error comes from a task and so speaks for itself."""
    return isinstance(error, (ValueError, TypeError))


def find_backend() -> DaskBackend:
    """What Dask would use now: the client if there is one, else its schedulers on this machine."""
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
        logger.warning(
            "Dask's scheduler %r sends rows and labels between processes in every pass, which may take a hundred times "
            "as long as its threads; use scheduler='threads', or a distributed Client.",
            chosen,
        )
    return Local()
