"""The bootstrap: a linear model fitted again and again with random weights, every replicate with its gap."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from aidlearn.data.passes.moments import inspect
from aidlearn.data.passes.run import Run
from aidlearn.data.passes.transforms import ByCluster, Exponential, Multinomial, Reweighting, Weights
from aidlearn.data.rows.source import DataSource
from aidlearn.data.rows.threads import one_blas_thread
from aidlearn.estimators.checks import check_number
from aidlearn.estimators.fits import feature_names
from aidlearn.estimators.linear.constraints import is_constrained
from aidlearn.estimators.linear.fitted_rows import cluster_codes, fitted_run, unfitted
from aidlearn.estimators.linear.template import LinearEstimator, MeasuredRows
from aidlearn.inference.covariance import ClusterCodes
from aidlearn.inference.dependence import design_effect
from aidlearn.inference.hypotheses import INTERCEPT
from aidlearn.linear.start.sharpen import Band
from aidlearn.neighbours.batch import Batch, Member, Solved, near_share
from aidlearn.neighbours.replicates import Vertices, suits
from aidlearn.numerics import Float

KINDS = ("exponential", "multinomial", "cluster")
GAP = 1e-5
"""Gap of a replicate at most; the tolerance of the model if that is smaller."""

logger = logging.getLogger("aidlearn")


@dataclass(frozen=True)
class Bootstrap:
    """Coefficients of bootstrap replicates, and what is proven of each.

    Attributes
    ----------
    names : list of str
        Of the coefficients, the intercept first as "(intercept)".
    coefficients : ndarray of shape (n_replicates, n_coefficients)
        With several quantiles or classes of shape (n_fits, n_replicates, n_coefficients).
    gaps, objectives, lower_bounds : ndarray of shape (n_replicates,) or (n_fits, n_replicates)
    estimates : ndarray
        Coefficients of the model itself.
    n_refitted : int
        Replicates that took a fit on all rows.
    n_passes : int
        Over the data.

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import LADRegressor, bootstrap
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 1))
    >>> y = 2 * X[:, 0] + rng.normal(size=500)
    >>> found = bootstrap(LADRegressor().fit(X, y), X, y, n_replicates=50, random_state=0)
    >>> found.coefficients.shape, found.names, bool(found.gaps.max() <= 1e-4)
    ((50, 2), ['(intercept)', 'x0'], True)
    >>> low, high = found.intervals(alpha=0.05)
    >>> bool(low[1] < 2 < high[1])
    True
    """

    names: list[str]
    coefficients: Float
    gaps: Float
    objectives: Float
    lower_bounds: Float
    estimates: Float
    n_refitted: int
    n_passes: int

    @property
    def standard_errors(self) -> Float:
        """Standard deviations over the replicates."""
        return np.std(self.coefficients, axis=-2, ddof=1)

    def intervals(self, alpha: float = 0.05) -> tuple[Float, Float]:
        """Percentile intervals of confidence ``1 - alpha``."""
        check_number("alpha", alpha, low=0, high=1)
        low, high = np.quantile(self.coefficients, [alpha / 2, 1 - alpha / 2], axis=-2)
        return low, high


def bootstrap(
    model: Any,
    X: Any,
    y: Any = None,
    n_replicates: int = 200,
    kind: str = "exponential",
    clusters: Any = None,
    random_state: Any = None,
    *,
    sample_weight: Any = None,
) -> Bootstrap:
    """Fit a linear model again with random weights, every replicate to a certified gap.

    Replicates are solved as neighbours of the model: rows far from its kinks keep their side in nearly all of them, so
    that a replicate costs a small problem and a share of two passes over the data.

    Parameters
    ----------
    model : LADRegressor, QuantileRegressor, LinearSVC or LinearSVR
        Fitted to these rows; where it is not, a copy of it is.
    X, y, sample_weight
        The rows of the fit, as in ``fit``.
    n_replicates : int, default=200
    kind : {"exponential", "multinomial", "cluster"}, default="exponential"
        Exponential weights of the rows; numbers of draws with replacement (Efron); exponential weights of clusters.
    clusters : array of shape (n_samples,), or the column of a file or Dask DataFrame
        The cluster of each row, for ``kind="cluster"``.
    random_state : int, optional
        The weights of a replicate follow from it and the number of the replicate, wherever the rows are.

    Returns
    -------
    Bootstrap

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import LADRegressor, bootstrap
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2))
    >>> y = X @ [1.0, 2.0] + rng.laplace(size=3000)
    >>> found = bootstrap(LADRegressor().fit(X, y), X, y, n_replicates=50, random_state=0)
    >>> found.coefficients.shape, bool(found.gaps.max() <= 1e-5)
    ((50, 3), True)
    """
    check_number("n_replicates", n_replicates, low=2, include_low=True, whole=True)
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}, got {kind!r}.")
    if (kind == "cluster") != (clusters is not None):
        raise ValueError('kind="cluster" needs clusters, and only it: an array with the cluster of each row.')
    if not isinstance(model, LinearEstimator):
        raise TypeError(f"bootstrap takes a linear model of aidlearn, got {type(model).__name__}.")
    if model.no_bootstrap:
        raise ValueError(f"{type(model).__name__} has no bootstrap: {model.no_bootstrap}.")
    if model.standardize and getattr(model, "alpha", 1.0) > 0:
        raise ValueError("bootstrap takes no penalised model with standardize=True: scale the columns of X before.")
    if is_constrained(model) or (getattr(model, "alpha", 0.0) > 0 and getattr(model, "l1_ratio", 1.0) < 1):
        raise ValueError("bootstrap takes no constrained model and no elastic net: replicates know neither.")
    if not hasattr(model, "n_features_in_"):
        model = clone(model).fit(X, y, sample_weight)
    run = fitted_run(model, X, y, sample_weight)
    codes = None if clusters is None else cluster_codes(clusters, X, run.source)
    return replicated(model, run, int(n_replicates), kind, codes, random_state)


def replicated(
    model: Any, run: Run, n_replicates: int, kind: str, clusters: ClusterCodes | None, random_state: Any
) -> Bootstrap:
    """The same on a run over the rows of the fit."""
    weights = _weights(kind, run.source, clusters, random_state)
    work = _Replicates(model, run, weights, n_replicates, clusters)
    with one_blas_thread():
        fits = work.solve()
    several = len(fits) > 1
    points = np.array([[solved.point for solved in members] for members in fits])
    coefficients = work.ordered(points)

    def kept(values: Any) -> Float:
        found = np.asarray(values, dtype=np.float64)
        return found if several else found[0]

    return Bootstrap(
        names=work.names,
        coefficients=kept(coefficients),
        gaps=kept([[solved.gap for solved in members] for members in fits]),
        objectives=kept([[solved.objective for solved in members] for members in fits]),
        lower_bounds=kept([[solved.lower_bound for solved in members] for members in fits]),
        estimates=kept(work.ordered(np.array(work.points))),
        n_refitted=work.n_refitted,
        n_passes=run.n_passes,
    )


def _weights(kind: str, source: DataSource, clusters: ClusterCodes | None, random_state: Any) -> Weights:
    if isinstance(random_state, np.random.RandomState):
        seed = int(random_state.randint(2**31))
    elif isinstance(random_state, np.random.Generator):
        seed = int(random_state.integers(2**63))
    else:
        seed = int(np.random.SeedSequence(random_state).generate_state(1, np.uint64)[0])
    if kind == "cluster":
        assert clusters is not None
        return ByCluster(seed, clusters.codes, clusters.n)
    return Multinomial(seed, source.n_entries) if kind == "multinomial" else Exponential(seed)


class _Replicates:
    """The replicates of all fits (quantiles, classes) of a model."""

    def __init__(
        self, model: Any, run: Run, weights: Weights, n_replicates: int, clusters: ClusterCodes | None
    ) -> None:
        self.model, self.run, self.weights, self.n, self.clusters = model, run, weights, n_replicates, clusters
        slopes = feature_names(model)
        self.names = [INTERCEPT, *slopes] if model.fit_intercept else slopes
        self.n_refitted = 0
        self.points: list[Float] = []
        self.offset = 0.0

    def ordered(self, points: Float) -> Float:
        """Coefficients with the intercept first, from points with it last."""
        if not self.model.fit_intercept:
            return points
        return np.concatenate([points[..., -1:] + self.offset, points[..., :-1]], axis=-1)

    def solve(self) -> list[list[Solved]]:
        model, run = self.model, self.run
        rows = unfitted(model)._measured(run)
        run = self.run = rows.run
        self.offset = rows.offset
        slopes, levels = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
        tol = min(model.tol, GAP) if model.tol > 0 else 0.0
        found = []
        for loss, coef, level in zip(model._losses(), slopes, levels, strict=True):
            point = np.append(coef, level - self.offset) if model.fit_intercept else np.array(coef)
            self.points.append(point)
            design = rows.design(loss, model._terms(rows.moments), model.fit_intercept)
            members = [Member(loss, replicate) for replicate in range(self.n)]
            few = Vertices.of(run, design, point) if suits(run, design) else None
            if few is not None:
                found.append(self._of_few(few, members))
                continue
            batch = Batch(run, design, members, self.weights, tol)
            found.append(list(batch.solve(batch.around(point, self._near(batch, point)), self._refit).values()))
        return found

    def _of_few(self, few: Vertices, members: list[Member]) -> list[Solved]:
        """All replicates on all rows, which are few."""
        found = []
        for member in members:
            factor = self.weights(0, self.run.n_entries, [member.replicate])[0]
            solved = few.solve(few.chunk.weight * factor)
            found.append(self._refit(member.replicate, member, None) if solved is None else solved)
        return found

    def _near(self, batch: Batch, point: Float) -> float | None:
        """Part of the rows that may change sides: more where clusters move a fit further than so many rows would."""
        if self.clusters is None:
            return None
        effect = design_effect(self.run, batch.design, point, batch.metric, self.clusters)
        return near_share(effect * batch.design.n_variables / batch.design.effective)

    def _refit(self, number: int, member: Member, point: Float | None) -> Solved:
        """One replicate on all rows."""
        model = unfitted(self.model, tol=min(self.model.tol, GAP), init="auto", initial_rate=None)
        run = self.run.part().changed(Reweighting(self.weights, member.replicate))
        rows = MeasuredRows(run, inspect(run, model.fit_intercept), self.offset)
        start = Band()
        start.continue_from(self.points[-1] if point is None else point)
        design = rows.design(member.loss, model._terms(rows.moments), model.fit_intercept)
        self.n_refitted += 1
        logger.debug("replicate %d is fitted on all rows", member.replicate)
        return Solved.of(model._fit_design(run, design, start, rows.moments).result)
