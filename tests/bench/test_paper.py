"""The paper's experiments: printed numbers, data like its own, cells that are not measured twice, every table."""

import json
import os
import signal
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from benchmarks.harness.cells import Cell
from benchmarks.paper import generators, measured, published, semi, worker
from benchmarks.paper.__main__ import EXPERIMENTS, main
from benchmarks.paper.experiment import falls, markdown, scaled, why_not
from benchmarks.paper.store import Store, key, measure_all

from aidlearn import LADRegressor

NAMES = "lad-a lad-b lad-c svm-1 svm-2 svm-full s3vm-best s3vm-fixed s3vm-time kernel r0 rates birch dual illustrations"


def test_printed_ratios_are_those_of_the_printed_times():
    """A slip of a column would show: rho is AID's time over the peer's, up to rounding of both."""
    for table in (published.LAD_A, published.SVM_IBM, published.SVM_RCV, published.SVM_LARGE):
        for row in table.values():
            if min(row["seconds"], row["peer"]) >= 20:
                assert row["rho"] == pytest.approx(row["seconds"] / row["peer"], rel=0.1, abs=0.006)
    for (_, m), row in published.LAD_A.items():
        assert row["r0"] >= m / 1_600_000
    assert published.best_published("Text", 100) == 77.69
    assert (1_600_000, 800) not in published.LAD_A
    for rows in published.FULL.values():
        assert (np.diff([row["bound"] for row in rows]) > 0).all()
        assert all(np.diff([row["rate"] for row in rows]) > 0)


def test_sizes_at_a_scale():
    assert scaled(1_600_000, 500, 1.0) == (1_600_000, 500)
    assert scaled(400_000, 100, 0.25) == (100_000, 50)
    assert scaled(1000, 10, 1e-6) == (1000, 3)


@pytest.mark.parametrize("kind", ["lad", "ibm", "rcv"])
def test_data_are_the_same_for_a_seed_and_instances_differ(kind):
    X, y = generators.KINDS[kind](2000, 8, 3)
    again, other = generators.KINDS[kind](2000, 8, 3), generators.KINDS[kind](2000, 8, 4)
    assert (again[0] == X).all()
    assert (y == again[1]).all()
    assert (other[0] != X).any()
    assert X.flags.c_contiguous
    assert np.isfinite(X).all()


def test_ibm_has_a_rare_class_and_rcv_mostly_zeros():
    assert 0.003 < (generators.ibm(50_000, 5, 0)[1] > 0).mean() < 0.007
    X, y = generators.rcv(20_000, 10, 0)
    assert (X == 0).mean() > 0.8
    assert (X >= 0).all()
    assert 0.5 < (y > 0).mean() < 0.54


def test_a_faithful_fit_stops_by_the_paper_s_rule_and_keeps_proven_bounds():
    row = measured.fit("lad", 3000, 4, 0, "lad", "faithful auto", 60.0, 8.0, keep_history=True)
    optimum = LADRegressor(tol=1e-9).fit(*generators.lad(3000, 4, 0)).objective_
    assert row["paper_gap"] <= 1e-3
    assert len(row["F"]) == row["iterations"] == len(row["history"])
    assert max(row["bounds"]) <= optimum * (1 + 1e-9)
    assert row["F"] == pytest.approx(row["bounds"], rel=1e-2)
    assert row["objective"] == pytest.approx(row["claimed"], rel=1e-9)
    assert row["rate0"] == pytest.approx(2 * 4 / 3000, rel=0.3)
    assert row["start_cpu"] > 0


@pytest.mark.parametrize("solver", ["default", "faithful libsvm", "faithful liblinear", "scikit-learn LinearSVC"])
def test_one_judge_for_all(solver):
    best = measured.fit("rcv", 2000, 5, 0, "svm", "default", 60.0, 8.0, params={"tol": 1e-9})
    row = measured.fit("rcv", 2000, 5, 0, "svm", solver, 60.0, 8.0)
    assert best["bound"] * (1 - 1e-9) <= row["objective"] <= best["objective"] * 1.02
    assert 0.5 < row["train"] <= 1


def test_what_needs_too_much_memory_is_marked():
    assert "needs about" in measured.fit("lad", 10**6, 800, 0, "lad", "default", 1.0, 2.0)["failed"]


def exits(code: int, limit: float = 1.0) -> dict:
    os.kill(os.getpid(), code)
    return {}


