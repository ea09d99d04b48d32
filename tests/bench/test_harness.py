"""Cells in processes of their own: whatever happens there is a row, and the table goes on."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.harness import cells as harness
from benchmarks.harness.cells import Cell, measured
from benchmarks.harness.datasets import DataSet, generated
from benchmarks.harness.table import TableLayout, compare, markdown, warnings

from aidlearn.bench.measure import Measurement

SMALL = generated("gaussian", 2000, 2)


def test_crashes_and_timeouts_do_not_end_the_table(monkeypatch, tmp_path):
    monkeypatch.setenv("AIDLEARN_DATA", str(tmp_path))
    slow = generated("gaussian", 20_000, 10)
    cells = [
        Cell("data", "crash", "os:abort"),
        Cell("data", "error", "json:loads", {"s": "{"}),
        Cell("data", "endless", "subprocess:run", {"args": ["sleep", "600"]}, timeout=3.0),
        measured("lad", slow, "scikit-learn QuantileRegressor", repeat=1, timeout=0.05),
        measured("svm", DataSet("celeba", "celeba", (202_599, 39), {}), settings={"C": 1.0}),
        measured("lad", DataSet("other", "gaussian", (7, 2), {"n": 5, "m": 2})),
        measured("lad", SMALL, tol=1e-6, repeat=1, colour="red"),
    ]
    seen = []
    rows = harness.run_all(cells, done=seen.append)
    assert [row["solver"] for row in rows] == [cell.solver for cell in cells]
    assert sorted(map(id, seen)) == sorted(map(id, rows))
    crash, error, endless, over, absent, shape, good = rows
    assert crash["failed"].startswith("process ended with code -6")
    assert "JSONDecodeError" in error["failed"]
    assert endless["failed"] == "over 3 s"
    assert (over["failed"], over["cpu_over"]) == ("over 0.05 s", 0.05)
    assert absent["skipped"].startswith("real/8_celeba.npz is not in the data folder; set AIDLEARN_DATA")
    assert "other has shape (5, 2), expected (7, 2)" in shape["failed"]
    assert (good["colour"], good["own"], good["rows"]) == ("red", True, 2000)
    assert good["objective"] == pytest.approx(good["claimed"], rel=1e-9)
    assert good["lower_bound"] <= good["objective"] * (1 + 1e-9)
    assert good["cpu"] > 0
    assert good["product"] > 0
    assert len(good["coef"]) == 3
    compare(rows, TableLayout())
    lines = markdown(rows, TableLayout()).splitlines()
    assert len(lines) == 2 + len(rows)
    assert [line.count("|") for line in lines] == [lines[0].count("|")] * len(lines)
    assert "failed: process ended with code -6" in lines[2]


def test_cells_at_once_and_slow_ones_last():
    cells = [Cell("data", f"{k}", "json:loads", {"s": f'{{"k": {k}}}'}, slow=k == 0) for k in range(3)]
    seen = []
    rows = harness.run_all(cells, jobs=2, done=seen.append)
    assert [row["k"] for row in rows] == [0, 1, 2]
    assert seen[-1]["k"] == 0


def test_cells_have_one_thread():
    code = "import json, os; print(json.dumps({k: os.environ[k] for k in os.environ if k.endswith('_NUM_THREADS')}))"
    with harness._environment(sys.executable) as variables:
        done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    assert {name: json.loads(done.stdout)[name] for name in harness.THREADS} == dict.fromkeys(harness.THREADS, "1")


def test_rows_are_kept_with_when_they_were_measured(tmp_path):
    for k in range(2):
        harness.save({"k": k}, tmp_path / "new" / "rows.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "new" / "rows.jsonl").read_text().splitlines()]
    assert [row["k"] for row in rows] == [0, 1]
    assert all("time" in row and "python" in row for row in rows)


def row(solver, objective=None, cpu=1.0, **more):
    known = {} if objective is None else {"objective": objective, "cpu": cpu}
    return {"data": "d", "solver": solver, "own": solver == "aidlearn"} | known | more


def test_peers_that_are_far_from_the_best_are_not_compared_with():
    rows = [row("aidlearn", 100.0, 2.0), row("far", 101.0, 1.0), row("near", 100.001, 6.0), row("gone", skipped="why")]
    rows.append(row("late", failed="over 9 s", cpu_over=9))
    compare(rows, TableLayout())
    ours, far, near, _, late = rows
    assert (far["far"], near["far"]) == (True, False)
    assert (ours["ratio"], far["ratio"], near["ratio"]) == (3.0, 0.5, 3.0)
    assert far["excess"] == pytest.approx(0.01)
    assert late["failed"] == "over 9 s, 4 times ours"
    table = markdown(rows, TableLayout())
    assert "| far " in table
    assert "skipped: why" in table


def test_objectives_over_the_best_proven_bound():
    rows = [row("aidlearn", 100.0, lower_bound=99.0), row("other", 99.5)]
    compare(rows, TableLayout(proven=True))
    assert [r["excess"] for r in rows] == pytest.approx([100 / 99 - 1, 99.5 / 99 - 1])


def test_warnings_of_solvers_and_of_a_source_that_changed():
    rows = [row("aidlearn", 1.0, source="a", notes=["careful"]), row("aidlearn", 1.0, source="b")]
    assert list(warnings(rows)) == [
        "warning from aidlearn on d: careful",
        "warning: the source of aidlearn changed during the run (a, b)",
    ]


ROOT = Path(__file__).parents[2]
NAMES = sorted(
    path.stem for path in (ROOT / "benchmarks").glob("*.py") if "benchmarks.harness.command import" in path.read_text()
)


def table(name, *arguments):
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", NAMES)
def test_every_table_has_the_same_command_line(name):
    options = ("--quick", "--no-peers", "--repeat", "1", "--tol", "1e-3", "--timeout", "9", "--jobs", "1", "--list")
    assert table(name, *options).strip()
    assert table(name, "--only", "no such cell", "--list") == "no cell of that name (--list)\n"


def test_a_table_from_the_command_line(tmp_path):
    output = tmp_path / "rows.jsonl"
    out = table("lad", "--quick", "--only", "5k x 10, aid", "5k x 10, R", "--repeat", "1", "--output", str(output))
    assert out.startswith("Least absolute deviation, tol=1e-06, one thread, best of 1\n\n| data ")
    assert [json.loads(line)["solver"] for line in output.read_text().splitlines()] == [
        "aidlearn",
        "R quantreg fn",
        "R quantreg pfn",
        "R quantreg sfn",
    ]


def test_a_fit_that_no_clock_has_seen_can_be_divided_by():
    out = Measurement()
    out.add_run(0.0, 0.001)
    assert out.cpu > 0
