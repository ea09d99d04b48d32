"""Fitted models in files: archives of JSON and arrays (:mod:`aidlearn.archive`), never code.

A file holds the name of the estimator, its parameters, its fitted attributes, and whatever else predictions need
(``FileState`` in :mod:`aidlearn.estimators.registry`). Older versions are brought up to date one version at a time
(``UPGRADES``).
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from sklearn.utils.validation import check_is_fitted

from aidlearn import archive
from aidlearn.archive import has_type
from aidlearn.estimators.registry import IN_FILES
from aidlearn.files.checks import NOT_SAVED, check_model, missing_attributes, with_parameters
from aidlearn.files.encoding import TYPE, EncodingError, decode, encode

KIND, VERSION = "aidlearn model", 3


def _from_version_1(content: dict[str, Any]) -> dict[str, Any]:
    """Upgrade version 1: kernels stored only gamma, rows were not centred, iterations had no near and far rates."""
    content = _with_rates(content)
    private, fitted = content["private"], content["fitted"]
    if "gamma" in private:
        given = content["parameters"]
        kernel = {"name": given["kernel"], "degree": given["degree"], "coef0": float(given["coef0"]), "centre": None}
        content["private"] = {**kernel, **private}
    if content["estimator"] == "SVC":
        # The number of rows only determines how kernel values are computed.
        fitted["shape_fit_"] = encode((0, fitted["n_features_in_"]), "shape_fit_", {})
        content["private"]["offsets"] = fitted["intercept_"]
    return content


def _with_rates(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_rates(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get(TYPE) == "Iteration":
        return {**value, "value": {**value["value"], "near_rate": None, "far_rate": None}}
    return {key: _with_rates(item) for key, item in value.items()}


def _from_version_2(content: dict[str, Any]) -> dict[str, Any]:
    """Upgrade version 2, in which ``row_duals`` of a LinearSVC was called ``dual``."""
    given = content["parameters"]
    if content["estimator"] == "LinearSVC" and "dual" in given:
        given["row_duals"] = given.pop("dual")
    return content


UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _from_version_1, 2: _from_version_2}
"""Functions that convert the content of a file of version k to version k + 1."""


class ModelFileError(ValueError):
    """A model cannot be saved or a file cannot be loaded; the message says why."""


def save_model(model: Any, path: str | os.PathLike[str], *, training: Mapping[str, Any] | None = None) -> None:
    """Save a fitted estimator.

    The file is written completely or not at all. Parameters that are not data are not saved: ``callbacks``,
    ``checkpoint`` and functions for ``init`` are restored as defaults. A model whose kernel is a function cannot be
    saved.

    Parameters
    ----------
    model : estimator of aidlearn, fitted
    path : path
    training : dict, optional
        Facts about the fit that JSON can hold (where the data were, how long it took). The loaded model has them as
        ``training_``.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from aidlearn import LADRegressor, load_model, save_model
    >>> X = np.arange(10.0).reshape(-1, 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(LADRegressor().fit(X, 3 * X[:, 0]), folder + "/line.aid")
    ...     load_model(folder + "/line.aid").predict([[2.0]]).round(6)
    array([6.])
    """
    name = type(model).__name__
    if name not in IN_FILES or IN_FILES[name].estimator is not type(model):
        raise ModelFileError(f"A model file holds one estimator of aidlearn ({', '.join(IN_FILES)}), got {name}.")
    check_is_fitted(model)
    for missing in missing_attributes(model):
        raise ModelFileError(
            f"This {name} has no {missing}: its fit did not finish, or refit=False left it without a certificate."
        )
    if hasattr(model, "formula_rows_"):
        raise ModelFileError(
            f"A model by the formula {model.formula_!r} cannot be saved in a file without code: it has transformations "
            "or interactions. Make columns of them, and fit to these."
        )
    if training is None:
        training = getattr(model, "training_", None)
    arrays: dict[str, Any] = {}
    content = _described(model, training, arrays)
    path = Path(path)
    try:
        archive.write(path, KIND, VERSION, content, arrays)
    except OSError as error:
        raise ModelFileError(f"The model {path} cannot be written: {error.strerror or error}.") from None


def check_can_be_saved(model: Any, training: Mapping[str, Any] | None = None, classes: Any = ()) -> None:
    """Refuse before a fit what would prevent its model from being saved: parameters, facts, class labels."""
    _described(model, training, {})
    try:
        encode(list(classes), "classes_", {})
    except EncodingError as error:
        raise ModelFileError(f"A model of these classes could not be saved: {error}.") from None


def load_model(path: str | os.PathLike[str]) -> Any:
    """Load an estimator that :func:`save_model` saved.

    Parameters
    ----------
    path : path

    Returns
    -------
    estimator
        The model, with the same fitted attributes and bitwise identical predictions; it has ``training_`` if facts
        were saved.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from aidlearn import LADRegressor, load_model, save_model
    >>> X = np.arange(10.0).reshape(-1, 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(LADRegressor().fit(X, 3 * X[:, 0]), folder + "/line.aid", training={"data": "by hand"})
    ...     model = load_model(folder + "/line.aid")
    >>> model.training_, model.predict([[2.0]]).round(6)
    ({'data': 'by hand'}, array([6.]))
    """
    path = Path(path)
    try:
        found = archive.read(path, KIND, VERSION)
    except archive.ArchiveError as error:
        raise ModelFileError(str(error)) from None
    content = found.meta
    try:
        for version in range(found.version, VERSION):
            content = UPGRADES[version](content)
        return _restored(content, found.arrays)
    except KeyError as error:
        raise ModelFileError(f"The model {path} is incomplete: {error} is missing.") from None
    except (EncodingError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError) as error:
        raise ModelFileError(f"The model {path} cannot be used: {_sentence(error)}.") from None
    except RecursionError:
        raise ModelFileError(f"The model {path} cannot be used: it is nested too deeply.") from None


def _sentence(error: Exception) -> str:
    """Return the first line of a message, without its full stop."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def _described(model: Any, training: Mapping[str, Any] | None, arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a file; add its arrays to ``arrays``."""
    name = type(model).__name__
    try:
        facts = json.loads(json.dumps(training))
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"training must hold what JSON can hold: {error}.") from None
    stored, fitted = IN_FILES[name].file_state, _fitted(model)
    state = stored.of(model) if stored and fitted else {}
    parameters = _parameters(model, state)
    try:
        with_parameters(IN_FILES[name], parameters)  # what a file could not be loaded with is not saved
        return {
            "estimator": name,
            "environment": environment(),
            "parameters": {key: encode(value, key, arrays) for key, value in parameters.items()},
            "fitted": {key: encode(value, key, arrays) for key, value in fitted.items()},
            "private": {key: encode(value, f"private.{key}", arrays) for key, value in state.items()},
            "training": facts,
        }
    except (EncodingError, TypeError, ValueError) as error:
        raise ModelFileError(f"This {name} cannot be saved: {_sentence(error)}.") from None


def environment() -> dict[str, str]:
    """Return the versions on which the last digits of results may depend."""
    import aidlearn

    return {
        "aidlearn": aidlearn.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
    }


def environment_of(model: Any) -> dict[str, str]:
    """Return the environment in which a loaded model was saved; the current one for other models."""
    return getattr(model, "_environment", None) or environment()


def _parameters(model: Any, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that a file can hold."""
    given = model.get_params(deep=False)
    if callable(given.get("kernel")) or any(callable(value) for value in state.values()):
        raise ModelFileError(
            "A model whose kernel is a function cannot be saved in a file without code: use a kernel by name, or "
            "kernel='precomputed' with the function's matrix."
        )
    kept = {name: value for name, value in given.items() if name not in NOT_SAVED}
    if callable(kept.get("init")):
        del kept["init"]
    if not (kept["random_state"] is None or isinstance(kept["random_state"], (int, np.integer))):
        del kept["random_state"]  # a generator, which the fit has changed
    return kept


def _fitted(model: Any) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(model).items()
        if name.endswith("_") and not name.startswith("_") and name != "training_"
    }


def _restored(content: Mapping[str, Any], arrays: Mapping[str, Any]) -> Any:
    name = content["estimator"]
    if name not in IN_FILES:
        raise EncodingError(f"it holds an estimator that this version of aidlearn does not know, {name!r}")
    parameters, fitted, private = (
        {key: decode(value, arrays) for key, value in content[part].items()}
        for part in ("parameters", "fitted", "private")
    )
    model = with_parameters(IN_FILES[name], parameters)
    for key, value in fitted.items():
        if not key.endswith("_") or key.startswith("_") or hasattr(type(model), key) or key == "formula_rows_":
            raise EncodingError(f"{key!r} is not a fitted attribute")
        setattr(model, key, value)
    stored = IN_FILES[name].file_state
    if stored:
        stored.restore(model, private)
    if not has_type(content["environment"], dict[str, str]):
        raise EncodingError("its environment is not a table of texts")
    model._environment = content["environment"]
    if content["training"] is not None:
        model.training_ = dict(content["training"])
    check_model(model, not private, arrays)
    return model
