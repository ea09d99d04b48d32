"""Run from another folder by ``make test-wheel``: the installed package, without its source, does the main jobs."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import aidlearn

HERE = Path(__file__).resolve().parents[1]


def main() -> None:
    where = Path(aidlearn.__file__).resolve()
    assert HERE / "src" not in where.parents, f"the source is tested, not the wheel: {where}"
    assert (where.parent / "py.typed").exists()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = X @ [1.0, -2.0, 3.0] + rng.laplace(size=500)
    for name in aidlearn.__all__:
        getattr(aidlearn, name)
    models = [aidlearn.LADRegressor(), aidlearn.QuantileRegressor(quantile=0.2), aidlearn.LinearSVR()]
    classifiers = [aidlearn.LinearSVC(), aidlearn.SVC(), aidlearn.SemiSupervisedSVC()]
    labels = np.where(rng.random(500) < 0.9, y > 0, -1).astype(int)
    with tempfile.TemporaryDirectory() as folder:
        for model in models + classifiers:
            semi = isinstance(model, aidlearn.SemiSupervisedSVC)
            rows = slice(0, 40) if semi else slice(None)
            target = y if model in models else labels if semi else y > 0
            model.fit(X[rows], target[rows])
            path = Path(folder) / "model.aid"
            aidlearn.save_model(model, path)
            assert np.array_equal(aidlearn.load_model(path).predict(X), model.predict(X))
        table = Path(folder) / "t.csv"
        np.savetxt(table, np.column_stack([X, y]), delimiter=",", header="a,b,c,y", comments="")
        command = [sys.executable, "-m", "aidlearn.cli", "fit", "lad", str(table), "-t", "y", "-o", folder + "/m.aid"]
        subprocess.run(command, check=True, cwd=folder)


if __name__ == "__main__":
    main()
