"""Benchmark sets of Chapelle, Schoelkopf and Zien, "Semi-Supervised Learning" (2006), with their official splits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.io import loadmat

from aidlearn.bench.judge import Array
from benchmarks.harness.datasets import data_file

NUMBERS = {"Digit1": 1, "USPS": 2, "COIL2": 3, "BCI": 4, "g241c": 5, "g241d": 7, "SecStr": 8, "Text": 9}


@dataclass(frozen=True)
class LabelledSplit:
    """A set with the rows whose labels are known; accuracy is measured on all others."""

    X: Any
    truth: Array
    labelled: Array

    @property
    def y(self) -> Array:
        """Labels 0 and 1, or -1 if unknown."""
        y = np.full(len(self.truth), -1)
        y[self.labelled] = self.truth[self.labelled]
        return y

    def accuracy(self, predicted: Array) -> float:
        hidden = np.setdiff1d(np.arange(len(self.truth)), self.labelled)
        return float((predicted[hidden] == self.truth[hidden]).mean())


def splits(name: str, n_labelled: int) -> list[LabelledSplit]:
    """Return all official splits of a set.

    Raises
    ------
    DataMissing
        If the set is not in the folder AIDLEARN_DATA.
    """
    prefix = f"ssl-book/SSL,set={NUMBERS[name]},"
    files = f"{prefix}data.mat", f"{prefix}splits,labeled={n_labelled}.mat"
    data, index = (loadmat(data_file(file)) for file in files)
    truth = data["y"].ravel().astype(int)
    truth = (truth == truth.max()).astype(int)
    X = _one_hot(data["T"]) if name == "SecStr" else data["X"]
    X = sparse.csr_array(X, dtype=float) if sparse.issparse(X) else np.ascontiguousarray(X, dtype=float)
    return [LabelledSplit(X, truth, rows.astype(int) - 1) for rows in index["idxLabs"]]


def _one_hot(symbols: Array) -> Array:
    """Return indicators of 21 symbols at 15 positions: 315 columns."""
    codes = symbols.astype(int) - int(symbols.min())
    X = np.zeros((len(codes), 15 * 21))
    for position in range(15):
        X[np.arange(len(codes)), 21 * position + codes[:, position]] = 1.0
    return X
