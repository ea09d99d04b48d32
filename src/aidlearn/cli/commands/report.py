"""``aidlearn report MODEL -o report.html``: a page about a model."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from aidlearn.cli.errors import reported
from aidlearn.cli.models import open_model
from aidlearn.cli.options import Debug, Quiet
from aidlearn.cli.outputs import check_output


@reported
def report(
    model: Annotated[str, typer.Argument(metavar="MODEL", show_default=False, help="A model file.")],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="HTML", show_default=False, help="File of the page; overwritten.")
    ],
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a page about a model: certificate, convergence, coefficients."""
    check_output(output, "report", (".html", ".htm"), [model])
    fitted = open_model(model)
    from aidlearn.report import write_report

    write_report(fitted, os.path.realpath(output))
    if not quiet:
        sys.stdout.write(f"{output} written\n")
