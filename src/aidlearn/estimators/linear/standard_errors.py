"""``summary`` of the quantile regressions: from a fitted model and its rows to a :class:`Summary`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
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
from aidlearn.inference.clusters import ClusterCodes, cluster_scores
from aidlearn.inference.covariance import BANDWIDTHS, Density
from aidlearn.inference.hypotheses import INTERCEPT, places_of
from aidlearn.inference.order_statistics import null_loss
from aidlearn.inference.rank_test import SETTINGS as RANK_TEST
from aidlearn.inference.rank_test import RankTest, weighted_rows
from aidlearn.inference.summary import METHODS, Summary
from aidlearn.inference.survey import InferenceError, Survey, survey
from aidlearn.linear.model.losses import pinball
from aidlearn.linear.start.sharpen import few_entries
from aidlearn.neighbours.batch import Batch, Member, Solved, near_share
from aidlearn.numerics import Float


@dataclass(frozen=True)
class SummarySettings:
    """Gaps of the fits at neighbouring quantiles, and thresholds of the notes in a summary."""

    neighbour_gap: float = 0.01
    """Gap of the fits at neighbouring quantiles, in p/n: about the squared sampling error of their coefficients."""
    cheap_gap: float = 1e-4
    """Gap, in p/n, of these fits for sparse rows (a level has few of them) and for few rows, whose fits are cheap."""
    many_zeros: float = 0.1
    """Fraction of zero residuals, not counting the rows that a solution interpolates, above which a note points out
    tied targets."""
    other_rows: float = 1e-6
    """Relative difference of objectives beyond which the rows are not those of the fit."""
    unfinished: float = 0.05
    """Fraction of the loss due to sampling errors above which a note points out the gap of a coarse fit."""


SETTINGS = SummarySettings()


@dataclass(frozen=True)
class Request:
    """The parameters of ``summary`` that do not concern the rows of the fit."""

    se: str = "nid"
    clusters: Any = None
    alpha: float = 0.05
    bandwidth: str = "hall-sheather"
    n_replicates: int = 200
    random_state: Any = None

    def check(self) -> None:
        """Refuse parameters that are out of range or contradict each other."""
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
    """Compute the summaries of a fitted quantile regression, one for each quantile."""
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
    with one_blas_thread():
        rows = unfitted(model)._measured(run)
        work = _Summaries(model, rows, request, clusters)
        points = rows.points(model.coef_, model.intercept_)
        surveys = [work.survey(*each) for each in zip(points, quantiles.tolist(), strict=True)]
        if request.se == "bootstrap":
            kind = "exponential" if clusters is None else "cluster"
            found = replicated(model, run, request.n_replicates, kind, clusters, request.random_state)
            replicates = np.reshape(found.coefficients, (len(fits), -1, len(work.names)))
            parts = [work.of_replicates(*each) for each in zip(fits, surveys, replicates, strict=True)]
        else:
            one = work.of_rank_tests if request.se == "rank" else work.of_density
            parts = [one(fit, seen) for fit, seen in zip(fits, surveys, strict=True)]
    return parts if isinstance(model.status_, list) else parts[0]


@dataclass(frozen=True)
class _Summaries:
    """Summaries of the quantiles of one model."""

    model: Any
    rows: MeasuredRows
    request: Request
    clusters: ClusterCodes | None

    @cached_property
    def names(self) -> list[str]:
        return names_of(self.model)

    @cached_property
    def restrictions(self) -> dict[str, Float]:
        """For each factor, the matrix R of the hypothesis ``R b = 0`` that its levels do not differ."""
        recipe = getattr(self.model, "recipe_", None)
        found = {}
        for factor in [] if recipe is None else recipe.factors:
            R = np.eye(len(self.names))[places_of(factor.names, self.names)]
            R = R if factor.reference is not None else R[1:] - R[0]
            if len(R):
                found[f"{factor.name} ({len(R) + 1} levels)"] = R
        return found

    @property
    def unit(self) -> float:
        """Ratio of the model's objective to the sum of the check function."""
        return 1.0 if hasattr(self.model, "quantile") else 2.0

    def survey(self, point: Float, quantile: float) -> Survey:
        """Survey the rows at a solution; refuse rows for which no method has standard errors."""
        design = self.rows.design(pinball(quantile), Terms())
        seen, p = survey(self.rows.run, design, point, quantile), len(self.names)
        if seen.n <= p:
            raise InferenceError(
                f"Standard errors need more rows than coefficients: there are {seen.n} rows with a positive weight "
                f"and {p} coefficients."
            )
        inference.check_full_rank(seen.gram, [*self.model.coefficient_names_, INTERCEPT][:p])
        if seen.fits_exactly:
            raise InferenceError("The rows fit exactly: there are no residuals to estimate standard errors from.")
        return seen

    def _common(self, fit: Fit, seen: Survey, notes: list[str]) -> dict[str, Any]:
        """Return the fields of a summary that do not depend on the method."""
        slopes = np.array(fit.coef, dtype=np.float64)
        return {
            "names": list(self.names),
            "coefficients": np.append(fit.intercept, slopes) if self.model.fit_intercept else slopes,
            "alpha": self.request.alpha,
            "quantile": seen.quantile,
            "se": self.request.se,
            "n": seen.n,
            "df": seen.n - len(self.names) if self.clusters is None else self.clusters.n - 1,
            "loss": seen.loss,
            "null_loss": null_loss(seen.run, self.rows.moments.targets - self.rows.offset, seen.quantile),
            "model": type(self.model).__name__,
            "target": seen.run.source.target_name,
            "objective": fit.objective,
            "lower_bound": fit.lower_bound,
            "gap": fit.gap,
            "status": str(fit.status),
            "notes": [*self._notes(fit, seen), *notes],
            "n_clusters": None if self.clusters is None else self.clusters.n,
        }

    def of_replicates(self, fit: Fit, seen: Survey, replicates: Float) -> Summary:
        """Compute standard errors from the coefficients of bootstrap replicates."""
        covariance = np.cov(replicates, rowvar=False).reshape(len(self.names), -1)
        if not (covariance.diagonal() > 0).all():
            raise InferenceError("Every bootstrap replicate has the same coefficients: the rows fit exactly.")
        common = self._common(fit, seen, [])
        return Summary.of_covariance(covariance, restrictions=self.restrictions, replicates=replicates, **common)

    def of_density(self, fit: Fit, seen: Survey) -> Summary:
        """Compute standard errors from an estimate of the density of the residuals at zero."""
        density = self._density(seen)
        notes = []
        if self.request.se == "nid" and density.without:
            notes.append(
                f"{density.without} of {seen.n} rows have no density (the neighbouring quantiles cross there); if that "
                'is more than a few, prefer se="bootstrap".'
            )
        M = seen.quantile * (1 - seen.quantile) * seen.gram
        if self.clusters is not None:
            n_clusters = self.clusters.n
            # The usual correction of cluster-robust covariances: few clusters vary less around their own fit.
            correction = n_clusters / (n_clusters - 1) * (seen.n - 1) / (seen.n - len(self.names))
            M = cluster_scores(seen, self.clusters) * correction
        covariance = inference.sandwich(density.gram, M)
        notes += self._notes_on_gap(fit, 0.5 * float(np.sum(density.gram * covariance)))
        return Summary.of_covariance(
            inference.uncentred(seen.design, covariance),
            restrictions=self.restrictions,
            sparsity=density.sparsity,
            bandwidth=density.bandwidth,
            bread=inference.uncentred(seen.design, inference.sandwich(density.gram, density.gram)),
            gram=inference.uncentred(seen.design, seen.gram, of_rows=True),
            **self._common(fit, seen, notes),
        )

    def of_rank_tests(self, fit: Fit, seen: Survey) -> Summary:
        """Invert rank tests into intervals, whose width over that of a t interval serves as standard error."""
        n_rows, quantile = seen.run.n_entries, seen.quantile
        if n_rows > RANK_TEST.most_rows:
            raise InferenceError(
                f'se="rank" solves hundreds of linear programs on all rows and takes at most '
                f'{RANK_TEST.most_rows:,} rows, got {n_rows:,}; use se="nid".'
            )
        common = self._common(fit, seen, [])
        df, coefficients = common["df"], common["coefficients"]
        X, y = weighted_rows(seen.run, self.model.fit_intercept)
        critical = float(stats.t.ppf(1 - self.request.alpha / 2, df))
        estimates = coefficients - np.eye(len(self.names))[0] * self.rows.offset
        table = np.empty((len(self.names), 3))
        for j, b in enumerate(estimates):
            test = RankTest(X, y, j, quantile)
            shift = coefficients[j] - b
            step = float(np.median(np.abs(y - X @ estimates))) * quantile * (1 - quantile) / test.scale
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
            **common,
        )

    def _density(self, seen: Survey) -> Density:
        h = inference.bandwidth(self.request.bandwidth, seen.quantile, seen.n)
        neighbours = cache(lambda: self._neighbours(seen, h))
        if inference.may_be_zero(seen, h):
            inference.refuse_zero(seen, h, *neighbours())
        if self.request.se == "nid":
            return inference.hendricks_koenker(seen, h, *neighbours())
        if self.request.se == "iid":
            return inference.siddiqui(seen, h)
        kernels = {"kernel": inference.gaussian_kernel, "cluster": inference.uniform_kernel}
        return kernels[self.request.se](seen, h)

    def _neighbours(self, seen: Survey, h: float) -> tuple[Float, Float]:
        """Fit the quantiles ``tau - h`` and ``tau + h``, as neighbours of the model."""
        run, point = seen.run, seen.point
        ratio = len(point) / seen.n
        # Rows between the two planes change sides, and so may rows within the sampling error of a plane.
        near = 2 * h + near_share(ratio)
        # Sparse rows are fitted in a few passes, and groups of them would be dense; few rows are a small problem.
        cheap = seen.design.layout is not None or few_entries(run.n_entries, len(point))
        # If the near rows exceed the memory limit, separate fits stay within it.
        apart = cheap or near * run.n_entries > run.budget.near_rows(run.n_attributes)
        tol = min(self.model.tol, (SETTINGS.cheap_gap if cheap else SETTINGS.neighbour_gap) * ratio)
        model = unfitted(self.model, tol=tol, init="auto", initial_rate=None)

        def refit(number: int, member: Member, close: Float | None) -> Solved:
            design = replace(seen.design, loss=member.loss)
            solved = model._refit(self.rows, design, point if close is None else close)
            if run.stopped:
                raise KeyboardInterrupt  # an unfinished neighbour gives wrong standard errors
            return solved

        members = [Member(pinball(seen.quantile - h)), Member(pinball(seen.quantile + h))]
        if apart:
            return refit(0, members[0], point).point, refit(1, members[1], point).point
        batch = Batch(run, seen.design, members, tol=tol)
        solved = batch.solve(batch.around(point, near), refit)
        return solved[0].point, solved[1].point

    def _notes(self, fit: Fit, seen: Survey) -> list[str]:
        """Return notes on rows that are not those of the fit, and on tied targets."""
        objective, notes = self.unit * seen.loss, []
        if abs(objective - fit.objective) > SETTINGS.other_rows * max(abs(objective), abs(fit.objective)):
            notes.append(
                f"These are not the rows of the fit: its objective was {fit.objective:.6g}, here it is {objective:.6g}."
            )
        zeros = seen.share_of_zeros
        if zeros > SETTINGS.many_zeros + len(self.names) / seen.n:
            notes.append(
                f"{100 * zeros:.0f}% of the residuals are zero: targets are tied there, and coefficients that do not "
                "move with the sample have standard errors of rounding errors, whose statistics mean nothing."
            )
        return notes

    def _notes_on_gap(self, fit: Fit, sampling: float) -> list[str]:
        """Return a note if the fit was stopped before its error was small compared with the sampling error.

        The error of the fit costs at most the loss ``E - F``, the sampling error ``1/2 trace(H cov)``.
        """
        wanted = SETTINGS.unfinished * sampling * self.unit
        if not fit.objective - fit.lower_bound > wanted > 0:
            return []
        return [
            f"The certified gap {fit.gap:.1e} is not small compared with the sampling error: fit with "
            f"tol={wanted / abs(fit.objective):.0e} or less before reading the last digits of the coefficients."
        ]
