"""aidlearn: exact, certified quantile regression and support vector machines for large data.

An implementation of AID, "Aggregate and Iterative Disaggregate" (Park and Klabjan).

Names are imported when they are first used, so that ``import aidlearn`` and the command line's help cost nothing.
"""

from typing import TYPE_CHECKING

__version__ = "0.2.0"

if TYPE_CHECKING:  # for type checkers and editors; a test compares these names with those below
    from aidlearn.data import DataSource as DataSource
    from aidlearn.data import as_source as as_source
    from aidlearn.data.opening import open_source as open_source
    from aidlearn.data.passes.run import PassProgress as PassProgress
    from aidlearn.display import ClusterDisplay as ClusterDisplay
    from aidlearn.display import ConvergenceDisplay as ConvergenceDisplay
    from aidlearn.display import PathDisplay as PathDisplay
    from aidlearn.display import ProgressDisplay as ProgressDisplay
    from aidlearn.display import QuantileDisplay as QuantileDisplay
    from aidlearn.engine.result import Iteration as Iteration
    from aidlearn.engine.result import Result as Result
    from aidlearn.engine.result import StartStep as StartStep
    from aidlearn.engine.result import Status as Status
    from aidlearn.estimators.kernel.semi_supervised import SemiSupervisedSVC as SemiSupervisedSVC
    from aidlearn.estimators.kernel.svm import SVC as SVC
    from aidlearn.estimators.kernel.svr import SVR as SVR
    from aidlearn.estimators.linear.bootstrap import Bootstrap as Bootstrap
    from aidlearn.estimators.linear.bootstrap import bootstrap as bootstrap
    from aidlearn.estimators.linear.one_class import LinearOneClassSVM as LinearOneClassSVM
    from aidlearn.estimators.linear.piecewise import PiecewiseLinearModel as PiecewiseLinearModel
    from aidlearn.estimators.linear.regression import LADRegressor as LADRegressor
    from aidlearn.estimators.linear.regression import QuantileRegressor as QuantileRegressor
    from aidlearn.estimators.linear.svm import LinearSVC as LinearSVC
    from aidlearn.estimators.linear.svm import LinearSVR as LinearSVR
    from aidlearn.estimators.paths.cross_validated import LinearSVCCV as LinearSVCCV
    from aidlearn.estimators.paths.cross_validated import QuantileRegressorCV as QuantileRegressorCV
    from aidlearn.files.models import load_model as load_model
    from aidlearn.files.models import save_model as save_model
    from aidlearn.inference.hypotheses import HypothesisTest as HypothesisTest
    from aidlearn.inference.hypotheses import equal_slopes as equal_slopes
    from aidlearn.inference.hypotheses import likelihood_ratio_test as likelihood_ratio_test
    from aidlearn.inference.summary import Summary as Summary
    from aidlearn.linear.constraints import Infeasible as Infeasible
    from aidlearn.linear.model.unbounded import Unbounded as Unbounded
    from aidlearn.trace import Frame as Frame
else:
    from aidlearn.estimators.registry import MODELS as _MODELS

    _HOMES = {
        "Bootstrap": "aidlearn.estimators.linear.bootstrap",
        "ClusterDisplay": "aidlearn.display",
        "ConvergenceDisplay": "aidlearn.display",
        "DataSource": "aidlearn.data",
        "Frame": "aidlearn.trace",
        "HypothesisTest": "aidlearn.inference.hypotheses",
        "Infeasible": "aidlearn.linear.constraints",
        "Iteration": "aidlearn.engine.result",
        "LinearSVCCV": "aidlearn.estimators.paths.cross_validated",
        "PassProgress": "aidlearn.data.passes.run",
        "ProgressDisplay": "aidlearn.display",
        "PathDisplay": "aidlearn.display",
        "QuantileDisplay": "aidlearn.display",
        "QuantileRegressorCV": "aidlearn.estimators.paths.cross_validated",
        "Result": "aidlearn.engine.result",
        "StartStep": "aidlearn.engine.result",
        "Status": "aidlearn.engine.result",
        "Summary": "aidlearn.inference.summary",
        "Unbounded": "aidlearn.linear.model.unbounded",
        "as_source": "aidlearn.data",
        "bootstrap": "aidlearn.estimators.linear.bootstrap",
        "equal_slopes": "aidlearn.inference.hypotheses",
        "likelihood_ratio_test": "aidlearn.inference.hypotheses",
        "load_model": "aidlearn.files.models",
        "open_source": "aidlearn.data.opening",
        "save_model": "aidlearn.files.models",
        **{name: model.module for name, model in _MODELS.items()},
    }
    __all__ = sorted(_HOMES)

    def __getattr__(name):
        from importlib import import_module
        from importlib.util import find_spec

        if name in _HOMES:
            value = globals()[name] = getattr(import_module(_HOMES[name]), name)
            return value
        if not name.startswith("_") and find_spec(f"aidlearn.{name}"):
            return import_module(f"aidlearn.{name}")
        raise AttributeError(f"module 'aidlearn' has no attribute {name!r}")

    def __dir__():
        from pkgutil import iter_modules

        return sorted({*globals(), *_HOMES, *(module.name for module in iter_modules(__path__))})
