"""Small files for the command line, and models of them."""

from __future__ import annotations

import os

import numpy as np
import pytest
from cli_support import COLUMNS, N, X, frame, run
from sklearn.datasets import dump_svmlight_file


@pytest.fixture
def ran(monkeypatch, tmp_path):
    """``run`` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return run


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
    dump_svmlight_file(numbers[:, :3], numbers[:, 3], str(folder / "table.svmlight"), zero_based=False)
    csv = folder / "table.csv"
    fits = {
        "lad": ["lad", csv, "-t", "y", "--columns", COLUMNS],
        "quantile": ["quantile", csv, "-t", "y", "--columns", COLUMNS, "--quantile", "0.1,0.5,0.5"],
        "svm": ["svm", csv, "-t", "label", "--columns", COLUMNS],
        "three": ["svm", csv, "-t", "three", "--columns", COLUMNS],
        "hot": ["lad", csv, "-t", "y", "--columns", f"{COLUMNS},city", "--categorical", "city"],
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
