"""Models and checkpoints looked at, continued and reported."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from cli_support import COLUMNS, X, frame

from aidlearn import LADRegressor, LinearSVC, load_model, save_model

PAPER = ["--init", "kmeans", "--tol", "1e-9"]


def test_inspect_json_is_the_model(ran, files):
    told = ran("inspect", files / "lad.aid", "--json").json
    model = load_model(files / "lad.aid")
    [fit] = told["fits"]
    assert (fit["objective"], fit["lower_bound"], fit["intercept"]) == (
        model.objective_,
        model.lower_bound_,
        model.intercept_,
    )
    found = {entry["name"]: entry["value"] for entry in fit["coefficients"]}
    assert found == dict(zip(X, model.coef_, strict=True))
    sizes = [abs(entry["value"]) for entry in fit["coefficients"]]
    assert sizes == sorted(sizes, reverse=True)
    assert told["training"]["target"] == "y"


def test_inspect_in_words(ran, files):
    done = ran("inspect", files / "lad.aid", "--top", "2")
    model = load_model(files / "lad.aid")
    assert done.code == 0
    assert model.status_.sentence in done.out
    assert "and 1 smaller ones" in done.out
    largest = X[np.abs(model.coef_).argmax()]
    lines = [line.split()[0] for line in done.out.splitlines() if line.strip()]
    assert lines[lines.index("(intercept)") + 1] == largest
    assert "quantile 0.1" in ran("inspect", files / "quantile.aid").out
    assert "against the rest" in ran("inspect", files / "three.aid", "--top", "0").out


def test_inspect_a_model_of_python(ran, tmp_path):
    """Saved without facts about its training, its kernel not linear in the columns."""
    from aidlearn import SVC

    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 2))
    save_model(SVC(solver="libsvm").fit(rows, rows[:, 0] > 0), tmp_path / "k.aid")
    done = ran("inspect", "k.aid")
    assert done.code == 0, done
    assert "support vectors" in done.out
    assert ran("inspect", "k.aid", "--json").json["n_support"] > 0


def test_inspect_a_checkpoint(ran, files):
    done = ran("inspect", files / "run.ckpt")
    assert done.code == 0
    assert "Checkpoint of LADRegressor" in done.out
    assert f"aidlearn resume {files / 'run.ckpt'} -o MODEL" in done.out
    told = ran("inspect", files / "run.ckpt", "--json").json
    assert told["resumable"] is True


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("lad", ["-t", "y"]),
        ("quantile", ["-t", "y", "--quantile", "0.2,0.8"]),
        ("svm", ["-t", "three", "--class-weight", "0=2,1=1,2=3"]),
        ("svr", ["-t", "y", "--weight", "w"]),
        ("piecewise", ["-t", "y", "--kinks", "-1,2", "--slopes", "-1,0.5,3"]),
    ],
)
def test_a_resumed_fit_ends_with_the_same_bits(ran, files, kind, options):
    shutil.copy(files / "table.csv", "table.csv")
    command = ["fit", kind, "table.csv", *options, "--columns", COLUMNS, *PAPER]
    assert ran(*command, "-o", "whole.aid", "-q").code == 0
    stopped = ran(*command, "-o", "part.aid", "--checkpoint", "run.ckpt", "--max-iter", "1")
    assert stopped.code == 2, stopped
    assert ran("inspect", "run.ckpt").code == 0
    done = ran("resume", "run.ckpt", "-o", "resumed.aid")
    assert done.code == 0, done
    whole, resumed = load_model("whole.aid"), load_model("resumed.aid")
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)
    np.testing.assert_array_equal(resumed.lower_bound_, whole.lower_bound_)
    assert resumed.training_["columns"] == X
    assert ran("predict", "resumed.aid", "table.csv", "-o", "p.csv").code == 0


def test_numbers_of_numpy_are_numbers(ran, files):
    shutil.copy(files / "table.csv", "table.csv")
    given = {"C": np.float64(2.0), "init": "kmeans", "tol": 1e-9}
    whole = LinearSVC(**given).fit("table.csv", "three")
    LinearSVC(**given, checkpoint="run.ckpt", max_iter=1).fit("table.csv", "three")
    assert ran("resume", "run.ckpt", "-o", "resumed.aid", "--max-iter", "100").code == 0
    np.testing.assert_array_equal(load_model("resumed.aid").coef_, whole.coef_)


@pytest.mark.parametrize(
    ("kind", "target"), [("kernel-svm", "three"), ("kernel-svr", "y"), ("s3vm", "label")], ids=["svm", "svr", "s3vm"]
)
def test_machines_of_rows_in_memory_are_resumed(ran, files, kind, target):
    shutil.copy(files / "table.csv", "table.csv")
    command = [
        "fit",
        kind,
        "table.csv",
        "-t",
        target,
        "--columns",
        f"{COLUMNS},city",
        "--init",
        "kmeans",
        "--tol",
        "1e-9",
    ]
    command += ["--max-iter", "4"]
    ran(*command, "-o", "whole.aid", "-q")
    ran(*command[:-1], "1", "-o", "part.aid", "--checkpoint", "run.ckpt", "-q")
    done = ran("resume", "run.ckpt", "-o", "resumed.aid", "--max-iter", "4", "--json")
    assert done.code in (0, 2), done
    whole, resumed = load_model("whole.aid"), load_model("resumed.aid")
    np.testing.assert_array_equal(resumed.intercept_, whole.intercept_)
    np.testing.assert_array_equal(resumed.objective_, whole.objective_)
    np.testing.assert_array_equal(resumed.lower_bound_, whole.lower_bound_)
    assert list(resumed.feature_names_in_) == list(whole.feature_names_in_)
    for name, out in (("whole.aid", "w.csv"), ("resumed.aid", "r.csv")):
        assert ran("predict", name, "table.csv", "-o", out).code == 0
    assert Path("w.csv").read_text() == Path("r.csv").read_text()


def test_limits_of_a_resumed_fit_count_from_now(ran, files):
    shutil.copy(files / "table.csv", "table.csv")
    command = ["fit", "lad", "table.csv", "-t", "y", "--columns", COLUMNS, "--init", "kmeans", "--tol", "0"]
    assert ran(*command, "-o", "a.aid", "--checkpoint", "run.ckpt", "--max-iter", "2").code == 2
    before = len(load_model("a.aid").history_)
    done = ran("resume", "run.ckpt", "-o", "b.aid", "--max-iter", "1", "--json")
    # The checkpoint was written before the last iteration of the first run.
    assert done.json["fits"][0]["n_iter"] == before
    assert done.code == 2


def test_changed_and_lost_data_are_noticed(ran, files):
    shutil.copy(files / "table.csv", "table.csv")
    command = ["fit", "lad", "table.csv", "-t", "y", "--columns", COLUMNS, *PAPER, "--checkpoint", "run.ckpt"]
    assert ran(*command, "-o", "a.aid", "--max-iter", "1").code == 2
    table = frame()
    table.loc[0, "x0"] += 1
    table.to_csv("table.csv", index=False)
    done = ran("resume", "run.ckpt", "-o", "b.aid")
    assert done.code == 1
    assert "belongs to a fit of other data" in done.err
    Path("table.csv").unlink()
    done = ran("resume", "run.ckpt", "-o", "b.aid")
    assert (done.code, "are no longer there" in done.err) == (1, True)
    assert not Path("b.aid").exists()


def test_what_cannot_be_resumed_says_so(ran, tmp_path):
    table = frame()
    rows, y = table[X].to_numpy(), table["y"].to_numpy()
    LADRegressor(checkpoint=tmp_path / "python.ckpt", init="kmeans", max_iter=1, tol=0).fit(rows, y)
    done = ran("resume", "python.ckpt", "-o", "m.aid")
    assert (done.code, "data in a Python program" in done.err) == (1, True)
    assert "run the same fit again" in ran("inspect", "python.ckpt").out
    text = table[[*X, "y"]].to_csv(index=False)
    command = ["fit", "lad", "-", "-t", "y", *PAPER, "-o", "m.aid", "--checkpoint", "stdin.ckpt"]
    assert ran(*command, "--max-iter", "2", stdin=text).code == 2
    done = ran("resume", "stdin.ckpt", "-o", "n.aid")
    assert (done.code, "standard input, which is gone" in done.err) == (1, True)
    done = ran(*command, stdin=text)  # the same command goes on, as the message says
    assert done.code == 0
    assert "iteration 1:" not in done.err


@pytest.mark.parametrize("model", ["lad", "quantile", "svm", "three", "stopped"])
def test_reports(ran, files, model):
    done = ran("report", files / f"{model}.aid", "-o", "page.html")
    assert (done.code, done.out, done.err) == (0, "page.html written\n", "")
    text = Path("page.html").read_text(encoding="utf-8")
    assert text.lower().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("kind", "options", "newest"),
    [("lad", ["-t", "y"], "run.ckpt"), ("quantile", ["-t", "y", "--quantile", "0.2,0.8"], "run.ckpt.1")],
)
@pytest.mark.parametrize("damage", ["cut", "flipped", "gone"])
def test_a_damaged_checkpoint_goes_on_from_the_one_before(ran, files, kind, options, newest, damage):
    shutil.copy(files / "table.csv", "table.csv")
    command = ["fit", kind, "table.csv", *options, "--columns", COLUMNS, *PAPER]
    assert ran(*command, "-o", "whole.aid", "-q").code == 0
    assert ran(*command, "-o", "part.aid", "--checkpoint", "run.ckpt", "--max-iter", "3").code == 2
    path = Path(newest)
    content = path.read_bytes()
    assert Path(f"{newest}.previous").exists()
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        path.write_bytes(content[:99] + bytes([content[99] ^ 1]) + content[100:])
    looked = ran("inspect", "run.ckpt")
    assert looked.code == 0, looked
    done = ran("resume", "run.ckpt", "-o", "resumed.aid")
    assert done.code == 0, done
    if damage != "gone":
        assert "Shown is its predecessor" in looked.err
        assert f"Continuing from the previous one, {newest}.previous" in done.err
    np.testing.assert_array_equal(load_model("resumed.aid").coef_, load_model("whole.aid").coef_)


def test_checkpoints_that_are_both_damaged_are_refused(ran, files):
    for name in ("run.ckpt", "run.ckpt.previous"):
        Path(name).write_bytes((files / "run.ckpt").read_bytes()[:500])
    done = ran("resume", "run.ckpt", "-o", "m.aid")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "There is no other" in done.err
