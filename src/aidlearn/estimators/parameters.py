"""All parameters of an estimator looked at before any data are opened, for those who open data themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from aidlearn.estimators.checks import check_number
from aidlearn.estimators.declared import declared
from aidlearn.estimators.registry import model_of
from aidlearn.kernel.functions import NAMES, kernel_from


def check_parameters(estimator: Any) -> None:
    """One clear error for a parameter that ``fit`` would refuse, whatever the data."""
    estimator._check_parameters()
    parameters = estimator.get_params(deep=False)
    for name, include_low in (("epsilon", True), ("C", False)):
        if name in parameters:
            check_number(name, parameters[name], low=0, include_low=include_low)
    if "kernel" in parameters:
        _check_kernel(estimator)


def _check_kernel(estimator: Any) -> None:
    """Make the kernel on a row of nothing, which checks its constants."""
    model = model_of(estimator)
    known = dict(declared(model.parameters)) if model else {}
    offered = known["kernel"].declaration.choices if "kernel" in known else ()
    names = tuple(dict.fromkeys([*NAMES, *offered]))
    row, weight = np.zeros((1, 1)), np.ones(1)
    kernel_from(estimator.kernel, estimator.gamma, estimator.degree, estimator.coef0, row, weight, names)
