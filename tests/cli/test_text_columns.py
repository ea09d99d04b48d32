"""Columns of CSV files are read as the fit read them, whatever the file to be predicted looks like."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from aidlearn import LADRegressor, LinearSVC, archive, load_model, open_source, save_model
from aidlearn.data.tables import csv as csv_files
from aidlearn.files.models import KIND, VERSION
from exact_csv import read_csv

N = 300


def made(levels, seed=0, dtype=None):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, len(levels), N)
    frame = pd.DataFrame({"x": rng.normal(size=N), "f": pd.array(np.array(levels, dtype=object)[codes], dtype=dtype)})
    frame["y"] = frame.x + 10.0 * codes + 0.01 * rng.normal(size=N)
    return frame


def write(frame, path, **options):
    frame.to_csv(path, index=False, float_format="%.17g", **options)


def predicted(ran, data, *options):
    done = ran("predict", "m.aid", data, "-o", "p.csv", *options)
    assert (done.code, done.err) == (0, ""), done
    return read_csv("p.csv")["prediction"].to_numpy()


@pytest.mark.parametrize(
    ("levels", "part"),
    [
        (["true", "false", "maybe"], ["true", "false"]),
        (["True", "False", "NOT SAID"], ["True"]),
        (["2.50", "2.5", "free"], ["2.50", "2.5"]),
        (["007", "07", "A7"], ["007", "07"]),
        (["1e3", "1000", "none at all"], ["1e3", "1000"]),
        (["2024-05-06", "2024-05-07", "later"], ["2024-05-06", "2024-05-07"]),
        (["12:30", "noon", "+1"], ["12:30"]),
        (["nan", "NA", "word"], ["nan"]),
    ],
)
@pytest.mark.parametrize("command", ["lad", "svm"])
def test_texts_stay_texts(ran, levels, part, command):
    """A file with some of the levels, which look like something else by themselves."""
    frame = made(levels)
    if command == "svm":
        frame["y"] = np.where(frame.y > frame.y.median(), "up", "down")
    write(frame, "t.csv", quoting=csv.QUOTE_NONNUMERIC)
    assert ran("fit", command, "t.csv", "-t", "y", "-o", "m.aid").code == 0
    model, X = load_model("m.aid"), frame.drop(columns="y")
    some = X[X.f.isin(part)]
    write(some, "some.csv", quoting=csv.QUOTE_NONNUMERIC)
    for options in ([], ["--unknown", "reference"]):
        assert predicted(ran, "t.csv", *options).tolist() == model.predict(X).tolist()
        assert predicted(ran, "some.csv", *options).tolist() == model.predict(some).tolist()


@pytest.mark.parametrize("levels", [["007", "07", "7"], ["2024-05-06", "2024-05-07"], ["1.0", "1", "1.50"]])
def test_named_factors_are_texts(ran, levels):
    frame = made(levels)
    write(frame, "t.csv")
    assert ran("fit", "lad", "t.csv", "-t", "y", "--categorical", "f", "-o", "m.aid").code == 0
    expected = LADRegressor().fit(frame[["x", "f"]], frame.y)
    model = load_model("m.aid")
    assert [column.levels for column in model.recipe_.factors] == [tuple(sorted(levels))]
    assert np.array_equal(model.coef_, expected.coef_)
    assert np.array_equal(predicted(ran, "t.csv"), expected.predict(frame[["x", "f"]]))
    write(frame[frame.f == levels[0]], "one.csv")
    assert np.array_equal(predicted(ran, "one.csv"), expected.predict(frame[frame.f == levels[0]][["x", "f"]]))
    for fitted in (
        LADRegressor(categorical_features=["f"]).fit("t.csv", "y"),
        LADRegressor(categorical_features={"f": levels[0]}).fit("t.csv", "y"),
        LADRegressor(categorical_features=[False, True]).fit(open_source("t.csv", "y", one_hot=["f"])),
        LADRegressor(categorical_features=[1]).fit(open_source("t.csv", "y", one_hot=["f"])),
    ):
        assert set(fitted.recipe_.factors[0].levels) == set(levels)
        assert fitted.predict(frame[["x", "f"]]) == pytest.approx(expected.predict(frame[["x", "f"]]), abs=0.05)


def test_a_text_below_the_first_rows_of_numbers(ran, monkeypatch):
    """What is read at first holds numbers only: a factor is none of them."""
    monkeypatch.setattr(csv_files, "SETTINGS", replace(csv_files.SETTINGS, block_bytes=8192))
    frame = pd.concat([made(["7", "8"])] * 3 + [made(["A7", "8"])], ignore_index=True)
    write(frame, "t.csv")
    assert ran("fit", "lad", "t.csv", "-t", "y", "--categorical", "f", "-o", "m.aid").code == 0
    model = load_model("m.aid")
    assert model.recipe_.factors[0].levels == ("7", "8", "A7")
    assert np.array_equal(predicted(ran, "t.csv"), model.predict(frame[["x", "f"]]))


def test_truth_values_and_numbers_of_other_tables(ran):
    """Models of frames and Parquet files: texts of a CSV file stand for the truth values and numbers of the fit."""
    for kind, levels in (
        ("boolean", [False, True]),
        ("number", [2.5, 7.0]),
        ("categories of numbers", [2.5, 7.0]),
        ("text", ["2.50", "7"]),
    ):
        frame = made(levels)
        frame["f"] = frame.f.astype({"boolean": bool, "text": object}.get(kind, float))
        if kind.startswith("cat"):
            frame["f"] = frame.f.astype("category")
        frame.to_parquet("t.parquet")
        write(frame, "t.csv")
        assert ran("fit", "lad", "t.parquet", "-t", "y", "--categorical", "f", "-o", "m.aid").code == 0
        model, X = load_model("m.aid"), frame[["x", "f"]]
        assert np.array_equal(predicted(ran, "t.parquet"), model.predict(X))
        assert np.array_equal(predicted(ran, "t.csv"), model.predict(X))
        save_model(LADRegressor(categorical_features=["f"]).fit(X, frame.y), "m.aid")
        assert np.array_equal(predicted(ran, "t.csv"), model.predict(X))
    truths = made([False, True])
    assert ran("fit", "lad", "t.csv", "-t", "y", "-o", "m.aid").code == 0  # the texts 2.50 and 7 are numbers
    write(truths, "t.csv")
    assert ran("fit", "lad", "t.csv", "-t", "y", "-o", "m.aid").code == 0
    expected = load_model("m.aid").predict(truths[["x", "f"]])
    for texts in (("false", "true"), ("0", "1"), ("FALSE", "TRUE")):
        write(truths.assign(f=truths.f.map(dict(zip([False, True], texts, strict=True)))), "c.csv")
        assert np.array_equal(predicted(ran, "c.csv"), expected)
    write(truths.assign(f=truths.f.astype(object).where(truths.index > 0, "maybe")), "c.csv")
    assert "has the level 'maybe' at row 0" in ran("predict", "m.aid", "c.csv", "-o", "q.csv").err
    assert np.array_equal(predicted(ran, "c.csv", "--unknown", "reference")[1:], expected[1:])


def test_decimal_commas(ran):
    frame = made([2.5, 7.0]).astype({"f": float})
    save_model(LADRegressor(categorical_features=["f"]).fit(frame[["x", "f"]], frame.y), "m.aid")
    write(frame, "t.csv", sep=";", decimal=",")
    assert np.array_equal(predicted(ran, "t.csv"), load_model("m.aid").predict(frame[["x", "f"]]))


@pytest.mark.parametrize("seed", range(5))
def test_random_tables(ran, seed):
    """Mixed tables, whole and in parts, from CSV and Parquet: predictions are Python's to the last bit."""
    rng = np.random.default_rng(seed)
    pool = ["true", "false", "1", "01", "2.50", "2.5", "2024-05-06", "a", "b,c", 'd"e', "über"]
    frame = pd.DataFrame({"x": rng.normal(size=N), "flag": rng.random(N) < 0.5, "n": rng.integers(0, 3, N)})
    for k in range(3):
        frame[f"t{k}"] = rng.choice([*rng.choice(pool, rng.integers(1, 5), replace=False), f"text {k}"], N)
    frame = frame[rng.permutation(frame.columns)]
    y = frame.x + rng.normal(size=N) + (frame.t0 == "text 0") * 3 - frame.flag
    frame.assign(y=y).to_parquet("t.parquet")
    write(frame.assign(y=y), "t.csv", quoting=csv.QUOTE_NONNUMERIC)
    for data in ("t.csv", "t.parquet"):
        assert ran("fit", "lad", data, "-t", "y", "--categorical", "n", "-o", "m.aid").code == 0
        model = load_model("m.aid")
        by_python = {name: None for name in frame if name != "x"}
        expected = LADRegressor(categorical_features=by_python).fit(frame, y)
        assert np.array_equal(model.coef_, expected.coef_)
        for rows in (frame, frame[:1], frame[frame.t1 == frame.t1.iloc[3]], frame[~frame.flag]):
            write(rows, "some.csv", quoting=csv.QUOTE_NONNUMERIC)
            rows.to_parquet("some.parquet")
            for some in ("some.csv", "some.parquet"):
                assert np.array_equal(predicted(ran, some), expected.predict(rows)), (data, some)


