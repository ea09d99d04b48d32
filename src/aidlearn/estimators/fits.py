"""The fits inside an estimator, one by one: a quantile, a class against the rest, a pair of classes, or just one.

Plots and reports look at estimators through this only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from aidlearn.engine.result import Iteration, StartStep, Status
from aidlearn.estimators.registry import model_of
from aidlearn.numerics import Float, Int
from aidlearn.trace import Frame


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
    """Distances of the final clusters (or of a sample) from their kinks; None in a model of an older version."""
    frames: list[Frame]
    """Pictures of its iterations, for data that a plane can show."""
    start: list[StartStep] = field(default_factory=list)
    """Points evaluated before the first iteration; empty in a model of an older version."""

    @property
    def steps_on_all(self) -> list[StartStep]:
        """Points that the start evaluated on all rows."""
        return [step for step in self.start if step.n_rows == self.start[-1].n_rows]

    @property
    def steps_on_samples(self) -> list[StartStep]:
        """Points that the start evaluated on samples."""
        return [step for step in self.start if step.n_rows < self.start[-1].n_rows]


def fits_of(model: Any) -> list[Fit]:
    """The fits of a fitted estimator of aidlearn."""
    check_is_fitted(model)
    if not hasattr(model, "history_"):
        raise TypeError(f"{type(model).__name__} is not an aidlearn estimator: it has no history_.")
    several = isinstance(model.status_, list)
    names = _names(model, len(model.status_)) if several else [""]
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
            start=of("start_", k, []),
            coef=slopes[k],
            intercept=float(intercepts[k]),
            cluster_sizes=of("cluster_sizes_", k, None),
            cluster_distances=of("cluster_distances_", k, None),
            frames=of("frames_", k, []),
        )
        for k, name in enumerate(names)
    ]


def _names(model: Any, n: int) -> list[str]:
    """Names of the ``n`` fits, as the model declares them; numbers where parameters were changed after the fit."""
    declared = model_of(model)
    names = declared.fit_names(model, getattr(model, "classes_", ())) if declared else []
    return names if len(names) == n else [f"fit {k + 1}" for k in range(n)]


def feature_names(model: Any) -> list[str]:
    """Names of the columns behind the coefficients, or their numbers."""
    return list(model.coefficient_names_)


def by_size(model: Any, sizes: Float) -> list[int]:
    """Positions of the coefficients, the largest first; the levels of a factor stay together, after its largest."""
    order = [int(k) for k in np.argsort(-np.asarray(sizes), kind="stable")]
    recipe = getattr(model, "recipe_", None)
    if recipe is None:
        return order
    groups: dict[int, list[int]] = {}
    for k in order:
        groups.setdefault(recipe.input_of(k), []).append(k)
    return [k for group in groups.values() for k in group]


def factor_words(model: Any) -> str:
    """The factors of a model with the number of their levels, as in "origin: 229 levels"; empty if there are none."""
    recipe = getattr(model, "recipe_", None)
    if recipe is None:
        return ""
    return ", ".join(f"{factor.name}: {len(factor.levels or ()):,} levels" for factor in recipe.factors)
