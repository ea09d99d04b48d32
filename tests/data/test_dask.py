"""Dask collections: bitwise the same fits as from memory, rows that stay on the cluster, workers that may be lost."""

import gc
import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from aidlearn import SVC, LADRegressor, LinearSVC, LinearSVR, QuantileRegressor, SemiSupervisedSVC, Status, open_source
from aidlearn.data.rows.chunk import chunk_rows
from aidlearn.data.rows.threads import one_blas_thread

dask = pytest.importorskip("dask", reason="needs the extra dask")
pytest.importorskip("distributed", reason="needs the extra dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

from distributed import Client, LocalCluster  # noqa: E402

import aidlearn.data.dask.backend as backends  # noqa: E402
import aidlearn.data.dask.source as ours  # noqa: E402
import aidlearn.data.rows.remote as remote  # noqa: E402

N, M = 14_000, 100
"""Three chunks."""
CUTS = [0, 5000, 5001, 9500, N]
"""Partitions."""
COLUMNS = [f"x{k}" for k in range(M)]


def cluster(n_workers, threads=1):
    """Workers in processes of their own."""
    return LocalCluster(n_workers=n_workers, threads_per_worker=threads, processes=True, dashboard_address=":0")


@pytest.fixture(scope="module")
def client():
    with cluster(2) as workers, Client(workers) as client:
        yield client


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, M))
    return X, X @ rng.normal(size=M) + rng.laplace(size=N) + 5.0, rng.uniform(0.5, 2.0, N)


@pytest.fixture(scope="module")
def labels(data):
    return np.where(data[1] > np.median(data[1]), "yes", "no")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, data, labels):
    """Files for the workers to read, so that rows never pass through this process."""
    folder = tmp_path_factory.mktemp("parts")
    X, y, weight = data
    frame = pd.DataFrame(X, columns=COLUMNS).assign(y=y, w=weight, label=labels)
    frame["class"] = np.digitize(y, [0.0, 10.0])
    for k, (first, last) in enumerate(pairwise(CUTS)):
        frame[first:last].to_parquet(folder / f"{k}.parquet")
    np.save(folder / "X.npy", X)
    return folder


@pytest.fixture(scope="module")
def frame(folder):
    return dd.read_parquet(folder)


def read(path, dtype, block_info=None):
    (first, last), (low, high) = block_info[None]["array-location"]
    return np.load(path, mmap_mode="r")[first:last, low:high].astype(dtype)


def array(folder, rows=3333, columns=33, dtype=np.float64):
    """X as a Dask array whose blocks the workers read."""
    chunks = (da.core.normalize_chunks(rows, (N,))[0], da.core.normalize_chunks(columns, (M,))[0])
    meta = np.empty((0, 0), dtype=dtype)
    return da.map_blocks(read, str(folder / "X.npy"), dtype, chunks=chunks, dtype=dtype, meta=meta)


def vector(values, rows=4100):
    return da.from_array(values, chunks=rows)


def same_bits(ours, theirs):
    assert len(ours.history_) == len(theirs.history_)
    for one, other in zip(ours.history_, theirs.history_, strict=True):
        assert one.n_clusters == other.n_clusters
        assert one.lower_bound == other.lower_bound
        assert one.objective == other.objective
    assert np.array_equal(ours.coef_, theirs.coef_)
    assert np.array_equal(ours.intercept_, theirs.intercept_)
    assert np.array_equal(ours.lower_bound_, theirs.lower_bound_)


def settled(client, n):
    """The number of futures once releases have arrived."""
    for _ in range(50):
        if len(client.futures) <= n:
            break
        time.sleep(0.1)
    return len(client.futures)


# The same bits


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("init", ["auto", "kmeans"])
def test_lad_has_the_bits_of_memory(client, folder, data, frame, weighted, init):
    X, y, weight = data
    model = LADRegressor(init=init, max_iter=4)
    memory = clone(model).fit(X, y, weight if weighted else None)
    same_bits(clone(model).fit(array(folder), vector(y), vector(weight, 999) if weighted else None), memory)
    source = open_source(frame, target="y", columns=COLUMNS, weight="w" if weighted else None)
    same_bits(clone(model).fit(source), memory)


