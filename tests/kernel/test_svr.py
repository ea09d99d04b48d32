"""Kernel support vector regression against libsvm and Clarabel, and its conventions."""

import itertools
import math

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.svm import SVR as LibSVR
from sklearn.utils.estimator_checks import parametrize_with_checks

from aidlearn import SVC, SVR, LinearSVR, Status
from aidlearn.kernel.entries import TubeEntries
from aidlearn.kernel.problem import KernelHinge, KernelSettings
from aidlearn.kernel.rows import kernel_rows
from aidlearn.kernel.solvers import SOLVERS
from aidlearn.kernel.start import METHODS
from aidlearn.testing import check_problem


@parametrize_with_checks([SVR(), SVR(kernel="linear"), SVR(init="band"), SVR(approximation="nystroem")])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def data(n, m=3, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + noise * rng.standard_t(3, size=n)


def gram(model, X):
    kernel = model._kernel
    if kernel.name == "rbf":
        return rbf_kernel(X, gamma=kernel.gamma)
    if kernel.name == "poly":
        return polynomial_kernel(X, gamma=kernel.gamma, degree=kernel.degree, coef0=kernel.coef0)
    return linear_kernel(X)


def primal(K, y, box, epsilon, coef, intercept):
    errors = np.abs(y - K @ coef - intercept)
    return 0.5 * coef @ K @ coef + box @ np.maximum(0.0, errors - epsilon)


def dual(K, y, epsilon, coef):
    return y @ coef - epsilon * np.abs(coef).sum() - 0.5 * coef @ K @ coef


def expanded(model, n):
    coef = np.zeros(n)
    coef[model.support_] = model.dual_coef_[0]
    return coef


@pytest.mark.parametrize("seed", range(24))
def test_bound_and_objective_beside_libsvm(seed):
    rng = np.random.default_rng(100 + seed)
    n, m = int(rng.integers(2, 220)), int(rng.integers(1, 5))
    X, y = data(n, max(m, 2), seed)
    y = y * 10.0 ** rng.integers(-2, 3) + 5.0 * (seed % 3)
    if seed % 4 == 0:
        y = np.round(y)
    weight = None if seed % 2 else 10.0 ** rng.uniform(-1, 1, size=n)
    C, epsilon = 10.0 ** rng.integers(-2, 3), [0.0, 0.1, 0.5][seed % 3]
    kernel = [{"kernel": "rbf"}, {"kernel": "poly", "degree": 2, "coef0": 1.0}, {"kernel": "linear"}][(seed // 2) % 3]
    init = ["auto", "band", "kmeans", "kernel-kmeans", "rows"][seed % 5]
    model = SVR(C=C, epsilon=epsilon, init=init, tol=1e-6, **kernel).fit(X, y, weight)
    K, box = gram(model, X), C * (np.ones(n) if weight is None else weight)
    coef = expanded(model, n)
    assert (np.abs(coef) <= box * (1 + 1e-9)).all()
    assert abs(coef.sum()) <= 1e-9 * np.abs(coef).sum() + 1e-12
    own = primal(K, y, box, epsilon, coef, model.intercept_[0])
    slack = 1e-6 * own + 1e-9 * np.abs(y).max() * box.sum()
    assert model.objective_ == pytest.approx(own, abs=slack)
    other = LibSVR(kernel="precomputed", C=1.0, epsilon=epsilon, tol=1e-8, max_iter=2_000_000).fit(K, y, box)
    theirs = expanded(other, n)
    assert model.lower_bound_ <= primal(K, y, box, epsilon, theirs, other.intercept_[0]) * (1 + 1e-9) + 1e-12
    assert model.objective_ >= dual(K, y, epsilon, theirs) * (1 - 1e-6) - 1e-9
    assert model.status_ is Status.gap


@pytest.mark.parametrize("seed", range(6))
def test_optimum_of_clarabel(seed):
    """The dual as a quadratic program: the same value, and never below the bound."""
    clarabel = pytest.importorskip("clarabel")
    X, y = data(60, 3, seed)
    C, epsilon = [0.1, 1.0, 30.0][seed % 3], [0.0, 0.2][seed % 2]
    model = SVR(C=C, epsilon=epsilon, tol=1e-8).fit(X, y)
    n, K = len(y), gram(model, X)
    P = sparse.csc_matrix(np.triu(np.block([[K, -K], [-K, K]])))
    q = np.concatenate([epsilon - y, epsilon + y])
    rows = sparse.vstack([np.repeat([[1.0, -1.0]], n, axis=1), -sparse.eye(2 * n), sparse.eye(2 * n)]).tocsc()
    right = np.concatenate([[0.0], np.zeros(2 * n), np.full(2 * n, C)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(4 * n)]
    optimum = -clarabel.DefaultSolver(P, q, rows, right, cones, settings).solve().obj_val
    assert model.objective_ == pytest.approx(optimum, rel=1e-6)
    assert model.lower_bound_ <= optimum * (1 + 1e-7)


@pytest.mark.parametrize("start", ["band", "kmeans", "rows"])
def test_the_problem_conforms(start):
    X, y = data(120, 2, 5)
    model = SVR(C=1.0, epsilon=0.2, gamma=0.5, tol=1e-9).fit(X, y)
    box = np.ones(len(y))
    rows = kernel_rows(model._kernel, X, 1, 1e-9)
    settings = KernelSettings(SOLVERS["smo"], METHODS[start], separate=start != "kmeans", tol=1e-7)
    from aidlearn.data import as_source
    from aidlearn.data.passes.run import Run

    problem = KernelHinge(Run(as_source(X, y)), TubeEntries(rows, y, box, 0.2), settings, np.random.default_rng(0))
    check_problem(problem, optimum=model.objective_, rtol=1e-5)


def test_agrees_with_the_linear_model_and_across_kernels():
    X, y = data(200, 4, 1)
    linear = LinearSVR(C=0.5, epsilon=0.2, tol=1e-9).fit(X, y)
    model = SVR(kernel="linear", C=0.5, epsilon=0.2, tol=1e-9).fit(X, y)
    assert model.objective_ == pytest.approx(linear.objective_, rel=1e-8)
    np.testing.assert_allclose(model.coef_[0], linear.coef_, atol=1e-4)
    np.testing.assert_allclose(model.predict(X), X @ model.coef_[0] + model.intercept_[0], rtol=1e-12)
    given = SVR(kernel="precomputed", C=0.5, epsilon=0.2, tol=1e-9).fit(X @ X.T, y)
    called = SVR(kernel=lambda A, B: A @ B.T, C=0.5, epsilon=0.2, tol=1e-9).fit(X, y)
    in_rows = SVR(kernel="linear", C=0.5, epsilon=0.2, tol=1e-9).fit(sparse.csr_array(X), y)
    for other in (given, called, in_rows):
        assert other.objective_ == pytest.approx(model.objective_, rel=1e-7)


@pytest.mark.parametrize("init", ["auto", "band", "kmeans"])
def test_compiled_rows_and_columns_on_demand(init):
    X, y = data(2100, 4, 2)
    model = SVR(C=1.0, epsilon=0.3, init=init, tol=1e-5, memory_limit="20MB").fit(X, y)
    other = LibSVR(C=1.0, epsilon=0.3, gamma=model._kernel.gamma, tol=1e-6).fit(X, y)
    K = gram(model, X)
    theirs = expanded(other, len(y))
    assert model.status_ is Status.gap
    assert model.lower_bound_ <= primal(K, y, np.ones(len(y)), 0.3, theirs, other.intercept_[0])
    assert model.objective_ >= dual(K, y, 0.3, theirs) * (1 - 1e-9)
    np.testing.assert_allclose(model.predict(X), other.predict(X), atol=0.02)


def test_equivariance():
    X, y = data(150, 3, 3)
    model = SVR(C=2.0, epsilon=0.1, tol=1e-7).fit(X, y)
    scaled = SVR(C=2e6, epsilon=1e5, tol=1e-7).fit(X, 1e6 * y)
    assert scaled.objective_ == pytest.approx(1e12 * model.objective_, rel=1e-6)
    shifted = SVR(C=2.0, epsilon=0.1, tol=1e-7).fit(X, y + 1e6)
    assert shifted.objective_ == pytest.approx(model.objective_, rel=1e-6)
    np.testing.assert_allclose(shifted.predict(X) - 1e6, model.predict(X), atol=1e-3)
    repeated = SVR(C=2.0, epsilon=0.1, tol=1e-7, gamma=model._kernel.gamma).fit(
        np.repeat(X, 3, axis=0), np.repeat(y, 3)
    )
    weighted = SVR(C=2.0, epsilon=0.1, tol=1e-7, gamma=model._kernel.gamma).fit(X, y, np.full(len(y), 3.0))
    assert repeated.objective_ == pytest.approx(weighted.objective_, rel=1e-6)


def test_a_tube_that_holds_everything():
    X, y = data(40, 2, 4)
    model = SVR(epsilon=100.0).fit(X, y)
    assert (model.objective_, model.lower_bound_, model.gap_) == (0.0, 0.0, 0.0)
    assert model.support_.size == 0
    assert len(set(model.predict(X))) == 1
    assert SVR().fit(X, np.full(40, 7.0)).predict(X[:3]).tolist() == [7.0] * 3


def test_rows_of_weight_zero_have_no_part():
    X, y = data(80, 2, 6)
    weight = np.ones(80)
    weight[50:] = 0.0
    gamma = 0.5
    some = SVR(gamma=gamma, tol=1e-8).fit(X, np.where(weight > 0, y, 1e6), weight)
    alone = SVR(gamma=gamma, tol=1e-8).fit(X[:50], y[:50])
    assert some.objective_ == pytest.approx(alone.objective_, rel=1e-7)
    assert some.support_.max() < 50
    with pytest.raises(ValueError, match="zero for every row"):
        SVR().fit(X, y, np.zeros(80))


def test_limits_leave_a_usable_model():
    X, y = data(2500, 3, 7)
    model = SVR(C=100.0, tol=1e-9, time_limit=0.05).fit(X, y)
    assert 0 <= model.lower_bound_ <= model.objective_
    assert np.isfinite(model.predict(X[:5])).all()
    stopped = SVR(init="band", tol=1e-9, callbacks=lambda record: True).fit(X, y)
    assert stopped.status_ in (Status.interrupted, Status.gap)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"epsilon": -0.1}, "epsilon must be a number >= 0"),
        ({"C": 0.0}, "C must be a number > 0"),
        ({"solver": "libsvm"}, "solver must be one of 'auto', 'smo'"),
        ({"kernel": "sigmoid"}, "not positive semidefinite"),
    ],
)
def test_refusals(parameters, words):
    X, y = data(20)
    with pytest.raises(ValueError, match=words):
        SVR(**parameters).fit(X, y)


