"""Scores over a path of penalties, and the certificate of every point behind them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from aidlearn.display.style import COLOURS, INK, SMALLEST_GAP, axes_for, tidy
from aidlearn.numerics import Float

PENALTIES = {"Cs_": ("C_", "C"), "alphas_": ("alpha_", "alpha")}
"""Fitted attributes with the penalties, the chosen one, and what to call it."""


class PathDisplay:
    """Mean score over the folds at each penalty, with the largest certified gap of each below.

    Parameters
    ----------
    penalties : array of shape (n_penalties,)
    scores : array of shape (n_folds, n_penalties)
    gaps : array of shape (n_folds, n_penalties)
    chosen : float
    name : str
        Of the penalty.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Of the scores.
    gap_ax_ : matplotlib Axes
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

    ax_: Any
    gap_ax_: Any
    figure_: Any

    def __init__(self, penalties: Float, scores: Float, gaps: Float, chosen: float, name: str = "C") -> None:
        self.penalties, self.scores, self.gaps = penalties, scores, gaps
        self.chosen, self.name = chosen, name

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> PathDisplay:
        """Draw a fitted estimator.

        Parameters
        ----------
        estimator : LinearSVCCV or QuantileRegressorCV
        ax : pair of matplotlib Axes, optional
            For the scores and for the gaps.

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

    def plot(self, ax: Any = None) -> PathDisplay:
        """Draw, on two axes that are given or new ones."""
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
