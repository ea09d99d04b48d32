"""SVC where data, kernels or users are difficult: nothing breaks, and what is claimed is true."""

import warnings
from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from scipy import sparse
from sklearn import svm
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel

from aidlearn import SVC, LinearSVC, Status
from aidlearn.engine import progress
from aidlearn.estimators.kernel import machine as kernel_machine
from aidlearn.kernel import smo
from aidlearn.kernel import solvers as kernel_solvers

INITS = ["auto", "band", "kmeans", "kernel-kmeans", "rows"]


def noisy_classes(n, m=4, seed=0, noise=0.6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    return X, np.where(X[:, 0] + np.sin(2 * X[:, 1]) + noise * rng.normal(size=n) > 0.1, 1, -1)


def four_classes(n, seed=0):
    X, _ = noisy_classes(n, seed=seed)
    rng = np.random.default_rng(seed + 1)
    noisy = X[:, :2] + 0.3 * rng.normal(size=(n, 2))
    return X, 2 * (noisy[:, 0] > 0) + (noisy[:, 1] > 0)


def true_objective(model, X, y, box, kernel):
    """The objective of a fitted machine in extended precision."""
    Z = X.astype(np.longdouble)
    K = kernel(Z)
    coef = np.zeros(len(y), dtype=np.longdouble)
    coef[model.support_] = model.dual_coef_[0]
    scores = K @ coef
    return coef @ scores / 2 + box @ np.maximum(0, 1 - y * (scores + np.longdouble(model.intercept_[0])))


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("n", [60, 2100])
def test_rows_that_are_all_alike(kernel, init, n):
    _, y = noisy_classes(n)
    for X in (np.ones((n, 3)), np.zeros((n, 3)), np.full((n, 3), 0.1)):
        model = SVC(kernel=kernel, init=init).fit(X, y)
        # Without any difference between rows w = 0, and the larger class has no loss.
        assert model.objective_ == pytest.approx(2 * min((y > 0).sum(), (y < 0).sum()), rel=1e-9)
        assert model.status_ is Status.gap
        assert np.isfinite(model.decision_function(X + 1.0)).all()


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("gamma", [1e-13, 0.5, 200.0])
def test_few_different_rows_and_kernels_without_any_difference(init, gamma):
    X, y = noisy_classes(2100)
    for Z in (X, X[np.arange(2100) % 3], X[np.arange(2100) % 3] + 1e-9 * X):
        model = SVC(gamma=gamma, init=init).fit(Z, y)
        assert model.status_ is Status.gap
        assert model.lower_bound_ <= 2 * min((y > 0).sum(), (y < 0).sum())
    approximated = SVC(gamma=gamma, approximation="nystroem", n_components=50).fit(X[np.arange(2100) % 3], y)
    assert approximated.gap_ <= 1e-4


@pytest.mark.parametrize("n", [80, 2400])
def test_given_clusters_belong_to_the_rows_of_each_machine(n):
    X, y = four_classes(n)
    clusters = np.arange(n) % 12
    weight = np.where(np.arange(n) % 7 == 0, 0.0, 1.0)
    model = SVC(init=clusters).fit(X, y, sample_weight=weight)
    plain = SVC().fit(X, y, sample_weight=weight)
    assert all(status is Status.gap for status in model.status_)
    assert model.objective_ == pytest.approx(plain.objective_, rel=2e-4)
    with pytest.raises(ValueError, match="one cluster label per row"):
        SVC(init=clusters[:-1]).fit(X, y)


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("n", [60, 2100])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_rows_that_are_far_out(kernel, init, n):
    X, y = noisy_classes(n)
    X[3] *= 1e20
    X[5] = X[3]
    X[7] = 2 * X[3]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The values of this kernel are so large")
        model = SVC(gamma=0.3, kernel=kernel, init=init, time_limit=20).fit(X, y)
    nothing = 2 * min((y > 0).sum(), (y < 0).sum())
    assert 0 <= model.lower_bound_ <= model.objective_ <= nothing * (1 + 1e-9)
    assert (model.status_ is Status.gap) == (model.gap_ <= 1e-4)
    assert np.isfinite(model.decision_function(X)).all()
    if kernel == "rbf":
        # The far rows have a kernel of 1 with themselves (and with their copies), of 0 with all others.
        K = rbf_kernel(np.where(np.abs(X) > 1e10, 0.0, X), gamma=0.3)
        K[[3, 5, 7]] = K[:, [3, 5, 7]] = 0.0
        K[np.ix_([3, 5], [3, 5])] = K[7, 7] = 1.0
        reference = svm.SVC(kernel="precomputed", tol=1e-6).fit(K, y)
        coef = np.zeros(n)
        coef[reference.support_] = reference.dual_coef_[0]
        dual = np.abs(coef).sum() - 0.5 * coef @ K @ coef
        assert model.status_ is Status.gap
        assert dual * (1 - 1e-6) <= model.objective_ <= dual * (1 + 2e-4)
        assert model.lower_bound_ <= dual * (1 + 1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("n", [300, 2600])
@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_the_score_of_a_row_does_not_depend_on_the_others(kernel, n, offset):
    X, y = four_classes(n)
    X = X + offset
    model = SVC(kernel=kernel, gamma=0.2, max_iter=3, time_limit=5, decision_function_shape="ovo")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The values of this kernel are so large")
        model.fit(X, y)
    new = np.concatenate([X[:400], X[:5] + 1e12, X[-3:] * 3])
    together = model.decision_function(new)
    size = 1.0 + np.abs(together).max()
    for part in (slice(0, 1), slice(3, 4), slice(7, 30), slice(130, len(new)), slice(len(new) - 1, len(new))):
        assert np.abs(model.decision_function(new[part]) - together[part]).max() <= 1e-12 * size
        assert np.array_equal(model.predict(new[part]), model.predict(new)[part])
    order = np.random.default_rng(0).permutation(len(new))
    assert np.array_equal(model.predict(new[order]), model.predict(new)[order])


@pytest.mark.parametrize("n", [200, 2300])
@pytest.mark.parametrize("init", ["auto", "band", "kmeans"])
def test_offsets_do_not_matter_to_the_linear_kernel(n, init):
    X, y = noisy_classes(n)
    X = np.round(X * 2**20) / 2**20  # so that adding an offset loses no digit
    moved = X + 2.0 ** np.array([14, 17, 20, 24])
    plain = SVC(kernel="linear", tol=1e-6, init=init).fit(X, y)
    model = SVC(kernel="linear", tol=1e-6, init=init).fit(moved, y)
    assert model.status_ is Status.gap
    assert model.lower_bound_ <= plain.objective_ * (1 + 1e-12)
    assert plain.lower_bound_ <= model.objective_ * (1 + 1e-12)
    assert np.abs(model.decision_function(moved) - plain.decision_function(X)).max() < 1e-2
    w, b = model.coef_[0].astype(np.longdouble), np.longdouble(model.intercept_[0])
    primal = w @ w / 2 + np.maximum(0, 1 - y * (moved @ w + b)).sum()
    assert model.objective_ == pytest.approx(float(primal), rel=1e-6)


@pytest.mark.parametrize("solver", ["smo", "libsvm"])
@pytest.mark.parametrize("offset", [1e2, 1e4, 1e6])
def test_offsets_in_polynomials_are_certified_or_not(solver, offset):
    X, y = noisy_classes(150)
    X = X + offset
    model = SVC(kernel="poly", degree=2, gamma=1.0, coef0=1.0, tol=1e-5, solver=solver, time_limit=10)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The values of this kernel are so large")
        model.fit(X, y)
    exact = true_objective(model, X, y, np.ones(len(y)), lambda Z: (Z @ Z.T + 1) ** 2)
    assert model.objective_ >= exact * (1 - 1e-12)
    # The kernel holds all quadratics of the rows as they were without offset: its optimum is at most theirs, at w = 0.
    assert model.lower_bound_ <= 2 * min((y > 0).sum(), (y < 0).sum())
    if model.status_ is Status.gap:
        assert exact - model.lower_bound_ <= 1e-5 * model.objective_


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("tol", [1e-3, 1e-9])
def test_a_gap_is_claimed_only_if_it_is_true(tol, seed):
    """Boxes of 1e7 and quartic kernels of rows far out: sums in float64 lose the digits of the objective."""
    rng = np.random.default_rng(seed)
    X, y = noisy_classes(60, m=2, seed=seed, noise=2.0)
    X[rng.integers(0, 60, 3)] *= 10.0 ** rng.integers(1, 5)
    weight = 10.0 ** rng.uniform(0, 4, 60)
    model = SVC(C=1e3, kernel="poly", degree=4, gamma=1.0, coef0=1.0, tol=tol, max_iter=20, time_limit=10)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The values of this kernel are so large")
        model.fit(X, y, sample_weight=weight)
    exact = true_objective(model, X, y, 1e3 * weight, lambda Z: (Z @ Z.T + 1) ** 4)
    assert model.objective_ >= exact * (1 - 1e-15)
    assert model.status_ in (Status.gap, Status.numerical)
    if model.status_ is Status.gap:
        assert exact - model.lower_bound_ <= tol * exact


@pytest.mark.parametrize("init", ["kmeans", "kernel-kmeans", np.arange(84) % 7])
def test_a_run_whose_gap_cannot_close_ends(init):
    """Rows around 1e4 to the third power: once no cluster is left to split, more iterations change nothing."""
    X, y = noisy_classes(84, m=5)
    X = X[np.arange(84) % 28] + 1e4
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The values of this kernel are so large")
        model = SVC(C=1e3, kernel="poly", gamma=0.05, coef0=1.0, tol=1e-6, init=init).fit(X, y)
    assert model.status_ is Status.numerical
    assert model.lower_bound_ <= model.objective_ <= 2e3 * min((y > 0).sum(), (y < 0).sum()) * (1 + 1e-9)


@pytest.mark.parametrize("rounds", [1, 3, 20])
@pytest.mark.parametrize("n", [700, 2500])
def test_interrupting_the_solver_keeps_what_it_had(monkeypatch, n, rounds):
    X, y = noisy_classes(n)
    left = iter(range(rounds))
    one_round = smo.WithMatrix.round

    def interrupted(solver, total, most):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return one_round(solver, total, most)

    best = SVC(C=100.0, tol=1e-6, init="rows").fit(X, y)
    monkeypatch.setattr(smo.WithMatrix, "round", interrupted)
    model = SVC(C=100.0, tol=1e-6, init="rows", solver="smo").fit(X, y)
    assert model.status_ is Status.interrupted
    assert 0 < model.lower_bound_ <= best.objective_
    nothing = 200 * min((y > 0).sum(), (y < 0).sum())
    assert best.lower_bound_ <= model.objective_ <= nothing * (1 + 1e-9)
    coef = np.zeros(n)
    coef[model.support_] = model.dual_coef_[0]
    assert ((coef * y >= 0) & (coef * y <= 100.0)).all()
    assert abs(coef.sum()) <= 1e-12 * np.abs(coef).sum()
    assert model.predict(X).shape == (n,)


def test_interrupting_one_of_several_machines_ends_all(monkeypatch):
    X, y = four_classes(1200)
    calls = []

    def interrupted(solver, total, most):
        calls.append(total)
        raise KeyboardInterrupt

    monkeypatch.setattr(smo.WithMatrix, "round", interrupted)
    # No time at all, so that the speed of the machine does not matter.
    monkeypatch.setattr(progress, "SETTINGS", replace(progress.SETTINGS, at_once=0.0))
    model = SVC(solver="smo").fit(X, y)
    assert model.status_[0] is Status.interrupted
    assert all(status is Status.interrupted for status in model.status_)
    assert (model.lower_bound_ <= model.objective_).all()
    assert set(model.predict(X)) <= set(range(4))
    assert len(calls) == 1


def test_a_fit_that_fails_leaves_no_model_behind(monkeypatch):
    X, y = noisy_classes(50)
    model = SVC().fit(X, y)

    def stopped(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(kernel_machine, "kernel_rows", stopped)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :2], np.arange(50) % 3)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_hard_problems_of_medium_size_are_not_solved_again_and_again(monkeypatch):
    """libsvm, which cannot go on from a solution, begins; SMO goes on to the certified gap."""
    X, y = noisy_classes(1100, m=10)
    calls = []
    by_libsvm = kernel_solvers._by_libsvm
    monkeypatch.setattr(kernel_solvers, "_by_libsvm", lambda *a: calls.append(a) or by_libsvm(*a))
    model = SVC(C=100.0).fit(X, y)
    assert model.status_ is Status.gap
    assert len(calls) == 1


def test_precomputed_matrices_are_looked_at_as_a_whole(monkeypatch):
    monkeypatch.setattr(kernel_machine, "CHECKS", replace(kernel_machine.CHECKS, checked_rows=20))
    X, y = noisy_classes(300)
    K = rbf_kernel(X)
    seen = np.sort(np.random.default_rng(0).choice(300, 20, replace=False))
    row, column = np.setdiff1d(np.arange(300), seen)[[3, 9]]
    for change, message in (
        (lambda A: A.__setitem__((row, column), 0.9 * A[row, column] + 0.01), "not symmetric"),
        (lambda A: A.__setitem__(([row, column], [column, row]), 1.5), "positive semidefinite"),
        (lambda A: A.__setitem__((row, row), -0.5), "positive semidefinite"),
        (lambda A: A.__setitem__((row, column), np.nan), "NaN"),
    ):
        bad = K.copy()
        change(bad)
        kinds = [bad] if message == "NaN" else [bad, sparse.csr_array(bad)]
        for matrix in kinds:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="The kernel was found positive")
                with pytest.raises(ValueError, match=message):
                    SVC(kernel="precomputed").fit(matrix, y)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear", "precomputed"])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0, 1: 0.5}])
