"""Files: bitwise the same fits as from memory, and errors that name file, row and column."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from aidlearn import SVC, LADRegressor, LinearSVC, LinearSVR, QuantileRegressor, SemiSupervisedSVC, open_source
from aidlearn.data.passes.run import Run
from aidlearn.data.rows.chunk import chunk_rows
from aidlearn.data.tables import csv as csv_files

N, M = 30_000, 40


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, M))
    return X, X @ rng.normal(size=M) + rng.laplace(size=N) + 5.0, rng.uniform(0.5, 2.0, N)


@pytest.fixture(scope="module")
def labels(data):
    y = data[1]
    return np.where(y > np.median(y), "yes", "no")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, data, labels):
    X, y, weight = data
    folder = tmp_path_factory.mktemp("files")
    np.save(folder / "X.npy", X)
    np.save(folder / "F.npy", np.asfortranarray(X))
    np.save(folder / "y.npy", y)
    np.save(folder / "w.npy", weight)
    np.save(folder / "all.npy", np.column_stack([X, y, weight]))
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(M)]).assign(y=y, w=weight, label=labels)
    frame.to_parquet(folder / "one.parquet", row_group_size=7001)
    (folder / "many").mkdir()
    for k, start in enumerate(range(0, N, 11_000)):
        frame[start : start + 11_000].to_parquet(folder / "many" / f"part-{k}.parquet", row_group_size=999)
    frame.to_csv(folder / "table.csv", index=False)
    frame.to_csv(folder / "table.tsv", index=False, sep="\t")
    return folder


COLUMNS = [f"x{k}" for k in range(M)]


def sources(folder, target="y", weight=None):
    named = {"target": target, "columns": COLUMNS, "weight": weight}
    yield open_source(folder / "one.parquet", **named)
    yield open_source(folder / "many", **named)
    yield open_source(folder / "table.csv", **named)
    yield open_source(folder / "table.tsv", **named)
    if target == "y":
        weight_file = None if weight is None else folder / "w.npy"
        yield open_source(folder / "X.npy", target=folder / "y.npy", weight=weight_file)
        yield open_source(folder / "F.npy", target=folder / "y.npy", weight=weight_file)
        if weight is not None:
            yield open_source(folder / "all.npy", target=M, weight=-1)


def same_bits(ours, theirs):
    assert len(ours.history_) == len(theirs.history_)
    for one, other in zip(ours.history_, theirs.history_, strict=True):
        assert one.n_clusters == other.n_clusters
        assert one.lower_bound == other.lower_bound
        assert one.objective == other.objective
    assert np.array_equal(ours.coef_, theirs.coef_)
    assert np.array_equal(ours.intercept_, theirs.intercept_)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("init", ["auto", "kmeans"])
def test_lad_from_files_has_the_bits_of_memory(folder, data, weighted, init):
    X, y, weight = data
    model = LADRegressor(init=init, max_iter=4)
    memory = clone(model).fit(X, y, weight if weighted else None)
    for source in sources(folder, weight="w" if weighted else None):
        same_bits(clone(model).fit(source), memory)


def test_svm_from_files_has_the_bits_of_memory(folder, data, labels):
    X, _, _ = data
    memory = LinearSVC(C=0.1).fit(X, labels)
    balanced = LinearSVC(C=0.1, class_weight="balanced").fit(X, labels)
    for source in sources(folder, "label"):
        model = LinearSVC(C=0.1).fit(source)
        same_bits(model, memory)
        assert model.classes_.tolist() == ["no", "yes"]
        assert np.array_equal(model.support_, memory.support_)
        assert np.array_equal(model.dual_coef_, memory.dual_coef_)
    same_bits(LinearSVC(C=0.1, class_weight="balanced").fit(source), balanced)


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_threads_read_ahead_without_changing_a_bit(folder, data, n_jobs):
    X, y, _ = data
    memory = LADRegressor().fit(X, y)
    for path in ("one.parquet", "table.csv"):
        source = open_source(folder / path, target="y", columns=COLUMNS, n_jobs=n_jobs)
        same_bits(LADRegressor().fit(source), memory)
    source = open_source(folder / "X.npy", target=folder / "y.npy", n_jobs=n_jobs)
    same_bits(QuantileRegressor(quantile=0.5, alpha=0.0).fit(source), QuantileRegressor(quantile=0.5).fit(X, y))


def test_a_large_offset_of_the_target_is_taken_out_of_files_too(tmp_path, data):
    X, y, _ = data
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y + 1e7)
    memory = LinearSVR(C=0.01).fit(X, y + 1e7)
    same_bits(LinearSVR(C=0.01).fit(open_source(tmp_path / "X.npy", tmp_path / "y.npy")), memory)


def test_paths_go_to_fit(folder, data):
    X, y, _ = data
    model = LADRegressor().fit(str(folder / "all.npy"), M, M + 1)
    same_bits(model, LADRegressor().fit(X, y, data[2]))
    assert LADRegressor().fit(folder / "one.parquet", "y").coefficient_names_[-1] == "label[yes]"
    with pytest.raises(ValueError, match=r"column 41 \('label'\) of .* holds texts, not numbers"):
        LADRegressor(categorical_features=None).fit(folder / "one.parquet", "y")


def test_svmlight(tmp_path, data, labels):
    X = sparse.csr_array(np.where(np.abs(data[0]) > 1.5, data[0], 0.0))
    y = np.where(labels == "yes", 1, -1)
    for zero_based in (True, False):
        path = tmp_path / "rows.svm"
        dump_svmlight_file(X, y, str(path), zero_based=zero_based)
        X, y = load_svmlight_file(str(path), n_features=M, zero_based=zero_based)  # the last digit is not written
        source = open_source(path)
        assert (source.n_entries, source.n_attributes) == X.shape
        model = LinearSVC(C=0.1).fit(source)
        same_bits(model, LinearSVC(C=0.1).fit(X, y))
    assert model.classes_.tolist() == [-1, 1]


def test_one_hot(tmp_path):
    rng = np.random.default_rng(1)
    kind = rng.choice(["a", "b", "c"], 3000)
    x = rng.normal(size=3000)
    y = x + (kind == "b") * 2.0 + rng.laplace(size=3000)
    path = tmp_path / "mixed.csv"
    pd.DataFrame({"x": x, "kind": kind, "y": y}).to_csv(path, index=False)
    source = open_source(path, target="y", one_hot="kind")
    assert source.names == ["x", "kind[b]", "kind[c]"]
    model = LADRegressor().fit(source)
    dense = np.column_stack([x, kind == "b", kind == "c"]).astype(float)
    same_bits(model, LADRegressor().fit(dense, y))
    assert model.coefficient_names_ == source.names
    assert model.feature_names_in_.tolist() == ["x", "kind"]


def test_only_chunks_are_in_memory(folder):
    source = open_source(folder / "one.parquet", target="y", columns=COLUMNS)
    sizes = [chunk.n_entries for chunk in source.chunks()]
    assert sizes[:-1] == [chunk_rows(M)] * (len(sizes) - 1)
    assert sum(sizes) == N
    assert source.chunk(1).start == chunk_rows(M)


def test_closing_a_pass_early_ends_its_reader(folder):
    run = Run(open_source(folder / "table.csv", target="y", columns=COLUMNS))

    def stop(chunk, state):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.map(stop)
    assert run.n_passes == 1


def bad_table(tmp_path, kind, row, value):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(9000, 3)), columns=["a", "b", "y"])
    if kind == "csv":
        frame = frame.astype(object)
        frame.iloc[row, 1] = value
        frame.to_csv(tmp_path / "bad.csv", index=False)
        return tmp_path / "bad.csv"
    frame.iloc[row, 1] = value
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "bad.parquet", row_group_size=1000)
    return tmp_path / "bad.parquet"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("row", [0, 4500, 8999])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_numbers_are_found_wherever_they_are(tmp_path, kind, row, value):
    path = bad_table(tmp_path, kind, row, value)
    with pytest.raises(ValueError, match=rf"row {row} of .*bad\.{kind}, column 1 \('b'\)"):
        LADRegressor().fit(path, "y")


@pytest.mark.parametrize("row", [10, 8999])
def test_texts_among_numbers_are_found(tmp_path, row, monkeypatch):
    monkeypatch.setattr(csv_files, "SETTINGS", replace(csv_files.SETTINGS, block_bytes=20_000))
    path = bad_table(tmp_path, "csv", row, "oops")
    match = rf"Row {row} of .*bad\.csv has the text 'oops' in column 1 \('b'\)"
    if row == 10:  # in the first rows: a column of texts
        match = "different texts in 9000 rows, not numbers.* first text is 'oops', in row 10"
    with pytest.raises(ValueError, match=match):
        LADRegressor().fit(path, "y")


def test_bad_files_are_named(tmp_path, folder):
    def expect(message, path, *arguments, error=ValueError, **options):
        with pytest.raises(error, match=message):
            open_source(path, *arguments, **options)

    expect("no file", tmp_path / "missing.csv", "y", error=FileNotFoundError)
    (tmp_path / "empty.csv").write_text("")
    expect("is empty", tmp_path / "empty.csv", "y")
    (tmp_path / "header.csv").write_text("a,y\n")
    expect("has no rows", tmp_path / "header.csv", "y")
    (tmp_path / "twice.csv").write_text("a,a,y\n1,2,3\n")
    expect("more than one column named 'a'", tmp_path / "twice.csv", "y")
    (tmp_path / "ragged.csv").write_text("a,y\n1,2\n1,2,3\n")
    expect("has 3 cells, the header has 2", tmp_path / "ragged.csv", "y")
    expect("has no column 'target'", folder / "one.parquet", "target")
    expect("has no column 'zz'", folder / "one.parquet", "y", ["x1", "zz"])
    expect("target or weight", folder / "one.parquet", "y", ["x1", "y"])
    expect("extension '.json'", _touch(tmp_path / "a.json"), "y")
    expect("cannot be read as Parquet", _touch(tmp_path / "a.parquet"), "y")
    expect("not a readable .npy", _touch(tmp_path / "a.npy"), 0)
    cut = tmp_path / "cut.npy"
    cut.write_bytes((folder / "X.npy").read_bytes()[:-8])
    expect("is cut off", cut, 0)
    expect("one target per row", folder / "X.npy", _saved(tmp_path / "short.npy", np.zeros(3)))
    expect("no column 99", folder / "X.npy", 99)
    (tmp_path / "nothing").mkdir()
    expect("no file \\*.parquet", tmp_path / "nothing", "y")
    expect("needs about", folder / "X.npy", folder / "y.npy", memory_limit="1MB")
    expect("memory_limit must be", folder / "X.npy", folder / "y.npy", memory_limit="much")
    other = tmp_path / "mixed"
    other.mkdir()
    pd.DataFrame({"a": [1.0], "y": [2.0]}).to_parquet(other / "0.parquet")
    pd.DataFrame({"a": [1], "y": [2.0]}).to_parquet(other / "1.parquet")
    expect("1.parquet has other columns or types than", other, "y")
    with pytest.raises(ValueError, match="holds texts"):
        LADRegressor().fit(open_source(folder / "one.parquet", "label", COLUMNS))
    with pytest.raises(ValueError, match="more than 1000 different values"):
        LinearSVC().fit(open_source(folder / "one.parquet", "y", COLUMNS))
    for source in (open_source(folder / "one.parquet", None, COLUMNS), folder / "X.npy"):
        with pytest.raises(ValueError, match="have no target"):
            LADRegressor().fit(source)
    with pytest.raises(ValueError, match="numbers with decimals"):
        LinearSVC().fit(_saved(tmp_path / "few.npy", np.arange(20.0).reshape(10, 2) / 4), 1)
    with pytest.raises(ValueError, match="no path, Dask collection"):
        SVC().fit(folder / "X.npy", 0)


def _touch(path):
    path.write_text("nonsense that is long enough")
    return path


def _saved(path, array):
    np.save(path, array)
    return path


@pytest.mark.parametrize("ending", ["npy", "parquet", "csv"])
def test_files_that_change_between_passes_are_noticed(tmp_path, data, ending):
    X, y, _ = data
    table = pd.DataFrame(X[:3000, :3], columns=list("abc")).assign(y=y[:3000])
    path = tmp_path / f"table.{ending}"

    def write(frame):
        if ending == "npy":
            np.save(path, frame.to_numpy())
        else:
            getattr(frame, f"to_{ending}")(path, index=False)

    write(table)
    target = 3 if ending == "npy" else "y"
    model = LADRegressor(init="kmeans", tol=0, callbacks=lambda record: write(table + 1.0))
    with pytest.raises(ValueError, match="was changed or removed since it was opened"):
        model.fit(path, target)


def test_missing_labels_are_no_class(tmp_path):
    rows = [f"{k % 7},{'' if k == 5 else 'yes' if k % 2 else 'no'}" for k in range(50)]
    (tmp_path / "t.csv").write_text("\n".join(["a,label", *rows]))
    with pytest.raises(ValueError, match=r"Input y contains NaN or infinity at row 5 of .*t\.csv"):
        LinearSVC().fit(tmp_path / "t.csv", "label")


def test_parquet_pages_that_are_damaged_end_in_a_sentence(tmp_path, data):
    path = tmp_path / "table.parquet"
    pd.DataFrame(data[0], columns=COLUMNS).assign(y=data[1]).to_parquet(path, compression="snappy")
    content = bytearray(path.read_bytes())
    half = len(content) // 2
    content[4:half] = b"\xff" * (half - 4)  # pages of the first columns; the description at the end stays
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"table\.parquet cannot be read to its end"):
        LADRegressor().fit(path, "y")


def test_large_svmlight_files_are_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("aidlearn.data.tables.svmlight.PART_BYTES", 20_000)
    rng = np.random.default_rng(0)
    X = sparse.random_array((5000, 30), density=0.2, random_state=rng, format="csr")
    # Before 1.7 scikit-learn writes matrices with indices of 32 bits only.
    X = sparse.csr_array((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
    y = np.where(X @ rng.normal(size=30) > 0, 1, -1)
    dump_svmlight_file(X, y, str(tmp_path / "rows.svm"), zero_based=False)
    X, y = load_svmlight_file(str(tmp_path / "rows.svm"), n_features=30)
    same_bits(LinearSVC(C=0.1).fit(tmp_path / "rows.svm"), LinearSVC(C=0.1).fit(X, y))


def test_line_breaks_in_cells_where_blocks_end(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "SETTINGS", replace(csv_files.SETTINGS, block_bytes=5000))
    rows = "".join(f'{k % 9},{k % 7},"memo\n999,999,end"\n' for k in range(3000))
    for padding in range(12):
        (tmp_path / "t.csv").write_text("a,y,t\n" + f"1,1,{'x' * padding}\n" + rows)
        source = open_source(tmp_path / "t.csv", "y", columns=["a"])
        assert source.n_entries == 3001
        assert max(chunk.X.max() for chunk in source.chunks()) == 8


def test_the_index_of_pandas_is_no_column(tmp_path, data):
    frame = pd.DataFrame(data[0][:3000, :2], columns=["a", "b"]).assign(y=data[1][:3000])
    frame[frame.a > 0].to_parquet(tmp_path / "i.parquet")
    model = LADRegressor().fit(tmp_path / "i.parquet", "y")
    assert list(model.feature_names_in_) == ["a", "b"]
    assert len(model.predict(pd.read_parquet(tmp_path / "i.parquet").drop(columns="y"))) == (frame.a > 0).sum()


def test_labels_keep_their_type(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    for labels in (np.array([2**53, 2**53 + 1, 2**53 + 3]), np.array([False, True])):
        y = rng.choice(labels, 600)
        pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).to_parquet(tmp_path / "l.parquet")
        assert LinearSVC().fit(tmp_path / "l.parquet", "y").classes_.tolist() == labels.tolist()


def test_categories_are_encoded(tmp_path):
    rng = np.random.default_rng(0)
    group = rng.choice(["u", "v", "w"], 3000)
    frame = pd.DataFrame({"a": rng.normal(size=3000), "g": pd.Categorical(group), "y": rng.normal(size=3000)})
    frame.to_parquet(tmp_path / "c.parquet")
    model = LADRegressor().fit(open_source(tmp_path / "c.parquet", "y", one_hot=["g"]))
    assert model.coefficient_names_ == ["a", "g[v]", "g[w]"]
    dummies = np.column_stack([frame.a, group == "v", group == "w"]).astype(float)
    same_bits(model, LADRegressor().fit(dummies, frame.y))
    pq.write_table(pa.table({"g": np.array([1.0, np.nan]), "y": [1.0, 2.0]}), tmp_path / "n.parquet")
    with pytest.raises(ValueError, match=r"missing cell at row 1 of .*, column 'g'"):
        open_source(tmp_path / "n.parquet", "y", one_hot=["g"])


def test_calls_that_mix_files_and_arrays(folder, data):
    with pytest.raises(ValueError, match="target of a file is one of its columns"):
        LADRegressor().fit(folder / "one.parquet", data[1])
    model = LADRegressor().fit(folder / "all.npy", M, M + 1)
    with pytest.raises(ValueError, match="use the command aidlearn predict"):
        model.predict(folder / "all.npy")
    with pytest.raises(ValueError, match="columns names 'x0' more than once"):
        open_source(folder / "one.parquet", "y", columns=["x0", "x0"])


def test_a_byte_order_mark_and_empty_lines_do_not_hide_a_bad_cell(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "SETTINGS", replace(csv_files.SETTINGS, block_bytes=2000))
    rows = [f"{k},{k}" for k in range(2000)]
    (tmp_path / "late.csv").write_text("a,y\n\n" + "\n".join([*rows, "", "oops,1"]))
    with pytest.raises(ValueError, match=r"Row 2000 of .* has the text 'oops' in column 0"):
        LADRegressor().fit(tmp_path / "late.csv", "y")
    many = "".join(f"{k},{k}\n" for k in range(20))
    (tmp_path / "mark.csv").write_bytes(f"\ufeffa,y\n1,2\noops,3\n{many}".encode())
    with pytest.raises(ValueError, match=r"holds numbers and 1 other text.*'oops'.*, in row 1"):
        LADRegressor().fit(tmp_path / "mark.csv", "y")


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "utf-8-sig"])
def test_texts_of_other_encodings_are_read(tmp_path, encoding):
    path = tmp_path / "t.csv"
    path.write_bytes("straße,b,y\n1,2,3\n4,5,6\n".encode(encoding))
    assert open_source(path, "y").names[0] == "straße"


def test_rows_of_another_length_are_counted_as_everywhere(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n1,2,3\n4,5\n")
    with pytest.raises(ValueError, match=r"Row 1 of .*t\.csv has 2 cells, the header has 3"):
        open_source(path, "y")


def test_columns_of_one_name_in_pandas():
    table = pd.DataFrame(np.zeros((5, 3)), columns=["a", "b", "a"])
    for model in (LADRegressor(), LinearSVC(), SVC(), SemiSupervisedSVC()):
        with pytest.raises(ValueError, match="more than one column named 'a'"):
            model.fit(table, np.arange(5) % 2)


def test_labels_that_float64_does_not_tell_apart(tmp_path):
    first, second = 2**53 + 1, 2**53 + 2
    x = np.random.default_rng(0).normal(size=60)
    table = pd.DataFrame({"x": x, "y": np.where(x > 0, first, second)})
    table.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match="has the whole number 9007199254740993 in column 'y'"):
        LinearSVC().fit(tmp_path / "t.csv", "y")
    table.to_parquet(tmp_path / "t.parquet")
    assert LinearSVC().fit(tmp_path / "t.parquet", "y").classes_.tolist() == [first, second]
