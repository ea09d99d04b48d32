"""Scores over a path of penalties, and coefficients over the quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from aidlearn.display.style import COLOURS, INK, LINES, SMALLEST_GAP, axes_for, tidy
from aidlearn.estimators.fits import feature_names, fits_of
from aidlearn.estimators.linear.fitted_rows import least_squares
from aidlearn.inference.summary import Summary
from aidlearn.numerics import Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    from aidlearn.display.style import AnyAxes

PENALTIES = {"Cs_": ("C_", "C"), "alphas_": ("alpha_", "alpha")}
"""Fitted attribute with the penalties, attribute with the chosen one, and name of the parameter."""
LARGEST = 8
"""Maximum number of coefficients drawn by default."""


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


class QuantileDisplay:
    """Paths of coefficients over the quantiles of a :class:`~aidlearn.QuantileRegressor`.

    Parameters
    ----------
    quantiles : array of shape (n_quantiles,)
    coefficients : array of shape (n_quantiles, n_shown)
    names : list of str
        Names of the coefficients.
    lower, upper : array of shape (n_quantiles, n_shown), optional
        Confidence bands.
    least_squares : array of shape (n_shown,), optional
        Least-squares coefficients, drawn as horizontal lines.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import QuantileDisplay, QuantileRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(1000, 2))
    >>> y = X @ [1.0, 2.0] + X[:, 0] * rng.normal(size=1000)
    >>> model = QuantileRegressor(quantile=[0.1, 0.5, 0.9]).fit(X, y)
    >>> display = QuantileDisplay.from_estimator(model, coefficients=[0])
    """

    ax_: Axes
    figure_: FigureBase

    def __init__(
        self,
        quantiles: Float,
        coefficients: Float,
        names: Sequence[str],
        lower: Float | None = None,
        upper: Float | None = None,
        least_squares: Float | None = None,
    ) -> None:
        self.quantiles, self.coefficients, self.names = quantiles, coefficients, list(names)
        self.lower, self.upper, self.least_squares = lower, upper, least_squares

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        coefficients: Sequence[int | str] | None = None,
        intercept: bool = False,
        names: Sequence[str] | None = None,
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        summaries: Sequence[Summary] | None = None,
        ax: AnyAxes = None,
    ) -> QuantileDisplay:
        """Draw a fitted estimator.

        Confidence bands are drawn if the rows of the fit or its summaries are given. If the rows are given, dashed
        lines show the least-squares coefficients.

        Parameters
        ----------
        estimator : QuantileRegressor, fitted with several quantiles
        coefficients : sequence of numbers or names of features, optional
            By default the eight with the largest absolute value at any quantile.
        intercept : bool, default=False
            Whether to draw the intercept too.
        names : sequence of str, optional
            Names of all features; by default those of the estimator.
        X, y, sample_weight : optional
            The rows of the fit.
        summaries : list of Summary, optional
            Result of ``estimator.summary``; computed by default if rows are given.
        ax : matplotlib Axes, optional

        Returns
        -------
        QuantileDisplay
        """
        fits_of(estimator)
        quantiles = np.asarray(getattr(estimator, "quantile", np.nan), dtype=float)
        if quantiles.ndim == 0 or len(quantiles) < 2:
            raise ValueError(
                "QuantileDisplay needs a QuantileRegressor fitted with several quantiles, for example "
                f"QuantileRegressor(quantile=[0.1, 0.5, 0.9]); got {type(estimator).__name__}."
            )
        known = feature_names(estimator) if names is None else [str(name) for name in names]
        n = estimator.coef_.shape[-1]
        if len(known) != n:
            raise ValueError(f"names must hold {n} names, one per feature, got {len(known)}.")
        chosen = _chosen(coefficients, known, estimator.coef_)
        order = np.argsort(quantiles)
        values = estimator.coef_[order][:, chosen]
        labels = [known[k] for k in chosen]
        if intercept:
            values, labels = np.column_stack([values, estimator.intercept_[order]]), [*labels, "intercept"]
        first = int(estimator.fit_intercept)  # summaries have the intercept first
        places = [k + first for k in chosen] + ([0] if intercept and first else [])
        mean = None
        if X is not None:
            mean = least_squares(estimator, X, y, sample_weight)[places]
            summaries = estimator.summary(X, y, sample_weight) if summaries is None else summaries
        if summaries is None:
            return cls(quantiles[order], values, labels, least_squares=mean).plot(ax=ax)
        if [summary.quantile for summary in summaries] != quantiles.tolist():
            raise ValueError("summaries must hold one Summary for each quantile of the estimator, in the same order.")
        lower, upper = (np.array([getattr(summaries[k], side)[places] for k in order]) for side in ("lower", "upper"))
        return cls(quantiles[order], values, labels, lower, upper, mean).plot(ax=ax)

    def plot(self, ax: AnyAxes = None) -> QuantileDisplay:
        """Draw on the given axes or on new ones."""
        [self.ax_] = axes_for(ax, 1)
        self.figure_ = self.ax_.figure
        self.ax_.axhline(0, color=INK, lw=0.8, alpha=0.6)
        lines = []
        for k, values in enumerate(self.coefficients.T):
            colour, style = COLOURS[k % len(COLOURS)], LINES[k // len(COLOURS) % len(LINES)]
            (line,) = self.ax_.plot(self.quantiles, values, marker="o", ms=4, color=colour, ls=style)
            lines.append(line)
            if self.lower is not None and self.upper is not None:
                lower, upper = self.lower[:, k], self.upper[:, k]
                self.ax_.fill_between(self.quantiles, lower, upper, color=colour, alpha=0.18, lw=0)
            if self.least_squares is not None:
                self.ax_.axhline(self.least_squares[k], color=colour, lw=1, ls="--", alpha=0.7)
        tidy(self.ax_, "quantile", "coefficient", title="Coefficients by quantile")
        # Older versions of matplotlib leave out labels that start with "_".
        labels = [f" {name}" for name in self.names]
        outside = (1.0, 0.5)
        legend = self.ax_.legend(
            lines, labels, frameon=False, fontsize="small", loc="center left", bbox_to_anchor=outside
        )
        for text, name in zip(legend.get_texts(), self.names, strict=True):
            text.set_text(name)
        return self


def _chosen(wanted: Sequence[int | str] | None, names: list[str], coef: Float) -> list[int]:
    if wanted is None:
        largest = np.argsort(-np.abs(coef).max(axis=0), kind="stable")[:LARGEST]
        return [int(k) for k in largest]
    chosen = []
    for item in [wanted] if isinstance(wanted, str) else wanted:
        if isinstance(item, str):
            if item not in names:
                raise ValueError(f"There is no feature named {item!r}; the features are {', '.join(names[:10])}.")
            chosen.append(names.index(item))
        elif -len(names) <= int(item) < len(names):
            chosen.append(int(item) % len(names))
        else:
            raise ValueError(f"There is no feature number {item}; features are numbered 0 to {len(names) - 1}.")
    if not chosen:
        raise ValueError("coefficients must name at least one feature.")
    return chosen
