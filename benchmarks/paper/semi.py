"""The semi-supervised SVM on the sets of Chapelle, Schoelkopf and Zien's book (paper, section 4.3, appendix A).

The paper chooses its best parameters with the labels of the test rows; "faithful" columns do the same, over the same
grid: (M_l, M_u) = (5, 1) times 1 to 1e-4, two initial rates (below scale 1 the smaller), two ways of balancing. "rule"
columns use no test labels (``SemiSupervisedSVC(kernel="auto")``).
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from aidlearn import SemiSupervisedSVC
from aidlearn.display.style import COLOURS, INK, pyplot, tidy
from aidlearn.semisupervised import choice
from benchmarks.harness.cells import Cell, Row
from benchmarks.paper import measured, published
from benchmarks.paper.experiment import Experiment, Options, done, markdown, seconds, shown
from benchmarks.paper.pictures import save
from benchmarks.paper.ssl_book import LabelledSplit, splits

BALANCES = ("constraint", "cost")
FEW, MANY = (0.01, 0.05), (0.0001, 0.0005)
"""Initial rates for up to 10,000 rows, and for more."""
LABELS = {"SecStr": {10: 1000, 100: 10_000}}
"""Numbers of labels in the two halves of the paper's tables, if they are not 10 and 100."""
FIXED = {"USPS": "cost", "BCI": "cost", "COIL2": "cost"}
"""Balance of the paper's fixed parameters; "constraint" for other sets. The paper names none for COIL2 and SecStr."""
ALGORITHMS = {"AID1": 1, "AID5": 5}
LIMIT = 1800.0
"""Time limit of a fit in the paper, in seconds."""
FEWEST_ROWS = 4000
"""Minimum number of unlabelled rows of SecStr at scales below 1."""
PATIENCE = 200_000.0


@cache
def _splits(name: str, labels: int) -> list[LabelledSplit]:
    return splits(name, LABELS.get(name, {}).get(labels, labels))


def split_of(name: str, labels: int, number: int, share: float) -> LabelledSplit:
    """Return one official split; for SecStr, only a share of the unlabelled rows."""
    whole = _splits(name, labels)[number]
    n = len(whole.truth)
    keep = max(FEWEST_ROWS, round(share * n))
    if name != "SecStr" or keep >= n:
        return whole
    free = np.setdiff1d(np.arange(n), whole.labelled)
    chosen = np.random.default_rng(number).choice(free, min(keep, len(free)), replace=False)
    rows = np.concatenate([whole.labelled, chosen])
    return LabelledSplit(whole.X[rows], whole.truth[rows], np.arange(len(whole.labelled)))


def fitted(split: LabelledSplit, **parameters: Any) -> tuple[float, float]:
    """Return the accuracy on the unlabelled rows and the CPU seconds of a fit."""
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SemiSupervisedSVC(time_limit=LIMIT, n_jobs=1, **parameters).fit(split.X, split.y)
    return split.accuracy(model.transduction_), time.process_time() - started


def grid(name: str, labels: int, number: int, share: float, scale: float, n_rates: int = 2) -> Row:
    """Run all fits of one split with (M_l, M_u) = (5, 1) times a scale, and the supervised machines."""
    split = split_of(name, labels, number, share)
    rates = (MANY if len(split.truth) > 10_000 else FEW)[:n_rates]
    fits = []
    for rate, balance, (algorithm, iterations) in itertools.product(rates, BALANCES, ALGORITHMS.items()):
        accuracy, cpu = fitted(
            split,
            C=5 * scale,
            C_unlabeled=scale,
            initial_rate=rate,
            balance=balance,
            max_iter=iterations,
            init="kmeans",
        )
        fits.append({"rate": rate, "balance": balance, "algorithm": algorithm, "accuracy": accuracy, "cpu": cpu})
    control = {balance: fitted(split, C=5 * scale, C_unlabeled=0.0, balance=balance)[0] for balance in BALANCES}
    return {"cpu": sum(fit["cpu"] for fit in fits), "fits": fits, "control": control}


