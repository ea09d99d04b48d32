"""The page of a report."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path
from typing import Any

from aidlearn.fits import fits_of
from aidlearn.report.certificate import certificate


class ReportError(ValueError):
    """A report that cannot be written, and why."""


def write_report(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a report of a fitted model: one HTML file that needs no network.

    Parameters
    ----------
    model : estimator of aidlearn, fitted (also one from :func:`aidlearn.load_model`)
    path : path
        The file is either the old one or the whole new one, whatever happens.
    """
    text = render(model)
    path = Path(path)
    temporary = path.with_name(path.name + ".writing")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ReportError(f"The report {path} cannot be written: {error.strerror or error}.") from None


def render(model: Any) -> str:
    """The report as a text."""
    name = escape(type(model).__name__)
    sections = []
    for fit in fits_of(model):
        words = "".join(f"<p>{escape(sentence)}</p>" for sentence in certificate(fit))
        sections.append(f"<section><h2>{escape(fit.name)}</h2>{words}</section>")
    return f"<!doctype html><html lang=en><meta charset=utf-8><title>{name}</title><h1>{name}</h1>{''.join(sections)}"
