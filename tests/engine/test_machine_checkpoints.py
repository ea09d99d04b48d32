"""Checkpoints of the kernel and semi-supervised machines: bitwise the same result after any interruption."""

import os
import signal
import subprocess
import sys
import time
from functools import cache

import numpy as np
import pytest

from aidlearn import SVC, SVR, SemiSupervisedSVC, archive
from aidlearn.engine.checkpoint import KIND, VERSION, CheckpointError, read

KILLS = int(os.environ.get("AIDLEARN_KILLS", "1"))


def data(n=500):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 3))
    y = (X**2).sum(axis=1) + 0.5 * rng.normal(size=n)
    return X, y, np.digitize(y, [2.0, 4.0]), np.where(rng.random(n) < 0.9, -1, (X[:, 0] + X[:, 1] > 0).astype(int))


def machines():
    """Name, machine, and which target of :func:`data` it takes."""
    X, *_ = data()
    return {
        "band": (SVC(C=3.0, init="band", initial_rate=0.02, tol=1e-6), 4),
        "compiled": (SVC(C=3.0, init="band", initial_rate=0.02, tol=1e-5, solver="smo"), 4),
        "columns": (SVC(C=3.0, init="kmeans", tol=1e-5, solver="smo", memory_limit="1MB"), 4),
        "kmeans": (SVC(C=1.0, init="kmeans", tol=1e-6, kernel="poly", degree=2, coef0=1.0), 4),
        "classes": (SVC(C=3.0, init="kernel-kmeans", tol=1e-5), 2),
        "linear": (SVC(C=1.0, init="kmeans", kernel="linear", tol=1e-5), 4),
        "nystroem": (SVC(approximation="nystroem", n_components=30, tol=1e-7), 4),
        "given": (SVC(init=np.arange(len(X)) % 40, tol=1e-5), 4),
        "svr": (SVR(C=3.0, epsilon=0.2, init="band", initial_rate=0.02, tol=1e-6), 1),
        "svr-kmeans": (SVR(C=1.0, epsilon=0.2, init="kmeans", tol=1e-5), 1),
        "semi": (SemiSupervisedSVC(max_iter=4, tol=1e-9, node_limit=30), 3),
        "semi-runs": (
            SemiSupervisedSVC(max_iter=3, n_init=2, tol=1e-9, kernel="rbf", n_components=8, node_limit=20),
            3,
        ),
        "semi-refined": (SemiSupervisedSVC(max_iter=3, refine=True, tol=1e-9, balance="constraint", node_limit=30), 3),
    }


def fitted(name, checkpoint=None, **more):
    machine, target = machines()[name]
    X, y, three, partly = data()
    return machine.set_params(checkpoint=checkpoint, **more).fit(X, [y, three, partly, y > 3][target - 1])


@cache
def in_peace(name):
    return fitted(name)


def whole(name):
    return bits(in_peace(name))


def bits(model):
    """Everything that predictions and the certificate are made of."""
    histories = model.history_ if isinstance(model.history_[0], list) else [model.history_]
    records = [[r.n_clusters, r.lower_bound, r.objective, r.gap] for history in histories for r in history]
    dual = getattr(model, "dual_coef_", getattr(model, "transduction_", None))
    parts = [np.atleast_1d(model.intercept_), np.ravel(dual), np.atleast_1d(model.objective_)]
    return np.concatenate([*parts, np.atleast_1d(model.lower_bound_), np.ravel(records)]).astype(float)


class StopAfter:
    """A callback that ends each problem of a fit after so many iterations of this part of it."""

    def __init__(self, k):
        self.k = k

    def __call__(self, record):
        return record.iteration >= self.k


@pytest.mark.parametrize("name", machines())
def test_a_fit_goes_on_to_the_same_bits(tmp_path, name):
    path = tmp_path / "run.ckpt"
    for stopped in (1, 2):
        fitted(name, path, callbacks=StopAfter(stopped))
        assert list(tmp_path.iterdir())
    np.testing.assert_array_equal(bits(fitted(name, path)), whole(name))
    # A finished fit is repeated from its last iteration only.
    asked = []
    again = fitted(name, path, callbacks=lambda record: asked.append(record.iteration))
    np.testing.assert_array_equal(bits(again), whole(name))
    several = isinstance(again.history_[0], list)
    fits = len(again.history_) if several else 2 if name == "semi-runs" else 1
    assert len(asked) == fits


