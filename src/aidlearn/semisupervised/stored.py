"""What scores of new rows need of a kernel's or a graph's features, as values that a file can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from aidlearn.kernel.functions import Kernel
from aidlearn.semisupervised.choice import Projection
from aidlearn.semisupervised.features import GraphFeatures, KernelFeatures, LinearFeatures, neighbour_index


def feature_values(
    features: KernelFeatures | GraphFeatures | LinearFeatures, projection: Projection | None
) -> dict[str, Any]:
    """By name; the features of the training rows are not among them."""
    return _own_values(features) | _projection_values(projection)


def _projection_values(projection: Projection | None) -> dict[str, Any]:
    if projection is None:
        return {}
    return {
        "unit_length": int(projection.unit_length),
        "projection_centre": projection.centre,
        "projection_matrix": projection.matrix,
    }


def projection_of(values: Mapping[str, Any]) -> Projection | None:
    """The projection of such values, None if there is none."""
    if "unit_length" not in values:
        return None
    return Projection(bool(values["unit_length"]), values["projection_centre"], values["projection_matrix"])


def _own_values(features: KernelFeatures | GraphFeatures | LinearFeatures) -> dict[str, Any]:
    if isinstance(features, LinearFeatures):
        return {"linear_scale": features.scale}
    if isinstance(features, KernelFeatures):
        sampled = {"sampled": features.n_sampled} if features.n_sampled else {}
        return {**asdict(features.kernel), "landmarks": features.landmarks, **sampled}
    return {"rows": features.index._fit_X, "width": features.width, "neighbors": features.n_neighbors}


def features_of(values: Mapping[str, Any]) -> KernelFeatures | GraphFeatures | LinearFeatures | None:
    """The features of such values, None if there are none."""
    nothing = np.empty((0, 0))
    if "linear_scale" in values:
        return LinearFeatures(nothing, float(values["linear_scale"]))
    if "rows" in values:
        index = neighbour_index(values["rows"], values["neighbors"])
        return GraphFeatures(nothing, index, values["width"], values["neighbors"])
    if "landmarks" in values:
        return KernelFeatures(
            Kernel.of_values(values), nothing, values["landmarks"], nothing, int(values.get("sampled", 0))
        )
    return None
