"""Generated data, benchmarks that compute objectives themselves, and the demo."""

import os
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from aidlearn import LADRegressor, open_source
from aidlearn.bench.peers import solvers
from aidlearn.cli.commands import generate
from aidlearn.cli.commands.bench import compare, job, programs
from exact_csv import read_csv


@pytest.mark.parametrize("kind", ["lad", "svm", "s3vm"])
def test_every_format_holds_the_same_data(ran, kind):
    X, y = generate.Generated(kind, 300, 3, seed=5, noise=0.7, labelled=0.3).arrays()
    own = ["--labelled", "0.3"] if kind == "s3vm" else []
    options = ["--rows", "300", "--cols", "3", "--seed", "5", "--noise", "0.7", *own]
    for extension in ("csv", "tsv", "parquet", "npy", "svmlight"):
        done = ran("generate", kind, *options, "-o", f"g.{extension}")
        assert (done.code, done.err) == (0, ""), done
        assert done.out.startswith(f"g.{extension}: 300 rows x 3 columns and the target, ")
    for table in (
        read_csv("g.csv"),
        read_csv("g.tsv", sep="\t"),
        pd.read_parquet("g.parquet"),
    ):
        assert list(table) == ["x0", "x1", "x2", "y"]
        np.testing.assert_array_equal(table[["x0", "x1", "x2"]], X)
        np.testing.assert_array_equal(table["y"], y)
    marked = np.where(np.isnan(y), -1, y)
    np.testing.assert_array_equal(np.load("g.npy"), np.column_stack([X, marked]))
    rows = open_source("g.svmlight").chunk(0)
    np.testing.assert_allclose(rows.X.toarray(), X, rtol=1e-15)
    np.testing.assert_allclose(rows.y, marked, rtol=1e-15)
    assert np.isnan(y).any() == (kind == "s3vm")
    done = ran("generate", kind, *options, "-o", "-")
    with open("g.csv") as file:
        assert done.out == file.read()


def test_blocks_are_bounded_and_do_not_change_with_more_rows(monkeypatch):
    monkeypatch.setattr(generate, "BLOCK_NUMBERS", 100)
    few, many = generate.Generated("lad", 57, 4), generate.Generated("lad", 75, 4)
    assert max(len(y) for _, y in many.blocks()) == 25
    np.testing.assert_array_equal(few.arrays()[0][:50], many.arrays()[0][:50])


def test_generated_data_have_what_they_promise():
    X, y = generate.Generated("lad", 20_000, 5, seed=1, noise=0.5).arrays()
    model = LADRegressor().fit(X, y)
    assert abs(model.intercept_ - 3) < 0.05
    assert model.objective_ / len(y) == pytest.approx(0.5, rel=0.05)  # mean of |Laplace| is its scale
    _, labels = generate.Generated("svm", 1000, 3).arrays()
    assert set(labels) == {-1.0, 1.0}


@pytest.mark.parametrize("kind", ["lad", "quantile", "svm", "svr", "kernel-svm"])
def test_benchmarks_agree_on_the_optimum(ran, kind):
    done = ran("bench", kind, "--rows", "400", "--cols", "3", "--tol", "1e-6", "--json")
    assert done.code == 0, done
    results = done.json["results"]
    assert results[0]["name"] == "aidlearn"
    assert results[0]["gap"] <= 1e-6
    assert len(results) > 1
    best = min(result["objective"] for result in results)
    for result in results:
        assert result["cpu"] >= 0  # the clock of R counts milliseconds
        assert result["objective"] <= best * (1 + 1e-2)
    assert results[0]["objective"] <= best * (1 + 2e-6)


def test_the_table_in_words(ran):
    done = ran("bench", "svm", "--rows", "400", "--cols", "2")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "svm: 400 rows x 2 columns, one thread"
    assert lines[2].split()[0] == "aidlearn"
    assert lines[2].split()[2] == "1x"


def test_programs_are_not_asked_beyond_their_size(monkeypatch):
    X, y = generate.Generated("lad", 500, 2).arrays()
    slow = SimpleNamespace(name="slow", command_rows=499, fit=lambda job: pytest.fail("was asked"))
    monkeypatch.setattr("aidlearn.cli.commands.bench.programs", lambda kind: [solvers(kind)["aidlearn"], slow])
    _, outcome = compare(job("lad", X, y), everyone=False, quiet=True)
    assert outcome.note == "not run above 499 rows (--all)"


def test_a_program_that_fails_is_a_note_and_the_others_are_shown(monkeypatch):
    X, y = generate.Generated("svm", 500, 2).arrays()
    failing = SimpleNamespace(fit=lambda job: SimpleNamespace(failed="out of memory", solution=None))
    peer = SimpleNamespace(name="failing", command_rows=10**6, fit=failing.fit)
    monkeypatch.setattr("aidlearn.cli.commands.bench.programs", lambda kind: [solvers(kind)["aidlearn"], peer])
    ours, other = compare(job("svm", X, y, C=1.0), everyone=False, quiet=True)
    assert (other.note, np.isnan(other.objective)) == ("out of memory", True)
    assert ours.objective > 0


def test_the_command_asks_what_is_installed_and_quick(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    names = [program.name for program in programs("lad")]
    assert names[:2] == ["aidlearn", "scikit-learn QuantileRegressor"]
    assert "R quantreg fn" not in names
    assert [program.name for program in programs("kernel-svm")] == ["aidlearn", "scikit-learn SVC"]


def test_demo(ran, monkeypatch):
    from aidlearn.cli.commands import demo

    monkeypatch.setattr(demo, "FEW_ROWS", 400)
    done = ran("demo", "--out", "here/demo", "--rows", "2000")
    assert done.code == 0, done
    assert sorted(os.listdir("here/demo")) == [
        "lad.aid",
        "lad.html",
        "lad.parquet",
        "svm.aid",
        "svm.html",
        "svm.parquet",
    ]
    assert "Reports: here/demo/lad.html and here/demo/svm.html" in done.out
    assert "scikit-learn QuantileRegressor" in done.out


def test_demo_without_pyarrow_writes_npy(ran, monkeypatch):
    from aidlearn.cli.commands import demo

    monkeypatch.setattr(demo, "FEW_ROWS", 400)
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    assert ran("demo", "--rows", "2000").code == 0
    assert "lad.npy" in os.listdir("aidlearn-demo")


def test_version_help_and_bare_commands(ran):
    import aidlearn

    assert ran("--version").out == f"aidlearn {aidlearn.__version__}\n"
    for arguments in ([], ["fit"], ["generate"], ["bench"], ["--help"], ["fit", "lad", "--help"]):
        done = ran(*arguments)
        assert (done.code, done.err) == (0, "")
        assert "Usage: aidlearn" in done.out
