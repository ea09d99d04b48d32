"""Where the clusters are: aggregation rates near and far from the hyperplane (paper, section 5.3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from aidlearn.display.style import (
    COLOURS,
    INK,
    LINES,
    RATES,
    check_iterations,
    check_kind,
    draw_parts,
    legend,
    percentages,
    tidy,
    whole_numbers,
)
from aidlearn.estimators.fits import Fit, fits_of

KINDS = ("both", "rate", "size")


class ClusterDisplay:
    """Aggregation rates over the iterations, and sizes of the final clusters against their distance.

    A cluster is near if its mean is nearer to its kink (the hyperplane of a regression, the margin of a classifier)
    than that of the median row's cluster; a rate is clusters over rows.

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

    ax_: Any
    figure_: Any

    def __init__(self, fits: list[Fit], *, kind: str = "both") -> None:
        check_kind(kind, KINDS)
        if kind != "size":
            check_iterations(fits)
        if kind != "rate" and any(fit.cluster_sizes is None for fit in fits):
            raise ValueError("The estimator does not know the sizes of its clusters (an older version fitted it).")
        self.fits, self.kind = fits, kind

    @classmethod
    def from_estimator(cls, estimator: Any, *, kind: str = "both", ax: Any = None) -> ClusterDisplay:
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

    def plot(self, ax: Any = None) -> ClusterDisplay:
        """Draw, on axes that are given or new ones."""
        parts = {"rate": self._rates, "size": self._sizes}
        self.ax_, self.figure_ = draw_parts(ax, [parts[name] for name in parts if self.kind in ("both", name)])
        return self

    def _rates(self, ax: Any) -> None:
        several = len(self.fits) > 1
        for k, fit in enumerate(self.fits):
            for group, (name, label) in enumerate(RATES):
                rates = np.array([getattr(record, name) for record in fit.history], dtype=float)
                if np.isnan(rates).all():
                    continue
                colour = COLOURS[(k if several else group) % len(COLOURS)]
                shown = label if not several else fit.name if group == 0 else None
                style = {"ls": LINES[group if several else 0], "marker": "o^s"[group], "ms": 4.5}
                ax.plot([record.iteration for record in fit.history], rates, color=colour, label=shown, **style)
        if several:
            for group, (_, label) in enumerate(RATES):  # colours tell models, lines tell groups
                ax.plot([], [], color=INK, ls=LINES[group], marker="o^s"[group], ms=4.5, label=label)
        ax.set_yscale("log")
        percentages(ax.yaxis)
        tidy(ax, "iteration", "clusters / rows", title="Aggregation rate")
        whole_numbers(ax)
        legend(ax)

    def _sizes(self, ax: Any) -> None:
        for k, fit in enumerate(self.fits):
            colour = COLOURS[k % len(COLOURS)]
            ax.scatter(fit.cluster_distances, fit.cluster_sizes, s=16, color=colour, alpha=0.45, lw=0, label=fit.name)
        ax.set_yscale("log")
        shown = sum(len(fit.cluster_sizes) for fit in self.fits if fit.cluster_sizes is not None)
        total = sum(fit.n_clusters for fit in self.fits)
        note = f" ({shown:,} of {total:,})" if shown < total else ""
        tidy(ax, "distance from the nearest kink", "rows in the cluster", title=f"Final clusters{note}")
        if len(self.fits) > 1:
            legend(ax)
