"""The conformance test itself: it passes for the problems of the package, and fails for planted mistakes."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import LinearConstraint
from sklearn import svm

from aidlearn import (
    SVC,
    LADRegressor,
    LinearOneClassSVM,
    LinearSVC,
    LinearSVR,
    PiecewiseLinearModel,
    QuantileRegressor,
    SemiSupervisedSVC,
)
from aidlearn.engine import Assignment, Clusters, Evaluation, Solution, Start
from aidlearn.estimators import fitting
from aidlearn.testing import check_problem
from oracles import highs_quantile

EXAMPLE = Path(__file__).parents[2] / "examples" / "new_problem.py"


@pytest.fixture(scope="module")
def median():
    spec = importlib.util.spec_from_file_location("new_problem", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ManhattanMedian


class Posed(Exception):
    """A problem that was handed to the engine."""


@pytest.fixture
def problem_of(monkeypatch):
    """The problem that an estimator poses, before it is solved (solvers keep what they know of it)."""

    def stop(problem, *others):
        raise Posed(problem)

    monkeypatch.setattr(fitting, "aid", stop)

    def problem_of(model, *data):
        with pytest.raises(Posed) as posed:
            model.fit(*data)
        return posed.value.args[0]

    return problem_of


def plane(seed=0, n=601):
    X = np.random.default_rng(seed).standard_t(2, size=(n, 2))
    return X, np.abs(X - np.median(X, axis=0)).sum()


def regression(n=1500, m=4):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, m))
    return X, X @ np.arange(m) + rng.laplace(size=n)


@pytest.mark.parametrize("seed", range(3))
def test_passes_for_the_example(median, seed):
    X, optimum = plane(seed)
    check_problem(median(X), optimum=optimum)
    check_problem(median(X), random_state=seed)


@pytest.mark.parametrize("init", ["band", "kmeans"])
@pytest.mark.parametrize("alpha", [0.0, 0.05])
def test_passes_for_regressions(problem_of, init, alpha):
    X, y = regression()
    optimum = highs_quantile(X, y, l1=alpha * len(y) / 2) * 2
    check_problem(problem_of(LADRegressor(init=init, alpha=alpha), X, y), optimum=optimum)
    optimum = highs_quantile(X, y, 0.2, l1=alpha * len(y))
    check_problem(problem_of(QuantileRegressor(quantile=0.2, init=init, alpha=alpha), X, y), optimum=optimum)


def test_passes_for_ties_and_weights(problem_of):
    X, y = regression(400)
    X, y = np.round(X), np.round(y)
    weight = np.random.default_rng(2).integers(0, 4, len(y)).astype(float)
    optimum = 2 * highs_quantile(X, y, weight=weight)
    check_problem(problem_of(LADRegressor(init="kmeans", initial_rate=0.05), X, y, weight), optimum=optimum)


@pytest.mark.parametrize("init", ["band", "kmeans"])
@pytest.mark.parametrize("dual", [False, True])
def test_passes_for_linear_svms(problem_of, init, dual):
    X, y = regression()
    label = np.where(y + np.random.default_rng(3).normal(size=len(y)) > 0, 1, -1)
    oracle = svm.SVC(kernel="linear", C=0.1, tol=1e-10).fit(X, label)
    w, b = oracle.coef_[0], oracle.intercept_[0]
    optimum = 0.5 * w @ w + 0.1 * np.maximum(0, 1 - label * (X @ w + b)).sum()
    check_problem(problem_of(LinearSVC(C=0.1, init=init, row_duals=dual), X, label), optimum=optimum)
    check_problem(problem_of(LinearSVR(C=0.1, epsilon=0.5, init=init), X, y))


@pytest.mark.parametrize("init", ["band", "kmeans"])
def test_passes_for_one_class_and_constrained_problems(problem_of, init):
    X, y = regression(1200)
    check_problem(problem_of(LinearOneClassSVM(nu=0.3, init=init), X + 5))
    limits = {"positive": True, "constraints": LinearConstraint(np.ones(4), 2.0, 2.0), "init": init}
    check_problem(problem_of(LADRegressor(**limits), X, y))
    check_problem(problem_of(QuantileRegressor(alpha=0.1, l1_ratio=0.5, **limits), X, y))
    check_problem(problem_of(LinearSVC(C=0.1, **limits), X, y > 1))
    check_problem(problem_of(LinearSVR(C=0.1, epsilon=0.5, **limits), X, y))
    own = PiecewiseLinearModel(kinks=[-1, 1], slopes=[-1, 0.5, 3], linear=[30, -20, 0, 0], quadratic=2.0, **limits)
    check_problem(problem_of(own, X, y))


def test_fails_for_a_point_that_violates_constraints(median):
    problem = planted(median, plane()[0], feasible=lambda self, point: bool(point[0] > 10))
    with pytest.raises(AssertionError, match="violates the problem's constraints"):
        check_problem(problem)


def test_passes_for_the_kernel_svm(problem_of):
    X, y = regression(300, 3)
    label = np.where(np.sin(3 * y) > 0, 1, -1)
    oracle = svm.SVC(gamma=0.5, tol=1e-10).fit(X, label)
    gram = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    alpha = np.zeros(len(y))
    alpha[oracle.support_] = oracle.dual_coef_[0]
    optimum = np.abs(alpha).sum() - 0.5 * alpha @ gram @ alpha
    for init in ("band", "kmeans"):
        check_problem(problem_of(SVC(gamma=0.5, init=init, tol=1e-7), X, label), optimum=optimum)


@pytest.mark.parametrize("certify", [False, True])
def test_passes_for_the_semi_supervised_svm(problem_of, certify):
    rng = np.random.default_rng(4)
    X = np.concatenate([rng.normal(-2, 1, size=(30, 2)), rng.normal(2, 1, size=(30, 2))])
    y = np.full(60, -1)
    y[:4], y[30:34] = 0, 1
    check_problem(problem_of(SemiSupervisedSVC(certify=certify), X, y))


def planted(median, X, **methods):
    """The example with some of its methods replaced."""
    return type("Planted", (median,), methods)(X)


def test_fails_for_a_bound_above_the_optimum(median):
    X, optimum = plane()

    def solve_aggregated(self, *given):
        solution = median.solve_aggregated(self, *given)
        return replace(solution, lower_bound=1.001 * optimum)

    with pytest.raises(AssertionError, match=r"lower_bound is .* above the optimum"):
        check_problem(planted(median, X, solve_aggregated=solve_aggregated), optimum=optimum)
    # Without an oracle: the optimum is reached, and below.
    with pytest.raises(AssertionError, match="it proves nothing"):
        check_problem(planted(median, X, solve_aggregated=solve_aggregated, start=lambda self: alone(self)))


def alone(problem):
    clusters, _ = Clusters.build(
        problem, lambda chunk, state: Assignment(np.arange(chunk.n_entries)), len(problem.source.X)
    )
    return Start(clusters)


def test_fails_for_overlapping_clusters(median):
    X, optimum = plane()

    def start(self):
        def assign(chunk, state):
            labels = np.arange(chunk.n_entries) % 10
            sums = self.aggregate(chunk, labels, 10)
            sums[1] += sums[0] / 10  # as if some entries of the first were in the second as well
            return Assignment(labels, sums=sums, counts=np.bincount(labels, minlength=10))

        return Start(Clusters.build(self, assign, 10)[0])

    with pytest.raises(AssertionError, match=r"clusters overlap.*cluster 1"):
        check_problem(planted(median, X, start=start), optimum=optimum)


def test_fails_for_sizes_that_are_not_those_of_the_partition(median):
    X, optimum = plane()

    def start(self):
        found = median.start(self)
        found.clusters.counts[3] += 1
        return found

    with pytest.raises(AssertionError, match="not a partition: cluster 3"):
        check_problem(planted(median, X, start=start), optimum=optimum)


def test_fails_for_sums_that_are_not_additive(median):
    X, optimum = plane()

    def aggregate(self, chunk, labels, n_clusters):
        sums = median.aggregate(self, chunk, labels, n_clusters)
        return np.column_stack([sums[:, :2] / np.maximum(sums[:, 2:], 1), sums[:, 2]])  # means

    with pytest.raises(AssertionError, match="aggregate is not additive"):
        check_problem(planted(median, X, aggregate=aggregate), optimum=optimum)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda regions: np.zeros_like(regions), "a wrong region"),
        (lambda regions: regions // 2, "a wrong region"),
        (lambda regions: np.full_like(regions, -1), "No cluster lies in two regions"),
        (lambda regions: regions + 1, "regions from 1 to 4"),
        (lambda regions: regions[0], "regions of shape"),
    ],
)
def test_fails_for_a_wrong_region(median, wrong, sentence):
    X, optimum = plane()

    def evaluate(self, chunk, trial):
        found = median.evaluate(self, chunk, trial)
        return Evaluation(found.objectives, wrong(found.regions))

    with pytest.raises(AssertionError, match=sentence):
        check_problem(planted(median, X, evaluate=evaluate), optimum=optimum)


def test_fails_for_a_bound_that_falls_and_an_objective_that_is_not_finite(median):
    X, optimum = plane()

    def solve_aggregated(self, clusters, *given):
        solution = median.solve_aggregated(self, clusters, *given)
        return Solution(solution.point, solution.lower_bound / clusters.n_clusters, verified=True)

    with pytest.raises(AssertionError, match="the bound fell from"):
        check_problem(planted(median, X, solve_aggregated=solve_aggregated), optimum=optimum)

    def evaluate(self, chunk, trial):
        found = median.evaluate(self, chunk, trial)
        return Evaluation(found.objectives * np.inf, found.regions)

    with pytest.raises(AssertionError, match="not finite"):
        check_problem(planted(median, X, evaluate=evaluate), optimum=optimum)
