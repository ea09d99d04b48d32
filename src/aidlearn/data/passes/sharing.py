"""Shared passes of several fits over one source: each chunk is read once for all of them.

Every fit runs in its own thread, and its passes wait until all other running fits have also requested one.
At most ``n_jobs`` fits compute at a time; results do not depend on sharing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aidlearn.data.passes.run import Run, Systematic
from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.source import PassFunction

T = TypeVar("T")


@dataclass
class _Request:
    """A pass that a fit waits for."""

    function: PassFunction
    states: Sequence[Any] | None
    collect: Callable[[Any], None]
    answered: threading.Event = field(default_factory=threading.Event)
    kept: list[Any] = field(default_factory=list)
    error: BaseException | None = None


class _Abandoned(BaseException):
    """Exception that ends the threads of the other fits after a failure or an interrupt."""


class _Member(Run):
    """The run that one fit sees; its passes wait for those of the other fits."""

    def __init__(self, group: _Group) -> None:
        whole = group.run
        super().__init__(whole.source, whole.targets, n_jobs=1, whole=whole, compiled=whole.compiled)
        self.budget = whole.budget.of_members(group.n_members, whole.n_attributes + 1)
        self._group = group

    def map(
        self,
        function: PassFunction,
        states: Sequence[Any] | None = None,
        collect: Callable[[Any], None] = lambda value: None,
    ) -> list[Any]:
        self._count.n_passes += 1
        function = self.on_changed(function)
        if self._group.closed:  # the other fits have ended
            return self._group.run.map(function, states, collect)
        return self._group.wait_for(_Request(function, states, collect))

    def sample(self, plan: Callable[[], Systematic]) -> Chunk:
        with self._group.sampling:
            return self._group.run.sample(plan)

    def every(self, wanted: Systematic) -> Chunk:
        with self._group.sampling:
            return self._group.run.every(wanted)

    def map_states(self, function: Callable[[Any], Any], states: Sequence[Any]) -> Iterator[Any]:
        return self._group.run.map_states(function, states)


class _Group:
    def __init__(self, run: Run, n_members: int) -> None:
        self.run, self.n_members = run, n_members
        self.closed = False
        self.sampling = threading.Lock()
        self.computing = threading.Semaphore(run.n_jobs)
        self.changed = threading.Condition()
        self.asked: list[_Request] = []
        self.running = n_members
        self.failure: BaseException | None = None

    def wait_for(self, request: _Request) -> list[Any]:
        """Request a pass for a fit and wait until it has been made."""
        with self.changed:
            self.asked.append(request)
            self.changed.notify_all()
        self.computing.release()
        request.answered.wait()
        self.computing.acquire()
        if request.error is not None:
            raise request.error
        return request.kept

    def waiting(self) -> list[_Request]:
        """Return the passes that have been requested but not made."""
        return [request for request in self.asked if not request.answered.is_set()]

    def serve(self) -> None:
        """Make shared passes until every fit has ended."""
        while self.running:
            with self.changed:
                self.changed.wait_for(lambda: len(self.waiting()) == self.running or self.failure is not None)
                if self.failure is not None:
                    raise self.failure
                self.asked = self.waiting()
            if self.asked:
                self._one_pass(tuple(self.asked))

    def _one_pass(self, requests: Sequence[_Request]) -> None:
        n = self.run.source.n_chunks
        states = [[None] * n if request.states is None else request.states for request in requests]
        functions = [request.function for request in requests]

        def together(chunk: Chunk, state: Any) -> tuple[list[Any], list[Any]]:
            answers = [function(chunk, own) for function, own in zip(functions, state, strict=True)]
            return [value for value, _ in answers], [kept for _, kept in answers]

        def collect(values: list[Any]) -> None:
            for request, value in zip(requests, values, strict=True):
                request.collect(value)

        for kept in self.run.map(together, list(zip(*states, strict=True)), collect):
            for k, request in enumerate(requests):
                request.kept.append(kept[k])
        for request in requests:
            request.answered.set()

    def refuse(self, error: type[BaseException]) -> None:
        """End the fits that wait for a pass by an error of the given type."""
        for request in self.waiting():
            request.error = error()
            request.answered.set()


def run_together(run: Run, fits: Sequence[Callable[[Run], T]]) -> list[T]:
    """Return ``fit(run)`` of every fit in order, with shared passes."""
    if len(fits) == 1:
        return [fits[0](run)]
    group = _Group(run, len(fits))
    results: list[Any] = [None] * len(fits)

    def work(k: int) -> None:
        with group.computing:
            try:
                results[k] = fits[k](_Member(group))
            except _Abandoned:
                pass
            except BaseException as error:
                group.failure = group.failure or error
        with group.changed:
            group.running -= 1
            group.changed.notify_all()

    threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(len(fits))]
    for thread in threads:
        thread.start()
    ending: type[BaseException] = _Abandoned
    try:
        group.serve()
    except KeyboardInterrupt:
        run.stop()
        ending = KeyboardInterrupt  # each fit returns the best it has
    finally:
        for thread in threads:
            while thread.is_alive():
                group.refuse(ending)
                thread.join(0.05)
        group.closed = True
    if any(result is None for result in results):
        raise group.failure or KeyboardInterrupt
    return results
