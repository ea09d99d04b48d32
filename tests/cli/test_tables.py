"""Tables on the command line: no option is needed, and what nobody asked is said."""

import json

import numpy as np
import pandas as pd
import pytest

from aidlearn import LADRegressor, load_model, save_model
from exact_csv import read_csv


@pytest.fixture
def flights(tmp_path):
    rng = np.random.default_rng(0)
    n = 3000
    frame = pd.DataFrame(
        {
            "distance": rng.integers(100, 3000, n),
            "origin": rng.choice([f"A{k:02}" for k in range(60)], n),
            "carrier": rng.choice(["Über Air", "b", "c"], n),
            "late": rng.random(n) < 0.2,
            "month": rng.integers(1, 13, n),
        }
    )
    frame["delay"] = frame.distance / 500 + (frame.origin == "A07") * 5 + rng.laplace(size=n)
    frame.to_csv(tmp_path / "flights.csv", index=False)
    return frame


def test_two_commands_without_an_option(ran, flights):
    done = ran("fit", "lad", "flights.csv", "-t", "delay", "-o", "m.aid")
    assert done.code == 0, done
    assert "origin: 60 levels, carrier: 3 levels, late: 2 levels" in done.err
    assert "origin: 60 levels" in done.out
    assert ran("predict", "m.aid", "flights.csv", "-o", "p.csv").code == 0
    X = flights.drop(columns="delay")
    expected = LADRegressor().fit(X, flights["delay"])
    assert np.array_equal(load_model("m.aid").coef_, expected.coef_)
    assert np.array_equal(read_csv("p.csv")["prediction"], expected.predict(X))
    shown = ran("inspect", "m.aid").out
    rows = [line.split()[0] for line in shown.splitlines() if "[" in line]
    assert "origin[A07]" in rows
    groups = [row.partition("[")[0] for row in rows]
    assert all(
        groups.index(name) + groups.count(name) - 1 == len(groups) - 1 - groups[::-1].index(name) for name in groups
    )
    assert json.loads(ran("inspect", "m.aid", "--json").out)["factors"] == {"origin": 60, "carrier": 3, "late": 2}
    assert ran("report", "m.aid", "-o", "r.html").code == 0


@pytest.mark.parametrize("model", ["svm", "kernel-svm", "s3vm"])
def test_classifiers(ran, flights, model, tmp_path):
    flights[:300][["distance", "origin", "month", "carrier"]].to_csv("c.csv", index=False)
    options = ["--standardize"] if model == "svm" else []
    assert ran("fit", model, "c.csv", "-t", "carrier", *options, "-o", "m.aid").code in (0, 2)
    assert ran("predict", "m.aid", "c.csv", "-o", "p.csv").code == 0
    assert set(read_csv("p.csv")["prediction"]) <= {"Über Air", "b", "c"}
    flights.assign(origin="new").to_csv("new.csv", index=False)
    done = ran("predict", "m.aid", "new.csv", "-o", "p.csv")
    assert "Column 'origin' has the level 'new' at row 0 of new.csv" in done.err
    assert ran("predict", "m.aid", "new.csv", "--unknown", "reference", "-o", "p.csv").code == 0


def test_options_that_overrule(ran, flights):
    arguments = ["fit", "lad", "flights.csv", "-t", "delay", "-o", "m.aid"]
    assert ran(*arguments, "--categorical", "month=5", "--numeric", "late").code == 0
    names = load_model("m.aid").coefficient_names_
    assert "late" in names
    assert "month[1]" in names
    assert "month[5]" not in names
    assert ran("fit", "lad", "flights.csv", "--formula", "delay ~ distance + C(month)", "-o", "f.aid").code == 0
    assert load_model("f.aid").coefficient_names_[:2] == ["distance", "month[10]"]
    assert ran("predict", "f.aid", "flights.csv", "-o", "p.csv").code == 0
    for options, words in (
        (["--formula", "delay ~ np.log(distance)"], "is more than a list of columns"),
        (["--formula", "delay ~ distance", "-t", "delay"], "leave --target out"),
        (["-t", "delay", "--numeric", "origin"], "Row 0 of flights.csv has the text"),
        (["-t", "delay", "--categorical", "zz"], "no column 'zz'"),
        (["-t", "delay", "--missing", "maybe"], "--missing must be one of"),
    ):
        done = ran("fit", "lad", "flights.csv", *options, "-o", "n.aid")
        assert done.code == 1
        assert words in done.err, done.err


def test_dates_and_names_of_rows_are_refused(ran, flights):
    flights.assign(day="2024-05-06").to_csv("dates.csv", index=False)
    done = ran("fit", "lad", "dates.csv", "-t", "delay", "-o", "m.aid")
    assert "holds dates or times; convert it to numbers" in done.err
    flights.assign(name=[f"flight {k}" for k in range(len(flights))]).to_csv("names.csv", index=False)
    done = ran("fit", "lad", "names.csv", "-t", "delay", "-o", "m.aid")
    assert "3000 different texts in 3000 rows" in done.err


