"""``aidlearn fit MODEL-KIND DATA``: one subcommand per estimator, each with the options that apply to it."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from aidlearn.cli.commands.statistics import SE_OPTIONS, check_standard_errors, show_summaries, with_summary
from aidlearn.cli.errors import CliError, option_name, reporting, tell
from aidlearn.cli.inputs import data_file, open_data
from aidlearn.cli.live import working
from aidlearn.cli.options import (
    OF_ALL_MODELS,
    PRINTED_OR_JSON,
    REQUIRED,
    Data,
    Delimiter,
    Described,
    Encoding,
    ModelOutput,
    add_command,
    described,
    group,
    numbers_in,
    option,
    options_of,
    parameters_from,
    text,
)
from aidlearn.cli.output import STDOUT, check_output
from aidlearn.cli.run import PENALTIES, OutputOptions, fit_and_save, prepare
from aidlearn.estimators.registry import CROSS_VALIDATED, MODELS, Model
from aidlearn.words import count

if TYPE_CHECKING:
    from aidlearn.data.tables.files import FileSource
    from aidlearn.formula import ListedColumns

app = group("Fit a model to a file and save it.")

DATA_OPTIONS: dict[str, Described] = {
    "data": (Data, REQUIRED),
    "target": text("--target", "-t", help="Column of the target: a name or a number from 0."),
    "columns": text("--columns", help="Columns of X, as in a,b,c; by default all but target and weight."),
    "weight": text("--weight", help="Column of sample weights."),
    "categorical": text(
        "--categorical", help="Columns that are factors in addition to texts, as in city,month=5 (reference level 5)."
    ),
    "numeric": text("--numeric", help="Columns to read as numbers, whatever they look like."),
    "formula": text("--formula", help="Target and columns at once, as in 'delay ~ distance + C(month)'."),
    "delimiter": (Delimiter, None),
    "encoding": (Encoding, None),
    "output": (ModelOutput, REQUIRED),
}
READING_OPTIONS = {"memory_limit": text("--memory-limit", help="Maximum memory of the fit, as in 2GB or 500MB.")}
"""Options of models that read files in parts."""
CV_OPTIONS = {
    "cv": option(int | None, None, "--cv", help="Choose the penalty by cross-validation with this number of folds."),
    "penalties": text("--penalties", help="With --cv: the number of penalties, or their values as in 0.01,0.1,1."),
}
"""Options of models whose penalty can be chosen by cross-validation."""
NOT_WITH_CV = ("se", "clusters", "memory_limit")


def options_for(model: Model) -> dict[str, Described]:
    """Return all options of a model's command."""
    found = dict(DATA_OPTIONS)
    if not model.in_memory:
        found |= READING_OPTIONS
    if model.standard_errors:
        found |= SE_OPTIONS
    found |= {name: described(name, known) for name, known in options_of(model).items()}
    if model.cross_validated:
        found |= CV_OPTIONS
    return found | OF_ALL_MODELS | PRINTED_OR_JSON


def _estimator_from(model: Model, options: dict[str, Any]) -> Any:
    """Create the estimator and check its parameters before the data are read."""
    from aidlearn.estimators.checks import check_parameters

    if options.get("penalties") is not None:
        raise CliError("--penalties requires --cv.")
    estimator = model.estimator(**parameters_from(model, options))
    check_parameters(estimator)
    return estimator


def _cross_validated(model: Model, options: dict[str, Any]) -> tuple[Model, Any]:
    """Return the cross-validated model and its estimator; refuse options that do not apply to it."""
    chosen, usual = CROSS_VALIDATED[model.cross_validated], options_for(model)
    own = [name for name in options_of(model) if name not in options_of(chosen)]
    for name in (*own, "checkpoint", *NOT_WITH_CV):
        if name in options and options[name] != usual[name][1]:
            raise CliError(f"{option_name(name)} cannot be combined with --cv: leave it out.")
    if options["cv"] < 2:
        raise CliError(f"--cv must be at least 2, got {options['cv']}.")
    parameters = parameters_from(chosen, options) | {"cv": options["cv"]}
    if options["penalties"] is not None:
        values = numbers_in(options["penalties"], "--penalties must be a whole number or values separated by commas")
        number = len(values) == 1 and values[0].is_integer() and values[0] >= 2
        parameters[PENALTIES[chosen.name][0]] = int(values[0]) if number else values
    return chosen, chosen.estimator(**parameters)


def _terms(estimator: Any, options: dict[str, Any]) -> ListedColumns | None:
    """Return the terms of the formula, if any; they also determine whether the estimator has an intercept."""
    formula = options["formula"]
    if formula is None:
        return None
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
    return terms


def _check_checkpoint(options: dict[str, Any]) -> None:
    """Refuse a checkpoint that is no file, or also the data or the model."""
    if options.get("checkpoint") is None:
        return
    if options["checkpoint"] == STDOUT:
        raise CliError("--checkpoint - is not a file name: choose another one.")
    for what in ("data", "output"):
        if os.path.realpath(options["checkpoint"]) == os.path.realpath(options[what]):
            raise CliError(f"--checkpoint {options['checkpoint']} is also the file of the {what}: choose another one.")


def fit_file(model: Model, **options: Any) -> int:
    """Run the command of a model; omitted options have their defaults."""
    from aidlearn.data.encoding.rules import Rules

    options = {name: default for name, (_, default) in options_for(model).items()} | options
    output = OutputOptions(options["output"], options["json"], options["quiet"])
    check_output(output.model, "model", inputs=[options["data"]])
    _check_checkpoint(options)
    check_standard_errors(options)
    if options.get("cv") is not None:
        model, estimator = _cross_validated(model, options)
    else:
        estimator = _estimator_from(model, options)
    with data_file(options["data"], options["delimiter"], options["encoding"]) as file:
        terms = _terms(estimator, options)
        rules = Rules(missing=estimator.missing, unknown=estimator.unknown, unlabelled=model.unlabelled_rows)
        settings = {"intercept": estimator.fit_intercept}
        if not model.in_memory:
            settings["memory_limit"] = options["memory_limit"]  # kernel machines have it as a parameter
        with working(f"Reading {file.shown}", output.quiet):
            source = open_data(file, options, terms, rules, model.needs_target, **settings)
            fit = prepare(model, estimator, source, file.shown, options.get("class_weight"))
        if options["formula"]:
            fit.facts["formula"] = options["formula"]
        _tell_factors(source, output)
        if options.get("se") is not None:
            fit = replace(fit, run=with_summary(fit, source, options))
        code = fit_and_save(fit, output)
        if not (output.json or output.quiet):
            with reporting(output.model):
                show_summaries(fit.facts)
        return code


def _tell_factors(source: FileSource, output: OutputOptions) -> None:
    """Print one line that names the factors, which may have been recognised by type."""
    if source.encoding is not None and not (output.quiet or output.json):
        words = [f"{factor.name}: {count(len(factor.levels or ()))} levels" for factor in source.encoding.factors]
        tell(", ".join(words), "Factors")
    if source.n_dropped and not output.quiet:
        tell(f"{count(source.n_dropped)} rows with missing cells are left out", "Missing")


def add_model(model: Model) -> None:
    """Add the subcommand of a model."""
    add_command(app, model.command, model.help, options_for(model), partial(fit_file, model))


for _model in MODELS.values():
    add_model(_model)
