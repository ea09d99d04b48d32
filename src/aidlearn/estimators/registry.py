"""Every model, declared once: model files, reports and the command line read it here.

A new model is written in its family and its estimator and declared in ``MODELS``. Nothing here imports NumPy: classes
and functions are named and imported when they are used, so that the command line's help costs nothing.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import combinations
from typing import Any

from aidlearn.estimators.declared import (
    LADParameters,
    LinearOneClassParameters,
    LinearSVCCVParameters,
    LinearSVCParameters,
    LinearSVRParameters,
    PiecewiseParameters,
    QuantileCVParameters,
    QuantileParameters,
)
from aidlearn.estimators.declared_kernel import SemiSupervisedParameters, SVCParameters, SVRParameters

FitNames = Callable[[Any, Sequence[Any]], list[str]]
"""From the estimator and its classes (none of a regression): a name for each of its fits, "" for the only one."""


def resolve(where: str) -> Any:
    """What ``"module:name"`` names."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


def imported(where: str) -> Callable[..., Any]:
    """The function ``"module:name"``, which is imported when it is called."""
    return lambda *arguments: resolve(where)(*arguments)


@dataclass(frozen=True)
class FileState:
    """What the file of a model holds beyond its parameters and fitted attributes."""

    of: Callable[[Any], dict[str, Any]]
    """Of a fitted estimator, by name; empty if predictions need no more than its coefficients."""
    restore: Callable[[Any, Mapping[str, Any]], None]
    """Give it back to an estimator that has its parameters and fitted attributes."""


def one_fit(estimator: Any, classes: Sequence[Any]) -> list[str]:
    return [""]


def each_quantile(estimator: Any, classes: Sequence[Any]) -> list[str]:
    import numpy as np

    if np.ndim(estimator.quantile) == 0:
        return [""]
    return [f"quantile {float(quantile):g}" for quantile in estimator.quantile]


def one_against_rest(estimator: Any, classes: Sequence[Any]) -> list[str]:
    return [f"{label} against the rest" for label in classes] if len(classes) > 2 else [""]


def one_against_one(estimator: Any, classes: Sequence[Any]) -> list[str]:
    if len(classes) <= 2:
        return [""]
    return [f"{first} against {second}" for first, second in combinations(classes, 2)]


def _certified_kernel(estimator: Any) -> str:
    return str(getattr(estimator, "certified_kernel_", "exact"))


@dataclass(frozen=True)
class Model:
    """An estimator as the rest of the package knows it."""

    where: str
    """Its class, as ``"module:name"``."""
    command: str
    """Its name in ``aidlearn fit``."""
    help: str
    parameters: type
    """Its parameters, as :mod:`aidlearn.estimators.declared` declares them; the command offers those with a help."""
    fit_names: FitNames = one_fit
    file_state: FileState | None = None
    certified_kernel: Callable[[Any], str] = _certified_kernel
    """Which kernel objective and bound of a fitted estimator belong to: "exact", or its approximation in words."""
    in_memory: bool = False
    """Whether it takes rows in memory only; the others read files in parts."""
    unlabelled_rows: bool = False
    """Whether rows may have no label."""
    needs_target: bool = True
    """Whether rows have a target; the others leave one out that is named."""
    standard_errors: bool = False
    """Whether it has a ``summary``."""
    cross_validated: str = ""
    """Name of the model that chooses its penalty by cross-validation (``CROSS_VALIDATED``)."""

    @property
    def name(self) -> str:
        return self.where.partition(":")[2]

    @property
    def module(self) -> str:
        return self.where.partition(":")[0]

    @property
    def estimator(self) -> Any:
        return resolve(self.where)

    @property
    def classifies(self) -> bool:
        return self.fit_names in (one_against_rest, one_against_one)


def _file_state(module: str) -> FileState:
    return FileState(imported(f"{module}:file_state"), imported(f"{module}:restore_file_state"))