def test_they_are_stopped_in_the_middle_of_something():
    """The fits above have more iterations than they were stopped after, so that they do go on."""
    n_iter = {name: np.max(in_peace(name).n_iter_) for name in machines()}
    assert sum(n > 2 for n in n_iter.values()) >= 9, n_iter


def test_checkpoints_do_not_change_the_result(tmp_path):
    for name in ("band", "svr", "semi"):
        np.testing.assert_array_equal(bits(fitted(name, tmp_path / name)), whole(name))


def test_a_limit_may_be_raised(tmp_path):
    path = tmp_path / "run.ckpt"
    fitted("kmeans", path, max_iter=2)
    np.testing.assert_array_equal(bits(fitted("kmeans", path, n_jobs=2)), whole("kmeans"))


def test_another_fit_is_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    fitted("band", path, max_iter=2)
    with pytest.raises(CheckpointError, match=r"another fit: C was 3\.0, now it is 4\.0"):
        fitted("band", path, C=4.0)
    X, y, *_ = data()
    machine = machines()["band"][0].set_params(checkpoint=path)
    with pytest.raises(CheckpointError, match="a fit of other data"):
        machine.fit(X, y > 3.5)
    with pytest.raises(CheckpointError, match="model was SVC, now it is SVR"):
        fitted("svr", path)


def test_arrays_that_do_not_fit_are_refused(tmp_path):
    """A file with a sound checksum and wrong arrays."""
    path = tmp_path / "run.ckpt"
    fitted("kmeans", path, max_iter=2)
    sound = archive.read(path, KIND, VERSION)
    wrong = {
        "kernel_sums": sound.arrays["kernel_sums"][:-1],
        "kernel_coef": sound.arrays["kernel_coef"][:-1],
        "kernel_singles": np.array([10_000]),
        "kernel_column_of": sound.arrays["kernel_column_of"] + 500,
        "kernel_fills": np.array([10**6]),
    }
    for name, array in wrong.items():
        archive.write(path, KIND, VERSION, sound.meta, {**sound.arrays, name: array})
        with pytest.raises(CheckpointError, match="damaged"):
            fitted("kmeans", path)


@pytest.mark.parametrize("name", ["kmeans", "svr-kmeans", "semi"])
def test_objectives_and_bounds_are_not_believed(tmp_path, name):
    """A file with a sound checksum, and an objective or a bound that is not that of its point."""
    path = tmp_path / "run.ckpt"
    fitted(name, path, max_iter=2)
    [file] = [p for p in tmp_path.iterdir() if not p.name.endswith(".previous")]
    sound = archive.read(file, KIND, VERSION)
    archive.write(file, KIND, VERSION, {**sound.meta, "lower_bound": sound.meta["objective"]}, sound.arrays)
    # The last bits of the bound that was overwritten are lost.
    np.testing.assert_allclose(bits(fitted(name, path)), whole(name), rtol=1e-12)
    archive.write(file, KIND, VERSION, {**sound.meta, "objective": 0.0}, sound.arrays)
    with pytest.raises(CheckpointError, match="holds an objective of 0"):
        fitted(name, path)


KILLED = """
import sys, numpy as np
sys.path.insert(0, sys.argv[4])
from test_machine_checkpoints import bits, fitted
print("ready", flush=True)
np.save(sys.argv[2], bits(fitted(sys.argv[3], sys.argv[1])))
"""


@pytest.mark.parametrize("name", ["kmeans", "semi-refined"])
def test_killed_at_any_moment(tmp_path, name):
    """Several kills, spread over as many restarts as it takes; then the result has the bits of a fit in peace."""
    rng = np.random.default_rng(1)
    kills = 0
    for attempt in range(10 * KILLS):  # a fit may end before it is killed
        path, out = tmp_path / f"{attempt}.ckpt", tmp_path / f"{attempt}.npy"
        while not out.exists():
            process = subprocess.Popen(
                [sys.executable, "-c", KILLED, str(path), str(out), name, os.path.dirname(__file__)],
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
        np.testing.assert_array_equal(np.load(out), whole(name))
        if kills >= KILLS:
            break
    assert kills >= KILLS
    assert any(read(file)[0].history for file in tmp_path.glob("*.ckpt"))
