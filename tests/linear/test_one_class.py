"""The one-class SVM against libsvm, and what it shares with the other linear models."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import OneClassSVM
from sklearn.utils.estimator_checks import parametrize_with_checks

from aidlearn import LinearOneClassSVM, Status, load_model, save_model
from aidlearn.engine.result import relative_gap
from aidlearn.estimators import fitting
from aidlearn.testing import check_problem


@parametrize_with_checks([LinearOneClassSVM(), LinearOneClassSVM(nu=0.1, init="kmeans")])
def test_follows_the_conventions(estimator, check):
    check(estimator)


def cloud(n=1001, m=4, loc=3.0, seed=0):
    return np.random.default_rng(seed).normal(loc=loc, size=(n, m)) * np.arange(1, m + 1)


def objective(X, coef, offset, nu, weight=None):
    """The objective of a model in the scale of libsvm, from its definition."""
    s = np.ones(len(X)) if weight is None else weight
    w, rho = np.ravel(coef) / (nu * s.sum()), float(np.ravel(offset)[0]) / (nu * s.sum())
    return 0.5 * w @ w - rho + s @ np.maximum(0, rho - X @ w) / (nu * s.sum())


@pytest.mark.parametrize("init", ["auto", "kmeans"])
@pytest.mark.parametrize(("nu", "seed"), [(0.07, 0), (0.23, 1), (0.5, 2), (0.9, 3)])
def test_equals_libsvm(nu, seed, init):
    X = cloud(seed=seed, n=2001)
    model = LinearOneClassSVM(nu=nu, tol=1e-9, init=init).fit(X)
    libsvm = OneClassSVM(kernel="linear", nu=nu, tol=1e-9).fit(X)
    expected = libsvm.decision_function(X)
    size = np.abs(expected).max()
    assert model.decision_function(X) == pytest.approx(expected, abs=1e-6 * size)
    assert model.score_samples(X) == pytest.approx(libsvm.score_samples(X), rel=1e-6)
    assert model.coef_ == pytest.approx(libsvm.coef_, rel=1e-6)
    assert model.offset_ == pytest.approx(libsvm.offset_, rel=1e-6)
    clear = np.abs(expected) > 1e-5 * size
    assert np.array_equal(model.predict(X)[clear], libsvm.predict(X)[clear])
    optimum = objective(X, libsvm.coef_, libsvm.offset_, nu)
    assert optimum < 0
    assert all(record.lower_bound <= optimum * (1 - 1e-9) for record in model.history_)
    assert model.objective_ == pytest.approx(objective(X, model.coef_, model.offset_, nu), rel=1e-10)
    assert model.gap_ == (model.objective_ - model.lower_bound_) / abs(model.objective_) <= 1e-9


def test_weights_are_those_of_libsvm():
    X = cloud(701)
    weight = np.random.default_rng(1).integers(0, 4, len(X)) + 0.0
    model = LinearOneClassSVM(nu=0.3, tol=1e-9).fit(X, sample_weight=weight)
    libsvm = OneClassSVM(kernel="linear", nu=0.3, tol=1e-9).fit(X, sample_weight=weight)
    assert model.coef_ == pytest.approx(libsvm.coef_, rel=1e-6)
    assert objective(X, libsvm.coef_, libsvm.offset_, 0.3, weight) == pytest.approx(model.objective_, rel=1e-7)
    repeated = LinearOneClassSVM(nu=0.3, tol=1e-9).fit(np.repeat(X, weight.astype(int), axis=0))
    assert repeated.coef_ == pytest.approx(model.coef_, rel=1e-6)


def test_rho_is_in_the_middle_where_it_is_not_unique():
    X = np.array([[1.0], [2.0], [4.0], [5.0]])
    model = LinearOneClassSVM(nu=0.5, tol=0).fit(X)
    assert model.coef_ == pytest.approx(np.array([[3.0]]))  # the sum of the two rows nearest to the origin
    assert model.offset_ == pytest.approx([9.0])
    assert model.predict(X).tolist() == [-1, -1, 1, 1]
    assert model.objective_ == pytest.approx(objective(X, model.coef_, model.offset_, 0.5))


@pytest.mark.parametrize("nu", [0.05, 0.3, 1.0])
def test_nu_is_the_part_of_outliers(nu):
    X = cloud(20_000, 3, seed=4)
    model = LinearOneClassSVM(nu=nu).fit(X)
    assert model.gap_ <= 1e-4
    assert model.aggregation_rate_ < 0.5
    assert (model.predict(X) == -1).mean() == pytest.approx(nu, abs=2e-3) or nu == 1.0
    assert (model.decision_function(X) >= 0).tolist() == (model.predict(X) == 1).tolist()
    if nu == 1.0:
        assert model.coef_[0] / len(X) == pytest.approx(X.mean(axis=0))


def test_rows_far_from_the_origin_keep_their_digits():
    near = cloud(1001, 3, loc=0.0)
    for far in (1e3, 1e6):
        X = near + far
        model = LinearOneClassSVM(nu=0.2, tol=1e-9).fit(X)
        assert model.status_.reached_tolerance
        assert objective(X, model.coef_, model.offset_, 0.2) == pytest.approx(model.objective_, rel=1e-9)
        assert (model.predict(X) == -1).mean() == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize("tol", [1e-4, 1e-9])
@pytest.mark.parametrize("seed", range(4))
def test_origin_among_the_rows_is_told_as_it_is(tol, seed):
    X = cloud(loc=0.0, seed=seed)
    model = LinearOneClassSVM(nu=0.1, tol=tol).fit(X)
    assert model.objective_ == model.offset_[0] == 0
    assert not model.coef_.any()
    assert (model.predict(X) == 1).all()
    assert model.lower_bound_ <= 0
    assert (model.gap_ == 0) == (model.lower_bound_ == 0)
    assert (model.status_ is Status.optimal) == (model.gap_ == 0)


def test_gap_of_negative_and_zero_objectives():
    assert relative_gap(-2.0, -3.0) == 0.5
    assert relative_gap(2.0, 1.0) == 0.5
    assert relative_gap(0.0, 0.0) == 0.0
    assert relative_gap(0.0, -1.0) == math.inf


def test_sparse_rows_files_and_names_give_the_same_model(tmp_path):
    X = np.where(np.random.default_rng(2).random((1501, 5)) < 0.4, cloud(1501, 5), 0.0)
    model = LinearOneClassSVM(nu=0.2, tol=1e-8).fit(X)
    of_sparse = LinearOneClassSVM(nu=0.2, tol=1e-8).fit(sparse.csr_array(X))
    assert of_sparse.coef_ == pytest.approx(model.coef_, rel=1e-6)
    np.save(tmp_path / "X.npy", X)
    of_file = LinearOneClassSVM(nu=0.2, tol=1e-8).fit(tmp_path / "X.npy")
    assert np.array_equal(of_file.coef_, model.coef_)
    with_target = np.column_stack([X, np.arange(1501.0)])
    np.savetxt(tmp_path / "X.csv", with_target, delimiter=",", header="a,b,c,d,e,label", comments="", fmt="%.17g")
    left_out = LinearOneClassSVM(nu=0.2, tol=1e-8).fit(tmp_path / "X.csv", "label")
    assert np.array_equal(left_out.coef_, model.coef_)
    assert left_out.feature_names_in_.tolist() == list("abcde")


def test_dask_rows_give_the_same_bits():
    array = pytest.importorskip("dask.array")
    X = cloud(3001)
    model = LinearOneClassSVM(nu=0.2).fit(X)
    of_dask = LinearOneClassSVM(nu=0.2).fit(array.from_array(X, chunks=(1000, 4)))
    assert np.array_equal(of_dask.coef_, model.coef_)
    assert of_dask.lower_bound_ == model.lower_bound_


def test_standardized_columns():
    X = cloud(1201, 3) * [1.0, 100.0, 0.01]
    model = LinearOneClassSVM(nu=0.2, tol=1e-9, standardize=True).fit(X)
    scaled = LinearOneClassSVM(nu=0.2, tol=1e-9).fit(X / X.std(axis=0))
    assert model.coef_ == pytest.approx(scaled.coef_ / X.std(axis=0), rel=1e-6)
    assert model.objective_ == pytest.approx(scaled.objective_)


def test_compiled_passes_give_the_same_model():
    X = cloud(90_000, 50, seed=7)  # more numbers than plain passes are used for
    model = LinearOneClassSVM(nu=0.1, tol=1e-6).fit(X)
    assert model.gap_ <= 1e-6
    assert objective(X, model.coef_, model.offset_, 0.1) == pytest.approx(model.objective_, rel=1e-9)


def test_saved_and_continued(tmp_path):
    X = cloud()
    model = LinearOneClassSVM(nu=0.2).fit(X)
    save_model(model, tmp_path / "m.aid")
    loaded = load_model(tmp_path / "m.aid")
    assert np.array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.objective_ == model.objective_
    path = tmp_path / "m.ckpt"
    first = LinearOneClassSVM(nu=0.2, tol=1e-9, init="kmeans", initial_rate=0.01, max_iter=1, checkpoint=path).fit(X)
    assert first.status_ is Status.iteration_limit
    second = LinearOneClassSVM(nu=0.2, tol=1e-9, init="kmeans", initial_rate=0.01, checkpoint=path).fit(X)
    assert second.n_iter_ > 1
    assert second.gap_ <= 1e-9


@pytest.mark.parametrize("init", ["auto", "kmeans"])
def test_is_a_sound_problem(monkeypatch, init):
    class Posed(Exception):
        pass

    def stop(problem, *others):
        raise Posed(problem)

    X = cloud(601, 3)
    libsvm = OneClassSVM(kernel="linear", nu=0.23, tol=1e-10).fit(X)
    monkeypatch.setattr(fitting, "aid", stop)
    with pytest.raises(Posed) as posed:
        LinearOneClassSVM(nu=0.23, init=init).fit(X)
    check_problem(posed.value.args[0], optimum=objective(X, libsvm.coef_, libsvm.offset_, 0.23))


@pytest.mark.parametrize("nu", [0, -1, 1.5, "half", None])
def test_bad_nu_is_named(nu):
    with pytest.raises(ValueError, match="nu must be a number > 0 and <= 1"):
        LinearOneClassSVM(nu=nu).fit(cloud(20))


def uneven(seed, low, high, weights=None):
    """Rows whose columns have sizes from 10^low to 10^high, and weights."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(20, 400)), int(rng.integers(1, 7))
    sizes = 10 ** rng.uniform(low, high, m)
    X = (rng.normal(size=(n, m)) + rng.uniform(-3, 3, m) * (rng.random(m) > 0.2)) * sizes
    nu = float(rng.choice([rng.uniform(0.01, 1), 0.1, 0.5, 0.25]))
    return X, nu, np.ones(n) if weights is None else 10 ** rng.uniform(*weights, n)


