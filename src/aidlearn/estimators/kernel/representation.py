"""What a fitted semi-supervised machine represents rows by: in its file, and in what is said of its certificate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aidlearn.estimators.kernel.semi_supervised import SemiSupervisedSVC
from aidlearn.semisupervised.features import EXACT_ROWS, LANDMARKS
from aidlearn.semisupervised.stored import feature_values, features_of, projection_of


def file_state(model: SemiSupervisedSVC) -> dict[str, Any]:
    """What predictions need beyond parameters and fitted attributes."""
    if model._representation is None:
        return {}
    return {**feature_values(model._representation, model._projection), "expansion": model._expansion}


def restore_file_state(model: SemiSupervisedSVC, state: Mapping[str, Any]) -> None:
    """Give it back to a model that has its fitted attributes."""
    model._representation, model._projection = features_of(state), projection_of(state)
    if model._representation is not None:
        model._expansion = state["expansion"]


def certified_kernel(model: SemiSupervisedSVC) -> str:
    """Which kernel objective and bound belong to: "exact", or its approximation."""
    n = len(model.transduction_)
    sampled = getattr(model._representation, "n_sampled", 0)
    n_landmarks = sampled or model.n_components or (LANDMARKS if n > EXACT_ROWS else n)
    if model.kernel in ("linear", "graph", "auto") or n_landmarks >= n:
        return "exact"
    return f"Nystroem approximation by {n_landmarks:,} rows"
