"""aidlearn: exact, certified quantile regression and support vector machines for large data.

An implementation of AID, "Aggregate and Iterative Disaggregate" (Park and Klabjan).
"""

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
