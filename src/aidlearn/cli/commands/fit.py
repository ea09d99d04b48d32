"""``aidlearn fit MODEL-KIND DATA``: one subcommand per estimator, each with the options that apply to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aidlearn.cli.commands.statistics import (
    SE_OPTIONS,
    check_standard_errors,
    show_summaries,
    summaries_of,
    with_summary,
)
from aidlearn.cli.errors import CliError, option_name, reported, tell
from aidlearn.cli.inputs import (
    ColumnOptions,
    class_weights,
    data_file,
    load_rows,
    open_data,
    semi_supervised_labels,
)
from aidlearn.cli.live import opening
from aidlearn.cli.options import Data, Debug, Delimiter, Encoding, Json, ModelOutput, Quiet, option, with_options
from aidlearn.cli.outputs import check_output
from aidlearn.cli.parameters import OF_ALL_MODELS, described, options_of, parameters_from
from aidlearn.cli.penalties import CV_OPTIONS, cross_validated
from aidlearn.cli.run import OutputOptions, count_fits, fit_and_save, training_facts
from aidlearn.cli.words import count
from aidlearn.estimators.registry import MODELS, Model

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aidlearn.data.rows.numbers import Classes
    from aidlearn.data.tables.files import FileSource

app = typer.Typer(help="Fit a model to a file and save it.", rich_markup_mode=None)

REQUIRED = Parameter.empty

DATA_OPTIONS = {
    "data": (Data, REQUIRED),
    "target": option(str | None, None, "--target", "-t", help="Column of the target: a name or a number from 0."),
    "columns": option(
        str | None, None, "--columns", help="Columns of X, as in a,b,c; by default all but target and weight."
    ),
    "weight": option(str | None, None, "--weight", help="Column of sample weights."),
    "categorical": option(
        str | None,
        None,
        "--categorical",
        help="Columns that are factors in addition to texts, as in city,month=5 (reference level 5).",
    ),
    "numeric": option(str | None, None, "--numeric", help="Columns to read as numbers, whatever they look like."),
    "formula": option(
        str | None, None, "--formula", help="Target and columns at once, as in 'delay ~ distance + C(month)'."
    ),
    "delimiter": (Delimiter, None),
    "encoding": (Encoding, None),
    "output": (ModelOutput, REQUIRED),
}
READING_OPTIONS = {
    "memory_limit": option(str | None, None, "--memory-limit", help="Maximum memory of the fit, as in 2GB or 500MB."),
}
"""Options of models that read files in parts."""
OUTPUT_OPTIONS = {"json": (Json, False), "quiet": (Quiet, False), "debug": (Debug, False)}


def estimator_from(model: Model, options: dict[str, Any]) -> Any:
    """Create the estimator and check its parameters before the data are read."""
    from aidlearn.estimators.checks import check_parameters

    estimator = model.estimator(**parameters_from(model, options))
    check_parameters(estimator)
    return estimator


def _columns(estimator: Any, options: dict[str, Any]) -> ColumnOptions:
    """The columns, from options or from a formula, which also determines whether there is an intercept."""
    formula = options["formula"]
    if formula is None:
        names = ("target", "columns", "weight", "categorical", "numeric")
        return ColumnOptions(*(options[name] for name in names))
    for name in ("target", "columns", "categorical"):
        if options[name] is not None:
            raise CliError(f"--formula names the columns: leave {option_name(name)} out.")
    from aidlearn.formula import simple_terms

    terms = simple_terms(formula)
    if terms is None:
        raise CliError(
            f"--formula {formula!r} is more than a list of columns and C(): a model file holds no transformations. "
            "Make columns of them, or fit it from Python with aidlearn.formula.fit."
        )
    if "fit_intercept" in estimator.get_params():
        estimator.set_params(fit_intercept=terms.intercept)
    elif not terms.intercept:
        raise CliError(f"{type(estimator).__name__} always has an intercept: leave '- 1' out of the formula.")
    return ColumnOptions(terms.target, None, options["weight"], None, options["numeric"], terms)


def _check_checkpoint(options: dict[str, Any]) -> None:
    """Refuse a checkpoint that is also the data or the model."""
    if options.get("checkpoint") is None:
        return
    for what in ("data", "output"):
        if os.path.realpath(options["checkpoint"]) == os.path.realpath(options[what]):
            raise CliError(f"--checkpoint {options['checkpoint']} is also the file of the {what}: choose another one.")


@dataclass(frozen=True)
class PreparedFit:
    """A fit whose data are open."""

    run: Callable[[], Any]
    n_fits: int
    notes: str = ""
    """Words about the labels, for the title."""


def _run(model: Model, options: dict[str, Any]) -> int:
    from aidlearn.data.encoding.rules import Rules

    output = OutputOptions(options["output"], options["json"], options["quiet"])
    check_output(output.model, "model", inputs=[options["data"]])
    _check_checkpoint(options)
    check_standard_errors(options)
    if options.get("cv") is not None:
        model, estimator = cross_validated(model, options, _defaults(model))
    else:
        if options.get("penalties") is not None:
            raise CliError("--penalties requires --cv.")
        estimator = estimator_from(model, options)
    with data_file(options["data"], options["delimiter"], options["encoding"]) as file:
        columns = _columns(estimator, options)
        shown = "standard input" if options["data"] == "-" else options["data"]
        with opening(shown, output.quiet):
            source = open_data(
                file,
                columns,
                Rules(missing=estimator.missing, unknown=estimator.unknown, unlabelled=model.unlabelled_rows),
                options["n_jobs"],
                needs_target=model.needs_target,
                intercept=estimator.fit_intercept,
                memory_limit=None if model.in_memory else options["memory_limit"],
            )
            facts = training_facts(source, shown)
            facts |= {"formula": options["formula"]} if options["formula"] else {}
            prepare = prepare_in_memory if model.in_memory else prepare_from_file
            prepared = prepare(model, estimator, source, facts, options.get("class_weight"))
        rows = f"{count(source.n_entries)} rows x {count(source.n_attributes)} columns"
        title = f"{model.name} of {Path(shown).name}: {rows}{prepared.notes}"
        _tell_factors(source, output)
        run = with_summary(prepared.run, estimator, source, options, facts)
        code = fit_and_save(estimator, run, facts, output, title, prepared.n_fits)
        if "summaries" in facts and not (output.json or output.quiet):
            estimator.training_ = facts
            show_summaries(summaries_of(estimator))
        return code


def _tell_factors(source: FileSource, output: OutputOptions) -> None:
    """Print one line that names the factors, which may have been recognised by type."""
    if source.encoding is not None and not (output.quiet or output.json):
        words = [f"{factor.name}: {count(len(factor.levels or ()))} levels" for factor in source.encoding.factors]
        tell(", ".join(words), "Factors")
    if source.n_dropped and not output.quiet:
        tell(f"{count(source.n_dropped)} rows with missing cells are left out", "Missing")


def _labels(model: Model, find: Callable[[], Classes]) -> NDArray[Any] | None:
    """The classes of the target; None if there are none, or the fit will refuse them with its own message."""
    try:
        return find().labels if model.classifies else None
    except ValueError:
        return None


def _count_fits(estimator: Any, labels: NDArray[Any] | None, class_weight: str | None) -> int:
    if class_weight is not None and labels is not None:
        estimator.class_weight = class_weights(class_weight, labels)
    return count_fits(estimator, labels)


def prepare_from_file(
    model: Model, estimator: Any, source: FileSource, facts: dict[str, Any], class_weight: str | None = None
) -> PreparedFit:
    """A fit that reads its rows from the file in every pass."""
    n_fits = _count_fits(estimator, _labels(model, source.classes), class_weight)
    return PreparedFit(lambda: estimator.fit(source), n_fits)


def prepare_in_memory(
    model: Model, estimator: Any, source: FileSource, facts: dict[str, Any], class_weight: str | None = None
) -> PreparedFit:
    """A fit of rows in memory that keeps the names of their columns."""
    import numpy as np

    from aidlearn.data.rows.numbers import Classes, check_labels
    from aidlearn.files.models import check_can_be_saved

    X, target, weight = load_rows(source)
    estimator.rows_from = source.origin
    if source.encoding is not None:
        from aidlearn.data.encoding.recipe import EncodedRows

        X = EncodedRows(X, source.encoding)
    missing = estimator.missing
    estimator.missing = "error" if missing == "drop" else missing  # incomplete rows have been left out already

    def name_columns() -> None:
        estimator.missing, estimator.n_dropped_ = missing, source.n_dropped
        if source.named and source.encoding is None:
            estimator.feature_names_in_ = np.array(source.names, dtype=object)

    if model.unlabelled_rows:
        labels = semi_supervised_labels(target, facts["data"])
        facts["labelled"] = labels.n_labelled

        def fit_codes() -> None:
            estimator.fit(X, labels.codes, sample_weight=weight)
            estimator.classes_ = labels.classes
            estimator.transduction_ = labels.classes[estimator.transduction_]
            name_columns()

        check_can_be_saved(estimator, classes=labels.classes.tolist())
        n_fits = len(model.fit_names(estimator, labels.classes))
        return PreparedFit(fit_codes, n_fits, f", {count(labels.n_labelled)} labelled")

    if target.dtype.kind == "f" and np.isfinite(target).all() and (target == np.round(target)).all():
        target = target.astype(np.int64)

    def fit() -> None:
        estimator.fit(X, target, sample_weight=weight)
        name_columns()

    classes = _labels(model, lambda: Classes.of_labels(check_labels(target))[0])
    return PreparedFit(fit, _count_fits(estimator, classes, class_weight))


def _options(model: Model) -> dict[str, Any]:
    """All options of the command of a model."""
    own = {name: described(name, known) for name, known in options_of(model).items()}
    reading = {} if model.in_memory else READING_OPTIONS
    if model.standard_errors:
        reading = reading | SE_OPTIONS
    choosing = CV_OPTIONS if model.cross_validated else {}
    return DATA_OPTIONS | reading | own | choosing | OF_ALL_MODELS | OUTPUT_OPTIONS


def _defaults(model: Model) -> dict[str, Any]:
    return {name: default for name, (_, default) in _options(model).items()}


def add_command(model: Model) -> None:
    """Add the subcommand of a model."""

    def command(**options: Any) -> int:
        return _run(model, options)

    command.__name__, command.__doc__ = model.command.replace("-", "_"), model.help
    app.command(model.command)(with_options(reported(command), _options(model)))


for _model in MODELS.values():
    add_command(_model)


@app.callback(invoke_without_command=True)
def fit(context: typer.Context, debug: Annotated[bool, typer.Option("--debug", hidden=True)] = False) -> None:
    """Fit a model to a file and save it."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
