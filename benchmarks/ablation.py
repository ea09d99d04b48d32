"""Work of a fit with one rule switched off at a time: python -m benchmarks.ablation [--rules plan] [--tables real].

Every table of benchmarks.ablation_tables is fitted once with the library unchanged, and once per rule with that rule
switched off or changed, by replacing a settings instance or a function. All counts are deterministic: the seed is
fixed, and time plays no part. The work of a fit is

    sum over passes of rows * columns  +  sum over solver steps of rows * columns of the aggregated problem,

where passes over samples count the rows of the sample. A rule stays if, without it, the geometric mean of the work
rises by 3 %, the work of one table rises by 25 %, or a law is broken. A law is broken if a lower bound exceeds the
objective of another run of the table, or if more models of a table miss the tolerance than with the rule. A rule that
changes the work of no table is not judged.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from aidlearn.data.passes.run import Run
from aidlearn.linear.aggregated import hinge_rows, interior_point, polish, smoothing, solvers
from aidlearn.linear.model.leverage import NormalEquations
from aidlearn.linear.rows.columns import SparseLayout
from aidlearn.linear.start import newton, plan, samples, sharpening
from benchmarks.ablation_tables import Outcome, Table, tables

MEAN_RISE, WORST_RISE = 1.03, 1.25
BELOW = 1 + 1e-9
"""Factor by which rounding may lift a bound above the objective of another run."""
PROVEN = ("optimal", "gap", "one_region", "certified")
"""Names of the statuses that reach the tolerance."""


@dataclass
class Counts:
    """Deterministic work of one fit."""

    passes: int = 0
    pass_cells: float = 0.0
    solves: int = 0
    steps: int = 0
    step_cells: float = 0.0
    factorisations: int = 0

    @property
    def work(self) -> float:
        return self.pass_cells + self.step_cells


@dataclass
class Measured:
    """Counts of a fit to a table, and the claims of its models."""

    counts: Counts
    outcomes: list[Outcome] = field(default_factory=list)
    error: str = ""
    seconds: float = 0.0

    @property
    def failed(self) -> int:
        return sum(outcome.status not in PROVEN for outcome in self.outcomes) + bool(self.error)


@contextmanager
def counting(counts: Counts) -> Iterator[None]:
    """Count passes, solves, steps and factorisations of all fits in the block."""
    mapped, solve, move_to, factor = (
        Run._map,
        interior_point.solve,
        interior_point._Newton.move_to,
        interior_point._factor,
    )

    def counted_map(run: Run, *arguments: Any) -> Any:
        counts.passes += 1
        counts.pass_cells += float(run.n_entries) * (run.n_attributes + 1)
        return mapped(run, *arguments)

    def counted_solve(*arguments: Any, **options: Any) -> Any:
        counts.solves += 1
        return solve(*arguments, **options)

    def counted_move(state: Any, it: Any, cut: float) -> None:
        counts.steps += 1
        counts.step_cells += float(np.prod(state.rows.A.shape))
        move_to(state, it, cut)

    def counted_factor(normal: Any, ridge: Any) -> Any:
        counts.factorisations += 1
        return factor(normal, ridge)

    with ExitStack() as stack:
        stack.enter_context(patch.object(Run, "_map", counted_map))
        stack.enter_context(patch.object(interior_point, "solve", counted_solve))
        stack.enter_context(patch.object(interior_point._Newton, "move_to", counted_move))
        stack.enter_context(patch.object(interior_point, "_factor", counted_factor))
        yield


@dataclass(frozen=True)
class Rule:
    """A named rule, and the attributes of modules or classes that are replaced to switch it off."""

    name: str
    without: str
    changes: tuple[tuple[Any, str, Callable[[Any], Any]], ...]

    @contextmanager
    def off(self) -> Iterator[None]:
        with ExitStack() as stack:
            for owner, attribute, change in self.changes:
                stack.enter_context(patch.object(owner, attribute, change(getattr(owner, attribute))))
            yield


def setting(module: Any, name: str, without: str = "", **fields: Any) -> Rule:
    """Return a rule that consists of fields of a module's settings."""
    text = without or ", ".join(
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in fields.items()
    )
    return Rule(name, text, ((module, "SETTINGS", lambda given: replace(given, **fields)),))


def function(owner: Any, attribute: str, name: str, without: str, change: Callable[[Any], Any]) -> Rule:
    return Rule(name, without, ((owner, attribute, change),))


INF = math.inf
NEVER = 10**9


