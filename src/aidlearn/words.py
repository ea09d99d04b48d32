"""Numbers as text: counts, durations, percentages, and bounds next to objectives."""

from __future__ import annotations

import math
from collections.abc import Sequence

DIGITS = 11
"""Maximum significant digits of a bound or an objective."""


def count(number: float) -> str:
    return f"{int(number):,}"


def short_count(number: float) -> str:
    """Format a rounded count, such as 1.21M, 35.2k or 812."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.0f}"


def duration(seconds: float) -> str:
    """Format a duration, such as 0.83 s, 12.4 s, 3:07 or 1:02:33."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return clock(seconds)


def clock(seconds: float) -> str:
    """Format a duration in whole seconds, such as 0:07, 3:07 or 1:02:33."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def percent(part: float) -> str:
    """Format a fraction as a percentage, such as 0.012%, 3.4% or 57%."""
    return f"{100 * part:.0f}%" if part >= 0.0995 else f"{100 * part:.2g}%"


def gap_text(gap: float) -> str:
    if not math.isfinite(gap):
        return "unknown"
    return "0" if gap == 0 else f"{gap:.1e}"


def enclosing(low: float, high: float) -> tuple[str, str]:
    """Format a bound and an objective with just enough digits to distinguish them."""
    return enclosing_all([(low, high)])[0]


def enclosing_all(pairs: Sequence[tuple[float, float]]) -> list[tuple[str, str]]:
    """Format several pairs of bound and objective, with the decimals of the pair that needs most."""
    finite = [pair for pair in pairs if all(map(math.isfinite, pair))]
    size = max((abs(end) for pair in finite for end in pair), default=0.0)
    if size and not 1e-3 <= size < 1e12:
        return [(_plain(low, "{:.10g}"), _plain(high, "{:.10g}")) for low, high in pairs]
    most = max(0, DIGITS - 1 - (math.floor(math.log10(size)) if size else 0))
    needed = max((_decimals(low, high, most) for low, high in finite), default=0)
    form = f"{{:,.{min(max(needed, 2), most)}f}}"
    return [(_plain(low, form), _plain(high, form)) for low, high in pairs]


def _decimals(low: float, high: float, most: int) -> int:
    """Return the number of decimals needed to show the difference."""
    return most if low == high else 1 - math.floor(math.log10(abs(high - low)))


def _plain(number: float, form: str) -> str:
    return form.format(number) if math.isfinite(number) else "unknown"


def aligned(numbers: Sequence[float], digits: int = 6) -> list[str]:
    """Format the numbers of a column with equal decimals, such that the largest has ``digits`` digits."""
    size = max((abs(number) for number in numbers if math.isfinite(number)), default=0.0)
    if size and not 1e-4 <= size < 1e9:
        return [f"{number:.{digits - 1}e}" for number in numbers]
    decimals = max(0, digits - 1 - (math.floor(math.log10(size)) if size else 0))
    return [_plain(number, f"{{:z,.{decimals}f}}") for number in numbers]
