"""memory_limit: what a fit takes beyond the libraries stays below it; too little is refused with the amount needed."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from aidlearn import LADRegressor, LinearSVC, Status, open_source
from aidlearn.data.passes.run import Run
from aidlearn.data.passes.sharing import run_together
from aidlearn.data.rows.memory import Budget
from aidlearn.data.rows.source import DataSource
from aidlearn.engine import clusters
from aidlearn.estimators.linear import svm

N, M = 600_000, 12

MEASURED = """
import re, sys
import numpy as np
import pyarrow.csv, pyarrow.parquet
from pathlib import Path
from aidlearn import LADRegressor, LinearSVC, QuantileRegressor, open_source
from aidlearn.data.passes import run

def kilobytes(key):
    return int(re.search(key + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

model, path, target, limit = sys.argv[1:]
estimator = LADRegressor() if model == "lad" else LinearSVC(C=0.01)
if model == "quantiles":
    estimator = QuantileRegressor(quantile=np.arange(1, 20) / 20)
small = np.random.default_rng(0).normal(size=(3000, 2))
run.COMPILED_CELLS, cells = 0, run.COMPILED_CELLS
estimator.fit(small, small[:, 0] > 0)  # loads and compiles what is loaded late
run.COMPILED_CELLS = cells
before = kilobytes("VmRSS")
Path("/proc/self/clear_refs").write_text("5")
estimator.fit(open_source(path, target if target == "y" else int(target), memory_limit=float(limit)))
print((kilobytes("VmHWM") - before) * 1024, np.max(estimator.gap_))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, M))
    y = X @ rng.normal(size=M) + rng.logistic(size=N)
    folder = tmp_path_factory.mktemp("memory")
    for model, target in (("lad", y), ("svm", (y > 1).astype(float))):
        np.save(folder / f"{model}.npy", np.column_stack([X, target]))
        frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(M)]).assign(y=target)
        frame.to_parquet(folder / f"{model}.parquet")
    return folder