def test_models_that_do_not_say_how_columns_were_read(ran):
    """Files of earlier versions: their columns are guessed, as they were."""
    frame = made(["5", "6"])
    frame["f"] = frame.f.astype(int)
    write(frame, "t.csv")
    model = LADRegressor(categorical_features=["f"]).fit(frame[["x", "f"]], frame.y)
    save_model(model, "new.aid")
    found = archive.read(Path("new.aid"), KIND, VERSION)
    assert found.meta["fitted"]["recipe_"].pop("kinds") == ["number", "number"]
    archive.write(Path("m.aid"), KIND, VERSION, found.meta, found.arrays)
    assert load_model("m.aid").recipe_.factors[0].kind is None
    assert np.array_equal(predicted(ran, "t.csv"), model.predict(frame[["x", "f"]]))


def test_replicates_of_named_factors(ran):
    frame = made(["007", "07", "7"])
    write(frame, "t.csv")
    assert ran("fit", "lad", "t.csv", "-t", "y", "--categorical", "f=07", "-o", "m.aid").code == 0
    done = ran("bootstrap", "m.aid", "t.csv", "-n", "5", "--json")
    assert done.code == 0, done
    assert [row["name"] for row in done.json["coefficients"]][-2:] == ["f[007]", "f[7]"]


