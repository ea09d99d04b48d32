"""``aidlearn fit MODEL-KIND DATA``: one subcommand per estimator, each with its own options only."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

import typer

from aidlearn.cli.errors import CliError, reported
from aidlearn.cli.inputs import (
    Columns,
    class_weights,
    data_file,
    load_rows,
    open_data,
    semi_supervised_labels,
)
from aidlearn.cli.live import opening
from aidlearn.cli.options import (
    Data,
    Debug,
    Jobs,
    Json,
    MaxIter,
    ModelOutput,
    Quiet,
    Seed,
    TimeLimit,
    option,
    with_options,
)
from aidlearn.cli.outputs import check_output
from aidlearn.cli.run import Manner, count_fits, fit_and_save, training_facts
from aidlearn.cli.words import count

app = typer.Typer(help="Fit a model to a file and save it.", rich_markup_mode=None)

REQUIRED = Parameter.empty

DATA_OPTIONS = {
    "data": (Data, REQUIRED),
    "target": option(str | None, None, "--target", "-t", help="Column of the target: a name or a number from 0."),
    "columns": option(str | None, None, "--columns", help="Columns of X, as in a,b,c; by default all others."),
    "weight": option(str | None, None, "--weight", help="Column of sample weights."),
    "one_hot": option(str | None, None, "--one-hot", help="Columns to be encoded, as in city,colour."),
    "output": (ModelOutput, REQUIRED),
}
ENGINE_OPTIONS = {
    "tol": option(float, 1e-4, "--tol", help="Certified relative gap to stop at; 0 asks for a verified optimum."),
    "time_limit": (TimeLimit, None),
    "max_iter": (MaxIter, None),
    "jobs": (Jobs, -1),
    "seed": (Seed, 0),
}
MANNER_OPTIONS = {"json": (Json, False), "quiet": (Quiet, False), "debug": (Debug, False)}

NO_INTERCEPT = option(bool, False, "--no-intercept", help="Fit without an intercept.")
CHECKPOINT = option(
    str | None, None, "--checkpoint", help="Save the fit here after every iteration, and go on from it if it is there."
)
MEMORY_LIMIT = option(
    str | None, None, "--memory-limit", help="Refuse data for which a fit needs more, as in 2GB or 500MB."
)
ALPHA = option(float, 0.0, "--alpha", help="L1 penalty on the coefficients, scikit-learn's meaning.")
C = option(float, 1.0, "--C", help="Weight of the losses.")
CLASS_WEIGHT = option(
    str | None, None, "--class-weight", help="balanced, or factors as in yes=2,no=1.", complete=("balanced",)
)
GAMMA = option(str, "scale", "--gamma", help="Of the kernels rbf and poly: scale, auto or a number.")
DEGREE = option(int, 3, "--degree", help="Of the kernel poly.")
COEF0 = option(float, 0.0, "--coef0", help="Of the kernel poly.")


def _init(*names: str) -> tuple[Any, Any]:
    return option(str, "auto", "--init", help=f"Initial clusters: {', '.join(names)}.", complete=names)


def _solver(*names: str) -> tuple[Any, Any]:
    return option(str, "auto", "--solver", help=f"Of the aggregated problems: {', '.join(names)}.", complete=names)


def _kernel(default: str, *names: str) -> tuple[Any, Any]:
    return option(str, default, "--kernel", help=", ".join(names) + ".", complete=names)


LINEAR_OPTIONS = {
    "no_intercept": NO_INTERCEPT,
    "init": _init("auto", "band", "kmeans", "birch"),
    "checkpoint": CHECKPOINT,
    "memory_limit": MEMORY_LIMIT,
}


@dataclass(frozen=True)
class Kind:
    """A subcommand: the estimator and the options that only it has."""

    estimator: str
    help: str
    options: dict[str, tuple[Any, Any]]
    in_memory: bool = False


KINDS = {
    "lad": Kind(
        "LADRegressor",
        "Least absolute deviation regression.",
        {"alpha": ALPHA, **LINEAR_OPTIONS, "solver": _solver("auto", "interior-point", "highs")},
    ),
    "quantile": Kind(
        "QuantileRegressor",
        "Quantile regression, of one or several quantiles.",
        {
            "quantile": option(str, "0.5", "--quantile", help="One quantile or several, as in 0.1,0.5,0.9."),
            "alpha": ALPHA,
            **LINEAR_OPTIONS,
            "solver": _solver("auto", "interior-point", "highs"),
        },
    ),
    "svm": Kind(
        "LinearSVC",
        "Linear support vector machine; the target is a class.",
        {
            "C": C,
            "class_weight": CLASS_WEIGHT,
            **LINEAR_OPTIONS,
            "solver": _solver("auto", "interior-point", "libsvm", "liblinear"),
        },
    ),
    "svr": Kind(
        "LinearSVR",
        "Linear support vector regression.",
        {
            "C": C,
            "epsilon": option(float, 0.0, "--epsilon", help="Half width of the tube in which errors are free."),
            **LINEAR_OPTIONS,
            "solver": _solver("auto", "interior-point"),
        },
    ),
    "kernel-svm": Kind(
        "SVC",
        "Kernel support vector machine; rows are loaded into memory.",
        {
            "C": C,
            "kernel": _kernel("rbf", "rbf", "poly", "linear"),
            "gamma": GAMMA,
            "degree": DEGREE,
            "coef0": COEF0,
            "class_weight": CLASS_WEIGHT,
            "nystroem": option(int | None, None, "--nystroem", help="Approximate the kernel by this many rows."),
            "init": _init("auto", "band", "kmeans", "kernel-kmeans", "rows"),
            "solver": _solver("auto", "smo", "libsvm"),
            "memory_limit": option(str, "2GB", "--memory-limit", help="Memory for kernel values, as in 500MB."),
        },
        in_memory=True,
    ),
    "s3vm": Kind(
        "SemiSupervisedSVC",
        "Semi-supervised SVM: rows with an empty target (in a file without any: -1) have no label.",
        {
            "C": option(float, 1.0, "--C", help="Weight of the losses of labelled rows."),
            "C_unlabeled": option(float, 1.0, "--C-unlabeled", help="Weight of the losses of rows without a label."),
            "balance": option(
                str | None,
                None,
                "--balance",
                help="constraint: rows without a label are split as the labelled ones; cost: weigh classes alike.",
                complete=("constraint", "cost"),
            ),
            "kernel": _kernel("linear", "linear", "rbf", "poly", "graph"),
            "gamma": GAMMA,
            "degree": DEGREE,
            "coef0": COEF0,
            "certify": option(bool, False, "--certify", help="Prove the global optimum; for small data."),
            "refine": option(bool, False, "--refine", help="Local search on the true objective at the end."),
            "init": _init("auto", "kmeans"),
        },
        in_memory=True,
    ),
}


def estimator(kind: Kind, options: dict[str, Any]) -> Any:
    """The estimator with its options, checked before the data are touched."""
    import aidlearn
    from aidlearn.estimators.base import check_number

    parameters = {name: value for name, value in options.items() if name in kind.options}
    parameters.update(tol=options["tol"], time_limit=options["time_limit"])
    parameters.update(n_jobs=options["jobs"], random_state=options["seed"])
    if options["max_iter"] is not None:
        parameters["max_iter"] = options["max_iter"]
    parameters.pop("class_weight", None)  # its labels have the type of the target
    if not kind.in_memory:
        parameters.pop("memory_limit")
        parameters["fit_intercept"] = not parameters.pop("no_intercept")
    if "quantile" in parameters:
        parameters["quantile"] = quantiles(parameters["quantile"])
    if "gamma" in parameters:
        parameters["gamma"] = _gamma(parameters["gamma"])
    if (rows := parameters.pop("nystroem", None)) is not None:
        parameters.update(approximation="nystroem", n_components=rows)
    if parameters.get("kernel") == "precomputed":
        raise CliError("--kernel precomputed needs a matrix of kernel values; fit it from Python.")
    model = getattr(aidlearn, kind.estimator)(**parameters)
    model._check_parameters()
    for name, include_low in (("alpha", True), ("epsilon", True), ("C", False)):
        if name in parameters:
            check_number(name, parameters[name], low=0, include_low=include_low)
    if "quantile" in parameters:
        model._losses()
    if "kernel" in parameters:
        _check_kernel(parameters)
    return model


def quantiles(text: str) -> Any:
    """A number, or a list of them."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise CliError(f"--quantile must be a number or several separated by commas, got {text!r}.") from None
    return values[0] if len(values) == 1 else values


