"""What scores of new rows need of a kernel's or a graph's features, as values that a file can hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from aidlearn.kernel.stored import kernel_of, kernel_values
from aidlearn.semisupervised.features import GraphFeatures, KernelFeatures


def feature_values(features: KernelFeatures | GraphFeatures) -> dict[str, Any]:
    """By name; the features of the training rows are not among them."""
    if isinstance(features, KernelFeatures):
        return {**kernel_values(features.kernel), "landmarks": features.landmarks}
    return {"rows": features.index._fit_X, "width": features.width, "neighbors": features.n_neighbors}


def features_of(values: Mapping[str, Any]) -> KernelFeatures | GraphFeatures | None:
    """The features of such values, None if there are none."""
    nothing = np.empty((0, 0))
    if "rows" in values:
        index = NearestNeighbors(n_neighbors=values["neighbors"]).fit(values["rows"])
        return GraphFeatures(nothing, index, values["width"], values["neighbors"])
    if "landmarks" in values:
        return KernelFeatures(kernel_of(values), nothing, values["landmarks"], nothing)
    return None