def exact_objective(X, coef, offset, nu, weight):
    """From the definition, in fractions."""
    size = Fraction(nu) * sum(map(Fraction, weight.tolist()))
    w, rho = [Fraction(c) / size for c in coef.ravel().tolist()], Fraction(float(offset[0])) / size
    margins = [rho - sum(Fraction(a) * b for a, b in zip(x, w, strict=True)) for x in X.tolist()]
    losses = sum(Fraction(s) * z for s, z in zip(weight.tolist(), margins, strict=True) if z > 0)
    return float(sum(c * c for c in w) / 2 - rho + losses / size)


@pytest.mark.parametrize(("low", "high", "weights"), [(-2, 4, None), (-3.5, 6.5, (-6, 6))])
def test_objectives_are_those_of_coefficients_and_offset(low, high, weights):
    """Columns of very different sizes: the best rho is chosen at the scale of the scores, and told as it is."""
    n_proven = 0
    for seed in range(40):
        X, nu, weight = uneven(seed, low, high, weights)
        model = LinearOneClassSVM(nu=nu, tol=1e-6).fit(X, sample_weight=weight)
        own = exact_objective(X, model.coef_, model.offset_, nu, weight)
        assert model.objective_ == pytest.approx(own, rel=1e-9, abs=0), seed
        assert model.lower_bound_ <= model.objective_, seed
        assert model.gap_ == relative_gap(model.objective_, model.lower_bound_), seed
        assert model.status_.reached_tolerance == (model.gap_ <= 1e-6), seed
        outliers = weight[model.predict(X) < 0].sum() / weight.sum()
        assert outliers <= nu * (1 + 1e-12), seed
        if model.objective_ < 0:
            on_or_below = weight[model.decision_function(X) <= 1e-6 * abs(model.offset_)].sum() / weight.sum()
            assert on_or_below >= nu * (1 - 1e-12), seed
        n_proven += model.gap_ <= 1e-6
    assert n_proven >= 30


