"""The summary of a quantile regression: coefficients, standard errors, tests and intervals as one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from html import escape
from importlib import import_module
from typing import Any

import numpy as np
from scipy import stats

from aidlearn.inference.hypotheses import HypothesisTest, wald
from aidlearn.numerics import Float

METHODS = {
    "iid": "iid errors, one sparsity (Koenker and Bassett)",
    "nid": "not iid, sandwich (Hendricks and Koenker)",
    "kernel": "kernel sandwich (Powell)",
    "cluster": "cluster-robust sandwich (Parente and Santos Silva)",
    "bootstrap": "bootstrap with exponential weights",
    "rank": "inverted rank test (Koenker)",
}


@dataclass(frozen=True)
class FactorColumns:
    """The places of a factor's levels among the coefficients."""

    name: str
    places: list[int]
    has_reference: bool
    """Whether the levels are compared with one that has no coefficient."""

    def test(self, coefficients: Float, covariance: Float, df: float) -> HypothesisTest | None:
        """Test that the levels do not differ; None for a single level, or if rounding leaves no covariance."""
        R = np.eye(len(coefficients))[self.places]
        if not self.has_reference:
            R = R[1:] - R[0]
        if not len(R):
            return None
        try:
            return wald(f"{self.name} ({len(R) + 1} levels)", R @ coefficients, R @ covariance @ R.T, df)
        except ValueError:
            return None


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
        confidence ``1 - alpha``.
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
        1 over the (mean) density of the residuals at 0, and the bandwidth of its estimate.
    objective, lower_bound, gap, status
        The certificate of the fit.
    tests : list of HypothesisTest
        A Wald test for each factor that its levels do not differ.
    notes : list of str
        Remarks on how far the numbers can be trusted.

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
        factors: Sequence[FactorColumns] = (),
        **others: Any,
    ) -> Summary:
        """Compute tests and intervals by the t distribution, and a joint test of each factor."""
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
            tests=[test for factor in factors if (test := factor.test(coefficients, covariance, df)) is not None],
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
        listed = [hypothesis] if isinstance(hypothesis, str) else hypothesis
        if len(listed) and all(isinstance(item, str) for item in listed):
            unknown = [name for name in listed if name not in self.names]
            if unknown:
                raise ValueError(f"There is no coefficient {unknown[0]!r}; they are {', '.join(self.names[:12])}.")
            R = np.zeros((len(listed), len(self.names)))
            R[np.arange(len(listed)), [self.names.index(name) for name in listed]] = 1.0
            return R, ", ".join(listed) if len(listed) <= 4 else f"{len(listed)} coefficients"
        R = np.atleast_2d(np.asarray(hypothesis, dtype=np.float64))
        if R.ndim != 2 or R.shape[1] != len(self.names):
            raise ValueError(f"hypothesis needs one column for each of {len(self.names)} coefficients, got {R.shape}.")
        return R, f"{len(R)} restriction{'s' if len(R) > 1 else ''}"

    # Tables

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        head = ["coef", "std err", "t", "P>|t|", f"[{self.alpha / 2:.3g}", f"{1 - self.alpha / 2:.3g}]"]
        columns = (self.coefficients, self.standard_errors, self.statistics, self.p_values, self.lower, self.upper)
        shapes = ("{:.6g}", "{:.4g}", "{:.3f}", "{:.3f}", "{:.6g}", "{:.6g}")
        rows = [[shape.format(v) for shape, v in zip(shapes, row, strict=True)] for row in zip(*columns, strict=True)]
        return head, rows

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
        if self.sparsity is not None:
            facts.append(("Sparsity", f"{self.sparsity:.5g}"))
        if self.bandwidth is not None:
            facts.append(("Bandwidth", f"{self.bandwidth:.5g}"))
        if self.n_clusters is not None:
            facts.append(("Clusters", f"{self.n_clusters:,}"))
        return facts

    def __str__(self) -> str:
        head, rows = self._cells()
        first = max(12, *(len(name) for name in self.names))
        widths = [max(8, *(len(row[k]) for row in [head, *rows])) + 2 for k in range(len(head))]
        total = first + sum(widths)
        lines = [f"{self.model}, quantile {self.quantile:g}".center(total).rstrip(), "=" * total]
        facts = self._facts()
        half = (len(facts) + 1) // 2
        left = max((total - 2) // 2, *(len(name) + len(value) + 2 for name, value in facts[:half]))
        for k in range(half):
            name, value = facts[k]
            line = f"{name}{value:>{left - len(name)}}"
            if half + k < len(facts):
                name, value = facts[half + k]
                line += f"  {name}{value:>{max(total - left - 2 - len(name), len(value) + 1)}}"
            lines.append(line)
        lines += [
            "=" * total,
            " " * first + "".join(f"{h:>{w}}" for h, w in zip(head, widths, strict=True)),
            "-" * total,
        ]
        for name, row in zip(self.names, rows, strict=True):
            lines.append(f"{name:<{first}}" + "".join(f"{c:>{w}}" for c, w in zip(row, widths, strict=True)))
        lines.append("=" * total)
        if self.tests:
            lines += ["Joint tests of factors", *(f"  {test}" for test in self.tests), "=" * total]
        lines += [f"Note: {note}" for note in self.notes]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self) -> str:
        """Return the table as HTML."""
        head, rows = self._cells()
        facts = "".join(f"<tr><th>{escape(n)}</th><td>{escape(v)}</td></tr>" for n, v in self._facts())
        top = "".join(f"<th>{escape(cell)}</th>" for cell in ["", *head])
        body = "".join(
            f"<tr><th>{escape(name)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
            for name, row in zip(self.names, rows, strict=True)
        )
        notes = "".join(f"<p>Note: {escape(note)}</p>" for note in self.notes)
        tests = "".join(f"<li>{escape(str(test))}</li>" for test in self.tests)
        joint = f"<p>Joint tests of factors</p><ul>{tests}</ul>" if tests else ""
        return f"<table>{facts}</table><table><tr>{top}</tr>{body}</table>{joint}{notes}"

    def to_markdown(self) -> str:
        """Return the table of coefficients in Markdown."""
        head, rows = self._cells()
        lines = ["| " + " | ".join(["", *head]).replace("P>|t|", r"P>\|t\|") + " |", "|---|" + "---:|" * len(head)]
        lines += [f"| {name} | " + " | ".join(row) + " |" for name, row in zip(self.names, rows, strict=True)]
        return "\n".join(lines)

    def to_latex(self) -> str:
        """Return the table of coefficients in LaTeX (booktabs)."""
        head, rows = self._cells()
        head[3] = "$P>|t|$"
        columns = "r" * len(head)
        lines = [rf"\begin{{tabular}}{{l{columns}}}", r"\toprule", " & ".join(["", *head]) + r" \\", r"\midrule"]
        lines += [" & ".join([_latex(name), *row]) + r" \\" for name, row in zip(self.names, rows, strict=True)]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])

    def to_frame(self) -> Any:
        """Return the table of coefficients as a pandas DataFrame."""
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install pandas.") from None
        columns = ("coefficients", "standard_errors", "statistics", "p_values", "lower", "upper")
        return pandas.DataFrame({name: getattr(self, name) for name in columns}, index=self.names)

    # JSON

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as numbers, texts and lists, for JSON; :meth:`from_dict` reads them."""
        return {key: v.tolist() if isinstance(v, np.ndarray) else v for key, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Summary:
        """Build a summary from the result of :meth:`to_dict`."""
        values = {item.name: content[item.name] for item in fields(cls) if item.name in content}
        lists = {key for key, value in values.items() if isinstance(value, list)} - {"names", "notes", "tests"}
        values |= {key: np.array(values[key]) for key in lists}
        return cls(**values | {"tests": [HypothesisTest(**test) for test in content.get("tests", [])]})


def _latex(text: str) -> str:
    for character in "\\_&%#${}":
        text = text.replace(character, rf"\{character}" if character != "\\" else r"\textbackslash ")
    return text
