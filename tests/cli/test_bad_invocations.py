"""What a user can get wrong: each gives one helpful line, exit code 1, no traceback, and nothing written."""

import os
import pickle
import shutil

import numpy as np
import pytest
from cli_cases import BAD

from aidlearn import LADRegressor
from aidlearn.cli import main
from exact_csv import read_csv


def prepare(folder, files):
    """Broken files beside sound ones."""
    table = read_csv(files / "table.csv")
    numbers = table[["x0", "x1", "x2", "y"]]
    numbers.to_csv(folder / "good.csv", index=False)
    last_nan = numbers.copy()
    last_nan.loc[len(table) - 1, "x1"] = np.nan
    last_nan.to_csv(folder / "last_nan.csv", index=False)
    infinite = numbers.copy()
    infinite.loc[7, "x2"] = np.inf
    infinite.to_csv(folder / "infinite.csv", index=False)
    nan_target = numbers.copy()
    nan_target.loc[5, "y"] = np.nan
    nan_target.to_csv(folder / "nan_target.csv", index=False)
    negative = numbers.assign(w=-1.0)
    negative.to_csv(folder / "negative_weight.csv", index=False)
    lines = (folder / "good.csv").read_text().splitlines()
    (folder / "text_late.csv").write_text("\n".join([*lines, "1,2,three,4"]) + "\n")
    (folder / "ragged.csv").write_text("\n".join([*lines, "1,2"]) + "\n")
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("x0,x1,x2,y\n")
    (folder / "twice.csv").write_text("a,a,y\n1,2,3\n4,5,6\n")
    (folder / "only_target.csv").write_text("y\n1\n2\n")
    (folder / "bytes.csv").write_bytes(bytes(range(256)) * 20)
    (folder / "fake.parquet").write_text("x0,y\n1,2\n")
    (folder / "fake.npy").write_bytes(b"no array")
    (folder / "fake.svmlight").write_text("one two three\n")
    np.save(folder / "flat.npy", np.arange(5.0))
    np.save(folder / "two.npy", np.zeros((6, 2)))
    np.save(folder / "objects.npy", np.array([[None, "a"]], dtype=object), allow_pickle=True)
    (folder / "cut.npy").write_bytes((files / "table.npy").read_bytes()[:-100])
    (folder / "no_parquet").mkdir()
    (folder / "other.txt").write_text("x0,y\n1,2\n")
    (folder / "unlabelled.csv").write_text("x0,y\n1,\n2,\n3,\n")
    (folder / "one_label.csv").write_text("x0,y\n1,a\n2,\n3,a\n")
    (folder / "decimals.csv").write_text("x0,y\n1,0.5\n2,1.5\n3,\n")
    (folder / "new_city.csv").write_text("x0,x1,x2,city\n1,2,3,Berlin\n")
    data = (files / "lad.aid").read_bytes()
    (folder / "cut.aid").write_bytes(data[: len(data) // 2])
    (folder / "changed.aid").write_bytes(data.replace(b"LADRegressor", b"LADRegressoR", 1))
    (folder / "pickle.aid").write_bytes(pickle.dumps(LADRegressor()))
    (folder / "empty.aid").write_bytes(b"")
    (folder / "folder.aid").mkdir()
    ckpt = (files / "run.ckpt").read_bytes()
    (folder / "cut.ckpt").write_bytes(ckpt[: len(ckpt) // 2])
    for name in ("lad.aid", "svm.aid", "hot.aid", "numbers.aid", "sparse.aid", "run.ckpt", "table.csv", "table.npy"):
        shutil.copy(files / name, folder / name)
    os.symlink("/nowhere/at/all", folder / "dangling.aid")


@pytest.fixture(scope="session")
def prepared(files, tmp_path_factory):
    made = tmp_path_factory.mktemp("broken")
    prepare(made, files)
    return made


@pytest.fixture
def folder(prepared, tmp_path):
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True, symlinks=True)
    return tmp_path


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("arguments", "expected"), BAD)
def test_bad_invocation(ran, folder, arguments, expected):
    before = content(folder)
    done = ran(*arguments.split(" "))
    assert done.code == 1, done
    assert done.out == ""
    lines = done.err.splitlines()
    assert lines[0].startswith("Error: "), done.err
    assert len(lines) <= 2, done.err
    assert expected in done.err, done.err
    assert "Traceback" not in done.err
    assert str(folder) not in lines[0] or "/" in arguments, "paths are told as they were given"
    assert content(folder) == before, "nothing is written or changed"


def test_there_are_many():
    assert len(BAD) >= 90
    assert len({arguments for arguments, _ in BAD}) == len(BAD)


def test_debug_shows_the_traceback(ran, folder):
    done = ran("fit", "lad", "last_nan.csv", "-t", "y", "-o", "m.aid", "--debug")
    assert done.code == 1
    assert "Traceback" in done.err
    assert done.err.splitlines()[-1].startswith("Error: Input X contains NaN")


def test_unexpected_errors_of_libraries_are_one_line(ran, folder, monkeypatch):
    def broken(*args, **options):
        raise ZeroDivisionError("first line\nsecond line")

    monkeypatch.setattr("aidlearn.cli.commands.fit.open_data", broken)
    done = ran("fit", "lad", "good.csv", "-t", "y", "-o", "m.aid")
    assert done.code == 1
    assert done.err == "Error: ZeroDivisionError: first line (run with --debug to see the traceback)\n"


@pytest.mark.parametrize("error", [MemoryError(), OSError(28, "No space left on device", "m.aid")])
def test_no_memory_and_no_disk(ran, folder, monkeypatch, error):
    def broken(*args, **options):
        raise error

    monkeypatch.setattr("aidlearn.cli.commands.fit.open_data", broken)
    done = ran("fit", "lad", "good.csv", "-t", "y", "-o", "m.aid")
    assert done.code == 1
    assert len(done.err.splitlines()) == 1
    assert not (folder / "m.aid").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        "fit lad good.csv -t y -o m.aid",
        "predict lad.aid good.csv -o p.csv",
        "predict lad.aid good.csv -o p.npy",
        "predict lad.aid good.csv -o p.parquet",
        "generate lad --rows 100 --cols 2 -o g.csv",
        "report lad.aid -o r.html",
    ],
)
def test_a_full_disk_leaves_nothing_half_written(ran, folder, monkeypatch, arguments):
    def full(*args):
        raise OSError(28, "No space left on device")

    before = content(folder)
    monkeypatch.setattr(os, "replace" if arguments.startswith("report") else "fsync", full)
    done = ran(*arguments.split())
    assert done.code == 1, done
    assert "No space left on device" in done.err
    assert done.err.startswith(("Error: ", "iteration 1"))
    assert content(folder) == before


