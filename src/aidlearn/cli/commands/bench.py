"""``aidlearn bench KIND``: compare with scikit-learn and other installed programs on generated data, in one thread."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from aidlearn.cli.commands.generate import Cols, Generated, Rows
from aidlearn.cli.errors import CliError, reported
from aidlearn.cli.options import Debug, Described, Json, Quiet, Seed, option, with_options
from aidlearn.cli.outputs import write_json
from aidlearn.cli.words import aligned, console, count, gap_text

if TYPE_CHECKING:
    from aidlearn.bench.solvers import Job, Solver

app = typer.Typer(help="Compare with scikit-learn on generated data.", rich_markup_mode=None)

Tol = Annotated[
    float,
    typer.Option("--tol", min=0, help="Certified gap of aidlearn; other programs define their tolerance differently."),
]
All = Annotated[bool, typer.Option("--all", help="Run every program, whatever the number of rows.")]


@dataclass
class Outcome:
    """Result of a program; the objective is recomputed, the gap is proven by the program itself."""

    name: str
    cpu: float = math.nan
    wall: float = math.nan
    objective: float = math.nan
    gap: float | None = None
    note: str = ""


def job(kind: str, X: Any, y: Any, tol: float = 1e-4, **settings: float) -> Job:
    """The problem that all programs solve."""
    from aidlearn.bench.judge import Data
    from aidlearn.bench.solvers import Job

    return Job(kind, Data(X, y), settings, tol)


def programs(kind: str) -> list[Solver]:
    """aidlearn and the other installed programs that are quick enough for this command."""
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

    screen = console(error=True)
    with threadpool_limits(1):
        if quiet or not screen.is_terminal:
            done = program.fit(job)
        else:
            with screen.status(Text(f"{program.name} ...")):
                done = program.fit(job)
    if done.failed is not None and isinstance(program, Aidlearn):
        raise CliError(f"The fit of {program.name} failed: {done.failed}")
    if done.failed is not None or done.solution is None:
        return Outcome(program.name, note=done.failed or "failed")
    note = "did not converge" if any(note.startswith("ConvergenceWarning") for note in done.notes) else ""
    value = objective(job.problem, job.data, done.solution, **job.settings)
    return Outcome(program.name, done.cpu, done.wall, value, done.certificate.get("gap"), note)


def table(outcomes: list[Outcome]) -> Table:
    """Table of CPU seconds, objectives, and their excess over the best."""
    made = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    made.add_column("  program", no_wrap=True)
    for name in ("CPU s", "of ours", "objective", "above the best", "proven gap"):
        made.add_column(name, justify="right", no_wrap=True)
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
    """Relative excess over the best objective; differences of rounding count as none."""
    excess = objective / best - 1 if best else 0.0
    return excess if excess > 1e-12 else 0.0


def _bench(
    kind: str, settings: dict[str, float], tol: float, data: Generated, everyone: bool, json: bool, quiet: bool
) -> None:
    for name, value in settings.items():
        low_enough = value < (1 if name == "quantile" else math.inf)
        if not (value > 0 or (name == "epsilon" and value == 0)) or not low_enough:
            bounds = {"C": "> 0", "epsilon": ">= 0", "quantile": "> 0 and < 1"}[name]
            raise CliError(f"--{name} must be a number {bounds}, got {value}.")
    if data.rows < 400:
        raise CliError(f"--rows must be at least 400 for times that mean something, got {data.rows}.")
    outcomes = compare(job(kind, *data.arrays(), tol, **settings), everyone, quiet or json)
    if json:
        results = [vars(outcome) for outcome in outcomes]
        write_json({"problem": kind, "rows": data.rows, "cols": data.cols, "seed": data.seed, "results": results})
    elif not quiet:
        screen = console()
        screen.print(Text(f"{kind}: {count(data.rows)} rows x {count(data.cols)} columns, one thread", style="bold"))
        screen.print(table(outcomes))


@dataclass(frozen=True)
class BenchProblem:
    """A problem of the benchmark: its data and its options."""

    kind: str
    help: str
    data: str
    """Kind of the generated data."""
    rows: int
    cols: int
    tol: float
    settings: tuple[str, ...] = ()
    noise: float = 1.0


SETTINGS = {
    "C": option(float, 1.0, "--C", help="Weight of the losses."),
    "epsilon": option(float, 0.1, "--epsilon", help="Half width of the tube."),
    "quantile": option(float, 0.9, "--quantile", help="Quantile, between 0 and 1."),
}
"""Options that are parameters of a problem."""
PROBLEMS = (
    BenchProblem("lad", "Least absolute deviation.", "lad", 10_000, 10, 1e-6),
    BenchProblem("quantile", "Quantile regression.", "lad", 10_000, 10, 1e-6, ("quantile",)),
    BenchProblem("svm", "Linear support vector machine.", "svm", 20_000, 20, 1e-4, ("C",), 0.5),
    BenchProblem("svr", "Linear support vector regression.", "lad", 10_000, 10, 1e-4, ("C", "epsilon")),
    BenchProblem("kernel-svm", "Support vector machine with the rbf kernel.", "svm", 10_000, 20, 1e-4, ("C",), 0.5),
)


def add_command(problem: BenchProblem) -> None:
    """Add the subcommand of a problem."""

    def command(**given: Any) -> None:
        data = Generated(problem.data, given["rows"], given["cols"], given["seed"], problem.noise)
        settings = {name: given[name] for name in problem.settings}
        _bench(problem.kind, settings, given["tol"], data, given["everyone"], given["json"], given["quiet"])

    command.__name__, command.__doc__ = problem.kind.replace("-", "_"), problem.help
    options: dict[str, Described] = {"rows": (Rows, problem.rows), "cols": (Cols, problem.cols)}
    options |= {name: SETTINGS[name] for name in problem.settings}
    options |= {"tol": (Tol, problem.tol), "everyone": (All, False), "seed": (Seed, 0)}
    options |= {"json": (Json, False), "quiet": (Quiet, False), "debug": (Debug, False)}
    app.command(problem.kind)(with_options(reported(command), options))


for _problem in PROBLEMS:
    add_command(_problem)


@app.callback(invoke_without_command=True)
def bench(context: typer.Context) -> None:
    """Compare with scikit-learn (and R quantreg and statsmodels, if installed) on generated data."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
