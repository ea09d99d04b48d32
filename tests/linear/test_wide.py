"""Fewer rows than columns: fits in the span of the rows are fits of the columns."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog
from sklearn.svm import SVC as LibSVC
from sklearn.svm import SVR as LibSVR
from sklearn.svm import OneClassSVM

from aidlearn import (
    LADRegressor,
    LinearOneClassSVM,
    LinearSVC,
    LinearSVR,
    PiecewiseLinearModel,
    QuantileRegressor,
    Unbounded,
)

N, M = 40, 150


@pytest.fixture(params=[0.0, 1e6], ids=["centred", "offset"])
def data(request):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, M))
    y = X[:, :5] @ np.arange(5) + rng.laplace(size=N)
    return X + request.param * (np.arange(M) % 7 == 0), y


def hinge(model, X, signs):
    w, b = model.coef_[0], model.intercept_[0]
    return 0.5 * w @ w + model.C * np.maximum(0, 1 - signs * (X @ w + b)).sum()


def test_classifiers_reach_the_optimum_of_libsvm(data):
    X, y = data
    signs = np.where(y > 0, 1, -1)
    model = LinearSVC(C=0.01, tol=1e-8).fit(X, y > 0)
    other = LibSVC(kernel="linear", C=0.01, tol=1e-9).fit(X - X.mean(axis=0), y > 0)
    dual = np.zeros(N)
    dual[other.support_] = np.abs(other.dual_coef_[0])
    w = (dual * signs) @ (X - X.mean(axis=0))
    assert model.objective_ == pytest.approx(dual.sum() - 0.5 * w @ w, rel=1e-6)
    assert model.objective_ == pytest.approx(hinge(model, X, signs), rel=1e-7)
    assert model.gap_ <= 1e-8
    alpha = model.dual_coef_[0]
    assert np.abs(alpha).max() <= 0.01 * (1 + 1e-9)
    assert abs(alpha.sum()) <= 1e-9
    own = alpha @ X[model.support_]
    assert np.abs(alpha).sum() - 0.5 * own @ own == pytest.approx(model.objective_, rel=1e-6)


def test_svr_reaches_the_optimum_of_libsvm(data):
    X, y = data
    model = LinearSVR(C=0.01, epsilon=0.1, tol=1e-8).fit(X, y)
    w = model.coef_
    losses = np.maximum(0, np.abs(y - model.predict(X)) - 0.1)
    assert model.objective_ == pytest.approx(0.5 * w @ w + 0.01 * losses.sum(), rel=1e-7)
    centred = X - X.mean(axis=0)
    other = LibSVR(kernel="linear", C=0.01, epsilon=0.1, tol=1e-9).fit(centred, y)
    w = other.coef_[0]
    losses = np.maximum(0, np.abs(y - other.predict(centred)) - 0.1)
    assert model.objective_ == pytest.approx(0.5 * w @ w + 0.01 * losses.sum(), rel=1e-6)


def test_one_class_reaches_the_optimum_of_libsvm():
    X = np.random.default_rng(1).normal(loc=0.4, size=(N, M))
    model = LinearOneClassSVM(nu=0.2, tol=1e-8).fit(X)
    other = OneClassSVM(kernel="linear", nu=0.2, tol=1e-10).fit(X)
    assert model.gap_ <= 1e-8
    assert model.coef_ == pytest.approx(other.coef_, abs=1e-5)
    assert model.offset_ == pytest.approx(other.offset_, rel=1e-6)


def test_any_storage_and_several_fits_give_the_same(data):
    X, y = data
    classes = np.digitize(y, [-2, 2])
    dense, stored = (LinearSVC(C=0.01, tol=1e-9).fit(each, classes) for each in (X, sparse.csr_array(X)))
    assert stored.objective_ == pytest.approx(dense.objective_, rel=1e-8)
    for k in range(3):
        one = LinearSVC(C=0.01, tol=1e-9).fit(X, classes == k)
        assert dense.objective_[k] == pytest.approx(one.objective_, rel=1e-8)


def test_targets_are_met_exactly_whatever_the_scale_of_columns(data):
    X, y = data
    X = X * 10.0 ** np.linspace(-6, 6, M)
    for model in (LADRegressor(), LADRegressor(standardize=True), LADRegressor(fit_intercept=False)):
        model.fit(X, y + 1e5)
        assert (model.objective_, model.lower_bound_) == (0.0, 0.0)
        assert model.predict(X) == pytest.approx(y + 1e5, rel=1e-7)


def test_repeated_rows_leave_a_loss():
    rng = np.random.default_rng(2)
    X, y = np.repeat(rng.normal(size=(10, M)), 3, axis=0), np.tile([0.0, 1.0, 5.0], 10)
    model = QuantileRegressor(quantile=[0.5, 0.9], tol=1e-9).fit(X, y)
    assert model.objective_ == pytest.approx([10 * 2.5, 10 * (0.1 * 5 + 0.1 * 4)], rel=1e-9)
    assert (model.gap_ <= 1e-9).all()


@pytest.mark.parametrize("intercept", [False, True])
def test_constraints_and_a_linear_term_belong_to_the_span(intercept):
    """Without a ridge, the problem is a linear program, which HiGHS solves in the columns."""
    rng = np.random.default_rng(3)
    X, y = np.repeat(rng.normal(size=(15, 120)), 2, axis=0), rng.normal(size=30)
    A = rng.normal(size=(3, 120 + intercept))
    low, high = np.array([1.0, -np.inf, 2.0]), np.array([1.0, 0.5, np.inf])
    linear = np.append(X.sum(axis=0), 30)[: 120 + intercept] / 50
    model = PiecewiseLinearModel(
        kinks=[0], slopes=[-1, 1], linear=linear, constraints=LinearConstraint(A, low, high), fit_intercept=intercept
    ).fit(X, y)
    rows = np.column_stack([X, np.ones(30)]) if intercept else X
    p, eye = rows.shape[1], np.eye(30)
    inequalities = np.concatenate([np.column_stack([s * rows, -eye]) for s in (1, -1)])
    limits = np.column_stack([np.stack([A[1], -A[2]]), np.zeros((2, 30))])
    best = linprog(
        np.append(linear, np.ones(30)),
        A_ub=np.concatenate([inequalities, limits]),
        b_ub=np.concatenate([y, -y, [0.5, -2.0]]),
        A_eq=np.append(A[0], np.zeros(30))[None],
        b_eq=[1.0],
        bounds=[(None, None)] * (p + 30),
    )
    assert best.status == 0
    assert model.lower_bound_ <= best.fun + 1e-7 * abs(best.fun)
    assert model.objective_ == pytest.approx(best.fun, rel=1e-5, abs=1e-6)
    point = np.append(model.coef_, model.intercept_) if intercept else model.coef_
    assert (low - 1e-7 <= A @ point).all()
    assert (A @ point <= high + 1e-7).all()


def test_an_unbounded_problem_names_its_column():
    X = np.zeros((5, 120))
    X[:, :4] = np.random.default_rng(0).normal(size=(5, 4))
    with pytest.raises(Unbounded, match="column 107"):
        PiecewiseLinearModel(kinks=[0], slopes=[-1, 1], linear=np.arange(120) == 107, fit_intercept=False).fit(
            X, X[:, 0]
        )


def test_equal_rows_span_nothing():
    X, y = np.ones((6, M)), np.array([0.0, 0.0, 0.0, 0.0, 1.0, 1.0])
    assert LADRegressor().fit(X, y).objective_ == pytest.approx(2.0)
    assert LinearSVC(C=3.0).fit(X, y).objective_ == pytest.approx(3.0 * 4)
    assert LinearSVR(epsilon=0.0).fit(0 * X, y).objective_ == pytest.approx(2.0)


def test_what_ties_single_coefficients_stays_in_the_columns(data):
    X, y = data
    sparse_model = QuantileRegressor(alpha=0.05, tol=1e-8).fit(X, y)
    assert np.count_nonzero(np.abs(sparse_model.coef_) > 1e-9) < N
    bounded = LinearSVR(C=0.01, bounds=Bounds(0, 0.01)).fit(X, y)
    assert bounded.coef_.min() >= 0
    assert bounded.coef_.max() <= 0.01


def test_more_columns_than_products_of_them_fit_into_memory():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(20, 17_000))
    y = rng.normal(size=20)
    assert LADRegressor().fit(X, y).objective_ == 0
    model = LinearSVR(time_limit=1e-9).fit(X, y)
    assert model.lower_bound_ <= model.objective_
