"""Constant columns beside an intercept that is bounded, constrained or priced: they are not ignored then."""

import numpy as np
import pytest
from benchmarks.full_programs import FullProgram as Program
from benchmarks.full_programs import solve_by_clarabel, solve_by_highs
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint

from aidlearn import LADRegressor, LinearSVC, LinearSVR, PiecewiseLinearModel, QuantileRegressor, Unbounded

KINDS = ["lad", "quantile", "svr", "svc", "piecewise", "quadratic"]
INFINITE = np.inf


def columns(rng, n, m):
    """Columns of which some are constant, of all sizes."""
    X = rng.normal(size=(n, m)) * 10.0 ** rng.uniform(-1, 1, m) + rng.normal(size=m)
    constant = rng.permutation(m)[: rng.integers(1, m + 1)]
    X[:, constant] = rng.choice([5.0, -0.1, 1.0, 1e4, 0.3, 0.0], size=len(constant))
    return X


def limits(rng, p, centre, kind):
    """Constraints that know the intercept, around a point that meets them."""
    G, low, high = np.zeros((1, p)), -INFINITE, INFINITE
    G[0, -1] = 1.0
    if kind == "both":
        low, high = centre[-1] - rng.uniform(0, 2), centre[-1] + rng.uniform(0, 2)
    elif kind == "one":
        low = centre[-1] - rng.uniform(0, 1)
    elif kind == "fixed":
        low = high = centre[-1]
    elif kind in ("coupled", "equation"):
        G[0, :-1] = rng.integers(-2, 3, p - 1)
        low = high = float(G[0] @ centre)
        if kind == "coupled":
            low, high = (low - 0.5, INFINITE) if rng.random() < 0.5 else (low - 1.0, high + 0.5)
    return G, np.array([low]), np.array([high])