def test_no_bit_depends_on_the_threads():
    X, y = data(5000, 5, 8)
    one, two = (SVR(init="band", n_jobs=k, tol=1e-4).fit(X, y) for k in (1, 2))
    assert (one.objective_, one.lower_bound_) == (two.objective_, two.lower_bound_)
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)


def test_a_classification_is_no_regression():
    X, y = data(60)
    assert SVR().fit(X, y).__sklearn_tags__().estimator_type == "regressor"
    assert SVC().fit(X, y > 0).__sklearn_tags__().estimator_type == "classifier"


@pytest.mark.parametrize(("n", "scale"), [(60, 1), (60, 6), (60, 10), (150, 6)])
def test_polynomials_of_rows_of_very_different_lengths(n, scale):
    # The diagonal of the kernel matrix spans up to 14 decades; the features (monomials) are few and well known.
    rng = np.random.default_rng(0)
    X = scale * rng.normal(size=(n, 3))
    y = (X[:, 0] / scale) ** 3 + 0.3 * rng.normal(size=n)
    powers = [e for e in itertools.product(range(6), repeat=3) if sum(e) <= 5]
    sizes = [math.sqrt(math.factorial(5) / math.prod(map(math.factorial, (*e, 5 - sum(e))))) for e in powers]
    features = np.column_stack([size * (X**e).prod(axis=1) for size, e in zip(sizes, powers, strict=True)])
    explicit = LinearSVR(C=1.0, epsilon=0.1).fit(features, y)
    errors = np.maximum(np.abs(y - features @ explicit.coef_ - explicit.intercept_) - 0.1, 0.0)
    value = 0.5 * float(explicit.coef_ @ explicit.coef_) + float(errors.sum())
    model = SVR(kernel="poly", degree=5, gamma=1.0, coef0=1.0, C=1.0, epsilon=0.1).fit(X, y)
    assert 0.98 * value <= model.lower_bound_ <= value
    assert model.objective_ <= 1.2 * value