def test_missing_cells(ran, flights):
    flights.loc[5, "origin"] = None
    flights.loc[9, "distance"] = np.nan
    flights.to_csv("holes.csv", index=False)
    arguments = ["fit", "lad", "holes.csv", "-t", "delay", "-o", "m.aid"]
    assert "missing cell at row 5 of holes.csv, column 'origin'" in ran(*arguments).err
    done = ran(*arguments, "--missing", "drop")
    assert done.code == 0
    assert "2 rows with missing cells" in done.err
    assert load_model("m.aid").n_dropped_ == 2
    assert "NaN at row 9" in ran(*arguments, "--missing", "level").err


def test_patterns_and_compressed_files(ran, flights):
    flights[:1000].to_csv("part-0.csv.gz", index=False)
    flights[1000:].to_csv("part-1.csv.gz", index=False)
    assert ran("fit", "lad", "part-*.csv.gz", "-t", "delay", "-o", "g.aid").code == 0
    assert ran("fit", "lad", "flights.csv", "-t", "delay", "-o", "m.aid").code == 0
    assert np.array_equal(load_model("g.aid").coef_, load_model("m.aid").coef_)
    assert "no file nothing-*.csv" in ran("fit", "lad", "nothing-*.csv", "-t", "y", "-o", "g.aid").err


def test_a_fit_of_factors_can_be_resumed(ran, flights):
    arguments = ["fit", "lad", "flights.csv", "-t", "delay", "--categorical", "month", "--tol", "0", "-o", "m.aid"]
    assert ran(*arguments, "--max-iter", "1", "--checkpoint", "run.ckpt").code in (0, 2)
    assert ran("resume", "run.ckpt", "-o", "r.aid").code in (0, 2)
    assert load_model("r.aid").coefficient_names_ == load_model("m.aid").coefficient_names_


def test_models_with_the_old_names_still_predict(ran, flights):
    """What version 0.1 wrote: dense dummies called ``carrier=b``, and their values among the facts of training."""
    values = ["b", "c", "Über Air"]
    dense = np.column_stack([flights.distance, *(flights.carrier == value for value in values[1:])]).astype(float)
    names = ["distance", "carrier=c", "carrier=Über Air"]
    model = LADRegressor().fit(pd.DataFrame(dense, columns=names), flights.delay)
    del model.n_dropped_
    facts = {"data": "old.csv", "rows": 3000, "columns": ["distance", "carrier"], "one_hot": {"carrier": values}}
    save_model(model, "old.aid", training=facts)
    assert load_model("old.aid").coefficient_names_ == names
    assert ran("predict", "old.aid", "flights.csv", "-o", "p.csv").code == 0
    # Sums of sparse rows and of dense ones differ in their last bit on some processors.
    predicted = model.predict(pd.DataFrame(dense, columns=names))
    np.testing.assert_allclose(read_csv("p.csv")["prediction"], predicted, rtol=1e-14)
    assert ran("inspect", "old.aid").code == 0


def test_separator_and_encoding_that_cannot_be_recognised(ran, flights, tmp_path):
    frame = flights.rename(columns={"carrier": "Träger"})
    lines = frame.to_csv(index=False, sep="~").encode("cp850")
    (tmp_path / "odd.csv").write_bytes(lines)
    told = ["--delimiter", "~", "--encoding", "cp850"]
    assert ran("fit", "lad", "odd.csv", "-t", "delay", "--categorical", "Träger", *told, "-o", "m.aid").code == 0
    X = frame.drop(columns="delay")
    expected = LADRegressor().fit(X, frame["delay"])
    model = load_model("m.aid")
    assert np.array_equal(model.coef_, expected.coef_)
    assert "Träger[Über Air]" in model.coefficient_names_
    assert ran("predict", "m.aid", "odd.csv", *told, "-o", "p.csv").code == 0
    assert np.array_equal(read_csv("p.csv")["prediction"], expected.predict(X))
    done = ran("predict", "m.aid", "odd.csv", "-o", "p.csv")
    assert done.code == 1
    assert "lacks columns" in done.err
    frame.to_csv("t.txt.csv", sep="\t", index=False)
    assert ran("fit", "lad", "t.txt.csv", "-t", "delay", "--delimiter", "tab", "-o", "n.aid").code == 0
    assert np.array_equal(load_model("n.aid").coef_, expected.coef_)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--delimiter", "ab"], "--delimiter must be one character"),
        (["--encoding", "klingon"], "--encoding must be one that Python knows, got 'klingon'"),
    ],
)
def test_wrong_separators_and_encodings(ran, flights, options, sentence):
    done = ran("fit", "lad", "flights.csv", "-t", "delay", *options, "-o", "m.aid")
    assert done.code == 1
    assert sentence in done.err
    flights.to_parquet("f.parquet")
    done = ran("fit", "lad", "f.parquet", "-t", "delay", "--encoding", "latin-1", "-o", "m.aid")
    assert done.code == 1
    assert "--encoding is for CSV files" in done.err


def test_nothing_on_standard_output_before_an_error(ran, flights):
    assert ran("fit", "lad", "flights.csv", "-t", "delay", "-o", "m.aid").code == 0
    flights.assign(origin="new").to_csv("new.csv", index=False)
    done = ran("predict", "m.aid", "new.csv", "-o", "-")
    assert done.code == 1
    assert done.out == ""
    assert "'new'" in done.err
    done = ran("predict", "m.aid", "flights.csv", "-o", "-")
    assert done.code == 0
    assert done.out.startswith("prediction\n")
    assert len(done.out.splitlines()) == len(flights) + 1
