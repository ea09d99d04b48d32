"""Scores over a path of penalties, and the certified gap of every point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from aidlearn.display.style import COLOURS, INK, SMALLEST_GAP, axes_for, tidy
from aidlearn.numerics import Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    from aidlearn.display.style import AnyAxes

PENALTIES = {"Cs_": ("C_", "C"), "alphas_": ("alpha_", "alpha")}
"""Fitted attribute with the penalties, attribute with the chosen one, and name of the parameter."""


class PathDisplay:
    """Mean score over the folds at each penalty, and the largest certified gap over the folds.

    Parameters
    ----------
    penalties : array of shape (n_penalties,)
    scores : array of shape (n_folds, n_penalties)
    gaps : array of shape (n_folds, n_penalties)
    chosen : float
    name : str
        Name of the penalty.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the scores.
    gap_ax_ : matplotlib Axes
        Axes of the gaps.
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import LinearSVCCV, PathDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> model = LinearSVCCV(Cs=3, cv=3).fit(X, X[:, 0] + rng.normal(size=500) > 0)
    >>> display = PathDisplay.from_estimator(model)
    """

    ax_: Axes
    gap_ax_: Axes
    figure_: FigureBase

    def __init__(self, penalties: Float, scores: Float, gaps: Float, chosen: float, name: str = "C") -> None:
        self.penalties, self.scores, self.gaps = penalties, scores, gaps
        self.chosen, self.name = chosen, name

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: AnyAxes = None) -> PathDisplay:
        """Draw a fitted estimator.

        Parameters
        ----------
        estimator : LinearSVCCV or QuantileRegressorCV
        ax : pair of matplotlib Axes, optional
            Axes for the scores and for the gaps.

        Returns
        -------
        PathDisplay
        """
        check_is_fitted(estimator)
        for attribute, (chosen, name) in PENALTIES.items():
            if hasattr(estimator, attribute) and hasattr(estimator, "scores_"):
                values = np.asarray(getattr(estimator, attribute))
                best = float(getattr(estimator, chosen))
                return cls(values, estimator.scores_, estimator.gaps_, best, name).plot(ax=ax)
        raise TypeError(
            f"PathDisplay draws LinearSVCCV and QuantileRegressorCV, got {type(estimator).__name__}, which has no path."
        )

    def plot(self, ax: AnyAxes = None) -> PathDisplay:
        """Draw on two given axes or on new ones."""
        self.ax_, self.gap_ax_ = axes_for(ax, 2)
        self.figure_ = self.ax_.figure
        order = np.argsort(self.penalties)
        values, scores, gaps = self.penalties[order], self.scores[:, order], self.gaps[:, order]
        for fold in scores:
            self.ax_.plot(values, fold, color=COLOURS[0], lw=0.8, alpha=0.35)
        mean, spread = scores.mean(axis=0), scores.std(axis=0) / np.sqrt(len(scores))
        self.ax_.fill_between(values, mean - spread, mean + spread, color=COLOURS[0], alpha=0.18, lw=0)
        self.ax_.plot(values, mean, color=COLOURS[0], marker="o", ms=4, label="mean over the folds")
        self.ax_.axvline(self.chosen, color=INK, lw=0.8, ls="--", label=f"chosen: {self.chosen:.3g}")
        self.ax_.legend(frameon=False, fontsize="small")
        worst = np.maximum(gaps.max(axis=0), SMALLEST_GAP)
        self.gap_ax_.plot(values, worst, color=COLOURS[1], marker="o", ms=4)
        self.gap_ax_.set_yscale("log")
        for each in (self.ax_, self.gap_ax_):
            if (values > 0).all():
                each.set_xscale("log")
        tidy(self.ax_, self.name, "score", title="Score over the path")
        tidy(self.gap_ax_, self.name, "largest certified gap", title="Certificate")
        return self
