"""Aggregation rates near and far from the hyperplane, and cluster sizes by distance (paper, section 5.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from aidlearn.display.style import (
    COLOURS,
    INK,
    LINES,
    RATES,
    PartsDisplay,
    check_iterations,
    check_kind,
    legend,
    percentages,
    tidy,
    whole_numbers,
)
from aidlearn.estimators.fits import Fit, fits_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from aidlearn.display.style import AnyAxes

KINDS = ("both", "rate", "size")


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

    def __init__(self, fits: list[Fit], *, kind: str = "both") -> None:
        check_kind(kind, KINDS)
        if kind != "size":
            check_iterations(fits)
        if kind != "rate" and any(fit.cluster_sizes is None for fit in fits):
            raise ValueError("The estimator has no cluster sizes: it was fitted by an older version.")
        self.fits, self.kind = fits, kind

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