@pytest.mark.parametrize("n_workers", [1, 3])
def test_any_number_of_workers_and_threads(folder, data, labels, n_workers):
    X, y, weight = data
    lad, svm = LADRegressor().fit(X, y, weight), LinearSVC(C=0.1).fit(X, labels)
    # One worker with two threads: they share the limit on BLAS threads.
    with cluster(n_workers, threads=2 if n_workers == 1 else 1) as workers, Client(workers):
        same_bits(LADRegressor().fit(array(folder), vector(y), vector(weight)), lad)
        same_bits(LinearSVC(C=0.1).fit(array(folder), vector(labels)), svm)


def test_svm_has_the_bits_of_memory(client, folder, data, labels, frame):
    X, y, weight = data
    memory = LinearSVC(C=0.1).fit(X, labels)
    for model in (
        LinearSVC(C=0.1).fit(array(folder), vector(labels)),
        LinearSVC(C=0.1).fit(frame[COLUMNS], frame["label"]),
        LinearSVC(C=0.1).fit(frame[[*COLUMNS, "label"]], "label"),
        LinearSVC(C=0.1).fit(frame[[*COLUMNS, "label"]].astype({"label": "category"}), "label"),
    ):
        same_bits(model, memory)
        assert model.classes_.tolist() == ["no", "yes"]
        assert np.array_equal(model.support_, memory.support_)
        assert np.array_equal(model.dual_coef_, memory.dual_coef_)
    settings = {"C": 0.1, "class_weight": "balanced", "row_duals": True}
    memory = LinearSVC(**settings).fit(X, labels, weight)
    same_bits(LinearSVC(**settings).fit(array(folder), vector(labels), vector(weight)), memory)
    memory = LinearSVR(C=0.1, epsilon=0.5).fit(X, y)
    same_bits(LinearSVR(C=0.1, epsilon=0.5).fit(array(folder), vector(y)), memory)


def test_several_models_share_passes(client, folder, data, frame):
    X, y, _ = data
    classes = np.digitize(y, [0.0, 10.0])
    memory = LinearSVC(C=0.01).fit(X, classes)
    model = LinearSVC(C=0.01).fit(frame[[*COLUMNS, "class"]], "class")
    assert model.classes_.tolist() == [0, 1, 2]
    for one, other in zip(model.history_, memory.history_, strict=True):
        assert [r.lower_bound for r in one] == [r.lower_bound for r in other]
    assert np.array_equal(model.coef_, memory.coef_)
    assert np.array_equal(model.dual_coef_, memory.dual_coef_)
    assert model.n_passes_ < sum(LinearSVC(C=0.01).fit(X, classes == k).n_passes_ for k in range(3))
    memory = QuantileRegressor(quantile=[0.1, 0.5]).fit(X, y)
    model = QuantileRegressor(quantile=[0.1, 0.5]).fit(array(folder), vector(y))
    assert np.array_equal(model.coef_, memory.coef_)


def test_float32_stays_float32(client, folder, data, frame):
    X, y, _ = data
    memory = LADRegressor().fit(X.astype(np.float32), y)
    same_bits(LADRegressor().fit(array(folder, dtype=np.float32), vector(y)), memory)
    same_bits(LADRegressor().fit(frame[COLUMNS].astype(np.float32), frame["y"]), memory)
    source = open_source(frame[COLUMNS].astype(np.float32), frame["y"])
    assert source._batches.tasks[0].compute().X.dtype == np.float32


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_without_a_cluster(folder, data, frame, scheduler):
    X, y, weight = data
    memory = LADRegressor().fit(X, y, weight)
    with dask.config.set(scheduler=scheduler, num_workers=2):
        source = open_source(array(folder), vector(y), weight=vector(weight))
        assert isinstance(source._backend, backends.Local)
        assert not source._batches.kept
        same_bits(LADRegressor().fit(source), memory)


