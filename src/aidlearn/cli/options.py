"""Options that several commands share, each described once."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from aidlearn.cli.errors import STATE


def _remember(debug: bool) -> bool:
    STATE.debug = debug or STATE.debug
    return debug


Data = Annotated[str, typer.Argument(metavar="DATA", show_default=False, help="A file, or - for CSV on stdin.")]
Debug = Annotated[bool, typer.Option("--debug", callback=_remember, is_eager=True, help="Show tracebacks of errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print neither progress nor the result.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the random numbers.")]
ModelOutput = Annotated[
    str, typer.Option("-o", "--output", metavar="MODEL", show_default=False, help="File of the model; overwritten.")
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Threads; -1 is one per core. Results do not depend on it.")]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        "--time-limit", show_default=False, help="Seconds after which the best so far is saved (exit code 2)."
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        show_default=False,
        help="Delimiter of CSV cells if it is not recognised: a character, or tab, space, pipe.",
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding", show_default=False, help="Encoding of CSV text if it is not recognised, as in latin-1 or utf-16."
    ),
]
MaxIter = Annotated[int | None, typer.Option("--max-iter", show_default=False, help="Limit on iterations.")]


Described = tuple[Any, Any]
"""An option as its annotated type and its default."""


def option(kind: Any, default: Any, *names: str, help: str, complete: tuple[str, ...] = ()) -> Described:
    """Describe an option; ``complete`` lists values for shell completion."""
    completion: Callable[[], list[str]] | None = (lambda: list(complete)) if complete else None
    described = typer.Option(*names, help=help, autocompletion=completion, show_default=default is not None)
    return Annotated[kind, described], default


def with_options(function: Callable[..., Any], options: dict[str, Described]) -> Callable[..., Any]:
    """Give a function the signature that its options make; typer reads it."""
    parameters = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in options.items()
    ]
    function.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # what inspect reads
    function.__annotations__ = {name: kind for name, (kind, _) in options.items()}
    return function
