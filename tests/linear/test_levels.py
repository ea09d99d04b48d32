"""One large factor, eliminated: the same optima and valid bounds, also with levels seen once and nested factors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from aidlearn import LADRegressor, LinearSVC, LinearSVR, QuantileRegressor
from aidlearn.data.passes.moments import longest_exclusive
from aidlearn.linear.rows.columns import SparseLayout
from aidlearn.linear.rows.hybrid import Hybrid
from aidlearn.linear.rows.normal import ArrowNormal, DenseNormal
from linear.test_sparse import lp_optimum, same


@pytest.fixture
def eliminated(monkeypatch):
    """Small data take the way of large ones, and every factor is worth eliminating."""
    monkeypatch.setattr("aidlearn.data.passes.run.COMPILED_CELLS", 0)
    monkeypatch.setattr(SparseLayout, "worth_eliminating", lambda self, n, n_levels: n_levels > 1)
    used = []
    normal = Hybrid.normal

    def watched(self, D=None, n_jobs=1):
        found = normal(self, D, n_jobs)
        used.append(isinstance(found, ArrowNormal))
        return found

    monkeypatch.setattr(Hybrid, "normal", watched)
    yield used
    assert any(used)


def table(seed, n=400, n_levels=40, nested=False, reference=True):
    """Numbers, a factor with rare levels (the last seen once), and a smaller one, which may be nested in it."""
    rng = np.random.default_rng(seed)
    level = rng.choice(n_levels - 1, n, p=np.arange(n_levels - 1, 0, -1) / (n_levels * (n_levels - 1) / 2))
    level[0] = n_levels - 1
    other = level % 5 if nested else rng.integers(0, 5, n)
    first = 0 if not reference else 1
    X = np.hstack([rng.normal(size=(n, 3)) + 2, np.eye(n_levels)[level][:, first:], np.eye(5)[other][:, 1:]])
    X[rng.integers(1, n, 4)] = 0.0
    y = np.round(2 * (X @ rng.normal(size=X.shape[1]) + 2 * rng.standard_t(2, n)))
    return X, y


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 8), st.floats(0.05, 0.6))
def test_the_longest_exclusive_range_is_that_of_brute_force(seed, m, density):
    rng = np.random.default_rng(seed)
    X = rng.random((12, m)) < density
    before = np.full(m, -1)
    for row in X:
        columns = np.flatnonzero(row)
        before[columns[1:]] = np.maximum(before[columns[1:]], columns[:-1])
    found = longest_exclusive(before)
    exclusive = [b - a for a in range(m) for b in range(a + 1, m + 1) if (X[:, a:b].sum(axis=1) <= 1).all()]
    assert len(found) == max(exclusive)
    assert (X[:, found.start : found.stop].sum(axis=1) <= 1).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_eliminating_solves_the_same_equations(seed, with_sparse):
    rng = np.random.default_rng(seed)
    K, q, n_levels = 60, 2, 9
    rest = (rng.random((K, 6)) < 0.3) * rng.normal(size=(K, 6)) * with_sparse
    levels = np.eye(n_levels)[rng.integers(0, n_levels, K)] * rng.normal(size=(K, 1))
    S = sparse.csr_array(np.hstack([rest[:, :2], levels, rest[:, 2:]]))
    dense = rng.normal(size=(K, q))
    p = q + S.shape[1]
    places = np.array([1, p - 1]), np.setdiff1d(np.arange(p), [1, p - 1])
    no_groups = np.zeros((0, S.shape[1])), np.empty(0, dtype=np.intp)
    plain = Hybrid(dense, S, *no_groups, places)
    arrow = Hybrid(dense, S, *no_groups, places, range(2, 2 + n_levels))
    D, extra, right = rng.random(K), rng.random(p), rng.normal(size=p)
    one, two = plain.normal(D), arrow.normal(D)
    assert isinstance(one, DenseNormal)
    assert isinstance(two, ArrowNormal)
    assert np.allclose(one.diagonal(), two.diagonal())
    assert np.allclose(one.factor(extra).solve(right), two.factor(extra).solve(right))
    scale = (plain.maxima() > 0).astype(float)  # as a basis has it: columns without a cell are left out
    assert np.array_equal(plain.dependent(scale)[0], arrow.dependent(scale)[0])


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("quantile", [0.5, 0.9])
@pytest.mark.parametrize("seed", range(3))
def test_bounds_enclose_the_optimum(eliminated, seed, quantile, reference, nested):
    X, y = table(seed, nested=nested, reference=reference)
    weight = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 30.0], len(y))
    model = QuantileRegressor(quantile=quantile, tol=1e-8).fit(sparse.csr_array(X), y, weight)
    optimum = lp_optimum(X, y, quantile, weight)
    assert model.lower_bound_ <= optimum * (1 + 1e-9)
    assert model.objective_ >= optimum * (1 - 1e-9)
    assert model.gap_ <= 1e-7


@pytest.mark.parametrize(
    "model", [LinearSVC(C=0.3, tol=1e-7), LinearSVR(C=0.3, tol=1e-7), LADRegressor(alpha=0.01, tol=1e-7)]
)
def test_other_models_agree_with_dense_rows(eliminated, model):
    X, y = table(5)
    y = np.where(y > np.median(y), 1, -1) if isinstance(model, LinearSVC) else y
    objective = model.fit(sparse.csr_array(X), y).objective_
    assert model.gap_ <= 1e-7
    assert objective == pytest.approx(model.fit(X, y).objective_, rel=1e-6)


def test_threads_change_no_bit(eliminated):
    X, y = table(7, n=3000, n_levels=300)
    same(*(LADRegressor(n_jobs=k).fit(sparse.csr_array(X), y) for k in (1, 2)))


def test_a_level_that_separates_a_class(eliminated):
    X, y = table(8)
    y = np.where(X[:, 5] > 0, 1, np.where(y > np.median(y), 1, -1))
    sparse_fit = LinearSVC(C=100.0, tol=1e-6).fit(sparse.csr_array(X), y)
    assert sparse_fit.lower_bound_ <= LinearSVC(C=100.0, tol=1e-6).fit(X, y).objective_ * (1 + 1e-9)
    assert sparse_fit.gap_ <= 1e-6


def test_too_many_columns_end_in_a_sentence_before_the_fit(monkeypatch):
    monkeypatch.setattr("aidlearn.data.passes.run.COMPILED_CELLS", 0)
    monkeypatch.setattr("aidlearn.estimators.linear.template.MOST_COUPLED", 20)
    X, y = table(9, n_levels=200)
    rows = sparse.csr_array(X)
    with pytest.raises(ValueError, match=r"X has 207 columns whose products.*at most 20 are allowed.*init='auto'"):
        LADRegressor(init="kmeans").fit(rows, y)
    monkeypatch.setattr(SparseLayout, "worth_eliminating", lambda self, n, n_levels: n_levels > 1)
    assert LADRegressor().fit(rows, y).gap_ <= 1e-4
