"""The bootstrap: a linear model fitted again and again with random weights, every replicate with its gap."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from aidlearn.data.passes.moments import inspect
from aidlearn.data.passes.run import Run
from aidlearn.data.passes.transforms import ByCluster, Exponential, Multinomial, Reweighting, Weights
from aidlearn.data.rows.source import DataSource
from aidlearn.data.rows.threads import one_blas_thread
from aidlearn.estimators.checks import check_number
from aidlearn.estimators.linear.constraints import is_constrained
from aidlearn.estimators.linear.coordinates import MeasuredRows
from aidlearn.estimators.linear.fitted_rows import cluster_codes, fitted_run, intercept_first, names_of, unfitted
from aidlearn.estimators.linear.template import LinearEstimator
from aidlearn.inference.covariance import ClusterCodes
from aidlearn.inference.dependence import design_effect
from aidlearn.neighbours.batch import Batch, Member, Refit, Solved, near_share
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
    """The bootstrap of a fitted model on a run over the rows of its fit."""
    weights = _weights(kind, run.source, clusters, random_state)
    with one_blas_thread():
        work = _Replicates(model, unfitted(model)._measured(run), weights, n_replicates, clusters)
        fits = work.solve()
    points = np.array([[solved.point for solved in members] for members in fits])
    values = np.array([[[solved.gap, solved.objective, solved.lower_bound] for solved in members] for members in fits])
    estimates = np.array(work.points)
    if len(fits) == 1:
        points, values, estimates = points[0], values[0], estimates[0]
    return Bootstrap(
        names=names_of(model),
        coefficients=intercept_first(work.rows, points),
        gaps=values[..., 0],
        objectives=values[..., 1],
        lower_bounds=values[..., 2],
        estimates=intercept_first(work.rows, estimates),
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
        self, model: LinearEstimator, rows: MeasuredRows, weights: Weights, n: int, clusters: ClusterCodes | None
    ) -> None:
        self.model, self.rows, self.weights, self.n, self.clusters = model, rows, weights, n, clusters
        self.points = rows.points(model.coef_, model.intercept_)
        self.tol = min(model.tol, GAP)
        self.n_refitted = 0

    def solve(self) -> list[list[Solved]]:
        run, found = self.rows.run, []
        for design, point in zip(self.model._designs(self.rows), self.points, strict=True):
            members = [Member(design.loss, replicate) for replicate in range(self.n)]
            refit = partial(self._refit, point)
            few = Vertices.of(run, design, point) if suits(run, design) else None
            if few is not None:
                found.append(self._of_few(few, members, refit))
                continue
            batch = Batch(run, design, members, self.weights, self.tol)
            found.append(list(batch.solve(batch.around(point, self._near(batch, point)), refit).values()))
        return found

    def _of_few(self, few: Vertices, members: list[Member], refit: Refit) -> list[Solved]:
        """All replicates on all rows, which are few."""
        found = []
        for member in members:
            factor = self.weights(0, self.rows.run.n_entries, [member.replicate])[0]
            solved = few.solve(few.chunk.weight * factor)
            found.append(refit(member.replicate, member, None) if solved is None else solved)
        return found

    def _near(self, batch: Batch, point: Float) -> float | None:
        """Part of the rows that may change sides: more where clusters move a fit further than so many rows would."""
        if self.clusters is None:
            return None
        effect = design_effect(self.rows.run, batch.design, point, batch.metric, self.clusters)
        return near_share(effect * batch.design.n_variables / batch.design.effective)

    def _refit(self, estimate: Float, number: int, member: Member, point: Float | None) -> Solved:
        """One replicate on all rows, from a point close to it or from the estimate."""
        run = self.rows.run.part().changed(Reweighting(self.weights, member.replicate))
        rows = replace(self.rows, run=run, moments=inspect(run, self.rows.fit_intercept))
        design = rows.design(member.loss, self.model._terms(rows.moments))
        self.n_refitted += 1
        logger.debug("replicate %d is fitted on all rows", member.replicate)
        model = unfitted(self.model, tol=self.tol, init="auto", initial_rate=None)
        return model._refit(rows, design, estimate if point is None else point)
