"""A summary of a file holds no more than the memory limit that its fit has."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from aidlearn import open_source

N, M = 300_000, 30

MEASURED = """
import re, sys
import numpy as np
from pathlib import Path
from aidlearn import LADRegressor, open_source
from aidlearn.data.passes import run

def kilobytes(key):
    return int(re.search(key + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

path, target, limit = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 2))
y = X[:, 0] + rng.laplace(size=3000)
run.COMPILED_CELLS, cells = 0, run.COMPILED_CELLS
small = LADRegressor().fit(X, y)
for se in ("nid", "kernel"):
    small.summary(X, y, se=se)  # loads and compiles what is loaded late
run.COMPILED_CELLS = cells
model = LADRegressor().fit(open_source(path, target, memory_limit=limit))
clusters = np.arange(int(sys.argv[4])) // 100
for se in ("nid", "kernel", "cluster"):
    before = kilobytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    source = open_source(path, target, memory_limit=limit)
    found = model.summary(source, se=se, clusters=clusters if se == "cluster" else None)
    print((kilobytes("VmHWM") - before) * 1024, found.standard_errors[1])
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from Linux's /proc")
def test_summaries_stay_below_the_limit_of_the_fit(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(N, M + 1))
    rows[:, M] = rows[:, :M].sum(axis=1) + rng.laplace(size=N)
    path = tmp_path / "rows.npy"
    np.save(path, rows)
    with pytest.raises(ValueError, match="more than memory_limit='1kB'") as refused:
        open_source(path, M, memory_limit="1kB")
    limit = 1e6 * int(re.search(r"needs about (\d+) MB", str(refused.value))[1])
    assert limit < rows.nbytes
    call = [sys.executable, "-c", MEASURED, str(path), str(M), str(limit), str(N)]
    answer = subprocess.run(call, capture_output=True, text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    assert answer.returncode == 0, answer.stderr
    for line in answer.stdout.splitlines():
        taken, error = map(float, line.split())
        assert taken <= limit
        assert error == pytest.approx(N**-0.5, rel=0.1), "the median of Laplace errors"
