"""Exit codes of commands, and errors of one or two lines."""

from __future__ import annotations

import errno
import io
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from types import FrameType
from typing import Any

import typer

DONE, USER_ERROR, STOPPED = 0, 1, 2
NOTHING_SAVED = "Interrupted before there was anything to save; nothing was written."


class CliError(Exception):
    """An error whose message is a sentence for the user."""


@dataclass
class State:
    """State of the command that is running."""

    debug: bool = False
    aliases: dict[str, str] = field(default_factory=dict)
    """Names that stand for paths in messages."""


STATE = State()


def reported(function: Callable[..., int | None]) -> Callable[..., None]:
    """Wrap a command: its result becomes the exit code, its errors become one line on standard error."""

    @wraps(function)
    def command(*args: Any, **options: Any) -> None:
        # SIGTERM is treated as Ctrl-C, so that the best solution is saved and temporary files are removed.
        with _plain_warnings(), interrupted_by(signal.SIGTERM):
            try:
                code = function(*args, **options) or DONE
                sys.stdout.flush()
            except BrokenPipeError:
                silence()
                code = DONE
            except (Exception, KeyboardInterrupt) as error:
                if hasattr(error, "format_message") or isinstance(error, (typer.Exit, typer.Abort)):
                    raise
                if STATE.debug:
                    traceback.print_exc()
                silence()
                tell(message(error))
                code = USER_ERROR
        raise typer.Exit(code)

    return command


def open_streams() -> None:
    """Open closed standard streams, and let the others escape characters that their encoding lacks.

    Writing to a standard output that was closed fails, as on a full disk; what goes to standard error is discarded.
    """
    for name, access, mode in (("stdin", os.O_RDONLY, "r"), ("stdout", os.O_RDONLY, "w"), ("stderr", os.O_WRONLY, "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, access), mode))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def silence() -> None:
    """Discard further output to streams that cannot be written: Python would complain at its last flush."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def reporting(path: str | None) -> Iterator[None]:
    """Report on a file that is written; a failing standard output or Ctrl-C changes neither it nor the exit code."""
    try:
        yield
        sys.stdout.flush()
    except (OSError, KeyboardInterrupt) as error:
        if path is None:
            raise
        silence()
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            tell(f"{path} is written; standard output cannot be written: {error.strerror}.", "Warning")


def say(line: str) -> None:
    """Print a line on standard error, if that can be written."""
    try:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
    except OSError:
        silence()


def tell(text: str, kind: str = "Error") -> None:
    """Print a message on standard error."""
    for path, alias in STATE.aliases.items():
        text = text.replace(path, alias)
    say(f"{kind}: {text}")


def message(error: BaseException) -> str:
    """Return a sentence or two that say what went wrong."""
    if isinstance(error, KeyboardInterrupt):
        return NOTHING_SAVED
    if isinstance(error, CliError):
        return str(error)
    if isinstance(error, MemoryError):
        return "Memory is not sufficient: linear models read files in parts, kernel machines load them as a whole."
    if isinstance(error, OSError) and error.strerror:
        if error.errno == errno.EBADF:
            return "Standard output is closed."
        where = "" if error.filename is None else f" {error.filename}:"
        advice = " Nothing was written." if error.errno == errno.ENOSPC else ""
        return f"{where} {error.strerror}.{advice}".strip()
    text = _first_line(error)
    if isinstance(error, (ValueError, ImportError, OSError, TypeError)) and _is_ours(error):
        return _in_options(text)
    return f"{type(error).__name__}: {text} (run with --debug to see the traceback)"


def _first_line(text: object) -> str:
    return (str(text).strip().splitlines() or ["no message"])[0]


def _is_ours(error: BaseException) -> bool:
    """Return whether the error was raised by aidlearn, whose messages are sentences for users."""
    frames = traceback.extract_tb(error.__traceback__)
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return bool(frames) and os.path.abspath(frames[-1].filename).startswith(package + os.sep)


OTHER_NAMES = {"n_jobs": "jobs", "sample_weight": "weight", "random_state": "seed", "n_components": "nystroem"}


def option_name(parameter: str) -> str:
    """Return the option that sets a parameter."""
    return "--" + OTHER_NAMES.get(parameter, parameter).replace("_", "-")


REWORDED = (
    (r"with columns=\.\.\.", "with --columns"),
    (r"^one_hot ", "--categorical "),
    (r"^(delimiter|encoding) is for", r"--\1 is for"),
    (r"\b(delimiter|encoding)=", r"--\1 "),
    (r"\bname (it|them) in categorical_features", r"name \1 in --categorical"),
    (r"\bor in numeric\b", "or in --numeric"),
    (r"^categorical_features names", "--categorical names"),
    (r"\b(missing|unknown)='(\w+)'", r"--\1 \2"),
    (r"\bmemory_limit='?([^'.]*)'?", r"--memory-limit \1"),
    (r"^checkpoint='(.*?)' lies", r"--checkpoint \1 lies"),
)
"""Patterns in messages that name Python parameters, and the options that replace them."""


def _in_options(text: str) -> str:
    """Return a message with command-line options in place of Python parameters."""
    text = re.sub(r"^([A-Za-z]\w*) must ", lambda match: f"{option_name(match[1])} must ", text)
    for pattern, replacement in REWORDED:
        text = re.sub(pattern, replacement, text)
    return text


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Print warnings for users as one line; warnings for programmers are not shown."""

    def show(message: Warning | str, *place: Any, **more: Any) -> None:
        tell(_in_options(_first_line(message)), "Warning")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("default", category=UserWarning)
        # Columns have been matched by name before rows become arrays.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        warnings.showwarning = show
        yield


@contextmanager
def interrupted_by(*signals: signal.Signals, before: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Make signals call ``before`` and raise KeyboardInterrupt; ignored signals stay ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        before()
        raise KeyboardInterrupt

    heard = [number for number in signals if signal.getsignal(number) is not signal.SIG_IGN]
    handlers = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
