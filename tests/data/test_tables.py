"""Tables as people have them: the same coefficients, to the last bit, wherever a table lives."""

import dask.dataframe as dd
import duckdb
import fsspec
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from aidlearn import SVC, LADRegressor, LinearSVC, LinearSVR, QuantileRegressor, SemiSupervisedSVC, open_source
from aidlearn.estimators.checks import with_names

N = 4000
DATE = "am"


def made(n=N, seed=0):
    """Twenty columns, the target among them, in the order of the last one."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "größe": rng.normal(size=n),
            "город": rng.choice(["Москва", "Łódź", "Zürich", "São Paulo"], n),
            "n1": rng.integers(0, 9, n),
            "n2": rng.normal(size=n).round(3),
            "n3": rng.exponential(size=n),
            "n4": rng.integers(-5, 5, n).astype(np.int8),
            "n5": rng.normal(size=n) * 1e3,
            "n6": rng.uniform(size=n),
            "carrier": rng.choice([f"c{k:02}" for k in range(40)], n),
            "kind": pd.Categorical(rng.choice(["x", "y", "z"], n), categories=["z", "y", "unused", "x"]),
            "flag": rng.random(n) < 0.3,
            "odd flag": rng.random(n) < 0.5,
            "memo": rng.choice(["a,b", 'say "no"', "semi;colon", "two\nlines"], n),
            "n7": rng.normal(size=n),
            "n8": rng.normal(size=n),
            "n9": rng.integers(0, 2, n),
            "grade": rng.choice(list("ABCDE"), n),
            DATE: pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, n), unit="D"),
            "y": rng.normal(size=n),
            "region": np.sort(rng.choice(["east", "north", "west"], n)),
        }
    )
    frame["y"] += frame["größe"] + (frame["carrier"] == "c07") * 3 - frame["flag"] + (frame["grade"] == "B") * 2
    return frame


@pytest.fixture(scope="module")
def table():
    frame = made()
    frame.loc[7, "n3"] = np.nan
    frame.loc[[11, 500, 2000], "grade"] = None
    frame.loc[3000, "carrier"] = None
    return frame


def homes(frame, folder):
    """The table wherever it can live, without its date: what ``fit`` takes beside the name of the target."""
    plain = frame.drop(columns=DATE)
    arrow = pa.Table.from_pandas(plain, preserve_index=False)
    plain.to_parquet(folder / "t.parquet", row_group_size=700)
    yield "parquet", folder / "t.parquet"
    ds.write_dataset(arrow, folder / "parts", format="parquet", partitioning=["region"], partitioning_flavor="hive")
    yield "partitioned", folder / "parts"
    for k, first in enumerate(range(0, len(plain), 1500)):
        plain[first : first + 1500].to_parquet(folder / f"piece-{k}.parquet")
    yield "pattern", str(folder / "piece-*.parquet")
    yield "list", [folder / f"piece-{k}.parquet" for k in range(3)]
    plain.to_csv(folder / "t.csv", index=False)
    yield "csv", folder / "t.csv"
    plain.to_csv(folder / "t.csv.gz", index=False)
    yield "gzip", folder / "t.csv.gz"
    (folder / "t.csv.zst").write_bytes(pa.compress((folder / "t.csv").read_bytes(), "zstd", asbytes=True))
    yield "zstd", folder / "t.csv.zst"
    plain.to_csv(folder / "semicolon.csv", index=False, sep=";")
    yield "semicolon", folder / "semicolon.csv"
    plain.to_csv(folder / "comma.csv", index=False, sep=";", decimal=",")
    yield "decimal comma", folder / "comma.csv"
    plain.to_csv(folder / "t.tsv", index=False, sep="\t", encoding="utf-16")
    yield "utf-16", folder / "t.tsv"
    yield "address", f"file://{folder}/t.parquet"
    memory = fsspec.filesystem("memory")
    memory.pipe("/bucket/t.parquet", (folder / "t.parquet").read_bytes())
    memory.pipe("/bucket/t.csv", (folder / "t.csv").read_bytes())
    yield "fsspec parquet", "memory://bucket/t.parquet"
    yield "fsspec csv", "memory://bucket/t.csv"
    yield "duckdb", duckdb.sql(f"select * from '{folder}/t.parquet'")
    yield "lazy polars", pl.scan_parquet(folder / "t.parquet")
    yield "reader", pa.RecordBatchReader.from_batches(arrow.schema, arrow.to_batches(max_chunksize=999))
    yield "dask", dd.from_pandas(plain, npartitions=3)


def same(model, other, where):
    assert model.coefficient_names_ == other.coefficient_names_, where
    assert np.array_equal(model.coef_, other.coef_), where
    assert np.array_equal(model.intercept_, other.intercept_), where
    assert model.objective_ == other.objective_, where
    assert model.lower_bound_ == other.lower_bound_, where
    assert model.n_dropped_ == other.n_dropped_, where


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_table_has_the_same_bits_wherever_it_lives(table, tmp_path):
    X, y = table.drop(columns=[DATE, "y"]), table["y"]
    expected = LADRegressor(missing="drop").fit(X, y)
    assert expected.n_dropped_ == 5
    assert expected.n_features_in_ == 18
    assert "город[Łódź]" in expected.coefficient_names_
    assert "grade[A]" not in expected.coefficient_names_
    assert expected.gap_ <= 1e-4
    for where, frame in (("polars", pl.from_pandas(X)), ("pyarrow", pa.Table.from_pandas(X, preserve_index=False))):
        model = LADRegressor(missing="drop").fit(frame, y)
        same(model, expected, where)
        whole = made(seed=1).drop(columns=[DATE, "y"])
        assert np.array_equal(model.predict(whole), expected.predict(whole)), where
    for where, home in homes(table, tmp_path):
        same(LADRegressor(missing="drop").fit(home, "y"), expected, where)


def test_latin_1(tmp_path):
    frame = made().drop(columns=[DATE, "город"])
    frame["stadt"] = np.random.default_rng(3).choice(["Köln", "Besançon", "Malmö"], N)
    frame.to_csv(tmp_path / "l.csv", index=False, sep=";", encoding="latin-1")
    model = LinearSVR(C=0.1).fit(tmp_path / "l.csv", "y")
    same(model, LinearSVR(C=0.1).fit(frame.drop(columns="y"), frame["y"]), "latin-1")
    assert model.coefficient_names_[-2:] == ["stadt[Köln]", "stadt[Malmö]"]


def test_levels_of_missing_cells(table, tmp_path):
    frame = table.drop(columns=DATE).dropna(subset="n3")
    expected = LADRegressor(missing="level").fit(frame.drop(columns="y"), frame["y"])
    assert "grade[(missing)]" in expected.coefficient_names_
    frame.to_parquet(tmp_path / "m.parquet")
    frame.to_csv(tmp_path / "m.csv", index=False)
    for home in (tmp_path / "m.parquet", tmp_path / "m.csv", dd.from_pandas(frame, npartitions=4)):
        same(LADRegressor(missing="level").fit(home, "y"), expected, str(home))


def test_it_is_the_model_of_dummies(table):
    """Against the expanded matrix itself, by hand."""
    frame = table.dropna().drop(columns=DATE)
    X, y = frame.drop(columns="y"), frame["y"]
    parts = []
    for name in X:
        if X[name].dtype.kind in "fiu":
            parts.append(X[name].to_numpy(dtype=float)[:, None])
            continue
        levels = sorted(map(str, set(X[name])))
        parts.append((X[name].astype(str).to_numpy()[:, None] == levels[1:]).astype(float))
    dense = np.hstack(parts)
    model = QuantileRegressor(quantile=0.3, tol=1e-8).fit(X, y)
    other = QuantileRegressor(quantile=0.3, tol=1e-8).fit(sparse.csr_array(dense), y)
    assert model.coef_.shape == (dense.shape[1],)
    assert model.objective_ == pytest.approx(other.objective_, rel=1e-7)
    assert model.predict(X) == pytest.approx(dense @ model.coef_ + model.intercept_, rel=1e-9)
    bare = LADRegressor(fit_intercept=False, tol=1e-8).fit(X[["n1", "grade", "flag"]], y)
    assert bare.coefficient_names_ == ["n1", *(f"grade[{g}]" for g in "ABCDE"), "flag[False]", "flag[True]"]


def test_reference_levels_and_named_factors():
    frame = made()
    X, y = frame[["n1", "grade", "flag"]], frame["y"]
    model = LADRegressor(categorical_features={"grade": "C", "n1": None}).fit(X, y)
    names = [f"n1[{k}]" for k in range(1, 9)] + ["grade[A]", "grade[B]", "grade[D]", "grade[E]", "flag"]
    assert model.coefficient_names_ == names
    first = LADRegressor(categorical_features=["n1", 1]).fit(X, y)
    assert first.objective_ == pytest.approx(model.objective_, rel=2e-4)
    array = X[["n1"]].to_numpy(dtype=float)
    by_array = LADRegressor(categorical_features=[0]).fit(array, y)
    assert by_array.coefficient_names_ == [f"0[{k}]" for k in range(1, 9)]
    assert np.array_equal(by_array.coef_, LADRegressor(categorical_features=[0]).fit(X[["n1"]], y).coef_)
    with pytest.raises(ValueError, match="with factors \\(columns 0\\): it takes a dense array, got a sparse matrix"):
        by_array.predict(sparse.csr_array(array))
    assert len(by_array.predict(array)) == N
    for given, words in (
        (["zz"], "names 'zz', which is not a column"),
        ({"grade": "Q"}, "names 'Q' as the reference of column 'grade'"),
        ([True], "mask of 1 columns, X has 3"),
        ("all", "categorical_features must be"),
        (["n1"], r"column 1 \('grade'\) of X holds texts"),
    ):
        with pytest.raises(ValueError, match=words):
            LADRegressor(categorical_features=given).fit(X, y)
    with pytest.raises(ValueError, match="missing must be one of"):
        LADRegressor(missing="ignore").fit(X, y)
    with pytest.raises(ValueError, match="unknown must be one of"):
        LADRegressor(unknown="new").fit(X, y)


def test_predictions_of_other_tables():
    frame = made()
    X, y = frame[["n1", "grade", "n2"]], frame["y"]
    model = LADRegressor().fit(X, y)
    expected = model.predict(X)
    for holder in (pl.from_pandas, lambda t: pa.Table.from_pandas(t, preserve_index=False)):
        assert np.array_equal(model.predict(holder(X)), expected)
    assert np.array_equal(model.predict(pl.from_pandas(X).lazy()), expected)
    assert np.array_equal(model.predict(X.astype({"grade": "category"})), expected)
    for bad in (X[["grade", "n1", "n2"]], X.assign(more=1), X[["n1", "n2"]]):
        with pytest.raises(ValueError, match=r"feature names|Feature names|features"):
            model.predict(bad)
    new = X.copy()
    new.loc[9, "grade"] = "F"
    with pytest.raises(
        ValueError, match="Column 'grade' has the level 'F' at row 9, which the model was not fitted to"
    ):
        model.predict(new)
    model.set_params(unknown="reference")
    reference = X.assign(grade=X["grade"].where(new["grade"] != "F", "A"))
    assert np.array_equal(model.predict(new), model.predict(reference))
    new.loc[9, "grade"] = None
    with pytest.raises(ValueError, match="missing cell at row 9, column 'grade'"):
        model.predict(new)


@pytest.mark.parametrize("estimator", [LinearSVC(C=0.1), SVC(), SVC(kernel="linear"), SemiSupervisedSVC()])
def test_classifiers(estimator):
    frame = made(300)
    X, labels = frame[["n2", "grade", "flag", "n7"]], np.where(frame["y"] > 0, "up", "down")
    dummies = pd.get_dummies(X, columns=["grade", "flag"], drop_first=True, dtype=float)
    dummies = dummies[["n2", "grade_B", "grade_C", "grade_D", "grade_E", "flag_True", "n7"]]
    expected = estimator.fit(dummies.to_numpy(), labels).decision_function(dummies.to_numpy())
    assert estimator.fit(X, labels).decision_function(X) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    holes = X.copy()
    holes.loc[[3, 200], "n2"] = np.nan
    y = labels.astype(object)
    y[5] = None
    labelled = not isinstance(estimator, SemiSupervisedSVC)  # to which a row without a target is one without a label
    kept = [k for k in range(300) if k not in ((3, 5, 200) if labelled else (3, 200))]
    estimator.set_params(missing="drop").fit(holes, y)
    known = labels if labelled else np.where(np.arange(300) == 5, "-1", labels)
    again = type(estimator)(**estimator.get_params()).fit(X.iloc[kept], known[kept])
    assert estimator.n_dropped_ == (3 if labelled else 2)
    assert np.array_equal(estimator.decision_function(X), again.decision_function(X))


def test_rows_with_missing_cells_of_arrays():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 30))
    y = X.sum(axis=1) + rng.laplace(size=len(X))
    X[[5, 30_000], 3] = np.nan
    y[9] = np.nan
    kept = np.isfinite(X).all(axis=1) & np.isfinite(y)
    expected = LADRegressor().fit(X[kept], y[kept])
    model = LADRegressor(missing="drop").fit(X, y)
    assert model.n_dropped_ == 3
    assert np.array_equal(model.coef_, expected.coef_)
    assert np.array_equal(LADRegressor(missing="drop").fit(sparse.csr_array(X), y).coef_.shape, expected.coef_.shape)
    with pytest.raises(ValueError, match="contains NaN at row 5, column 3"):
        LADRegressor().fit(X, np.nan_to_num(y))
    with pytest.raises(ValueError, match="leaves none"):
        LADRegressor(missing="drop").fit(np.full((3, 2), np.nan), np.ones(3))


SENTENCES = {
    "dates": (pd.DataFrame({"d": pd.to_datetime(["2024-01-01"] * 9)}), "holds dates or times; convert it to numbers"),
    "sparse": (
        pd.DataFrame({"d": pd.arrays.SparseArray(np.arange(9) % 2.0)}),
        r"holds a sparse array of pandas; hand over X\.sparse\.to_coo",
    ),
    "numbers as objects": (pd.DataFrame({"d": np.arange(9).astype(object)}), "numbers as Python objects.*astype"),
    "lists": (pd.DataFrame({"d": [[1]] * 9}), "holds lists"),
    "arrow lists": (pa.table({"d": [[1]] * 9}), "holds lists"),
    "polars dates": (pl.DataFrame({"d": [1] * 9}).cast(pl.Date), "holds dates"),
    "mixed": (pd.DataFrame({"d": pd.Series(["a"] * 8 + [2], dtype=object)}), "mixes texts|Python objects"),
    "names of rows": (pd.DataFrame({"d": [f"row {k}" for k in range(2000)]}), "2000 different texts in 2000 rows"),
    "numbers with a slip": (
        pd.DataFrame({"d": [*map(str, range(50)), *map(str, range(50)), "n.a. "]}),
        "holds numbers and 1 other text",
    ),
    "nothing": (
        pd.DataFrame({"d": pd.Series([None] * 9, dtype="str")}),
        "missing cell at row 0, column 'd'|column 0 .* holds Python objects",
    ),
    "twice": (pd.DataFrame([[1, "a"]] * 9, columns=["d", "d"]), "more than one column named 'd'|unique column names"),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_columns_that_can_be_nothing(case):
    frame, words = SENTENCES[case]
    with pytest.raises(ValueError, match=words):
        LADRegressor().fit(frame, np.arange(float(frame.shape[0])))


def test_decimals_are_numbers():
    from decimal import Decimal

    values = pa.array([Decimal(k) / 4 for k in range(100)], type=pa.decimal128(10, 2))
    y = np.arange(100.0)
    for frame in (
        pa.table({"d": values}),
        pl.DataFrame(pa.table({"d": values})),
        pd.DataFrame({"d": values.to_pandas()}),
    ):
        if isinstance(frame, pd.DataFrame):
            with pytest.raises(ValueError, match="Decimal"):
                LADRegressor().fit(frame, y)
        else:
            assert LADRegressor(tol=0).fit(frame, y).coef_ == pytest.approx([4.0])


def test_files_that_can_be_nothing(tmp_path):
    def expect(words, path, *arguments, **options):
        with pytest.raises((ValueError, FileNotFoundError), match=words):
            open_source(path, *arguments, **options)

    (tmp_path / "strange.csv").write_text("a b y\n1 2 3\n4 5 6\n")
    expect("only one column.*delimiter", tmp_path / "strange.csv", "y")
    assert open_source(tmp_path / "strange.csv", "y", delimiter=" ").n_attributes == 2
    late = "a,y\n" + "x,1\n" * 200_000 + "\xe9,2\n"
    (tmp_path / "late.csv").write_bytes(late.encode("latin-1"))
    expect("as utf-8 text: give its encoding", tmp_path / "late.csv", "y")
    assert open_source(tmp_path / "late.csv", "y", encoding="latin-1").names == ["a[é]"]
    expect("encoding must be one that Python knows", tmp_path / "late.csv", "y", encoding="no such")
    (tmp_path / "dates.csv").write_text("d,y\n2024-01-01,1\n2024-01-02,2\n")
    expect("holds dates or times", tmp_path / "dates.csv", "y")
    expect("nothing matches this pattern", str(tmp_path / "*.pq"), "y")
    expect("There is no file", "memory://nowhere/t.parquet", "y")
    expect("cannot be opened|does not know", "nosuchscheme://a/b.parquet", "y")
    (tmp_path / "nothing").mkdir()
    expect(r"has no file \*.parquet", tmp_path / "nothing", "y")
    (tmp_path / "other.csv").write_text("a,z\nx,1\n")
    expect("has other columns than", [tmp_path / "dates.csv", tmp_path / "other.csv"], "y")
    pq.write_table(pa.table({"a": [[1], [2]], "y": [1.0, 2.0]}), tmp_path / "lists.parquet")
    expect("holds lists or records", tmp_path / "lists.parquet", "y")
    expect("several kinds", [tmp_path / "dates.csv", tmp_path / "lists.parquet"], "y")


def test_keys_of_folders(tmp_path):
    """Numbers stay numbers, missing keys are missing, a level in no row is no level."""
    frame = pd.DataFrame({"a": np.arange(60.0), "year": np.repeat([2022, 2023, 2024], 20), "y": np.arange(60.0)})
    ds.write_dataset(
        pa.Table.from_pandas(frame), tmp_path / "t", format="parquet", partitioning=["year"], partitioning_flavor="hive"
    )
    source = open_source(tmp_path / "t", "y")
    assert source.names == ["a", "year"]
    assert source.chunk(0).X[:, 1].tolist() == frame["year"].tolist()
    assert open_source(tmp_path / "t", "y", one_hot={"year": 2023}).names == ["a", "year[2022]", "year[2024]"]
    assert open_source(tmp_path / "t", "y", columns=["year"]).n_entries == 60


@pytest.mark.parametrize("holder", ["array", "frame", "csr"])
def test_standardized_columns_are_those_of_a_pipeline(holder):
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 6)) * 10.0 ** np.arange(-3, 3) + 5.0
    X[:, 5] = 7.0
    scores = X[:, 0] * 1e3 + X[:, 2] + rng.normal(size=3000)
    labels = scores > np.median(scores)
    scaler = StandardScaler().fit(X)
    given = {"array": X, "frame": pd.DataFrame(X), "csr": sparse.csr_array(X)}[holder]
    for model in (
        LinearSVC(C=0.1, tol=1e-7),
        LinearSVR(C=0.1, epsilon=0.1, tol=1e-7),
        LADRegressor(alpha=0.01, tol=1e-7),
    ):
        y = labels.astype(float)
        expected = type(model)(**model.get_params()).fit(scaler.transform(X), y)
        model.set_params(standardize=True).fit(given, y)
        assert model.objective_ == pytest.approx(expected.objective_, rel=1e-6)
        assert model.lower_bound_ == pytest.approx(expected.objective_, rel=1e-6)
        assert np.ravel(model.coef_)[:5] == pytest.approx((np.ravel(expected.coef_) / scaler.scale_)[:5], rel=1e-2)


def test_standardized_from_a_file_and_dask_as_from_memory(tmp_path):
    frame = made().drop(columns=DATE)
    frame.to_parquet(tmp_path / "s.parquet")
    X, labels = frame.drop(columns="y"), frame["y"] > 0
    frame["y"] = labels
    frame.to_parquet(tmp_path / "s.parquet")
    expected = LinearSVC(C=0.01, standardize=True).fit(X, labels)
    same(LinearSVC(C=0.01, standardize=True).fit(tmp_path / "s.parquet", "y"), expected, "file")
    same(LinearSVC(C=0.01, standardize=True).fit(dd.from_pandas(frame, npartitions=3), "y"), expected, "dask")
    lazy = expected.predict(dd.from_pandas(X, npartitions=2))
    assert np.array_equal(lazy.compute(), expected.predict(X))


def test_arrays_are_refused_by_a_model_of_a_table_with_factors(table):
    frame = table[["region", "y"]].assign(x=np.arange(len(table)) % 7.0)
    X = frame[["x", "region"]]
    model = LADRegressor(missing="level").fit(X, frame["y"])
    for given in (X.to_numpy(), X.to_numpy().tolist(), sparse.csr_array(np.zeros((3, 2)))):
        with pytest.raises(ValueError, match=r"fitted to a table with factors \('region'\): it takes a table"):
            model.predict(given)
    with pytest.raises(ValueError, match=r"Expected a 2-dimensional container but got .*Series"):
        model.predict(X["x"])
    fewer = X["region"] != X["region"].iloc[0]
    with pytest.raises(ValueError, match="have other levels than those of the fit"):
        model.summary(X[fewer], frame["y"][fewer])


@pytest.mark.parametrize("texts", [["1,234", "987", "12,345,678"], ["1'234.5", "2'000"], ["-1 234", "5 678,25"]])
def test_numbers_with_separators_are_no_factors(texts, tmp_path):
    """Before, they became levels, with one line that said so."""
    table = pd.DataFrame({"sold": texts * 4, "y": np.arange(4.0 * len(texts))})
    table.to_csv(tmp_path / "t.csv", index=False)
    wanted = r"Column 'sold' .* holds numbers with separators, such as .*: write them without"
    with pytest.raises(ValueError, match=wanted):
        LADRegressor().fit(table[["sold"]], table["y"])
    with pytest.raises(ValueError, match=wanted):
        LADRegressor().fit(tmp_path / "t.csv", "y")
    assert LADRegressor(categorical_features=["sold"]).fit(table[["sold"]], table["y"]).gap_ <= 1e-4


def test_texts_like_numbers_with_separators_may_be_levels():
    """Ranges, and places behind a comma, are no thousands."""
    table = pd.DataFrame({"range": ["0-1,000", "1,000-2,000", "12,5", "a"] * 3, "y": np.arange(12.0)})
    assert len(LADRegressor().fit(table[["range"]], table["y"]).coef_) == 3


def test_names_of_columns_reach_any_scikit_learn(monkeypatch):
    """Versions before 1.9 ask tables by a protocol that newer ones of polars do not have."""
    monkeypatch.setattr("aidlearn.estimators.checks.TABLES_ARE_KNOWN", False)
    table = pl.DataFrame({"a": np.arange(9.0), "b": list("uvw") * 3})
    found = with_names(table)
    assert list(found.__dataframe__().column_names()) == ["a", "b"]
    assert found.shape == (9, 2)
    assert with_names(table.to_pandas().to_numpy()).shape == (9, 2)
