"""``aidlearn bench KIND``: compare with scikit-learn and other installed programs on generated data, in one thread."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from aidlearn.cli.commands.generate import Cols, Rows, with_usual_noise
from aidlearn.cli.errors import CliError
from aidlearn.cli.live import working
from aidlearn.cli.options import PRINTED_OR_JSON, Described, Seed, add_command, group, option
from aidlearn.cli.output import console, number_table, shape, write_json
from aidlearn.estimators.registry import MODELS
from aidlearn.words import aligned, count, gap_text

if TYPE_CHECKING:
    from aidlearn.bench.solvers import Job, Solver

app = group("Compare with scikit-learn on generated data.")

Tol = Annotated[
    float,
    typer.Option("--tol", min=0, help="Certified gap of aidlearn; other programs define their tolerance differently."),
]
All = Annotated[bool, typer.Option("--all", help="Run every program, whatever the number of rows.")]


@dataclass
class Outcome:
    """Result of a program, with its recomputed objective and the gap that the program itself proves."""

    name: str
    cpu: float = math.nan
    wall: float = math.nan
    objective: float = math.nan
    gap: float | None = None
    note: str = ""


def job(kind: str, X: Any, y: Any, tol: float = 1e-4, **settings: float) -> Job:
    """Return the problem that all programs solve."""
    from aidlearn.bench.judge import Data
    from aidlearn.bench.solvers import Job

    return Job(kind, Data(X, y), settings, tol)


def programs(kind: str) -> list[Solver]:
    """Return aidlearn and the installed programs that it is compared with."""
    from aidlearn.bench.peers import solvers

    return [s for s in solvers(kind).values() if s.missing() is None]


def compare(job: Job, everyone: bool, quiet: bool) -> list[Outcome]:
    """Run all programs on the same data, aidlearn first."""
    out = []
    for program in programs(job.problem):
        most = program.command_rows
        if len(job.data.y) > most and not everyone:
            out.append(Outcome(program.name, note=f"not run above {count(most)} rows (--all)"))
            continue
        out.append(_run(program, job, quiet))
    return out


def _run(program: Solver, job: Job, quiet: bool) -> Outcome:
    from threadpoolctl import threadpool_limits

    from aidlearn.bench.judge import objective
    from aidlearn.bench.solvers import Aidlearn

    with threadpool_limits(1), working(f"{program.name} ...", quiet):
        done = program.fit(job)
    if done.failed is not None and isinstance(program, Aidlearn):
        raise CliError(f"The fit of {program.name} failed: {done.failed}")
    if done.failed is not None or done.solution is None:
        return Outcome(program.name, note=done.failed or "failed")
    note = "did not converge" if any(note.startswith("ConvergenceWarning") for note in done.notes) else ""
    value = objective(job.problem, job.data, done.solution, **job.settings)
    return Outcome(program.name, done.cpu, done.wall, value, done.certificate.get("gap"), note)


def table(outcomes: list[Outcome]) -> Table:
    """Return a table of CPU seconds, objectives, and their excess over the best."""
    made = number_table("  program", "CPU s", "of ours", "objective", "above the best", "proven gap")
    made.add_column("")
    best = min((o.objective for o in outcomes if math.isfinite(o.objective)), default=math.nan)
    objectives = aligned([o.objective for o in outcomes], digits=10)
    for outcome, shown in zip(outcomes, objectives, strict=True):
        done = math.isfinite(outcome.objective)
        made.add_row(
            Text("  " + outcome.name, style="bold" if outcome.name == "aidlearn" else ""),
            f"{outcome.cpu:.3f}" if done else "",
            f"{outcome.cpu / outcomes[0].cpu:.3g}x" if done else "",
            shown if done else "",
            gap_text(_excess(outcome.objective, best)) if done else "",
            "" if outcome.gap is None else gap_text(outcome.gap),
            Text(outcome.note, style="dim"),
        )
    return made


def _excess(objective: float, best: float) -> float:
    """Return the relative excess over the best objective; rounding differences count as zero."""
    excess = objective / best - 1 if best else 0.0
    return excess if excess > 1e-12 else 0.0


@dataclass(frozen=True)
class BenchProblem:
    """A problem of the benchmark, with its data and options."""

    kind: str
    help: str
    model: str
    data: str
    """Kind of the generated data."""
    rows: int
    cols: int
    tol: float
    settings: tuple[str, ...] = ()


SETTINGS = {
    "C": option(float, 1.0, "--C", help="Weight of the losses."),
    "epsilon": option(float, 0.1, "--epsilon", help="Half width of the tube."),
    "quantile": option(float, 0.9, "--quantile", help="Quantile, between 0 and 1."),
}
"""Options that are parameters of a problem."""
PROBLEMS = (
    BenchProblem("lad", "Least absolute deviation.", "LADRegressor", "lad", 10_000, 10, 1e-6),
    BenchProblem("quantile", "Quantile regression.", "QuantileRegressor", "lad", 10_000, 10, 1e-6, ("quantile",)),
    BenchProblem("svm", "Linear support vector machine.", "LinearSVC", "svm", 20_000, 20, 1e-4, ("C",)),
    BenchProblem("svr", "Linear support vector regression.", "LinearSVR", "lad", 10_000, 10, 1e-4, ("C", "epsilon")),
    BenchProblem("kernel-svm", "Support vector machine with the rbf kernel.", "SVC", "svm", 10_000, 20, 1e-4, ("C",)),
)


def bench(
    problem: BenchProblem,
    rows: int,
    cols: int,
    tol: float,
    seed: int,
    everyone: bool,
    json: bool,
    quiet: bool,
    debug: bool,
    **settings: float,
) -> None:
    """Check the options of a command, run the programs and show their results."""
    from aidlearn.estimators.checks import check_parameters

    check_parameters(MODELS[problem.model].estimator(tol=tol, **settings))
    if rows < 400:
        raise CliError(f"--rows must be at least 400 for times that mean something, got {rows}.")
    X, y = with_usual_noise(problem.data, rows, cols, seed).arrays()
    outcomes = compare(job(problem.kind, X, y, tol, **settings), everyone, quiet or json)
    if json:
        results = [vars(outcome) for outcome in outcomes]
        write_json({"problem": problem.kind, "rows": rows, "cols": cols, "seed": seed, "results": results})
    elif not quiet:
        title = Text(f"{problem.kind}: {shape(rows, cols)}, one thread", style="bold")
        console().print(title, table(outcomes), sep="\n")


for _problem in PROBLEMS:
    _options: dict[str, Described] = {
        "rows": (Rows, _problem.rows),
        "cols": (Cols, _problem.cols),
        **{name: SETTINGS[name] for name in _problem.settings},
        "tol": (Tol, _problem.tol),
        "everyone": (All, False),
        "seed": (Seed, 0),
        **PRINTED_OR_JSON,
    }
    add_command(app, _problem.kind, _problem.help, _options, partial(bench, _problem))
