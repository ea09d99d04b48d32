"""Checks of what a model file holds, by the types that its estimator declares, before anything uses it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, get_type_hints

import numpy as np
from scipy import sparse

from aidlearn.archive import has_type, shown
from aidlearn.data.encoding.recipe import Recipe
from aidlearn.engine.result import CROSSING, Iteration, StartStep, Status, relative_gap
from aidlearn.estimators.checks import check_parameters
from aidlearn.estimators.fits import fits_of
from aidlearn.estimators.registry import IN_FILES, Model
from aidlearn.files.encoding import EncodingError
from aidlearn.numerics import Float, Int
from aidlearn.trace import Frame

NOT_SAVED = ("callbacks", "checkpoint")
"""Parameters that never come from a file: functions and names of files. A loaded model has their defaults."""
OF_ONE_FIT: dict[str, Any] = {
    "objective_": float,
    "lower_bound_": float,
    "gap_": float,
    "status_": Status,
    "n_iter_": int,
    "n_clusters_": int,
    "aggregation_rate_": float,
    "history_": list[Iteration],
    "start_": list[StartStep],
    "plan_": dict[str, Any],
}
"""Types of the fitted attributes of a single fit; several fits have arrays of the numbers, and lists of the others."""
OF_PICTURES: dict[str, Any] = {"cluster_sizes_": Int, "cluster_distances_": Float, "frames_": list[Frame]}
"""The same, of attributes that only some fits have."""
OF_MODEL: dict[str, Any] = {
    "n_passes_": int,
    "n_dropped_": int,
    "n_refitted_": int,
    "crossings_": int,
    "recipe_": Recipe,
    "formula_": str,
    "certified_kernel_": str,
    "shape_fit_": tuple,
    "choice_": dict[str, Any],
    "support_": Int,
    "n_support_": Int,
    "dual_coef_": np.ndarray,
    "class_weight_": np.ndarray,
    "transduction_": np.ndarray,
    "classes_": np.ndarray,
    "scores_": np.ndarray,
    "gaps_": np.ndarray,
    "coefs_paths_": np.ndarray,
}
"""Types of other fitted attributes."""


def with_parameters(declared: Model, parameters: Mapping[str, Any]) -> Any:
    """Return an unfitted estimator with the parameters of a file, each of which has its declared type."""
    hints = get_type_hints(declared.parameters)
    for name, value in parameters.items():
        if name in NOT_SAVED:
            raise EncodingError(f"it sets {name}, which never comes from a file")
        if name in hints and not has_type(value, hints[name]):
            raise EncodingError(f"the parameter {name} is {shown(value)}")
    model = declared.estimator(**parameters)
    check_parameters(model)
    return model


def _check_types(model: Any) -> None:
    """Refuse fitted attributes of wrong types, and a certificate whose numbers contradict each other."""
    several = isinstance(model.status_, list)
    n = len(model.status_) if several else 1
    for name, one in {**OF_ONE_FIT, **OF_PICTURES}.items():
        value = getattr(model, name, None)
        if value is None and (name in OF_PICTURES or not hasattr(model, name)):
            continue
        if several and one in (int, float):
            right = has_type(value, Int if one is int else Float)
        else:
            listed = value if several and isinstance(value, list) else [value]
            right = all(has_type(item, one) or (item is None and name in OF_PICTURES) for item in listed)
        counted = not several or (
            isinstance(value, (list, np.ndarray)) and len(value) in (n, n if name in OF_ONE_FIT else 0)
        )
        if not right or not counted:
            raise EncodingError(f"{name} is {shown(value)}")
    for name, hint in OF_MODEL.items():
        if hasattr(model, name) and not has_type(getattr(model, name), hint | None):
            raise EncodingError(f"{name} is {shown(getattr(model, name))}")
    for fit in fits_of(model):
        gap = relative_gap(fit.objective, fit.lower_bound)
        if not (fit.gap >= 0 and (fit.gap == gap or abs(fit.gap - gap) <= CROSSING)):
            raise EncodingError(f"the gap of {fit.objective:g} and {fit.lower_bound:g} is not {fit.gap:g}")
        if not fit.aggregation_rate > 0 or fit.n_clusters < 0:
            raise EncodingError(f"it has {fit.n_clusters} clusters, a part of {fit.aggregation_rate:g} of its rows")
        if fit.cluster_sizes is not None or fit.cluster_distances is not None:
            _check_lengths("its clusters", fit.cluster_sizes, fit.cluster_distances)
        for frame in fit.frames:
            _check_lengths("a picture", frame.x, frame.y, frame.sizes, frame.regions, frame.labels)
            _check_lengths("a line", frame.line, range(3))
    names = getattr(model, "feature_names_in_", None)
    if names is None and (hasattr(model, "formula_") or hasattr(model, "feature_names_in_")):
        raise KeyError("feature_names_in_")
    if names is not None and not all(isinstance(name, str) for name in np.ravel(names)):
        raise EncodingError("feature_names_in_ holds names that are no texts")


def _check_lengths(what: str, *parts: Any) -> None:
    if len({-1 if part is None else len(part) for part in parts}) > 1:
        raise EncodingError(f"{what} has parts of different lengths")


def missing_attributes(model: Any) -> list[str]:
    """Return the attributes of every fitted model that this one lacks."""
    needed = ["n_features_in_", "intercept_", "objective_", "lower_bound_", "gap_", "status_", "history_", "n_passes_"]
    needed += ["classes_"] if IN_FILES[type(model).__name__].classifies else []
    return [name for name in needed if not hasattr(model, name)]


def check_model(model: Any, linear: bool, arrays: Mapping[str, Any]) -> None:
    """Refuse a model that lacks what predictions or the certificate need, or whose arrays do not fit together."""
    declared = IN_FILES[type(model).__name__]
    for name in [*missing_attributes(model), *(["coef_"] if linear and not hasattr(model, "coef_") else [])]:
        raise KeyError(name)
    for name in ("coef_", "intercept_", "_offsets", "_expansion"):
        values = np.asarray(getattr(model, name, 0.0))
        most = 1 if name in ("intercept_", "_offsets") else 2
        if values.dtype.kind != "f" or not np.isfinite(values).all() or values.ndim > most:
            raise EncodingError(f"{name} is an array of {values.dtype} and shape {values.shape}, or not finite")
    _check_types(model)
    n = model.n_features_in_
    if not isinstance(n, (int, np.integer)) or n < 1:
        raise EncodingError(f"n_features_in_ is {n!r}")
    recipe = getattr(model, "recipe_", None)
    if recipe is not None and len(recipe.columns) != n:
        raise EncodingError(f"recipe_ has {len(recipe.columns)} columns with {n} features")
    width = n if recipe is None else recipe.n_attributes
    # Rows of a precomputed kernel are not kept.
    names = ("coef_",) if model.get_params().get("kernel") == "precomputed" else ("coef_", "support_vectors_")
    for name in names:
        if hasattr(model, name) and np.shape(getattr(model, name))[-1:] != (width,):
            raise EncodingError(f"{name} has the shape {np.shape(getattr(model, name))} with {width} features")
    if hasattr(model, "feature_names_in_") and np.shape(model.feature_names_in_) != (n,):
        raise EncodingError(f"feature_names_in_ does not name {n} features")
    if hasattr(model, "classes_"):
        machines = len(declared.fit_names(model, model.classes_))
        if np.ndim(model.classes_) != 1 or len(model.classes_) < 2 or np.size(model.intercept_) != machines:
            raise EncodingError(f"classes_ has the shape {np.shape(model.classes_)}")
    # A model of dense rows holds an array of at least n entries; one of sparse rows may declare any n.
    largest = max((array.size for array in arrays.values()), default=0)
    row = np.zeros((1, n)) if n <= largest else sparse.csr_array((1, n))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            machines = np.size(model.intercept_)
            if hasattr(model, "coef_") and len(np.atleast_2d(model.coef_)) != machines:
                raise EncodingError(f"coef_ has the shape {np.shape(model.coef_)} with {machines} intercepts")
            if recipe is None and declared.classifies:
                n_classes, n_scores = len(model.classes_), np.size(model.decision_function(row))
                if n_scores not in ((1,) if n_classes == 2 else (n_classes, machines)):
                    raise EncodingError(f"its machines give {n_scores} scores of {n_classes} classes")
            if recipe is None:  # with a recipe the rows are those of a table; its width was checked above
                model.predict(row)
            fits_of(model)
        except (ArithmeticError, MemoryError, RecursionError) as error:
            raise EncodingError(f"its parts do not fit together ({error})") from None