def rules() -> list[Rule]:
    """Return all rules that are tested, grouped by algorithm."""
    return [
        # The drawing of clusters
        setting(plan, "plan: all rows single where most are in doubt", near_of_all=1.0),
        setting(plan, "plan: free single rows", free=1),
        setting(plan, "plan: cheap single rows", cheap_single=INF),
        setting(plan, "plan: most single rows", most_single=INF),
        setting(plan, "plan: passes for sparse single rows", passes_for_single=INF),
        setting(plan, "plan: margin", margin=0.0),
        setting(plan, "plan: fewer single rows if unsettled", unsettled=3.0),
        setting(plan, "plan: most bins", most_bins=NEVER),
        setting(plan, "plan: many bins", most_bins=4),
        setting(plan, "plan: groups by rare column", sums_over_single=0.0),
        setting(plan, "plan: limit of groups by rare column", sums_over_single=1e6),
        function(plan.Plan, "solve_cost", "plan: original problem at all", "never", lambda _: property(lambda _: 0.0)),
        setting(plan, "plan: ties stay together", tied=INF),
        setting(plan, "plan: hollow", hollow_density=INF),
        setting(plan, "plan: planes", "no planes", few_planes=0, most_planes=0),
        setting(plan, "plan: planes in place of bins", most_planes=3),
        # Samples
        setting(samples, "samples: rows viewed", view_rows=2000),
        setting(samples, "samples: nested", ratio=NEVER),
        setting(samples, "samples: rows of the Gram matrix", gram_rows=2000),
        setting(samples, "samples: operations of the Gram matrix", gram_flops=1e15),
        setting(samples, "samples: number picked", picked=1.0),
        function(NormalEquations, "unlike", "samples: picked by leverage", "never", lambda _: lambda *_: ()),
        setting_of(samples, "GOLDEN", "samples: phases of chunks", 0.0),
        # Newton steps
        setting(newton, "newton: trust region", trust=INF),
        setting(newton, "newton: damping on samples", first_damping=1e-6),
        setting(newton, "newton: least damping", least_damping=1e-2),
        setting(newton, "newton: least curvature", least_near=0.0),
        setting(newton, "newton: thinned Hessian", hessian_rows=NEVER),
        setting(newton, "newton: least rows of a Hessian", hessian_rows=1),
        function(newton, "_thinned", "newton: thinned by leverage", "every k-th row", lambda _: _every),
        # When the start ends
        setting(sharpening, "start: fair fit of picked rows", fair=1e-3),
        setting(sharpening, "start: third full step", most_full_steps=2),
        setting(sharpening, "start: most full steps", most_full_steps=6),
        setting(sharpening, "start: fewer steps after a fit", steps_after_fit=3),
        setting(sharpening, "start: damped steps", damped_steps=NEVER),
        setting(sharpening, "start: first error", first_error=1.0),
        setting(sharpening, "start: error of a sample", sample_error=1.0),
        setting(sharpening, "start: error after a step", error_after_step=0.0),
        setting(sharpening, "start: unsure", unsure=1.0),
        setting(sharpening, "start: least contraction", least_contraction=0.0),
        setting(sharpening, "start: short steps end", short=0.0),
        # The interior point
        setting(interior_point, "interior point: corrections", corrections=0),
        setting(interior_point, "interior point: second correction", corrections=1),
        setting(interior_point, "interior point: most centring", most_centring=1.0),
        setting(interior_point, "interior point: polishing from a fair point", polished_from=0.0),
        setting(interior_point, "interior point: cautious attempt", cautious=1.0),
        setting(interior_point, "interior point: light rows cut", cut=0.0),
        setting(interior_point, "interior point: less cut", cut_less=1.0),
        setting(interior_point, "interior point: least slack", least_slack=1e-6),
        setting(interior_point, "interior point: next to bounds", next_to_bounds=0.0),
        setting(interior_point, "interior point: least margin", least_margin=0.0),
        setting(interior_point, "interior point: proximal term", proximal=0.0),
        setting(interior_point, "interior point: divergence", diverged=INF),
        # Around the interior point
        setting(hinge_rows, "basis: margins above rounding", rounded=0.0),
        setting(hinge_rows, "basis: least unit", least_unit=0.0),
        setting(hinge_rows, "basis: least root mean square", least_rms=0.0),
        setting(polish, "polish: limit of rows on kinks", kinks_per_variable=NEVER),
        setting(solvers, "solver: small problems exactly", small=0),
        setting(solvers, "solver: second opinion of HiGHS", most_rows_for_highs=0),
        function(
            solvers, "_without_dust", "solver: level without slopes", "never", lambda _: lambda rows, found: found.w
        ),
        setting(smoothing, "smoothing: warm start", worthwhile=INF),
        setting(smoothing, "smoothing: conjugate gradients", "Gram matrices", direct=NEVER),
        # The storage of rows
        function(
            SparseLayout, "of", "storage: sparse columns", "all dense", lambda _: classmethod(lambda *_, **__: None)
        ),
    ]


