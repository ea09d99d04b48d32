"""The judge against formulas written out row by row; what it must not use."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import SVC

from aidlearn.bench.judge import Coefficients, Data, objective

LINEAR = ["lad", "quantile", "svm", "svr"]
SETTINGS = {"lad": {}, "quantile": {"quantile": 0.3}, "svm": {"C": 0.7}, "svr": {"C": 0.7, "epsilon": 0.2}}


def data(problem, seed, n=61, m=3, weighted=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    y = X @ rng.normal(size=m) + rng.laplace(size=n) + 0.5
    weight = rng.uniform(0.1, 10, n) if weighted else None
    return Data(X, np.where(y > 0, 1.0, -1.0) if "svm" in problem else y, weight)


def loss(problem, y, f, quantile=0.5, epsilon=0.0, C=1.0):
    """Of one row."""
    if problem == "lad":
        return abs(y - f)
    if problem == "quantile":
        return quantile * (y - f) if y > f else (1 - quantile) * (f - y)
    if problem == "svr":
        return C * max(0.0, abs(y - f) - epsilon)
    return C * max(0.0, 1 - y * f)


def by_hand(problem, given, scores, norm, intercept):
    weight = np.ones(len(given.y)) if given.weight is None else given.weight
    rows = zip(weight, given.y, scores + intercept, strict=True)
    total = sum(s * loss(problem, y, f, **SETTINGS.get(problem, {"C": 0.7})) for s, y, f in rows)
    return total + (0 if problem in ("lad", "quantile") else norm / 2)


@pytest.mark.parametrize("problem", LINEAR)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_objectives_have_the_best_intercept(problem, seed, weighted):
    given = data(problem, seed, weighted=weighted)
    coef = np.random.default_rng((seed, 1)).normal(size=3)
    scores = given.X @ coef
    errors, epsilon = given.y - scores, SETTINGS[problem].get("epsilon", 0.0)
    kinks = np.concatenate([errors - epsilon, errors + epsilon])
    best = min(by_hand(problem, given, scores, coef @ coef, b) for b in kinks)
    assert objective(problem, given, Coefficients(coef), **SETTINGS[problem]) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("problem", ["lad", "quantile"])
def test_quantiles_are_judged_at_the_intercept_they_were_given(problem):
    given, coef = data(problem, 0), np.array([1.0, -2.0, 0.5])
    found = objective(problem, given, Coefficients(coef, 4.0), **SETTINGS[problem])
    assert found == pytest.approx(by_hand(problem, given, given.X @ coef, 0.0, 4.0), rel=1e-12)
    assert found > objective(problem, given, Coefficients(coef), **SETTINGS[problem])


@pytest.mark.parametrize("problem", LINEAR)
def test_sparse_rows_have_the_same_objective(problem):
    given, coef = data(problem, 1), np.array([1.0, -2.0, 0.5])
    rows = Data(sparse.csr_array(given.X), given.y)
    values = [objective(problem, each, Coefficients(coef), **SETTINGS[problem]) for each in (given, rows)]
    assert values[0] == pytest.approx(values[1], rel=1e-12)


def gaussian_kernel(X, gamma):
    return np.array([[np.exp(-gamma * np.sum((a - b) ** 2)) for b in X] for a in X])


@pytest.mark.parametrize("gamma", [None, 0.3])
@pytest.mark.parametrize("block", [1 << 24, 200])
def test_kernel_machines_by_the_whole_kernel_matrix(monkeypatch, gamma, block):
    monkeypatch.setattr("aidlearn.bench.judge.BLOCK", block)
    given = data("kernel-svm", 2)
    support, coef = np.array([3, 5, 40]), np.array([0.5, -0.2, 0.7])
    K = gaussian_kernel(given.X, gamma or 1 / (3 * given.X.var()))
    scores = K[:, support] @ coef
    norm = coef @ K[np.ix_(support, support)] @ coef
    best = min(by_hand("kernel-svm", given, scores, norm, b) for b in given.y - scores)
    settings = {"C": 0.7} | ({} if gamma is None else {"gamma": gamma})
    assert objective("kernel-svm", given, Coefficients(coef, 0.0, support), **settings) == pytest.approx(
        best, rel=1e-10
    )


def test_the_optimum_of_libsvm_equals_its_dual():
    given = data("kernel-svm", 3, n=200)
    model = SVC(C=0.7, gamma=0.3, tol=1e-9).fit(given.X, given.y)
    coef = model.dual_coef_.ravel()
    K = gaussian_kernel(given.X[model.support_], 0.3)
    dual = np.abs(coef).sum() - coef @ K @ coef / 2
    found = objective("kernel-svm", given, Coefficients(coef, 0.0, model.support_), C=0.7, gamma=0.3)
    assert found == pytest.approx(dual, rel=1e-6)
    wrong = Coefficients(coef * np.where(np.arange(len(coef)) == 4, 1.5, 1.0), 0.0, model.support_)
    assert objective("kernel-svm", given, wrong, C=0.7, gamma=0.3) > found * (1 + 1e-6)


@pytest.mark.parametrize("problem", LINEAR)
def test_a_wrong_coefficient_is_judged_worse(problem):
    from aidlearn.bench.peers import solvers
    from aidlearn.bench.solvers import Job

    given = data(problem, 4, n=300)
    right = solvers(problem)["aidlearn"].fit(Job(problem, given, SETTINGS[problem], tol=1e-9)).solution
    least = objective(problem, given, right, **SETTINGS[problem])
    for change in (0.1, -0.1):
        wrong = Coefficients(right.coef + np.array([0, change, 0]), right.intercept)
        assert objective(problem, given, wrong, **SETTINGS[problem]) > least * (1 + 1e-4)


def test_the_judge_uses_no_code_of_the_fits():
    code = """
import sys, numpy as np
from aidlearn.bench.judge import Data
from aidlearn.bench.judge import Coefficients, objective
X = np.eye(4)
objective("kernel-svm", Data(X, np.array([1, -1, 1, -1.0])), Coefficients(np.ones(2), 0.0, np.array([0, 1])), C=1.0)
sys.stdout.write(" ".join(name for name in sys.modules if name.startswith("aidlearn.")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    own = {"aidlearn.bench", "aidlearn.bench.judge"}
    names = {
        "aidlearn.estimators",
        "aidlearn.estimators.declared",
        "aidlearn.estimators.declared_kernel",
        "aidlearn.estimators.parameters",
        "aidlearn.estimators.registry",
    }  # what the package's own names come from
    assert set(done.stdout.split()) - names == own