def rule(name: str, numbers: dict[str, int], share: float) -> Row:
    """Fit ``SemiSupervisedSVC(kernel="auto")`` to the first splits of both numbers of labels.

    Kernels do not depend on labels, so they are computed once, as every fit alone would compute them. Only the seconds
    of the first fit include them.
    """
    made: dict[int, choice.CandidateKernels] = {}
    every = choice.CandidateKernels

    def shared(X: Any, rng: np.random.Generator, deadline: float) -> choice.CandidateKernels:
        key = X.shape[0] if name == "SecStr" else 0
        if key not in made:
            made[key] = every(X, rng, deadline)
        return made[key]

    out: Row = {"accuracies": {}, "chosen": {}, "seconds": []}
    for labels, count in numbers.items():
        for number in range(count):
            split = split_of(name, int(labels), number, share)
            if name == "SecStr" and share < 1:
                made.clear()  # its rows differ from split to split
            started = time.process_time()
            with warnings.catch_warnings(), mock.patch.object(choice, "CandidateKernels", shared):
                warnings.simplefilter("ignore")
                model = SemiSupervisedSVC(kernel="auto", n_jobs=1).fit(split.X, split.y)
            out["seconds"].append(time.process_time() - started)
            out["accuracies"].setdefault(labels, []).append(split.accuracy(model.transduction_))
            out["chosen"].setdefault(labels, []).append(model.choice_)
    return out | {"cpu": sum(out["seconds"])}


def official(name: str, labels: int, scale: float = 1.0) -> range:
    """Return the splits that are used at a scale: all at scale 1, and at least one."""
    try:
        count = len(_splits(name, labels))
    except FileNotFoundError:
        count = 12  # the cells report what is missing
    return range(max(1, round(count * scale)))


def _cell(name: str, labels: int, number: int, scale: float, options: Options) -> Cell:
    share = min(1.0, options.scale) if name == "SecStr" else 1.0
    arguments = {"name": name, "labels": labels, "number": number, "share": share, "scale": scale}
    if options.scale < 1:
        arguments["n_rates"] = 1  # with both rates, the tables of one split take eleven minutes
    count = LABELS.get(name, {}).get(labels, labels)
    words = f"{name} {count} labels, split {number}, scale {scale:g}"
    shown = {"name": name, "labels": labels, "number": number, "scale": scale}
    return Cell(words, "faithful", measured.call(grid), arguments, timeout=PATIENCE, shown=shown)


def _rule_cell(name: str, options: Options) -> Cell:
    share = min(1.0, options.scale) if name == "SecStr" else 1.0
    # All splits at every scale, because they share their kernels, unless each split has its own rows.
    splits_of = {labels: official(name, labels, share) for labels in (10, 100)}
    numbers = {f"{labels}": len(found) for labels, found in splits_of.items()}
    arguments = {"name": name, "numbers": numbers, "share": share}
    return Cell(name, "default", measured.call(rule), arguments, timeout=PATIENCE, shown={"name": name, "labels": 0})


def cells(scales: Sequence[float]) -> Any:
    """Return a function that makes the cells of all sets, numbers of labels and splits: the grid, and the rule.

    SecStr is measured at scale 1 of the grid only, unless all splits are requested.
    """

    def made(options: Options) -> list[Cell]:
        out = [_rule_cell(name, options) for name in published.SETS]
        for labels, name, scale in itertools.product((100, 10), published.SETS, scales):
            if options.scale < 1 and scale < 1 and name == "SecStr":
                continue  # each takes a minute
            out += [_cell(name, labels, number, scale, options) for number in official(name, labels, options.scale)]
        return out

    return made