def least(path, target):
    """The smallest limit that is not refused, from the message of one that is."""
    with pytest.raises(ValueError, match="more than memory_limit='1kB'") as refused:
        open_source(path, target, memory_limit="1kB")
    assert "raise it, or choose fewer columns" in str(refused.value)
    return 1e6 * int(re.search(r"needs about (\d+) MB", str(refused.value))[1])


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from Linux's /proc")
@pytest.mark.parametrize("ending", ["npy", "parquet"])
@pytest.mark.parametrize("model", ["lad", "svm"])
def test_fits_stay_below_their_limit(folder, model, ending):
    path, target = folder / f"{model}.{ending}", M if ending == "npy" else "y"
    limit = least(path, target)
    assert limit < 8 * N * (M + 1) * 4
    arguments = [sys.executable, "-c", MEASURED, model, str(path), str(target), str(limit)]
    answer = subprocess.run(arguments, capture_output=True, text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    assert answer.returncode == 0, answer.stderr
    taken, gap = map(float, answer.stdout.split())
    assert taken <= limit
    assert gap <= 1e-4


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from Linux's /proc")
def test_near_rows_of_many_quantiles_are_counted(folder):
    """Corridors are as narrow as memory asks for; what they do not certify is fitted on its own."""
    path = folder / "lad.npy"
    limit = least(path, M)
    arguments = [sys.executable, "-c", MEASURED, "quantiles", str(path), str(M), str(limit)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    for _ in range(2):  # the first may compile, which takes memory of its own
        answer = subprocess.run(arguments, capture_output=True, text=True, env=environment)
        assert answer.returncode == 0, answer.stderr
    taken, gap = map(float, answer.stdout.split())
    assert taken <= limit
    assert gap <= 1e-4


def test_classes_are_fitted_in_groups_where_memory_is_short(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20_000, 3))
    y = np.digitize(X[:, 0] + rng.normal(size=20_000), [-1, 0, 1])
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    path = tmp_path / "rows.npy"
    little = least(path, 3) + 1e6
    groups = [Run(open_source(path, 3, memory_limit=limit)).budget.classes for limit in (little, "10GB")]
    assert groups[0] < 4 <= groups[1]
    model, memory = LinearSVC(C=0.1), LinearSVC(C=0.1).fit(X, y)
    model.fit(open_source(path, 3, memory_limit=little))
    assert np.allclose(model.objective_, memory.objective_, rtol=1e-4)
    assert model.dual_coef_.shape == (4, len(model.support_))


def test_duals_of_finished_classes_leave_less_to_later_ones(tmp_path, monkeypatch):
    """Before, each group of classes planned with all memory, whatever the duals of those before it took."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20_000, 3))
    y = np.digitize(X[:, 0] + rng.normal(size=20_000), [-1, 0, 1])
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    budgets = []

    def noting(run, fits):
        budgets.append(run.budget)
        return run_together(run, fits)

    monkeypatch.setattr(svm, "run_together", noting)
    limit = least(tmp_path / "rows.npy", 3) + 1e6
    model = LinearSVC(C=0.1).fit(open_source(tmp_path / "rows.npy", 3, memory_limit=limit))
    assert len(budgets) > 1
    assert model.dual_coef_.shape == (4, len(model.support_))
    assert all(later.held < first.held for first, later in pairwise(budgets))
    assert all(later.clusters < first.clusters for first, later in pairwise(budgets))


CLASSES = """
import re, sys, warnings
from pathlib import Path
from aidlearn import LinearSVC, open_source

def kilobytes(key):
    return int(re.search(key + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

warnings.simplefilter("ignore")
for _ in range(2):  # the first loads and compiles what is loaded late
    before = kilobytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    model = LinearSVC(C=0.01, tol=1e-2).fit(open_source(sys.argv[1], -1, memory_limit=float(sys.argv[2])))
print((kilobytes("VmHWM") - before) * 1024, hasattr(model, "dual_coef_"))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from Linux's /proc")
def test_duals_of_many_classes_are_counted(tmp_path):
    """Duals of ten classes and 200,000 rows take 50 MB: they are left out, with a warning, where there is not room."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200_000, 3))
    y = np.digitize(X[:, 0] + 2 * rng.normal(size=len(X)), np.linspace(-2, 2, 9))
    path = tmp_path / "rows.npy"
    np.save(path, np.column_stack([X, y]))
    limit = least(path, 3)
    arguments = [sys.executable, "-c", CLASSES, str(path), str(limit)]
    answer = subprocess.run(arguments, capture_output=True, text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    assert answer.returncode == 0, answer.stderr
    taken, has_duals = answer.stdout.split()
    assert float(taken) <= limit
    assert has_duals == "False"


def test_a_model_without_room_for_its_duals_says_so(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(5000, 3))
    y = np.digitize(X[:, 0] + rng.normal(size=5000), [-1, 0, 1])
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    source = open_source(tmp_path / "rows.npy", 3, memory_limit="1GB")
    assert LinearSVC().fit(source).dual_coef_.shape[0] == 4
    monkeypatch.setattr(Budget, "of", lambda source, n_jobs: Budget(spare=1000.0))
    with pytest.warns(UserWarning, match="dual_coef_ of 4 models and 5000 rows does not fit into the memory limit"):
        model = LinearSVC().fit(source)
    assert not hasattr(model, "dual_coef_")
    assert model.predict(X[:5]).shape == (5,)


FACTORS = """
import re, sys
import numpy as np
import pandas as pd
from pathlib import Path
from aidlearn import LADRegressor
from aidlearn.data.passes import run

def kilobytes(key):
    return int(re.search(key + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

n, rng = 3_000_000, np.random.default_rng(0)
levels = [f"level {k}" for k in range(300)]
codes = [rng.integers(300, size=n, dtype=np.int16) for _ in range(3)]
y = rng.laplace(size=n)
for part in codes:
    y += rng.normal(size=300)[part]
X = pd.DataFrame({f"f{k}": pd.Categorical.from_codes(part, levels) for k, part in enumerate(codes)})
X["x"] = rng.normal(size=n)
del codes
run.COMPILED_CELLS, cells = 0, run.COMPILED_CELLS
LADRegressor().fit(X[:40_000], y[:40_000])  # loads and compiles what is loaded late
run.COMPILED_CELLS = cells
before = kilobytes("VmRSS")
Path("/proc/self/clear_refs").write_text("5")
model = LADRegressor().fit(X, y)
print((kilobytes("VmHWM") - before) * 1024, X.memory_usage(deep=True).sum(), model.gap_)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from Linux's /proc")
def test_factors_of_a_frame_are_not_expanded():
    arguments = [sys.executable, "-c", FACTORS]
    answer = subprocess.run(arguments, capture_output=True, text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    assert answer.returncode == 0, answer.stderr
    taken, frame, gap = map(float, answer.stdout.split())
    assert taken <= 0.5 * frame + 100e6
    assert gap <= 1e-4


def test_clusters_of_later_iterations_are_counted(tmp_path):
    """Before, iterations went on with as many clusters as they liked, whatever the limit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30_000, 8))
    y = X.sum(axis=1) + rng.standard_t(3, size=30_000)
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))

    def fitted(limit):
        source = open_source(tmp_path / "rows.npy", 8, memory_limit=limit)
        budget = Run(source).budget
        return LADRegressor(init="kmeans", initial_rate=0.003, tol=1e-7).fit(source), budget

    free, _ = fitted(None)
    assert free.status_ is Status.gap
    most = free.n_clusters_ * 10
    with pytest.raises(ValueError, match="needs about") as refused:
        fitted("1kB")
    least = 1e6 * int(re.search(r"about (\d+) MB", str(refused.value))[1])
    tight, budget = fitted(least)
    assert 90 * 10 < budget.later < most, "first clusters fit, the last do not"
    assert tight.status_ is Status.memory_limit
    assert tight.n_clusters_ * 10 <= budget.later
    assert tight.n_iter_ < free.n_iter_
    assert tight.lower_bound_ <= free.objective_
    assert free.lower_bound_ <= tight.objective_ < 1.5 * free.objective_
    roomy, budget = fitted(10 * least)
    assert budget.later > most
    assert roomy.objective_ == free.objective_
    assert roomy.status_ is Status.gap


@pytest.mark.parametrize("sparse_rows", [False, True])
def test_sums_of_chunks_may_be_added_up_early(monkeypatch, sparse_rows):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40_000, 3)) * (rng.random((40_000, 3)) < 0.5)
    y = X @ [1.0, 2.0, 3.0] + rng.standard_t(3, size=40_000)
    X = sparse.csr_array(X) if sparse_rows else X
    monkeypatch.setattr(DataSource, "rows_per_chunk", 1500)
    first = {}
    for held in (1 << 22, 10):
        monkeypatch.setattr(clusters, "SETTINGS", replace(clusters.SETTINGS, held=held))
        for init in ("kmeans", "auto"):
            # Few rows near, so that several iterations split.
            model = LADRegressor(init=init, initial_rate=0.001, tol=1e-8).fit(X, y)
            told = (model.coef_.tolist(), model.lower_bound_, [record.n_clusters for record in model.history_])
            assert len(told[2]) > 2
            assert first.setdefault(init, told) == told


def test_models_that_share_passes_share_the_memory_of_clusters():
    budget = Budget(100.0, 90_000.0, 180_000.0)
    assert budget.of_members(3, 11) == Budget(100.0, 30_000.0, 60_000.0)
    assert budget.of_members(300, 11).later == 11 * 210, "what a fit needs at least"
    assert Budget().of_members(3, 11) == Budget()
