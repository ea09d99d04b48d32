"""Steps of SMO: each is feasible, none lowers the dual, and where the columns of K come from does not matter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aidlearn.engine.problem import Accuracy
from aidlearn.kernel.dual import ColumnsOnDemand, KernelDual, best_intercept, finish, solve_by_factor
from aidlearn.kernel.functions import Kernel
from aidlearn.kernel.rows import kernel_rows
from aidlearn.kernel.smo import KeptColumns, OnDemand, Point, spread, steps
from aidlearn.kernel.solvers import SOLVERS, solve_libsvm, solve_smo

EXACT = Accuracy(1e-8, np.inf)


def dual_problem(seed, n=120, m=3, equal_rows=False):
    """Kernel matrix, labels and boxes of very different sizes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    if equal_rows:
        X = X[rng.integers(0, n // 4, n)]
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    squares = (X**2).sum(axis=1)
    K = np.exp(-0.4 * np.maximum(0.0, squares[:, None] + squares - 2 * X @ X.T))
    return K, y, 10.0 ** rng.uniform(-2, 2, n)


def value(K, y, alpha):
    return alpha.sum() - 0.5 * (y * alpha) @ K @ (y * alpha)


def point_of(K, y, box, alpha):
    bounds = np.minimum(0.0, y * box), np.maximum(0.0, y * box)
    return Point(y * alpha, y - K @ (y * alpha), *bounds, K.diagonal().copy())


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.booleans())
def test_every_step_is_feasible_and_lifts_the_dual(seed, equal_rows, single):
    K, y, box = dual_problem(seed, n=40, equal_rows=equal_rows)
    matrix = K.astype(np.float32 if single else np.float64)
    K = matrix.astype(np.float64)
    point = point_of(K, y, box, np.zeros(len(y)))
    columns, on_demand = KeptColumns.whole(matrix), OnDemand.nothing(matrix.dtype)
    last, size = 0.0, np.abs(box).sum()
    for k in range(400):
        before = point.beta.copy()
        if steps(point, columns, on_demand, 2 * k, 1, 0.0) == 0:
            break
        assert (np.flatnonzero(point.beta != before)).size <= 2
        assert ((point.lower <= point.beta) & (point.beta <= point.upper)).all()
        assert abs(point.beta.sum()) <= 1e-12 * size
        now = value(K, y, y * point.beta)
        assert now >= last - 1e-12 * max(1.0, abs(last))
        last = now
    assert last > 0
    assert point.gradient == pytest.approx(y - K @ point.beta, abs=1e-9 * max(1.0, size))


def test_steps_end_at_the_spread_that_is_asked_for():
    K, y, box = dual_problem(1)
    point = point_of(K, y, box, np.zeros(len(y)))
    columns, on_demand = KeptColumns.whole(K), OnDemand.nothing(K.dtype)
    for target in (1.0, 1e-2, 1e-4):
        done = steps(point, columns, on_demand, 0, 100_000, target)
        top, bottom = spread(point)
        assert 0 < done < 100_000
        assert top - bottom <= target
    assert steps(point, columns, on_demand, 0, 100_000, 1e-4) == 0


@pytest.mark.parametrize("kernel", [Kernel("rbf", 0.4), Kernel("poly", 0.4, 3, 1.0), Kernel("linear")])
@pytest.mark.parametrize("tol", [1e-4, 1e-8])
def test_columns_on_demand_are_those_of_the_matrix(kernel, tol):
    """64 kept columns of 300, the last 20 of them clusters: the same steps as with all columns at hand."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y, box = np.where(X[:, 0] + 0.5 * rng.normal(size=300) > 0, 1.0, -1.0), rng.uniform(0.1, 3.0, 300)
    rows = kernel_rows(kernel, X, 1, tol, compiled=True)
    everything = np.arange(300)
    matrix = rows.block(everything, everything)
    columns = ColumnsOnDemand(rows, everything[:280], matrix[:, 280:], 10)
    nothing = np.zeros(300)
    whole = solve_smo(KernelDual(y, box, np.ones(len(y)), matrix=matrix), nothing, nothing, Accuracy(1e-6, np.inf))
    parts = solve_smo(KernelDual(y, box, np.ones(len(y)), columns=columns), nothing, nothing, Accuracy(1e-6, np.inf))
    K = matrix.astype(np.float64)
    assert value(K, y, parts) == pytest.approx(value(K, y, whole), rel=3e-6)
    assert ((parts >= 0) & (parts <= box)).all()
    assert abs(y @ parts) <= 1e-9 * parts.sum()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_rows_does_not_matter(solver, seed):
    K, y, box = dual_problem(seed)
    order = np.random.default_rng(seed).permutation(len(y))
    nothing = np.zeros(len(y))
    one = SOLVERS[solver](KernelDual(y, box, np.ones(len(y)), matrix=K), nothing, nothing, EXACT)
    shuffled = KernelDual(y[order], box[order], np.ones(len(y)), matrix=np.ascontiguousarray(K[np.ix_(order, order)]))
    two = SOLVERS[solver](shuffled, nothing, nothing, EXACT)
    assert value(K, y, one) == pytest.approx(value(shuffled.square_float64(), y[order], two), rel=2e-8)
    assert K @ (y * one) == pytest.approx((shuffled.scores(two))[np.argsort(order)], abs=2e-2)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_solver_goes_on_from_where_it_is(solver):
    """From any feasible point the dual does not fall, and from the solution nothing changes."""
    K, y, box = dual_problem(5)
    dual = KernelDual(y, box, np.ones(len(y)), matrix=K)
    begin = dual.start(np.random.default_rng(0).uniform(0, 1, len(y)) * box)
    solved = SOLVERS[solver](dual, begin, dual.scores(begin), EXACT)
    assert value(K, y, solved) >= value(K, y, begin)
    assert dual.gap(solved) <= 1e-8
    assert ((solved >= 0) & (solved <= box)).all()
    assert abs(y @ solved) <= 1e-12 * solved.sum()
    again = SOLVERS[solver](dual, solved, dual.scores(solved), EXACT)
    assert again == pytest.approx(solved, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("with_columns", [False, True])
def test_smo_agrees_with_libsvm_for_any_boxes(with_columns):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 3))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=400) > 0, 1.0, -1.0)
    box = 10.0 ** rng.uniform(-2, 2, 400)
    rows = kernel_rows(Kernel("rbf", 0.5), X, 1, 1e-8, compiled=True)
    everything = np.arange(400)
    matrix = rows.block(everything, everything)
    nothing = np.zeros(400)
    whole = KernelDual(y, box, np.ones(len(y)), matrix=matrix)
    parts = KernelDual(y, box, np.ones(len(y)), columns=ColumnsOnDemand(rows, everything, np.zeros((400, 0)), 64))
    ours = solve_smo(parts if with_columns else whole, nothing, nothing, Accuracy(1e-7, np.inf))
    theirs = solve_libsvm(whole, nothing, nothing, Accuracy(1e-7, np.inf))
    assert value(matrix, y, ours) == pytest.approx(value(matrix, y, theirs), rel=1e-6)
    assert ((ours >= 0) & (ours <= box)).all()
    assert abs(y @ ours) <= 1e-9 * ours.sum()


def test_the_last_digits():
    """From a rough solution Newton steps reach what float64 can; the interior point on a factor finds the same."""
    K, y, box = dual_problem(7)
    dual = KernelDual(y, box, np.ones(len(y)), matrix=K)
    nothing = np.zeros(len(y))
    rough = solve_smo(dual, nothing, nothing, Accuracy(1e-3, np.inf))
    sharp = finish(dual, rough, Accuracy(1e-12, np.inf))
    assert dual.gap(sharp) <= 1e-10 < dual.gap(rough)
    by_factor = solve_by_factor(dual, np.inf)
    assert value(K, y, by_factor) == pytest.approx(value(K, y, sharp), rel=1e-9)


def test_a_dual_without_members_is_solved():
    empty = KernelDual(np.zeros(0), np.zeros(0), np.zeros(0), matrix=np.zeros((0, 0)))
    for solver in SOLVERS.values():
        assert len(solver(empty, np.zeros(0), np.zeros(0), EXACT)) == 0
    assert best_intercept(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0)) == 0.0


def test_best_intercept_minimises():
    rng = np.random.default_rng(2)
    for _ in range(50):
        n = int(rng.integers(1, 12))
        scores, y, box = rng.normal(size=n), rng.choice([-1.0, 1.0], n), rng.integers(0, 3, n).astype(float)

        def loss(b, scores=scores, y=y, box=box):
            return box @ np.maximum(0, 1 - y * (scores + b))

        least = min(loss(b) for b in y - scores)
        assert loss(best_intercept(scores, y, box, np.ones(len(y)))) == pytest.approx(least, abs=1e-12)
