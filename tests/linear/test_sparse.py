"""Laws of linear models on sparse rows: bounds enclose the optimum, no bit depends on threads, no row is dense."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, sparse

from aidlearn import LADRegressor, LinearSVC, QuantileRegressor, as_source
from aidlearn.data import Run
from aidlearn.data.passes.moments import inspect
from aidlearn.engine.checkpoint import CheckpointError
from aidlearn.engine.problem import Trial
from aidlearn.engine.sums import Sums
from aidlearn.linear.aggregated.solvers import SOLVERS
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import absolute
from aidlearn.linear.problem import PiecewiseLinear, Procedure
from aidlearn.linear.rows.columns import SparseLayout
from aidlearn.linear.rows.hybrid import Hybrid, joined
from aidlearn.linear.rows.matrix import Dense
from aidlearn.linear.start.sharpen import Band


@pytest.fixture
def everything_compiled(monkeypatch):
    """Small data take the way of large ones."""
    monkeypatch.setattr("aidlearn.data.passes.run.COMPILED_CELLS", 0)


def dummies(seed, n, levels=(30, 12), numbers=2, density=0.0):
    """Numeric columns beside factors with rare levels; empty rows, an empty column, a level seen once."""
    rng = np.random.default_rng(seed)
    blocks = [rng.normal(size=(n, numbers)) + 3.0]
    for count in levels:
        share = 1.0 / np.arange(1, count + 1) ** 1.5
        drawn = rng.choice(count, n, p=share / share.sum())
        blocks.append(np.eye(count)[drawn][:, 1:])
    blocks += [np.zeros((n, 1)), np.eye(n, 1)]
    if density:
        blocks.append(rng.normal(size=(n, 8)) * (rng.random((n, 8)) < density))
    X = np.hstack(blocks)
    X[rng.integers(0, n, 5)] = 0.0
    X[1] = X[2]
    y = np.round(X @ rng.normal(size=X.shape[1]) + 2 * rng.standard_t(2, n))
    return X, y


def stored(X, how):
    """The same rows in CSR: as scipy makes it, unsorted, or with zeros that are stored."""
    csr = sparse.csr_array(X)
    if how == "unsorted":
        for i in range(csr.shape[0]):
            row = slice(csr.indptr[i], csr.indptr[i + 1])
            csr.indices[row], csr.data[row] = csr.indices[row][::-1].copy(), csr.data[row][::-1].copy()
        csr.has_sorted_indices = csr.has_canonical_format = False
    elif how == "zeros":
        extra = sparse.csr_array((np.ones(len(X)), (np.arange(len(X)), np.full(len(X), 3))), shape=X.shape)
        csr = sparse.csr_array(csr + extra)
        csr.data[:] = X[np.repeat(np.arange(len(X)), np.diff(csr.indptr)), csr.indices]
    return csr


def lp_optimum(X, y, quantile, weight):
    A = np.column_stack([X, np.ones(len(y))])
    bounds = np.column_stack([(quantile - 1) * weight, quantile * weight])
    answer = optimize.linprog(-y, A_eq=sparse.csr_array(A.T), b_eq=np.zeros(A.shape[1]), bounds=bounds)
    assert answer.status == 0
    return -answer.fun


def same(one, two):
    assert np.array_equal(one.coef_, two.coef_)
    assert np.array_equal(one.intercept_, two.intercept_)
    assert one.objective_ == two.objective_
    assert one.lower_bound_ == two.lower_bound_


@given(
    st.integers(0, 10_000),
    st.sampled_from([0.1, 0.5]),
    st.sampled_from(["plain", "unsorted", "zeros"]),
    st.sampled_from([0.0, 0.1, 0.6]),
    st.booleans(),
)
@settings(max_examples=20, deadline=None)
def test_bounds_enclose_the_optimum(seed, quantile, how, density, weighted):
    X, y = dummies(seed, 1500 + seed % 700, density=density)
    weight = np.random.default_rng(seed).choice([0.0, 1.0, 3.0], len(y)) if weighted else np.ones(len(y))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aidlearn.data.passes.run.COMPILED_CELLS", 0)
        model = QuantileRegressor(quantile=quantile, tol=1e-6).fit(stored(X, how), y, weight)
    best = lp_optimum(X, y, quantile, weight)
    assert model.lower_bound_ <= best * (1 + 1e-8) + 1e-9
    assert model.objective_ >= best * (1 - 1e-8) - 1e-9
    assert model.status_.reached_tolerance


@pytest.mark.usefixtures("everything_compiled")
@pytest.mark.parametrize("how", ["plain", "unsorted", "zeros"])
@pytest.mark.parametrize("C", [0.01, 1.0])
def test_a_classifier_of_sparse_rows_is_that_of_dense_ones(how, C):
    X, score = dummies(3, 6000)
    label = np.where(score > np.quantile(score, 0.8), 1, 0)
    label[X[:, 5] > 0] = 1  # a level of one class only
    dense = LinearSVC(C=C, tol=1e-5).fit(X, label)
    found = LinearSVC(C=C, tol=1e-5).fit(stored(X, how), label)
    assert found.status_.reached_tolerance
    assert found.lower_bound_ <= dense.objective_ * (1 + 1e-12)
    assert dense.lower_bound_ <= found.objective_ * (1 + 1e-12)


@pytest.mark.usefixtures("everything_compiled")
@pytest.mark.parametrize("alpha", [0.0, 0.01])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_regression_of_sparse_rows_is_that_of_dense_ones(alpha, fit_intercept):
    X, y = dummies(4, 8000)
    options = {"quantile": 0.3, "alpha": alpha, "fit_intercept": fit_intercept, "tol": 1e-6}
    dense, found = (QuantileRegressor(**options).fit(rows, y) for rows in (X, sparse.csr_array(X)))
    assert found.status_.reached_tolerance
    assert found.lower_bound_ <= dense.objective_ * (1 + 1e-12)
    assert dense.lower_bound_ <= found.objective_ * (1 + 1e-12)


@pytest.mark.usefixtures("everything_compiled")
def test_threads_change_no_bit(monkeypatch):
    monkeypatch.setattr("aidlearn.data.rows.chunk.CHUNK_ELEMENTS", 1 << 15)
    X, y = dummies(5, 20_000)
    one = LADRegressor(tol=1e-6, n_jobs=1).fit(sparse.csr_array(X), y)
    for n_jobs in (2, 3):
        same(LADRegressor(tol=1e-6, n_jobs=n_jobs).fit(sparse.csr_array(X), y), one)


def test_sums_are_those_of_the_partition_after_every_split():
    X, y = dummies(6, 4000)
    run = Run(as_source(sparse.csr_array(X), y), compiled=True)
    design = Design.of(absolute(), inspect(run))
    assert design.layout is not None
    problem = PiecewiseLinear(run, design, Procedure(SOLVERS["auto"], Band(), rng=np.random.default_rng(0)))
    clusters = problem.start().clusters
    assert sparse.issparse(clusters.store.singles)
    rng = np.random.default_rng(1)
    whole = run.targets.code(run.source.every(1, 0))
    for _ in range(3):
        clusters.decluster(clusters.check(Trial([rng.normal(size=design.n_variables)])))
        labels = clusters.labels()
        assert np.array_equal(np.bincount(labels, minlength=clusters.n_clusters), clusters.counts)
        expected = design.aggregate(whole, labels, clusters.n_clusters)
        assert clusters.sums == pytest.approx(expected, abs=1e-8)
        point = rng.normal(size=design.n_variables)
        assert clusters.store.times(point) == pytest.approx(expected[:, :-2] @ point)
        sizes = np.where(clusters.store.alone, 0, np.abs(expected).max(axis=1))
        assert clusters.store.sizes() == pytest.approx(sizes)
        restored = Sums.restore(clusters.store.arrays(), clusters.n_clusters)
        assert np.array_equal(restored.array(), clusters.sums)


def test_damaged_sums_are_refused():
    singles = sparse.csr_array(np.eye(3, 4))
    arrays = Sums(np.ones((2, 4)), singles, np.array([False, True, True, False, True])).arrays()
    assert Sums.restore(arrays, 5).array().shape == (5, 4)
    for change in (
        {"single_clusters": np.array([1, 2, 7])},
        {"single_clusters": np.array([1, 2, 2])},
        {"single_indices": np.array([0, 1, 9])},
        {"sums": np.ones(3)},
    ):
        with pytest.raises(CheckpointError, match="damaged"):
            Sums.restore({**arrays, **change}, 5)
    with pytest.raises(CheckpointError, match="damaged"):
        Sums.restore(arrays, 6)
    with pytest.raises(CheckpointError, match="incomplete"):
        Sums.restore({name: value for name, value in arrays.items() if name != "single_data"}, 5)


@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(0, 3))
@settings(deadline=None)
def test_a_hybrid_matrix_is_its_dense_twin(seed, n_rows, n_full):
    rng = np.random.default_rng(seed)
    q, r = 3, 6
    places = rng.permutation(q + r - 1)
    places = np.sort(np.append(places[: q - 1], q + r - 1)), np.sort(places[q - 1 :])
    at = rng.choice(n_rows, min(n_full, n_rows), replace=False)
    cells = rng.normal(size=(n_rows, r)) * (rng.random((n_rows, r)) < 0.3)
    cells[at] = 0.0
    S = sparse.csr_array(cells)
    hybrid = Hybrid(rng.normal(size=(n_rows, q)), S, rng.normal(size=(len(at), r)), at, places)
    hybrid = joined([hybrid, hybrid.scaled_rows(rng.random(n_rows))])
    array = hybrid.rows(np.arange(2 * n_rows))
    twin = Dense(array)
    v, u, positive = rng.normal(size=q + r), rng.normal(size=2 * n_rows), rng.random(2 * n_rows)
    centre = np.where(hybrid.centrable, rng.normal(size=q + r), 0.0)
    centre[-1] = 0.0
    some = rng.random(q + r) < 0.5
    assert abs(hybrid) @ v == pytest.approx(abs(twin) @ v)
    assert abs(hybrid).T @ positive == pytest.approx(abs(twin).T @ positive)
    for one, two in ((hybrid, twin), (hybrid.centred(centre), twin.centred(centre))):
        assert one @ v == pytest.approx(two @ v)
        assert one.T @ u == pytest.approx(two.T @ u)
        assert one.gram(positive) == pytest.approx(two.gram(positive))
        assert one.normal(positive).diagonal() == pytest.approx(two.gram(positive).diagonal())
        extra = 1.0 + np.abs(v)
        solved = np.linalg.solve(two.gram(positive) + np.diag(extra), v)
        assert one.normal(positive).factor(extra).solve(v) == pytest.approx(solved)
        assert one.maxima() == pytest.approx(two.maxima())
        assert one.slope_products(u) == pytest.approx(two.slope_products(u))
        assert one.weighted_squares(positive, np.abs(v)) == pytest.approx(two.weighted_squares(positive, np.abs(v)))
        assert one.column(2) == pytest.approx(two.column(2))
        assert one.columns(some).T @ u == pytest.approx(two.columns(some).T @ u)
        assert one.transposed(some).toarray() == pytest.approx(two.transposed(some))


@pytest.mark.parametrize("eliminated", [False, True])
def test_sums_of_few_rows_are_stored_as_sparse_rows(eliminated):
    """Sums of two or three entries have few numbers: as full rows they would cost most of a Gram matrix."""
    rng = np.random.default_rng(0)
    q, r, n_single, n_sums = 2, 80, 30, 12
    layout = SparseLayout(np.array([0, r + 1]), np.arange(1, r + 1), 3.0, 5.0, range(r) if eliminated else None)
    single = rng.normal(size=(n_single, r)) * (rng.random((n_single, r)) < 0.03)
    sums = rng.normal(size=(n_sums, r))
    sums[::2] *= rng.random((6, r)) < 0.06
    at = np.sort(rng.choice(n_single + n_sums, n_sums, replace=False))
    dense = rng.normal(size=(n_single + n_sums, q))
    found = Hybrid.of_parts(dense, sparse.csr_array(single), sums, at, layout)
    array = np.empty((n_single + n_sums, r))
    array[at], array[np.setdiff1d(np.arange(len(array)), at)] = sums, single
    array = np.column_stack([dense[:, 0], array, dense[:, 1]])
    D = rng.random(len(array))
    assert found.rows(np.arange(len(array))) == pytest.approx(array)
    assert found.gram(D) == pytest.approx((array.T * D) @ array)
    # A row with more than one level of an eliminated factor is a full one, however few its numbers.
    assert np.array_equal(found.at, at if eliminated else at[1::2])
    assert found.S.has_sorted_indices


@pytest.mark.parametrize("apart", [0.0, 1e-9])
def test_only_columns_that_are_combinations_up_to_rounding_are_dependent(apart):
    """A Gram matrix cannot tell 1e-9 from 0; what holds a variable at the origin has to."""
    rng = np.random.default_rng(0)
    S = np.eye(6)[rng.integers(0, 6, 500)]
    D = np.column_stack([S[:, 0] + apart * rng.normal(size=500), np.ones(500)])
    places = np.array([0, 7]), np.arange(1, 7)
    hybrid = Hybrid(D, sparse.csr_array(S), np.zeros((0, 6)), np.empty(0, dtype=int), places)
    dependent, weakest = hybrid.dependent(np.ones(8))
    assert len(dependent) == (2 if apart == 0 else 1)
    assert len(dependent) == len(Dense(hybrid.rows(np.arange(500))).dependent(np.ones(8))[0])
    assert weakest > 1e-3 if apart == 0 else weakest < 1e-6


def test_what_is_dense_follows_from_the_cost():
    rare = np.full(1000, 0.005)
    layout = SparseLayout.of(np.append(rare, 1.0), fit_intercept=True)
    assert layout is not None
    assert layout.dense.tolist() == [1000, 1001]
    assert SparseLayout.of(np.full(30, 0.4), fit_intercept=True) is None
    assert SparseLayout.of(None, fit_intercept=True) is None


def test_no_row_becomes_dense():
    """All of them would take 3.2 GB, the single ones some hundred MB."""
    rng = np.random.default_rng(0)
    n, m = 200_000, 2000
    columns = np.column_stack([rng.integers(0, m // 5, n) + k * (m // 5) for k in range(5)])
    X = sparse.csr_array((np.ones(5 * n), columns.ravel(), np.arange(0, 5 * n + 1, 5)), shape=(n, m))
    y = X @ rng.normal(size=m) + rng.laplace(size=n)
    tracemalloc.start()
    try:
        LADRegressor(max_iter=1, n_jobs=1, random_state=0).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * 8 * n + 12 * 8 * m**2