_DECLARED = (
    Model(
        "aidlearn.estimators.linear.regression:LADRegressor",
        command="lad",
        help="Least absolute deviation regression.",
        parameters=LADParameters,
        standard_errors=True,
    ),
    Model(
        "aidlearn.estimators.linear.regression:QuantileRegressor",
        command="quantile",
        help="Quantile regression, of one or several quantiles.",
        parameters=QuantileParameters,
        fit_names=each_quantile,
        standard_errors=True,
        cross_validated="QuantileRegressorCV",
    ),
    Model(
        "aidlearn.estimators.linear.svm:LinearSVC",
        command="svm",
        help="Linear support vector machine; the target is a class.",
        parameters=LinearSVCParameters,
        fit_names=one_against_rest,
        cross_validated="LinearSVCCV",
    ),
    Model(
        "aidlearn.estimators.linear.svm:LinearSVR",
        command="svr",
        help="Linear support vector regression.",
        parameters=LinearSVRParameters,
    ),
    Model(
        "aidlearn.estimators.linear.piecewise:PiecewiseLinearModel",
        command="piecewise",
        help="A convex piecewise-linear loss of your own: its kinks, and its slopes between them.",
        parameters=PiecewiseParameters,
    ),
    Model(
        "aidlearn.estimators.linear.one_class:LinearOneClassSVM",
        command="one-class",
        help="Linear one-class SVM: which rows are unlike the others; a column named as target is left out.",
        parameters=LinearOneClassParameters,
        needs_target=False,
    ),
    Model(
        "aidlearn.estimators.kernel.svm:SVC",
        command="kernel-svm",
        help="Kernel support vector machine; rows are loaded into memory.",
        parameters=SVCParameters,
        fit_names=one_against_one,
        file_state=_file_state("aidlearn.estimators.kernel.machine"),
        in_memory=True,
    ),
    Model(
        "aidlearn.estimators.kernel.svr:SVR",
        command="kernel-svr",
        help="Kernel support vector regression; rows are loaded into memory.",
        parameters=SVRParameters,
        file_state=_file_state("aidlearn.estimators.kernel.machine"),
        in_memory=True,
    ),
    Model(
        "aidlearn.estimators.kernel.semi_supervised:SemiSupervisedSVC",
        command="s3vm",
        help="Semi-supervised SVM: rows with an empty target (in a file without any: -1) have no label.",
        parameters=SemiSupervisedParameters,
        fit_names=one_against_rest,
        file_state=_file_state("aidlearn.estimators.kernel.semi_supervised"),
        certified_kernel=imported("aidlearn.estimators.kernel.semi_supervised:certified_kernel"),
        in_memory=True,
        unlabelled_rows=True,
    ),
)
MODELS: dict[str, Model] = {model.name: model for model in _DECLARED}
"""By the names of their classes."""
CROSS_VALIDATED: dict[str, Model] = {
    model.name: model
    for model in (
        Model(
            "aidlearn.estimators.paths.cross_validated:LinearSVCCV",
            command="svm",
            help="C by cross-validation: aidlearn fit svm --cv 5.",
            parameters=LinearSVCCVParameters,
            fit_names=one_against_rest,
        ),
        Model(
            "aidlearn.estimators.paths.cross_validated:QuantileRegressorCV",
            command="quantile",
            help="alpha by cross-validation: aidlearn fit quantile --cv 5.",
            parameters=QuantileCVParameters,
        ),
    )
}
"""Models that choose the penalty of another one; they have its command, with ``--cv``."""
IN_FILES: Mapping[str, Model] = ChainMap(MODELS, CROSS_VALIDATED)
"""Models that files may hold."""


def model_of(estimator: Any) -> Model | None:
    """The declaration of an estimator's class or of the nearest class it derives from; None of any other object."""
    for kind in type(estimator).__mro__:
        model = MODELS.get(kind.__name__) or CROSS_VALIDATED.get(kind.__name__)
        if model is not None and model.module == kind.__module__:
            return model
    return None
