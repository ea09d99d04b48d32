"""Runs of the command line in this process, and small files for them."""

from __future__ import annotations

import io
import json
import os
import sys
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from aidlearn.cli import main

N = 400
X = [f"x{k}" for k in range(3)]
COLUMNS = ",".join(X)


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self):
        """Strict JSON: NaN and Infinity are refused."""

        def refuse(token):
            raise AssertionError(f"{token} is not JSON")

        return json.loads(self.out, parse_constant=refuse)


def run(*arguments, stdin=""):
    """Run a command with its streams; the exit code is what ``main`` returns."""
    data = stdin if isinstance(stdin, bytes) else stdin.encode()
    streams = [io.TextIOWrapper(io.BytesIO(data)), *(io.TextIOWrapper(io.BytesIO(), write_through=True) for _ in "oe")]
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = streams
    try:
        code = main([str(argument) for argument in arguments])
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
    return Ran(code, *(stream.buffer.getvalue().decode() for stream in streams[1:]))


@pytest.fixture
def ran(monkeypatch, tmp_path):
    """``run`` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return run


def frame():
    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.normal(size=(N, 3)), columns=X)
    table["city"] = rng.choice(["Oslo", "Paris", "Rome"], N)
    y = table[X].to_numpy() @ [1.0, -2.0, 3.0] + 2.0 * (table["city"] == "Rome") + rng.laplace(size=N)
    table["y"] = y
    table["label"] = np.where(y > 0, "yes", "no")
    table["three"] = np.digitize(y, [-2, 2])
    table["w"] = rng.uniform(0.5, 2.0, N)
    table["one"] = 1
    return table


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """The table in every format, and models of it."""
    folder = tmp_path_factory.mktemp("cli")
    table = frame()
    numbers = table[[*X, "y"]].to_numpy()
    table.to_csv(folder / "table.csv", index=False)
    table.to_csv(folder / "table.tsv", index=False, sep="\t")
    table.to_parquet(folder / "table.parquet")
    (folder / "parts").mkdir()
    table[: N // 2].to_parquet(folder / "parts" / "a.parquet")
    table[N // 2 :].to_parquet(folder / "parts" / "b.parquet")
    np.save(folder / "table.npy", numbers)
    from sklearn.datasets import dump_svmlight_file

    dump_svmlight_file(numbers[:, :3], numbers[:, 3], str(folder / "table.svmlight"), zero_based=False)
    csv = folder / "table.csv"
    fits = {
        "lad": ["lad", csv, "-t", "y", "--columns", COLUMNS],
        "quantile": ["quantile", csv, "-t", "y", "--columns", COLUMNS, "--quantile", "0.1,0.5,0.5"],
        "svm": ["svm", csv, "-t", "label", "--columns", COLUMNS],
        "three": ["svm", csv, "-t", "three", "--columns", COLUMNS],
        "hot": ["lad", csv, "-t", "y", "--columns", f"{COLUMNS},city", "--one-hot", "city"],
        "numbers": ["lad", folder / "table.npy", "-t", "3"],
        "sparse": ["lad", folder / "table.svmlight"],
    }
    for name, arguments in fits.items():
        done = run("fit", *arguments, "-o", folder / f"{name}.aid", "-q")
        assert (done.code, done.out, done.err) == (0, "", ""), done
    done = run(
        "fit",
        *fits["lad"],
        "-o",
        folder / "stopped.aid",
        "-q",
        "--checkpoint",
        folder / "run.ckpt",
        "--init",
        "kmeans",
        "--max-iter",
        1,
        "--tol",
        0,
    )
    assert done.code == 2
    return folder


@pytest.fixture
def only(tmp_path):
    """Names in the folder of a test."""
    return lambda: sorted(os.listdir(tmp_path))
