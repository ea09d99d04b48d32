"""Tables whose encoded rows are as wide as the tables: predictions of a file are those of Python, to the last bit."""

import numpy as np
import pandas as pd
import pytest

from aidlearn import SVC, LADRegressor, LinearSVC, SemiSupervisedSVC, load_model, save_model
from exact_csv import read_csv

N = 240


def table(shape, seed):
    """A column of numbers (none where the factors have more columns than levels) and factors of some shape."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.normal(size=N)})
    if shape == "boolean":
        frame["c"] = rng.random(N) < 0.5
    else:
        levels = {"two": [2], "two and two": [2, 2], "one and three": [1, 3], "mixed": rng.integers(1, 5, 4).tolist()}
        for k, n in enumerate(levels[shape]):
            frame[f"c{k}"] = rng.choice(["p", "m", "über", "a b"][:n], N)
    if shape == "mixed":
        frame["late"], frame["z"] = rng.random(N) < 0.3, rng.normal(size=N)
        frame = frame[rng.permutation(frame.columns)]
    effect = sum((frame[name].astype(str).isin(["p", "True"])) * 3.0 for name in frame if name not in "xz")
    frame["y"] = frame.x + effect + 0.1 * rng.normal(size=N)
    frame["label"] = np.where(frame.y > frame.y.median(), "yes", "no")
    return frame


def write(frame, path):
    if path.endswith("csv"):
        frame.to_csv(path, index=False, float_format="%.17g")
    else:
        frame.to_parquet(path)


MODELS = {
    "lad": (LADRegressor, "y"),
    "svm": (LinearSVC, "label"),
    "kernel-svm": (SVC, "label"),
    "s3vm": (SemiSupervisedSVC, "label"),
}


@pytest.mark.parametrize("data", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("shape", ["two", "boolean", "two and two", "one and three", "mixed"])
def test_predictions_are_those_of_python(ran, shape, data):
    for seed in range(4):
        frame = table(shape, seed)
        X = frame.drop(columns=["y", "label"])
        for command, (estimator, target) in MODELS.items():
            if seed and command in ("kernel-svm", "s3vm"):
                continue
            write(X.assign(t=frame[target]), data)
            assert ran("fit", command, data, "-t", "t", "-o", "m.aid").code in (0, 2)
            done = ran("predict", "m.aid", data, "-o", "p.csv", *(["--scores"] if target == "label" else []))
            assert (done.code, done.err) == (0, ""), done
            found, model = read_csv("p.csv"), load_model("m.aid")
            assert found["prediction"].tolist() == model.predict(X).tolist()
            if target == "label":
                assert np.array_equal(found["score"], model.decision_function(X))
            if command in ("lad", "svm"):
                assert found["prediction"].tolist() == estimator().fit(X, frame[target]).predict(X).tolist()


def test_unknown_levels_alone_are_the_reference(ran):
    frame = table("two", 0)
    write(frame.drop(columns="label"), "t.csv")
    assert ran("fit", "lad", "t.csv", "-t", "y", "-o", "m.aid").code == 0
    assert ran("predict", "m.aid", "t.csv", "--unknown", "reference", "-o", "p.csv").code == 0
    assert np.abs(read_csv("p.csv")["prediction"] - frame.y).mean() < 0.15
    write(frame.assign(c0=np.where(frame.index == 5, "new", frame.c0)), "new.csv")
    assert "'new' at row 5" in ran("predict", "m.aid", "new.csv", "-o", "q.csv").err
    assert ran("predict", "m.aid", "new.csv", "--unknown", "reference", "-o", "q.csv").code == 0
    differ = np.flatnonzero(read_csv("p.csv")["prediction"] != read_csv("q.csv")["prediction"])
    assert differ.tolist() == ([5] if frame.c0[5] != "m" else [])


def test_factors_of_arrays(ran):
    """A model of an array with a factor: files of numbers are encoded by its recipe."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=N), rng.integers(4, 6, N)])
    model = LADRegressor(categorical_features=[1]).fit(X, X[:, 0] + 3.0 * (X[:, 1] == 5))
    save_model(model, "m.aid")
    np.save("t.npy", X)
    write(pd.DataFrame(X, columns=["a", "b"]), "t.csv")
    write(pd.DataFrame(X, columns=["a", "b"]).astype({"b": int}), "whole.csv")
    write(pd.DataFrame(X, columns=["a", "b"]), "t.parquet")
    for data in ("t.npy", "t.csv", "whole.csv", "t.parquet"):
        done = ran("predict", "m.aid", data, "-o", "p.npy")
        assert (done.code, done.err) == (0, ""), done
        assert np.array_equal(np.load("p.npy"), model.predict(X))
