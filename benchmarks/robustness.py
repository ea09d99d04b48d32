"""Robustness of fits to SIGKILL and resumption, and of models and checkpoints to flipped bits.

``python -m benchmarks.robustness [--kills 50] [--flips 300]``. Every resumed fit must be bitwise equal to an
uninterrupted one; every flipped bit must raise an error of one line or change nothing. ``python -m
benchmarks.dask_kill`` tests lost workers of a cluster.
"""

from __future__ import annotations

import argparse
import os
import pickle
import signal
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import aidlearn

N = 4000


def rows() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 6))
    return X, X @ rng.normal(size=6) + rng.laplace(size=N)


def cases() -> dict[str, tuple[Any, Any, Any]]:
    """Return estimators that can write checkpoints, each with data on which it takes several iterations."""
    X, y = rows()
    label = (y > 0).astype(int)
    classes = np.digitize(y, [-2, 2])
    few = slice(0, 600)
    known = np.where(np.arange(300) % 5, -1, label[:300])
    slow = {"init": "kmeans", "tol": 1e-7}
    return {
        "LADRegressor": (aidlearn.LADRegressor(**slow), X, y),
        "QuantileRegressor, three": (aidlearn.QuantileRegressor(quantile=[0.2, 0.5, 0.9], **slow), X, y),
        "LinearSVR": (aidlearn.LinearSVR(epsilon=0.3, **slow), X, y),
        "LinearSVC, three classes": (aidlearn.LinearSVC(**slow), X, classes),
        "LinearOneClassSVM": (aidlearn.LinearOneClassSVM(nu=0.2, **slow), X + 3, y),
        "SVC": (aidlearn.SVC(init="kmeans", tol=1e-5), X[few], label[few]),
        "SVC, three classes": (aidlearn.SVC(init="kmeans", tol=1e-5), X[few], classes[few]),
        "PiecewiseLinearModel": (aidlearn.PiecewiseLinearModel(kinks=[0, 1], slopes=[-1, 1, 4], **slow), X, y),
        "SVR": (aidlearn.SVR(init="kmeans", tol=1e-5), X[few], y[few]),
        "SemiSupervisedSVC": (aidlearn.SemiSupervisedSVC(max_iter=6), X[:300, :2], known),
    }


def bits(model: Any) -> bytes:
    """Return everything that a fit found, except its seconds."""
    parts = []
    for name in ("coef_", "intercept_", "dual_coef_", "support_", "objective_", "lower_bound_", "transduction_"):
        if hasattr(model, name):
            parts.append(np.asarray(getattr(model, name)).tobytes())
    several = isinstance(model.status_, list)
    for history in model.history_ if several else [model.history_]:
        parts += [pickle.dumps((r.n_clusters, r.lower_bound, r.objective)) for r in history]
    return b"".join(parts)


def fitted(model: Any, X: Any, y: Any, path: Path | None) -> Any:
    return type(model)(**{**model.get_params(), "checkpoint": path, "n_jobs": 1}).fit(X, y)


def kills(name: str, wanted: int, rng: np.random.Generator) -> str:
    """Kill fits in child processes at random moments, resume them until they end, and count differences."""
    model, X, y = cases()[name]
    expected = bits(fitted(model, X, y, None))  # loads compiled code
    began = time.perf_counter()
    fitted(model, X, y, None)
    calm = time.perf_counter() - began
    killed = ended = wrong = lost = 0
    with tempfile.TemporaryDirectory() as folder:
        path, answer = Path(folder) / "run.aid", Path(folder) / "answer"
        while killed < wanted:
            child = os.fork()
            if child == 0:
                try:
                    found = bits(fitted(model, X, y, path))
                    answer.with_suffix(".part").write_bytes(found)
                    os.replace(answer.with_suffix(".part"), answer)
                except BaseException as error:
                    answer.write_bytes(f"error: {error}".encode())
                finally:
                    os._exit(0)
            until = time.monotonic() + float(rng.uniform(0.02, 1.2)) * calm
            gone = 0
            while not gone and time.monotonic() < until:
                time.sleep(0.002)
                gone, _ = os.waitpid(child, os.WNOHANG)
            if not gone:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                killed += 1
            if answer.exists():
                ended += 1
                found = answer.read_bytes()
                lost += found.startswith(b"error")
                wrong += found != expected
                for file in Path(folder).iterdir():
                    file.unlink()
    return f"{killed} kills, {ended} fits ended, {wrong} with other bits, {lost} with an error"


def flips_of_models(wanted: int, rng: np.random.Generator) -> Counter[str]:
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for k, (name, (model, X, y)) in enumerate(cases().items()):
            path = Path(folder) / f"{k}.aid"
            fast = type(model)(**{**model.get_params(), "tol": 1e-2, "max_iter": 2})
            aidlearn.save_model(fast.fit(X, y), path)
            files.append((name, path.read_bytes(), bits(aidlearn.load_model(path))))
        for k in range(wanted):
            name, data, expected = files[k % len(files)]
            path = Path(folder) / "flipped.aid"
            path.write_bytes(_flipped(data, rng))
            try:
                found = aidlearn.load_model(path)
            except ValueError as error:
                counts["refused" if "\n" not in str(error) else "refused in many lines"] += 1
            except Exception as error:
                counts[f"{name}: {type(error).__name__}"] += 1
            else:
                counts["loaded, the same" if bits(found) == expected else f"{name}: loaded, another"] += 1
    return counts


def flips_of_checkpoints(wanted: int, rng: np.random.Generator) -> Counter[str]:
    counts: Counter[str] = Counter()
    for name in ("LADRegressor", "LinearSVC, three classes", "SVC"):
        model, X, y = cases()[name]
        expected = bits(fitted(model, X, y, None))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.aid"
            stop = type(model)(**{**model.get_params(), "checkpoint": path, "callbacks": lambda r: r.iteration >= 3})
            stop.fit(X, y)
            saved = {file.name: file.read_bytes() for file in Path(folder).iterdir()}
            for _ in range(wanted // 3):
                for file in Path(folder).iterdir():
                    file.unlink()
                hit = str(rng.choice(sorted(saved)))
                for file, data in saved.items():
                    (Path(folder) / file).write_bytes(_flipped(data, rng) if file == hit else data)
                try:
                    found = fitted(model, X, y, path)
                except ValueError as error:
                    counts["refused" if "\n" not in str(error) else "refused in many lines"] += 1
                except Exception as error:
                    counts[f"{name}: {type(error).__name__}"] += 1
                else:
                    same = bits(found) == expected
                    counts["went on to the same bits" if same else f"{name}: other bits"] += 1
    return counts


def _flipped(data: bytes, rng: np.random.Generator) -> bytes:
    damaged = bytearray(data)
    damaged[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    return bytes(damaged)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.robustness", description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="for each estimator")
    parser.add_argument("--flips", type=int, default=300, help="half of them of models, half of checkpoints")
    parser.add_argument("--only", default="", help="estimators whose name has this")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(options.seed)
    if options.kills:
        for name in cases():
            if options.only in name:
                print(f"{name:26s} {kills(name, options.kills, rng)}", flush=True)
    if options.flips:
        print("models     ", dict(flips_of_models(options.flips // 2, rng)), flush=True)
        print("checkpoints", dict(flips_of_checkpoints(options.flips // 2, rng)), flush=True)


if __name__ == "__main__":
    main()
