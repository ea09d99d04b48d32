"""Plots of fitted models in the style of scikit-learn's Displays; matplotlib is imported when a plot is drawn."""

from aidlearn.display.clusters import ClusterDisplay
from aidlearn.display.convergence import ConvergenceDisplay
from aidlearn.display.path import PathDisplay
from aidlearn.display.progress import ProgressDisplay
from aidlearn.display.quantile import QuantileDisplay

__all__ = ["ClusterDisplay", "ConvergenceDisplay", "PathDisplay", "ProgressDisplay", "QuantileDisplay"]
