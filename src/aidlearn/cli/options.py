"""Options of the commands: those that several share, and those that set parameters of estimators.

The parameters are declared in :mod:`aidlearn.estimators.declared`; an omitted option keeps the estimator's default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from aidlearn.cli.errors import STATE, CliError, option_name, reported
from aidlearn.estimators.parameters import Declared, declared
from aidlearn.estimators.registry import Model

MOST_IN_RANGE = 100_000
"""Maximum length of a range of quantiles."""

Described = tuple[Any, Any]
"""An option as its annotated type and its default."""
REQUIRED = Parameter.empty


def argument(metavar: str, help: str) -> Any:
    return typer.Argument(metavar=metavar, show_default=False, help=help)


def output(metavar: str, help: str) -> Any:
    return typer.Option("-o", "--output", metavar=metavar, show_default=False, help=help)


def option(kind: Any, default: Any, *names: str, help: str, complete: tuple[str, ...] = ()) -> Described:
    """Describe an option; ``complete`` lists values for shell completion."""
    completion: Callable[[], list[str]] | None = (lambda: list(complete)) if complete else None
    described = typer.Option(*names, help=help, autocompletion=completion, show_default=default is not None)
    return Annotated[kind, described], default


def text(*names: str, help: str, complete: tuple[str, ...] = ()) -> Described:
    """Describe an optional text."""
    return option(str | None, None, *names, help=help, complete=complete)


def _remember(debug: bool) -> bool:
    STATE.debug = debug or STATE.debug
    return debug


# Options that several commands share

Data = Annotated[str, argument("DATA", "A file, or - for CSV on stdin.")]
ModelFile = Annotated[str, argument("MODEL", "A model file.")]
ModelOutput = Annotated[str, output("MODEL", "File of the model; overwritten.")]
Debug = Annotated[bool, typer.Option("--debug", callback=_remember, is_eager=True, help="Show tracebacks of errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print neither progress nor the result.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the random numbers.")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Threads; -1 is one per core. Results do not depend on it.")]
MaxIter = Annotated[int | None, typer.Option("--max-iter", help="Limit on iterations.")]
TimeLimit = Annotated[
    float | None, typer.Option("--time-limit", help="Seconds after which the best so far is saved (exit code 2).")
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter", help="Delimiter of CSV cells if it is not recognised: a character, or tab, space, pipe."
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option("--encoding", help="Encoding of CSV text if it is not recognised, as in latin-1 or utf-16."),
]
PRINTED: dict[str, Described] = {"quiet": (Quiet, False), "debug": (Debug, False)}
PRINTED_OR_JSON: dict[str, Described] = {"json": (Json, False), **PRINTED}


# Commands with subcommands


def group(help: str) -> typer.Typer:
    """Return a command that has subcommands and shows its help if none is given."""
    return typer.Typer(help=help, rich_markup_mode=None, invoke_without_command=True, callback=show_help)


def show_help(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", hidden=True, callback=_remember, is_eager=True)] = False,
) -> None:
    """Print the help of a command without a subcommand."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def add_command(
    app: typer.Typer, name: str, help: str, options: dict[str, Described], run: Callable[..., int | None]
) -> None:
    """Add a subcommand; ``run`` is called with the values of the options by name."""
    command = reported(run)
    parameters = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in options.items()
    ]
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
    command.__annotations__ = {name: kind for name, (kind, _) in options.items()}
    app.command(name, help=help)(command)


# Options that set parameters of estimators


