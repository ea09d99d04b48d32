"""Writes checkpoints that later versions must go on from: python tests/engine/make_checkpoints.py FOLDER."""

import sys
from pathlib import Path

import numpy as np

from aidlearn import LADRegressor, LinearSVC


def data():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(1500, 3))
    y = np.round(X @ [1.0, -2.0, 0.5] + rng.standard_t(3, 1500), 6)
    return X, y, np.digitize(y, [-1.0, 1.0])


def models(folder, **more):
    return {
        "lad": LADRegressor(init="kmeans", tol=1e-8, checkpoint=str(folder / "lad.ckpt"), **more),
        "svc": LinearSVC(C=0.1, init="kmeans", tol=1e-8, checkpoint=str(folder / "svc.ckpt"), **more),
    }


if __name__ == "__main__":
    X, y, label = data()
    for name, model in models(Path(sys.argv[1]), max_iter=2).items():
        model.fit(X, y if name == "lad" else label)