def _gamma(text: str) -> Any:
    if text in ("scale", "auto"):
        return text
    try:
        return float(text)
    except ValueError:
        raise CliError(f"--gamma must be scale, auto or a number > 0, got {text!r}.") from None


def _check_kernel(parameters: dict[str, Any]) -> None:
    """Make the kernel on a row of nothing, which checks its parameters."""
    import numpy as np

    from aidlearn.kernels.functions import kernel_from

    if parameters["kernel"] != "graph":
        rows = np.zeros((1, 1))
        kernel_from(
            parameters["kernel"], parameters["gamma"], parameters["degree"], parameters["coef0"], rows, np.ones(1)
        )


def _check_checkpoint(options: dict[str, Any]) -> None:
    """A checkpoint is a file of its own."""
    if options.get("checkpoint") is None:
        return
    for what in ("data", "output"):
        if os.path.realpath(options["checkpoint"]) == os.path.realpath(options[what]):
            raise CliError(f"--checkpoint {options['checkpoint']} is the file of the {what}; give it one of its own.")


def _run(kind: Kind, options: dict[str, Any]) -> int:
    check_output(options["output"], "model", inputs=[options["data"]])
    _check_checkpoint(options)
    model = estimator(kind, options)
    with data_file(options["data"]) as path:
        columns = Columns(options["target"], options["columns"], options["weight"], options["one_hot"])
        shown = "standard input" if options["data"] == "-" else options["data"]
        with opening(shown, options["quiet"]):
            source = open_data(path, columns, options["jobs"], None if kind.in_memory else options["memory_limit"])
            facts = training_facts(source, shown)
            n_fits = count_fits(model, source)
            if "class_weight" in kind.options:
                model.class_weight = class_weights(options["class_weight"], next(iter(source.targets())))
            fit: Callable[[], Any] = lambda: model.fit(source)  # noqa: E731
            notes = ""
            if kind.in_memory:
                fit, notes = _memory_fit(kind, model, source, shown, facts)
        rows = f"{count(source.n_entries)} rows x {count(source.n_attributes)} columns"
        title = f"{kind.estimator} of {Path(shown).name}: {rows}{notes}"
        manner = Manner(options["json"], options["quiet"])
        return fit_and_save(model, fit, facts, options["output"], manner, title, n_fits)