def generated(seed):
    """An estimator that is not fitted, its data, and the same as a program of all rows."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    n, m = int(rng.choice([1, 2, 3, 8, 40, 150])), int(rng.integers(1, 5))
    n = max(n, 2) if kind == "svc" else n
    X, p = columns(rng, n, m), m + 1
    score = X[:, 0] + rng.normal() * 3
    y = score + rng.laplace(size=n)
    weight = np.ones(n) if rng.random() < 0.5 else rng.integers(0, 4, n).astype(float)
    weight[:2] = 1.0
    how = str(rng.choice(["both", "one", "fixed", "coupled", "equation", "free"]))
    G, low, high = limits(rng, p, np.append(np.zeros(m), rng.normal()), how)
    A, e, P, q, l1, total = np.hstack([X, np.ones((n, 1))]), y, np.zeros((p, p)), np.zeros(p), np.zeros(p), weight.sum()
    given = {}
    if kind in ("lad", "quantile"):
        tau = 0.5 if kind == "lad" else float(rng.uniform(0.1, 0.9))
        model, factor = (LADRegressor(), 2.0) if kind == "lad" else (QuantileRegressor(quantile=tau), 1.0)
        kinks = [(0.0, factor * (tau - 1), factor * tau)]
        if rng.random() < 0.4:
            given["alpha"] = float(rng.choice([0.01, 0.2]))
            l1[:m] = given["alpha"] * total
    elif kind == "svr":
        model, kinks = LinearSVR(C=2.0, epsilon=0.25), [(-0.25, -2.0, 0.0), (0.25, 0.0, 2.0)]
        P[:m, :m] = np.eye(m)
    elif kind == "svc":
        y = np.where(y > np.median(y), 1.0, -1.0)
        y[:2] = 1.0, -1.0
        model, kinks, A, e = LinearSVC(C=0.5), [(0.0, 0.0, 0.5)], A * y[:, None], np.ones(n)
        P[:m, :m] = np.eye(m)
    else:
        model, kinks = PiecewiseLinearModel(kinks=[-1, 0.5], slopes=[-1, 0.5, 2]), [(-1.0, -1.0, 0.5), (0.5, 0.0, 1.5)]
        if rng.random() < 0.6:
            # Less than what the losses of the rows pull back, in the intercept; a constant column may do anything.
            q[-1] = rng.uniform(-0.5, 0.5) * total
        if rng.random() < 0.4:
            l1[:m] = given["l1"] = float(rng.choice([1.0, 50.0]))
        if kind == "quadratic":
            root = rng.normal(size=(m, m))
            full = root @ root.T
            P[:m, :m] = full if rng.random() < 0.5 else np.diag(full.diagonal())
            given["quadratic"] = P[:m, :m] if P[:m, :m].any() else None
        given["linear"] = q if q.any() else None
    if how in ("both", "one", "fixed"):
        ends = np.full((2, p), INFINITE)
        ends[0], ends[0, -1], ends[1, -1] = -INFINITE, low[0], high[0]
        given["bounds"] = Bounds(*ends)
    elif how != "free":
        given["constraints"] = LinearConstraint(G, low, high)
    if rng.random() < 0.3:
        given["init"] = "kmeans"
    rows = sparse.csr_array(X) if rng.random() < 0.2 else X
    program = Program(A, e, weight, kinks, P, q, l1, G, low, high)
    return model.set_params(tol=1e-6, **given), rows, y, weight, program


def optimum_of(program):
    """By another solver; None where the objective falls without end."""
    try:
        return (solve_by_clarabel if program.P.any() else solve_by_highs)(program)[0]
    except RuntimeError:
        return None


@pytest.mark.parametrize("seed", range(120))
def test_bounds_hold_beside_constant_columns(seed):
    pytest.importorskip("clarabel")
    model, X, y, weight, program = generated(seed)
    optimum = optimum_of(program)
    if optimum is None:
        with pytest.raises(Unbounded):
            model.fit(X, y, weight)
        return
    model.fit(X, y, weight)
    point = np.append(np.ravel(model.coef_), model.intercept_)
    size = max(abs(optimum), 1e-3 * float(weight @ np.abs(program.e)))
    assert model.lower_bound_ <= optimum + 1e-7 * size
    assert abs(model.objective_ - optimum) <= 2e-6 * size
    assert program.violation(point) <= 1e-9
    assert program.value(point) == pytest.approx(model.objective_, rel=1e-9, abs=1e-9 * size)


def data(n=500):
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=n), np.full(n, 5.0)]
    return X, 10 + X[:, 0] + rng.laplace(size=n)


@pytest.mark.parametrize("init", ["auto", "kmeans"])
def test_a_constant_column_stands_in_for_a_bounded_intercept(init):
    X, y = data()
    model = LADRegressor(bounds=Bounds([-np.inf, -np.inf, -1], [np.inf, np.inf, 1]), init=init).fit(X, y)
    free = LADRegressor().fit(X, y)
    assert model.gap_ <= 1e-4
    assert abs(model.intercept_) <= 1
    assert model.objective_ == pytest.approx(free.objective_, rel=1e-4)
    assert model.lower_bound_ <= np.abs(y - X @ [1.0, 1.8] - 1.0).sum()


def test_a_constant_column_makes_a_priced_intercept_unbounded():
    X, y = data()
    for given in ({}, {"l1": 1.0}):
        with pytest.raises(Unbounded, match="intercept"):
            PiecewiseLinearModel(linear=[0, 0, 100.0], **given).fit(X, y)


def test_a_price_that_a_constant_column_cancels_is_none():
    X, y = data()
    priced = PiecewiseLinearModel(linear=[0, 500.0, 100.0], l1=0.0, tol=1e-7).fit(X, y)
    # 5 w + b is what has a price: as much as that of the intercept of other columns.
    alone = PiecewiseLinearModel(linear=[0, 100.0], tol=1e-7).fit(X[:, :1], y)
    assert priced.objective_ == pytest.approx(alone.objective_, rel=1e-6)
    assert priced.gap_ <= 1e-7


def test_a_free_intercept_leaves_the_coefficients_of_constant_columns_at_zero():
    X, y = data()
    for model in (LADRegressor(), LADRegressor(alpha=0.1), LinearSVR()):
        assert model.fit(X, y).coef_[1] == 0


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_a_constant_column_without_an_intercept_is_not_scaled_by_rounding_errors(seed, storage):
    """Its deviation is 0 and not the rounding error of a difference of squares, which would leave it unpenalised."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 40))
    X, weight = np.full((n, 2), rng.normal(size=2)), rng.exponential(size=n)
    y = rng.normal(size=n) + 3
    for given in ({"C": 30.0, "epsilon": 0.1}, {"C": 0.01}):
        models = [LinearSVR(fit_intercept=False, tol=1e-9, standardize=s, **given) for s in (False, True)]
        plain, scaled = [model.fit(storage(X), y, weight) for model in models]
        assert scaled.lower_bound_ <= plain.objective_ * (1 + 1e-9)
        assert plain.lower_bound_ <= scaled.objective_ * (1 + 1e-9)