@pytest.mark.parametrize(("seed", "tol"), [(168, 1e-4), (372, 1e-6)])
def test_nothing_is_not_claimed_where_something_is_better(seed, tol):
    """Columns from 3e-4 to 3e6: the regression loses the digits of an objective that is small beside its constant."""
    clarabel = pytest.importorskip("clarabel")
    X, nu, weight = uneven(seed, -3.5, 6.5, (-6, 6))
    (n, m), size, cap = X.shape, np.abs(X).max(axis=0), weight / (nu * weight.sum())
    # The dual over (a, v): the least |v|^2 / 2 with v = X'a, sum a = 1 and 0 <= a <= cap.
    A = np.block(
        [
            [np.ones((1, n)), np.zeros((1, m))],
            [(X / size).T, -np.diag(1 / size)],
            [np.eye(n), np.zeros((n, m))],
            [-np.eye(n), np.zeros((n, m))],
        ]
    )
    P = np.diag(np.repeat([0.0, 1.0], [n, m]))
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.tol_gap_abs, settings.tol_gap_rel, settings.tol_feas = False, 1e-13, 1e-11, 1e-12
    cones = [clarabel.ZeroConeT(1 + m), clarabel.NonnegativeConeT(2 * n)]
    right = np.concatenate([[1.0], np.zeros(m), cap, np.zeros(n)])
    matrices = sparse.csc_array(P), np.zeros(n + m), sparse.csc_array(A)
    w = np.array(clarabel.DefaultSolver(*matrices, right, cones, settings).solve().x[n:])
    scores = X @ w
    order = np.argsort(scores)
    rho = scores[order][np.searchsorted(np.cumsum(weight[order]), nu * weight.sum())]
    scale = nu * weight.sum()
    better = exact_objective(X, scale * w, [scale * rho], nu, weight)
    assert better < -1e-7
    model = LinearOneClassSVM(nu=nu, tol=tol).fit(X, sample_weight=weight)
    assert model.lower_bound_ <= better * (1 - 1e-9)
    assert model.gap_ >= relative_gap(model.objective_, better) * (1 - 1e-9)
    assert model.status_.reached_tolerance == (model.gap_ <= tol)
