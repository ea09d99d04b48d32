"""The ``aidlearn`` program: its commands and its usage errors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

import aidlearn
from aidlearn.cli.commands import bench, fit, generate
from aidlearn.cli.commands.bootstrap import bootstrap
from aidlearn.cli.commands.demo import demo
from aidlearn.cli.commands.inspect import inspect, report
from aidlearn.cli.commands.predict import predict
from aidlearn.cli.commands.resume import resume
from aidlearn.cli.commands.statistics import compare
from aidlearn.cli.errors import DONE, NOTHING_SAVED, STATE, USER_ERROR, message, open_streams, say, silence, tell
from aidlearn.cli.options import show_help

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
app.add_typer(fit.app, name="fit")
for command in (predict, inspect, bootstrap, compare, resume, report):
    app.command()(command)
app.add_typer(generate.app, name="generate")
app.add_typer(bench.app, name="bench")
app.command()(demo)

RENAMED = {"--one-hot": "--categorical"}
"""Renamed options and their current names."""


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"aidlearn {aidlearn.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def overview(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Exact quantile regression and support vector machines on large data, with a proof on every fit.

    Exit codes: 0 done, 1 an error (nothing was written), 2 stopped at a limit or by Ctrl-C (the best so far was saved).
    """
    show_help(context)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    STATE.debug, STATE.aliases = False, {}
    open_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = typer.main.get_command(app).main(args=given, prog_name="aidlearn", standalone_mode=False)
    except typer.Abort:
        tell(NOTHING_SAVED)
        return USER_ERROR
    except OSError as error:  # help that cannot be printed
        silence()
        if isinstance(error, BrokenPipeError):
            return DONE
        tell(message(error))
        return USER_ERROR
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        # A usage error of typer or click, whose exit code 2 would mean here that a fit was stopped.
        context, old = getattr(error, "ctx", None), getattr(error, "option_name", "")
        tell(f"{old} is now called {RENAMED[old]}." if old in RENAMED else " ".join(error.format_message().split()))
        say(f"Try '{context.command_path if context else 'aidlearn'} --help'.")
        return USER_ERROR
    return code if isinstance(code, int) else 0
