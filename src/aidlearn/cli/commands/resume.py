"""``aidlearn resume CKPT -o MODEL``: finish a fit that was stopped, from its checkpoint."""

from __future__ import annotations

from ast import literal_eval
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from aidlearn.cli.errors import CliError, reported
from aidlearn.cli.inputs import STDIN, checkpoint_files, kind_of_file, read_checkpoints
from aidlearn.cli.live import working
from aidlearn.cli.options import Debug, Jobs, Json, MaxIter, ModelOutput, Quiet, TimeLimit, argument
from aidlearn.cli.output import check_output
from aidlearn.cli.run import OutputOptions, fit_and_save, prepare
from aidlearn.estimators.registry import MODELS

if TYPE_CHECKING:
    from aidlearn.engine.checkpoint import Origin

ABOUT_COLUMNS = ("categorical_features", "missing", "one_hot", "numeric")
"""Entries of a checkpoint that are rules for the columns of its data."""


@reported
def resume(
    checkpoint: Annotated[str, argument("CKPT", "The file given to --checkpoint.")],
    output: ModelOutput,
    time_limit: TimeLimit = None,
    max_iter: MaxIter = None,
    jobs: Jobs = -1,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> int:
    """Continue a fit from its checkpoint; limits count from now."""
    check_output(output, "model", inputs=[checkpoint])
    from aidlearn.estimators.checks import check_parameters

    files = _files(checkpoint)
    found = read_checkpoints(files)
    model, source_options, base = _recreated(files, found[0].origin)
    if time_limit is not None:
        model.time_limit = time_limit
    if max_iter is not None:
        # The count of iterations includes those before the checkpoint.
        model.max_iter = max_iter + max(
            (record.iteration for one in found for record in one.snapshot.history), default=0
        )
    model.n_jobs, model.checkpoint = jobs, str(base)
    check_parameters(model)
    shown = str(source_options["path"])
    with working(f"Reading {shown}", quiet):
        from aidlearn.data.opening import open_by_rules, rules_from

        declared = MODELS[type(model).__name__]
        said = {name: source_options.pop(name) for name in ABOUT_COLUMNS if name in source_options}
        rules = replace(rules_from(**said), unknown=model.unknown, unlabelled=declared.unlabelled_rows)
        source: Any = open_by_rules(**source_options, rules=rules, n_jobs=jobs, intercept=model.fit_intercept)
        fit = prepare(declared, model, source, shown, note=", resumed")
    return fit_and_save(fit, OutputOptions(output, json, quiet))


def _files(checkpoint: str) -> list[Path]:
    files = checkpoint_files(checkpoint)
    if not files:
        raise CliError(f"There is no checkpoint {checkpoint}.")
    if kind_of_file(str(files[0])) == "aidlearn model":
        raise CliError(f"{checkpoint} is a finished model, not a checkpoint: there is nothing to resume.")
    return files


def _recreated(files: list[Path], origin: Origin) -> tuple[Any, dict[str, Any], Path]:
    """Return the estimator of a checkpoint, the arguments that open its data, and the fit's checkpoint path."""
    from aidlearn.data.encoding.places import find_places

    recipe = origin.recipe
    again = "Run that fit again with the same checkpoint to continue it."
    if recipe is None or recipe.get("source") is None:
        raise CliError(f"{files[0]} belongs to a fit of data in a Python program, which only that program has. {again}")
    source = dict(recipe["source"])
    if source["path"] == STDIN:
        raise CliError(f"{files[0]} belongs to a fit of standard input, which is gone. {again}")
    try:
        find_places(source["path"])
    except (OSError, ValueError):
        raise CliError(f"The data of {files[0]} are no longer there: {source['path']}.") from None
    name = str(recipe["estimator"])
    declared = MODELS.get(name)
    if declared is None:
        raise CliError(f"{files[0]} belongs to {name}, which this version of aidlearn cannot resume.")
    several = origin.fingerprint.get("number", "None") != "None"
    base = files[0].with_name(files[0].name.rpartition(".")[0]) if several else files[0]
    parameters = dict(recipe["parameters"])
    for key, value in parameters.items():
        # JSON turns numeric labels into texts and tuples into lists; the fingerprint preserves them.
        described = origin.fingerprint.get(key, "")
        if isinstance(value, (dict, list)) and described.startswith(("{", "(")):
            parameters[key] = literal_eval(described)
    return declared.estimator(**parameters), source, base
