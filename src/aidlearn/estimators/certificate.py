"""What a fit has proven, in plain words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext

from aidlearn.engine.result import Status
from aidlearn.estimators.fits import Fit

CLOSE = 0.01
"""Gap up to which a fit is called close to the best possible."""


@dataclass(frozen=True)
class Words:
    """How sentences speak of what a fit has chosen."""

    what: str
    one: str
    has: str
    is_: str
    it: str


COEFFICIENTS = Words("coefficients", "the ones", "have", "are", "they")
MACHINE = Words("machine", "the one", "has", "is", "it")


def certificate(fit: Fit) -> list[str]:
    """Sentences about a fit, the claim first."""
    words = MACHINE if fit.coef is None else COEFFICIENTS
    reached, bound = precise(fit.objective, fit.lower_bound)
    returned = f"the {words.what} returned {words.has} the objective {reached}".capitalize()
    if not math.isfinite(fit.lower_bound):
        return [f"{returned}; no lower bound was proven.", fit.status.sentence]
    if fit.objective == 0:
        return [f"{returned}, and no objective is below 0: no {words.what} can be better."]
    floor = f"No {words.what} can have an objective below {bound}"
    if fit.status is Status.one_region:
        return [
            f"{returned}: a local optimum, which no small change improves. It is not proven to be the global one: "
            f"{_lower_case(floor)}, which is {percent(fit.gap)} lower."
        ]
    claim = f"{floor}; {words.one} returned {words.has} {reached}"
    if fit.status is Status.optimal:
        rest = f" (up to rounding, {percent(fit.gap)})" if fit.gap > 0 else ""
        return [f"{claim}: {words.it} {words.is_} optimal{rest}.", fit.status.sentence]
    if fit.gap <= CLOSE:
        # (E - F) / F, which is a little more than the gap (E - F) / E.
        excess = percent(fit.gap / (1 - fit.gap))
        return [f"{claim}, so {words.it} {words.is_} within {excess} of the best possible.", fit.status.sentence]
    return [f"{claim}: the best possible may be up to {percent(fit.gap)} lower.", fit.status.sentence]


def _lower_case(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]


def percent(part: float) -> str:
    """A part as a percentage with two digits, rounded up so that what is claimed holds."""
    if not math.isfinite(part):
        return "an unknown part"
    if part <= 0:
        return "0 %"
    value = 100 * part
    # A hair is taken off, or 0.3 would become 0.31 where its binary digits end above it.
    digits = 1 - math.floor(math.log10(value))
    rounded = math.ceil(value * 10.0**digits * (1 - 1e-9)) / 10.0**digits
    if digits > 7:
        return f"{rounded:.1e} %"
    return f"{rounded:.{max(digits, 0)}f} %"


def precise(objective: float, lower_bound: float) -> tuple[str, str]:
    """Both with as many digits as it takes to tell them apart, six at least.

    The objective is rounded up and the bound down, so that what is claimed of them holds.
    """
    if objective == lower_bound or not (math.isfinite(objective) and math.isfinite(lower_bound)):
        return _grouped(Decimal(f"{objective:.9g}")), _grouped(Decimal(f"{lower_bound:.9g}"))
    size = max(abs(objective), abs(lower_bound))
    digits = math.ceil(math.log10(size / abs(objective - lower_bound))) + 2
    place = Decimal(1).scaleb(math.floor(math.log10(size)) + 1 - min(max(digits, 6), 17))
    with localcontext() as context:
        context.prec = 60
        up = Decimal(repr(float(objective))).quantize(place, ROUND_CEILING)
        down = Decimal(repr(float(lower_bound))).quantize(place, ROUND_FLOOR)
    return _grouped(up), _grouped(down)


def _grouped(value: Decimal) -> str:
    """With separators between thousands, or as a power of ten where that is shorter."""
    if not value.is_finite():
        return str(value).lower()
    if value and not -5 <= value.adjusted() < 12:
        return f"{value:e}".replace("e+", "e")
    text = f"{value:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