def setting_of(module: Any, constant: str, name: str, value: float) -> Rule:
    return Rule(name, f"{constant.lower()}={value:g}", ((module, constant, lambda _: value),))


def _every(leverage: Any, weight: Any, thin: int) -> Any:
    return np.arange(0, len(weight), thin), 1.0


def measured(table: Table) -> Measured:
    """Fit a table once and count its work."""
    result = Measured(Counts())
    began = time.process_time()
    with counting(result.counts), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result.outcomes = table.fit()
        except (ArithmeticError, ValueError, RuntimeError) as error:
            result.error = repr(error)[:100]
    result.seconds = time.process_time() - began
    return result


@dataclass(frozen=True)
class Verdict:
    """Effect of switching a rule off."""

    rule: str
    without: str
    mean: float
    worst: float
    worst_table: str
    changed: int
    """Number of tables whose work differs."""
    broken: list[str]
    seconds: float

    @property
    def earned(self) -> bool:
        return self.mean >= MEAN_RISE or self.worst >= WORST_RISE or bool(self.broken)

    def row(self) -> str:
        broken = "; ".join(self.broken[:2]) + (f" and {len(self.broken) - 2} more" if len(self.broken) > 2 else "")
        cells = [
            self.rule,
            self.without,
            f"{self.mean:.3f}",
            f"{self.worst:.2f} ({self.worst_table})",
            str(self.changed),
            broken,
            "stays" if self.earned else "goes" if self.changed else "not exercised",
        ]
        return "| " + " | ".join(cells) + " |"


def judged(rule: Rule, base: dict[str, Measured], seen: dict[str, list[float]], chosen: list[Table]) -> Verdict:
    """Fit all tables without a rule and compare them with the fits that use it."""
    ratios, broken = {}, []
    began = time.process_time()
    for table in chosen:
        with rule.off():
            found = measured(table)
        before = base[table.name]
        if found.error:
            broken.append(f"{table.name}: {found.error}")
            continue
        ratios[table.name] = found.counts.work / before.counts.work
        if found.failed > before.failed:
            broken.append(f"{table.name}: {next(o.status for o in found.outcomes if o.status not in PROVEN)}")
        for k, (here, there) in enumerate(zip(found.outcomes, before.outcomes, strict=True)):
            seen[f"{table.name} {k}"].append(here.objective)
            lowest = min(seen[f"{table.name} {k}"])
            if max(here.bound, there.bound) > lowest + (BELOW - 1) * abs(lowest):
                broken.append(f"{table.name}: bound {max(here.bound, there.bound):.9g} above {lowest:.9g}")
    worst = max(ratios, key=lambda name: ratios[name])
    mean = math.exp(float(np.mean(np.log(list(ratios.values())))))
    changed = sum(ratio != 1.0 for ratio in ratios.values())
    return Verdict(rule.name, rule.without, mean, ratios[worst], worst, changed, broken, time.process_time() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rules", default="", help="rules whose name has this text")
    parser.add_argument("--tables", default="", help="tables whose name has this text")
    parser.add_argument("--part", default="0/1", help="k/m: every m-th rule from the k-th")
    parser.add_argument("--json", type=Path, help="also write the verdicts to a file")
    options = parser.parse_args()
    chosen = [table for table in tables() if options.tables in table.name]
    for table in chosen:
        measured(table)  # loads data and compiled code
    base = {table.name: measured(table) for table in chosen}
    for name in [name for name, found in base.items() if found.error]:
        print(f"{name} is left out: {base.pop(name).error}.")
    chosen = [table for table in chosen if table.name in base]
    seen: dict[str, list[float]] = {
        f"{name} {k}": [outcome.objective] for name, found in base.items() for k, outcome in enumerate(found.outcomes)
    }
    total = Counts(*np.sum([list(asdict(found.counts).values()) for found in base.values()], axis=0))
    print(
        f"{len(chosen)} tables: {total.passes:.0f} passes, {total.solves:.0f} aggregated problems, {total.steps:.0f} "
        f"solver steps, {total.factorisations:.0f} factorisations, "
        f"{sum(found.failed for found in base.values())} failures, "
        f"{sum(found.seconds for found in base.values()):.0f} CPU s.\n"
    )
    print("| rule | without it | mean work | worst table | tables changed | laws broken | verdict |")
    print("|---|---|---|---|---|---|---|", flush=True)
    first, step = map(int, options.part.split("/"))
    verdicts = []
    for rule in [rule for rule in rules() if options.rules in rule.name][first::step]:
        verdicts.append(judged(rule, base, seen, chosen))
        print(verdicts[-1].row(), flush=True)
        if options.json:
            options.json.write_text(json.dumps([asdict(verdict) for verdict in verdicts], indent=1))


if __name__ == "__main__":
    main()
