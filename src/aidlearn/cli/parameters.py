"""Options that set parameters of estimators, each described once; the registry says which model has which.

A value of None leaves a parameter at the estimator's default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aidlearn.cli.errors import CliError, option_name
from aidlearn.cli.options import Described, Jobs, MaxIter, Seed, TimeLimit, option
from aidlearn.estimators.registry import Model, Option


@dataclass(frozen=True)
class ParameterOption:
    """How the command line asks for a parameter."""

    kind: Any
    default: Any
    help: str
    """``{choices}`` stands for the values that a model knows by name."""
    choices: tuple[str, ...] = ()
    flag: str = ""
    """By default the name of the parameter; several are separated by spaces."""
    parameters: Callable[[Any], dict[str, Any]] | None = None
    """What a value sets; by default the parameter to the value."""


MOST_IN_RANGE = 100_000
"""Numbers that a range may hold."""


def _quantile(text: str) -> dict[str, Any]:
    """A number, several of them, or ranges ``first:last:step`` (the last included)."""
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
        # Of 0.01:0.99:0.01 the third is 0.03, not 0.01 + 2 * 0.01.
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


PARAMETERS = {
    "nu": ParameterOption(float, 0.5, "Part of the rows that may be outliers, at most; above 0, up to 1."),
    "C": ParameterOption(float, 1.0, "Weight of the losses."),
    "C_unlabeled": ParameterOption(float, 1.0, "Weight of the losses of rows without a label."),
    "alpha": ParameterOption(float, 0.0, "L1 penalty on the coefficients, scikit-learn's meaning."),
    "approximation": ParameterOption(
        int | None,
        None,
        "Approximate the kernel by this many rows.",
        flag="--nystroem",
        parameters=lambda rows: {"approximation": "nystroem", "n_components": rows},
    ),
    "balance": ParameterOption(
        str | None,
        None,
        "constraint: rows without a label are split as the labelled ones; cost: weigh classes alike.",
        choices=("constraint", "cost"),
    ),
    "certify": ParameterOption(bool, False, "Prove the global optimum; for small data."),
    "checkpoint": ParameterOption(
        str | None, None, "Save the fit here after every iteration, and go on from it if it is there."
    ),
    "class_weight": ParameterOption(
        str | None,
        None,
        "balanced, or factors as in yes=2,no=1.",
        choices=("balanced",),
        parameters=lambda text: {},  # set when the data are open: its labels have the type of the target
    ),
    "coef0": ParameterOption(float, 0.0, "Of the kernel poly."),
    "degree": ParameterOption(int, 3, "Of the kernel poly."),
    "epsilon": ParameterOption(float, 0.0, "Half width of the tube in which errors are free."),
    "fit_intercept": ParameterOption(
        bool,
        False,
        "Fit without an intercept.",
        flag="--no-intercept",
        parameters=lambda without: {"fit_intercept": not without},
    ),
    "gamma": ParameterOption(str, "scale", "Of the kernels rbf and poly: scale, auto or a number.", parameters=_gamma),
    "init": ParameterOption(str, "auto", "Initial clusters: {choices}."),
    "kernel": ParameterOption(str, "rbf", "{choices}.", parameters=_kernel),
    "kinks": ParameterOption(
        str, "0", "Margins at which the slope of the loss changes, as in 0,10.", parameters=_listed("kinks")
    ),
    "l1": ParameterOption(float, 0.0, "Weight of the L1 penalty on the coefficients."),
    "l1_ratio": ParameterOption(float, 1.0, "Part of the L1 penalty in alpha: below 1 an elastic net, 0 is ridge."),
    "memory_limit": ParameterOption(str, "2GB", "Memory for kernel values, as in 500MB."),
    "missing": ParameterOption(
        str, "error", "Missing cells: {choices}: refuse, leave out their rows, or a level of their own in factors."
    ),
    "positive": ParameterOption(bool, False, "Keep the coefficients (not the intercept) at 0 or above."),
    "quantile": ParameterOption(
        str,
        "0.5",
        "One quantile or several, as in 0.1,0.5 or 0.01:0.99:0.01.",
        flag="--quantile --quantiles",
        parameters=_quantile,
    ),
    "refine": ParameterOption(bool, False, "Local search on the true objective at the end."),
    "slopes": ParameterOption(
        str,
        "-1,1",
        "Of the loss between its kinks, one more than kinks, as in --slopes=-1,4,9.",
        parameters=_listed("slopes"),
    ),
    "standardize": ParameterOption(bool, False, "Scale columns to standard deviation 1; coefficients are unscaled."),
    "unknown": ParameterOption(
        str, "error", "Levels that the fit has not seen: {choices}: refuse, or take for the reference level."
    ),
    "solver": ParameterOption(str, "auto", "Of the aggregated problems: {choices}."),
}
OF_ALL_MODELS: dict[str, Described] = {
    "tol": option(float, 1e-4, "--tol", help="Certified relative gap to stop at; 0 asks for a verified optimum."),
    "time_limit": (TimeLimit, None),
    "max_iter": (MaxIter, None),
    "n_jobs": (Jobs, -1),
    "random_state": (Seed, 0),
}


def options_of(model: Model) -> list[Option]:
    """The parameters that the command of a model offers, beyond those of all models."""
    return [*model.options, Option("checkpoint")]


def described(offered: Option) -> Described:
    """A parameter as an option for typer: its type with a description, and the default."""
    known = PARAMETERS[offered.parameter]
    choices = offered.choices or known.choices
    default = offered.choices[0] if offered.choices else offered.default or known.default
    text = (offered.help or known.help).format(choices=", ".join(choices))
    flags = known.flag.split() or [option_name(offered.parameter)]
    return option(known.kind, default, *flags, help=text, complete=choices)


def parameters_from(model: Model, given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of the estimator from what was given on the command line."""
    found = {name: given[name] for name in OF_ALL_MODELS if given[name] is not None}
    for offered in options_of(model):
        name, value = offered.parameter, given[offered.parameter]
        if value is not None:
            sets = PARAMETERS[name].parameters
            found |= sets(value) if sets else {name: value}
    return found
