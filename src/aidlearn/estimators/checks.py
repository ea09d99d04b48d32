"""Checks of parameters, column names as scikit-learn reads them, and the class that scores decide for."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import sklearn
from sklearn.utils.fixes import parse_version

from aidlearn.data.tables.conversion import is_table
from aidlearn.data.tables.in_memory import FrameColumns
from aidlearn.estimators.parameters import declared
from aidlearn.kernel.functions import NAMES, kernel_from
from aidlearn.numerics import Float

TABLES_ARE_KNOWN = parse_version(sklearn.__version__) >= parse_version("1.9")
"""Whether the installed scikit-learn reads column names from tables of any kind."""


@dataclass(frozen=True)
class _Named:
    """Column names by the interchange protocol, which older versions of scikit-learn need and newer tables lack."""

    names: list[str]
    shape: tuple[int, int]

    def __dataframe__(self) -> _Named:
        return self

    def column_names(self) -> list[str]:
        return self.names


def with_names(X: Any) -> Any:
    """Return the rows in a form whose column names scikit-learn can read, if they have any."""
    if TABLES_ARE_KNOWN or hasattr(X, "__dataframe__") or not is_table(X):
        return X
    frame = FrameColumns(X).frame
    return _Named(list(frame.columns), frame.shape)


def check_number(
    name: str,
    value: Any,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    include_low: bool = False,
    include_high: bool = False,
    whole: bool = False,
) -> None:
    """Raise a ValueError that names the parameter, its value and the range."""
    kind = Integral if whole else Real
    sound = isinstance(value, kind) and not isinstance(value, bool) and value == value  # not NaN
    above = sound and (value >= low if include_low else value > low)
    below = sound and (value <= high if include_high else value < high)
    if above and below:
        return
    what = "an integer" if whole else "a number"
    bounds = [f"{'>=' if include_low else '>'} {low:g}"] if np.isfinite(low) else []
    bounds += [f"{'<=' if include_high else '<'} {high:g}"] if np.isfinite(high) else []
    raise ValueError(f"{name} must be {what}{' ' if bounds else ''}{' and '.join(bounds)}, got {value!r}.")


def check_flag(name: str, value: Any, *, numbers: bool = False) -> None:
    """Raise a ValueError that names the parameter unless it is a boolean (with ``numbers`` also 0 or 1)."""
    if isinstance(value, (bool, np.bool_)) or (numbers and value in (0, 1)):
        return
    raise ValueError(f"{name} must be True or False, got {value!r}.")


def class_of(classes: Any, scores: Float) -> Any:
    """Return the class of each row: by the sign of a single score, else that of the largest score."""
    return classes[(scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)]


def check_random_state(random_state: Any) -> None:
    """Raise a ValueError for an invalid random state, before the data are touched."""
    whole = isinstance(random_state, Integral) and int(random_state) >= 0
    if whole or isinstance(random_state, np.random.RandomState):
        return  # trying a RandomState would draw from it
    try:
        generator(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            f"random_state must be None, a non-negative integer or a generator of NumPy, got {random_state!r}."
        ) from None


def generator(random_state: Any) -> np.random.Generator:
    """Return a NumPy generator for what scikit-learn calls a random state."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(int(random_state.randint(2**31)))
    return np.random.default_rng(random_state)


def check_parameters(estimator: Any) -> None:
    """Raise the error of ``fit`` for an invalid parameter, for callers that open the data themselves."""
    estimator._check_parameters()
    kernel = dict(declared(type(estimator))).get("kernel")
    if kernel is not None:  # building the kernel for a zero row checks its constants
        names = tuple(dict.fromkeys([*NAMES, *kernel.choices]))
        kernel_from(
            estimator.kernel, estimator.gamma, estimator.degree, estimator.coef0, np.zeros((1, 1)), np.ones(1), names
        )
