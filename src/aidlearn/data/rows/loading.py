"""Modules of compiled code, loaded when they are first needed and never half: a Ctrl-C waits until they are there."""

from __future__ import annotations

import signal
import threading
from importlib import import_module
from types import ModuleType
from typing import Any


def load(name: str) -> ModuleType:
    """Import a module; an interrupt in the middle of it would leave numba unusable for the rest of the process."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is None:
        return import_module(name)
    interrupted: list[Any] = []
    before = signal.signal(signal.SIGINT, lambda *arguments: interrupted.append(arguments))
    try:
        return import_module(name)
    finally:
        signal.signal(signal.SIGINT, before)
        if interrupted and callable(before):
            before(*interrupted[0])
        elif interrupted and before is signal.SIG_DFL:
            signal.raise_signal(signal.SIGINT)
