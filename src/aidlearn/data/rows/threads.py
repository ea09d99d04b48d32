"""Threads of passes: their number, and the limit of one BLAS thread inside each."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from typing import Any

import threadpoolctl


def n_threads(n_jobs: int | None) -> int:
    """Return the number of threads for ``n_jobs``, by default one for every core that this process may use.

    In a worker of joblib the default is one, because joblib itself spreads work over the cores.
    """
    if n_jobs is None:
        from joblib.parallel import get_active_backend

        nested = getattr(get_active_backend()[0], "nesting_level", 0) or 0
        return 1 if nested > 0 else cores()
    return max(1, cores() + 1 + n_jobs) if n_jobs < 0 else max(1, n_jobs)


@cache
def cores() -> int:
    """Return the number of cores that this process may use, given its affinity and the limits of its container."""
    from joblib import cpu_count

    return max(1, int(cpu_count()))


_pools: dict[tuple[int, str], ThreadPoolExecutor] = {}
_pools_lock = threading.Lock()


def pool(n_jobs: int, purpose: str = "sums") -> ThreadPoolExecutor:
    """Return the pool of reused threads of a purpose; its tasks never wait for others of the same purpose."""
    with _pools_lock:
        key = n_jobs, purpose
        if key not in _pools:
            _pools[key] = ThreadPoolExecutor(n_jobs, thread_name_prefix=f"aidlearn-{purpose}")
        return _pools[key]


def spread(task: Callable[[int], Any], n_tasks: int, n_jobs: int) -> list[Any]:
    """Return ``task(k)`` for k = 0, 1, ..., computed by this thread and a pool; each takes the next k once free."""
    results: list[Any] = [None] * n_tasks
    numbers = iter(range(n_tasks))  # the interpreter hands each number to one thread only

    def work() -> None:
        for k in numbers:
            results[k] = task(k)

    n_others = min(n_jobs, n_tasks) - 1
    others = [pool(n_jobs).submit(work) for _ in range(n_others)] if n_others > 0 else []
    try:
        work()
    finally:
        wait(others)
    for other in others:
        other.result()
    return results


@cache
def _blas() -> threadpoolctl.ThreadpoolController:
    import scipy.linalg  # noqa: F401  (its BLAS has to be loaded to be found)

    return threadpoolctl.ThreadpoolController()


def _forget_controller() -> None:
    """Let any thread set limits: newer versions of threadpoolctl obey only the first thread that set one."""
    controller: Any = getattr(threadpoolctl, "OpenBLASController", None)
    clear = getattr(controller, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


class _Limit:
    """The limit of one BLAS thread in this process, in force while any ``with`` block needs it."""

    def __init__(self) -> None:
        self.lock, self.users = threading.Lock(), 0
        self.before: list[tuple[Any, int]] = []
        """Libraries that had more than one thread, and their numbers of threads."""

    def __enter__(self) -> None:
        with self.lock:
            if self.users == 0:
                found = [(library, library.get_num_threads()) for library in _blas().lib_controllers]
                self.before = [(library, number) for library, number in found if number is not None and number > 1]
                self.set([(library, 1) for library, _ in self.before])
            self.users += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                self.set(self.before)

    @staticmethod
    def set(numbers: list[tuple[Any, int]]) -> None:
        """Set the number of threads of each library."""
        if not numbers:
            return
        _forget_controller()  # so that this thread is obeyed
        for library, number in numbers:
            library.set_num_threads(number)
        _forget_controller()  # so that other threads are obeyed later


_limit = _Limit()


def _after_fork() -> None:
    """Reset pools and limits: a forked process has neither its parent's threads nor the fits that hold limits."""
    global _limit, _pools_lock
    _pools.clear()
    _pools_lock = threading.Lock()
    if _limit.users:
        _limit.set(_limit.before)
    _limit = _Limit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def one_blas_thread() -> _Limit:
    """Limit BLAS to one thread in a ``with`` block, so that chunks run in parallel and results keep their last bit.

    The limit belongs to the process; the last block that ends lifts it.
    """
    return _limit


@contextmanager
def uninterrupted(instead: Callable[[], object] | None = None) -> Iterator[None]:
    """Delay Ctrl-C until the end of the block, and with ``instead`` call that in place of a KeyboardInterrupt.

    An interrupted import would leave numba unusable in this process, and a finished fit is not lost.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is None:
        yield
        return
    interrupted: list[Any] = []
    before = signal.signal(signal.SIGINT, lambda *arguments: interrupted.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        try:
            if interrupted and callable(before):
                before(*interrupted[0])
            elif interrupted and before is signal.SIG_DFL:
                signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            if instead is None:
                raise
            instead()
