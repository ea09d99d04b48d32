"""aidlearn: exact, certified quantile regression and support vector machines for large data.

An implementation of AID, "Aggregate and Iterative Disaggregate" (Park and Klabjan).

Names are imported when they are first used, so that ``import aidlearn`` and the command line's help cost nothing.
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "SVC",
    "ClusterDisplay",
    "ConvergenceDisplay",
    "DataSource",
    "Frame",
    "Iteration",
    "LADRegressor",
    "LinearSVC",
    "LinearSVR",
    "PassProgress",
    "QuantileDisplay",
    "QuantileRegressor",
    "Result",
    "SemiSupervisedSVC",
    "Status",
    "as_source",
    "load_model",
    "open_source",
    "save_model",
]

if TYPE_CHECKING:
    from aidlearn.data import DataSource, as_source
    from aidlearn.data.open import open_source
    from aidlearn.data.source import PassProgress
    from aidlearn.display import ClusterDisplay, ConvergenceDisplay, QuantileDisplay
    from aidlearn.engine.picture import Frame
    from aidlearn.engine.result import Iteration, Result, Status
    from aidlearn.estimators.kernel_svm import SVC
    from aidlearn.estimators.quantile import LADRegressor, QuantileRegressor
    from aidlearn.estimators.semi_supervised import SemiSupervisedSVC
    from aidlearn.estimators.svm import LinearSVC, LinearSVR
    from aidlearn.model_file import load_model, save_model
else:
    _HOMES = {
        "SVC": "aidlearn.estimators.kernel_svm",
        "ClusterDisplay": "aidlearn.display",
        "ConvergenceDisplay": "aidlearn.display",
        "DataSource": "aidlearn.data",
        "Frame": "aidlearn.engine.picture",
        "Iteration": "aidlearn.engine.result",
        "LADRegressor": "aidlearn.estimators.quantile",
        "LinearSVC": "aidlearn.estimators.svm",
        "LinearSVR": "aidlearn.estimators.svm",
        "PassProgress": "aidlearn.data.source",
        "QuantileDisplay": "aidlearn.display",
        "QuantileRegressor": "aidlearn.estimators.quantile",
        "Result": "aidlearn.engine.result",
        "SemiSupervisedSVC": "aidlearn.estimators.semi_supervised",
        "Status": "aidlearn.engine.result",
        "as_source": "aidlearn.data",
        "load_model": "aidlearn.model_file",
        "open_source": "aidlearn.data.open",
        "save_model": "aidlearn.model_file",
    }
    _MODULES = ("cli", "data", "engine", "estimators", "kernels", "problems", "report", "solvers", "starts")

    def __getattr__(name):
        from importlib import import_module

        if name in _MODULES:
            return import_module(f"aidlearn.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'aidlearn' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value

    def __dir__():
        return sorted({*globals(), *_HOMES, *_MODULES})
