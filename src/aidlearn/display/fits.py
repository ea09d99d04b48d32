"""Displays of a fit by iteration or time, and of its clusters near and far from the hyperplane."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from aidlearn.display.style import (
    COLOURS,
    INK,
    LARGE_RANGE,
    LINES,
    RATES,
    SMALLEST_GAP,
    axes_for,
    legend,
    percentages,
    tidy,
    whole_numbers,
)
from aidlearn.engine.result import relative_gap
from aidlearn.estimators.fits import Fit, fits_of
from aidlearn.numerics import Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase
    from numpy.typing import NDArray

    from aidlearn.display.style import AnyAxes


class PartsDisplay(ABC):
    """A display of several parts; it draws the part that ``kind`` names, or all of them for ``"both"``."""

    ax_: Axes | NDArray[np.object_]
    figure_: FigureBase
    KINDS: ClassVar[tuple[str, ...]]

    def __init__(self, fits: list[Fit], kind: str) -> None:
        if kind not in self.KINDS:
            raise ValueError(f"kind must be one of {', '.join(map(repr, self.KINDS))}, got {kind!r}.")
        if kind != "size" and not any(fit.history for fit in fits):
            raise ValueError("The fit has no iteration to draw: it was interrupted during the first one.")
        self.fits, self.kind = fits, kind

    @abstractmethod
    def _parts(self) -> dict[str, Callable[[Axes], None]]:
        """Return the functions that draw the parts, by kind."""

    def plot(self, ax: AnyAxes = None) -> Self:
        """Draw on the given axes or on new ones."""
        parts = [draw for kind, draw in self._parts().items() if self.kind in ("both", kind)]
        axes = axes_for(ax, len(parts))
        for draw, where in zip(parts, axes, strict=True):
            draw(where)
        self.ax_ = axes[0] if len(axes) == 1 else np.array(axes, dtype=object)
        self.figure_ = axes[0].figure
        return self


class ConvergenceDisplay(PartsDisplay):
    """Best objective, best lower bound and their gap, from the start of a fit to its end.

    Over seconds, the start is drawn too: objectives on samples (estimates), then on all rows, one for each pass, and
    their distance from the final lower bound. Over iterations, iteration 0 is the point from which the clusters were
    built.

    Parameters
    ----------
    fits : list of Fit
        See :func:`aidlearn.estimators.fits.fits_of`; several fits are drawn relative to their final objectives.
    tol : float, optional
        Tolerance, drawn as a line in the plot of gaps.
    x : {"auto", "iteration", "seconds"}, default="auto"
        ``"auto"`` is seconds if one iteration was enough and the start was recorded, otherwise iterations.
    kind : {"both", "bounds", "gap"}, default="both"

    Attributes
    ----------
    ax_ : matplotlib Axes, or array of two for ``kind="both"``
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import ConvergenceDisplay, LADRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> model = LADRegressor(init="kmeans").fit(X, X.sum(axis=1) + rng.laplace(size=2000))
    >>> display = ConvergenceDisplay.from_estimator(model)
    """

    KINDS = ("both", "bounds", "gap")

    def __init__(self, fits: list[Fit], *, tol: float | None = None, x: str = "auto", kind: str = "both") -> None:
        if x not in ("auto", "iteration", "seconds"):
            raise ValueError(f"x must be 'auto', 'iteration' or 'seconds', got {x!r}.")
        super().__init__(fits, kind)
        if x == "auto":
            x = "seconds" if all(fit.start and len(fit.history) == 1 for fit in fits) else "iteration"
        self.tol, self.x = tol, x

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, x: str = "auto", kind: str = "both", ax: AnyAxes = None
    ) -> ConvergenceDisplay:
        """Draw a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator of aidlearn
        x : {"auto", "iteration", "seconds"}, default="auto"
        kind : {"both", "bounds", "gap"}, default="both"
        ax : matplotlib Axes or two of them, optional

        Returns
        -------
        ConvergenceDisplay
        """
        return cls(fits_of(estimator), tol=estimator.tol, x=x, kind=kind).plot(ax=ax)

    def _parts(self) -> dict[str, Callable[[Axes], None]]:
        return {"bounds": self._bounds, "gap": self._gaps}

    def _series(self, fit: Fit, *names: str) -> list[Float]:
        return [np.array([getattr(record, name) for record in fit.history], dtype=float) for name in (self.x, *names)]

    def _started(self, fit: Fit) -> tuple[Float, Float]:
        """Return positions and objectives of the start on all rows: all over seconds, only the last over iterations."""
        steps = fit.steps_on_all if self.x == "seconds" else fit.start[-1:]
        where = [step.seconds if self.x == "seconds" else 0.0 for step in steps]
        return np.array(where), np.array([step.objective for step in steps])

    def _bounds(self, ax: Axes) -> None:
        several = len(self.fits) > 1
        for k, fit in enumerate(self.fits):
            x, objective, bound = self._series(fit, "best_objective", "best_lower_bound")
            scale = fit.objective if several and fit.objective > 0 else 1.0
            colour, other = COLOURS[k % len(COLOURS)], COLOURS[k % len(COLOURS)] if several else COLOURS[1]
            found = np.isfinite(bound)
            ax.fill_between(x[found], bound[found] / scale, objective[found] / scale, color=colour, alpha=0.10, lw=0)
            label = fit.name if several else "objective, on all rows"
            before, there = self._started(fit)
            ax.plot([*before, *x], np.array([*there, *objective]) / scale, "o-", color=colour, label=label, ms=4.5)
            if self.x == "seconds" and not several and fit.steps_on_samples:
                taken = [[step.seconds, step.objective] for step in fit.steps_on_samples]
                ax.plot(*np.array(taken).T, "^:", color=COLOURS[2], label="on samples, an estimate", ms=4.5, mfc="none")
            below = None if several else "proven lower bound"
            ax.plot(x[found], bound[found] / scale, "s--", color=other, label=below, ms=4.5, mfc="none")
        tidy(ax, self.x, "value / final objective" if several else "value", title="Objective and lower bound")
        low, high = ax.dataLim.intervaly
        if low > 0 and high > LARGE_RANGE * low:
            ax.set_yscale("log")
        if self.x == "iteration":
            whole_numbers(ax)
        legend(ax)

    def _gaps(self, ax: Axes) -> None:
        for k, fit in enumerate(self.fits):
            x, gap = self._series(fit, "gap")
            shown = np.isfinite(gap)
            gap = np.maximum(gap[shown], SMALLEST_GAP)
            colour = COLOURS[k % len(COLOURS)]
            ax.plot(x[shown], gap, "o-", color=colour, label=fit.name or None, ms=4.5)
            before, there = self._started(fit)
            if len(before) and np.isfinite(fit.lower_bound):
                above = [max(relative_gap(value, fit.lower_bound), SMALLEST_GAP) for value in there]
                label = None if len(self.fits) > 1 else "start: above the final bound"
                ax.plot([*before, *x[shown][:1]], [*above, *gap[:1]], "o:", color=colour, label=label, ms=4, mfc="none")
        if self.tol:
            ax.axhline(self.tol, color=INK, lw=1, ls=":", label="tolerance")
        ax.set_yscale("log")
        tidy(ax, self.x, "gap", title="Certified gap")
        if self.x == "iteration":
            whole_numbers(ax)
        legend(ax)


class ClusterDisplay(PartsDisplay):
    """Aggregation rates by iteration, and sizes of the final clusters by distance from the kink.

    The kink is the hyperplane of a regression or the margin of a classifier. A cluster is near if its mean is closer to
    the kink than the mean of the median row's cluster. The aggregation rate is clusters over rows.

    Parameters
    ----------
    fits : list of Fit
        See :func:`aidlearn.estimators.fits.fits_of`.
    kind : {"both", "rate", "size"}, default="both"

    Attributes
    ----------
    ax_ : matplotlib Axes, or array of two for ``kind="both"``
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import ClusterDisplay, LADRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> model = LADRegressor(init="kmeans").fit(X, X.sum(axis=1) + rng.laplace(size=2000))
    >>> display = ClusterDisplay.from_estimator(model, kind="rate")
    """

    KINDS = ("both", "rate", "size")

    def __init__(self, fits: list[Fit], *, kind: str = "both") -> None:
        super().__init__(fits, kind)
        if kind != "rate" and any(fit.cluster_sizes is None for fit in fits):
            raise ValueError("The estimator has no cluster sizes: it was fitted by an older version.")

    @classmethod
    def from_estimator(cls, estimator: Any, *, kind: str = "both", ax: AnyAxes = None) -> ClusterDisplay:
        """Draw a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator of aidlearn
        kind : {"both", "rate", "size"}, default="both"
        ax : matplotlib Axes or two of them, optional

        Returns
        -------
        ClusterDisplay
        """
        return cls(fits_of(estimator), kind=kind).plot(ax=ax)

    def _parts(self) -> dict[str, Callable[[Axes], None]]:
        return {"rate": self._rates, "size": self._sizes}

    def _rates(self, ax: Axes) -> None:
        several = len(self.fits) > 1
        for k, fit in enumerate(self.fits):
            for group, (name, label) in enumerate(RATES):
                rates = np.array([getattr(record, name) for record in fit.history], dtype=float)
                if np.isnan(rates).all():
                    continue
                colour = COLOURS[(k if several else group) % len(COLOURS)]
                shown = label if not several else fit.name if group == 0 else None
                line, marker = LINES[group if several else 0], "o^s"[group]
                x = [record.iteration for record in fit.history]
                ax.plot(x, rates, color=colour, label=shown, ls=line, marker=marker, ms=4.5)
        if several:
            for group, (_, label) in enumerate(RATES):  # colours distinguish models, line styles groups
                ax.plot([], [], color=INK, ls=LINES[group], marker="o^s"[group], ms=4.5, label=label)
        ax.set_yscale("log")
        percentages(ax.yaxis)
        tidy(ax, "iteration", "clusters / rows", title="Aggregation rate")
        whole_numbers(ax)
        legend(ax)

    def _sizes(self, ax: Axes) -> None:
        shown = 0
        for k, fit in enumerate(self.fits):
            distances, sizes = fit.cluster_distances, fit.cluster_sizes
            if distances is not None and sizes is not None:
                ax.scatter(distances, sizes, s=16, color=COLOURS[k % len(COLOURS)], alpha=0.45, lw=0, label=fit.name)
                shown += len(sizes)
        ax.set_yscale("log")
        total = sum(fit.n_clusters for fit in self.fits)
        note = f" ({shown:,} of {total:,})" if shown < total else ""
        tidy(ax, "distance from the nearest kink", "rows in the cluster", title=f"Final clusters{note}")
        if len(self.fits) > 1:
            legend(ax)
