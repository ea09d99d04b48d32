"""Steps of SMO that lead nowhere end early, and small fits do not need it: no fit waits for nothing."""

import subprocess
import sys

import numpy as np
import pytest

from aidlearn import SVC, SVR, Status
from aidlearn.kernel import smo, solvers


@pytest.fixture
def counted(monkeypatch):
    """The numbers of steps, one call after the other."""
    taken, steps = [], smo._steps

    def counting(*arguments):
        taken.append(steps(*arguments))
        return taken[-1]

    monkeypatch.setattr(smo, "_steps", counting)
    return taken


@pytest.mark.parametrize("offset", [1e3, 1e5])
def test_rounding_does_not_keep_smo_busy(counted, offset):
    """The kernel of these rows has no digits left that tell them apart."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)) + offset
    y = X[:, 0] + 0.7 * rng.normal(size=60) > offset
    model = SVC(kernel="poly", degree=4, C=10, solver="smo", init="rows", tol=1e-9, n_jobs=1).fit(X, y)
    assert model.status_ is Status.numerical
    assert 0 < sum(counted) < 60_000


@pytest.mark.parametrize("solver", ["auto", "smo"])
@pytest.mark.parametrize("n", [400, 800])
def test_dear_losses_in_few_directions_are_proven(counted, solver, n):
    """SMO moves two of 1,600 variables at a time between five directions: the factor of the matrix has them all."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    y = X.sum(axis=1) + rng.normal(size=n)
    model = SVR(kernel="linear", C=1e4, epsilon=0.1, solver=solver, n_jobs=1).fit(X, y)
    assert model.status_ is Status.gap
    assert sum(counted) < 600_000
    loss = np.maximum(0, np.abs(y - model.predict(X)) - 0.1).sum()
    assert model.objective_ == pytest.approx(0.5 * (model.coef_**2).sum() + 1e4 * loss, rel=1e-6)


def test_steps_go_on_while_they_lead_somewhere():
    progress = solvers.StepProgress(patience=1000, hopeless=0.0)
    # An even growth of the dual takes ever more steps for the next fifth of the gap.
    assert not any(progress.stalled(1 - total / 1e6, total) for total in range(100, 900_000, 100))
    assert any(progress.stalled(0.1, total) for total in range(900_000, 2_000_000, 100))


def test_large_problems_end_early_only_where_there_is_no_hope():
    gaps = {0.999: True, 0.2: False}
    for gap, ends in gaps.items():
        progress = solvers.StepProgress(patience=1000, hopeless=solvers.SETTINGS.hopeless)
        assert any(progress.stalled(gap, total) for total in range(0, 10_000, 100)) is ends


def test_small_fits_wait_for_no_compiler():
    program = """
import sys, numpy as np
from aidlearn import SVC, SVR
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
models = [
    SVR().fit([[0.0], [1.0]], [0.0, 1.0]),
    SVR(kernel="linear", C=100).fit(X, X[:, 0] + rng.normal(size=60)),
    SVC(tol=1e-9, C=1e3).fit(X, X[:, 0] + rng.normal(size=60) > 0),
]
print([str(model.status_) for model in models])
print([name for name in sys.modules if name == "numba" or name.endswith((".smo", ".tiles"))])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["['gap', 'gap', 'gap']", "[]"]
