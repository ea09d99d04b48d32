"""The features of a fitted semi-supervised machine: in its model file, and in the description of its certificate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aidlearn.estimators.kernel.semi_supervised import SemiSupervisedSVC
from aidlearn.semisupervised.features import SETTINGS, RowProjection, features_of


def file_state(model: SemiSupervisedSVC) -> dict[str, Any]:
    """Return the values that predictions need beyond parameters and fitted attributes."""
    if model._representation is None:
        return {}
    projection = {} if model._projection is None else model._projection.values()
    return {**model._representation.values(), **projection, "expansion": model._expansion}


def restore_file_state(model: SemiSupervisedSVC, state: Mapping[str, Any]) -> None:
    """Restore these values to a model that has its fitted attributes."""
    model._representation, model._projection = features_of(state), RowProjection.of_values(state)
    if model._representation is not None:
        model._expansion = state["expansion"]


def certified_kernel(model: SemiSupervisedSVC) -> str:
    """Name the kernel of objective and bound: "exact", or its approximation."""
    n = len(model.transduction_)
    sampled = getattr(model._representation, "n_sampled", 0)
    n_landmarks = sampled or model.n_components or (SETTINGS.landmarks if n > SETTINGS.exact_rows else n)
    if model.kernel in ("linear", "graph", "auto") or n_landmarks >= n:
        return "exact"
    return f"Nystroem approximation by {n_landmarks:,} rows"
