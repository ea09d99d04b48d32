"""``aidlearn demo``: a tour on generated data that takes a minute or two."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from aidlearn.cli.commands import bench, generate
from aidlearn.cli.commands.fit import fit_file
from aidlearn.cli.errors import CliError, reported
from aidlearn.cli.options import Debug
from aidlearn.cli.output import console, shape
from aidlearn.estimators.registry import MODELS
from aidlearn.words import duration

ROWS, COLUMNS = 400_000, 20
FEW_ROWS = 5000
"""Number of rows that solvers of the full linear program can handle."""


@reported
def demo(
    out: Annotated[str, typer.Option("--out", help="Folder for the files written; it is created.")] = "aidlearn-demo",
    rows: Annotated[int, typer.Option("--rows", min=1000, help="Rows of the generated files.")] = ROWS,
    debug: Debug = False,
) -> None:
    """Generate data, fit them, compare with scikit-learn, write the reports."""
    from aidlearn import load_model
    from aidlearn.report import write_report

    started = time.monotonic()
    folder = _folder(out)
    extension, target = (".parquet", "y") if find_spec("pyarrow") else (".npy", str(COLUMNS))
    for kind, name, tol in (("lad", "LADRegressor", 1e-6), ("svm", "LinearSVC", 1e-4)):
        data, model = str(folder / f"{kind}{extension}"), str(folder / f"{kind}.aid")
        _heading(f"{kind}: generate {shape(rows, COLUMNS)}, fit them, write the report")
        generate.write(generate.with_usual_noise(kind, rows, COLUMNS), data, False)
        fit_file(MODELS[name], data=data, target=target, tol=tol, output=model)
        write_report(load_model(model), folder / f"{kind}.html")
    _heading("The same problems against scikit-learn, one thread, on sizes it can handle")
    for kind, few, settings in (("lad", FEW_ROWS, {}), ("svm", 2 * FEW_ROWS, {"C": 1.0})):
        X, y = generate.with_usual_noise(kind, few, COLUMNS // 2).arrays()
        console().print(Text(f"{kind}: {shape(few, COLUMNS // 2)}", style="dim"))
        console().print(bench.table(bench.compare(bench.job(kind, X, y, 1e-6, **settings), False, False)))
    _heading(f"Done in {duration(time.monotonic() - started)}")
    lad = folder / "lad.aid"
    for line in (
        f"Reports: {folder / 'lad.html'} and {folder / 'svm.html'}",
        f"Next:    aidlearn inspect {lad}",
        f"         aidlearn predict {lad} {folder / f'lad{extension}'} -o - | head",
    ):
        console().print(line, soft_wrap=True)


def _folder(out: str) -> Path:
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CliError(f"--out {out} cannot be created: {error.strerror}.") from None
    return folder


def _heading(text: str) -> None:
    console().print(Text(f"\n{text}", style="bold cyan"))
