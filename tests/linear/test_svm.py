"""LinearSVC and LinearSVR: against libsvm, by their own duals, and as a scikit-learn user meets them."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from aidlearn import LADRegressor, LinearSVC, LinearSVR, Status


@parametrize_with_checks([LinearSVC(), LinearSVC(row_duals=True), LinearSVR(), LinearSVR(epsilon=0.1)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def hinge_objective(X, label, w, b, C, weight):
    return 0.5 * w @ w + C * weight @ np.maximum(0, 1 - label * (X @ w + b))


def dual_value(X, signed):
    """Value of the dual at ``y_i alpha_i``."""
    w = X.T @ signed
    return np.abs(signed).sum() - 0.5 * w @ w


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, m = draw(st.integers(4, 80)), draw(st.integers(1, 8))
    if draw(st.booleans()):
        m = n + 3
    X = rng.normal(size=(n, m))
    label = np.where(X[:, 0] + draw(st.sampled_from([0.0, 0.1, 2.0])) * rng.normal(size=n) > 0, 1, -1)
    kind = draw(st.sampled_from(["plain", "rare", "conflict", "constant", "duplicates"]))
    if kind == "rare":
        label[:] = -1
        label[: max(1, n // 100)] = 1
    elif kind == "conflict":
        X[n // 2 :] = X[: n - n // 2]
        label[n // 2 :] = -label[: n - n // 2]
    elif kind == "constant":
        X[:, -1] = 2.0
    elif kind == "duplicates":
        X = X[rng.integers(0, max(2, n // 3), n)]
    label[0], label[-1] = 1, -1
    weight = 10.0 ** rng.uniform(-3, 3, n) if draw(st.booleans()) else np.ones(n)
    C = 10.0 ** draw(st.integers(-6, 6))
    return X, label, weight, C


@settings(max_examples=220)
@given(problems(), st.sampled_from(["auto", "kmeans"]))
def test_objective_is_optimal_by_two_proofs(problem, init):
    X, label, weight, C = problem
    model = LinearSVC(C=C, tol=1e-6, init=init).fit(X, label, sample_weight=weight)
    objective = hinge_objective(X, label, model.coef_[0], model.intercept_[0], C, weight)
    # Margins are rounded, and the weights magnify that.
    assert model.objective_ == pytest.approx(objective, rel=1e-9, abs=1e-14 * C * weight.sum())
    # The dual of the original rows, checked here from scratch: feasible, and its value is the bound.
    signed = np.zeros(len(label))
    signed[model.support_] = model.dual_coef_[0]
    assert (signed * label >= 0).all()
    assert (np.abs(signed) <= C * weight * (1 + 1e-12)).all()
    assert abs(signed.sum()) <= 1e-9 * np.abs(signed).sum()
    # A cluster that aggregates both rows of a pair adds nothing to the rounding of this sum.
    proven = dual_value(X, signed)
    scale = 1e-9 * np.abs(signed).sum()
    assert model.lower_bound_ <= proven * (1 + 1e-9) + scale
    assert objective - proven <= 2e-5 * objective + scale


@settings(max_examples=100)
@given(problems())
def test_agrees_with_libsvm(problem):
    X, label, weight, C = problem
    # libsvm needs scaled problems to converge in reasonable time
    C = min(max(C, 1e-2), 1e2)
    weight = np.clip(weight, 0.1, 10)
    theirs = SVC(kernel="linear", C=C, tol=1e-8).fit(X, label, sample_weight=weight)
    theirs_objective = hinge_objective(X, label, theirs.coef_[0], theirs.intercept_[0], C, weight)
    model = LinearSVC(C=C, tol=1e-7).fit(X, label, sample_weight=weight)
    assert model.lower_bound_ <= theirs_objective * (1 + 1e-9)
    assert model.objective_ <= theirs_objective * (1 + 1e-6)
    # Their dual is the accurate half: the intercept they report may be off for large C.
    signed = np.zeros(len(label))
    signed[theirs.support_] = theirs.dual_coef_[0]
    assert model.objective_ == pytest.approx(dual_value(X, signed), rel=1e-5)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 5))
    return X, (X @ [1, -1, 2, 0, 0.5] + rng.normal(size=4000) > 0.7).astype(int)


def test_dual_procedure_satisfies_the_optimality_conditions(data):
    X, y = data
    for init in ("band", "kmeans"):
        model = LinearSVC(C=0.3, row_duals=True, tol=0, init=init).fit(X, y)
        assert model.status_ is Status.optimal
        label = 2 * y - 1
        margin = label * model.decision_function(X)
        alpha = np.zeros(len(y))
        alpha[model.support_] = np.abs(model.dual_coef_[0])
        assert np.abs(model.coef_[0] - X.T @ (label * alpha)).max() <= 1e-9
        assert alpha[margin > 1 + 1e-6].max() == 0
        assert alpha[margin < 1 - 1e-6] == pytest.approx(0.3)
        assert abs(label @ alpha) <= 1e-9
        assert 0 < len(model.support_) < len(y)


def test_paper_start_never_lowers_the_bound(data):
    model = LinearSVC(C=0.1, init="kmeans", tol=1e-6).fit(*data)
    bounds = [record.lower_bound for record in model.history_]
    assert all(later >= earlier * (1 - 1e-7) for earlier, later in itertools.pairwise(bounds))
    assert model.history_[0].n_clusters <= 10
    assert model.gap_ <= 1e-6


@pytest.mark.parametrize("solver", ["libsvm", "liblinear"])
@pytest.mark.parametrize("init", ["band", "kmeans"])
def test_other_solvers(data, solver, init):
    reference = LinearSVC(C=0.1, tol=1e-8).fit(*data)
    model = LinearSVC(C=0.1, solver=solver, init=init, max_iter=12).fit(*data)
    assert all(record.lower_bound <= reference.objective_ * (1 + 1e-9) for record in model.history_)
    assert model.objective_ == pytest.approx(reference.objective_, rel=1e-4 if solver == "libsvm" else 1e-2)


def test_extreme_weights_keep_a_tight_certificate():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 20))
    y = X[:, 0] + rng.normal(size=2000) > 0
    weight = 10.0 ** rng.uniform(0, 5, 2000)
    model = LinearSVC(tol=1e-8).fit(X, y, sample_weight=weight)
    assert model.gap_ <= 1e-8
    fast = LinearSVC(solver="liblinear", max_iter=5).fit(X, y, sample_weight=weight)
    assert all(record.lower_bound <= model.objective_ for record in fast.history_)


def test_classes_share_passes_and_equal_separate_fits(data):
    X = data[0]
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.1 * X[:, 1], [-0.5, 0.5])]
    together = LinearSVC(tol=1e-6).fit(X, y)
    passes = []
    for k, name in enumerate("abc"):
        alone = LinearSVC(tol=1e-6).fit(X, y == name)
        assert np.array_equal(together.coef_[k], alone.coef_[0])
        assert together.lower_bound_[k] == alone.lower_bound_
        passes.append(alone.n_passes_)
    assert together.n_passes_ < sum(passes)
    assert together.decision_function(X).shape == (4000, 3)
    assert together.score(X, y) > 0.6
    assert together.dual_coef_.shape == (3, len(together.support_))


def test_threads_give_the_same_bits_for_several_classes(data, monkeypatch):
    monkeypatch.setattr("aidlearn.data.rows.chunk.CHUNK_ELEMENTS", 1 << 11)
    X = data[0]
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    one, two = LinearSVC(n_jobs=1).fit(X, y), LinearSVC(n_jobs=2).fit(X, y)
    assert np.array_equal(one.coef_, two.coef_)


def test_a_failing_class_fails_the_fit(data):
    def broken(record):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        LinearSVC(callbacks=broken).fit(data[0], np.arange(4000) % 3)


def test_interrupted_classes_keep_their_best(data):
    seen = []

    def interrupt(record):
        seen.append(record)
        if len(seen) == 4:
            raise KeyboardInterrupt

    model = LinearSVC(init="kmeans", tol=1e-9, callbacks=interrupt).fit(data[0], np.arange(4000) % 3)
    assert Status.interrupted in model.status_
    assert model.coef_.shape == (3, 5)


def test_class_weight(data):
    X, y = data
    weight = np.where(y == 1, 5.0, 1.0)
    by_class = LinearSVC(class_weight={0: 1, 1: 5}, tol=1e-8).fit(X, y)
    by_row = LinearSVC(tol=1e-8).fit(X, y, sample_weight=weight)
    assert by_class.objective_ == pytest.approx(by_row.objective_, rel=1e-9)
    balanced = LinearSVC(class_weight="balanced").fit(X, y)
    assert balanced.predict(X).mean() > LinearSVC().fit(X, y).predict(X).mean()


@pytest.mark.parametrize("labels", [["yes", "no"], [True, False], [3.0, -1.0], [7, 8]])
def test_label_types(data, labels):
    X, y = data
    named = np.array(labels)[y]
    model = LinearSVC().fit(X, named)
    assert set(model.predict(X)) == set(labels)
    assert model.score(X, named) > 0.8


def test_in_the_ecosystem(data):
    X, y = data
    calibrated = CalibratedClassifierCV(LinearSVC(), cv=3).fit(X, y)
    assert calibrated.predict_proba(X).shape == (4000, 2)
    assert make_pipeline(StandardScaler(), LinearSVC()).fit(X, y).score(X, y) > 0.8
    dense, csr = LinearSVC(tol=1e-7).fit(X, y), LinearSVC(tol=1e-7).fit(sparse.csr_array(X), y)
    assert csr.objective_ == pytest.approx(dense.objective_, rel=1e-6)
    assert LinearSVC().fit(pd.DataFrame(X), pd.Series(y)).score(pd.DataFrame(X), y) > 0.8


@pytest.mark.parametrize(
    ("parameters", "y", "message"),
    [
        ({}, lambda y: np.zeros_like(y), "only one class: .*0"),
        ({}, lambda y: y[:-1], "inconsistent"),
        ({}, lambda y: np.where(np.arange(len(y)) == 3, np.nan, y), "y contains NaN at row 3"),
        ({"C": 0}, lambda y: y, "C must be a number > 0, got 0"),
        ({"C": -1}, lambda y: y, "C must be"),
        ({"solver": "highs"}, lambda y: y, "solver must be one of .* got .highs."),
        ({"class_weight": "even"}, lambda y: y, "class_weight"),
        (
            {"solver": "libsvm", "fit_intercept": False},
            lambda y: y,
            "solver='libsvm' solves hinge SVMs with an intercept",
        ),
    ],
)
def test_bad_input(data, parameters, y, message):
    with pytest.raises(ValueError, match=message):
        LinearSVC(**parameters).fit(data[0], y(data[1]))


def svr_optimum(X, y, C, epsilon, weight):
    """Full epsilon-insensitive regression by SLSQP on its dual."""
    n = len(y)
    top = C * weight

    def value(p):
        w = X.T @ (p[:n] - p[n:])
        return 0.5 * w @ w - y @ (p[:n] - p[n:]) + epsilon * p.sum()

    def slope(p):
        g = X @ (X.T @ (p[:n] - p[n:])) - y
        return np.concatenate([g + epsilon, -g + epsilon])

    answer = optimize.minimize(
        value,
        np.zeros(2 * n),
        jac=slope,
        bounds=[(0, t) for t in np.concatenate([top, top])],
        constraints={
            "type": "eq",
            "fun": lambda p: p[:n].sum() - p[n:].sum(),
            "jac": lambda p: np.repeat([1.0, -1.0], n),
        },
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    return -answer.fun


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.1, 0.5]), st.sampled_from([0.1, 1.0, 3.0]))
def test_svr_equals_a_quadratic_solver(seed, epsilon, C):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 25))
    X = rng.normal(size=(n, 2))
    y = X @ [1.0, -2.0] + rng.normal(size=n)
    weight = rng.uniform(0.2, 2, n)
    model = LinearSVR(epsilon=epsilon, C=C, tol=1e-8).fit(X, y, sample_weight=weight)
    optimum = svr_optimum(X, y, C, epsilon, weight)
    assert model.objective_ == pytest.approx(optimum, rel=1e-6)
    assert model.lower_bound_ <= optimum * (1 + 1e-6)
    tube = np.maximum(0, np.abs(y - model.predict(X)) - epsilon)
    assert model.objective_ == pytest.approx(0.5 * model.coef_ @ model.coef_ + C * weight @ tube, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_svr_on_aggregated_data(epsilon):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(20_000, 4))
    y = X @ [1, 2, 3, 4] + rng.laplace(size=20_000)
    model = LinearSVR(epsilon=epsilon, tol=1e-7).fit(X, y)
    assert model.gap_ <= 1e-7
    assert model.aggregation_rate_ < 0.3


def test_svr_without_tube_and_ridge_is_lad():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(3000, 3))
    y = X @ [1, 2, 3] + rng.standard_t(2, 3000)
    svr = LinearSVR(epsilon=0, C=1e4, tol=1e-9).fit(X, y)
    lad = LADRegressor(tol=1e-9).fit(X, y)
    assert svr.coef_ == pytest.approx(lad.coef_, abs=1e-4)
    assert svr.objective_ / 1e4 == pytest.approx(lad.objective_, rel=1e-5)


@pytest.mark.parametrize(
    ("parameters", "message"), [({"epsilon": -1}, "epsilon must be"), ({"solver": "highs"}, "solver must be")]
)
def test_svr_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        LinearSVR(**parameters).fit([[1.0], [2.0]], [1.0, 2.0])


@pytest.mark.parametrize("seed", range(3))
def test_weights_of_very_different_size_are_certified(seed):
    """Duals of a million beside ones: their balance is checked as it was made, added up in pairs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40_000, 4))
    y = np.abs(np.round(X[:, 3] + 0.5 * rng.standard_t(2, 40_000))) < 1
    weight = rng.choice([0.0, 1.0, 1e6], 40_000)
    model = LinearSVC(C=0.1).fit(X, y, weight)
    assert model.status_ is Status.gap
    assert model.gap_ <= 1e-4
    # Without slopes only the rows of one class have a loss, of two each.
    assert model.lower_bound_ <= 0.2 * min(weight[y].sum(), weight[~y].sum())


def test_the_dual_of_scikit_learn_is_refused_in_a_sentence():
    with pytest.raises(TypeError, match=r"LinearSVC has no parameter dual: .* use row_duals=True"):
        LinearSVC(dual=False)
    with pytest.raises(ValueError, match="row_duals"):
        LinearSVC(row_duals="foo").fit(np.eye(4), [0, 1, 0, 1])