def counted(path: str, n: int = 5, m: int = 5, kind: str = "x", limit: float = 1.0) -> dict:
    with open(path, "a") as file:
        file.write("called\n")
    return {"cpu": 1.0, "n": n}


def cell(function, own=True, **arguments):
    return Cell("data", "solver", f"{__name__}:{function.__name__}", arguments, timeout=30.0, own=own)


def test_crashes_and_limits_are_rows(monkeypatch):
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    assert "code -9" in worker.run(cell(exits, code=int(signal.SIGKILL)))["failed"]
    over = worker.run(cell(exits, code=int(signal.SIGXCPU), limit=7))
    assert (over["failed"], over["cpu_over"]) == ("over 7 s", 7)
    assert "TypeError" in worker.run(cell(counted))["failed"]


def test_a_run_goes_on_where_it_stopped(tmp_path):
    count = tmp_path / "count"
    cells = [cell(counted, path=str(count), n=n) for n in (1, 2)]
    first = measure_all(cells[:1], Store(tmp_path), False, lambda *told: None)
    with open(tmp_path / "cells.jsonl", "a") as file:
        file.write('{"key": "cut of')  # killed while it wrote
    rows = measure_all(cells, Store(tmp_path), False, lambda *told: None)
    assert rows[0]["time"] == first[0]["time"]
    assert len(count.read_text().splitlines()) == 2
    assert key(cells[0]) != key(cells[1])
    assert key(cells[0]) == key(cell(counted, path=str(count), n=1, limit=99.0))


def test_a_peer_is_not_asked_beyond_its_limit(tmp_path):
    count = tmp_path / "count"
    small = cell(exits, own=False, code=int(signal.SIGXCPU))
    small.arguments.update(n=5, m=5, kind="x", limit=3.0)
    # What ends by SIGXCPU is the function; its arguments are those of a size.
    store = Store(tmp_path)
    store.add(
        small,
        {
            "data": "data",
            "solver": "solver",
            "own": False,
            "arguments": small.arguments,
            "cpu_over": 3.0,
            "failed": "over 3 s",
        },
    )
    larger = cell(counted, own=False, path=str(count), n=6, m=5, kind="x", limit=3.0)
    other = cell(counted, own=False, path=str(count), n=6, m=4, kind="x", limit=3.0)
    rows = measure_all([small, larger, other], store, False, lambda *told: None)
    assert rows[1]["failed"] == "not run: over 3 s already at 5 x 5"
    assert why_not(rows[1:2]) == "> 3"
    assert rows[2]["n"] == 6


def test_trends_and_tables():
    assert falls([3.0, 2.0, 1.0])
    assert not falls([1.0, 2.0, 3.0])
    assert markdown(["a"], [["1"]]).splitlines() == ["| a |", "|---|", "| 1 |"]
    assert semi.mean_with_error([0.5, 0.6]) == "55.0 +- 5.0"


def test_all_names_are_there(capsys):
    assert set(NAMES.split()) <= set(EXPERIMENTS)
    assert main(["--list"]) == 0
    told = capsys.readouterr().out
    assert all(name in told for name in NAMES.split())
    assert main(["lad-z"]) == 2
    assert "unknown experiment 'lad-z'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "only"),
    [
        ("lad-a", ["1,000 x 3 "]),
        ("svm-2", ["1,000 x 3 "]),
        ("svm-full", ["default", "auto"]),
        ("r0", ["initial_rate=0.05"]),
        ("rates", ["1,000 x 3 "]),
        ("birch", ["rcv"]),
        ("dual", ["rcv"]),
        ("kernel", ["rows", ", kmeans"]),
        ("illustrations", [""]),
        ("s3vm-exact", ["plane 40"]),
    ],
)
def test_every_table_is_written(name, only, tmp_path, capsys):
    options = ["--scale", "0.001", "--repeat", "1", "--no-peers", "--folder", str(tmp_path), "--only", *only]
    assert main([name, *options]) == 0
    text = (tmp_path / f"{name}.md").read_text()
    assert f"# {name}: " in text
    assert text.count("\n| ") >= 1
    assert "failed" not in text
    assert "nan" not in text
    table = pq.read_table(tmp_path / f"{name}.parquet")
    assert table.num_rows >= 1
    assert "cpu" in table.column_names
    rows = [json.loads(line) for line in (tmp_path / "cells.jsonl").read_text().splitlines()]
    assert not [row["failed"] for row in rows if row.get("failed")]
    pictures = EXPERIMENTS[name].pictures or {}
    assert len(list(tmp_path.glob("*.png"))) == len(pictures)
