"""``aidlearn bench KIND``: generated data, one thread, next to scikit-learn and what else is installed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from aidlearn.cli.commands.generate import Cols, Recipe, Rows
from aidlearn.cli.errors import CliError, reported
from aidlearn.cli.options import Debug, Json, Quiet, Seed
from aidlearn.cli.outputs import write_json
from aidlearn.cli.words import aligned, console, count, gap_text

if TYPE_CHECKING:
    from aidlearn.bench.solvers import Job, Solver

app = typer.Typer(help="Compare with scikit-learn on generated data.", rich_markup_mode=None)

Tol = Annotated[
    float, typer.Option("--tol", min=0, help="Certified gap of aidlearn; the others have their own meaning.")
]
LossWeight = Annotated[float, typer.Option("--C", help="Weight of the losses.")]
All = Annotated[bool, typer.Option("--all", help="Ask every program, whatever the number of rows.")]


@dataclass
class Outcome:
    """What a program did; the objective is the judge's, the gap is proven by the program itself."""

    name: str
    cpu: float = math.nan
    wall: float = math.nan
    objective: float = math.nan
    gap: float | None = None
    note: str = ""


def job(kind: str, X: Any, y: Any, tol: float = 1e-4, **settings: float) -> Job:
    """A fit in this process."""
    from aidlearn.bench.judge import Data
    from aidlearn.bench.solvers import Job

    return Job(kind, Data(X, y), settings, tol)


def programs(kind: str) -> list[Solver]:
    """Ours, and the others that are installed here and meant for a quick look."""
    from aidlearn.bench.peers import solvers

    return [s for s in solvers(kind).values() if s.missing() is None]


def compare(job: Job, everyone: bool, quiet: bool) -> list[Outcome]:
    """Run all programs on the same data, ours first."""
    out = []
    for program in programs(job.problem):
        most = program.command_rows
        if len(job.data.y) > most and not everyone:
            out.append(Outcome(program.name, note=f"not asked above {count(most)} rows (--all)"))
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
    """CPU seconds, objectives and how far they are above the best."""
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
    """How far above the best, relative to it; what rounding can do is nothing."""
    excess = objective / best - 1 if best else 0.0
    return excess if excess > 1e-12 else 0.0


def _bench(
    kind: str, settings: dict[str, float], tol: float, recipe: Recipe, everyone: bool, json: bool, quiet: bool
) -> None:
    for name, value in settings.items():
        low_enough = value < (1 if name == "quantile" else math.inf)
        if not (value > 0 or (name == "epsilon" and value == 0)) or not low_enough:
            bounds = {"C": "> 0", "epsilon": ">= 0", "quantile": "> 0 and < 1"}[name]
            raise CliError(f"--{name} must be a number {bounds}, got {value}.")
    if recipe.rows < 400:
        raise CliError(f"--rows must be at least 400 for times that mean something, got {recipe.rows}.")
    outcomes = compare(job(kind, *recipe.arrays(), tol, **settings), everyone, quiet or json)
    if json:
        results = [vars(outcome) for outcome in outcomes]
        write_json({"problem": kind, "rows": recipe.rows, "cols": recipe.cols, "seed": recipe.seed, "results": results})
    elif not quiet:
        screen = console()
        screen.print(
            Text(f"{kind}: {count(recipe.rows)} rows x {count(recipe.cols)} columns, one thread", style="bold")
        )
        screen.print(table(outcomes))


@app.command()
@reported
def lad(
    rows: Rows = 10_000,
    cols: Cols = 10,
    tol: Tol = 1e-6,
    everyone: All = False,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Least absolute deviation."""
    _bench("lad", {}, tol, Recipe("lad", rows, cols, seed), everyone, json, quiet)


@app.command()
@reported
def quantile(
    rows: Rows = 10_000,
    cols: Cols = 10,
    quantile: Annotated[float, typer.Option("--quantile", help="Between 0 and 1.")] = 0.9,
    tol: Tol = 1e-6,
    everyone: All = False,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Quantile regression."""
    _bench("quantile", {"quantile": quantile}, tol, Recipe("lad", rows, cols, seed), everyone, json, quiet)


@app.command()
@reported
def svm(
    rows: Rows = 20_000,
    cols: Cols = 20,
    C: LossWeight = 1.0,
    tol: Tol = 1e-4,
    everyone: All = False,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Linear support vector machine."""
    _bench("svm", {"C": C}, tol, Recipe("svm", rows, cols, seed, noise=0.5), everyone, json, quiet)


@app.command()
@reported
def svr(
    rows: Rows = 10_000,
    cols: Cols = 10,
    C: LossWeight = 1.0,
    epsilon: Annotated[float, typer.Option("--epsilon", help="Half width of the tube.")] = 0.1,
    tol: Tol = 1e-4,
    everyone: All = False,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Linear support vector regression."""
    _bench("svr", {"C": C, "epsilon": epsilon}, tol, Recipe("lad", rows, cols, seed), everyone, json, quiet)


@app.command("kernel-svm")
@reported
def kernel_svm(
    rows: Rows = 10_000,
    cols: Cols = 20,
    C: LossWeight = 1.0,
    tol: Tol = 1e-4,
    everyone: All = False,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Support vector machine with the rbf kernel."""
    _bench("kernel-svm", {"C": C}, tol, Recipe("svm", rows, cols, seed, noise=0.5), everyone, json, quiet)


@app.callback(invoke_without_command=True)
def bench(context: typer.Context) -> None:
    """Compare with scikit-learn (and R quantreg and statsmodels, if installed) on generated data."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