def test_collections_that_do_not_fit_are_read_in_every_pass(client, folder, data, monkeypatch):
    X, y, _ = data
    monkeypatch.setattr(backends, "SETTINGS", replace(backends.SETTINGS, kept_share=0.0))
    source = open_source(array(folder), vector(y))
    assert not source._batches.kept
    same_bits(LADRegressor().fit(source), LADRegressor().fit(X, y))


def test_a_source_serves_several_fits(client, folder, data, frame):
    """What a fit takes out of the targets, or makes of them, is its own."""
    X, y, _ = data
    source = open_source(array(folder), vector(y + 1e4))
    memory = LADRegressor().fit(X, y + 1e4)
    for _ in range(2):
        same_bits(LADRegressor().fit(source), memory)
    source = open_source(frame, "class", COLUMNS)
    number = np.digitize(y, [0.0, 10.0])
    memory = LADRegressor().fit(X, number)
    LinearSVC(C=0.01).fit(source)
    same_bits(LADRegressor().fit(source), memory)


# Where rows are


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_unaligned_arrays_are_copied_and_others_are_not(dtype):
    numbers = np.random.default_rng(0).normal(size=(3000, 7)).astype(dtype)
    buffer = np.empty(numbers.nbytes + 64, dtype=np.uint8)
    for offset in range(9):
        moved = buffer[offset : offset + numbers.nbytes].view(dtype).reshape(numbers.shape)
        moved[:] = numbers
        steady = remote.steady(moved)
        assert steady.flags.aligned
        assert steady.flags.c_contiguous
        assert np.shares_memory(steady, moved) == moved.flags.aligned
        with one_blas_thread():
            assert np.array_equal(steady.T @ np.ones(3000), numbers.T @ np.ones(3000))
    assert remote.steady(np.asfortranarray(numbers)).flags.c_contiguous


def test_what_is_sealed_comes_out_aligned():
    arrays = [np.arange(k + 1.0) for k in range(50)]
    again = pickle.loads(pickle.dumps(remote.Sealed(arrays), protocol=5)).content
    assert all(array.flags.aligned and array.flags.writeable for array in again)
    assert all(np.array_equal(one, other) for one, other in zip(again, arrays, strict=True))
    frames = []
    pickle.dumps(remote.Sealed(arrays), protocol=5, buffer_callback=frames.append)
    assert frames == []


