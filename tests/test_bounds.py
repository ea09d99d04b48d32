"""Compiled code never reads or writes beside its arrays: every kind of kernel once, with numba's check of indices."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from aidlearn import LADRegressor

FITS = """
import numpy as np
from scipy import sparse
import aidlearn.data.rows.chunk as chunks, aidlearn.data.passes.run as runs
from aidlearn import SVC, SVR, LADRegressor, LinearSVC, LinearSVCCV, LinearSVR, QuantileRegressor, bootstrap
from numba import njit

try:
    njit(lambda a, i: a[i])(np.zeros(3), 7)
    raise SystemExit("indices are not checked")
except IndexError:
    pass

runs.COMPILED_CELLS, chunks.CHUNK_ELEMENTS = 0, 1 << 12
rng = np.random.default_rng(0)
X = rng.normal(size=(4000, 4))
y = X @ rng.normal(size=4) + rng.laplace(size=4000)
classes = np.digitize(y, [-1.0, 0.5])
weight = rng.choice([0.0, 1.0, 2.5], 4000)
weight[:1500] = 0.0  # whole chunks
levels = sparse.csr_array(np.eye(40)[rng.integers(0, 40, 4000)] * 1.0)
mixed = sparse.csr_array(sparse.hstack([sparse.csr_array(X), levels]))
zeros = np.hstack([X[:, :1], levels.toarray()])
single = X.astype(np.float32)

LADRegressor().fit(X, y, sample_weight=weight)
LADRegressor().fit(np.asfortranarray(X), y)
LADRegressor(n_jobs=2).fit(single, y)
LADRegressor().fit(mixed, y, sample_weight=weight)
LADRegressor().fit(zeros, y)  # kept as sparse rows
LinearSVC(C=0.1, row_duals=True).fit(X, classes, sample_weight=weight)
LinearSVC(C=0.1).fit(mixed, classes > 0)
LinearSVR(C=0.1, epsilon=0.3).fit(X, y, sample_weight=weight)
QuantileRegressor(quantile=[0.1, 0.5, 0.9]).fit(X, y)
LinearSVCCV(Cs=[0.01, 1.0], cv=2).fit(X, classes > 0, sample_weight=weight)
bootstrap(QuantileRegressor().fit(X[:300], y[:300]), X[:300], y[:300], n_replicates=20)
for kernel in ("rbf", "poly", "linear"):
    SVC(kernel=kernel).fit(X[:400], classes[:400])
SVC().fit(single[:400], classes[:400] > 0)
SVR().fit(X[:300], y[:300])
print("all indices are inside")
"""


def test_every_kernel_stays_inside_its_arrays(tmp_path):
    # The cache of numba does not know whether indices are checked: this one has a place of its own.
    # Without optimisation it is compiled in half of the time.
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "0", "NUMBA_CACHE_DIR": str(tmp_path)}
    found = subprocess.run(
        [sys.executable, "-c", FITS], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() == "all indices are inside"


@pytest.mark.parametrize("indptr", [[0, 9, 2, 3], [1, 1, 2, 3], [0, 1, 2, 7]])
def test_rows_that_point_beside_their_numbers_are_refused(indptr):
    X = sparse.csr_array(np.eye(3))
    X.indptr = np.array(indptr, dtype=X.indptr.dtype)
    with pytest.raises(ValueError, match="damaged sparse matrix: its indptr"):
        LADRegressor().fit(X, np.arange(3.0))
