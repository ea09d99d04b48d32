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
    add("--list", action="store_true", help="print the names, or the cells of those given, and end")
    add("--scale", type=float, help="1.0: the paper's sizes; default: what ends in some minutes")
    add("--repeat", type=int, help="instances of every cell; default: what the experiment is made for")
    add("--peers", action=argparse.BooleanOptionalAction, default=True, help="without: aidlearn only")
    add("--faithful", action=argparse.BooleanOptionalAction, default=True, help="without: default and peers only")
    add("--only", metavar="TEXT", nargs="+", help='only cells whose "data, solver" contains one of these')
    add("--limit", type=float, default=120.0, help="CPU seconds of a peer's fit and of a faithful one: %(default)g")
    add("--memory", type=float, default=MEMORY, help="GB that a cell may need; larger ones are marked: %(default)g")
    add("--again", action="store_true", help="measure our own cells again if the source has changed since")
    add("--draw", action="store_true", help="measure nothing: table and pictures of what is there")
    add("--folder", type=Path, default=Path("results/paper"), help="of the results: %(default)s")
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the experiments that were asked for; their tables go to the folder and to the screen."""
    options = parser().parse_args(arguments)
    names = list(EXPERIMENTS) if options.name == ["all"] else options.name
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        print(f"no experiment is called {unknown[0]!r}; there are: {', '.join(EXPERIMENTS)}", file=sys.stderr)
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
    """Measure, and write NAME.parquet, NAME.md and the pictures."""
    store, started = Store(options.folder), time.monotonic()

    def told(number: int, of: int, row: Row, before: bool) -> None:
        reason = (
            row.get("failed") or row.get("skipped") or ("measured before" if before else f"{row.get('cpu', 0):.2f} s")
        )
        spent = time.monotonic() - started
        line = f"[{number}/{of}, {spent:.0f} s] {row['data']}, {row['solver']}: {reason}"
        print(line, file=sys.stderr, flush=True)

    if options.draw:
        rows = [row | cell.shown for cell in cells if (row := store.known(cell)) is not None]
    else:
        rows = measure_all(cells, store, options.again, told)
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
