"""The fits inside an estimator, one by one: a quantile, a class against the rest, a pair of classes, or just one.

Plots and reports look at estimators through this only.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from aidlearn.data.source import Float, Int
from aidlearn.engine.picture import Frame
from aidlearn.engine.result import Iteration, Status


@dataclass(frozen=True)
class Fit:
    """One certified fit."""

    name: str
    """Which of several it is, in words; empty if it is the only one."""
    objective: float
    lower_bound: float
    gap: float
    status: Status
    n_clusters: int
    aggregation_rate: float
    history: list[Iteration]
    coef: Float | None
    """Slopes, where the model is linear in the features."""
    intercept: float
    cluster_sizes: Int | None
    cluster_distances: Float | None
    """Of the final clusters, or of a sample of them; None in a model of an older version."""
    frames: list[Frame]
    """Pictures of its iterations, where a plane can show them."""


def fits_of(model: Any) -> list[Fit]:
    """The fits of a fitted estimator of aidlearn."""
    check_is_fitted(model)
    if not hasattr(model, "history_"):
        raise TypeError(f"{type(model).__name__} is no estimator of aidlearn: it has no history_.")
    several = isinstance(model.status_, list)
    names = _names(model) if several else [""]
    coef = getattr(model, "coef_", None)
    slopes = [None] * len(names) if coef is None else np.atleast_2d(coef)
    intercepts = np.atleast_1d(model.intercept_)

    def of(attribute: str, k: int, *default: Any) -> Any:
        if default and not hasattr(model, attribute):
            return default[0]
        value = getattr(model, attribute)
        return value[k] if several else value

    return [
        Fit(
            name=name,
            objective=float(of("objective_", k)),
            lower_bound=float(of("lower_bound_", k)),
            gap=float(of("gap_", k)),
            status=of("status_", k),
            n_clusters=int(of("n_clusters_", k)),
            aggregation_rate=float(of("aggregation_rate_", k)),
            history=of("history_", k),
            coef=slopes[k],
            intercept=float(intercepts[k]),
            cluster_sizes=of("cluster_sizes_", k, None),
            cluster_distances=of("cluster_distances_", k, None),
            frames=of("frames_", k, []),
        )
        for k, name in enumerate(names)
    ]


def _names(model: Any) -> list[str]:
    n = len(model.status_)
    if hasattr(model, "quantile"):
        return [f"quantile {float(quantile):g}" for quantile in model.quantile]
    classes = [str(label) for label in model.classes_]
    if hasattr(model, "dual_coef_") and not hasattr(model, "coef_"):
        return [f"{first} against {second}" for first, second in combinations(classes, 2)]
    return [f"{label} against the rest" for label in classes[:n]]


def feature_names(model: Any) -> list[str]:
    """Names of the features, or their numbers."""
    names = getattr(model, "feature_names_in_", None)
    return [f"x{k}" for k in range(model.n_features_in_)] if names is None else [str(name) for name in names]
