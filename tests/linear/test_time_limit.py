"""Time limits of solvers that cannot be stopped: as many steps as fit, and a usable model with a true bound."""

import math
import re
import time

import numpy as np
import pytest

from aidlearn import LinearSVC, SemiSupervisedSVC, Status
from aidlearn.estimators.kernel.semi_supervised import certified_kernel
from aidlearn.linear.aggregated import adapters as budget
from aidlearn.semisupervised.features import graph_features


class Clock:
    """A solver that takes ``pace`` seconds per step, and the time it has taken."""

    def __init__(self, pace, needed, monkeypatch):
        self.now, self.pace, self.needed, self.runs = 100.0, pace, needed, []
        monkeypatch.setattr(budget.time, "monotonic", lambda: self.now)

    def run(self, steps):
        taken = min(steps, self.needed)
        self.now += self.pace * taken
        self.runs.append(steps)
        return taken, taken


@pytest.mark.parametrize("pace", [1e-5, 1e-3, 1e-2])
def test_runs_end_in_time_and_use_it(pace, monkeypatch):
    clock = Clock(pace, 10**9, monkeypatch)
    reached = budget.within(110.0, clock.run, 10, 10**12)
    assert reached.out_of_time
    assert clock.now <= 110.0
    assert reached.found * pace >= 2.0  # of ten seconds, those of the longest run
    assert clock.runs == sorted(clock.runs)


def test_a_run_that_ends_by_itself_is_the_last(monkeypatch):
    clock = Clock(1e-6, 5000, monkeypatch)
    reached = budget.within(110.0, clock.run, 10, 10**12)
    assert (reached.found, reached.out_of_time, reached.gave_up) == (5000, False, False)


def test_the_most_steps_are_no_lack_of_time(monkeypatch):
    clock = Clock(1e-6, 10**9, monkeypatch)
    reached = budget.within(110.0, clock.run, 10, 1000)
    assert (reached.found, reached.out_of_time, reached.gave_up, clock.runs[-1]) == (1000, False, True, 1000)


def test_without_a_limit_there_is_one_run(monkeypatch):
    clock = Clock(1.0, 77, monkeypatch)
    assert budget.within(math.inf, clock.run, 10, 1000).found == 77
    assert clock.runs == [1000]


@pytest.mark.parametrize("solver", ["libsvm", "liblinear"])
def test_solvers_of_others_keep_to_the_limit(solver):
    """Without a look at the clock this goes on until it is solved, minutes later."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 8))
    y = X[:, 0] + 2 * rng.normal(size=6000) > 0
    model = LinearSVC(solver=solver, C=1e4, init=np.arange(6000), time_limit=0.3).fit(X, y)
    assert model.status_ is Status.time_limit
    best = LinearSVC(C=1e4, tol=1e-8).fit(X, y)
    assert model.lower_bound_ <= best.objective_ * (1 + 1e-9)
    assert model.objective_ >= best.lower_bound_ * (1 - 1e-9)
    assert model.objective_ <= 1e4 * 2 * min(y.sum(), (~y).sum()), "no worse than a constant"


@pytest.mark.parametrize("solver", ["libsvm", "liblinear"])
def test_solvers_of_others_give_up_on_badly_scaled_columns(solver):
    """Rounding keeps libsvm from ending on such columns; the interior point solves then."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(27, 6)) * 10.0 ** np.arange(-6, 6, 2)
    y = rng.random(27) > 0.5
    model, own = (LinearSVC(solver=name, C=1e4, tol=1e-6).fit(X, y) for name in (solver, "auto"))
    assert model.lower_bound_ <= own.objective_ * (1 + 1e-9)
    assert model.objective_ == pytest.approx(own.objective_, rel=1e-5)


def test_features_of_a_graph_in_a_hurry_are_fewer():
    """They still are features of a kernel that is 1 on the diagonal and larger within a component than between two."""
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(2500, 3)), rng.normal(size=(2500, 3)) + 6
    X = np.concatenate([one, two])
    hurried, free = (graph_features(X, 10, 5.0, end).features for end in (time.monotonic(), math.inf))
    assert 0 < hurried.shape[1] < free.shape[1]
    for features in (hurried, free):
        assert (features**2).sum(axis=1) == pytest.approx(1.0)
        within, between = (features[:2500] @ part.T for part in (features[:2500], features[2500:]))
        assert within.mean() > between.mean()
    labels = np.where(rng.random(5000) < 0.1, np.repeat([0, 1], 2500), -1)
    model = SemiSupervisedSVC(kernel="graph", C_unlabeled=0.01, time_limit=0.1).fit(X, labels)
    assert model.lower_bound_ <= model.objective_


def test_kernels_as_features_make_do_with_few_rows_once_time_is_over():
    """A factor of 1,000 rows and ten iterations of k-means would take longer than any short limit."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(400, 3)), rng.normal(size=(400, 3)) + 3])
    labels = np.where(rng.random(800) < 0.1, np.repeat([0, 1], 400), -1)
    late = SemiSupervisedSVC(kernel="rbf", C_unlabeled=0.01, time_limit=1e-9).fit(X, labels)
    landmarks = re.fullmatch(r"Nystroem approximation by (\d+) rows", certified_kernel(late))
    assert 0 < int(landmarks[1]) < 800
    asked = SemiSupervisedSVC(kernel="rbf", C_unlabeled=0.01, n_components=300, time_limit=1e-9).fit(X, labels)
    assert certified_kernel(asked) == "Nystroem approximation by 300 rows"
    for model in (late, asked):
        assert model.status_ is Status.time_limit
        assert model.lower_bound_ <= model.objective_
    free = SemiSupervisedSVC(kernel="rbf", C_unlabeled=0.01, max_iter=1).fit(X, labels)
    assert certified_kernel(free) == "exact"
