"""Predictions of files are those of the model, whatever the format and the order of the columns."""

import numpy as np
import pandas as pd
import pytest
from cli_support import COLUMNS, N, X, frame

from aidlearn import load_model
from aidlearn.cli.commands.predict import column_names
from exact_csv import read_csv

ROUNDING = {"rtol": 1e-12, "atol": 1e-13}
"""Sums over rows and over columns of a table differ in the last bits."""


def read(path):
    path = str(path)
    if path.endswith(".npy"):
        return np.load(path)
    return pd.read_parquet(path) if path.endswith(".parquet") else read_csv(path, sep="\t" if "tsv" in path else ",")


@pytest.mark.parametrize("data", ["table.csv", "table.tsv", "table.parquet", "parts", "table.npy", "table.svmlight"])
@pytest.mark.parametrize("output", ["p.csv", "p.tsv", "p.parquet", "p.npy"])
def test_formats(ran, files, data, output):
    model = {"table.npy": "numbers", "table.svmlight": "sparse"}.get(data, "lad")
    done = ran("predict", files / f"{model}.aid", files / data, "-o", output)
    assert (done.code, done.err) == (0, ""), done
    assert done.out.startswith(f"{output}: {N} rows, columns prediction, ")
    found = read(output)
    found = found if output.endswith("npy") else found["prediction"].to_numpy()
    expected = load_model(files / "lad.aid").predict(frame()[X])
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("model", ["lad", "hot"])
def test_columns_are_found_by_name(ran, files, model):
    table = frame().drop(columns="y")
    mixed = table[["label", "city", *reversed(X), "w"]]
    mixed.to_csv("mixed.csv", index=False)
    mixed.to_parquet("mixed.parquet")
    for data in ("mixed.csv", "mixed.parquet"):
        assert ran("predict", files / f"{model}.aid", data, "-o", "p.npy").code == 0
        assert ran("predict", files / f"{model}.aid", files / "table.csv", "-o", "q.npy").code == 0
        np.testing.assert_array_equal(np.load("p.npy"), np.load("q.npy"))


def test_encoded_columns_are_those_of_the_fit(ran, files):
    """New data with fewer values, whose first one is another: the columns must not shift."""
    table = frame()
    rome = table[table["city"] == "Rome"]
    rome.to_csv("rome.csv", index=False)
    assert ran("predict", files / "hot.aid", "rome.csv", "-o", "p.npy").code == 0
    model = load_model(files / "hot.aid")
    features = np.column_stack([rome[X], np.zeros(len(rome)), np.ones(len(rome))])
    expected = features @ model.coef_ + model.intercept_
    np.testing.assert_allclose(np.load("p.npy"), expected, rtol=1e-12)


def test_quantiles_have_their_names_once(ran, files):
    assert ran("predict", files / "quantile.aid", files / "table.csv", "-o", "p.csv").code == 0
    found = read("p.csv")
    assert list(found) == ["q0.1", "q0.5", "q0.5_2"]
    np.testing.assert_allclose(found, load_model(files / "quantile.aid").predict(frame()[X]), **ROUNDING)


def test_near_quantiles_have_different_names():
    class Model:
        quantile = (0.1, 0.1 + 1e-12, 0.5, 0.50)

    names = column_names(Model, False, False)
    assert len(set(names)) == 4
    assert names[0] == "q0.1"


@pytest.mark.parametrize(("model", "scores"), [("svm", ["score"]), ("three", ["score_0", "score_1", "score_2"])])
def test_classes_and_scores(ran, files, model, scores):
    fitted = load_model(files / f"{model}.aid")
    for output in ("p.csv", "p.parquet"):
        assert ran("predict", files / f"{model}.aid", files / "table.parquet", "-o", output, "--scores").code == 0
        found = read(output)
        assert list(found) == ["prediction", *scores]
        assert found["prediction"].tolist() == fitted.predict(frame()[X]).tolist()
        np.testing.assert_allclose(found[scores].squeeze(), fitted.decision_function(frame()[X]), **ROUNDING)
    assert ran("predict", files / f"{model}.aid", files / "table.parquet", "-o", "s.npy", "--scores").code == 0
    np.testing.assert_allclose(np.load("s.npy"), fitted.decision_function(frame()[X]), **ROUNDING)
    assert ran("predict", files / f"{model}.aid", files / "table.parquet", "-o", "c.npy").code == 0
    assert np.load("c.npy").tolist() == fitted.predict(frame()[X]).tolist()