def accuracies(rows: Sequence[Row], name: str, labels: int, algorithm: str) -> dict[Any, list[float]]:
    """Return the accuracies of every set of parameters over the splits."""
    out: dict[Any, list[float]] = {}
    for row in done(rows):
        if row["name"] == name and row["labels"] == labels and "fits" in row:
            for fit in row["fits"]:
                if fit["algorithm"] == algorithm:
                    chosen = row["scale"], fit["rate"], fit["balance"]
                    out.setdefault(chosen, []).append(fit["accuracy"])
    return out


def ruled(rows: Sequence[Row], name: str, labels: int) -> list[float]:
    """Return the accuracies of the rule, split by split."""
    mine = (row["accuracies"] for row in done(rows) if row["name"] == name and "accuracies" in row)
    return next(mine, {}).get(f"{labels}", [])


def mean_with_error(values: Sequence[float] | None) -> str:
    """Format a mean in per cent with its standard error."""
    if not values:
        return "-"
    spread = f" +- {100 * np.std(values, ddof=1) / np.sqrt(len(values)):.1f}" if len(values) > 1 else ""
    return f"{100 * np.mean(values):.1f}{spread}"


def best(rows: Sequence[Row], name: str, labels: int, algorithm: str) -> list[float]:
    """Return the accuracies of the parameters that are best on average over the splits, chosen with test labels."""
    found = accuracies(rows, name, labels, algorithm)
    return max(found.values(), key=lambda values: float(np.mean(values)), default=[])


def control(rows: Sequence[Row], name: str, labels: int) -> list[float]:
    """Return the accuracies of the best supervised machine over scales and balances, chosen with test labels."""
    found: dict[Any, list[float]] = {}
    for row in done(rows):
        if row["name"] == name and row["labels"] == labels and "control" in row:
            for balance, accuracy in row["control"].items():
                found.setdefault((row["scale"], balance), []).append(accuracy)
    return max(found.values(), key=lambda values: float(np.mean(values)), default=[])


def fixed(rows: Sequence[Row], name: str, labels: int, algorithm: str) -> list[float]:
    found = accuracies(rows, name, labels, algorithm)
    balance = FIXED.get(name, "constraint")
    return next((v for (s, rate, b), v in found.items() if s == 1.0 and b == balance and rate == min(FEW)), []) or next(
        (v for (s, rate, b), v in found.items() if s == 1.0 and b == balance and rate == min(MANY)), []
    )


def sets(rows: Sequence[Row]) -> Iterator[tuple[int, str]]:
    for labels in (10, 100):
        for name in published.SETS:
            if any(row["name"] == name and (row["labels"] == labels or ruled([row], name, labels)) for row in rows):
                yield labels, name


def best_table(rows: Sequence[Row]) -> str:
    head = (
        "labels,set,splits,AID1 paper,AID1 faithful,AID5 paper,AID5 faithful,supervised (same choice),TSVM RBF paper,"
        "best published,rule (no test labels)"
    )
    lines = []
    for labels, name in sets(rows):
        paper = published.S3VM_BEST[labels][name]
        mine = ruled(rows, name, labels)
        top = published.best_published(name, labels)
        wins = bool(mine) and top is not None and 100 * np.mean(mine) > top
        found = best(rows, name, labels, "AID1")
        lines.append(
            [
                f"{LABELS.get(name, {}).get(labels, labels)}",
                name,
                f"{len(mine) or len(found)}",
                shown(paper.get("AID1")),
                mean_with_error(found),
                shown(paper.get("AID5")),
                mean_with_error(best(rows, name, labels, "AID5")),
                mean_with_error(control(rows, name, labels)),
                shown(paper.get("TSVM RBF")),
                shown(top),
                f"**{mean_with_error(mine)}**" if wins else mean_with_error(mine),
            ]
        )
    return markdown(head.split(","), lines)


def best_remarks(rows: Sequence[Row]) -> Iterator[str]:
    yield "per cent of the unlabelled rows, with standard errors over the splits"
    yield "parameters of faithful columns are chosen with test labels, as in the paper"
    yield from wins(rows, best)


