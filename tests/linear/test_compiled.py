"""Compiled passes agree with their NumPy twins, whatever the storage of the rows, and keep every law."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, sparse

from aidlearn import LADRegressor, LinearSVC, LinearSVR, QuantileRegressor, as_source, open_source
from aidlearn.data import Chunk, Run
from aidlearn.data.passes import compiled
from aidlearn.data.passes.moments import inspect
from aidlearn.data.passes.run import COMPILED_CELLS, worth_compiling
from aidlearn.engine.problem import Problem, Trial
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import Metric, NormalEquations
from aidlearn.linear.model.losses import absolute, epsilon_insensitive, hinge, pinball
from aidlearn.linear.passes import compiled as compiled_passes
from aidlearn.linear.passes import kernels
from aidlearn.linear.passes.compiled import COMPILED
from aidlearn.linear.passes.in_numpy import NUMPY
from aidlearn.linear.passes.records import Grouping, Regions, Segment
from aidlearn.linear.problem import THREE_WAY_CUTS, PiecewiseLinear, Procedure

LOSSES = {
    "lad": absolute(),
    "tau": pinball(0.2),
    "svm": hinge(0.7, 2.0),
    "svr": epsilon_insensitive(1.3, 0.4),
}
STORAGES = {
    "C": np.asarray,
    "F": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "read-only": lambda X: np.frombuffer(X.tobytes(), dtype=X.dtype).reshape(X.shape),
    "csr": sparse.csr_array,
    "csr float32": lambda X: sparse.csr_array(X.astype(np.float32)),
    "csr long": lambda X: _long(sparse.csr_array(X)),
}


def _long(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def chunk_of(seed, storage, kind, n=333, m=7, ties=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m)).astype(np.float32).astype(np.float64)  # so that float32 holds the same numbers
    X[rng.random((n, m)) < 0.4] = 0.0
    X[rng.integers(0, n, 5)] = 0.0
    y = np.round(X @ rng.normal(size=m) + rng.normal(size=n), 0 if ties else 8)
    if kind == "svm":
        y = rng.integers(0, 4, n).astype(float)
    weight = rng.choice([0.0, 1.0, 2.5], n)
    return Chunk(100, 100 + n, STORAGES[storage](X), y, weight)


def dense(chunk):
    return Chunk(chunk.start, chunk.stop, chunk.dense_rows(slice(None)), chunk.y, chunk.weight, chunk.labels)


def design_of(chunk, kind, fit_intercept=True):
    run = Run(as_source(dense(chunk).X, chunk.y, chunk.weight), compiled=False)
    return Design.of(LOSSES[kind], inspect(run), fit_intercept=fit_intercept)


CASES = pytest.mark.parametrize(("storage", "kind"), [(s, k) for s in STORAGES for k in LOSSES])


@CASES
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_local_sums(storage, kind, fit_intercept):
    chunk = chunk_of(1, storage, kind)
    design = design_of(chunk, kind, fit_intercept)
    point = np.random.default_rng(2).normal(size=design.n_variables)
    some = np.random.default_rng(3).uniform(0.1, 1.0, chunk.n_entries).astype(np.float32)
    for leverage in (some, 0.5):
        expected = NUMPY.local_sums(design, dense(chunk), point, leverage, 1.5)
        found = COMPILED.local_sums(design, chunk, point, leverage, 1.5)
        assert found.objective == pytest.approx(expected.objective, rel=1e-12)
        assert found.forces == pytest.approx(expected.forces, rel=1e-9, abs=1e-9)
        assert found.total_curvature == pytest.approx(expected.total_curvature, rel=1e-9)
        assert np.array_equal(np.sort(found.near), np.sort(expected.near))
        assert np.sort(found.curvature) == pytest.approx(np.sort(expected.curvature), rel=1e-9)


@CASES
@pytest.mark.parametrize("three_way", [False, True])
def test_groups(storage, kind, three_way):
    chunk = chunk_of(4, storage, kind)
    design = design_of(chunk, kind)
    cuts = THREE_WAY_CUTS if three_way else np.array(design.loss.kinks)
    n_groups = (len(cuts) + 1) * 5 * (2 if design.loss.classifies else 1)
    grouping = Grouping(0.3, 2.0, 5, cuts, n_groups)
    leverage = np.random.default_rng(3).uniform(0.1, 1.0, chunk.n_entries).astype(np.float32)
    point = np.random.default_rng(5).normal(size=design.n_variables)
    expected = NUMPY.groups(design, dense(chunk), point, leverage, grouping)
    found = COMPILED.groups(design, chunk, point, leverage, grouping)
    assert np.array_equal(found.labels, expected.labels)
    assert np.array_equal(found.alone, expected.alone)
    assert np.array_equal(found.counts, expected.counts)
    assert found.sums == pytest.approx(expected.sums, rel=1e-12, abs=1e-12)
    assert found.objective == pytest.approx(expected.objective, rel=1e-12)


@CASES
@pytest.mark.parametrize("segment", [False, True])
def test_moves(storage, kind, segment):
    """Compared with the engine's own way: regions of all entries, then those away from home."""
    chunk = chunk_of(6, storage, kind, ties=True)
    design = design_of(chunk, kind)
    problem = PiecewiseLinear(Run(as_source(dense(chunk).X, chunk.y)), design, Procedure(None, None))
    rng = np.random.default_rng(7)
    homes = rng.integers(-1, problem.n_regions, 20).astype(np.int16)
    labels = rng.integers(0, 20, chunk.n_entries).astype(np.int32)
    point = np.round(rng.normal(size=design.n_variables), 1)
    trial = Segment.between(np.zeros(design.n_variables), point, 0.0) if segment else Trial([point])
    plainly = Chunk(chunk.start, chunk.stop, dense(chunk).X, chunk.y, chunk.weight, labels)
    expected = Problem.find_moved(problem, plainly, trial, homes)
    problem.passes = COMPILED
    found = problem.find_moved(Chunk(chunk.start, chunk.stop, chunk.X, chunk.y, chunk.weight, labels), trial, homes)
    assert found.objectives == pytest.approx(expected.objectives, rel=1e-12)
    assert np.array_equal(found.rows, expected.rows)
    assert np.array_equal(found.codes, expected.codes)


