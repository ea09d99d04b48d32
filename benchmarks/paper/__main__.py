"""python -m benchmarks.paper NAME [NAME ...] [--scale 1.0] [--repeat 10] [--folder DIR]; --list names them."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.cells import Cell, Row
from benchmarks.paper import behaviour, exact, illustrations, kernels, linear, semi
from benchmarks.paper.experiment import Experiment
from benchmarks.paper.store import Store, commit, machine, measure_all, to_parquet

EXPERIMENTS = {
    experiment.name: experiment
    for module in (linear, semi, exact, kernels, behaviour, illustrations)
    for experiment in module.EXPERIMENTS
}
MEMORY = 16.0


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    add = out.add_argument
    add("name", nargs="*", metavar="NAME", help="experiments; 'all' for every one")
    add("--list", action="store_true", help="print the names, or the cells of the given experiments, and exit")
    add("--scale", type=float, help="1.0 for the paper's sizes; default: a few minutes per experiment")
    add("--repeat", type=int, help="instances of every cell; default: that of the experiment")
    add(
        "--peers",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="measure other programs too",
    )
    add(
        "--faithful",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="run the paper's procedure too",
    )
    add("--only", metavar="TEXT", nargs="+", help='only cells whose "data, solver" contains one of these')
    add(
        "--limit",
        type=float,
        default=120.0,
        help="CPU seconds of a peer or faithful fit; default: %(default)g",
    )
    add(
        "--memory",
        type=float,
        default=MEMORY,
        help="GB that a cell may need; default: %(default)g",
    )
    add("--again", action="store_true", help="repeat measurements of aidlearn if its source has changed")
    add("--draw", action="store_true", help="measure nothing; make tables and plots of the saved results")
    add("--folder", type=Path, default=Path("results/paper"), help="folder of the results; default: %(default)s")
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the selected experiments; write their tables to the folder and print them."""
    options = parser().parse_args(arguments)
    names = list(EXPERIMENTS) if options.name == ["all"] else options.name
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        print(f"unknown experiment {unknown[0]!r}; choose from {', '.join(EXPERIMENTS)}", file=sys.stderr)
        return 2
    if not names:
        print("\n".join(f"{name:14} {experiment.title}" for name, experiment in EXPERIMENTS.items()))
        return 0 if options.list else 2
    for name in names:
        experiment = EXPERIMENTS[name]
        own = {"repeat": options.repeat or experiment.repeat, "scale": options.scale or experiment.scale}
        given = argparse.Namespace(**vars(options) | own)
        cells = chosen(experiment, given)
        if options.list:
            print("\n".join(cell.name for cell in cells))
            continue
        work(experiment, cells, given)
    return 0


def chosen(experiment: Experiment, options: argparse.Namespace) -> list[Cell]:
    wanted = options.only or [""]
    return [
        cell
        for cell in experiment.cells(options)
        if any(text in cell.name for text in wanted)
        and (cell.own or options.peers)
        and (options.faithful or not cell.solver.startswith("faithful"))
    ]


def work(experiment: Experiment, cells: Sequence[Cell], options: argparse.Namespace) -> None:
    """Measure an experiment, and write NAME.parquet, NAME.md and the plots."""
    store, started = Store(options.folder), time.monotonic()

    def report(number: int, of: int, row: Row, before: bool) -> None:
        reason = (
            row.get("failed") or row.get("skipped") or ("measured before" if before else f"{row.get('cpu', 0):.2f} s")
        )
        spent = time.monotonic() - started
        line = f"[{number}/{of}, {spent:.0f} s] {row['data']}, {row['solver']}: {reason}"
        print(line, file=sys.stderr, flush=True)

    if options.draw:
        rows = [row | cell.shown for cell in cells if (row := store.known(cell)) is not None]
    else:
        rows = measure_all(cells, store, options.again, report)
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    to_parquet(rows, folder / f"{experiment.name}.parquet")
    pictures = []
    for ending, draw in (experiment.pictures or {}).items():
        path = folder / f"{experiment.name}{'-' if ending else ''}{ending}.png"
        try:
            draw(rows, path)
        except ImportError as error:
            print(f"no picture: {error}", file=sys.stderr)
            continue
        pictures.append(path)
    commits = sorted({row["commit"] for row in rows if "commit" in row})
    text = [f"# {experiment.name}: {experiment.title}", "", experiment.table(rows), ""]
    text += [f"- {line}" for line in experiment.remarks(rows)]
    text += ["", f"`python -m benchmarks.paper {experiment.name} --scale {options.scale:g} --repeat {options.repeat}`,"]
    text += [f"commit {', '.join(commits) or commit()}, {time.strftime('%Y-%m-%d')}.", *machine(), ""]
    text += [f"![{path.stem}]({path.name})" for path in pictures]
    (folder / f"{experiment.name}.md").write_text("\n".join(text) + "\n")
    print("\n".join(text))


if __name__ == "__main__":
    sys.exit(main())