def wins(rows: Sequence[Row], choose: Any) -> Iterator[str]:
    """Count wins against TSVM with the RBF kernel, as the paper does."""
    for labels in (10, 100):
        against = {n: published.S3VM_BEST[labels][n].get("TSVM RBF") for n in published.SETS}
        pairs = [
            (choose(rows, n, labels, "AID1"), ruled(rows, n, labels), v) for n, v in against.items() if v is not None
        ]
        known = [(a, b, v) for a, b, v in pairs if a and b]
        if known:
            first = sum(100 * np.mean(a) > v for a, _, v in known)
            second = sum(100 * np.mean(b) > v for _, b, v in known)
            words = f"AID1 {first} of {len(known)}, rule {second} of {len(known)}"
            yield f"{labels} labels, wins against TSVM-RBF as published: {words}"
    beaten = []
    for name in published.SETS:
        mine, top = ruled(rows, name, 100), published.best_published(name, 100)
        if mine and top is not None and name not in ("COIL2", "SecStr"):
            error = 100 * np.std(mine, ddof=1) / np.sqrt(len(mine)) if len(mine) > 1 else 0.0
            beaten.append((name, 100 * np.mean(mine) - top, error))
    if beaten:
        words = ", ".join(f"{name} {difference:+.1f} ({error:.1f})" for name, difference, error in beaten)
        yield f"rule minus the best published row, 100 labels (standard error): {words}"


def fixed_table(rows: Sequence[Row]) -> str:
    head = "labels,set,AID1 paper,AID1 faithful,AID5 faithful,TSVM RBF paper,rule (no test labels)"
    lines = []
    for labels, name in sets(rows):
        paper = published.S3VM_FIXED[labels].get(name)
        lines.append(
            [
                f"{LABELS.get(name, {}).get(labels, labels)}",
                name,
                shown(paper),
                mean_with_error(fixed(rows, name, labels, "AID1")),
                mean_with_error(fixed(rows, name, labels, "AID5")),
                shown(published.S3VM_BEST[labels][name].get("TSVM RBF")),
                mean_with_error(ruled(rows, name, labels)),
            ]
        )
    return markdown(head.split(","), lines)


def fixed_remarks(rows: Sequence[Row]) -> Iterator[str]:
    yield "M_l = 5, M_u = 1, r0 = 0.01 (SecStr: 0.0001 in its full size); balance as the paper chose it per set"
    yield from wins(rows, fixed)


def time_table(rows: Sequence[Row]) -> str:
    lines = []
    for labels, name in sets(rows):
        for algorithm in ALGORITHMS:
            paper = published.S3VM_TIME.get((algorithm, name, labels), {})
            cells = []
            for scale in published.SCALES:
                part = [
                    r for r in done(rows) if r["name"] == name and r["labels"] == labels and r.get("scale") == scale
                ]
                spent = [fit["cpu"] for r in part for fit in r["fits"] if fit["algorithm"] == algorithm]
                cells.append(
                    f"{shown(paper.get(scale), '{:.0f}')} / {seconds(float(np.mean(spent)) if spent else None)}"
                )
            lines.append([f"{LABELS.get(name, {}).get(labels, labels)}", name, algorithm, *cells])
    return markdown(["labels", "set", "algorithm", *(f"scale {scale:g}" for scale in published.SCALES)], lines)


def time_remarks(rows: Sequence[Row]) -> Iterator[str]:
    yield "seconds of one fit, paper / here (CPU), means over rates, balances and splits; (M_l, M_u) = (5, 1) x scale"
    spent = [row["seconds"] for row in done(rows) if "seconds" in row]
    if spent:
        first, others = [part[0] for part in spent], [second for part in spent for second in part[1:]] or [0.0]
        yield f"a fit with kernel='auto' takes {min(first):.0f} to {max(first):.0f} s, most of it for the kernels"
        yield f"where these are there already, {np.mean(others):.1f} s on average"