def test_attributes_are_those_of_scikit_learn(kernel, n_classes, class_weight):
    X, y = four_classes(150)
    y = y % n_classes
    X = X + 3.0
    matrix = rbf_kernel(X, gamma=0.2) if kernel == "precomputed" else X
    common = {"kernel": kernel, "class_weight": class_weight, "tol": 1e-8, "C": 0.7}
    ours, theirs = SVC(**common).fit(matrix, y), svm.SVC(**common).fit(matrix, y)
    assert np.array_equal(ours.classes_, theirs.classes_)
    assert np.array_equal(ours.support_, theirs.support_)
    assert np.array_equal(ours.n_support_, theirs.n_support_)
    assert ours.support_.dtype == theirs.support_.dtype
    assert ours.n_support_.dtype == theirs.n_support_.dtype
    assert ours.dual_coef_ == pytest.approx(theirs.dual_coef_, abs=1e-3)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-3)
    assert ours.class_weight_ == pytest.approx(theirs.class_weight_)
    assert ours.shape_fit_ == theirs.shape_fit_
    assert ours.support_vectors_.shape == theirs.support_vectors_.shape
    assert hasattr(ours, "coef_") == (kernel == "linear") == hasattr(theirs, "coef_")
    if kernel == "linear":
        assert ours.coef_ == pytest.approx(theirs.coef_, abs=1e-3)
    for shape in ("ovr", "ovo"):
        ours.set_params(decision_function_shape=shape)
        theirs.set_params(decision_function_shape=shape)
        assert ours.decision_function(matrix) == pytest.approx(theirs.decision_function(matrix), abs=2e-3)
        assert ours.decision_function(matrix).shape == theirs.decision_function(matrix).shape
    assert np.array_equal(ours.predict(matrix), theirs.predict(matrix))


