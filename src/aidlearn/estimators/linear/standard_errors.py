"""``summary`` of the quantile regressions: from a fitted model and its rows to a :class:`Summary`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from scipy import stats
from sklearn.utils.validation import check_is_fitted

from aidlearn.data.rows.threads import one_blas_thread
from aidlearn.estimators.checks import check_number
from aidlearn.estimators.fits import Fit, fits_of
from aidlearn.estimators.linear.bootstrap import replicated
from aidlearn.estimators.linear.constraints import is_constrained
from aidlearn.estimators.linear.coordinates import MeasuredRows, Terms
from aidlearn.estimators.linear.fitted_rows import cluster_codes, fitted_run, names_of, unfitted
from aidlearn.inference import covariance as inference
from aidlearn.inference import density_gaps
from aidlearn.inference.covariance import BANDWIDTHS, ClusterCodes, Density, InferenceError, Survey
from aidlearn.inference.hypotheses import INTERCEPT
from aidlearn.inference.order_statistics import null_loss
from aidlearn.inference.rank_test import SETTINGS as RANK_TEST
from aidlearn.inference.rank_test import RankTest, SmallRows
from aidlearn.inference.summary import METHODS, FactorColumns, Summary
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import pinball
from aidlearn.linear.start.sharpen import few_entries
from aidlearn.neighbours.batch import Batch, Member, Solved, near_share
from aidlearn.numerics import Float

MANY_ZEROS = 0.1
"""Part of the residuals, beyond those that a solution interpolates, from which tied targets are pointed out."""
OTHER_ROWS = 1e-6
"""Relative difference of objectives from which rows are not those of the fit."""
NEIGHBOUR_GAP = 0.01
"""Gap of the fits at neighbouring quantiles, in p/n: about the squared sampling error of their coefficients."""
CHEAP_GAP = 1e-4
"""The same of sparse rows (a level has few of them) and of few rows, whose fits are cheap."""
UNFINISHED = 0.05
"""Gap of a fit, as a part of the loss that sampling errors cost, from which the summary says so."""


@dataclass(frozen=True)
class Request:
    """What a summary is asked for."""

    se: str = "nid"
    clusters: Any = None
    alpha: float = 0.05
    bandwidth: str = "hall-sheather"
    n_replicates: int = 200
    random_state: Any = None

    def check(self) -> None:
        if self.se not in METHODS:
            raise ValueError(f"se must be one of {', '.join(map(repr, METHODS))}, got {self.se!r}.")
        if self.bandwidth not in BANDWIDTHS:
            raise ValueError(f"bandwidth must be one of {', '.join(map(repr, BANDWIDTHS))}, got {self.bandwidth!r}.")
        check_number("alpha", self.alpha, low=0, high=1)
        if self.se == "cluster" and self.clusters is None:
            raise ValueError('se="cluster" needs clusters: an array with the cluster of each row, or its column.')
        if self.clusters is not None and self.se not in ("cluster", "bootstrap"):
            raise ValueError(f'clusters are for se="cluster" and se="bootstrap", not for se={self.se!r}.')


def summarise(model: Any, X: Any, y: Any, sample_weight: Any, request: Request) -> Summary | list[Summary]:
    """The summaries of a fitted quantile regression, one for each quantile."""
    request.check()
    check_is_fitted(model)
    if model.alpha > 0:
        raise InferenceError("A penalised fit (alpha > 0) has no standard errors of this kind: fit it with alpha=0.")
    if is_constrained(model):
        raise InferenceError("A constrained fit has no standard errors of this kind: fit it without constraints.")
    run = fitted_run(model, X, y, sample_weight)
    clusters = None if request.clusters is None else cluster_codes(request.clusters, X, run.source)
    fits = fits_of(model)
    quantiles = np.atleast_1d(np.asarray(getattr(model, "quantile", 0.5), dtype=float))
    if len(quantiles) != len(fits):
        raise ValueError("quantile was changed after the fit: fit the model again.")
    replicates: list[Float | None] = [None] * len(fits)
    with one_blas_thread():
        rows = unfitted(model)._measured(run)
        work = _Work(model, rows, request, clusters)
        surveys = [work.survey(fit, tau) for fit, tau in zip(fits, quantiles, strict=True)]
        if request.se == "bootstrap":
            kind = "exponential" if clusters is None else "cluster"
            again = fitted_run(model, X, y, sample_weight)
            found = replicated(model, again, request.n_replicates, kind, clusters, request.random_state)
            replicates = list(found.coefficients) if len(fits) > 1 else [found.coefficients]
        parts = [
            work.summary(fit, float(tau), seen, some)
            for fit, tau, seen, some in zip(fits, quantiles, surveys, replicates, strict=True)
        ]
    return parts if isinstance(model.status_, list) else parts[0]


class _Work:
    """What the summaries of the quantiles of one model share."""

    def __init__(self, model: Any, rows: MeasuredRows, request: Request, clusters: ClusterCodes | None) -> None:
        self.model, self.rows, self.run = model, rows, rows.run
        self.request, self.clusters = request, clusters
        self.names = names_of(model)
        recipe = getattr(model, "recipe_", None)
        found = [] if recipe is None else recipe.factors
        place = {name: k for k, name in enumerate(self.names)}
        self.factors = [
            FactorColumns(factor.name, [place[name] for name in factor.names], factor.reference is not None)
            for factor in found
        ]

    def design(self, quantile: float) -> Design:
        return self.rows.design(pinball(quantile), Terms())

    def point(self, fit: Fit) -> Float:
        assert fit.coef is not None
        return self.rows.points(fit.coef, fit.intercept)[0]

    def survey(self, fit: Fit, quantile: float) -> Survey:
        seen = inference.survey(self.run, self.design(quantile), self.point(fit))
        p = len(self.names)
        if seen.n <= p:
            raise InferenceError(
                f"Standard errors need more rows than coefficients: there are {seen.n} rows with a positive weight "
                f"and {p} coefficients."
            )
        slopes = list(self.model.coefficient_names_)
        inference.check_rank(seen.gram, [*slopes, INTERCEPT] if self.model.fit_intercept else slopes)
        if seen.fits_exactly:
            raise InferenceError("The rows fit exactly: there are no residuals to estimate standard errors from.")
        return seen

    def summary(self, fit: Fit, quantile: float, seen: Survey, replicates: Float | None) -> Summary:
        request, design, point = self.request, self.design(quantile), self.point(fit)
        assert fit.coef is not None
        coefficients = np.append(fit.intercept, fit.coef) if self.model.fit_intercept else np.array(fit.coef)
        unit = 2.0 if not hasattr(self.model, "quantile") else 1.0
        notes = self._notes(fit, seen, unit)
        others: dict[str, Any] = {
            "names": list(self.names),
            "coefficients": coefficients,
            "alpha": request.alpha,
            "quantile": quantile,
            "se": request.se,
            "n": seen.n,
            "loss": seen.loss,
            "null_loss": null_loss(self.run, self.rows.moments.targets - self.rows.offset, quantile),
            "model": type(self.model).__name__,
            "target": self.run.source.target_name,
            "objective": fit.objective,
            "lower_bound": fit.lower_bound,
            "gap": fit.gap,
            "status": str(fit.status),
            "notes": notes,
            "n_clusters": None if self.clusters is None else self.clusters.n,
        }
        df = seen.n - len(self.names) if self.clusters is None else self.clusters.n - 1
        if replicates is not None:
            covariance = np.cov(replicates, rowvar=False).reshape(len(self.names), -1)
            if not (covariance.diagonal() > 0).all():
                raise InferenceError("Every bootstrap replicate has the same coefficients: the rows fit exactly.")
            return Summary.of_covariance(covariance, df=df, factors=self.factors, replicates=replicates, **others)
        if request.se == "rank":
            return self._rank_tests(quantile, coefficients, df, others)
        density = self._density(design, point, seen, quantile)
        if density.without:
            notes.append(
                f"{density.without} of {seen.n} rows have no density (the neighbouring quantiles cross there); if that "
                'is more than a few, prefer se="bootstrap".'
            )
        M = quantile * (1 - quantile) * seen.gram
        if self.clusters is not None:
            M = inference.cluster_scores(self.run, design, point, seen, quantile, self.clusters)
            # Few clusters vary less around their own fit: the usual correction of cluster-robust covariances.
            M *= self.clusters.n / (self.clusters.n - 1) * (seen.n - 1) / (seen.n - len(self.names))
        covariance = inference.sandwich(density.gram, M)
        self._judge(fit, 0.5 * float(np.sum(density.gram * covariance)), notes, unit)
        return Summary.of_covariance(
            inference.uncentred(design, covariance),
            df=df,
            factors=self.factors,
            sparsity=density.sparsity,
            bandwidth=density.bandwidth,
            bread=inference.uncentred(design, inference.sandwich(density.gram, density.gram)),
            gram=inference.uncentred_gram(design, seen.gram),
            **others,
        )

    def _rank_tests(self, quantile: float, coefficients: Float, df: int, others: dict[str, Any]) -> Summary:
        """Intervals that invert rank tests; what stands for a standard error is their width over that of the t."""
        if self.run.n_entries > RANK_TEST.most_rows:
            raise InferenceError(
                f'se="rank" solves hundreds of linear programs on all rows and takes at most '
                f'{RANK_TEST.most_rows:,} rows, got {self.run.n_entries:,}; use se="nid".'
            )
        rows = SmallRows.of(self.run, self.model.fit_intercept)
        critical = float(stats.t.ppf(1 - self.request.alpha / 2, df))
        offset = self.rows.offset
        estimates = coefficients - (np.eye(len(self.names))[0] * offset if offset else 0.0)
        table = np.empty((len(self.names), 3))
        for j, b in enumerate(estimates):
            test = RankTest(rows, j, quantile)
            shift = coefficients[j] - b
            step = float(np.median(np.abs(rows.y - rows.X @ estimates))) * quantile * (1 - quantile) / test.scale
            step = step or max(abs(b), 1.0) * 1e-3
            ends = [test.crossing(critical, b, direction * step) + shift for direction in (-1.0, 1.0)]
            table[j] = *ends, test(-shift)
        lower, upper, statistics = table.T
        if not np.isfinite(table).all():
            bad = self.names[int(np.argmax(~np.isfinite(table).all(axis=1)))]
            raise InferenceError(f'The rank test bounds the coefficient of {bad} on one side only: use se="bootstrap".')
        return Summary(
            standard_errors=(upper - lower) / (2 * critical),
            statistics=statistics,
            p_values=2 * stats.t.sf(np.abs(statistics), df),
            lower=lower,
            upper=upper,
            covariance=None,
            df=df,
            **others,
        )

    def _density(self, design: Design, point: Float, seen: Survey, quantile: float) -> Density:
        request, run = self.request, self.run
        h = inference.inside(quantile, BANDWIDTHS[request.bandwidth](quantile, seen.n, 0.05))
        neighbours = cache(lambda: self._neighbours(point, seen, quantile, h))
        if density_gaps.is_likely(seen, quantile, h):
            density_gaps.check(run, design, *neighbours(), seen, quantile, h)
        if request.se == "iid":
            return inference.siddiqui(run, design, point, seen, quantile, h)
        if request.se == "kernel":
            return inference.kernel(run, design, point, seen, quantile, h)
        if request.se == "cluster":
            return inference.uniform(run, design, point, seen, quantile, h)
        return inference.neighbours(run, design, *neighbours(), seen, h)

    def _neighbours(self, point: Float, seen: Survey, quantile: float, h: float) -> tuple[Float, Float]:
        """The fits at ``quantile - h`` and ``quantile + h``, as neighbours of the model."""
        ratio = len(point) / seen.n
        # Rows between the two planes change sides, and so may those that sampling errors leave in doubt.
        near = 2 * h + near_share(ratio)
        # A fit of sparse rows is a few passes, and groups of them would be dense; one of few rows is a small problem.
        cheap = self.design(quantile).layout is not None or few_entries(self.run.n_entries, len(point))
        # Fits of their own keep to the limit on memory where that many rows do not fit.
        apart = cheap or near * self.run.n_entries > self.run.budget.near_rows(self.run.n_attributes)
        tol = min(self.model.tol, (CHEAP_GAP if cheap else NEIGHBOUR_GAP) * ratio)
        model = unfitted(self.model, tol=tol, init="auto", initial_rate=None)

        def refit(number: int, member: Member, close: Float | None) -> Solved:
            design = replace(self.design(quantile), loss=member.loss)
            return model._refit(self.rows, design, point if close is None else close)

        members = [Member(pinball(quantile - h)), Member(pinball(quantile + h))]
        if apart:
            return refit(0, members[0], point).point, refit(1, members[1], point).point
        batch = Batch(self.run, self.design(quantile), members, tol=tol)
        solved = batch.solve(batch.around(point, near), refit)
        return solved[0].point, solved[1].point

    def _notes(self, fit: Fit, seen: Survey, unit: float) -> list[str]:
        objective, notes = unit * seen.loss, []
        if abs(objective - fit.objective) > OTHER_ROWS * max(abs(objective), abs(fit.objective)):
            notes.append(
                f"These are not the rows of the fit: its objective was {fit.objective:.6g}, here it is {objective:.6g}."
            )
        zeros = seen.share_of_zeros
        if zeros > MANY_ZEROS + len(self.names) / seen.n:
            notes.append(
                f"{100 * zeros:.0f}% of the residuals are zero: targets are tied there, and coefficients that do not "
                "move with the sample have standard errors of rounding errors, whose statistics mean nothing."
            )
        return notes

    def _judge(self, fit: Fit, sampling: float, notes: list[str], unit: float) -> None:
        """Say so where the fit was stopped before its error was small beside the sampling error.

        A solution with the loss ``E - F`` above the optimum is as far from it as sampling errors of a cost
        ``1/2 trace(H cov)`` are from the truth.
        """
        excess = (fit.objective - fit.lower_bound) / unit
        if excess > UNFINISHED * sampling > 0:
            wanted = UNFINISHED * sampling * unit / abs(fit.objective)
            notes.append(
                f"The certified gap {fit.gap:.1e} is not small beside the sampling error: fit with tol={wanted:.0e} or "
                "less before reading the last digits of the coefficients."
            )
