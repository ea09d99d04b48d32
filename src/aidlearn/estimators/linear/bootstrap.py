"""The bootstrap: a linear model refitted with random weights, each replicate with its certified gap."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass, field, replace
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
from aidlearn.inference.clusters import ClusterCodes, design_effect
from aidlearn.linear.model.design import Design
from aidlearn.neighbours.batch import Batch, Member, Solved, near_share
from aidlearn.neighbours.replicates import Vertices, suits
from aidlearn.numerics import Float

KINDS = ("exponential", "multinomial", "cluster")
GAP = 1e-5
"""Largest gap of a replicate, unless the tolerance of the model is smaller."""

logger = logging.getLogger("aidlearn")


@dataclass(frozen=True)
class Bootstrap:
    """Coefficients of bootstrap replicates, each with its certified gap.

    Attributes
    ----------
    names : list of str
        Names of the coefficients; the intercept is the first, "(intercept)".
    coefficients : ndarray of shape (n_replicates, n_coefficients)
        Coefficients of the replicates; several quantiles or classes have the shape (n_fits, n_replicates,
        n_coefficients).
    gaps, objectives, lower_bounds : ndarray of shape (n_replicates,) or (n_fits, n_replicates)
        Certificates of the replicates.
    estimates : ndarray
        Coefficients of the model itself.
    n_refitted : int
        Number of replicates that had to be fitted on all rows.
    n_passes : int
        Number of passes over the data.

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
        """Standard deviations of the coefficients over the replicates."""
        return np.std(self.coefficients, axis=-2, ddof=1)

    def intervals(self, alpha: float = 0.05) -> tuple[Float, Float]:
        """Return the ends of percentile intervals of confidence ``1 - alpha``."""
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
    """Refit a linear model with random weights, each replicate to a certified gap.

    Rows far from the kinks of the model keep their side in nearly all replicates. A replicate therefore costs a small
    problem and its share of two passes over the data.

    Parameters
    ----------
    model : LADRegressor, QuantileRegressor, LinearSVC or LinearSVR
        Model fitted to these rows; of an unfitted model, a copy is fitted first.
    X, y, sample_weight
        The rows of the fit, as in ``fit``.
    n_replicates : int, default=200
        Number of replicates.
    kind : {"exponential", "multinomial", "cluster"}, default="exponential"
        Random weights: exponential for each row; counts of rows drawn with replacement (Efron); exponential for each
        cluster.
    clusters : array of shape (n_samples,), or the column of a file or Dask DataFrame
        The cluster of each row, for ``kind="cluster"``.
    random_state : int, optional
        Seed of the weights, which do not depend on where the rows are stored.

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
        raise ValueError("bootstrap takes no constrained model and no elastic net: its theory covers neither.")
    if not hasattr(model, "n_features_in_"):
        model = clone(model).fit(X, y, sample_weight)
    run = fitted_run(model, X, y, sample_weight)
    codes = None if clusters is None else cluster_codes(clusters, X, run.source)
    return replicated(model, run, int(n_replicates), kind, codes, random_state)


def replicated(
    model: Any, run: Run, n_replicates: int, kind: str, clusters: ClusterCodes | None, random_state: Any
) -> Bootstrap:
    """Replicate a fitted model on a run over its rows."""
    weights = _weights(kind, run.source, clusters, random_state)
    with one_blas_thread():
        rows = unfitted(model)._measured(run)
        solutions = rows.points(model.coef_, model.intercept_)
        fits = [
            _Replicates(model, rows, weights, clusters, design, point)
            for design, point in zip(model._designs(rows), solutions, strict=True)
        ]
        for fit in fits:
            fit.solve(n_replicates)
    done = [k for k in range(n_replicates) if all(k in fit.found for fit in fits)]
    if len(done) < n_replicates:
        if len(done) < 2:
            raise KeyboardInterrupt
        warnings.warn(f"The bootstrap was stopped with {len(done)} of {n_replicates} replicates.", stacklevel=3)
    found = [[fit.found[k] for k in done] for fit in fits]
    points, estimates = np.array([[one.point for one in replicates] for replicates in found]), np.array(solutions)
    values = np.array([[[one.gap, one.objective, one.lower_bound] for one in replicates] for replicates in found])
    if len(fits) == 1:
        points, values, estimates = points[0], values[0], estimates[0]
    return Bootstrap(
        names=names_of(model),
        coefficients=intercept_first(rows, points),
        gaps=values[..., 0],
        objectives=values[..., 1],
        lower_bounds=values[..., 2],
        estimates=intercept_first(rows, estimates),
        n_refitted=sum(fit.n_refitted for fit in fits),
        n_passes=run.n_passes,
    )


def _weights(kind: str, source: DataSource, clusters: ClusterCodes | None, random_state: Any) -> Weights:
    if isinstance(random_state, np.random.RandomState):
        seed = int(random_state.randint(2**31))
    elif isinstance(random_state, np.random.Generator):
        seed = int(random_state.integers(2**63))
    else:
        seed = int(np.random.SeedSequence(random_state).generate_state(1, np.uint64)[0])
    if clusters is not None:
        return ByCluster(seed, clusters.codes, clusters.n)
    return Multinomial(seed, source.n_entries) if kind == "multinomial" else Exponential(seed)


@dataclass
class _Replicates:
    """The replicates of one fit (a quantile, a class) of a model."""

    model: Any
    rows: MeasuredRows
    weights: Weights
    clusters: ClusterCodes | None
    design: Design
    point: Float
    """Solution of the fit."""
    n_refitted: int = 0
    found: dict[int, Solved] = field(default_factory=dict)
    """Replicates evaluated on all rows so far, by number."""

    def solve(self, n_replicates: int) -> None:
        """Solve the replicates, until the user stops."""
        try:
            self._solve(n_replicates)
        except KeyboardInterrupt:
            self.rows.run.stop()

    def _solve(self, n_replicates: int) -> None:
        run, design, point = self.rows.run, self.design, self.point
        if run.stopped:
            return
        members = [Member(design.loss, replicate) for replicate in range(n_replicates)]
        if suits(run, design) and (vertices := Vertices.of(run, design, point)) is not None:
            for member in members:
                self.found[member.replicate] = self._from_vertex(vertices, member)
            return
        batch = Batch(run, design, members, self.weights, min(self.model.tol, GAP))
        near = None
        if self.clusters is not None:  # clusters move a fit further than independent rows would
            effect = design_effect(run, design, point, batch.metric, self.clusters)
            near = near_share(effect * design.n_variables / design.effective)
        self.found |= batch.solve(batch.around(point, near), self._refit, done=self.found.update)

    def _from_vertex(self, vertices: Vertices, member: Member) -> Solved:
        """Solve a replicate on all rows, which are few, from a vertex close to the solution of the fit."""
        factor = self.weights(0, self.rows.run.n_entries, [member.replicate])[0]
        solved = vertices.solve(vertices.chunk.weight * factor)
        return self._refit(member.replicate, member, None) if solved is None else solved

    def _refit(self, number: int, member: Member, point: Float | None) -> Solved:
        """Fit a replicate on all rows, from a point close to its solution or from that of the fit."""
        run = self.rows.run.part().changed(Reweighting(self.weights, member.replicate))
        rows = replace(self.rows, run=run, moments=inspect(run, self.rows.fit_intercept))
        design = rows.design(member.loss, self.model._terms(rows.moments))
        self.n_refitted += 1
        logger.debug("replicate %d is fitted on all rows", member.replicate)
        model = unfitted(self.model, tol=min(self.model.tol, GAP), init="auto", initial_rate=None)
        self.found[number] = model._refit(rows, design, self.point if point is None else point)
        if run.stopped:
            if point is None:
                del self.found[number]
            raise KeyboardInterrupt
        return self.found[number]