@pytest.mark.parametrize("storage", STORAGES)
def test_leverages_and_moments(storage):
    chunk = chunk_of(8, storage, "lad")
    design = design_of(chunk, "lad")
    metric = Metric.of(design, NormalEquations.of(design, dense(chunk)).gram)
    found = COMPILED.leverages(design, chunk, metric)
    assert found.dtype == np.float32
    assert found == pytest.approx(metric.leverage(design, dense(chunk)), rel=1e-5)
    X = np.asarray(dense(chunk).X, dtype=np.float64)
    for weight in (chunk.weight, np.ones(chunk.n_entries)):
        mean = weight @ X / weight.sum()
        for passes in (True, False):
            found = inspect(Run(as_source(chunk.X, chunk.y, weight), compiled=passes))
            assert found.weight == pytest.approx(weight.sum(), rel=1e-12)
            assert found.effective == pytest.approx(weight.sum() ** 2 / (weight @ weight), rel=1e-12)
            assert found.mean == pytest.approx(mean, rel=1e-6, abs=1e-9)
            assert found.squares == pytest.approx(weight @ (X - mean) ** 2, rel=1e-6)
            assert found.raw_squares == pytest.approx(weight @ X**2, rel=1e-6)


@pytest.mark.parametrize("storage", ["C", "csr"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["X", "y", "weight"])
def test_bad_cells_are_found_by_compiled_passes(storage, bad, where):
    X, y = np.random.default_rng(0).normal(size=(300, 3)), np.zeros(300)
    weight = np.ones(300)
    {"X": X[:, 1], "y": y, "weight": weight}[where][217] = bad
    if where == "X":
        weight[217] = 0.0  # a weight of zero hides nothing
    run = Run(as_source(STORAGES[storage](X), y, weight), compiled=True)
    with pytest.raises(ValueError, match="at row 217"):
        inspect(run)
    weight[:] = 1.0
    X[217, 1], y[217], weight[5] = 0.0, 0.0, -1.0
    with pytest.raises(ValueError, match="non-negative, got -1 at row 5"):
        inspect(Run(as_source(STORAGES[storage](X), y, weight), compiled=True))


@pytest.mark.parametrize("kind", LOSSES)
def test_neither_alignment_nor_blocks_of_a_larger_array_change_a_bit(kind):
    chunk = chunk_of(9, "C", kind, n=1000, m=9)
    design = design_of(chunk, kind)
    point = np.random.default_rng(0).normal(size=10)
    expected = COMPILED.local_sums(design, chunk, point, 0.3, 1.0)
    space = np.empty(chunk.X.size + 16)
    for offset in range(9):
        moved = space[offset : offset + chunk.X.size].reshape(chunk.X.shape)
        moved[:] = chunk.X
        found = COMPILED.local_sums(design, Chunk(0, 1000, moved, chunk.y, chunk.weight), point, 0.3, 1.0)
        assert found.objective == expected.objective
        assert np.array_equal(found.forces, expected.forces)


# Whole fits


@pytest.fixture
def everything_compiled(monkeypatch):
    monkeypatch.setattr("aidlearn.data.passes.run.COMPILED_CELLS", 0)


def same(one, two):
    assert np.array_equal(one.coef_, two.coef_)
    assert np.array_equal(one.intercept_, two.intercept_)
    assert one.objective_ == two.objective_
    assert one.lower_bound_ == two.lower_bound_


def rows(n=20_000, m=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    return X, X @ rng.normal(size=m) + rng.standard_t(3, n) + 1.0


MODELS = {
    "lad": lambda **more: LADRegressor(tol=1e-6, **more),
    "quantile": lambda **more: QuantileRegressor(quantile=0.9, tol=1e-6, fit_intercept=False, **more),
    "l1": lambda **more: QuantileRegressor(quantile=0.3, alpha=0.02, tol=1e-6, **more),
    "svr": lambda **more: LinearSVR(C=0.1, epsilon=0.5, tol=1e-6, **more),
    "kmeans": lambda **more: LADRegressor(tol=1e-4, init="kmeans", **more),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_compiled_fit_solves_the_same_problem(name, monkeypatch):
    X, y = rows()
    expected = MODELS[name]().fit(X, y)
    monkeypatch.setattr("aidlearn.data.passes.run.COMPILED_CELLS", 0)
    found = MODELS[name]().fit(X, y)
    assert found.status_.reached_tolerance
    assert max(found.lower_bound_, expected.lower_bound_) <= min(found.objective_, expected.objective_) * (1 + 1e-12)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_compiled_classifier_solves_the_same_problem(n_classes, monkeypatch):
    X, y = rows()
    label = np.digitize(y, [0.0, 1.0, 2.0][: n_classes - 1])
    expected = LinearSVC(C=0.1, tol=1e-6).fit(X, label)
    monkeypatch.setattr("aidlearn.data.passes.run.COMPILED_CELLS", 0)
    for dual in (False, True):
        found = LinearSVC(C=0.1, tol=1e-6, row_duals=dual).fit(X, label)
        assert np.allclose(found.objective_, expected.objective_, rtol=2e-6)
        assert np.all(found.lower_bound_ <= expected.objective_ * (1 + 1e-12))


@pytest.mark.usefixtures("everything_compiled")
@pytest.mark.parametrize("storage", STORAGES)
def test_threads_change_no_bit(storage, monkeypatch):
    monkeypatch.setattr("aidlearn.data.rows.chunk.CHUNK_ELEMENTS", 1 << 13)
    X, y = rows()
    X = STORAGES[storage](X.astype(np.float32).astype(np.float64))
    one = LADRegressor(tol=1e-6, n_jobs=1).fit(X, y)
    for n_jobs in (2, 3):
        same(LADRegressor(tol=1e-6, n_jobs=n_jobs).fit(X, y), one)
    if storage in ("F", "strided", "read-only"):
        same(LADRegressor(tol=1e-6, n_jobs=2).fit(np.ascontiguousarray(X), y), one)


@pytest.mark.usefixtures("everything_compiled")
def test_files_and_dask_have_the_bits_of_memory(tmp_path):
    da = pytest.importorskip("dask.array")
    X, y = rows(n=30_000)
    memory = LADRegressor(tol=1e-6).fit(X, y)
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    pd.DataFrame(X).assign(y=y).rename(columns=str).to_parquet(tmp_path / "rows.parquet")
    same(LADRegressor(tol=1e-6).fit(tmp_path / "rows.npy", X.shape[1]), memory)
    same(LADRegressor(tol=1e-6).fit(tmp_path / "rows.parquet", "y"), memory)
    same(LADRegressor(tol=1e-6).fit(open_source(da.from_array(X, chunks=(7000, 6)), da.from_array(y))), memory)


@given(st.integers(0, 10_000), st.sampled_from([0.05, 0.5, 0.8]), st.booleans())
@settings(max_examples=30)
def test_bounds_enclose_the_optimum(seed, quantile, ties):
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1100, 2500)), int(rng.integers(1, 5))
    X = rng.normal(size=(n, m)) if seed % 2 else rng.integers(0, 3, (n, m)).astype(float)
    y = X @ rng.normal(size=m) + rng.standard_t(2, n)
    y = np.round(y) if ties else y
    weight = rng.choice([0.0, 1.0, 3.0], n)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aidlearn.data.passes.run.COMPILED_CELLS", 0)
        model = QuantileRegressor(quantile=quantile, tol=1e-7).fit(sparse.csr_array(X) if ties else X, y, weight)
    A = np.column_stack([X, np.ones(n)])
    bounds = np.column_stack([(quantile - 1) * weight, quantile * weight])
    best = -optimize.linprog(-y, A_eq=A.T, b_eq=np.zeros(m + 1), bounds=bounds).fun
    assert model.lower_bound_ <= best * (1 + 1e-8) + 1e-9
    assert model.objective_ >= best * (1 - 1e-8) - 1e-9
    assert model.status_.reached_tolerance


def test_what_is_compiled_follows_from_the_shape_alone():
    class Described:
        n_entries, n_attributes = COMPILED_CELLS // 10, 10

    assert worth_compiling(Described)
    Described.n_entries -= 1
    assert not worth_compiling(Described)


def test_an_unwritable_cache_is_no_error(monkeypatch):
    """Where numba finds no folder for its cache, functions are compiled for this process alone."""

    def refuse(self, *args, **kwargs):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr("numba.core.dispatcher.Dispatcher.enable_caching", refuse)

    def twice(x):
        return 2 * x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled.compiled(twice)(4.0) == 8.0


@pytest.mark.parametrize("kind", LOSSES)
def test_the_place_of_scratch_memory_changes_no_bit(kind, monkeypatch):
    """Compiled loops must not choose an order of summation by where arrays lie in memory."""
    n = 1000
    chunk = chunk_of(12, "C", kind, n=n, m=6)
    design = design_of(chunk, kind)
    point = np.random.default_rng(0).normal(size=7)
    labels = np.zeros(n, dtype=np.int32)
    cuts = np.array(design.loss.kinks)
    grouping = Grouping(0.3, 2.0, 5, cuts, (len(cuts) + 1) * 10)
    trial, homes = Segment.between(np.zeros(7), point, 0.0), np.zeros(1, dtype=np.int16)
    space = np.zeros(4 * n + 40_000)
    weight = space[:n]
    weight[:] = chunk.weight
    given = Chunk(0, n, chunk.X, chunk.y, weight, labels)
    seen = set()
    for gap in (0, 1, 7, 64, 500, 2000, 4096, 20_000):
        scratch = space[n + gap : n + gap + kernels.SCRATCH]
        monkeypatch.setattr(compiled_passes._memory, "block", scratch)
        scratch[:] = 0.0
        model = COMPILED.local_sums(design, given, point, 0.4, 1.0)
        groups = COMPILED.groups(design, given, point, 0.4, grouping)
        moves = COMPILED.moves(design, given, trial, Regions(cuts, 1e-15), homes)
        monkeypatch.undo()
        seen.add((model.objective, model.total_curvature, *model.forces, groups.objective, *moves.objectives))
    assert len(seen) == 1


def test_duplicate_and_damaged_sparse_cells():
    twice = sparse.csr_matrix((np.array([3.0, -2.0, 1.0]), np.array([0, 0, 0]), np.array([0, 2, 3])), shape=(2, 1))
    assert compiled.measure(as_source(twice, [0.0, 0.0]).X, np.zeros(2), np.ones(2))[5].tolist() == [2.0]
    damaged = sparse.csr_array(np.eye(4))
    damaged.indices[2] = 9
    with pytest.raises(ValueError, match="column indices outside 0 to 3"):
        LADRegressor().fit(damaged, np.arange(4.0))


def test_columns_whose_squares_vanish_are_refused():
    X, y = rows(n=3000, m=2)
    with pytest.raises(ValueError, match="Column 0 of X has values so small"):
        LADRegressor().fit(X * [1e-165, 1.0], y)
    model = LADRegressor().fit(X * [0.0, 1.0], y)  # a column of zeros is none of them
    assert model.coef_[0] == 0