def test_rows_and_labels_stay_on_the_cluster(client, monkeypatch):
    """What comes back in a fit is small next to the data, and no chunk is made here."""
    received = []
    original = client.gather

    def gather(futures, *args, **kwargs):
        values = original(futures, *args, **kwargs)
        received.append(len(pickle.dumps(values)))
        return values

    def refuse(*args, **kwargs):
        raise AssertionError("a chunk was made on this side")

    monkeypatch.setattr(client, "gather", gather)
    for home, name in (
        (remote, "_work"),
        (remote, "_code"),
        (remote, "_count"),
        (remote, "_look"),
        (ours, "_assemble"),
    ):
        # Sent by name: a worker has its own module and runs the real function.
        refused = type(refuse)(refuse.__code__, refuse.__globals__, name)
        refused.__module__, refused.__qualname__ = home.__name__, name
        monkeypatch.setattr(home, name, refused)
    sent = []
    original_sent = remote.Backend.sent

    def measured(self, function):
        sent.append(len(_dumped(function)))
        return original_sent(self, function)

    monkeypatch.setattr(remote.Backend, "sent", measured)
    n, m = 120_000, 10

    def rows(block_id=None):
        return np.random.default_rng(block_id[0]).normal(size=(n // 4, m))

    X = da.map_blocks(rows, chunks=((n // 4,) * 4, (m,)), dtype=float, meta=np.empty((0, 0)))
    y = X.sum(axis=1) + X[:, 0] ** 3
    for model in (LADRegressor(), LinearSVC(C=0.01)):
        model.fit(X, y if isinstance(model, LADRegressor) else y > 0)
        assert model.gap_ <= 1e-4
        assert max(received) < 8 * n * m / 8  # the sample of a twelfth of the rows
        assert max(sent) < 4 * n / 4  # the labels of all rows would be 4 n bytes
    assert len(sent) > 10


def _dumped(function):
    import cloudpickle

    return cloudpickle.dumps(function)


def test_futures_are_released(client, folder, data):
    _, y, _ = data
    gc.collect()
    before = settled(client, 0)
    counts = []
    gc.disable()
    try:
        model = LADRegressor(init="kmeans", max_iter=5, callbacks=lambda record: counts.append(len(client.futures)))
        source = open_source(array(folder), vector(y))
        n_tasks = len(source._batches.tasks)
        model.fit(source)
        # Rows, targets, labels and what the last pass gave; releases may lag behind by a pass or two.
        assert max(counts) <= before + 10 * n_tasks
        assert len(counts) == 5
        del model, source
        assert settled(client, before) <= before
    finally:
        gc.enable()


def test_a_pass_function_cannot_take_states_along():
    with pytest.raises(TypeError, match="stays where the chunk is"):
        pickle.dumps(remote.RemoteState(None, (0,)))


def test_dask_is_imported_only_for_dask():
    code = "import sys, aidlearn; sys.exit(any(name.split('.')[0] in ('dask', 'distributed') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Prediction


def test_predictions_are_lazy(client, folder, data, labels, frame):
    X, y, _ = data
    lad = LADRegressor().fit(X, y)
    several = QuantileRegressor(quantile=[0.1, 0.9]).fit(X, y)
    svm = LinearSVC(C=0.1).fit(X, labels)
    three = LinearSVC(C=0.01).fit(X, np.digitize(y, [0.0, 10.0]))
    for collection in (array(folder), frame[COLUMNS]):
        for predict, expected in (
            (lad.predict, lad.predict(X)),
            (several.predict, several.predict(X)),
            (svm.predict, svm.predict(X)),
            (svm.decision_function, svm.decision_function(X)),
            (three.predict, three.predict(X)),
            (three.decision_function, three.decision_function(X)),
        ):
            lazy = predict(collection)
            assert isinstance(lazy, da.Array)
            assert lazy.dtype == expected.dtype
            assert lazy.ndim == expected.ndim
            values = lazy.compute()
            assert values.shape == expected.shape
            if expected.dtype.kind == "f":
                np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-12)
            else:
                assert np.array_equal(values, expected)
    fitted = LADRegressor().fit(frame[COLUMNS], frame["y"])
    with pytest.raises(ValueError, match="must be those of the fit"):
        fitted.predict(frame[COLUMNS[::-1]])
    with pytest.raises(ValueError, match="X has 5 features, but the model was fitted with 100"):
        lad.predict(array(folder)[:, :5])


# Errors


@pytest.mark.parametrize("row", [0, 5000, N - 1])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_numbers_are_named(client, folder, row, value):
    partition = {0: 0, 5000: 1, N - 1: 3}[row]
    word = "NaN" if np.isnan(value) else "infinity"

    def load(k, column):
        part = pd.read_parquet(folder / f"{k}.parquet", columns=[*COLUMNS, "y"])
        if k == partition:
            part.iloc[row - CUTS[k], part.columns.get_loc(column)] = value
        return part

    where = rf"{word} at row {row} \(partition {partition}\)"
    with pytest.raises(ValueError, match=rf"X contains {where}, column 7 \('x7'\)"):
        LADRegressor().fit(dd.from_map(load, range(4), column="x7"), "y")
    with pytest.raises(ValueError, match=f"y contains {where}"):
        LADRegressor().fit(dd.from_map(load, range(4), column="y"), "y")


def test_partitions_that_dask_has_joined_are_not_numbered(client, folder):
    """Reading few columns, Dask joins small files: rows keep their numbers, partitions would be other ones."""
    frame = dd.read_parquet(folder)
    source = open_source(frame, "y", ["x1"])
    assert source.n_entries == N
    assert source.row_name(5000) == ("5000" if source.starts is None else "5000 (partition 1)")
    same_bits(LADRegressor().fit(source), LADRegressor().fit(frame[["x1"]].compute().to_numpy(), frame["y"].compute()))


def test_nullable_columns(client):
    rng = np.random.default_rng(0)
    plain = pd.DataFrame({"a": rng.integers(0, 9, 3000), "b": rng.normal(size=3000), "c": rng.random(3000) > 0.5})
    y = plain["a"] + plain["b"] * 2.0 + rng.laplace(size=3000)
    nullable = plain.astype({"a": "Int64", "b": "Float64", "c": "boolean"}).assign(y=y.astype("Float64"))
    memory = LADRegressor().fit(np.ascontiguousarray(plain.astype(float)), y)
    same_bits(LADRegressor().fit(dd.from_pandas(nullable, npartitions=3), "y"), memory)
    for column, name in (("a", r"X contains NaN at row 2500 \(partition 2\), column 0"), ("y", "y contains NaN")):
        missing = nullable.copy()
        missing.loc[2500, column] = pd.NA
        with pytest.raises(ValueError, match=name):
            LADRegressor().fit(dd.from_pandas(missing, npartitions=3), "y")
    classes = nullable.assign(y=(y > 0).astype("Int64"))
    assert LinearSVC().fit(dd.from_pandas(classes, npartitions=3), "y").classes_.tolist() == [0, 1]
    texts = nullable.assign(y=pd.Series(np.where(y > 0, "up", "down"), dtype="string"))
    assert LinearSVC().fit(dd.from_pandas(texts, npartitions=3), "y").classes_.tolist() == ["down", "up"]
    texts.loc[2500, "y"] = pd.NA
    with pytest.raises(ValueError, match=r"y contains NaN or infinity at row 2500 \(partition 2\)"):
        LinearSVC().fit(dd.from_pandas(texts, npartitions=3), "y")


def test_bad_collections_are_refused(client, folder, data, frame):
    X, y, _ = data

    def expect(message, call, *args, **kwargs):
        with pytest.raises(ValueError, match=message):
            call(*args, **kwargs)

    fit = LADRegressor().fit
    plain = LADRegressor(categorical_features=None).fit
    expect("'label'.* of the Dask DataFrame holds texts, not numbers", plain, frame[[*COLUMNS, "label", "y"]], "y")
    expect("has no column 'z' \\(target\\)", fit, frame, "z")
    expect("has no column 'zz' \\(columns\\)", open_source, frame, "y", ["x1", "zz"])
    expect("target or weight", open_source, frame, "y", ["x1", "y"])
    twice = frame[["x1", "x2", "y"]].rename(columns={"x2": "x1"})
    expect("more than one column named 'x1'", fit, twice, "y")
    expect("does not hold numbers", fit, frame[COLUMNS], frame["label"])
    expect(f"X has {N} rows, but y has 7", fit, array(folder), da.zeros(7))
    expect(f"X has {N} rows, but sample_weight has 7", fit, array(folder), vector(y), da.ones(7))
    expect("has no rows", fit, frame[frame["x1"] > 1e9][[*COLUMNS, "y"]], "y")
    expect("has no rows", fit, da.zeros((0, 3)), da.zeros(0))
    expect("have no target", fit, array(folder))
    expect("dimension", fit, da.zeros(10), da.zeros(10))
    expect("one value per row", fit, array(folder), array(folder))
    expect("neither numbers nor texts", fit, da.zeros((10, 2), dtype=complex), da.zeros(10))
    expect("is not a table", fit, dask.delayed(np.zeros)((3, 2)), da.zeros(3))
    expect("only if X is one", fit, X, vector(y))
    expect("memory_limit is for files", open_source, frame, "y", memory_limit="1GB")
    expect("Dask collection", SVC().fit, array(folder), vector(y))
    expect("Dask collection", SemiSupervisedSVC().fit, array(folder), vector(y))
    expect("rows in memory", SVC().fit(X[:50], y[:50] > 5).predict, array(folder))
    expect("more than 1000 different values", LinearSVC().fit, array(folder), vector(y))
    expect("only one class", LinearSVC().fit, array(folder), da.zeros(N))
    expect("numbers with decimals", LinearSVC().fit, array(folder), vector(np.arange(N) % 2 + 0.5))
    expect("init as a callable", LADRegressor(init=lambda X, y: y > 0).fit, array(folder), vector(y))
    with dask.config.set({"dataframe.convert-string": False}):
        mixed = pd.DataFrame({"a": [1.0, 2.0], "y": pd.Series(["p", 3], dtype=object)})
        expect("values of the type int and str", LinearSVC().fit, dd.from_pandas(mixed, npartitions=1), "y")


def test_collections_of_any_partitions(client, folder, data):
    """Unknown sizes, empty partitions, y cut in another way, y in memory."""
    X, y, _ = data
    memory = LADRegressor().fit(X[:9000], y[:9000])
    rows = pd.DataFrame(X[:9000], columns=COLUMNS).assign(y=y[:9000], part=np.arange(9000) // 3000)
    unknown = dd.from_pandas(rows, npartitions=5)
    values = unknown[COLUMNS].to_dask_array()
    assert np.isnan(values.shape[0])
    same_bits(LADRegressor().fit(values, unknown["y"]), memory)
    same_bits(LADRegressor().fit(values, vector(y[:9000], 1234)), memory)
    same_bits(LADRegressor().fit(values, y[:9000]), memory)
    empty = dd.concat([unknown.query("part > 5"), unknown, unknown.query("part > 5")])
    same_bits(LADRegressor().fit(empty[[*COLUMNS, "y"]], "y"), memory)
    whole = da.from_array(np.column_stack([X[:9000], y[:9000]]), chunks=(1000, 30))
    same_bits(LADRegressor().fit(open_source(whole, target=-1)), memory)
    few = LADRegressor().fit(open_source(array(folder), vector(y), columns=[5, 2]))
    same_bits(few, LADRegressor().fit(np.ascontiguousarray(X[:, [5, 2]]), y))


# Checkpoints and interruptions


def test_a_checkpoint_is_continued_to_the_same_bits(client, tmp_path, folder, data):
    X, y, _ = data
    whole = LADRegressor(init="kmeans", max_iter=6).fit(X, y)
    settings = {"init": "kmeans", "max_iter": 6, "checkpoint": tmp_path / "run.ckpt"}
    stop = LADRegressor(**settings, callbacks=lambda record: record.iteration >= 3)
    assert stop.fit(array(folder), vector(y)).status_ is Status.interrupted
    again = LADRegressor(**settings).fit(array(folder), vector(y))
    same_bits(again, whole)
    # A fit that was begun on the cluster goes on in memory.
    settings["checkpoint"] = tmp_path / "other.ckpt"
    LADRegressor(**settings, callbacks=lambda record: record.iteration >= 3).fit(array(folder), vector(y))
    same_bits(LADRegressor(**settings).fit(X, y), whole)


def test_an_interrupt_keeps_the_best(client, folder, data):
    _, y, _ = data

    def interrupt(record):
        if record.iteration == 2:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)

    model = LADRegressor(init="kmeans", callbacks=interrupt).fit(array(folder), vector(y))
    assert model.status_ is Status.interrupted
    assert 0 < model.lower_bound_ <= model.objective_


def test_an_interrupt_in_a_pass_keeps_the_best(client, folder, data, monkeypatch):
    _, y, _ = data
    original = backends.Cluster._next

    def interrupted(self, ready):
        if len(history) == 2:
            raise KeyboardInterrupt
        return original(self, ready)

    history = []
    monkeypatch.setattr(backends.Cluster, "_next", interrupted)
    model = LADRegressor(init="kmeans", callbacks=history.append).fit(array(folder), vector(y))
    assert model.status_ is Status.interrupted
    assert 0 < model.lower_bound_ <= model.objective_


# Lost workers


def workers_of(client):
    return list(client.run(os.getpid).values())


@pytest.mark.filterwarnings("ignore::UserWarning:distributed")
def test_a_lost_worker_changes_no_bit(folder, data, labels):
    X, y, weight = data
    with cluster(3) as workers, Client(workers) as client:

        def kill(record):
            if record.iteration == 2:
                os.kill(workers_of(client)[0], signal.SIGKILL)

        model = LADRegressor(init="kmeans", max_iter=5)
        memory = clone(model).fit(X, y, weight)
        lost = clone(model).set_params(callbacks=kill).fit(array(folder), vector(y), vector(weight))
        same_bits(lost, memory)
        memory = LinearSVC(C=0.1, init="kmeans", max_iter=5).fit(X, labels)
        lost = LinearSVC(C=0.1, init="kmeans", max_iter=5, callbacks=kill).fit(array(folder), vector(labels))
        same_bits(lost, memory)


def test_no_workers_and_no_scheduler_end_a_fit(folder, data, monkeypatch):
    _, y, _ = data
    monkeypatch.setattr(backends, "SETTINGS", replace(backends.SETTINGS, without_workers=1.0))
    with cluster(1) as workers, Client(workers) as client:

        def leave(record):
            if record.iteration == 2:
                workers.scale(0)
                workers.sync(workers._correct_state)

        with pytest.raises(RuntimeError, match="has had no worker for 1 seconds; start workers and fit again"):
            LADRegressor(init="kmeans", callbacks=leave).fit(array(folder), vector(y))
        workers.scale(1)
        client.wait_for_workers(1)

        def close(record):
            if record.iteration == 2:
                workers.close()

        with pytest.raises(RuntimeError, match="connection to the Dask scheduler was lost"):
            LADRegressor(init="kmeans", callbacks=close).fit(array(folder), vector(y))


def test_errors_of_the_cluster_are_one_sentence(client, folder, data, monkeypatch):
    from distributed import KilledWorker

    _, y, _ = data

    def give_up(self, ready):
        return None, KilledWorker("task", None, 3)

    def cancel(self, ready):
        return None, __import__("concurrent.futures").futures.CancelledError()

    source = open_source(array(folder), vector(y))
    monkeypatch.setattr(backends.Cluster, "_next", give_up)
    with pytest.raises(RuntimeError, match="died 4 times, most often for lack of memory"):
        LADRegressor().fit(source)
    monkeypatch.setattr(backends.Cluster, "_next", cancel)
    with pytest.raises(RuntimeError, match="were cancelled on the Dask cluster"):
        LADRegressor().fit(source)
    assert source.n_chunks == -(-N // chunk_rows(M))


def test_processes_do_not_send_rows_around(folder, data, caplog):
    """98 s where threads take 1.1 before: every pass sent all rows from process to process."""
    X, y, _ = data
    with dask.config.set(scheduler="processes"), caplog.at_level("INFO", logger="aidlearn"):
        model = LADRegressor(init="kmeans", max_iter=3).fit(array(folder), vector(y))
    assert "threads are used" in caplog.text
    same_bits(model, LADRegressor(init="kmeans", max_iter=3).fit(X, y))


def test_workers_without_work_end_a_fit(monkeypatch):
    """Tasks that a scheduler has lost track of would be waited for in silence."""
    now = [100.0]
    monkeypatch.setattr(backends.time, "monotonic", lambda: now[0])
    watch = backends._Watch(now[0])
    watch.look(3, 2)
    for _ in range(3):  # at work, however slow
        now[0] += 1000
        watch.look(3, 1)
    watch.look(3, 0)
    now[0] += backends.SETTINGS.idle - 1
    watch.look(3, 0)
    now[0] += 2
    with pytest.raises(RuntimeError, match="nothing to do for 60 seconds while the fit waits"):
        watch.look(3, 0)


def test_slow_workers_are_told_of(monkeypatch, caplog):
    now = [100.0]
    monkeypatch.setattr(backends.time, "monotonic", lambda: now[0])
    watch = backends._Watch(now[0])
    for _ in range(70):
        now[0] += 1
        watch.look(2, 5)
    assert caplog.text.count("no result from the Dask cluster") == 2
    assert "5 tasks on 2 workers" in caplog.text
