"""Values and columns that are refused by one sentence, and those that are converted exactly."""

import os

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aidlearn import LADRegressor, LinearSVC, SemiSupervisedSVC, open_source

N = 60
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
Y = X[:, 0] + RNG.normal(size=N)
NOT_FLOAT64 = 2**53 + 1


def parquet(folder, **columns):
    path = folder / "rows.parquet"
    pq.write_table(pa.table({"a": X[:, 0], "y": Y, **columns}), path)
    return path


NESTED = {
    "map": (pa.map_(pa.string(), pa.float64()), [("k", 1.0)]),
    "list": (pa.list_(pa.string()), ["k"]),
    "struct": (pa.struct([("k", pa.string())]), {"k": "text"}),
}


@pytest.mark.parametrize("kind", NESTED)
def test_nested_columns_are_refused_wherever_they_are(kind, tmp_path):
    dtype, value = NESTED[kind]
    path = parquet(tmp_path, m=pa.array([value] * N, dtype))
    with pytest.raises(ValueError, match=r"\('m'\) of .*rows.parquet holds lists or records"):
        LADRegressor().fit(path, "y")
    with pytest.raises(ValueError, match=r"\('m'\) of X holds lists or records"):
        LADRegressor().fit(pq.read_table(path, columns=["a", "m"]), Y)
    with pytest.raises(ValueError, match=r"The target 'm' of .* holds lists or records; convert it to numbers"):
        open_source(path, "m", ["a"])
    with pytest.raises(ValueError, match=r"The weight 'm' of .* holds lists or records; convert it to numbers"):
        open_source(path, "y", ["a"], weight="m")
    assert LADRegressor().fit(open_source(path, "y", ["a"])).status_.reached_tolerance  # without the column


def test_weights_are_numbers(tmp_path):
    path = parquet(tmp_path, m=["heavy"] * N, d=pa.array(range(N), pa.date32()))
    for name, holds in (("m", "texts"), ("d", "dates or times")):
        with pytest.raises(ValueError, match=f"The weight '{name}' of .* holds {holds}; convert it to numbers"):
            open_source(path, "y", ["a"], weight=name)


def test_dictionaries_of_numbers_are_numeric_targets(tmp_path):
    target = np.round(Y)
    target[::7] = np.nan
    path = parquet(tmp_path, t=pa.array(target).dictionary_encode())
    with pytest.raises(ValueError, match="Input y contains NaN at row 0"):
        LADRegressor().fit(open_source(path, "t", ["a"]))
    model = LADRegressor(missing="drop").fit(open_source(path, "t", ["a"]))
    there = ~np.isnan(target)
    assert model.n_dropped_ == N - there.sum()
    assert model.objective_ == LADRegressor().fit(X[there, :1], target[there]).objective_


@pytest.mark.parametrize("name", ["Int128", "UInt128"])
def test_whole_numbers_of_128_bits(name):
    if not hasattr(pl, name):
        pytest.skip(f"this version of polars has no {name}")
    numbers = pl.Series("b", np.arange(N)).cast(getattr(pl, name))
    plain = np.arange(N, dtype=float)
    frame, expected = pl.DataFrame({"a": X[:, 0], "b": numbers}), np.column_stack([X[:, 0], plain])
    model = LADRegressor().fit(frame, Y, sample_weight=numbers)
    assert np.array_equal(model.coef_, LADRegressor().fit(expected, Y, sample_weight=plain).coef_)
    assert np.array_equal(model.predict(frame), model.predict(frame.cast(pl.Float64)))
    assert np.array_equal(LADRegressor().fit(X, numbers).coef_, LADRegressor().fit(X, plain).coef_)
    classes = pl.Series((Y > 0).astype(int)).cast(getattr(pl, name))
    assert LinearSVC().fit(X, classes).classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match="Column 'b' of the LazyFrame has whole numbers of 128 bits"):
        LADRegressor().fit(frame.with_columns(y=Y).lazy(), "y")


