"""HTML elements that sections share, and limits on what a report shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class ReportSettings:
    """Limits on the items in the sections of a report. All are guesses at what a reader wants to see."""

    coefficients: int = 30
    """Maximum number of coefficients, listed by size."""
    iterations: int = 200
    """Maximum number of iterations listed; longer fits show half this number from each end."""
    clusters: int = 700
    """Maximum number of clusters in the plot of sizes."""
    bands: int = 8
    """Maximum number of charts over quantiles: the intercept and the coefficients with the largest statistics."""
    intervals: int = 40
    """Maximum number of confidence intervals drawn: those with the largest statistics."""


SETTINGS = ReportSettings()


def card(title: str, *parts: str) -> str:
    """Return a section with a heading."""
    return f'<section class="card"><h3>{escape(title)}</h3>{"".join(parts)}</section>'


def hint(sentence: str) -> str:
    """Return a remark in small print."""
    return f'<p class="hint">{escape(sentence)}</p>'


def bar(mark: str, fraction: float) -> str:
    """Return a horizontal bar that fills a fraction of its column."""
    return f'<span class="bar {mark}" style="width:{100 * fraction:.1f}%"></span>'


def drawn_table(rows: Iterable[tuple[str, str, str]], drawing: str = "") -> str:
    """Return a table of names, values and drawings (HTML); ``drawing`` is the class of the last column."""
    cell = f'<td class="{drawing}">' if drawing else "<td>"
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td>{cell}{drawn}</td></tr>'
        for name, value, drawn in rows
    )
    return f'<div class="wide"><table class="coefficients"><tbody>{body}</tbody></table></div>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with a header; it scrolls sideways."""
    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll" tabindex="0"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
