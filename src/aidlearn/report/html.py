"""Pieces of HTML that sections share, and how much a report shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class ReportSettings:
    """Largest numbers of items in the sections of a report. All are guesses of what a reader wants to see."""

    coefficients: int = 30
    """Coefficients listed by size."""
    iterations: int = 200
    """Iterations listed; of more, the first and the last half of this number."""
    clusters: int = 700
    """Clusters in the plot of sizes."""
    bands: int = 8
    """Charts over quantiles: the intercept and the coefficients with the largest statistics."""
    intervals: int = 40
    """Confidence intervals drawn, those with the largest statistics."""


SETTINGS = ReportSettings()


def card(title: str, *parts: str) -> str:
    """A section with a heading."""
    return f'<section class="card"><h3>{escape(title)}</h3>{"".join(parts)}</section>'


def hint(sentence: str) -> str:
    """A remark in small print."""
    return f'<p class="hint">{escape(sentence)}</p>'


def bar(mark: str, fraction: float) -> str:
    """A horizontal bar of a fraction of its column."""
    return f'<span class="bar {mark}" style="width:{100 * fraction:.1f}%"></span>'


def drawn_table(rows: Iterable[tuple[str, str, str]], drawing: str = "") -> str:
    """A table of names, values and drawings (HTML); ``drawing`` is the class of the last column."""
    cell = f'<td class="{drawing}">' if drawing else "<td>"
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td>{cell}{drawn}</td></tr>'
        for name, value, drawn in rows
    )
    return f'<div class="wide"><table class="coefficients"><tbody>{body}</tbody></table></div>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with a header that scrolls sideways."""
    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll" tabindex="0"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
