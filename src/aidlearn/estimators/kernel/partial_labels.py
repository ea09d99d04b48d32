"""Labels of partly labelled rows: -1 marks an unlabelled row (scikit-learn's semi-supervised convention)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.rows.numbers import Classes, absent_values, check_labels
from aidlearn.numerics import Float

UNLABELLED = -1


def known_labels(y: Any, absent: bool = False) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the labels as an array, and which of them are known; ``absent`` says that they may be missing, too."""
    if absent:
        missing = absent_values(y)
        y = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
        if missing.any():
            y = np.where(missing, UNLABELLED, y if y.dtype.kind == "f" else y.astype(object))
    labels = check_labels(y, "; mark unlabelled rows with -1")
    if labels.dtype.kind in "OUS":
        return labels, np.array([str(value) != str(UNLABELLED) for value in labels.tolist()])
    return labels, np.asarray(labels != UNLABELLED)


def encode_labels(y: Any, absent: bool = False) -> tuple[Any, NDArray[np.int64]]:
    """Return the classes, and the number of each row's class; -1 for unlabelled rows."""
    labels, known = known_labels(y, absent)
    if not known.any():
        raise ValueError("Every row of y is -1, that is unlabelled; some rows of each class must have a label.")
    given = labels[known]
    if given.dtype.kind == "O":
        given = np.array(given.tolist())  # booleans and numbers that are objects only because of -1
    classes, found = Classes.of_labels(given)
    codes = np.full(len(labels), UNLABELLED)
    codes[known] = found
    return classes.labels, codes


def check_classes(classes: Any, codes: NDArray[np.int64], weight: Float) -> None:
    """Refuse fewer than two classes among the labelled rows with a positive weight."""
    used = np.unique(codes[(codes != UNLABELLED) & (weight > 0)])
    if len(classes) < 2 or len(used) < 2:
        hint = " (-1 marks unlabelled rows; if it is a class of your data, rename it)" if (codes < 0).any() else ""
        found = f"contains only one class: {classes[used].tolist()[0]!r}" if len(used) else "has no weight on any"
        raise ValueError(f"SemiSupervisedSVC needs labelled rows of at least 2 classes, but the data {found}{hint}.")


def balancing(target: Float, weight: Float) -> Float:
    """Return factors on the weights that give the smaller labelled class the weight of the larger one."""
    positive, negative = weight[target > 0].sum(), weight[target < 0].sum()
    return np.where(target > 0, max(1.0, negative / positive), np.where(target < 0, max(1.0, positive / negative), 1.0))
