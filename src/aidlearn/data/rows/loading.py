"""Imports of compiled code that a Ctrl-C does not interrupt."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay a Ctrl-C to the end of the block: an interrupted import would leave numba unusable in this process."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is None:
        yield
        return
    interrupted: list[Any] = []
    before = signal.signal(signal.SIGINT, lambda *arguments: interrupted.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if interrupted and callable(before):
            before(*interrupted[0])
        elif interrupted and before is signal.SIG_DFL:
            signal.raise_signal(signal.SIGINT)