def numbers_in(text: str, expected: str) -> list[float]:
    """Parse numbers separated by commas; ``expected`` begins the error message."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise CliError(f"{expected}, got {text!r}.") from None


def _listed(name: str) -> Callable[[str], dict[str, Any]]:
    return lambda text: {name: tuple(numbers_in(text, f"--{name} must be numbers separated by commas"))}


def _quantile(text: str) -> dict[str, Any]:
    """Parse numbers and ranges ``first:last:step`` (including the last), separated by commas."""
    values: list[float] = []
    for part in text.split(","):
        try:
            first, *rest = map(float, part.split(":"))
            if not rest:
                values.append(first)
                continue
            last, step = rest
            if not (step > 0 and first <= last <= 1):
                raise ValueError
        except ValueError:
            raise CliError(
                "--quantile must be numbers separated by commas or ranges first:last:step, as in 0.1,0.5 or "
                f"0.01:0.99:0.01, got {text!r}."
            ) from None
        n = (last - first) / step * (1 + 1e-12) + 1e-9
        if n >= MOST_IN_RANGE:
            raise CliError(f"--quantile {part} has more than {MOST_IN_RANGE} numbers.")
        # The third number of 0.01:0.99:0.01 is 0.03, not 0.01 + 2 * 0.01.
        values += [round(first + k * step, 12) for k in range(int(n) + 1)]
    return {"quantile": values[0] if len(values) == 1 and ":" not in text else values}


def _gamma(text: str) -> dict[str, Any]:
    if text in ("scale", "auto"):
        return {"gamma": text}
    try:
        return {"gamma": float(text)}
    except ValueError:
        raise CliError(f"--gamma must be scale, auto or a number > 0, got {text!r}.") from None


def _kernel(name: str) -> dict[str, Any]:
    if name == "precomputed":
        raise CliError("--kernel precomputed needs a matrix of kernel values; fit it from Python.")
    return {"kernel": name}


@dataclass(frozen=True)
class Asked:
    """Differences between an option and the parameter that it sets."""

    sets: Callable[[Any], dict[str, Any]]
    """Function that maps the option's value to parameters."""
    default: Any = None
    """Default of the option; None means the default of the parameter."""
    flag: str = ""
    """Names of the option, separated by spaces; empty means the name of the parameter."""
    kind: Any = None
    """Type of the option; None means the type of its default."""


ASKED = {
    "approximation": Asked(
        lambda rows: {"approximation": "nystroem", "n_components": rows}, flag="--nystroem", kind=int | None
    ),
    # Set once the data are open, because its keys have the type of the target.
    "class_weight": Asked(lambda text: {}),
    "fit_intercept": Asked(lambda without: {"fit_intercept": not without}, False, "--no-intercept"),
    "gamma": Asked(_gamma),
    "kernel": Asked(_kernel),
    "kinks": Asked(_listed("kinks"), "0"),
    "quantile": Asked(_quantile, "0.5", "--quantile --quantiles"),
    "slopes": Asked(_listed("slopes"), "-1,1"),
}
OF_ALL_MODELS: dict[str, Described] = {
    "tol": option(float, 1e-4, "--tol", help="Certified relative gap to stop at; 0 asks for a verified optimum."),
    "time_limit": (TimeLimit, None),
    "max_iter": (MaxIter, None),
    "n_jobs": (Jobs, -1),
    "random_state": (Seed, 0),
}


def options_of(model: Model) -> dict[str, Declared]:
    """Return the parameters that a model's command offers in addition to those of all models."""
    return {name: known for name, known in declared(model.parameters) if known.help}


def described(name: str, known: Declared) -> Described:
    """Return the option that sets a parameter."""
    asked = ASKED.get(name, Asked(lambda value: {name: value}))
    default = known.default if asked.default is None else asked.default
    kind = asked.kind or (str | None if default is None else type(default))
    choices = known.choices
    help = known.help.format(choices=", ".join(choices))
    return option(kind, default, *(asked.flag.split() or [option_name(name)]), help=help, complete=choices)


def parameters_from(model: Model, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of the estimator from the options that were given."""
    found = {name: given[name] for name in OF_ALL_MODELS if given[name] is not None}
    for name in options_of(model):
        if given[name] is not None:
            found |= ASKED[name].sets(given[name]) if name in ASKED else {name: given[name]}
    return found
