"""Programs that are missing say so; R is run by files."""

import os
import stat
import sys

import numpy as np
import pytest
from benchmarks.harness import cells as harness
from benchmarks.harness.datasets import gaussian, generated, many_levels
from benchmarks.harness.peers import MORE, solvers

from aidlearn import LADRegressor
from aidlearn.bench.judge import Data, objective
from aidlearn.bench.peers import SOLVERS
from aidlearn.bench.solvers import Job


def program(folder, name, text):
    """An executable file, and nothing else is found."""
    path = folder / name
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IEXEC)


@pytest.fixture
def path(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


@pytest.mark.parametrize("problem", ["lad", "quantile", "svm", "svr", "kernel-svm"])
def test_every_problem_has_ours_first_and_a_peer_that_is_always_there(problem):
    ours, *others = solvers(problem).values()
    assert ours.name == "aidlearn"
    assert any(other.name.startswith("scikit-learn") and other.missing() is None for other in others)
    assert len(solvers(problem)) == sum(problem in solver.solves for solver in (*SOLVERS, *MORE))  # names differ


def test_missing_programs_and_packages_are_rows_with_a_reason(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("AIDLEARN_PEERS_PYTHON", raising=False)
    monkeypatch.setattr("aidlearn.bench.solvers.find_spec", lambda name: None)
    monkeypatch.setattr("benchmarks.harness.peers.find_spec", lambda name: None)
    data = generated("two_classes", 1000, 2)
    for problem, name, reason in (
        ("lad", "R quantreg fn", "Rscript is not installed"),
        ("lad", "statsmodels QuantReg", "statsmodels is not installed"),
        ("svm", "libocas", "svmocas is not installed"),
        ("svm", "rehline", "rehline is not installed"),
        ("kernel-svm", "scikit-learn-intelex SVC float32", "sklearnex is not installed"),
    ):
        row = harness.run(harness.measured(problem, data, name, settings={"C": 1.0}))
        assert (row["solver"], row["skipped"]) == (name, reason)


def test_programs_are_not_asked_beyond_their_size():
    row = harness.run(harness.measured("lad", generated("gaussian", 30_000, 2), "scikit-learn QuantileRegressor"))
    assert row["skipped"] == "too slow: n > 20,000"


def test_an_interpreter_of_its_own_for_peers(monkeypatch, tmp_path):
    monkeypatch.setattr("aidlearn.bench.solvers.find_spec", lambda name: None)
    monkeypatch.setattr("benchmarks.harness.peers.find_spec", lambda name: None)
    for text, key, reason in (
        ("#!/nowhere/python\n", "skipped", "the interpreter for peers does not start"),
        ("#!/bin/sh\nkill -SEGV $$\n", "failed", "process ended with code -11"),
        (f'#!/bin/sh\nexec {sys.executable} "$@"\n', "skipped", "rehline is not installed"),
    ):
        program(tmp_path, "python", text)
        monkeypatch.setenv("AIDLEARN_PEERS_PYTHON", str(tmp_path / "python"))
        cell = harness.measured("svm", generated("two_classes", 1000, 2), "rehline", settings={"C": 1.0})
        assert cell.python == str(tmp_path / "python")
        row = harness.run(cell)
        assert row.get(key, "").startswith(reason) or "objective" in row, row


def test_quantreg_is_run_by_files(path):
    """A stand-in for Rscript reads and writes what the script in R does."""
    program(
        path,
        "Rscript",
        f"""#!{sys.executable}
import sys
import numpy as np
from aidlearn import QuantileRegressor
_, script, folder, n, p, tau, method, repeats, patience = sys.argv[1:]
assert "rq.fit.fnb" in open(script).read()
X = np.fromfile(folder + "/X").reshape(int(p), int(n)).T
assert (X[:, 0] == 1).all()
model = QuantileRegressor(quantile=float(tau), fit_intercept=False, tol=1e-9).fit(X, np.fromfile(folder + "/y"))
model.coef_.tofile(folder + "/coef")
with open(folder + "/report", "w") as file:
    file.write(f"extra 1000\\nrun 1.5 2.5\\nrun 1.25 2.75\\nwarning {{method}} of {{repeats}}\\niterations 7\\ndone\\n")
""",
    )
    job = Job("quantile", Data(*gaussian(500, 2)), {"quantile": 0.8}, tol=1e-9, repeat=2)
    out = solvers("quantile")["R quantreg fn"].fit(job)
    assert (out.failed, out.cpu, out.wall, out.runs, out.iterations) == (None, 1.25, 2.5, [1.5, 1.25], 7)
    assert (out.extra_bytes, out.notes) == (1000.0, ["fn of 2"])
    ours = solvers("quantile")["aidlearn"].fit(job)
    values = [objective("quantile", job.data, found.solution, quantile=0.8) for found in (out, ours)]
    assert values[0] == pytest.approx(values[1], rel=1e-8)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ('echo "failed quantreg is not installed" > "$3/report"', "quantreg is not installed"),
        ("echo 'cannot allocate' >&2\nexit 3", "R ended with code 3: cannot allocate"),
    ],
)
def test_quantreg_that_fails_says_why(path, script, reason):
    program(path, "Rscript", f"#!/bin/sh\n{script}\n")
    out = solvers("lad")["R quantreg pfn"].fit(Job("lad", Data(*gaussian(500, 2))))
    assert (out.failed, out.solution) == (reason, None)


@pytest.mark.parametrize("problem", ["lad", "quantile", "svm", "svr", "kernel-svm"])
def test_programs_that_are_here_agree_on_the_optimum(problem):
    X, y = gaussian(400, 3)
    data = Data(X, np.sign(y - 0.3) if "svm" in problem else y)
    settings = {"lad": {}, "quantile": {"quantile": 0.8}, "svr": {"C": 1.0, "epsilon": 0.1}}.get(problem, {"C": 1.0})
    values = {}
    for solver in solvers(problem).values():
        if solver.missing() is None and "intelex" not in solver.name:  # which would hold the tests to one core
            out = solver.fit(Job(problem, data, settings, tol=1e-6))
            values[solver.name] = objective(problem, data, out.solution, **settings)
    assert len(values) > 1
    assert max(values.values()) <= min(values.values()) * (1 + 1e-2)
    assert values["aidlearn"] <= min(values.values()) * (1 + 2e-6)


@pytest.mark.skipif(solvers("lad")["R quantreg sfn"].missing() is not None, reason="R is not installed")
def test_sparse_rows_reach_r():
    X, y = many_levels(2000, 30, 10)
    done = solvers("lad")["R quantreg sfn"].fit(Job("lad", Data(X, y)))
    if done.failed == "quantreg is not installed":
        pytest.skip(done.failed)
    optimum = LADRegressor(tol=1e-9).fit(X.toarray(), y).objective_
    assert objective("lad", Data(X, y), done.solution) == pytest.approx(optimum, rel=1e-4)


def test_peers_take_sparse_rows_with_long_indices():
    X, y = many_levels(600, 10, 5)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    data = Data(X, np.where(y > np.median(y), 1.0, -1.0))
    values = []
    for name in ("aidlearn", "scikit-learn LinearSVC"):
        found = solvers("svm")[name].fit(Job("svm", data, {"C": 1.0}, tol=1e-6)).solution
        values.append(objective("svm", data, found, C=1.0))
    assert values[0] <= values[1] * (1 + 1e-6)
    assert values[1] <= values[0] * 1.05
