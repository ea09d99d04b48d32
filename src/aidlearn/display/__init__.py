"""Plots of fitted models in the style of scikit-learn's Displays; matplotlib is imported when a plot is drawn."""

from aidlearn.display.fits import ClusterDisplay, ConvergenceDisplay
from aidlearn.display.paths import PathDisplay, QuantileDisplay
from aidlearn.display.progress import ProgressDisplay

__all__ = ["ClusterDisplay", "ConvergenceDisplay", "PathDisplay", "ProgressDisplay", "QuantileDisplay"]
