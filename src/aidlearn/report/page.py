"""The page of a report, with its style sheet and script included from the files of this folder."""

from __future__ import annotations

import os
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from aidlearn.archive import whole_file
from aidlearn.estimators.fits import Fit, fits_of
from aidlearn.report import inference, sections
from aidlearn.report.stepper import stepper


class ReportError(ValueError):
    """The report cannot be written; the message says why.

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import LADRegressor
    >>> from aidlearn.report import ReportError, write_report
    >>> model = LADRegressor().fit(np.arange(10.0).reshape(-1, 1), np.arange(10.0))
    >>> try:
    ...     write_report(model, "no/such/folder/report.html")
    ... except ReportError as error:
    ...     found = str(error)
    >>> found.startswith("The report no/such/folder/report.html cannot be written")
    True
    """


def write_report(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a report of a fitted model: one HTML file that needs no network.

    It states the certificate in words and has plots of bounds, gap and clusters, all iterations, coefficients, data and
    parameters and, for data that can be drawn in a plane, the clusters of each iteration.

    Parameters
    ----------
    model : fitted estimator of aidlearn, or one from :func:`aidlearn.load_model`
    path : path
        The file is replaced as a whole: an error leaves the old file unchanged.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from aidlearn import LADRegressor
    >>> from aidlearn.report import write_report
    >>> X = np.arange(100.0).reshape(-1, 1)
    >>> model = LADRegressor().fit(X, X[:, 0] + np.resize([0.0, 1.0, -1.0], 100))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(model, folder + "/report.html")
    ...     page = open(folder + "/report.html", encoding="utf-8").read()
    >>> "No coefficients can have an objective below" in page
    True
    """
    text = render(model)
    try:
        with whole_file(Path(path)) as file:
            file.write(text.encode())
    except OSError as error:
        raise ReportError(f"The report {path} cannot be written: {error.strerror or error}.") from None


def render(model: Any) -> str:
    """Return the report as HTML text."""
    fits = fits_of(model)
    here = files("aidlearn.report")
    return Template(here.joinpath("page.html").read_text(encoding="utf-8")).substitute(
        title=escape(sections.title(model, fits)),
        style=here.joinpath("page.css").read_text(encoding="utf-8"),
        script=here.joinpath("page.js").read_text(encoding="utf-8"),
        heading=escape(type(model).__name__),
        subtitle=escape(sections.subtitle(model, fits)),
        overview=sections.overview(fits) + inference.bands(model),
        tabs=_tabs(fits),
        panels="".join(_panel(model, fits, k) for k in range(len(fits))),
        facts=sections.facts(model, fits),
    )


def _tabs(fits: list[Fit]) -> str:
    if len(fits) == 1:
        return ""
    buttons = "".join(
        f'<button type="button" role="tab" id="tab-{k}" aria-controls="panel-{k}">{escape(fit.name)}</button>'
        for k, fit in enumerate(fits)
    )
    return f'<nav class="tabs" role="tablist" aria-label="Models">{buttons}</nav>'


def _panel(model: Any, fits: list[Fit], number: int) -> str:
    fit = fits[number]
    name = f"<h2>{escape(fit.name)}</h2>" if fit.name else ""
    role = f' role="tabpanel" aria-labelledby="tab-{number}"' if fit.name else ""
    parts = [
        sections.proof(model, fit),
        sections.plots(model, fit),
        stepper(model, fit, number),
        sections.coefficients(model, fit),
        inference.standard_errors(model, number),
        sections.iterations(fit),
    ]
    return f'<section class="panel" id="panel-{number}"{role}>{name}{"".join(parts)}</section>'