def _memory_fit(
    kind: Kind, model: Any, source: Any, shown: str, facts: dict[str, Any]
) -> tuple[Callable[[], None], str]:
    """A fit of rows in memory that keeps the names of their columns, and what to say about the labels."""
    import numpy as np

    X, target, weight = load_rows(source)
    notes = ""
    labels = None
    if kind.estimator == "SemiSupervisedSVC":
        labels = semi_supervised_labels(target, shown)
        notes = f", {count(labels.n_labelled)} labelled"
        facts["labelled"] = labels.n_labelled
    elif target.dtype.kind == "f" and np.isfinite(target).all() and (target == np.round(target)).all():
        target = target.astype(np.int64)

    def fit() -> None:
        model.fit(X, target if labels is None else labels.codes, sample_weight=weight)
        if labels is not None:
            model.classes_, model.transduction_ = labels.classes, labels.classes[model.transduction_]
        if source.named:
            model.feature_names_in_ = np.array(source.names, dtype=object)

    return fit, notes


def _add(name: str, kind: Kind) -> None:
    def command(**options: Any) -> int:
        options.setdefault("memory_limit", None)
        return _run(kind, options)

    command.__name__, command.__doc__ = name.replace("-", "_"), kind.help
    made = with_options(reported(command), DATA_OPTIONS | kind.options | ENGINE_OPTIONS | MANNER_OPTIONS)
    app.command(name)(made)


for _name, _kind in KINDS.items():
    _add(_name, _kind)


@app.callback(invoke_without_command=True)
def fit(context: typer.Context, debug: Annotated[bool, typer.Option("--debug", hidden=True)] = False) -> None:
    """Fit a model to a file and save it."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