def test_linear_coefficients_of_sparse_rows():
    X, y = noisy_classes(200)
    X[np.abs(X) < 0.7] = 0.0
    dense = SVC(kernel="linear", tol=1e-7).fit(X, y)
    thin = SVC(kernel="linear", tol=1e-7).fit(sparse.csr_array(X), y)
    assert thin.coef_ == pytest.approx(dense.coef_, abs=1e-3)
    assert thin.decision_function(X) == pytest.approx(thin.decision_function(sparse.csr_array(X)), abs=1e-12)
    assert dense.decision_function(sparse.csr_array(X)) == pytest.approx(dense.decision_function(X), abs=1e-12)
    assert X @ dense.coef_[0] + dense.intercept_ == pytest.approx(dense.decision_function(X), abs=1e-9)


def test_negative_factors_of_classes_are_named():
    X, y = noisy_classes(30)
    with pytest.raises(ValueError, match="class_weight must be"):
        SVC(class_weight={1: -1.0}).fit(X, y)


def test_a_kernel_that_libsvm_cannot_solve():
    y = noisy_classes(1500)[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = SVC(kernel="poly", gamma=1e20, solver="libsvm").fit(np.ones((1500, 3)), y)
    assert model.lower_bound_ <= 2 * min((y > 0).sum(), (y < 0).sum()) == pytest.approx(model.objective_, rel=1e-9)


@pytest.mark.parametrize(("kernel", "gamma"), [("poly", 1e300), ("poly", 1e60), ("linear", 1.0)])
def test_a_kernel_beyond_float64_is_refused(kernel, gamma):
    X = np.array([[-8.0], [3.0], [1.0]]) * (1e200 if kernel == "linear" else 1.0)
    with pytest.raises(ValueError, match="too large for float64"):
        SVC(kernel=kernel, gamma=gamma).fit(X, [0, 1, 0])


@pytest.mark.parametrize("machine", [SVC, LinearSVC])
def test_dates_are_named_as_what_they_are(machine):
    days = np.array([date(2024, 1, 1 + k % 3) for k in range(30)], dtype=object)
    with pytest.raises(
        ValueError, match="The target holds dates, which are not classes: convert them to texts or whole numbers"
    ):
        machine().fit(np.arange(60.0).reshape(30, 2), days)


@pytest.mark.parametrize("init", ["auto", "band", "kmeans", "kernel-kmeans", "rows", "labels"])
@pytest.mark.parametrize("n", [500, 2500])
def test_a_machine_without_time_is_that_of_a_few_rows(init, n):
    """Before, some starts took no notice of the limit and others left the machine without any row."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = (X**2).sum(axis=1) > 2
    given = np.arange(n) % 100 if init == "labels" else init
    late = SVC(init=given, time_limit=1e-9).fit(X, y)
    best = SVC(tol=1e-7).fit(X, y)
    assert late.status_ is Status.time_limit
    assert late.score(X, y) > 0.8
    assert late.lower_bound_ <= best.objective_
    assert late.objective_ >= best.lower_bound_
    f = late.decision_function(X)
    square = late.dual_coef_[0] @ rbf_kernel(late.support_vectors_, gamma=1 / (3 * X.var())) @ late.dual_coef_[0]
    assert late.objective_ == pytest.approx(0.5 * square + np.maximum(0, 1 - np.where(y, 1, -1) * f).sum(), rel=1e-9)


def test_the_machines_of_a_fit_share_its_time(monkeypatch):
    """Before, each of them had all of it."""
    X, y = four_classes(400)
    limits = []
    original = kernel_machine.fit_problem

    def spied(problem, given, *more, **named):
        limits.append(given.time_limit)
        return original(problem, given, *more, **named)

    monkeypatch.setattr(kernel_machine, "fit_problem", spied)
    SVC(time_limit=600).fit(X, y)
    assert len(limits) == 6
    assert limits[0] <= 100
    assert 300 < limits[-1] <= 600
