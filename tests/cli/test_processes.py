"""What only a process of its own can show: signals, pipes, start-up."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from cli_support import COLUMNS, X, frame

from aidlearn import load_model


def command(*arguments):
    return [sys.executable, "-m", "aidlearn.cli", *map(str, arguments)]


def start(*arguments, **options):
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    # Tests that run in the background of a shell inherit that Ctrl-C is ignored.
    return subprocess.Popen(command(*arguments), text=True, preexec_fn=_heed_signals, **streams)


def _heed_signals():
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """Data that the paper's start needs many iterations for."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60_000, 21))
    rows[:, 20] = rows[:, :20] @ rng.normal(size=20) + rng.laplace(size=60_000)
    path = tmp_path_factory.mktemp("slow") / "slow.npy"
    np.save(path, rows)
    return path


QUANTILES = ["quantile", "--quantile", "0.2,0.5,0.7"]


@pytest.mark.parametrize(
    ("number", "options"), [(signal.SIGINT, ["lad"]), (signal.SIGTERM, ["lad"]), (signal.SIGINT, QUANTILES)]
)
def test_interrupted_fits_save_the_best_so_far(tmp_path, slow, number, options):
    kind, *own = options
    # A tolerance below what floating point can reach: only the signal ends it early.
    fit = start("fit", kind, slow, "-t", 20, "-o", tmp_path / "m.aid", "--init", "kmeans", "--tol", "0", "--json", *own)
    first = fit.stderr.readline()
    assert "iteration 1: gap" in first, first
    fit.send_signal(number)
    out, err = fit.communicate(timeout=120)
    assert fit.returncode == 2, err
    assert "Traceback" not in err
    assert '"status": "interrupted"' in out
    model = load_model(tmp_path / "m.aid")
    assert np.isfinite(model.objective_).all()
    assert (np.asarray(model.lower_bound_) <= model.objective_).all()
    assert model.predict(np.zeros((1, 20))).shape[0] == 1
    assert os.listdir(tmp_path) == ["m.aid"]


def test_an_interrupted_cross_validation_is_saved(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 6))
    rows[:, 5] = rows[:, :5].sum(axis=1) + rng.logistic(size=300) > 0
    np.save(tmp_path / "t.npy", rows)
    options = ["--cv", "3", "--penalties", "2000", "--json"]
    fit = start("fit", "svm", tmp_path / "t.npy", "-t", 5, "-o", tmp_path / "m.aid", *options)
    while not fit.stderr.readline().startswith("9 of 6,000 fits done"):
        assert fit.poll() is None
    fit.send_signal(signal.SIGINT)
    out, err = fit.communicate(timeout=120)
    assert fit.returncode == 2, err
    assert "Warning: The fit was stopped with" in err
    assert json.loads(out)["gap"] < 1
    model = load_model(tmp_path / "m.aid")
    assert model.lower_bound_ <= model.objective_
    assert len(model.predict(rows[:, :5])) == 300


@pytest.mark.parametrize("method", ["bootstrap", "nid"])
def test_interrupted_standard_errors_leave_the_fit(tmp_path, slow, method):
    fit = start("fit", "lad", slow, "-t", 20, "-o", tmp_path / "m.aid", "--se", method, "--json")
    assert "iteration 1: gap" in fit.stderr.readline()
    fit.send_signal(signal.SIGINT)
    _, err = fit.communicate(timeout=120)
    assert fit.returncode == 2, err
    model = load_model(tmp_path / "m.aid")
    assert "Warning: " in err or model.training_["summaries"]
    assert model.lower_bound_ <= model.objective_


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_before_there_is_anything(tmp_path, number):
    spool = tmp_path / "spool"
    spool.mkdir()
    environment = {**os.environ, "TMPDIR": str(spool)}
    fit = start("fit", "lad", "-", "-t", "y", "-o", tmp_path / "m.aid", stdin=subprocess.PIPE, env=environment)
    # More than a pipe holds: when it is written, the command is reading.
    fit.stdin.write("x,y\n" + "1,2\n" * 100_000)
    fit.stdin.flush()
    fit.send_signal(number)
    assert fit.wait(timeout=120) == 1
    err = fit.stderr.read()
    assert err == "Error: Interrupted before there was anything to save; nothing was written.\n"
    fit.stdin = None
    assert os.listdir(tmp_path) == ["spool"]
    assert os.listdir(spool) == []


def test_a_closed_pipe_ends_quietly(files, tmp_path):
    np.save(tmp_path / "many.npy", np.zeros((300_000, 3)))
    for arguments in (
        ["predict", files / "numbers.aid", tmp_path / "many.npy", "-o", "-"],
        ["generate", "lad", "--rows", "300000", "--cols", "3", "-o", "-"],
    ):
        writer = start(*arguments)
        assert writer.stdout.readline()
        writer.stdout.close()
        err = writer.stderr.read()
        assert (writer.wait(timeout=120), err) == (0, "")


