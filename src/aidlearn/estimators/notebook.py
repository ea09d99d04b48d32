"""What a notebook shows of a fitted estimator above its parameters: the certificate, in words."""

from __future__ import annotations

from html import escape
from typing import Any

from aidlearn.engine.result import Status
from aidlearn.estimators.certificate import certificate, percent
from aidlearn.estimators.fits import Fit, fits_of

MOST = 5
"""Fits that have a line of their own."""
GOOD = (Status.optimal, Status.gap, Status.certified)
BOX = "border-left: 4px solid {colour}; padding: 0.4em 0.9em; margin: 0.3em 0 0.6em; max-width: 52em; line-height: 1.45"
"""Text in the colour of the notebook, so that it is right in light and dark."""


def certificate_html(model: Any) -> str:
    """The certificate of a fitted estimator, or nothing."""
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
    """The worst of several fits, and then one after the other."""
    worst = max(fits, key=lambda fit: fit.gap)
    lines = [f"{fit.name}: gap {percent(fit.gap)}, {fit.status}" for fit in fits[:MOST]]
    left = [f"and {len(fits) - MOST} more"] if len(fits) > MOST else []
    return [f"The largest gap of {len(fits)} fits is {percent(worst.gap)} ({worst.name}).", *lines, *left]
