"""Tests of linear hypotheses, of equal slopes across quantiles, and of models with fewer columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from aidlearn.numerics import Float

if TYPE_CHECKING:
    from aidlearn.inference.summary import Summary

INTERCEPT = "(intercept)"


def places_of(chosen: Sequence[str], names: Sequence[str]) -> list[int]:
    """Return the positions of the chosen names among the names of all coefficients."""
    unknown = [name for name in chosen if name not in names]
    if unknown:
        raise ValueError(f"There is no coefficient {unknown[0]!r}; they are {', '.join(names[:12])}.")
    return [names.index(name) for name in chosen]


def listed(names: Sequence[str]) -> str:
    """List up to four names of coefficients, or count them."""
    return ", ".join(names) if len(names) <= 4 else f"{len(names)} coefficients"


@dataclass(frozen=True)
class HypothesisTest:
    """The result of a statistical test: its statistic, degrees of freedom and p value.

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import QuantileRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> y = X[:, 0] + rng.normal(size=500)
    >>> test = QuantileRegressor(quantile=0.5).fit(X, y).summary(X, y).wald_test(["x1"])
    >>> test.df, bool(test.p_value > 0.01)
    (1, True)
    """

    name: str
    statistic: float
    df: int
    """Number of restrictions tested."""
    df_residual: float | None
    """Denominator degrees of freedom of the F distribution; None if the statistic is compared with chi-squared."""
    p_value: float

    def __str__(self) -> str:
        kind = f"chi2({self.df})" if self.df_residual is None else f"F({self.df}, {self.df_residual:g})"
        return f"{self.name}: {kind} = {self.statistic:.4f}, p = {self.p_value:.4g}"


def wald(name: str, rest: Float, covariance: Float, df_residual: float) -> HypothesisTest:
    """Compare ``rest' covariance^-1 rest / q`` with the F distribution."""
    q = len(rest)
    if np.linalg.matrix_rank(covariance, hermitian=True) < q:
        raise ValueError(f"{name}: the restrictions are not independent of one another.")
    statistic = float(rest @ np.linalg.solve(covariance, rest)) / q
    return HypothesisTest(name, statistic, q, df_residual, float(stats.f.sf(statistic, q, df_residual)))


def equal_slopes(summaries: Sequence[Summary], names: Sequence[str] | None = None) -> HypothesisTest:
    """Test that slopes are the same at several quantiles (Koenker and Bassett 1982).

    Parameters
    ----------
    summaries : list of Summary
        Summaries of the same rows at different quantiles, as ``summary`` returns them for several quantiles with
        ``se`` "iid", "nid", "kernel" or "bootstrap".
    names : sequence of str, optional
        Names of the coefficients to compare; all slopes by default.

    Returns
    -------
    HypothesisTest

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import QuantileRegressor, equal_slopes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(3000, 1))
    >>> y = X[:, 0] + (0.5 + X[:, 0]) * rng.normal(size=3000)
    >>> summaries = QuantileRegressor(quantile=[0.2, 0.8], tol=1e-8).fit(X, y).summary(X, y)
    >>> bool(equal_slopes(summaries).p_value < 0.001)
    True
    """
    if len(summaries) < 2:
        raise ValueError(f"equal_slopes compares the summaries of at least 2 quantiles, got {len(summaries)}.")
    first = summaries[0]
    if any(s.names != first.names or s.n != first.n or s.se != first.se for s in summaries):
        raise ValueError("equal_slopes compares summaries of the same rows and columns with the same se.")
    if len({s.quantile for s in summaries}) < len(summaries):
        raise ValueError("equal_slopes compares different quantiles, but two of them are the same.")
    chosen = [name for name in first.names if name != INTERCEPT] if names is None else list(names)
    if not chosen:
        raise ValueError("There is no slope to compare.")
    m = len(summaries)
    joint = _joint_covariance(summaries)
    differences = np.eye(m - 1, m) - np.eye(m - 1, m, 1)
    R = np.kron(differences, np.eye(len(first.names))[places_of(chosen, first.names)])
    rest = R @ np.concatenate([s.coefficients for s in summaries])
    levels = ", ".join(f"{s.quantile:g}" for s in summaries)
    return wald(f"Equality of slopes at quantiles {levels}", rest, R @ joint @ R.T, m * first.n - len(R))


def _joint_covariance(summaries: Sequence[Summary]) -> Float:
    """Return the covariance of the coefficients of all quantiles: blocks ``(min(s, t) - s t) H_s^-1 J H_t^-1``."""
    kept = [summary.replicates for summary in summaries if summary.replicates is not None]
    if len(kept) == len(summaries):
        if len({len(replicates) for replicates in kept}) > 1:
            raise ValueError("The summaries have different numbers of bootstrap replicates: compute them again.")
        return np.cov(np.hstack(kept), rowvar=False)
    pairs = [(s.bread, s.gram) for s in summaries if s.bread is not None and s.gram is not None and s.se != "cluster"]
    if len(pairs) < len(summaries):
        raise ValueError(f'equal_slopes needs se="iid", "nid", "kernel" or "bootstrap", got {summaries[0].se!r}.')
    levels = [summary.quantile for summary in summaries]
    return np.block(
        [
            [(min(s, t) - s * t) * (one @ gram @ two) for t, (two, _) in zip(levels, pairs, strict=True)]
            for s, (one, gram) in zip(levels, pairs, strict=True)
        ]
    )


def likelihood_ratio_test(restricted: Summary, full: Summary) -> HypothesisTest:
    """Test a model against one with more columns by their losses (Koenker and Machado 1999).

    ``2 (V_restricted - V_full) / (tau (1 - tau) s)`` is compared with chi-squared. The test presumes iid errors: s is
    the sparsity of the full model, whose summary needs ``se="iid"``.

    Parameters
    ----------
    restricted : Summary
        Summary of the model with fewer columns, fitted to the same rows.
    full : Summary
        Summary of the model with all columns.

    Returns
    -------
    HypothesisTest

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import LADRegressor, likelihood_ratio_test
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> y = X[:, 0] + X[:, 1] + rng.normal(size=500)
    >>> small = LADRegressor().fit(X[:, :1], y).summary(X[:, :1], y, se="iid")
    >>> large = LADRegressor().fit(X, y).summary(X, y, se="iid")
    >>> test = likelihood_ratio_test(small, large)  # does the second column matter?
    >>> test.df, bool(test.p_value < 1e-6)
    (1, True)
    """
    if full.se != "iid" or full.sparsity is None:
        raise ValueError('likelihood_ratio_test presumes iid errors: make the summary of the full model with se="iid".')
    if full.n != restricted.n or full.quantile != restricted.quantile:
        raise ValueError("likelihood_ratio_test compares models of the same rows at the same quantile.")
    extra = [name for name in full.names if name not in restricted.names]
    if not set(restricted.names) < set(full.names):
        raise ValueError("The columns of the restricted model must be some, not all, of those of the full model.")
    tau = full.quantile
    # Losses are known up to the tolerance of the fits, so their difference may have the wrong sign.
    statistic = max(2 * (restricted.loss - full.loss) / (tau * (1 - tau) * full.sparsity), 0.0)
    p_value = float(stats.chi2.sf(statistic, len(extra)))
    return HypothesisTest(f"Likelihood ratio test of {listed(extra)}", statistic, len(extra), None, p_value)