def test_classes_of_python(ran):
    frame = made(["007", "07", "7"])
    write(frame.assign(y=np.where(frame.y > 10, "up", "down")), "t.csv")
    model = LinearSVC(categorical_features=["f"]).fit("t.csv", "y")
    assert model.coefficient_names_ == ["x", "f[07]", "f[7]"]


def test_numbers_that_look_like_codes(ran):
    """Nobody said what they are: one line says what is done with them; whoever says it is not told."""
    frame = made(["00701", "10115", "94103"])
    frame["also"] = frame.f.str[-2:]
    frame["n"] = np.where(frame.x > 0, "05", "5")  # not of one length
    frame["d"] = np.where(frame.x > 0, "0.50", "1.50")
    write(frame, "t.csv")
    fit = ["fit", "lad", "t.csv", "-t", "y", "-o", "m.aid"]
    lines = [line for line in ran(*fit).err.splitlines() if line.startswith("Warning")]
    assert len(lines) == 1
    assert "Columns 'f', 'also' of t.csv are read as numbers" in lines[0]
    assert "name them in --categorical if they are categories, or in --numeric if they are not" in lines[0]
    assert "Column 'also' of t.csv is read as numbers" in ran(*fit, "--categorical", "f").err
    for options in (["--categorical", "f,also"], ["--numeric", "f,also"], ["--columns", "x,n"]):
        done = ran(*fit, *options)
        assert (done.code, "Warning" in done.err) == (0, False), done
        assert "Warning" not in ran("predict", "m.aid", "t.csv", "-o", "p.csv").err
    with pytest.warns(UserWarning, match=r"Columns 'f', 'also' of .*t\.csv are read as numbers"):
        LADRegressor().fit("t.csv", "y")
