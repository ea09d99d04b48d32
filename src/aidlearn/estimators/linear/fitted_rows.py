"""New runs over the rows of a fitted model, and the clusters of these rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from aidlearn.data.encoding.recipe import EncodedRows
from aidlearn.data.opening import open_source
from aidlearn.data.passes.run import Run
from aidlearn.data.rows.arrays import is_dask
from aidlearn.data.rows.numbers import as_array
from aidlearn.data.rows.source import DataSource
from aidlearn.data.rows.threads import one_blas_thread
from aidlearn.data.tables.conversion import is_elsewhere, is_table, refuse_arrays
from aidlearn.data.tables.in_memory import FrameColumns
from aidlearn.estimators.linear.coordinates import MeasuredRows, Terms
from aidlearn.inference.clusters import ClusterCodes
from aidlearn.inference.hypotheses import INTERCEPT
from aidlearn.linear.model.leverage import NormalEquations
from aidlearn.linear.model.losses import absolute
from aidlearn.numerics import Float


def unfitted(model: Any, **changes: Any) -> Any:
    """Return an unfitted estimator with the same parameters, but without callbacks, checkpoint and standardization.

    ``changes`` are applied as well. Coefficients are those in the units of the data, and an optimum without a penalty
    does not depend on the scale of the columns.
    """
    kept = {**model.get_params(deep=False), "callbacks": None, "checkpoint": None, "standardize": False, **changes}
    return type(model)(**kept)


def fitted_run(model: Any, X: Any, y: Any, sample_weight: Any) -> Run:
    """Return a run over rows that have the columns (and classes) of a fitted model, which is not changed."""
    probe = unfitted(model)
    if hasattr(model, "formula_"):
        X, y, sample_weight = _formula_rows(model, X, y, sample_weight)
    recipe = getattr(model, "recipe_", None)
    if recipe is not None and not is_elsewhere(X) and not isinstance(X, (DataSource, EncodedRows)):
        refuse_arrays(X, recipe, hasattr(model, "feature_names_in_"))
    run: Run = probe._opened(X, y, sample_weight)
    if probe.n_features_in_ != model.n_features_in_:
        raise ValueError(
            f"X has {probe.n_features_in_} features, but the model was fitted with {model.n_features_in_} features."
        )
    names = [getattr(each, "feature_names_in_", None) for each in (probe, model)]
    if names[0] is not None and names[1] is not None and list(names[0]) != list(names[1]):
        raise ValueError(f"The columns of X must be those of the fit, in their order: {list(names[1])}.")
    if getattr(getattr(probe, "recipe_", None), "names", None) != getattr(recipe, "names", None):
        raise ValueError("The factors of X have other levels than those of the fit; these must be the rows of the fit.")
    if hasattr(model, "classes_") and not np.array_equal(probe.classes_, model.classes_):
        raise ValueError(f"The classes of y must be those of the fit: {model.classes_.tolist()}.")
    return run


def _formula_rows(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Return the columns of a model's formula, and its target if none is given."""
    target = str(model.formula_).partition("~")[0].strip().strip("`")
    if is_elsewhere(X):
        recipe, names = getattr(model, "recipe_", None), [str(name) for name in model.feature_names_in_]
        factors = {} if recipe is None else recipe.references
        return open_source(X, target if y is None else y, names, weight=sample_weight, one_hot=factors), None, None
    if y is None and is_table(X):
        columns = FrameColumns(X).frame
        if target not in columns.columns:
            raise ValueError(f"The target {target!r} of the formula is no column of X: pass it as y.")
        y = as_array(columns.get_column(target))
    return model._by_formula(X), y, sample_weight


def names_of(model: Any) -> list[str]:
    """Return the names of the coefficients, the intercept first."""
    slopes = list(model.coefficient_names_)
    return [INTERCEPT, *slopes] if model.fit_intercept else slopes


def intercept_first(rows: MeasuredRows, points: Float) -> Float:
    """Return coefficients with the intercept first, from points that have it last."""
    if not rows.fit_intercept:
        return points
    return np.concatenate([points[..., -1:] + rows.offset, points[..., :-1]], axis=-1)


def least_squares(model: Any, X: Any, y: Any, sample_weight: Any = None) -> Float:
    """Compute the least-squares coefficients of a linear regression (the intercept first), by two passes."""
    run = fitted_run(model, X, y, sample_weight)
    with one_blas_thread():
        rows = unfitted(model)._measured(run)
        design = rows.design(absolute(), Terms())
        equations = NormalEquations.of_all(design, rows.run)
        point = design.step(np.asarray(linalg.lstsq(equations.gram, equations.right)[0]))
    return intercept_first(rows, point)


def cluster_codes(clusters: Any, X: Any, source: DataSource) -> ClusterCodes:
    """Read clusters from an array, or from a column of X if it is a file or a Dask DataFrame."""
    if isinstance(clusters, (str, int, np.integer)):
        if is_dask(X):
            labels = np.asarray(X[clusters].compute())
        else:
            origin = source.origin or {}
            if "path" not in origin:
                raise ValueError("clusters names a column, which only a file or a Dask DataFrame has; pass an array.")
            one = [origin["columns"][0]] if origin.get("columns") else [source.names[0]] if source.named else None
            column = open_source(origin["path"], clusters, one)
            labels = np.concatenate([np.array(chunk.y) for chunk in column.chunks()])
    else:
        labels = np.asarray(clusters.compute() if is_dask(clusters) else clusters)
    if labels.ndim != 1 or len(labels) != source.n_entries:
        raise ValueError(f"clusters must hold one value for each of {source.n_entries} rows, got shape {labels.shape}.")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError(f"clusters contains NaN at row {int(np.argmax(np.isnan(labels)))}.")
    if labels.dtype == object:
        labels = np.array([str(label) for label in labels])
    found = ClusterCodes.of(labels)
    if found.n < 2:
        raise ValueError("clusters has one value only; standard errors need at least 2 clusters.")
    return found
