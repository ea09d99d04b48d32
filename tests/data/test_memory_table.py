"""Models x formats under the lowest memory limit that is not refused: the peak of every fit stays below it."""

import ctypes
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

N, M = 300_000, 10
SLACK = 10e6
"""Freed memory that allocators may retain, in bytes: the baseline has none."""
MODELS = {
    "LAD": ("LADRegressor()", "number"),
    "five quantiles": ("QuantileRegressor(quantile=[0.1, 0.3, 0.5, 0.7, 0.9])", "number"),
    "SVR": ("LinearSVR()", "number"),
    "two classes": ("LinearSVC()", "two"),
    "four classes": ("LinearSVC()", "four"),
}
FORMATS = ["npy", "parquet", "csv"]

MEASURED = """
import ctypes, json, re, sys, warnings
from pathlib import Path
import numpy as np
import pyarrow
from aidlearn import LADRegressor, LinearSVC, LinearSVR, QuantileRegressor, open_source
from aidlearn.data.passes import run

def bytes_of(key):
    return 1024 * int(re.search(key + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

def opened(name, **limit):
    path = Path(sys.argv[1]) / f"{name}.{sys.argv[2]}"
    return open_source(path, -1 if sys.argv[2] == "npy" else "y", **limit)

def least(name):
    try:
        opened(name, memory_limit=1)
    except ValueError as error:
        return 1e6 * int(re.search(r"needs about (\\d+) MB", str(error))[1])

warnings.simplefilter("ignore")  # duals that do not fit are left out
rng = np.random.default_rng(0)
small = rng.normal(size=(3000, 3))
cells, found = run.COMPILED_CELLS, {}
for model, (make, name) in json.loads(sys.argv[3]).items():
    run.COMPILED_CELLS = 0
    eval(make).fit(small, rng.integers({"two": 2, "four": 4}.get(name, 1000), size=3000))  # loads and compiles
    run.COMPILED_CELLS, limit = cells, least(name)
    pyarrow.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    before = bytes_of("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    fitted = eval(make).fit(opened(name, memory_limit=limit))
    statuses = sorted({status.name for status in np.atleast_1d(fitted.status_)})
    found[model] = limit, bytes_of("VmHWM") - before, statuses
    del fitted
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Return a function that measures all models of a format in one process."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("table")
    X = rng.normal(size=(N, M))
    y = X @ rng.normal(size=M) + rng.logistic(size=N)
    # Classes without a signal: all rows of the rest lie on their kink.
    for name, target in (("number", y), ("two", (y > 1) * 1.0), ("four", rng.integers(4, size=N) * 1.0)):
        rows = np.column_stack([X, target])
        np.save(folder / f"{name}.npy", rows)
        table = pyarrow.table(dict(zip([*(f"x{k}" for k in range(M)), "y"], rows.T, strict=True)))
        pyarrow.parquet.write_table(table, folder / f"{name}.parquet")
        pyarrow.csv.write_csv(table, folder / f"{name}.csv")

    @cache
    def of(ending):
        arguments = [sys.executable, "-c", MEASURED, str(folder), ending, json.dumps(MODELS)]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        answer = subprocess.run(arguments, capture_output=True, text=True, env=environment)
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)

    return of


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists() or not hasattr(ctypes.CDLL(None), "malloc_trim"),
    reason="peak memory is read from Linux's /proc, and freed memory is returned by glibc",
)
@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("model", MODELS)
def test_the_peak_stays_below_the_limit(measured, model, ending):
    limit, taken, statuses = measured(ending)[model]
    assert taken <= limit + SLACK
    assert set(statuses) <= {"gap", "optimal", "memory_limit"}
