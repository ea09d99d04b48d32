"""What float64 cannot hold is refused in one sentence before work starts, wherever it comes from."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from aidlearn import LADRegressor, LinearSVC, QuantileRegressorCV, as_source, open_source
from aidlearn.data.rows.numbers import refuse_lossy

N = 60
LONG = np.arange(N) + 2**62
ROUNDED = "holds the whole number 4611686018427387905"
X = np.random.default_rng(0).normal(size=(N, 2))
y = X[:, 0] + 1.0
COLUMNS = {
    "int64": LONG,
    "uint64": LONG.astype(np.uint64),
    "object": LONG.astype(object),
    "list": LONG.tolist(),
    "strided": np.repeat(LONG, 2)[::2],
    "pandas": pd.Series(LONG),
    "pandas Int64": pd.Series(LONG, dtype="Int64"),
    "pandas UInt64": pd.Series(LONG, dtype="UInt64"),
    "pandas arrow": pd.Series(LONG, dtype="int64[pyarrow]"),
    "polars": pl.Series(LONG),
    "polars unsigned": pl.Series(LONG, dtype=pl.UInt64),
    "pyarrow": pa.chunked_array([LONG]),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_whole_numbers_that_would_be_rounded(kind):
    with pytest.raises(ValueError, match=f"^y {ROUNDED} at row 1, which float64 would round"):
        LADRegressor().fit(X, COLUMNS[kind])
    with pytest.raises(ValueError, match=f"^sample_weight {ROUNDED} at row 1"):
        LADRegressor().fit(X, y, sample_weight=COLUMNS[kind])


def missing(kind):
    values = [None, *LONG[1:].tolist()]
    if kind == "pandas":
        return pd.Series(values, dtype="Int64")
    return pl.Series(values) if kind == "polars" else pa.chunked_array([values])


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_a_missing_value_does_not_hide_them(kind):
    with pytest.raises(ValueError, match=f"^y {ROUNDED}"):
        LADRegressor(missing="drop").fit(X, missing(kind))


TABLES = {
    "array": np.column_stack([LONG, LONG]),
    "F": np.asfortranarray(np.column_stack([LONG, LONG])),
    "list": [[a, a] for a in LONG.tolist()],
    "object": np.column_stack([LONG, LONG]).astype(object),
    "csr": sparse.csr_array(np.column_stack([LONG, LONG])),
    "coo": sparse.coo_array(np.column_stack([LONG, LONG])),
    "pandas": pd.DataFrame({"a": LONG, "b": y}),
    "pandas Int64": pd.DataFrame({"a": pd.Series(LONG, dtype="Int64"), "b": y}),
    "polars": pl.DataFrame({"a": LONG, "b": y}),
    "pyarrow": pa.table({"a": LONG, "b": y}),
}


@pytest.mark.parametrize("kind", TABLES)
def test_features_that_would_be_rounded(kind):
    with pytest.raises(ValueError, match=ROUNDED):
        LADRegressor().fit(TABLES[kind], y)
    named = hasattr(TABLES[kind], "columns")
    model = LADRegressor().fit(pd.DataFrame(X, columns=["a", "b"]) if named else X, y)
    with pytest.raises(ValueError, match=ROUNDED):
        model.predict(TABLES[kind])


def test_files(tmp_path):
    pq.write_table(pa.table({"a": y, "b": y, "long": LONG}), tmp_path / "t.parquet")
    for target, columns, weight in (("long", None, None), ("a", None, None), ("a", ["b"], "long")):
        with pytest.raises(ValueError, match=f"'long' {ROUNDED}"):
            LADRegressor().fit(open_source(tmp_path / "t.parquet", target, columns, weight=weight))
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    np.save(tmp_path / "long.npy", LONG)
    np.save(tmp_path / "table.npy", np.column_stack([LONG, LONG]))
    long, short = tmp_path / "long.npy", tmp_path / "y.npy"
    for rows, target, weight in (("X", long, None), ("X", short, long), ("table", short, None)):
        with pytest.raises(ValueError, match=ROUNDED):
            LADRegressor().fit(open_source(tmp_path / f"{rows}.npy", target, weight=weight))


def test_dask():
    da = pytest.importorskip("dask.array")
    dd = pytest.importorskip("dask.dataframe")
    rows, long = da.from_array(X, chunks=(20, 2)), da.from_array(LONG, chunks=20)
    with pytest.raises(ValueError, match=ROUNDED):
        LADRegressor().fit(rows, long)
    with pytest.raises(ValueError, match=ROUNDED):
        LADRegressor().fit(rows, da.from_array(y, chunks=20), sample_weight=long)
    with pytest.raises(ValueError, match=ROUNDED):
        LADRegressor().fit(da.from_array(TABLES["array"], chunks=(20, 2)), da.from_array(y, chunks=20))
    frame = dd.from_pandas(
        pd.DataFrame({"a": y, "b": pd.Series(LONG.astype(np.uint64), dtype="UInt64")}), npartitions=2
    )
    for target in ("a", "b"):
        with pytest.raises(ValueError, match=ROUNDED):
            LADRegressor().fit(frame, target)


def test_whole_numbers_that_float64_holds_are_what_they_are():
    exact = (np.arange(N) - 30) * 2**55
    for values in (exact, pd.Series(exact, dtype="Int64"), exact.tolist(), pl.Series(exact)):
        assert as_source(X, values).chunk(0).y.tolist() == exact.tolist()
    refuse_lossy(np.array([-(2**63), 2**62, 2**53, 0]), "y")
    refuse_lossy(np.array([2**63, 2**64 - 2**12], dtype=np.uint64), "y")
    refuse_lossy(np.empty(0, dtype=np.int64), "y")
    with pytest.raises(ValueError, match="-9223372036854775807 at row 1"):
        refuse_lossy(np.array([0, -(2**63) + 1]), "y")
    with pytest.raises(ValueError, match="at row 12, column 1"):
        refuse_lossy(np.array([[0, 0], [0, 0], [0, 2**53 + 1]]), "X", first=10)


def test_class_labels_stay_whole():
    labels = np.where(X[:, 0] > 0, 2**53 + 1, 2**53)
    for values in (labels, pd.Series(labels, dtype="Int64"), pl.Series(labels), pa.chunked_array([labels])):
        assert LinearSVC().fit(X, values).classes_.tolist() == [2**53, 2**53 + 1]


DATES = np.datetime64("2020-01-01") + np.arange(N)
STRANGE = {
    "masked": (np.ma.masked_array(y, np.arange(N) == 3), "is a masked array with masked values"),
    "dates": (DATES, "holds dates or times"),
    "times": (DATES - DATES[0], "holds dates or times"),
    "pandas dates": (pd.Series(DATES), "holds dates or times"),
    "polars dates": (pl.Series([datetime.date(2020, 1, 1)] * N), "holds dates or times"),
    "complex": (y + 0j, "Complex data not supported"),
    "complex list": ((y + 0j).tolist(), "Complex data not supported"),
}


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("make", [LADRegressor, QuantileRegressorCV])
def test_values_that_are_no_numbers(kind, make):
    values, sentence = STRANGE[kind]
    with pytest.raises(ValueError, match=sentence):
        make().fit(X, values)
    with pytest.raises(ValueError, match=sentence):
        make().fit(X, y, sample_weight=values)
    with pytest.raises(ValueError, match=sentence if "dates" not in kind else "dates"):
        LinearSVC().fit(X, values)


@pytest.mark.parametrize("kind", ["masked", "dates", "complex"])
def test_features_that_are_no_numbers(kind):
    values, sentence = STRANGE[kind]
    values = np.ma.masked_array(X, X > 1) if kind == "masked" else np.column_stack([values, values])
    with pytest.raises(ValueError, match=sentence):
        LADRegressor().fit(values, y)
    with pytest.raises(ValueError, match=sentence):
        LADRegressor().fit(X, y).predict(values)


def test_a_mask_that_hides_nothing_is_no_mask():
    expected = LADRegressor().fit(X, y)
    found = LADRegressor().fit(np.ma.masked_array(X), np.ma.masked_array(y), sample_weight=np.ma.ones(N))
    assert np.array_equal(found.coef_, expected.coef_)
