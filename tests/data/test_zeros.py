"""Dense rows that are mostly zeros: their sparse rows are those of CSR, and so is every fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from aidlearn import LADRegressor, LinearOneClassSVM, LinearSVC, LinearSVR, QuantileRegressor, as_source
from aidlearn.data.passes import sparse_copy
from aidlearn.data.passes.run import COMPILED_CELLS
from aidlearn.data.passes.sparse_copy import SparseRows, density_of, pays, without_zeros
from aidlearn.data.rows import chunk as chunks
from aidlearn.data.rows.memory import Need

N, M = 34_000, 130  # two chunks of sparse rows, and enough cells for compiled passes
ORDERS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "every second row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "from the last column to the first": lambda X: np.ascontiguousarray(X[:, ::-1])[:, ::-1],
}


def one_hot(seed: int = 0, n: int = N, dtype: type = np.float64) -> np.ndarray:
    """Two numbers and three factors."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n, M), dtype=dtype)
    X[:, :2] = rng.standard_normal((n, 2))
    rows = np.arange(n)
    for first, last in ((2, 62), (62, 112), (112, M)):
        X[rows, rng.integers(first, last, n)] = 1
    return X


def target(X: np.ndarray, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return X @ rng.standard_normal(X.shape[1]) + rng.laplace(size=len(X))


def same_rows(found, expected) -> None:
    expected = sparse.csr_array(expected)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert np.array_equal(found.data, expected.data, equal_nan=True)
    assert np.array_equal(found.indices, expected.indices)
    assert np.array_equal(found.indptr, expected.indptr)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    m=st.integers(1, 40),
    n=st.integers(1, 70),
    share=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    rows_at_once=st.sampled_from([1, 3, 100]),
    order=st.sampled_from(list(ORDERS)),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_rows_are_those_of_csr(seed, m, n, share, rows_at_once, order, dtype) -> None:
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, m)) < share, rng.standard_normal((n, m)), 0.0)
    X[rng.random((n, m)) < 0.05] = -0.0
    X[rng.random((n, m)) < 0.02] = np.nan
    X[rng.random((n, m)) < 0.02] = np.inf
    X = ORDERS[order](X.astype(dtype))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK_ELEMENTS", 16 * 16)
        patch.setattr(chunks, "FEWEST_ROWS", 7)
        patch.setattr(sparse_copy, "SETTINGS", replace(sparse_copy.SETTINGS, block_cells=rows_at_once * m))
        source = SparseRows(as_source(X, np.arange(n, dtype=float), rng.random(n)), 2)
        for part in source.chunks():
            same_rows(part.X, X[part.start : part.stop])
            assert np.array_equal(part.y, np.arange(part.start, part.stop))
        step = int(rng.integers(1, 9))
        offset = int(rng.integers(0, min(step, n)))
        same_rows(source.every(step, offset).X, X[offset::step])
        first, last = np.sort(rng.choice(n + 1, 2, replace=False))
        same_rows(source.rows(int(first), int(last)).X, X[first:last])


MODELS = {
    "LAD": lambda **given: LADRegressor(**given),
    "quantile, L1": lambda **given: QuantileRegressor(quantile=0.8, alpha=1e-4, **given),
    "SVR": lambda **given: LinearSVR(C=0.1, epsilon=0.5, **given),
    "one class": lambda **given: LinearOneClassSVM(nu=0.3, **given),
    "k-means": lambda **given: LADRegressor(init="kmeans", max_iter=3, **given),
    "standardised": lambda **given: LADRegressor(standardize=True, **given),
}


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    X = one_hot()
    return X, target(X)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore:.*gap")
def test_fits_are_those_of_csr_whatever_the_threads(name, rows) -> None:
    X, y = rows
    given = sparse.csr_array(X)
    expected = MODELS[name](n_jobs=1).fit(given, y)
    for n_jobs in (1, 2):
        found = MODELS[name](n_jobs=n_jobs).fit(X, y)
        assert np.array_equal(found.coef_, expected.coef_)
        assert found.intercept_ == expected.intercept_
        assert (found.objective_, found.lower_bound_) == (expected.objective_, expected.lower_bound_)
        assert (found.n_passes_, found.n_clusters_) == (expected.n_passes_, expected.n_clusters_)
    assert found.predict(X[:100]).shape == (100,)


def test_classes_weights_float32_and_order(rows) -> None:
    X, y = rows
    X, y, weight = X.astype(np.float32), np.digitize(y, [-2.0, 1.0]), np.random.default_rng(3).uniform(0, 2, N)
    expected = LinearSVC(C=0.1, class_weight="balanced").fit(sparse.csr_array(X), y, weight)
    found = LinearSVC(C=0.1, class_weight="balanced").fit(np.asfortranarray(X), y, weight)
    assert np.array_equal(found.coef_, expected.coef_)
    assert np.array_equal(found.gap_, expected.gap_)
    assert np.array_equal(found.support_, expected.support_)
    assert np.array_equal(found.dual_coef_, expected.dual_coef_)


