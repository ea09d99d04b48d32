"""``aidlearn demo``: a tour on generated data that takes a minute or two."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from aidlearn.cli.commands import bench, generate
from aidlearn.cli.errors import CliError, reported
from aidlearn.cli.inputs import ColumnOptions, DataFile, open_data
from aidlearn.cli.options import Debug
from aidlearn.cli.run import OutputOptions, fit_and_save, training_facts
from aidlearn.cli.words import console, count, duration

ROWS, COLUMNS = 400_000, 20
FEW_ROWS = 5000
"""Rows that solvers of the whole linear program can handle."""


@reported
def demo(
    out: Annotated[str, typer.Option("--out", help="Folder for the files written; it is created.")] = "aidlearn-demo",
    rows: Annotated[int, typer.Option("--rows", min=1000, help="Rows of the generated files.")] = ROWS,
    debug: Debug = False,
) -> None:
    """Generate data, fit them, compare with scikit-learn, write the reports."""
    started = time.monotonic()
    folder = _folder(out)
    extension = ".parquet" if find_spec("pyarrow") else ".npy"
    for kind, name, tol in (("lad", "LADRegressor", 1e-6), ("svm", "LinearSVC", 1e-4)):
        data, model = folder / f"{kind}{extension}", folder / f"{kind}.aid"
        _heading(f"{kind}: generate {count(rows)} rows x {COLUMNS} columns, fit them, write the report")
        generate.write(generate.Generated(kind, rows, COLUMNS, noise=1.0 if kind == "lad" else 0.5), str(data), False)
        _fit(name, data, tol, model)
    _heading("The same problems against scikit-learn, one thread, on sizes it can handle")
    for kind, few in (("lad", FEW_ROWS), ("svm", 2 * FEW_ROWS)):
        X, y = generate.Generated(kind, few, COLUMNS // 2, noise=1.0 if kind == "lad" else 0.5).arrays()
        console().print(Text(f"{kind}: {count(few)} rows x {COLUMNS // 2} columns", style="dim"))
        settings = {} if kind == "lad" else {"C": 1.0}
        console().print(bench.table(bench.compare(bench.job(kind, X, y, 1e-6, **settings), False, False)))
    _reports(folder)
    _heading(f"Done in {duration(time.monotonic() - started)}")
    screen = console()
    screen.print(f"Reports: {folder / 'lad.html'} and {folder / 'svm.html'}", soft_wrap=True)
    screen.print(f"Next:    aidlearn inspect {folder / 'lad.aid'}", soft_wrap=True)
    screen.print(
        f"         aidlearn predict {folder / 'lad.aid'} {folder / f'lad{extension}'} -o - | head", soft_wrap=True
    )


def _folder(out: str) -> Path:
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CliError(f"--out {out} cannot be created: {error.strerror}.") from None
    return folder


def _heading(text: str) -> None:
    console().print(Text(f"\n{text}", style="bold cyan"))


def _fit(name: str, data: Path, tol: float, model: Path) -> None:
    import aidlearn
    from aidlearn.data.encoding.rules import Rules

    target = "y" if data.suffix == ".parquet" else str(COLUMNS)
    source = open_data(DataFile(data), ColumnOptions(target), Rules(), jobs=-1)
    estimator: Any = getattr(aidlearn, name)(tol=tol, n_jobs=-1)
    title = f"{name} of {data.name}"
    facts = training_facts(source, str(data))
    fit_and_save(estimator, lambda: estimator.fit(source), facts, OutputOptions(str(model)), title, 1)


def _reports(folder: Path) -> None:
    from aidlearn import load_model
    from aidlearn.report import write_report

    for kind in ("lad", "svm"):
        write_report(load_model(folder / f"{kind}.aid"), str(folder / f"{kind}.html"))
