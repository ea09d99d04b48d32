"""``aidlearn fit svm --cv 5``: the penalty of a model by cross-validation."""

from __future__ import annotations

from typing import Any

from aidlearn.cli.errors import CliError, option_name
from aidlearn.cli.options import option
from aidlearn.cli.parameters import options_of, parameters_from
from aidlearn.estimators.registry import CROSS_VALIDATED, Model

CV_OPTIONS = {
    "cv": option(int | None, None, "--cv", help="Choose the penalty by cross-validation with this number of folds."),
    "penalties": option(
        str | None, None, "--penalties", help="With --cv: the number of penalties, or their values as in 0.01,0.1,1."
    ),
}
"""Options of models whose penalty can be chosen by cross-validation."""
VALUES = {"LinearSVCCV": ("Cs", "C"), "QuantileRegressorCV": ("alphas", "alpha")}
"""Parameter that lists the penalties, and the parameter whose values they are."""
NOT_OFFERED = ("se", "clusters", "memory_limit")


def cross_validated(model: Model, options: dict[str, Any], defaults: dict[str, Any]) -> tuple[Model, Any]:
    """The cross-validated model and its estimator; options that do not apply to it are refused."""
    chosen = CROSS_VALIDATED[model.cross_validated]
    known = options_of(chosen).keys() - {"checkpoint"}
    own = [name for name in options_of(model) if name not in known]
    for name in (*own, *NOT_OFFERED):
        if name in options and options[name] != defaults.get(name):
            raise CliError(f"{option_name(name)} cannot be combined with --cv: leave it out.")
    given = {**options, "checkpoint": None}
    parameters = parameters_from(chosen, given)
    parameters["cv"] = options["cv"]
    if options["cv"] < 2:
        raise CliError(f"--cv must be at least 2, got {options['cv']}.")
    if options["penalties"] is not None:
        parameters[VALUES[chosen.name][0]] = _penalties(options["penalties"])
    return chosen, chosen.estimator(**parameters)


def _penalties(text: str) -> Any:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise CliError(f"--penalties must be a whole number or values separated by commas, got {text!r}.") from None
    return int(values[0]) if len(values) == 1 and values[0].is_integer() and values[0] >= 2 else values


def chosen_rows(model: Any) -> list[tuple[str, str]]:
    """Lines about the penalty that cross-validation chose."""
    if type(model).__name__ not in VALUES:
        return []
    import numpy as np

    _many, one = VALUES[type(model).__name__]
    n_folds, n = model.scores_.shape
    score = np.nanmax(model.scores_.mean(axis=0))
    seen = np.isfinite(model.gaps_)
    certified = "every point certified" if seen.all() else f"{seen.sum()} of {seen.size} points fitted and certified"
    words = f"{getattr(model, one + '_'):g}, the best of {n} over {n_folds} folds: mean score {score:.6g}"
    return [(one, words), ("folds", f"{certified}, largest gap {model.gaps_[seen].max():.1e}")]
