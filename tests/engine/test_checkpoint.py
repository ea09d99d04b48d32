"""Checkpoints: bitwise the same result after any interruption, and nothing wrong from a damaged file."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aidlearn import LADRegressor, LinearSVC, QuantileRegressor, Status, archive
from aidlearn.engine.checkpoint import Checkpoint, CheckpointError, read


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9000, 10))
    return X, X @ rng.normal(size=10) + rng.laplace(size=9000)


def model(path=None, **more):
    return LADRegressor(init="kmeans", tol=1e-6, checkpoint=path, **more)


@pytest.fixture(scope="module")
def whole(data):
    return model().fit(*data)


def stop_after(k):
    return lambda record: record.iteration >= k


def same(ours, theirs):
    assert np.array_equal(ours.coef_, theirs.coef_)
    assert ours.intercept_ == theirs.intercept_
    assert ours.lower_bound_ == theirs.lower_bound_
    assert ours.objective_ == theirs.objective_
    assert [r.n_clusters for r in ours.history_] == [r.n_clusters for r in theirs.history_]
    assert [r.lower_bound for r in ours.history_] == [r.lower_bound for r in theirs.history_]


@pytest.mark.parametrize("stopped", [1, 2, 4])
def test_a_fit_goes_on_to_the_same_bits(tmp_path, data, whole, stopped):
    path = tmp_path / "run.ckpt"
    first = model(path, callbacks=stop_after(stopped)).fit(*data)
    assert first.status_ is Status.interrupted
    asked = []
    again = model(path, callbacks=lambda record: asked.append(record.iteration)).fit(*data)
    same(again, whole)
    assert asked[0] <= stopped + 1
    assert asked[0] >= stopped
    assert again.n_passes_ >= whole.n_passes_ - 1
    # A finished fit is repeated from its last iteration only.
    asked.clear()
    same(model(path, callbacks=lambda record: asked.append(record.iteration)).fit(*data), whole)
    assert len(asked) == 1


def test_a_limit_may_be_raised(tmp_path, data, whole):
    path = tmp_path / "run.ckpt"
    assert model(path, max_iter=2).fit(*data).status_ is Status.iteration_limit
    same(model(path, max_iter=50, n_jobs=2).fit(*data), whole)


def test_several_models_are_resumed(tmp_path, data):
    X, y = data
    path = tmp_path / "run.ckpt"
    expected = QuantileRegressor(quantile=[0.2, 0.7]).fit(X, y)
    for _ in range(2):
        again = QuantileRegressor(quantile=[0.2, 0.7], checkpoint=path).fit(X, y)
        assert np.array_equal(again.coef_, expected.coef_)
    assert sorted(p.name for p in tmp_path.iterdir())[0] == "run.ckpt.batch"
    labels = np.digitize(y, [-1, 1])
    expected = LinearSVC(C=0.01).fit(X, labels)
    for _ in range(2):
        again = LinearSVC(C=0.01, checkpoint=tmp_path / "svm.ckpt").fit(X, labels)
        assert np.array_equal(again.coef_, expected.coef_)
        assert np.array_equal(again.dual_coef_, expected.dual_coef_)


def test_another_fit_is_refused(tmp_path, data):
    X, y = data
    path = tmp_path / "run.ckpt"
    model(path, max_iter=2).fit(X, y)
    with pytest.raises(CheckpointError, match="a fit of other data"):
        model(path).fit(X, y + (np.arange(len(y)) == 77))
    swapped = np.arange(len(y))
    swapped[[5, 8000]] = swapped[[8000, 5]]
    with pytest.raises(CheckpointError, match="a fit of other data"):
        model(path).fit(X[swapped], y[swapped])
    with pytest.raises(CheckpointError, match=r"another fit: tol was 1e-06, now it is 0\.001"):
        model(path).set_params(tol=1e-3).fit(X, y)
    with pytest.raises(CheckpointError, match="another fit: model was LADRegressor"):
        QuantileRegressor(checkpoint=path).fit(X, y)
    with pytest.raises(ValueError, match="folder that does not exist"):
        model(tmp_path / "nowhere" / "run.ckpt").fit(X, y)


def test_a_damaged_checkpoint_never_gives_a_wrong_result(tmp_path, data, whole):
    path = tmp_path / "run.ckpt"
    model(path, max_iter=3).fit(*data)
    sound = path.read_bytes()
    before = (tmp_path / "run.ckpt.previous").read_bytes()
    rng = np.random.default_rng(0)
    for trial in range(100):
        place = int(rng.integers(len(sound)))
        broken = (
            sound[:place] if trial % 2 else sound[:place] + bytes([sound[place] ^ 1 << trial % 8]) + sound[place + 1 :]
        )
        path.write_bytes(broken)
        with pytest.raises(CheckpointError, match=r"damaged|no checkpoint"):
            read(path)
    (tmp_path / "run.ckpt.previous").write_bytes(before)
    with pytest.warns(UserWarning, match="Continuing from the previous one"):
        same(model(path).fit(*data), whole)
    path.write_bytes(broken)
    (tmp_path / "run.ckpt.previous").unlink()
    with pytest.raises(CheckpointError, match="There is no other"):
        model(path).fit(*data)


@pytest.mark.parametrize("objective", [0.0, 100.0, 1e9, float("nan")])
def test_an_objective_is_not_believed(tmp_path, data, objective):
    """A file with a sound checksum and an objective that its point does not have."""
    path = tmp_path / "run.ckpt"
    model(path, max_iter=2).fit(*data)
    snapshot, origin = read(path)
    Checkpoint(path, origin).save(replace(snapshot, objective=objective))
    with pytest.raises(CheckpointError, match="holds an objective of"):
        model(path).fit(*data)


def test_a_bound_is_proven_again(tmp_path, data, whole):
    """A bound that no pass can tell from a proven one is not reported."""
    path = tmp_path / "run.ckpt"
    model(path, max_iter=2).fit(*data)
    snapshot, origin = read(path)
    Checkpoint(path, origin).save(replace(snapshot, lower_bound=(1 - 1e-8) * whole.objective_))
    same(model(path, max_iter=3).fit(*data), model(max_iter=3).fit(*data))


def test_files_are_not_trusted(tmp_path):
    path = tmp_path / "run.ckpt"
    path.write_bytes(b"\x80\x04cos\nsystem\n(S'touch pwned'\ntR.")
    with pytest.raises(CheckpointError, match="not an aidlearn checkpoint"):
        read(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("meta.json", "{}")
    with pytest.raises(CheckpointError, match="not an aidlearn checkpoint"):
        read(path)
    archive.write(path, "aidlearn checkpoint", 9, {}, {})
    with pytest.raises(CheckpointError, match="version 9"):
        read(path)
    archive.write(path, "aidlearn model", 1, {}, {})
    with pytest.raises(CheckpointError, match="it is 'aidlearn model'"):
        read(path)


def test_a_full_disk_costs_a_warning(tmp_path, data, whole, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    path = tmp_path / "run.ckpt"
    model(path, max_iter=2).fit(*data)
    saved = path.read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(UserWarning, match="No space left on device"):
        same(model(path).fit(*data), whole)
    assert path.read_bytes() == saved
    assert not list(tmp_path.glob("*.writing"))


KILLS = int(os.environ.get("AIDLEARN_KILLS", "4"))
KILLED = """
import sys, numpy as np
from aidlearn import LADRegressor
rng = np.random.default_rng(0)
X = rng.normal(size=(9000, 10))
y = X @ rng.normal(size=10) + rng.laplace(size=9000)
print("ready", flush=True)
model = LADRegressor(init="kmeans", tol=1e-6, checkpoint=sys.argv[1]).fit(X, y)
np.save(sys.argv[2], np.append(model.coef_, [model.intercept_, model.lower_bound_, model.objective_]))
"""


def test_killed_at_any_moment(tmp_path, whole):
    """Several kills, spread over as many restarts as it takes; then the result has the bits of a fit in peace."""
    rng = np.random.default_rng(1)
    expected = np.append(whole.coef_, [whole.intercept_, whole.lower_bound_, whole.objective_])
    kills = 0
    for attempt in range(10 * KILLS):  # a fit may end before it is killed
        path, out = tmp_path / f"{attempt}.ckpt", tmp_path / f"{attempt}.npy"
        while not out.exists():
            process = subprocess.Popen(
                [sys.executable, "-c", KILLED, str(path), str(out)],
                stdout=subprocess.PIPE,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            )
            process.stdout.readline()
            if kills < KILLS and rng.random() < 0.8:
                time.sleep(float(rng.uniform(0, 0.25)))
                if process.poll() is None:
                    process.send_signal(signal.SIGKILL)
                    kills += 1
            process.wait()
            process.stdout.close()
        assert np.array_equal(np.load(out), expected)
        if kills >= KILLS:
            break
    assert kills >= KILLS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(path)[0].history


def test_time_counts_from_now_and_large_cells_hide_nothing(tmp_path, data, whole):
    X, y = data
    path = tmp_path / "run.ckpt"
    model(path, max_iter=3).fit(X, y)
    snapshot, _ = read(path)
    Checkpoint(path, read(path)[1]).save(replace(snapshot, seconds=1e6))
    same(model(path, time_limit=1e4).fit(X, y), whole)
    weight = np.ones(len(y))
    X, weight[0] = X.copy(), 0.0
    X[0, 0] = 1e17
    model(path := tmp_path / "large.ckpt", max_iter=2).fit(X, y, weight)
    X[5, 0] += 1.0
    with pytest.raises(CheckpointError, match="a fit of other data"):
        model(path).fit(X, y, weight)


@pytest.mark.parametrize("name", ["lad", "svc"])
def test_checkpoints_of_the_version_before_are_continued(tmp_path, name):
    """Files that an earlier version wrote after two iterations (make_checkpoints.py)."""
    spec = importlib.util.spec_from_file_location("make_checkpoints", Path(__file__).parent / "make_checkpoints.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    for path in (Path(__file__).parent / "checkpoints_2").iterdir():
        shutil.copy(path, tmp_path)
    X, y, label = made.data()
    target = y if name == "lad" else label
    model = made.models(tmp_path)[name].fit(X, target)
    anew = made.models(tmp_path)[name].set_params(checkpoint=None).fit(X, target)
    histories = [model.history_] if name == "lad" else model.history_
    assert all(len(history) > 2 or history[-1].gap <= 1e-8 for history in histories)
    assert np.allclose(model.objective_, anew.objective_, rtol=1e-7)
    assert np.all(model.gap_ <= 1e-8)


def test_a_run_saved_by_its_start_goes_on_as_it_would_have(tmp_path, monkeypatch):
    """What the start has told decides how the first solution is checked."""
    path, kept = tmp_path / "run.ckpt", tmp_path / "start.ckpt"
    save = Checkpoint.save

    def keep(self, snapshot):
        save(self, snapshot)
        if not snapshot.history:
            shutil.copy(self.path, kept)

    monkeypatch.setattr(Checkpoint, "save", keep)
    rng = np.random.default_rng(0)
    X = rng.standard_t(1.5, size=(5000, 20))
    y = X @ rng.normal(size=20) + rng.standard_t(1.5, 5000)
    one, two = (LADRegressor(tol=2e-3, initial_rate=0.01, checkpoint=file).fit(X, y) for file in (path, kept))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert one.n_passes_ == two.n_passes_
    assert one.plan_ == two.plan_ != {}
    assert len(one.start_) == len(two.start_) > 0