def test_output_on_a_full_device(files):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command("predict", files / "lad.aid", files / "table.csv", "-o", "-"),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    assert done.stderr == "Error: No space left on device. Nothing was written.\n"


FULL, CLOSED = "> /dev/full", ">&-"


@pytest.mark.parametrize("stream", [FULL, CLOSED, f"2{FULL}", f"2{CLOSED}", f"{CLOSED} 2{CLOSED} <&-"])
def test_what_is_written_stays_whatever_happens_to_the_streams(files, tmp_path, stream):
    table, model = files / "table.csv", tmp_path / "m.aid"
    commands = {
        model: ["fit", "lad", table, "-t", "y", "--columns", COLUMNS, "-o", model, "--se", "nid"],
        tmp_path / "p.csv": ["predict", model, table, "-o", tmp_path / "p.csv", "--json"],
        tmp_path / "r.html": ["report", model, "-o", tmp_path / "r.html"],
        tmp_path / "b.csv": ["bootstrap", model, table, "-n", "5", "-o", tmp_path / "b.csv"],
        tmp_path / "g.csv": ["generate", "lad", "-n", "9", "-o", tmp_path / "g.csv"],
    }
    for path, arguments in commands.items() if stream == FULL else [(model, commands[model])]:
        done = subprocess.run(
            ["sh", "-c", f'exec "$@" {stream}', "sh", *command(*arguments)], capture_output=True, text=True
        )
        assert (done.returncode, path.exists()) == (0, True), done
        if stream in (FULL, CLOSED):
            assert f"Warning: {path} is written; standard output cannot be written: " in done.stderr


def test_help_on_a_full_device():
    with open("/dev/full", "w") as full:
        done = subprocess.run(command("fit", "lad", "--help"), stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "Error: No space left on device. Nothing was written.\n")


def test_predictions_for_a_closed_standard_output(files):
    arguments = command("predict", files / "lad.aid", files / "table.csv", "-o", "-")
    done = subprocess.run(["sh", "-c", f'exec "$@" {CLOSED}', "sh", *arguments], stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "Error: Standard output is closed.\n")


def test_names_that_the_terminal_cannot_show(tmp_path):
    frame()[[*X, "y"]].rename(columns={"x0": "größe", "x1": "😀"}).to_csv(tmp_path / "t.csv", index=False)
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}

    def ran(*arguments):
        return subprocess.run(command(*arguments), capture_output=True, text=True, env=environment, cwd=tmp_path)

    done = ran("fit", "lad", "t.csv", "-t", "y", "-o", "m.aid", "--se", "nid")
    assert (done.returncode, "gr\\xf6\\xdfe" in done.stdout) == (0, True), done
    found = json.loads(ran("inspect", "m.aid", "--json", "--top", "0").stdout)
    names = {entry["name"] for entry in found["fits"][0]["coefficients"]}
    assert names == {"größe", "😀", "x2"}


def test_a_pipeline(files, tmp_path):
    """generate | fit, then predict from standard input."""
    path = tmp_path / "m.aid"
    made = start("generate", "lad", "--rows", "500", "--cols", "2", "-o", "-")
    fit = start("fit", "lad", "-", "-t", "y", "-o", path, "-q", stdin=made.stdout)
    made.stdout.close()
    assert (fit.wait(timeout=120), made.wait(timeout=120)) == (0, 0)
    text = frame()[X].to_csv(index=False)
    done = subprocess.run(command("predict", path, "-", "-o", "-"), input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(frame()) + 1


def test_help_is_there_without_numpy():
    code = (
        "import sys; from aidlearn.cli import main; main(['fit', 'lad', '--help']); assert 'numpy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--memory-limit" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion_is_there(shell):
    environment = {**os.environ, "_AIDLEARN_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": "aidlearn fit "}
    environment |= {"COMP_WORDS": "aidlearn fit ", "COMP_CWORD": "2", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = subprocess.run(command(), capture_output=True, text=True, env=environment)
    assert "kernel-svm" in done.stdout, done


def test_nobody_looks_on(files, tmp_path):
    """A fit whose words nobody reads is saved all the same, with its own exit code."""
    model = tmp_path / "m.aid"
    rows = ["fit", "lad", files / "table.npy", "-t", "3", "--init", "kmeans", "--tol", "1e-9", "--max-iter", "2"]
    fit = start(*rows, "-o", model)
    fit.stdout.close()
    fit.stderr.close()
    assert fit.wait(timeout=120) == 2
    assert model.exists()