def bars(rows: Sequence[Row], path: Path) -> None:
    """Draw the accuracies of the paper's AID1, ours and the rule."""
    figure, axes = pyplot().subplots(2, 1, figsize=(11, 6.4), layout="constrained")
    for ax, labels in zip(axes, (10, 100), strict=True):
        names = [name for count, name in sets(rows) if count == labels]
        series = {
            "paper, AID1 (test labels)": [published.S3VM_BEST[labels][n].get("AID1") for n in names],
            "AID1 here (test labels)": [_percent(best(rows, n, labels, "AID1")) for n in names],
            "paper, best of any method": [published.best_published(n, labels) for n in names],
            "rule (no test labels)": [_percent(ruled(rows, n, labels)) for n in names],
        }
        for k, (label, values) in enumerate(series.items()):
            x = np.arange(len(names)) + 0.2 * (k - 1.5)
            ax.bar(x, [np.nan if v is None else v for v in values], 0.19, color=COLOURS[k], label=label)
        errors = [ruled(rows, n, labels) for n in names]
        for x, values in enumerate(errors):
            if len(values) > 1:
                error = 100 * np.std(values, ddof=1) / np.sqrt(len(values))
                ax.errorbar(x + 0.3, 100 * np.mean(values), error, color=INK, capsize=2, lw=1)
        ax.set_xticks(range(len(names)), names)
        ax.set_ylim(40, 100)
        tidy(ax, "", "classification rate, %", f"{labels} labels (SecStr: {LABELS['SecStr'][labels]:,})")
        ax.legend(frameon=False, fontsize="small", ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.08))
    save(figure, path)


def _percent(values: Sequence[float]) -> float | None:
    return 100 * float(np.mean(values)) if values else None


def time_bars(rows: Sequence[Row], path: Path) -> None:
    figure, axes = pyplot().subplots(1, 2, figsize=(11, 3.8), layout="constrained", sharey=True)
    for ax, labels in zip(axes, (10, 100), strict=True):
        names = [name for count, name in sets(rows) if count == labels]
        for k, algorithm in enumerate(ALGORITHMS):
            paper = [np.mean(list(published.S3VM_TIME[algorithm, n, labels].values())) for n in names]
            part = [[r for r in done(rows) if r["name"] == n and r["labels"] == labels and "fits" in r] for n in names]
            ours = [
                np.mean([f["cpu"] for r in p for f in r["fits"] if f["algorithm"] == algorithm] or [np.nan])
                for p in part
            ]
            for shift, values, style in ((0.0, paper, {"alpha": 0.45}), (0.2, ours, {})):
                x = np.arange(len(names)) + 0.4 * k + shift - 0.3
                words = f"{algorithm}, {'here' if shift else 'paper'}"
                ax.bar(x, values, 0.19, color=COLOURS[k], label=words, **style)
        ax.set_yscale("log")
        ax.set_xticks(range(len(names)), names, rotation=30)
        tidy(ax, "", "seconds of a fit", f"{labels} labels (SecStr: {LABELS['SecStr'][labels]:,})")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    save(figure, path)


EXPERIMENTS = (
    Experiment(
        "s3vm-best",
        "S3VM, best parameters, against TSVM and S4VM (Tables 6 and 7)",
        cells(published.SCALES),
        best_table,
        best_remarks,
        {"": bars},
    ),
    Experiment(
        "s3vm-fixed",
        "S3VM, fixed parameters, against TSVM (Table 8)",
        cells((1.0,)),
        fixed_table,
        fixed_remarks,
    ),
    Experiment(
        "s3vm-time",
        "S3VM, execution times of AID1 and AID5 (Table 9)",
        cells(published.SCALES),
        time_table,
        time_remarks,
        {"": time_bars},
    ),
    Experiment("s3vm-rule", "S3VM, parameters chosen without test labels", cells(()), best_table, best_remarks),
)
