"""The fuzzer's command line, with workers in their own processes, so that a crash is a finding like any other."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

BATCH = 60
"""Number of cases per worker; its imports take as long as several cases."""
SMALL_BATCH = 1500
"""Number of small cases per worker."""
MOST_ROWS, FEW_ROWS = 220, 30
"""Maximum number of rows of a case, and of a small one."""
PATIENCE = 300.0
"""Seconds past the end of the run after which a case counts as not ending; the machine may be busy."""
SLOW = 20.0
"""Multiple of the median time for its estimator and size above which a fit is marked as slow."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument(
        "--fits", type=int, help=f"number of small cases (at most {FEW_ROWS} rows), checked by the oracles alone"
    )
    parser.add_argument("--tables", type=int, help="number of tables to fit and predict by the command line instead")
    parser.add_argument("--seed", type=int, help="of the first case; by default another one every time")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"), help="folder for scripts")
    parser.add_argument("--log", type=Path, help="file to which a line for each case is added")
    parser.add_argument("--tell", type=Path, nargs="+", metavar="LOG", help="sum up logs instead of trying cases")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--last", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.tell:
        _tell([json.loads(line) for path in options.tell for line in path.read_text().splitlines()])
        return 0
    if options.worker is not None:
        _work(range(options.worker, options.last), options.until, options.fits is not None)
        return 0
    seed = int(time.time()) * 1000 if options.seed is None else options.seed
    print(f"first seed {seed}", flush=True)
    if options.tables:
        return _tables(range(seed, seed + options.tables))
    small = options.fits is not None
    until, tried = time.time() + 60 * options.minutes, []
    while time.time() < until and not (small and len(tried) >= options.fits):
        last = seed + min(SMALL_BATCH, options.fits - len(tried)) if small else seed + BATCH
        done = _batch(range(seed, last), until, small)
        tried += done
        # A worker that died left the cases after its last one.
        seed = max((entry["seed"] + 1 for entry in done), default=last)
        if options.log:
            with options.log.open("a", encoding="utf-8") as log:
                log.writelines(json.dumps(entry) + "\n" for entry in done)
        for entry in done:
            if entry["failure"]:
                _write(options.findings, entry["seed"], entry["failure"], small)
    _tell(tried)
    return 1 if any(entry["failure"] for entry in tried) else 0


def _tables(seeds: range) -> int:
    """Print the tables whose predictions by the command line are not those of Python, and how many there are."""
    from benchmarks.fuzz.tables import check

    failed = 0
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(seed, Path(folder))
            except Exception as error:
                failed += 1
                print(f"table {seed}: {type(error).__name__}: {error}", flush=True)
    print(f"{len(seeds)} tables, {failed} with other predictions than Python")
    return 1 if failed else 0


def _work(seeds: range, until: float, small: bool) -> None:
    """Try the cases of a worker, printing a line before and after each."""
    from benchmarks.fuzz.cases import ESTIMATORS, make, warm_up
    from benchmarks.fuzz.checks import check

    for name in ESTIMATORS:
        warm_up(name)  # compiling and loading are not part of a fit
    for seed in seeds:
        if time.time() > until:
            break
        print(json.dumps({"begin": seed}), flush=True)
        case, failure, status = make(seed, FEW_ROWS if small else MOST_ROWS), "", "refused"
        with tempfile.TemporaryDirectory() as folder:
            try:
                model = check(case, Path(folder), laws=not small)
                if model is not None:
                    found = model.status_ if isinstance(model.status_, list) else [model.status_]
                    status = ",".join(str(one) for one in found)
            except Exception as error:
                failure = f"{type(error).__name__}: {error}"
        print(json.dumps(_entry(case, seed, status, failure)), flush=True)


def _entry(case: Any, seed: int, status: str, failure: str) -> dict[str, Any]:
    return {
        "seed": seed,
        "estimator": case.estimator,
        "kind": case.kind,
        "tol": case.parameters["tol"],
        "rows": len(case.y),
        "status": status,
        "failure": failure,
        **{name: case.notes.get(name, 0) for name in ("seconds", "fits", "exact", "solved", "weak")},
    }


def _batch(seeds: range, until: float, small: bool) -> list[dict[str, Any]]:
    """Return the results of a worker and, if it died, the case that it was trying."""
    command = [sys.executable, "-m", "benchmarks.fuzz", "--worker", str(seeds.start), "--last", str(seeds.stop)]
    command += ["--until", str(until), *(["--fits", "0"] if small else [])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, errors = process.communicate(timeout=max(0.0, until - time.time()) + PATIENCE)
        died = process.returncode
    except subprocess.TimeoutExpired:
        process.kill()
        out, errors = process.communicate()
        died = -9
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    done = [line for line in lines if "seed" in line]
    begun = [line["begin"] for line in lines if "begin" in line]
    if died == 0 or len(begun) == len(done):
        return done
    from benchmarks.fuzz.cases import make

    reason = "did not end" if died == -9 else f"the process died ({died}): {errors.strip()[-300:]}"
    return [*done, _entry(make(begun[-1], FEW_ROWS if small else MOST_ROWS), begun[-1], "", reason)]


def _write(folder: Path, seed: int, failure: str, small: bool) -> None:
    from benchmarks.fuzz.cases import make
    from benchmarks.fuzz.shrink import script, shrunk

    print(f"seed {seed}: {failure}", flush=True)
    folder.mkdir(exist_ok=True)
    case = make(seed, FEW_ROWS if small else MOST_ROWS)
    if not failure.startswith(("did not end", "the process died")):
        case = shrunk(case)
    (folder / f"finding_{seed}.py").write_text(script(case, seed, failure.splitlines()[0]), encoding="utf-8")


def _tell(tried: list[dict[str, Any]]) -> None:
    failed = [entry for entry in tried if entry["failure"]]
    fits, exact, solved, weak = (sum(entry[name] for entry in tried) for name in ("fits", "exact", "solved", "weak"))
    print(f"\n{len(tried)} cases, {fits} fits, {len(failed)} violations")
    print(f"{exact} objectives in fractions, {solved} optima by others, of which {weak} were more than 1e-6 worse")
    for entry in failed:
        print(f"  seed {entry['seed']} {entry['estimator']} {entry['kind']}: {entry['failure'].splitlines()[0][:150]}")
    by_estimator: dict[str, Counter[str]] = defaultdict(Counter)
    by_kind: dict[str, Counter[str]] = defaultdict(Counter)
    groups: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for entry in tried:
        for status in entry["status"].split(","):
            by_estimator[entry["estimator"]][status] += 1
            by_kind[entry["kind"]][status] += 1
        groups[entry["estimator"], entry["rows"].bit_length()].append(entry)
    for name, counts in sorted(by_estimator.items()):
        print(f"  {name:20s} {dict(counts.most_common())}")
    print("numerical by kind of data")
    for name, counts in sorted(by_kind.items()):
        print(f"  {name:20s} {counts['numerical']} of {counts.total()}")
    slow = []
    for entries in groups.values():
        middle = statistics.median(entry["seconds"] for entry in entries)
        slow += [(entry["seconds"] / middle, entry) for entry in entries if len(entries) >= 10]
    for ratio, entry in sorted(slow, key=lambda one: -one[0])[:5]:
        mark = "!" if ratio > SLOW else " "
        what = f"seed {entry['seed']} {entry['estimator']} {entry['rows']} rows {entry['seconds']:.2f} s"
        print(f"{mark} {ratio:.1f} x the median: {what}")


if __name__ == "__main__":
    sys.exit(main())
