"""Initial clusters of the kernel SVM: a partition by class, drawn around a true point, whatever the order of rows."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from aidlearn import SVC, Status
from aidlearn.data.passes.run import Run
from aidlearn.data.rows.arrays import ArraySource
from aidlearn.engine.problem import Accuracy
from aidlearn.kernel.entries import KernelEntries
from aidlearn.kernel.functions import Kernel
from aidlearn.kernel.problem import LOSS, NO_LOSS, KernelHinge, KernelSettings
from aidlearn.kernel.rows import kernel_rows
from aidlearn.kernel.solvers import solve_smo
from aidlearn.kernel.start import METHODS, SETTINGS, given


def noisy_classes(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, np.where(X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * rng.normal(size=n) > 0.3, 1.0, -1.0)


def problem_of(X, y, start_method, C=1.0, **settings):
    rows = kernel_rows(Kernel("rbf", 0.3), X, 1, 1e-4, compiled=True)
    box = np.full(len(y), C)
    chosen = KernelSettings(solve_smo, start_method, **settings)
    return KernelHinge(Run(ArraySource(X, y, box)), KernelEntries(rows, y, box), chosen, np.random.default_rng(0))


@pytest.mark.parametrize("name", METHODS)
def test_clusters_are_of_one_class_and_weigh_what_their_rows_do(name):
    X, y = noisy_classes(900)
    problem = problem_of(X, y, METHODS[name], separate=name in ("auto", "band", "rows"))
    clusters = problem.start().clusters
    labels = clusters.labels()
    assert np.array_equal(np.bincount(labels, minlength=clusters.n_clusters), clusters.counts)
    assert (clusters.counts > 0).all()
    for label in range(clusters.n_clusters):
        assert len(np.unique(y[labels == label])) == 1
    expected = np.column_stack([np.bincount(labels), np.bincount(labels, weights=y)])
    assert clusters.sums == pytest.approx(expected)


def test_rows_near_the_margin_stay_alone():
    X, y = noisy_classes(2000)
    problem = problem_of(X, y, METHODS["band"])
    start = problem.start()
    clusters, point = start.clusters, start.incumbent.point
    labels = clusters.labels()
    alone = clusters.counts[labels] == 1
    z = problem.values.slacks(point)
    assert alone.sum() >= round(SETTINGS.near_share * 2000)
    assert (clusters.counts > 1).sum() <= 2 * (SETTINGS.bins + 1)
    assert np.abs(z[alone]).max() <= np.abs(z[~alone]).min()
    homes = clusters.homes[labels]
    assert (homes[~alone & (z > 0)] == LOSS).all()
    assert (homes[~alone & (z <= 0)] == NO_LOSS).all()


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_the_point_of_the_start_is_what_it_says(C):
    """Scores, norm and objective are those of its coefficients; it is no dual-feasible point, and says so."""
    X, y = noisy_classes(1500)
    problem = problem_of(X, y, METHODS["band"], C=C)
    incumbent = problem.start().incumbent
    point = incumbent.point
    K = rbf_kernel(X, gamma=0.3)
    scores, square = K @ point.coef, point.coef @ K @ point.coef
    # Coefficients of landmarks sum to zero, so the constant that features leave out is in the intercept.
    apart = point.scores - scores
    size = np.abs(point.coef).sum()
    assert np.ptp(apart) <= 1e-5 * size
    assert point.square == pytest.approx(square, rel=1e-3, abs=1e-6 * size)
    assert abs(point.coef.sum()) <= 1e-9 * size
    assert not point.feasible
    losses = np.maximum(0.0, 1.0 - y * (point.scores + point.intercept))
    assert incumbent.objective >= 0.5 * point.square + C * losses.sum()
    assert incumbent.objective <= 2 * C * min((y > 0).sum(), (y < 0).sum()) * (1 + 1e-2)
    others = [C * np.maximum(0.0, 1.0 - y * (point.scores + b)).sum() for b in y - point.scores]
    assert C * losses.sum() <= min(others) * (1 + 1e-9)


@pytest.mark.parametrize("name", ["band", "kmeans", "kernel-kmeans", "rows"])
def test_the_order_of_rows_does_not_change_what_is_proven(name):
    X, y = noisy_classes(1500)
    order = np.random.default_rng(3).permutation(1500)
    one = SVC(gamma=0.3, init=name, solver="smo", tol=1e-6).fit(X, y)
    two = SVC(gamma=0.3, init=name, solver="smo", tol=1e-6).fit(X[order], y[order])
    assert one.lower_bound_ <= two.objective_
    assert two.lower_bound_ <= one.objective_
    assert one.objective_ == pytest.approx(two.objective_, rel=2e-6)
    assert one.decision_function(X) == pytest.approx(two.decision_function(X), abs=1e-2)


def test_given_clusters_do_not_depend_on_the_order_of_rows():
    X, y = noisy_classes(700)
    codes = np.random.default_rng(1).integers(0, 9, 700)
    order = np.random.default_rng(2).permutation(700)
    one = problem_of(X, y, given(codes)).start().clusters
    two = problem_of(X[order], y[order], given(codes[order])).start().clusters
    assert one.n_clusters == two.n_clusters == 18
    together = one.labels()[order], two.labels()
    assert len(set(zip(*(labels.tolist() for labels in together), strict=True))) == 18
    assert np.array_equal(np.sort(one.counts), np.sort(two.counts))


@pytest.mark.parametrize("init", ["band", "kmeans", "kernel-kmeans", "auto", "rows"])
@pytest.mark.parametrize("solver", ["smo", "libsvm"])
@pytest.mark.parametrize("n", [2, 4, 9])
def test_a_handful_of_rows(init, solver, n):
    """Far fewer rows than the start has clusters for: at first none may take part in the aggregated problem."""
    X, y = noisy_classes(n)
    y[0], y[-1] = 1.0, -1.0
    model = SVC(C=100.0, gamma=0.05, init=init, solver=solver).fit(X, y)
    assert model.gap_ <= 1e-4
    assert model.lower_bound_ <= model.objective_


@pytest.mark.parametrize("seed", range(20))
def test_five_rows_around_a_quick_solution_that_leaves_none_in(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(5, 2)), rng.permutation([0, 1, 0, 1, 1])
    model = SVC(solver="smo", init="band", C=100).fit(X, y)
    whole = SVC(init="rows", C=100).fit(X, y)
    assert model.gap_ <= 1e-4
    assert model.objective_ == pytest.approx(whole.objective_, rel=2e-4)


@pytest.mark.parametrize("init", ["kmeans", "kernel-kmeans", "band", "rows", "auto"])
def test_time_that_is_over_before_the_first_solution_leaves_a_model(init):
    """Kernel sums of clusters are given up at the limit, and not computed to their end."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(2500, 3))
    y = X[:, 0] + 0.5 * rng.normal(size=2500) > 0
    model = SVC(init=init, tol=1e-9, time_limit=1e-3).fit(X, y)
    assert model.status_ is Status.time_limit
    assert 0 <= model.lower_bound_ <= model.objective_
    assert np.isfinite(model.decision_function(X[:10])).all()


def test_kernel_sums_look_at_the_clock():
    problem = problem_of(*noisy_classes(300), METHODS["kernel-kmeans"], separate=False)
    start = problem.start()
    solution = problem.solve_aggregated(start.clusters, start.incumbent, Accuracy(0.0, 0.0))
    assert solution.out_of_time
    assert solution.point is start.incumbent.point
    assert solution.lower_bound == -np.inf
