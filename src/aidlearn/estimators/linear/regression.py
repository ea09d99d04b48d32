"""Least absolute deviation and quantile regression (paper, section 3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from aidlearn.data.passes.moments import Moments
from aidlearn.data.passes.run import Run
from aidlearn.estimators.base import FITTED_ATTRIBUTES
from aidlearn.estimators.checks import check_flag, check_number
from aidlearn.estimators.declared import LADParameters, QuantileParameters
from aidlearn.estimators.fitting import BATCH, BatchRecord, Fitted, checkpoint_of, fit_problem
from aidlearn.estimators.linear.coordinates import Attempt, MeasuredRows, Terms, as_reported, in_good_coordinates
from aidlearn.estimators.linear.standard_errors import Request, summarise
from aidlearn.estimators.linear.template import LinearEstimator, LinearRegressor
from aidlearn.estimators.parameters import documented
from aidlearn.inference.summary import Summary
from aidlearn.linear.hurried import Hurried
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import Loss, absolute, pinball
from aidlearn.linear.problem import PiecewiseLinear
from aidlearn.linear.start.sharpen import Band, few_entries
from aidlearn.neighbours.batch import Batch, Member, Solved
from aidlearn.neighbours.corridors import Corridor, Sampled, SampledSolution
from aidlearn.neighbours.evaluation import count_crossings
from aidlearn.numerics import Float

OWN = ("auto", "interior-point")
"""Solvers with which several quantiles can be solved as neighbours."""
SPAN = 0.1
"""Guess. Largest difference of quantiles that share near rows: the fraction of rows between their planes."""
DOUBT = 3.0
"""Guess. Near rows allow for this many typical distances between a sampled plane and the solution."""


class _LinearQuantile(LinearRegressor):
    alpha: float
    l1_ratio: float = 1.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("alpha", self.alpha, low=0, include_low=True)
        check_number("l1_ratio", self.l1_ratio, low=0, high=1, include_low=True, include_high=True)
        if self.solver == "highs" and self.alpha > 0 and self.l1_ratio < 1:
            raise ValueError("solver='highs' solves linear programs only; use solver='auto' with l1_ratio < 1.")
        self._losses()

    def _terms(self, moments: Moments) -> Terms:
        total = self.alpha * moments.weight
        return Terms(ridge=(1 - self.l1_ratio) * total, l1=self.l1_ratio * total, weighted=True)

    def _solved(self, rows: MeasuredRows) -> list[Fitted]:
        def solve(own: MeasuredRows, least_pivot: float) -> Attempt:
            designs = [replace(design, least_pivot=least_pivot) for design in self._designs(own)]
            if self._share_passes(own, designs):
                many = ManyQuantiles(self, own, designs)
                return Attempt(many.solve(), designs, many.crossings)
            return Attempt(self._fit_all(own, designs), designs)

        if self.checkpoint is None and rows.region is None:
            found = in_good_coordinates(rows, solve, self.alpha > 0, self.tol)
        else:
            found = solve(rows, 0.0)
            found = replace(found, fits=as_reported(rows, found.designs, found.fits, self.tol))
        self._count_crossings(rows.run, np.array([fit.result.point for fit in found.fits]), found.crossings)
        return found.fits

    def _count_crossings(self, run: Run, points: Float, known: int | None) -> None:
        """Count how often predictions of several quantiles cross, unless that is ``known`` already."""

    def _fit_all(self, rows: MeasuredRows, designs: list[Design]) -> list[Fitted]:
        """Fit each quantile from the solution before it."""
        several, warm = self._several(), self._warm_points(rows, len(designs))
        start = self._start_from(warm[0])
        if several and self.checkpoint is None and self._is_late(rows.run, designs[0]):
            start = Hurried(designs)
        fits: list[Fitted] = []
        for k, design in enumerate(designs):
            number = k if several else None
            fits.append(self._fit_design(rows, design, start, number, n_left=len(designs) - k))
            if isinstance(start, Band):
                start.continue_from(fits[-1].result.point)
                start.begin_at(warm[k + 1] if k + 1 < len(designs) else None)
        return fits

    def _share_passes(self, rows: MeasuredRows, designs: list[Design]) -> bool:
        """Return whether several quantiles are solved together, as neighbours.

        They are not if each has pictures or a start of its own, or if nothing is aggregated: there are few rows, or a
        large factor keeps every row single.
        """
        design, run = designs[0], rows.run
        if not self._several() or few_entries(run.n_entries, design.n_variables) or self._is_late(run, design):
            return False
        has_factor = design.layout is not None and bool(design.layout.levels)
        by_default = self._sharpens and self.initial_rate is None and self.tol > 0 and self.solver in OWN
        is_warm = self._warm_points(rows, len(designs))[0] is not None
        return by_default and not is_warm and run.n_attributes > 2 and not has_factor and design.region is None

    def summary(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        se: str = "nid",
        clusters: Any = None,
        alpha: float = 0.05,
        *,
        bandwidth: str = "hall-sheather",
        n_replicates: int = 200,
        random_state: Any = None,
    ) -> Summary | list[Summary]:
        """Compute standard errors, tests and confidence intervals of the coefficients.

        Parameters
        ----------
        X, y, sample_weight
            The rows of the fit, as in ``fit``. Everything is computed by passes over them. Weights act as in R's
            ``rq(weights=)``: the rows (w x, w y) are the data; a row with weight 0 is left out.
        se : {"nid", "iid", "kernel", "cluster", "bootstrap", "rank"}, default="nid"
            Method, in this order: Hendricks and Koenker's sandwich (densities differ between rows); iid errors;
            Powell's kernel sandwich; Parente and Santos Silva's cluster-robust sandwich;
            :func:`~aidlearn.bootstrap`; Koenker's inverted rank test (small data).
        clusters : array of shape (n_samples,), or the column of a file or Dask DataFrame
            The cluster of each row, for ``se="cluster"`` and ``se="bootstrap"``.
        alpha : float, default=0.05
            Error rate of the intervals, whose confidence level is ``1 - alpha``.
        bandwidth : {"hall-sheather", "bofinger"}, default="hall-sheather"
            Bandwidth of the density estimates.
        n_replicates : int, default=200
            Number of bootstrap replicates.
        random_state : int, optional
            Seed of the bootstrap.

        Returns
        -------
        Summary, or a list of them for several quantiles
        """
        return summarise(self, X, y, sample_weight, Request(se, clusters, alpha, bandwidth, n_replicates, random_state))


class LADRegressor(LADParameters, _LinearQuantile):
    __doc__ = f"""Least absolute deviation regression with a certified optimality gap.

    Minimises ``sum_i sample_weight_i |y_i - x_i'coef - intercept|`` by AID: rows are aggregated into clusters,
    a small weighted problem is solved, and the clusters its solution cuts are split, until the proven lower
    bound is within ``tol`` of the objective on all rows.

    Parameters
    ----------{documented(LADParameters)}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float{FITTED_ATTRIBUTES}

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import LADRegressor
    >>> X = np.arange(10.0).reshape(-1, 1)
    >>> y = 2 * X[:, 0] + 1
    >>> y[3] = 100.0
    >>> model = LADRegressor(tol=0).fit(X, y)
    >>> model.coef_.round(6), round(model.intercept_, 6), str(model.status_)
    (array([2.]), 1.0, 'optimal')
    """

    def _losses(self) -> list[Loss]:
        return [absolute()]


class QuantileRegressor(QuantileParameters, _LinearQuantile):
    __doc__ = f"""Linear quantile regression with a certified optimality gap.

    Minimises the weighted sum of the check function ``max(tau z, (tau - 1) z)`` of the residuals
    ``z = y - X coef - intercept``; with ``alpha`` it is the model of
    :class:`sklearn.linear_model.QuantileRegressor` (whose objective is this one divided by the sum of weights).

    Parameters
    ----------{documented(QuantileParameters)}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    crossings_ : int
        Pairs of neighbouring quantiles whose predictions cross, summed over the rows of the fit (before they are
        rearranged); only with several quantiles.{FITTED_ATTRIBUTES}

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import QuantileRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 3))
    >>> y = X @ [1.0, 2.0, 3.0] + rng.normal(size=5000)
    >>> model = QuantileRegressor(quantile=[0.1, 0.9]).fit(X, y)
    >>> model.coef_.shape, bool((model.gap_ <= 1e-4).all())
    ((2, 3), True)
    """

    def _several(self) -> bool:
        return np.ndim(self.quantile) > 0

    def _losses(self) -> list[Loss]:
        quantiles = list(self.quantile) if self._several() else [self.quantile]
        if not quantiles:
            raise ValueError("quantile must hold at least one number, got an empty sequence.")
        for quantile in quantiles:
            check_number("quantile", quantile, low=0, high=1)
        return [pinball(float(quantile)) for quantile in quantiles]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_flag("rearrange", self.rearrange)

    def predict(self, X: Any) -> Float:
        """Predict the quantile of every row: shape (n_samples,), or one column per quantile.

        With ``rearrange=True`` the columns of a row never cross. A Dask collection gives a lazy Dask array.
        """
        if not self.rearrange or np.ndim(self.quantile) == 0:
            return super().predict(X)
        ranks = np.argsort(np.argsort(np.asarray(self.quantile, dtype=np.float64), kind="stable"))
        return self._decided(X, lambda scores: np.sort(scores, axis=1)[:, ranks])

    def _count_crossings(self, run: Run, points: Float, known: int | None) -> None:
        self.__dict__.pop("crossings_", None)
        if self._several():
            order = np.argsort(np.asarray(self.quantile, dtype=np.float64), kind="stable")
            self.crossings_ = count_crossings(run, points[order], self.fit_intercept) if known is None else known

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        return tags


# Many quantiles in one fit: planes of close quantiles lie in corridors bounded by sampled planes


def quantile_of(design: Design) -> float:
    return 1.0 - design.loss.tilts[0]


def groups_of(quantiles: list[float], span: float = SPAN) -> list[list[int]]:
    """Group the positions of ascending quantiles that share near rows, none further apart than the span."""
    groups: list[list[int]] = []
    for k, quantile in enumerate(quantiles):
        if groups and quantile - quantiles[groups[-1][0]] <= span * (1 + 1e-9):
            groups[-1].append(k)
        else:
            groups.append([k])
    return groups


class ManyQuantiles:
    """The quantiles of a model on one run, numbered internally in ascending order."""

    def __init__(self, model: LinearEstimator, rows: MeasuredRows, designs: list[Design]) -> None:
        self.model, self.rows, self.run = model, rows, rows.run
        self.order = sorted(range(len(designs)), key=lambda k: quantile_of(designs[k]))
        self.designs = [designs[k] for k in self.order]
        self.quantiles = [quantile_of(design) for design in self.designs]
        self.fits: dict[int, Fitted] = {}
        self.knots: dict[int, SampledSolution] = {}
        self.crossings: int | None = None
        """Number of crossings on the rows of the fit, if they were counted."""
        checkpoint = checkpoint_of(model, self.run.source.origin, rows.moments.digest, BATCH)
        self.record = BatchRecord(model, model._callbacks(), self.run, len(designs), checkpoint)

    def solve(self) -> list[Fitted]:
        """Fit all quantiles, and return the fits in the given order."""
        try:
            sampled = Sampled.of(self.run, self.designs[0])
            members = [Member(design.loss) for design in self.designs]
            tol, metric = self.model.tol, sampled.metric
            batch = Batch(self.run, self.designs[0], members, tol=tol, given_metric=metric, ordered=True)
            self.record.prove(lambda: batch)
            times = [one.seconds for one in self.record.history]
            for k, one in self.record.solved.items():
                if one.gap <= tol:
                    self._take(k, one, times.pop(0) if times else self.record.seconds)
            solved = batch.solve(self._corridors(sampled), None, self._begin, self._done, self.record.solved)
            for k, found in solved.items():
                if k not in self.fits and found.gap <= tol:
                    self._keep(k, found)
            if len(self.fits) == len(self.designs):
                self.crossings = batch.crossings
        except KeyboardInterrupt:
            self.run.stop()
        self._fit_others()
        return [self.fits[int(k)] for k in np.argsort(self.order)]

    def _fit_others(self) -> None:
        """Fit the open quantiles on all rows, each from its best point."""
        left = [k for k in range(len(self.designs)) if k not in self.fits]
        if len(left) > 1 and self.model._is_late(self.run, self.designs[0]):
            procedure = self.model._procedure(Hurried([self.designs[k] for k in left]))
            for k in left:
                problem = PiecewiseLinear(self.run, self.designs[k], procedure)
                self.fits[k] = fit_problem(problem, self.model._limits(self.run), self.model._callbacks())
                self.fits[k].result.drop_clusters()
            return
        start = Band()
        for done, k in enumerate(left):
            if k in self.record.solved:
                start.continue_from(self.record.solved[k].point)
            n_left = len(left) - done
            self.fits[k] = self.model._fit_design(self.rows, self.designs[k], start, self.order[k], n_left)
            self.fits[k].result.drop_clusters()
            start.continue_from(self.fits[k].result.point)

    def _corridors(self, sampled: Sampled) -> list[Corridor]:
        corridors: list[Corridor] = []
        for group in groups_of(self.quantiles):
            corridors += self._within_memory(sampled, group)
        return corridors

    def _within_memory(self, sampled: Sampled, group: list[int]) -> list[Corridor]:
        """Return one corridor for a group, or several if its near rows exceed the memory limit."""
        first, last = (self._knot(sampled, k) for k in (group[0], group[-1]))
        design, ends = self.designs[group[0]], (first.point, last.point)
        reach = DOUBT * max(first.error, last.error)
        most = self.run.budget.near_rows(self.run.n_attributes) / self.run.n_entries
        if most >= 1 or sampled.share(design, ends, reach) <= most:
            return [Corridor(group, ends, reach, reach / DOUBT)]
        if len(group) > 1:
            half = len(group) // 2
            return self._within_memory(sampled, group[:half]) + self._within_memory(sampled, group[half:])
        return [Corridor(group, ends, sampled.width(design, ends[0], most), reach / DOUBT)]

    def _knot(self, sampled: Sampled, k: int) -> SampledSolution:
        """Return the sampled plane of a quantile, which is solved only once."""
        if k not in self.knots:
            near = max((other for other in self.knots if other < k), default=None)
            self.knots[k] = sampled.solution(self.designs[k], None if near is None else self.knots[near].point)
        return self.knots[k]

    def _begin(self, number: int, points: Mapping[int, Float]) -> Float:
        """Return a start on the line through the two previous solutions, or a sampled plane."""
        if number - 1 not in points or (number in self.knots and number - 2 not in points):
            return self.knots[number].point
        last, step = points[number - 1], self.quantiles[number] - self.quantiles[number - 1]
        before = self.quantiles[number - 1] - self.quantiles[number - 2] if number >= 2 else 0.0
        if number - 2 not in points or max(step, before) > SPAN:
            return self.knots[number].point if number in self.knots else last
        return last + (step / before) * (last - points[number - 2]) if before > 0 else last

    def _done(self, found: Mapping[int, Solved]) -> None:
        """Turn certified members into fits, and save all members."""
        for k, solved in found.items():
            if solved.gap <= self.model.tol:
                self._keep(k, solved)
        self.record.keep(found, [self.fits[k].result.history[0] for k in sorted(self.fits)])

    def _keep(self, k: int, solved: Solved) -> None:
        """Turn a certified member into a fit, and show it to the callbacks."""
        self._take(k, solved, self.record.seconds)
        self.model._show(self.run, self.fits[k])

    def _take(self, k: int, solved: Solved, seconds: float) -> None:
        """Turn a certified member into a fit with one aggregated problem and its check on all rows."""
        n_open = len(self.designs[k].loss.kinks) + 1
        self.fits[k] = self.model._at_once(self.run, solved, n_open, seconds)
