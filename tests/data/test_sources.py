"""Sources hand out the same rows whatever holds them, and never copy the table."""

import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from aidlearn import LADRegressor, LinearSVC, open_source
from aidlearn.data import ArraySource, TableSource, as_source
from aidlearn.data.encoding.places import EXTENSIONS
from aidlearn.data.passes.moments import inspect
from aidlearn.data.passes.run import Run, Systematic
from aidlearn.data.passes.sharing import run_together
from aidlearn.data.rows.chunk import chunk_rows


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(1000, 3))


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr("aidlearn.data.rows.chunk.CHUNK_ELEMENTS", 1000)


HOLDERS = {
    "C": lambda X: X,
    "F": np.asfortranarray,
    "csr": sparse.csr_array,
    "pandas": pd.DataFrame,
    "pandas mixed": lambda X: pd.DataFrame(X).assign(last=1).iloc[:, :3],
    "polars": lambda X: pl.DataFrame(X, schema=list("abc")),
    "pyarrow": lambda X: pa.table(dict(zip("abc", X.T.copy(), strict=True))),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_chunks_cover_all_rows_in_order(X, holder):
    y = np.arange(1000.0)
    source = as_source(HOLDERS[holder](X), y)
    chunks = [source.chunk(k) for k in range(source.n_chunks)]
    assert np.array_equal(np.concatenate([chunk.y for chunk in chunks]), y)
    dense = np.concatenate([chunk.dense_rows(slice(None)) for chunk in chunks])
    assert np.array_equal(dense, X)
    assert [chunk.start for chunk in chunks] == [k * chunk_rows(3) for k in range(len(chunks))]


@pytest.mark.parametrize("holder", HOLDERS)
def test_systematic_sample(X, holder):
    source = as_source(HOLDERS[holder](X), np.arange(1000.0))
    sample = Run(source).every(Systematic(7, 3))
    assert np.array_equal(sample.y, np.arange(3.0, 1000, 7))
    assert np.array_equal(sample.dense_rows(slice(None)), X[3::7])


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_passes_fold_in_chunk_order(X, n_jobs):
    source = ArraySource(X, np.arange(1000.0), np.ones(1000), n_jobs)
    run = Run(source)
    order = []
    states = run.map(lambda chunk, state: (chunk.start, chunk.stop), collect=order.append)
    assert order == sorted(order)
    assert len(order) == source.n_chunks == len(states)
    assert run.map(lambda chunk, state: (None, state == chunk.stop), states) == [True] * source.n_chunks
    assert run.n_passes == 2


def test_a_failing_pass_raises(X):
    source = ArraySource(X, np.zeros(1000), np.ones(1000), 2)

    def fail(chunk, state):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        Run(source).map(fail)


def test_shared_passes_serve_all_fits(X):
    run = Run(ArraySource(X, np.arange(1000.0), np.ones(1000), 2))

    def total(times):
        def fit(shared):
            sums = []
            for _ in range(times):
                found = []
                shared.map(lambda chunk, state: (chunk.y.sum(), None), collect=found.append)
                sums.append(sum(found))
            return sums

        return fit

    assert run_together(run, [total(1), total(4), total(2)]) == [[499500.0] * k for k in (1, 4, 2)]
    assert run.n_passes == 4


@pytest.mark.parametrize("holder", ["C", "F", "pandas"])
def test_arrays_are_viewed(X, holder):
    data = HOLDERS[holder](X)
    source = as_source(data, np.zeros(1000))
    inside = data.to_numpy() if holder == "pandas" else data
    assert isinstance(source, ArraySource)
    assert np.shares_memory(source.chunk(0).X, inside)


def test_tables_are_converted_by_chunk(X):
    assert isinstance(as_source(HOLDERS["polars"](X), np.zeros(1000)), TableSource)


@pytest.mark.parametrize("null", [None, float("nan")])
def test_nulls_are_found_by_name(X, null):
    table = pl.DataFrame({"a": [1.0, 2.0, null, 4.0], "b": [1.0, 2.0, 3.0, 4.0]})
    with pytest.raises(ValueError, match=r"NaN at row 2, column 0 \('a'\)"):
        LADRegressor().fit(table, [1.0, 2.0, 3.0, 4.0])


def test_moments_count_weights():
    X = np.array([[1.0], [3.0], [100.0]])
    moments = inspect(Run(as_source(X, np.zeros(3), [1.0, 3.0, 0.0])))
    assert moments.weight == 4
    assert moments.mean == pytest.approx([2.5])
    assert moments.squares == pytest.approx([1 * 1.5**2 + 3 * 0.5**2])
    assert moments.effective == pytest.approx(16 / 10)


def test_finite_entries_whose_squares_overflow_are_explained():
    with pytest.raises(ValueError, match="too large"):
        LADRegressor().fit([[1e200], [2e200]], [1.0, 2.0])


@pytest.mark.parametrize("model", [LADRegressor(tol=1e-6), LinearSVC(tol=1e-6)])
def test_a_fit_allocates_a_fraction_of_the_array(model, monkeypatch):
    monkeypatch.setattr("aidlearn.data.rows.chunk.CHUNK_ELEMENTS", 1 << 16)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 50))
    y = X[:, 0] + rng.normal(size=60_000)
    y = (y > 0).astype(float) if isinstance(model, LinearSVC) else y
    model.fit(X[:2000], y[:2000])
    tracemalloc.start()
    model.fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < X.nbytes


def test_a_source_may_be_fitted_again(X):
    """What a fit takes from the targets or makes of them does not stay with the user's source."""
    y = 1e9 + X[:, 0]
    source = as_source(X, y)
    first, second = LADRegressor().fit(source), LADRegressor().fit(source)
    assert first.intercept_ == second.intercept_ == LADRegressor().fit(X, y).intercept_
    labelled = as_source(X, 3.0 + (X[:, 1] > 0))
    assert LinearSVC().fit(labelled).classes_.tolist() == [3, 4]
    assert LADRegressor().fit(labelled).intercept_ >= 3


class Watcher:
    def __init__(self):
        self.seen = []

    def __call__(self, record):
        pass

    def on_pass(self, progress):
        self.seen.append(progress)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_progress_of_passes(X, n_classes):
    watcher = Watcher()
    model = LinearSVC(callbacks=watcher).fit(X, np.digitize(X[:, 0], [0, 1][: n_classes - 1]))
    ends = [progress for progress in watcher.seen if progress.rows == progress.n_rows]
    assert [progress.number for progress in ends] == list(range(1, model.n_passes_ + 1))
    assert {progress.n_rows for progress in watcher.seen} == {1000}
    assert all(progress.rows_per_second > 0 for progress in watcher.seen)


def test_a_kind_of_file_without_a_source_is_read_as_no_other(tmp_path, monkeypatch):
    (tmp_path / "t.new").write_text("1 2 3")
    monkeypatch.setitem(EXTENSIONS, ".new", "new")
    with pytest.raises(NotImplementedError, match="kind 'new' have an extension, but no source"):
        open_source(tmp_path / "t.new")
