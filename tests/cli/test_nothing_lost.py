"""A finished fit is never lost: what its model file cannot hold is refused before it, whatever holds it is kept."""

import datetime
import decimal
import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aidlearn import LADRegressor, load_model
from aidlearn.files import models
from exact_csv import read_csv

UTC = datetime.UTC
KINDS = {
    "date": [datetime.date(2020, 1, day) for day in (1, 2, 3)],
    "datetime": [datetime.datetime(2020, 1, 1, hour) for hour in range(3)],
    "zone": [datetime.datetime(2020, 1, 1, hour, tzinfo=UTC) for hour in range(3)],
    "time": [datetime.time(hour) for hour in range(3)],
    "timedelta": [datetime.timedelta(days) for days in range(3)],
    "bytes": [b"a\xff", b"b", b"c"],
}


def table(values):
    rng = np.random.default_rng(0)
    level = rng.integers(0, 3, 90)
    x = rng.normal(size=90)
    y = x + np.array([0.0, 5.0, -5.0])[level] + 0.1 * rng.laplace(size=90)
    return pa.table({"x": x, "y": y, "when": pa.array([values[k] for k in level])})


def test_decimals_are_categories_if_they_are_said_to_be(ran):
    values = [decimal.Decimal(f"1.{k}") for k in range(3)]
    rows = table(values)
    pq.write_table(rows, "t.parquet")
    done = ran("fit", "lad", "t.parquet", "-t", "y", "--categorical", "when", "-o", "m.aid")
    assert done.code == 0, done
    # Another file with one of the values only: encoded as in the fit.
    last = rows.filter(pa.array([value == values[2] for value in rows["when"].to_pylist()]))
    pq.write_table(last, "last.parquet")
    assert ran("predict", "m.aid", "last.parquet", "-o", "p.csv").code == 0
    predicted = read_csv("p.csv").iloc[:, -1].to_numpy()
    assert np.abs(predicted - last["y"].to_numpy()).max() < 2.0


@pytest.mark.parametrize("kind", KINDS)
def test_columns_that_are_no_categories_are_refused_before_the_fit(ran, kind, monkeypatch):
    pq.write_table(table(KINDS[kind]), "t.parquet")
    monkeypatch.setattr("aidlearn.LADRegressor.fit", lambda *a: pytest.fail("the fit began"))
    done = ran("fit", "lad", "t.parquet", "-t", "y", "--categorical", "when", "-o", "m.aid")
    assert done.code == 1
    assert "column 1 ('when') of t.parquet holds" in done.err
    assert not Path("m.aid").exists()


def test_classes_that_no_file_holds_are_refused_before_the_fit(ran, monkeypatch):
    moments = np.datetime64("2020-01-01T00:00:00.000000001") + np.arange(90) % 2
    pq.write_table(table(KINDS["date"]).set_column(2, "when", pa.array(moments)), "t.parquet")
    monkeypatch.setattr("aidlearn.LinearSVC.fit", lambda *a: pytest.fail("the fit began"))
    done = ran("fit", "svm", "t.parquet", "-t", "when", "-o", "m.aid")
    assert (done.code, "The target 'when' of t.parquet holds dates or times" in done.err) == (1, True)
    assert not Path("m.aid").exists()


def test_a_model_whose_place_is_gone_is_kept_elsewhere(ran, files, monkeypatch, tmp_path):
    os.mkdir("folder")
    os.mkdir("refuge")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "refuge"))
    fit = LADRegressor.fit

    def and_remove(self, *arguments):
        fit(self, *arguments)
        os.rmdir("folder")

    monkeypatch.setattr(LADRegressor, "fit", and_remove)
    done = ran("fit", "lad", files / "table.csv", "-t", "y", "--columns", "x0,x1", "-o", "folder/m.aid")
    assert done.code == 1
    [kept] = Path("refuge").iterdir()
    assert f"The model is kept in {tmp_path / 'refuge' / kept.name}" in done.err
    assert load_model(kept).coef_.shape == (2,)


def test_facts_that_are_no_json_are_refused_before_a_fit():
    with pytest.raises(models.ModelFileError, match="what JSON can hold"):
        models.check_can_be_saved(LADRegressor(), {"when": datetime.date(2020, 1, 1)})
