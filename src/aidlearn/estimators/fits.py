"""The fits inside an estimator, and their certificates in plain words.

An estimator has one fit, or one for each quantile, class against the rest or pair of classes.

Plots, reports and notebooks read estimators through this module only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from html import escape
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from aidlearn.engine.result import Iteration, StartStep, Status
from aidlearn.estimators.registry import model_of
from aidlearn.numerics import Float, Int
from aidlearn.trace import Frame

CLOSE = 0.01
"""Largest gap at which a fit is called close to the best possible."""
MOST = 5
"""Maximum number of fits that have a line of their own in a notebook."""
GOOD = (Status.optimal, Status.gap, Status.certified)
BOX = "border-left: 4px solid {colour}; padding: 0.4em 0.9em; margin: 0.3em 0 0.6em; max-width: 52em; line-height: 1.45"
"""Style of the certificate in a notebook; the text keeps the notebook's colour, which suits light and dark themes."""


@dataclass(frozen=True)
class Fit:
    """One certified fit."""

    name: str
    """Name of the fit among several; empty if it is the only one."""
    objective: float
    lower_bound: float
    gap: float
    status: Status
    n_clusters: int
    aggregation_rate: float
    history: list[Iteration]
    coef: Float | None
    """Slopes; None if the model is not linear in the features."""
    intercept: float
    cluster_sizes: Int | None
    cluster_distances: Float | None
    """Distances of the final clusters (or of a sample) from their kinks; None in a model saved by an older version."""
    frames: list[Frame]
    """Pictures of the iterations, for data that can be drawn in a plane."""
    start: list[StartStep] = field(default_factory=list)
    """Points evaluated before the first iteration; empty in a model saved by an older version."""

    @property
    def steps_on_all(self) -> list[StartStep]:
        """Points that the start evaluated on all rows."""
        return [step for step in self.start if step.n_rows == self.start[-1].n_rows]

    @property
    def steps_on_samples(self) -> list[StartStep]:
        """Points that the start evaluated on samples."""
        return [step for step in self.start if step.n_rows < self.start[-1].n_rows]


def fits_of(model: Any) -> list[Fit]:
    """Return the fits of a fitted aidlearn estimator."""
    check_is_fitted(model)
    if not hasattr(model, "history_"):
        raise TypeError(f"{type(model).__name__} is not an aidlearn estimator: it has no history_.")
    several = isinstance(model.status_, list)
    names = _names(model, len(model.status_)) if several else [""]
    coef = getattr(model, "coef_", None)
    slopes = [None] * len(names) if coef is None else np.atleast_2d(coef)
    intercepts = np.atleast_1d(model.intercept_)

    def of(attribute: str, k: int, *default: Any) -> Any:
        if default and not hasattr(model, attribute):
            return default[0]
        value = getattr(model, attribute)
        return value[k] if several else value

    return [
        Fit(
            name=name,
            objective=float(of("objective_", k)),
            lower_bound=float(of("lower_bound_", k)),
            gap=float(of("gap_", k)),
            status=of("status_", k),
            n_clusters=int(of("n_clusters_", k)),
            aggregation_rate=float(of("aggregation_rate_", k)),
            history=of("history_", k),
            start=of("start_", k, []),
            coef=slopes[k],
            intercept=float(intercepts[k]),
            cluster_sizes=of("cluster_sizes_", k, None),
            cluster_distances=of("cluster_distances_", k, None),
            frames=of("frames_", k, []),
        )
        for k, name in enumerate(names)
    ]


def _names(model: Any, n: int) -> list[str]:
    """Return the declared names of the ``n`` fits, or numbers if parameters were changed after the fit."""
    declared = model_of(model)
    names = declared.fit_names(model, getattr(model, "classes_", ())) if declared else []
    return names if len(names) == n else [f"fit {k + 1}" for k in range(n)]


def feature_names(model: Any) -> list[str]:
    """Return the names of the columns behind the coefficients; unnamed columns are x0, x1 and so on."""
    return list(model.coefficient_names_)


def by_size(model: Any, sizes: Float) -> list[int]:
    """Order the coefficients by size, the largest first; levels of a factor stay together, placed by the largest."""
    order = [int(k) for k in np.argsort(-np.asarray(sizes), kind="stable")]
    recipe = getattr(model, "recipe_", None)
    if recipe is None:
        return order
    groups: dict[int, list[int]] = {}
    for k in order:
        groups.setdefault(recipe.input_of(k), []).append(k)
    return [k for group in groups.values() for k in group]


def factor_words(model: Any) -> str:
    """List the factors of a model with their numbers of levels, as in "origin: 229 levels"; empty without factors."""
    recipe = getattr(model, "recipe_", None)
    if recipe is None:
        return ""
    return ", ".join(f"{factor.name}: {len(factor.levels or ()):,} levels" for factor in recipe.factors)


# The certificate in words


@dataclass(frozen=True)
class Words:
    """Words for fitted coefficients, or for a fitted machine, in sentences."""

    what: str
    one: str
    has: str
    is_: str
    it: str


COEFFICIENTS = Words("coefficients", "the ones", "have", "are", "they")
MACHINE = Words("machine", "the one", "has", "is", "it")


def certificate(fit: Fit) -> list[str]:
    """Return sentences about a fit, the claim first."""
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
    """Format a fraction as a percentage with two digits, rounded up so that the claim holds."""
    if not math.isfinite(part):
        return "an unknown part"
    if part <= 0:
        return "0 %"
    value = 100 * part
    # Without the factor, 0.3 would become 0.31 if its binary value lies above it.
    digits = 1 - math.floor(math.log10(value))
    rounded = math.ceil(value * 10.0**digits * (1 - 1e-9)) / 10.0**digits
    if digits > 7:
        return f"{rounded:.1e} %"
    return f"{rounded:.{max(digits, 0)}f} %"


def precise(objective: float, lower_bound: float) -> tuple[str, str]:
    """Format both with enough digits to distinguish them, at least six.

    The objective is rounded up and the bound down, so that claims about them hold.
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
    """Format a number with thousands separators, or with an exponent if it is very small or large."""
    if not value.is_finite():
        return str(value).lower()
    if value and not -5 <= value.adjusted() < 12:
        return f"{value:e}".replace("e+", "e")
    text = f"{value:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def certificate_html(model: Any) -> str:
    """Return the certificate of a fitted estimator as HTML; empty before a fit."""
    if not hasattr(model, "history_"):
        return ""
    fits = fits_of(model)
    good = all(fit.status in GOOD for fit in fits)
    sentences = certificate(fits[0]) if len(fits) == 1 else _of_several(fits)
    first, *rest = (escape(sentence) for sentence in sentences)
    more = "".join(f"<div style='opacity: 0.75'>{sentence}</div>" for sentence in rest)
    box = BOX.format(colour="#009e73" if good else "#d55e00")
    return f"<div style='{box}'><div><b>{first}</b></div>{more}</div>"


def _of_several(fits: list[Fit]) -> list[str]:
    """Return sentences about several fits: the largest gap, then a line for each fit."""
    worst = max(fits, key=lambda fit: fit.gap)
    lines = [f"{fit.name}: gap {percent(fit.gap)}, {fit.status}" for fit in fits[:MOST]]
    left = [f"and {len(fits) - MOST} more"] if len(fits) > MOST else []
    return [f"The largest gap of {len(fits)} fits is {percent(worst.gap)} ({worst.name}).", *lines, *left]