def test_awkward_class_names_survive_csv(ran):
    table = frame()
    names = ['a,"b"', "c\nd"]
    table["y"] = np.where(table["y"] > 0, *names)
    table[[*X, "y"]].to_csv("odd.csv", index=False)
    table[[*X, "y"]].to_parquet("odd.parquet")
    assert ran("fit", "svm", "odd.parquet", "-t", "y", "-o", "m.aid").code == 0
    assert ran("predict", "m.aid", "odd.parquet", "-o", "p.csv").code == 0
    assert set(read("p.csv")["prediction"]) == set(names)


def test_standard_streams(ran, files):
    text = frame()[X].to_csv(index=False)
    done = ran("predict", files / "lad.aid", "-", "-o", "-", stdin=text)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "prediction"
    expected = load_model(files / "lad.aid").predict(frame()[X])
    np.testing.assert_allclose([float(line) for line in lines[1:]], expected, **ROUNDING)


def test_narrow_sparse_files_are_widened(ran, files):
    with open("narrow.svmlight", "w") as file:
        file.write("0 1:2.0\n0 2:1.0\n")
    assert ran("predict", files / "sparse.aid", "narrow.svmlight", "-o", "p.npy").code == 0
    model = load_model(files / "sparse.aid")
    expected = np.array([[2.0, 0, 0], [0, 1.0, 0]]) @ model.coef_ + model.intercept_
    np.testing.assert_allclose(np.load("p.npy"), expected, rtol=1e-14)
    with open("wide.svmlight", "w") as file:
        file.write("0 4:2.0\n")
    done = ran("predict", files / "sparse.aid", "wide.svmlight", "-o", "w.npy")
    assert (done.code, "indices 1 to 4; the model was fitted to 1 to 3" in done.err) == (1, True)


def test_models_without_names_go_by_position(ran, files):
    frame()[X].to_csv("three.csv", index=False)
    assert ran("predict", files / "numbers.aid", "three.csv", "-o", "p.npy").code == 0
    np.testing.assert_allclose(np.load("p.npy"), load_model(files / "lad.aid").predict(frame()[X]), rtol=1e-9)
    np.save("three.npy", frame()[X].to_numpy())
    assert ran("predict", files / "lad.aid", "three.npy", "-o", "q.npy").code == 0
    np.testing.assert_allclose(np.load("q.npy"), np.load("p.npy"), rtol=1e-9)


def test_json(ran, files):
    told = ran("predict", files / "svm.aid", files / "table.csv", "-o", "p.csv", "--scores", "--json").json
    assert told["rows"] == N
    assert told["columns"] == ["prediction", "score"]


def test_predictions_do_not_load_the_file(ran, files, monkeypatch):
    """Rows go through in chunks: the model never sees more than one."""
    from aidlearn import LADRegressor
    from aidlearn.data.rows import source

    monkeypatch.setattr(source, "chunk_rows", lambda m, is_sparse: 64)
    seen = []
    real = LADRegressor.predict
    monkeypatch.setattr(LADRegressor, "predict", lambda self, rows: seen.append(len(rows)) or real(self, rows))
    done = ran("predict", files / "lad.aid", files / "table.csv", "-o", "p.npy")
    assert done.code == 0
    assert max(seen) <= 64
    assert sum(seen) == N + 1  # and the row that a file is tried with when it is loaded
    assert np.load("p.npy").shape == (N,)


def test_in_memory_machines(ran, files):
    options = ["-t", "label", "--columns", COLUMNS, "--solver", "libsvm"]
    assert ran("fit", "kernel-svm", files / "table.csv", *options, "-o", "k.aid").code == 0
    assert ran("predict", "k.aid", files / "table.parquet", "-o", "p.csv").code == 0
    assert read("p.csv")["prediction"].tolist() == load_model("k.aid").predict(frame()[X]).tolist()


def test_indices_of_sparse_text_begin_as_in_the_fit(ran):
    """A file that happens to have no index 0 is read as the model's file, which had one."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(80, 3))

    def write(name, columns):
        with open(name, "w") as file:
            for row in rows:
                cells = " ".join(f"{k}:{row[k]}" for k in columns)
                file.write(f"{row @ [1.0, 2.0, 3.0]} {cells}\n")

    write("whole.svmlight", [0, 1, 2])
    write("part.svmlight", [1])
    assert ran("fit", "lad", "whole.svmlight", "-o", "m.aid", "-q").code == 0
    assert ran("predict", "m.aid", "part.svmlight", "-o", "p.npy").code == 0
    model = load_model("m.aid")
    expected = model.predict(rows * [0.0, 1.0, 0.0])
    np.testing.assert_allclose(np.load("p.npy"), expected, rtol=1e-12)
