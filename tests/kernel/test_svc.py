"""SVC: against libsvm, by its own dual, under memory limits, and as a scikit-learn user meets it."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn import svm
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from aidlearn import SVC, LinearSVC, Status


@parametrize_with_checks([SVC(), SVC(kernel="linear"), SVC(init="kmeans"), SVC(approximation="nystroem")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def noisy_classes(n, m=6, seed=0, noise=0.6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    y = np.where(X[:, 0] + np.sin(2 * X[:, 1]) + noise * rng.normal(size=n) > 0.2, 1, -1)
    return X, y


def gram(kernel, X, gamma, degree, coef0):
    if kernel == "rbf":
        return rbf_kernel(X, gamma=gamma)
    return polynomial_kernel(X, gamma=gamma, degree=degree, coef0=coef0) if kernel == "poly" else X @ X.T


def values_of(K, label, box, coef):
    """Primal value at the best intercept, and dual value, of a machine ``f = K coef + b``."""
    scores, square = K @ coef, coef @ K @ coef
    candidates = label - scores
    losses = [box @ np.maximum(0, 1 - label * (scores + b)) for b in candidates]
    return 0.5 * square + min(losses), np.abs(coef).sum() - 0.5 * square


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, m = draw(st.integers(4, 120)), draw(st.integers(1, 6))
    X = rng.normal(size=(n, m)) + draw(st.sampled_from([0.0, 0.0, 20.0]))
    label = np.where(X[:, 0] - X[:, 0].mean() + draw(st.sampled_from([0.0, 0.3, 3.0])) * rng.normal(size=n) > 0, 1, -1)
    kind = draw(st.sampled_from(["plain", "rare", "conflict", "duplicates"]))
    if kind == "rare":
        label[:] = -1
    elif kind == "conflict":
        X[n // 2 :] = X[: n - n // 2]
        label[n // 2 :] = -label[: n - n // 2]
    elif kind == "duplicates":
        X = X[rng.integers(0, max(2, n // 3), n)]
    label[0], label[-1] = 1, -1
    weight = 10.0 ** rng.uniform(-2, 2, n) if draw(st.booleans()) else np.ones(n)
    kernel = draw(st.sampled_from(["rbf", "rbf", "poly", "linear"]))
    constants = {"gamma": draw(st.sampled_from([0.05, 1.0])), "degree": draw(st.integers(1, 3)), "coef0": 1.0}
    return X, label, weight, kernel, constants, 10.0 ** draw(st.integers(-3, 2))


@settings(max_examples=100)
@given(
    problems(),
    st.sampled_from(["auto", "band", "kmeans", "kernel-kmeans", "rows"]),
    st.sampled_from(["2GB", "2GB", 1]),
    st.sampled_from(["libsvm", "smo"]),
)
def test_equals_libsvm_and_bounds_enclose_its_optimum(problem, init, memory_limit, solver):
    X, label, weight, kernel, constants, C = problem
    model = SVC(C=C, kernel=kernel, tol=1e-6, init=init, memory_limit=memory_limit, solver=solver, **constants)
    model.fit(X, label, sample_weight=weight)
    K, box = gram(kernel, X, **constants), C * weight
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # what it reached bounds the optimum all the same
        reference = svm.SVC(C=C, kernel="precomputed", tol=1e-6, max_iter=1_000_000)
        reference.fit(K, label, sample_weight=weight)
    coef = np.zeros(len(label))
    coef[reference.support_] = reference.dual_coef_[0]
    primal, dual = values_of(K, label, box, coef)
    size = np.abs(coef) @ np.sqrt(np.diag(K))
    rounding = 1e-9 * primal + 1e-13 * size**2
    assert model.lower_bound_ <= primal + rounding
    assert model.objective_ >= dual - rounding
    ours = np.zeros(len(label))
    ours[model.support_] = model.dual_coef_[0]
    recomputed, _ = values_of(K, label, box, ours)
    # The objective is rounded up by the error of every score, which is that of the kernel values in it.
    rounded_up = 1e-13 * size * float(box @ np.sqrt(np.diag(K)))
    assert model.objective_ == pytest.approx(recomputed, rel=1e-7, abs=1e-12 * size**2 + rounded_up)
    assert (ours * label >= 0).all()
    assert (np.abs(ours) <= box * (1 + 1e-12)).all()
    assert abs(ours.sum()) <= 1e-12 * np.abs(ours).sum()
    assert model.lower_bound_ <= recomputed + rounding
    if model.status_ is Status.gap:
        assert model.objective_ <= primal * (1 + 1e-5) + rounding
        assert model.gap_ <= 1e-6
    else:
        assert model.status_ is Status.numerical
        assert model.objective_ - model.lower_bound_ <= 1e-4 * model.objective_ + rounded_up


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("init", ["band", "rows", "kmeans", "kernel-kmeans"])
def test_compiled_path_agrees_with_libsvm(init, n_jobs):
    X, y = noisy_classes(2600)
    model = SVC(gamma=0.3, tol=1e-5, init=init, n_jobs=n_jobs).fit(X, y)
    reference = svm.SVC(gamma=0.3, tol=1e-6).fit(X, y)
    coef = np.zeros(len(y))
    coef[reference.support_] = reference.dual_coef_[0]
    primal, dual = values_of_many(X, y, coef, 0.3)
    assert dual * (1 - 1e-5) <= model.objective_ <= primal * (1 + 1e-5)
    assert model.lower_bound_ <= primal
    assert model.gap_ <= 1e-5
    assert np.abs(model.decision_function(X) - reference.decision_function(X)).max() < 0.05


def values_of_many(X, y, coef, gamma, C=1.0):
    K = rbf_kernel(X, gamma=gamma)
    scores = K @ coef
    kinks = np.sort(y - scores)
    b = kinks[np.searchsorted(np.arange(1, len(y) + 1), (y > 0).sum())]
    primal = 0.5 * coef @ scores + C * np.maximum(0, 1 - y * (scores + b)).sum()
    return primal, np.abs(coef).sum() - 0.5 * coef @ scores


def test_threads_do_not_change_a_bit():
    X, y = noisy_classes(9000)
    one, two = (SVC(init="band", n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
    assert one.objective_ == two.objective_
    assert one.lower_bound_ == two.lower_bound_
    assert np.array_equal(one.dual_coef_, two.dual_coef_)


def test_solvers_have_the_same_certificate():
    X, y = noisy_classes(2500)
    compiled, plain = (SVC(init="band", solver=solver).fit(X, y) for solver in ("smo", "libsvm"))
    assert plain.gap_ <= 1e-4
    assert plain.lower_bound_ <= compiled.objective_
    assert compiled.lower_bound_ <= plain.objective_
    assert plain.objective_ == pytest.approx(compiled.objective_, rel=2e-4)


@pytest.mark.parametrize("solver", ["smo", "libsvm"])
@pytest.mark.parametrize("init", ["band", "rows", "kmeans"])
@pytest.mark.parametrize("limit", [1, "3MB"])
def test_memory_limits_do_not_change_the_bound(limit, init, solver):
    for seed, C in enumerate((0.1, 1.0, 10.0)):
        X, y = noisy_classes(1500, seed=seed)
        free = SVC(tol=1e-5, C=C).fit(X, y)
        if (init, solver) == ("rows", "libsvm"):
            with pytest.raises(ValueError, match="more than memory_limit"):
                SVC(init=init, memory_limit=limit, solver=solver).fit(X, y)
            continue
        model = SVC(C=C, init=init, memory_limit=limit, solver=solver, max_iter=20).fit(X, y)
        assert model.lower_bound_ <= free.objective_
        assert model.objective_ >= free.lower_bound_
        if solver == "smo":
            assert model.gap_ <= 1e-4


def test_large_offsets_and_outliers_keep_their_digits():
    X, y = noisy_classes(3000)
    plain = SVC(gamma=0.3, init="band").fit(X, y)
    moved = SVC(gamma=0.3, init="band").fit(X + 1e5, y)
    assert moved.objective_ == pytest.approx(plain.objective_, rel=2e-4)
    assert moved.lower_bound_ <= plain.objective_ * (1 + 1e-9)
    X[:5] *= 1e4
    model = SVC(gamma=0.3, init="band").fit(X, y)
    assert model.gap_ <= 1e-4


def test_large_C_is_refined_beyond_float32():
    X, y = noisy_classes(3000)
    model = SVC(C=1000.0, gamma=0.3, tol=2e-5).fit(X, y)
    assert model.status_ is Status.gap
    assert model.gap_ <= 2e-5


@pytest.mark.parametrize("gamma", [0.001, 0.3, 5.0])
@pytest.mark.parametrize("C", [100.0, 1000.0])
@pytest.mark.parametrize("init", ["band", "kmeans"])
def test_rounding_never_makes_a_claim(init, C, gamma):
    """Large boxes and flat kernels, where float32 scores are off by as much as the tolerance."""
    X, y = noisy_classes(2300, m=2, noise=0.3)
    model = SVC(C=C, gamma=gamma, tol=1e-5, init=init, max_iter=8, time_limit=5).fit(X + 10.0, y)
    coef = np.zeros(len(y))
    coef[model.support_] = model.dual_coef_[0]
    primal, _ = values_of_many(X, y, coef, gamma, C)
    assert model.objective_ == pytest.approx(primal, rel=1e-7)
    assert (model.status_ is Status.gap) == (model.gap_ <= 1e-5)
    assert min(record.objective for record in model.history_) >= model.lower_bound_ * (1 - 1e-12)


def test_few_support_vectors_are_solved_without_clusters():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 5))
    y = np.where(X[:, 0] > 0, 1, -1)
    X[:, 0] += 2.0 * y
    model = SVC(gamma=0.1, C=10.0).fit(X, y)
    assert model.aggregation_rate_ == 1.0
    assert model.gap_ <= 1e-4
    assert len(model.support_) < 500


def test_linear_kernel_is_the_linear_machine():
    X, y = noisy_classes(800)
    kernel = SVC(kernel="linear", tol=1e-6).fit(X, y)
    linear = LinearSVC(tol=1e-6).fit(X, y)
    assert kernel.objective_ == pytest.approx(linear.objective_, rel=3e-6)
    assert np.abs(kernel.decision_function(X) - linear.decision_function(X)).max() < 1e-2
    w = kernel.dual_coef_ @ kernel.support_vectors_
    assert np.abs(w - linear.coef_).max() < 1e-2


@pytest.mark.parametrize("n", [300, 2500])
def test_precomputed_and_callable_kernels_agree_with_named_ones(n):
    X, y = noisy_classes(n)
    new = X[:50] + 0.1
    named = SVC(gamma=0.4, tol=1e-6, solver="libsvm").fit(X, y)
    given_function = SVC(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.4), tol=1e-6).fit(X, y)
    matrix = SVC(kernel="precomputed", tol=1e-6).fit(rbf_kernel(X, gamma=0.4), y)
    for model in (given_function, matrix):
        assert model.objective_ == pytest.approx(named.objective_, rel=3e-6)
    expected = named.decision_function(new)
    assert given_function.decision_function(new) == pytest.approx(expected, abs=5e-3)
    assert matrix.decision_function(rbf_kernel(new, X, gamma=0.4)) == pytest.approx(expected, abs=5e-3)


def test_indefinite_kernels_are_refused():
    X, y = noisy_classes(60)
    with pytest.raises(ValueError, match="sigmoid"):
        SVC(kernel="sigmoid").fit(X, y)
    with pytest.raises(ValueError, match="positive semidefinite"):
        SVC(kernel=lambda A, B: np.tanh(3 * A @ B.T - 1)).fit(X, y)
    with pytest.raises(ValueError, match="positive semidefinite"):
        SVC(kernel="precomputed").fit(-rbf_kernel(X), y)
    with pytest.raises(ValueError, match="coef0"):
        SVC(kernel="poly", coef0=-1.0).fit(X, y)
    with pytest.raises(ValueError, match="symmetric"):
        SVC(kernel="precomputed").fit(np.triu(np.ones((60, 60))), y)
    with pytest.raises(ValueError, match="square"):
        SVC(kernel="precomputed").fit(X, y)


def test_a_kernel_seen_on_a_sample_only_is_said_to_be(monkeypatch):
    from aidlearn.estimators.kernel import machine as kernel_machine

    monkeypatch.setattr(kernel_machine, "CHECKS", replace(kernel_machine.CHECKS, checked_rows=50))
    X, y = noisy_classes(80)
    with pytest.warns(UserWarning, match="50 of 80 rows"):
        SVC(kernel="precomputed").fit(rbf_kernel(X), y)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_several_classes_as_in_scikit_learn(kernel):
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    for shape in ("ovr", "ovo"):
        ours = SVC(kernel=kernel, tol=1e-6, C=2, decision_function_shape=shape).fit(X, names)
        theirs = svm.SVC(kernel=kernel, tol=1e-6, C=2, decision_function_shape=shape).fit(X, names)
        assert ours.decision_function(X) == pytest.approx(theirs.decision_function(X), abs=1e-2)
    assert np.array_equal(ours.predict(X), theirs.predict(X))
    assert ours.objective_.shape == (3,)
    assert len(ours.status_) == 3
    pairs = ours.intercept_.shape, ours.dual_coef_.shape[0], ours.n_support_.sum()
    assert pairs == (theirs.intercept_.shape, 2, len(ours.support_))


def test_weights_are_repeated_rows():
    X, y = noisy_classes(120)
    weight = np.random.default_rng(1).integers(0, 4, len(y))
    weighted = SVC(gamma=0.3, tol=1e-6).fit(X, y, sample_weight=weight)
    repeated = SVC(gamma=0.3, tol=1e-6).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=3e-6)
    assert not np.isin(weighted.support_, np.flatnonzero(weight == 0)).any()
    balanced = SVC(gamma=0.3, tol=1e-6, class_weight="balanced").fit(X, y)
    theirs = svm.SVC(gamma=0.3, tol=1e-6, class_weight="balanced").fit(X, y)
    assert balanced.decision_function(X) == pytest.approx(theirs.decision_function(X), abs=1e-2)


def test_sparse_rows_and_tables_are_rows():
    X, y = noisy_classes(300)
    X[np.abs(X) < 0.8] = 0.0
    dense = SVC(gamma=0.3, tol=1e-6).fit(X, y)
    thin = SVC(gamma=0.3, tol=1e-6).fit(sparse.csr_array(X), y)
    table = SVC(gamma=0.3, tol=1e-6).fit(pd.DataFrame(X, columns=list("abcdef")), y)
    assert thin.objective_ == pytest.approx(dense.objective_, rel=3e-6)
    assert table.objective_ == dense.objective_
    assert sparse.issparse(thin.support_vectors_)
    assert thin.predict(X).tolist() == dense.predict(sparse.csr_array(X)).tolist()
    assert table.feature_names_in_.tolist() == list("abcdef")


def test_approximation_says_which_kernel_it_certifies():
    X, y = noisy_classes(2500)
    exact = SVC(gamma=0.3).fit(X, y)
    model = SVC(gamma=0.3, approximation="nystroem", n_components=100).fit(X, y)
    lazy = SVC(gamma=0.3, approximation="nystroem", n_components=100, memory_limit=1000).fit(X, y)
    assert exact.certified_kernel_ == "exact"
    assert "100 rows" in model.certified_kernel_
    assert model.gap_ <= 1e-4
    assert len(model.support_) <= 100
    # The span of some rows holds no better machine than that of all.
    assert model.objective_ >= exact.lower_bound_ * (1 - 1e-4)
    assert lazy.objective_ == pytest.approx(model.objective_, rel=2e-4)
    assert np.mean(model.predict(X) == exact.predict(X)) > 0.9


def test_limits_and_interruption_keep_the_best_result():
    X, y = noisy_classes(3000)
    stopped = SVC(init="band", max_iter=1).fit(X, y)
    assert stopped.status_ is Status.iteration_limit
    assert 0 < stopped.lower_bound_ < stopped.objective_
    late = SVC(init="band", time_limit=1e-3, tol=1e-9).fit(X, y)
    assert late.status_ is Status.time_limit
    asked = SVC(init="band", callbacks=lambda record: True, tol=1e-9).fit(X, y)
    assert asked.status_ is Status.interrupted

    def interrupt(record):
        raise KeyboardInterrupt

    kept = SVC(init="band", callbacks=interrupt, tol=1e-9).fit(X, y)
    assert kept.status_ is Status.interrupted
    assert kept.predict(X[:5]).shape == (5,)


def test_history_has_bounds_that_hold():
    X, y = noisy_classes(3000)
    best = SVC(init="rows", tol=1e-5).fit(X, y)
    for init in ("band", "kmeans", "kernel-kmeans"):
        for record in SVC(init=init, tol=1e-5).fit(X, y).history_:
            assert record.lower_bound <= best.objective_
            assert record.objective >= best.lower_bound_
    labels = SVC(init=np.arange(len(y)) % 40).fit(X, y)
    assert labels.gap_ <= 1e-4
    assert SVC(init=lambda A, b: np.arange(len(b)) % 40).fit(X, y).objective_ == labels.objective_


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"C": 0}, "C must be"),
        ({"kernel": "gauss"}, "kernel must be one of"),
        ({"gamma": -1.0}, "gamma must be"),
        ({"kernel": "poly", "degree": 0}, "degree must be"),
        ({"init": "forest"}, "init must be one of"),
        ({"init": np.zeros(3)}, "one cluster label per row"),
        ({"solver": "highs"}, "solver must be one of"),
        ({"memory_limit": "lots"}, "memory_limit must be"),
        ({"memory_limit": 0}, "memory_limit must be"),
        ({"approximation": "fourier"}, "approximation must be"),
        ({"decision_function_shape": "ova"}, "decision_function_shape must be"),
        ({"n_components": 0}, "n_components must be"),
    ],
)
def test_bad_parameters_are_named(arguments, message):
    X, y = noisy_classes(30)
    with pytest.raises(ValueError, match=message):
        SVC(**arguments).fit(X, y)


def test_bad_data_are_named():
    X, y = noisy_classes(30)
    with pytest.raises(ValueError, match="only one class"):
        SVC().fit(X, np.ones(30))
    with pytest.raises(ValueError, match="have weight zero"):
        SVC().fit(X, y, sample_weight=(y > 0).astype(float))
    X[7, 2] = np.nan
    with pytest.raises(ValueError, match="NaN at row 7, column 2"):
        SVC().fit(X, y)
    with pytest.raises(ValueError, match="must return one value per pair"):
        SVC(kernel=lambda A, B: np.ones(3)).fit(np.nan_to_num(X), y)


def test_quiet():
    X, y = noisy_classes(2500)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SVC().fit(X, y)