def test_optimum_is_that_of_dense_rows(rows) -> None:
    X, y = rows
    dense = LADRegressor(tol=1e-7).fit(np.where(X == 0, 1e-300, X), y)  # no cell is zero, none is another number
    found = LADRegressor(tol=1e-7).fit(X, y)
    assert found.objective_ == pytest.approx(dense.objective_, rel=1e-7)


def test_frames_are_kept_sparse_too(rows) -> None:
    X, y = rows
    names = [f"c{j}" for j in range(M)]
    frame = pd.DataFrame(X, columns=names).astype(dict.fromkeys(names[2:], np.uint8))
    source = without_zeros(as_source(frame, y))
    assert isinstance(source, SparseRows)
    for part in source.chunks():
        same_rows(part.X, X[part.start : part.stop])
    expected = LADRegressor().fit(sparse.csr_array(X), y)
    found = LADRegressor().fit(frame, y)
    assert np.array_equal(found.coef_, expected.coef_)
    assert list(found.feature_names_in_) == names
    frame["c1"] = frame["c1"].where(np.arange(N) != 33_333)
    with pytest.raises(ValueError, match=r"NaN at row 33333, column 1 \('c1'\)"):
        LADRegressor().fit(frame, y)
    with pytest.raises(ValueError, match="init as a callable needs an array"):
        LADRegressor(init=lambda X, y: np.zeros(len(y))).fit(frame.fillna(0.0), y)


def test_cells_that_are_no_numbers_are_named(rows) -> None:
    X, y = rows
    for value, word in ((np.nan, "NaN"), (-np.inf, "infinity")):
        bad = X.copy()
        bad[33_000, 77] = value
        with pytest.raises(ValueError, match=f"{word} at row 33000, column 77"):
            LADRegressor().fit(bad, y)


def test_rows_with_missing_cells_are_left_out(rows) -> None:
    X, y = rows
    X = X.copy()
    X[::1000, 1] = np.nan
    expected = LADRegressor(missing="drop").fit(sparse.csr_array(X), y)
    found = LADRegressor(missing="drop").fit(X, y)
    assert found.n_dropped_ == N // 1000
    assert np.array_equal(found.coef_, expected.coef_)
    assert found.objective_ == expected.objective_


def test_a_start_of_the_user_is_given_the_array(rows) -> None:
    X, y = rows
    seen = []

    def start(array, target):
        seen.append(array)
        return (target > 0) * 1

    LADRegressor(init=start, max_iter=1).fit(X, y)
    assert seen[0] is X


def test_only_large_arrays_of_mostly_zeros_in_enough_columns() -> None:
    X = one_hot()
    y = np.zeros(N)
    assert isinstance(without_zeros(as_source(X, y)), SparseRows)
    full = np.where(X == 0, 0.5, X)
    half = np.where(np.arange(M) < M // 3, full, 0.0)
    few = X[:, :33].repeat(4, axis=0)
    small = X[: COMPILED_CELLS // M - 1]
    for other in (full, half, few, small, sparse.csr_array(X)):
        source = as_source(other, np.zeros(other.shape[0]))
        assert without_zeros(source) is source


def test_rows_that_come_in_turns_are_seen() -> None:
    """Every eighth row has no zero: a sample of every k-th row would see all of them or none."""
    X = np.zeros((N, M))
    X[::8] = 1.0
    assert density_of(as_source(X, np.zeros(N))) == pytest.approx(1 / 8, rel=0.35)


@pytest.mark.parametrize("itemsize", [4, 8])
def test_memory_is_small_and_counted(itemsize) -> None:
    for m in (40, 64, 100, 300, 5000):
        largest = max((d for d in np.linspace(0, 1, 1001) if pays(m, itemsize, d)), default=0.0)
        assert (largest * m * (itemsize + 4) + 4) <= 0.25 * m * itemsize
    X = one_hot(dtype=np.float32 if itemsize == 4 else np.float64)
    source = as_source(X, np.zeros(N))
    found = without_zeros(source)
    nnz = np.count_nonzero(X)
    assert found.reading_bytes == nnz * (itemsize + 4) + 4 * (N + found.n_chunks)
    assert found.reading_bytes < 0.1 * X.nbytes
    assert Need.of(found, 1).fixed - Need.of(as_source(sparse.csr_array(X), np.zeros(N)), 1).fixed == pytest.approx(
        found.reading_bytes
    )
    source.memory_limit = 0.2 * X.nbytes
    assert without_zeros(source) is source