def test_existing_outputs_survive_a_failure(ran, folder):
    (folder / "m.aid").write_text("precious")
    assert ran("fit", "lad", "last_nan.csv", "-t", "y", "-o", "m.aid").code == 1
    assert (folder / "m.aid").read_text() == "precious"
    (folder / "p.csv").write_text("precious")
    assert ran("predict", "lad.aid", "last_nan.csv", "-o", "p.csv").code == 1
    assert (folder / "p.csv").read_text() == "precious"


def test_stdin_that_is_empty_or_broken(ran, folder, only):
    before = only()
    for text, expected in (
        ("", "Standard input is empty"),
        ("x0,y\n", "standard input has no rows"),
        ("x0,y\n1,2\n", "of standard input"),
    ):
        target = "z" if "1,2" in text else "y"
        done = ran("fit", "lad", "-", "-t", target, "-o", "m.aid", stdin=text)
        assert done.code == 1
        assert expected in done.err or "standard input has no column 'z'" in done.err
        assert only() == before


def test_without_typer_there_is_a_sentence(monkeypatch, capsys):
    import builtins

    real = builtins.__import__

    def missing(name, *args, **options):
        if name == "aidlearn.cli.app":
            raise ModuleNotFoundError("No module named 'typer'", name="typer")
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    assert main(["--help"]) == 1
    assert "pip install 'aidlearn[cli]'" in capsys.readouterr().err


def test_a_checkpoint_is_a_file_of_its_own(files, ran, tmp_path):
    shutil.copy(files / "table.npy", tmp_path / "t.npy")
    fit = ["fit", "lad", "t.npy", "-t", "3", "-o", "m.aid", "--checkpoint"]
    for name, what in (("t.npy", "data"), ("m.aid", "output")):
        answer = ran(*fit, name)
        assert (answer.code, f"is also the file of the {what}" in answer.err) == (1, True)
    assert ran(*fit, ".").code == 1
    assert os.listdir(tmp_path) == ["t.npy"]


def test_names_that_are_numbers(ran, tmp_path):
    """Columns are matched by their names, whatever these look like."""
    rows = "\n".join(f"{k % 5},{k % 3},{k % 5 + 10 * (k % 3)}" for k in range(60))
    (tmp_path / "years.csv").write_text("2019,2020,y\n" + rows)
    (tmp_path / "turned.csv").write_text("2020,2019\n1,0\n2,4\n")
    assert ran("fit", "lad", "years.csv", "-t", "y", "-o", "m.aid").code == 0
    answer = ran("predict", "m.aid", "turned.csv", "-o", "-")
    assert np.allclose([float(line) for line in answer.out.split()[1:]], [10, 24])
    assert ran("predict", "m.aid", "years.csv", "-o", "p.npy").code == 0
