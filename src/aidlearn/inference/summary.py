"""The summary of a quantile regression: coefficients, standard errors, tests and intervals as one table."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from html import escape
from importlib import import_module
from itertools import zip_longest
from typing import Any

import numpy as np
from scipy import stats

from aidlearn.inference.hypotheses import HypothesisTest, listed, places_of, wald
from aidlearn.numerics import Float

METHODS = ("iid", "nid", "kernel", "cluster", "bootstrap", "rank")
"""Methods of standard errors: four densities (see :mod:`aidlearn.inference.covariance`), bootstrap and rank test."""
CELLS = {
    "coefficients": "{:.6g}",
    "standard_errors": "{:.4g}",
    "statistics": "{:.3f}",
    "p_values": "{:.3f}",
    "lower": "{:.6g}",
    "upper": "{:.6g}",
}
"""Columns of the table and the formats of their numbers."""


@dataclass(frozen=True)
class Summary:
    """Coefficients of a quantile regression with standard errors, tests and confidence intervals.

    The method ``summary`` of :class:`~aidlearn.LADRegressor` and :class:`~aidlearn.QuantileRegressor` returns it. It
    prints as a table; notebooks show it as HTML.

    Attributes
    ----------
    names : list of str
        Names of the coefficients; the intercept is the first, "(intercept)".
    coefficients, standard_errors, statistics, p_values, lower, upper : ndarray
        The statistics are t values (for ``se="rank"`` the rank test of a coefficient of 0); the intervals have the
        confidence level ``1 - alpha``.
    covariance : ndarray or None
        Covariance of the coefficients (None for ``se="rank"``).
    quantile : float
    se : str
    n : int
        Number of rows with a positive weight.
    df : int
        Degrees of freedom of the t distribution: rows less coefficients, or clusters less 1.
    pseudo_r2 : float
        Koenker and Machado's goodness of fit: 1 less the loss over that of an intercept alone.
    sparsity, bandwidth : float or None
        Reciprocal of the (mean) density of the residuals at 0, and the bandwidth of its estimate.
    objective, lower_bound, gap, status
        The certificate of the fit.
    tests : list of HypothesisTest
        For each factor, a Wald test of the hypothesis that its levels do not differ.
    notes : list of str
        Remarks on how reliable the numbers are.

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import LADRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> y = X @ [1.0, 0.0] + 3 + rng.standard_t(3, size=2000)
    >>> summary = LADRegressor(tol=1e-8).fit(X, y).summary(X, y)
    >>> summary.names
    ['(intercept)', 'x0', 'x1']
    >>> bool(summary.p_values[1] < 1e-6), bool(summary.lower[2] < 0 < summary.upper[2])
    (True, True)
    """

    names: list[str]
    coefficients: Float
    standard_errors: Float
    statistics: Float
    p_values: Float
    lower: Float
    upper: Float
    covariance: Float | None
    quantile: float
    se: str
    alpha: float
    n: int
    df: int
    loss: float
    """Sum of the weighted check function at the coefficients."""
    null_loss: float
    """Sum of the weighted check function for an intercept alone."""
    sparsity: float | None = None
    bandwidth: float | None = None
    bread: Float | None = None
    """``H^-1`` of the sandwich."""
    gram: Float | None = None
    """``sum w_i^2 x_i x_i'``."""
    replicates: Float | None = None
    """Coefficients of bootstrap replicates."""
    n_clusters: int | None = None
    model: str = ""
    target: str = "y"
    objective: float = float("nan")
    lower_bound: float = float("nan")
    gap: float = float("nan")
    status: str = ""
    tests: list[HypothesisTest] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of_covariance(
        cls,
        covariance: Float,
        *,
        coefficients: Float,
        df: int,
        alpha: float,
        restrictions: Mapping[str, Float],
        **others: Any,
    ) -> Summary:
        """Compute tests and intervals by the t distribution, and joint tests of the named ``restrictions R b = 0``."""
        tests = []
        for name, R in restrictions.items():
            with suppress(ValueError):  # rounding may make the covariance singular
                tests.append(wald(name, R @ coefficients, R @ covariance @ R.T, df))
        errors = np.sqrt(covariance.diagonal())
        with np.errstate(divide="ignore"):
            statistics = coefficients / errors
        reach = stats.t.ppf(1 - alpha / 2, df) * errors
        return cls(
            coefficients=coefficients,
            standard_errors=errors,
            statistics=statistics,
            p_values=2 * stats.t.sf(np.abs(statistics), df),
            lower=coefficients - reach,
            upper=coefficients + reach,
            covariance=covariance,
            df=df,
            alpha=alpha,
            tests=tests,
            **others,
        )

    @property
    def pseudo_r2(self) -> float:
        """Koenker and Machado's goodness of fit."""
        return 1 - self.loss / self.null_loss if self.null_loss > 0 else float("nan")

    # Tests

    def wald_test(self, hypothesis: Any, value: Any = 0.0) -> HypothesisTest:
        """Test linear restrictions on the coefficients.

        Parameters
        ----------
        hypothesis : sequence of names, or array of shape (n_restrictions, n_coefficients)
            Names of coefficients that are tested jointly, or the matrix R of ``R b = value``.
        value : float or array, default=0
            Right-hand side of the restrictions.

        Returns
        -------
        HypothesisTest
        """
        if self.covariance is None:
            raise ValueError(f"A Wald test needs a covariance, which se={self.se!r} does not provide.")
        R, called = self._restrictions(hypothesis)
        rest = R @ self.coefficients - np.asarray(value, dtype=np.float64)
        return wald(f"Wald test of {called}", rest, R @ self.covariance @ R.T, self.df)

    def _restrictions(self, hypothesis: Any) -> tuple[Float, str]:
        chosen = [hypothesis] if isinstance(hypothesis, str) else hypothesis
        if len(chosen) and all(isinstance(item, str) for item in chosen):
            return np.eye(len(self.names))[places_of(chosen, self.names)], listed(chosen)
        R = np.atleast_2d(np.asarray(hypothesis, dtype=np.float64))
        if R.ndim != 2 or R.shape[1] != len(self.names):
            raise ValueError(f"hypothesis needs one column for each of {len(self.names)} coefficients, got {R.shape}.")
        return R, f"{len(R)} restriction{'s' if len(R) > 1 else ''}"

    # Tables

    def _table(self) -> list[list[str]]:
        """Return the cells of all rows, including the header and the names."""
        head = ["", "coef", "std err", "t", "P>|t|", f"[{self.alpha / 2:.3g}", f"{1 - self.alpha / 2:.3g}]"]
        columns = ([form.format(v) for v in getattr(self, name)] for name, form in CELLS.items())
        return [head, *(list(row) for row in zip(self.names, *columns, strict=True))]

    def _facts(self) -> list[tuple[str, str]]:
        facts = [
            ("Model", self.model),
            ("Target", self.target),
            ("Quantile", f"{self.quantile:g}"),
            ("Standard errors", self.se),
            ("Pseudo R-squared", f"{self.pseudo_r2:.4g}"),
            ("Observations", f"{self.n:,}"),
            ("Df of t", f"{self.df:,}"),
            ("Gap", f"{self.gap:.1e} ({self.status})" if self.status else f"{self.gap:.1e}"),
        ]
        estimated = [("Sparsity", self.sparsity, ".5g"), ("Bandwidth", self.bandwidth, ".5g")]
        estimated.append(("Clusters", self.n_clusters, ","))
        return facts + [(name, format(value, form)) for name, value, form in estimated if value is not None]

    def __str__(self) -> str:
        table, facts = self._table(), self._facts()
        first, *widths = (max(map(len, column)) for column in zip(*table, strict=True))
        first, widths = max(12, first), [max(8, width) + 2 for width in widths]
        total = first + sum(widths)
        head, *rows = [
            name.ljust(first) + "".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
            for name, *cells in table
        ]
        half = (len(facts) + 1) // 2
        left = max((total - 2) // 2, *(len(name) + len(value) + 2 for name, value in facts[:half]))
        right = total - left - 2
        lefts = [name + value.rjust(left - len(name)) for name, value in facts[:half]]
        rights = [f"  {name}" + value.rjust(max(right - len(name), len(value) + 1)) for name, value in facts[half:]]
        rule = "=" * total
        lines = [f"{self.model}, quantile {self.quantile:g}".center(total).rstrip(), rule]
        lines += [one + other for one, other in zip_longest(lefts, rights, fillvalue="")]
        lines += [rule, head, "-" * total, *rows, rule]
        if self.tests:
            lines += ["Joint tests of factors", *(f"  {test}" for test in self.tests), rule]
        return "\n".join([*lines, *(f"Note: {note}" for note in self.notes)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self) -> str:
        """Return the table as HTML."""
        head, *rows = self._table()
        facts = "".join(f"<tr><th>{escape(n)}</th><td>{escape(v)}</td></tr>" for n, v in self._facts())
        top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
        body = "".join(
            f"<tr><th>{escape(name)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
            for name, *cells in rows
        )
        notes = "".join(f"<p>Note: {escape(note)}</p>" for note in self.notes)
        tests = "".join(f"<li>{escape(str(test))}</li>" for test in self.tests)
        joint = f"<p>Joint tests of factors</p><ul>{tests}</ul>" if tests else ""
        return f"<table>{facts}</table><table><tr>{top}</tr>{body}</table>{joint}{notes}"

    def to_markdown(self) -> str:
        """Return the table of coefficients in Markdown."""
        head, *rows = [f"| {' | '.join(cells)} |" for cells in self._table()]
        return "\n".join([head.replace("P>|t|", r"P>\|t\|"), "|---|" + "---:|" * len(CELLS), *rows])

    def to_latex(self) -> str:
        """Return the table of coefficients in LaTeX (booktabs)."""
        head, *rows = [" & ".join([_latex(name), *cells]) + r" \\" for name, *cells in self._table()]
        head = head.replace("P>|t|", "$P>|t|$")
        begin = rf"\begin{{tabular}}{{l{'r' * len(CELLS)}}}"
        return "\n".join([begin, r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"])

    def to_frame(self) -> Any:
        """Return the table of coefficients as a pandas DataFrame."""
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install pandas.") from None
        return pandas.DataFrame({name: getattr(self, name) for name in CELLS}, index=self.names)

    # JSON

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as numbers, strings and lists, for JSON; :meth:`from_dict` reads them."""
        return {key: v.tolist() if isinstance(v, np.ndarray) else v for key, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Summary:
        """Build a summary from the result of :meth:`to_dict`."""
        values = {item.name: content[item.name] for item in fields(cls) if item.name in content}
        lists = {key for key, value in values.items() if isinstance(value, list)} - {"names", "notes", "tests"}
        values |= {key: np.array(values[key]) for key in lists}
        return cls(**values | {"tests": [HypothesisTest(**test) for test in content.get("tests", [])]})


LATEX = str.maketrans(
    {character: rf"\{character}" for character in "_&%#${}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)
"""Escapes of the characters that have a meaning in LaTeX."""


def _latex(text: str) -> str:
    return text.translate(LATEX)