@pytest.mark.parametrize("estimator", [LinearSVC, SemiSupervisedSVC])
@pytest.mark.parametrize(
    ("labels", "kinds"), [(["a", 1], "int and str"), ([b"a", "b"], "bytes and str"), ([(1, 2), (3, 4)], "tuple")]
)
def test_labels_without_a_common_order(estimator, labels, kinds):
    with pytest.raises(ValueError, match=f"holds values of the type {kinds}, which are not classes: convert all"):
        estimator().fit(X, pd.Series(labels * (N // 2)))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipes_are_refused_before_they_are_read(tmp_path):
    path = tmp_path / "rows.csv"
    os.mkfifo(path)
    with pytest.raises(ValueError, match=r"rows.csv is a pipe or device, which is read once only"):
        LADRegressor().fit(path, "y")


@pytest.mark.parametrize("order", [["a", "a[v]"], ["a[v]", "a"]])
def test_two_coefficients_never_have_one_name(order, tmp_path):
    frame = pd.DataFrame({"a": ["u", "v"] * (N // 2), "a[v]": X[:, 0]})[order]
    with pytest.raises(ValueError, match=r"X has a factor and a column .* a coefficient 'a\[v\]': rename one"):
        LADRegressor().fit(frame, Y)
    frame.assign(y=Y).to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(ValueError, match=r"rows.csv has a factor and a column .* a coefficient 'a\[v\]'"):
        LADRegressor().fit(tmp_path / "rows.csv", "y")


def written(folder, row, column, text):
    table = pd.DataFrame({"a": X[:, 0], "y": (Y > 0).astype(int)}).astype(str)
    table.loc[row, column] = text
    table.to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


@pytest.mark.parametrize("column", ["a", "y"])
@pytest.mark.parametrize("text", [str(NOT_FLOAT64), f"-{NOT_FLOAT64}.0", "123456789012345678901234"])
@pytest.mark.parametrize("estimator", [LADRegressor, LinearSVC])
def test_whole_numbers_in_text_are_exact_or_refused(estimator, text, column, tmp_path):
    path = written(tmp_path, 50, column, text)
    whole = text.partition(".")[0]
    with pytest.raises(ValueError, match=f"Row 50 of .*rows.csv has the whole number {whole} in column '{column}'"):
        estimator().fit(path, "y")


def test_large_numbers_that_float64_holds(tmp_path):
    assert LinearSVC().fit(written(tmp_path, 50, "y", str(2**60)), "y").classes_.tolist() == [0, 1, 2**60]
    for text in (str(2**60), "1.5e16", f"{NOT_FLOAT64}.5"):
        assert open_source(written(tmp_path, 50, "a", text), "y").chunk(0).X[50, 0] == float(text)
    model = LADRegressor(categorical_features=["a"]).fit(written(tmp_path, slice(30, 60), "a", str(NOT_FLOAT64)), "y")
    assert str(NOT_FLOAT64) in model.recipe_.columns[0].levels


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="longdouble is float64 here")
def test_long_doubles_are_exact_or_refused(tmp_path):
    numbers = np.arange(N, dtype=np.longdouble) + NOT_FLOAT64
    with pytest.raises(ValueError, match=f"X holds the whole number {NOT_FLOAT64} at row 0, column 0, which float64"):
        LADRegressor().fit(numbers[:, None], Y)
    with pytest.raises(ValueError, match=f"y holds the whole number {NOT_FLOAT64} at row 0, which float64 would round"):
        LADRegressor().fit(X, numbers)
    with pytest.raises(ValueError, match=f"sample_weight holds the whole number {NOT_FLOAT64}"):
        LADRegressor().fit(X, Y, sample_weight=numbers)
    np.save(tmp_path / "rows.npy", np.column_stack([numbers, Y]))
    with pytest.raises(ValueError, match=f"rows.npy holds the whole number {NOT_FLOAT64} at row 0"):
        LADRegressor().fit(tmp_path / "rows.npy", 1)
    same = LADRegressor().fit(X.astype(np.longdouble), Y.astype(np.longdouble))
    assert np.array_equal(same.coef_, LADRegressor().fit(X, Y).coef_)


def test_whole_numbers_in_lists_with_fractions():
    with pytest.raises(ValueError, match=f"X holds the whole number {NOT_FLOAT64} at row 1, column 0"):
        LADRegressor().fit([[0.5], [NOT_FLOAT64], [2.5]], [1, 2, 3])


def test_predictions_of_empty_partitions():
    frames = pytest.importorskip("dask.dataframe")
    table = pd.DataFrame({"a": X[:, 0], "c": ["u", "v"] * (N // 2)})
    given = frames.from_pandas(table, npartitions=3)
    with_empty = frames.concat([given[given["a"] > 1e9], given])
    model = LADRegressor().fit(table, Y)
    assert np.array_equal(model.predict(with_empty).compute(), model.predict(table))
    classifier = LinearSVC().fit(table, np.arange(N) % 3)
    assert np.array_equal(classifier.predict(with_empty).compute(), classifier.predict(table))
    assert np.array_equal(classifier.decision_function(with_empty).compute(), classifier.decision_function(table))
