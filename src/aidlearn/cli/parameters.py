"""Options that set parameters of estimators, which :mod:`aidlearn.estimators.declared` declares.

A value of None leaves a parameter at the estimator's default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aidlearn.cli.errors import CliError, option_name
from aidlearn.cli.options import Described, Jobs, MaxIter, Seed, TimeLimit, option
from aidlearn.estimators.parameters import Declared, declared
from aidlearn.estimators.registry import Model

MOST_IN_RANGE = 100_000
"""Maximum length of a range of quantiles."""


def _quantile(text: str) -> dict[str, Any]:
    """Parse numbers and ranges ``first:last:step`` (including the last), separated by commas."""
    values: list[float] = []
    for part in text.split(","):
        try:
            numbers = [float(number) for number in part.split(":")]
        except ValueError:
            numbers = []
        if len(numbers) == 1:
            values.append(numbers[0])
            continue
        if len(numbers) != 3 or not numbers[2] > 0 or not numbers[0] <= numbers[1] <= 1:
            raise CliError(
                "--quantile must be numbers separated by commas or ranges first:last:step, as in 0.1,0.5 or "
                f"0.01:0.99:0.01, got {text!r}."
            )
        first, last, step = numbers
        n = (last - first) / step * (1 + 1e-12) + 1e-9
        if n >= MOST_IN_RANGE:
            raise CliError(f"--quantile {part} has more than {MOST_IN_RANGE} numbers.")
        # The third number of 0.01:0.99:0.01 is 0.03, not 0.01 + 2 * 0.01.
        values += [round(first + k * step, 12) for k in range(int(n) + 1)]
    return {"quantile": values[0] if len(values) == 1 and ":" not in text else values}


def _listed(name: str) -> Callable[[str], dict[str, Any]]:
    def numbers(text: str) -> dict[str, Any]:
        try:
            return {name: tuple(float(part) for part in text.split(","))}
        except ValueError:
            raise CliError(f"--{name} must be numbers separated by commas, got {text!r}.") from None

    return numbers


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
    """The option of a parameter whose value is not simply a number, a truth value or a name."""

    kind: Any
    default: Any
    sets: Callable[[Any], dict[str, Any]] | None = None
    """Maps the option's value to parameters; by default the parameter is set to the value."""
    flag: str = ""
    """Names of the option, separated by spaces; by default that of the parameter."""


ASKED = {
    "approximation": Asked(
        int | None, None, lambda rows: {"approximation": "nystroem", "n_components": rows}, "--nystroem"
    ),
    "balance": Asked(str | None, None),
    "checkpoint": Asked(str | None, None),
    # Set once the data are open, because its keys have the type of the target.
    "class_weight": Asked(str | None, None, lambda text: {}),
    "fit_intercept": Asked(bool, False, lambda without: {"fit_intercept": not without}, "--no-intercept"),
    "gamma": Asked(str, "scale", _gamma),
    "init": Asked(str, "auto"),
    "kernel": Asked(str, None, _kernel),
    "kinks": Asked(str, "0", _listed("kinks")),
    "memory_limit": Asked(str, "2GB"),
    "quantile": Asked(str, "0.5", _quantile, "--quantile --quantiles"),
    "slopes": Asked(str, "-1,1", _listed("slopes")),
}
OF_ALL_MODELS: dict[str, Described] = {
    "tol": option(float, 1e-4, "--tol", help="Certified relative gap to stop at; 0 asks for a verified optimum."),
    "time_limit": (TimeLimit, None),
    "max_iter": (MaxIter, None),
    "n_jobs": (Jobs, -1),
    "random_state": (Seed, 0),
}


def options_of(model: Model) -> dict[str, Declared]:
    """Parameters of a model that its command offers in addition to those of all models."""
    return {name: known for name, known in declared(model.parameters) if known.help}


def described(name: str, known: Declared) -> Described:
    """The option that sets a parameter."""
    asked = ASKED.get(name, Asked(type(known.default), known.default))
    choices = known.choices
    default = known.default if asked.default is None else asked.default
    text = known.help.format(choices=", ".join(choices))
    return option(asked.kind, default, *(asked.flag.split() or [option_name(name)]), help=text, complete=choices)


def parameters_from(model: Model, given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of the estimator from the options that were given."""
    found = {name: given[name] for name in OF_ALL_MODELS if given[name] is not None}
    for name in options_of(model):
        value = given[name]
        if value is not None:
            sets = ASKED[name].sets if name in ASKED else None
            found |= sets(value) if sets else {name: value}
    return found
