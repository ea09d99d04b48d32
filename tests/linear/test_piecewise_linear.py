"""A problem of one's own: linear and quadratic terms, losses with several kinks, negative and unbounded optima."""

import importlib
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from benchmarks.full_programs import FullProgram, solve_by_clarabel, solve_by_highs
from scipy.optimize import Bounds, LinearConstraint
from sklearn.utils.estimator_checks import parametrize_with_checks

from aidlearn import PiecewiseLinearModel, QuantileRegressor, Unbounded, load_model, save_model
from aidlearn.data import as_source
from aidlearn.data.passes.moments import inspect
from aidlearn.data.passes.run import Run
from aidlearn.linear.aggregated.solvers import solve_by_interior_point
from aidlearn.linear.constraints import Region
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import piecewise_linear
from aidlearn.linear.problem import PiecewiseLinear, Procedure
from aidlearn.linear.start.methods import start_method
from aidlearn.testing import check_problem

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
cvar_portfolio, newsvendor, monotone_quantiles = map(
    importlib.import_module, ("cvar_portfolio", "newsvendor", "monotone_quantiles")
)


@parametrize_with_checks([PiecewiseLinearModel(), PiecewiseLinearModel(kinks=[0, 1], slopes=[-1, 0.5, 2], l1=0.1)])
def test_conventions_of_scikit_learn(estimator, check):
    check(estimator)


def test_the_objective_is_that_of_the_coefficients():
    """Coefficients beside columns of 1e7 are rounded, and the objective is theirs."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(1e7, 1.0, 300), rng.normal(size=300)])
    y = X[:, 0] - 1e7 + rng.laplace(size=300)
    model = PiecewiseLinearModel(kinks=[0, 1], slopes=[-1, 1, 3]).fit(X, y)
    weights = [Fraction(c) for c in model.coef_]
    total = Fraction(0)
    for row, target in zip(X.tolist(), y.tolist(), strict=True):
        z = (
            Fraction(target)
            - sum(w * Fraction(x) for w, x in zip(weights, row, strict=True))
            - Fraction(model.intercept_)
        )
        total += max(-z, z, 3 * z - 2)
    assert model.objective_ == pytest.approx(float(total), rel=1e-9)


def hinges(kinks, slopes):
    """The loss as sums of two-sided kinks with a smallest value of 0, as another solver takes it."""
    parts = []
    for k, left, right in zip(kinks, slopes[:-1], slopes[1:], strict=True):
        jump = right - left
        down = min(max(-left, 0.0), jump)
        parts.append((float(k), -down, jump - down))
    return parts


def program(X, y, weight=None, *, kinks=(0.0,), slopes=(-1.0, 1.0), P=None, q=None, l1=0.0, rows=(), intercept=True):
    n, m = X.shape
    A = np.hstack([X, np.ones((n, 1))]) if intercept else X
    p = A.shape[1]
    full = np.zeros((p, p))
    if P is not None:
        full[:m, :m] = P
    G = np.array([row for row, _, _ in rows]).reshape(-1, p)
    low, high = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
    penalty = np.where(np.arange(p) < m, l1, 0.0)
    weight = np.ones(n) if weight is None else weight
    return FullProgram(
        A, y, weight, hinges(kinks, slopes), full, np.zeros(p) if q is None else q, penalty, G, low, high
    )


def point_of(model):
    return np.append(model.coef_, model.intercept_) if model.fit_intercept else model.coef_


@pytest.mark.parametrize("seed", range(24))
def test_generated_problems_equal_the_full_program(seed):
    pytest.importorskip("clarabel")
    rng = np.random.default_rng(seed)
    n, m = int(rng.choice([80, 400, 1500])), int(rng.integers(1, 6))
    X = rng.normal(size=(n, m)) * 10.0 ** rng.uniform(-1, 1, m) + rng.normal(size=m)
    y = X @ rng.normal(size=m) + rng.standard_t(3, n)
    weight = rng.integers(0, 4, n).astype(float)
    k = int(rng.integers(1, 4))
    kinks, slopes = np.sort(rng.normal(size=k)), np.sort(rng.normal(size=k + 1))
    slopes = np.sort(slopes - np.median(slopes))
    slopes[0], slopes[-1] = min(slopes[0], -0.1), max(slopes[-1], 0.1)
    intercept = bool(rng.random() < 0.7)
    p = m + intercept
    kind = seed % 4
    root = rng.normal(size=(max(1, m - 1), m))
    quadratic = [None, 2.0, rng.uniform(0, 3, m), root.T @ root][kind]
    P = None if quadratic is None else np.diag(np.broadcast_to(quadratic, m)) if kind < 3 else quadratic
    # A box and a budget keep any linear term from pulling without end.
    linear = rng.normal(size=p) * weight.sum() * (0.3 if seed % 3 else 2.0)
    lower, upper = -rng.uniform(0.5, 3, p), rng.uniform(0.5, 3, p)
    rows = [(np.eye(p)[j], lower[j], upper[j]) for j in range(p)]
    options = {"bounds": Bounds(lower, upper)}
    if seed % 2:
        budget = rng.integers(-1, 3, p).astype(float)
        middle = float(budget @ (lower + upper)) / 2
        options["constraints"] = LinearConstraint(budget, middle, middle)
        rows.append((budget, middle, middle))
    model = PiecewiseLinearModel(
        kinks=kinks, slopes=slopes, quadratic=quadratic, linear=linear, l1=seed % 5, fit_intercept=intercept, tol=1e-9
    )
    model.set_params(**options).fit(X, y, weight)
    full = program(X, y, weight, kinks=kinks, slopes=slopes, P=P, q=linear, l1=seed % 5, rows=rows, intercept=intercept)
    optimum, _ = solve_by_clarabel(full)
    size = max(abs(optimum), 1.0)
    assert abs(model.objective_ - optimum) <= 1e-6 * size
    assert model.lower_bound_ <= optimum + 1e-7 * size
    assert full.violation(point_of(model)) <= 1e-9
    assert full.value(point_of(model)) == pytest.approx(model.objective_, rel=1e-9, abs=1e-9)
    assert model.gap_ <= 1e-6


def test_a_negative_optimum_and_its_gap():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20_000, 3)), np.zeros(20_000)
    linear = np.array([-6000.0, 2000.0, 0.0, 0.0])
    model = PiecewiseLinearModel(linear=linear, bounds=Bounds(-1, 1), slopes=(-0.2, 0.2), tol=1e-6).fit(X, y)
    few, rows = program(X[:2000], y[:2000], slopes=(-0.2, 0.2), q=linear / 10, rows=box(4, 3)), slice(2000)
    optimum, _ = solve_by_highs(few)
    small = PiecewiseLinearModel(linear=linear / 10, bounds=Bounds(-1, 1), slopes=(-0.2, 0.2), tol=1e-8)
    assert small.fit(X[rows], y[rows]).objective_ == pytest.approx(optimum, rel=1e-7)
    assert small.lower_bound_ <= optimum + 1e-9 * abs(optimum)
    assert optimum < 0
    assert model.objective_ < 0
    assert model.gap_ == pytest.approx((model.objective_ - model.lower_bound_) / abs(model.objective_))
    assert 0 <= model.gap_ <= 1e-6


def box(p, m):
    return [(np.eye(p)[j], -1.0, 1.0) for j in range(m)]


def test_an_optimum_of_zero_is_closed_only_by_a_bound_of_zero():
    X = np.random.default_rng(0).normal(size=(300, 3))
    model = PiecewiseLinearModel(linear=[-10.0, 5.0, 0.0], bounds=Bounds(-1, 1)).fit(X, np.zeros(300))
    assert model.objective_ == 0
    assert model.gap_ == 0
    assert model.status_.reached_tolerance


def test_a_linear_term_that_no_cluster_alone_holds():
    # One cluster has the mean 0: its aggregated problem falls without end, the problem itself does not.
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 2))
    X -= X.mean(axis=0)
    y = rng.normal(size=600)
    linear = np.array([60.0, -40.0, 0.0])
    model = PiecewiseLinearModel(linear=linear, init=np.zeros(600, dtype=int), tol=1e-8).fit(X, y)
    optimum, _ = solve_by_highs(program(X, y, q=linear))
    assert model.objective_ == pytest.approx(optimum, rel=1e-7)
    assert model.lower_bound_ <= optimum + 1e-9 * abs(optimum)


@pytest.mark.parametrize("n", [50, 3000])
def test_an_unbounded_problem_is_a_sentence(n):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(n, 3)), rng.normal(size=n)
    with pytest.raises(ValueError, match=r"The problem is unbounded: .* column 1"):
        PiecewiseLinearModel(linear=[0.0, 5.0 * n, 0.0]).fit(X, y)
    bounded = PiecewiseLinearModel(linear=[0.0, 5.0 * n, 0.0], bounds=Bounds(-2, np.inf)).fit(X, y)
    assert bounded.coef_[1] == -2.0
    with pytest.raises(ValueError, match="unbounded"):
        PiecewiseLinearModel(linear=[0.0, 5.0 * n, 0.0], positive=False, bounds=Bounds(-np.inf, 2)).fit(X, y)


@pytest.mark.parametrize("n", [50, 3000])
def test_the_intercept_is_named_where_it_is_what_the_term_pulls(n):
    """Before, the column with the largest numbers was named."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(n, 3)), rng.normal(size=n)
    with pytest.raises(Unbounded, match="most of all at the intercept"):
        PiecewiseLinearModel(linear=[0.0, 0.0, 0.0, 5.0 * n]).fit(X, y)
    with pytest.raises(Unbounded, match="most of all at the coefficient of column 2"):
        PiecewiseLinearModel(linear=[0.0, 0.0, -5.0 * n, 0.0]).fit(X, y)


def test_an_intercept_alone():
    with pytest.raises(ValueError, match=r"give a column of zeros, np.zeros\(\(\d+, 1\)\)"):
        PiecewiseLinearModel().fit(np.zeros((7, 0)), np.arange(7.0))
    assert PiecewiseLinearModel().fit(np.zeros((7, 1)), np.arange(7.0)).intercept_ == pytest.approx(3.0)


def test_the_default_is_least_absolute_deviations():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(5000, 3)), rng.laplace(size=5000)
    one = PiecewiseLinearModel(slopes=(-0.7, 0.3), tol=1e-8).fit(X, y)
    two = QuantileRegressor(quantile=0.3, tol=1e-8).fit(X, y)
    assert one.objective_ == pytest.approx(two.objective_, rel=1e-9)


def test_it_has_files_checkpoints_callbacks_and_model_files(tmp_path):
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(3000, 3)), rng.laplace(size=3000)
    options = {
        "kinks": [-1.0, 0.5],
        "slopes": [-2.0, 0.5, 1.0],
        "linear": [1.0, -2.0, 0.0, 3.0],
        "quadratic": np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 0.0]]),
        "constraints": LinearConstraint(np.ones(3), 0.5, 0.5),
        "bounds": Bounds(-1.0, 1.0),
    }
    seen = []
    memory = PiecewiseLinearModel(**options, callbacks=seen.append).fit(X, y)
    np.save(tmp_path / "t.npy", np.column_stack([X, y]))
    file = PiecewiseLinearModel(**options, checkpoint=tmp_path / "run").fit(tmp_path / "t.npy", 3)
    assert np.array_equal(memory.coef_, file.coef_)
    assert len(seen) == memory.n_iter_
    again = PiecewiseLinearModel(**options, checkpoint=tmp_path / "run").fit(tmp_path / "t.npy", 3)
    assert np.array_equal(again.coef_, file.coef_)
    other = {**options, "constraints": LinearConstraint(np.ones(3), 0.25, 0.25)}
    with pytest.raises(ValueError, match="constraints was"):
        PiecewiseLinearModel(**other, checkpoint=tmp_path / "run").fit(tmp_path / "t.npy", 3)
    save_model(memory, tmp_path / "m.aid")
    loaded = load_model(tmp_path / "m.aid")
    assert np.array_equal(loaded.predict(X), memory.predict(X))
    assert np.array_equal(loaded.bounds.ub, memory.bounds.ub)
    assert np.array_equal(loaded.constraints.A, memory.constraints.A)


def test_dask_gives_the_same_bits():
    da = pytest.importorskip("dask.array")
    rng = np.random.default_rng(8)
    X, y = rng.normal(size=(4000, 3)), rng.laplace(size=4000)
    model = PiecewiseLinearModel(
        kinks=[0, 1],
        slopes=[-1, 0.5, 2],
        linear=[100.0, -50.0, 0.0, 20.0],
        bounds=Bounds(-1, 1.5),
        constraints=LinearConstraint(np.ones(3), 1, 1),
    )
    memory = model.fit(X, y).coef_
    model.fit(da.from_array(X, chunks=(1500, 3)), da.from_array(y, chunks=1500))
    assert np.array_equal(model.coef_, memory)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"slopes": [1, -1]}, "slopes must ascend"),
        ({"slopes": [1, 2]}, "from at most 0 to at least 0"),
        ({"kinks": [0, 1]}, "one number more than kinks"),
        ({"kinks": [1, 0], "slopes": [-1, 0, 1]}, "kinks must ascend"),
        ({"kinks": "zero"}, "kinks must be a sequence of numbers"),
        ({"linear": [1.0]}, "linear must have 3 numbers"),
        ({"linear": [1.0, np.inf, 0.0]}, "linear contains infinity"),
        ({"quadratic": np.ones((2, 2))}, "quadratic must be a number or of shape"),
        ({"quadratic": np.array([[0, 1, 0], [1, 0, 0], [0, 0, 1.0]])}, "positive semidefinite"),
        ({"quadratic": np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1.0]])}, "symmetric"),
        ({"quadratic": -1.0}, "must not be negative"),
        ({"l1": -1.0}, "l1 must be a number"),
        ({"solver": "highs", "quadratic": 1.0}, "linear programs only"),
    ],
)
def test_bad_terms_are_sentences(parameters, sentence):
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.zeros(20)
    with pytest.raises(ValueError, match=sentence):
        PiecewiseLinearModel(**parameters).fit(X, y)


def test_compiled_passes_know_different_jumps(monkeypatch):
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(6000, 3)), rng.standard_t(2, size=6000)
    model = PiecewiseLinearModel(kinks=[-1.0, 0.3, 2.0], slopes=[-3.0, -0.5, 0.25, 4.0], tol=1e-7)
    plain = model.fit(X, y).objective_
    monkeypatch.setattr("aidlearn.data.passes.run.COMPILED_CELLS", 1)
    assert model.fit(X, y).objective_ == pytest.approx(plain, rel=1e-6)
    assert model.gap_ <= 1e-7
    assert model.n_clusters_ < 6000
    optimum, _ = solve_by_highs(program(X, y, kinks=model.kinks, slopes=model.slopes))
    assert model.objective_ == pytest.approx(optimum, rel=1e-6)


@pytest.mark.parametrize("init", ["band", "kmeans"])
@pytest.mark.parametrize("constrained", [False, True])
def test_it_passes_the_conformance_test(init, constrained):
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(400, 2)), rng.laplace(size=400)
    kinks, slopes, q = (-0.5, 0.5), (-1.0, 0.25, 2.0), np.array([20.0, -10.0, 5.0])
    region, rows = None, []
    if constrained:
        ends = np.array([-0.2, -0.2, -np.inf]), np.array([0.5, 0.0, np.inf])
        region = Region.of(*ends, np.array([[1.0, -1.0, 0.0]]), np.array([0.1]), np.array([0.1]))
        rows = [(np.eye(3)[j], ends[0][j], ends[1][j]) for j in range(2)] + [(np.array([1.0, -1.0, 0.0]), 0.1, 0.1)]
    run = Run(as_source(X, y))
    design = Design.of(piecewise_linear(kinks, slopes), inspect(run), linear=q, region=region)
    procedure = Procedure(solve_by_interior_point, start_method(init), rng=np.random.default_rng(0))
    optimum, _ = solve_by_highs(program(X, y, kinks=kinks, slopes=slopes, q=q, rows=rows))
    check_problem(PiecewiseLinear(run, design, procedure), optimum=optimum)


# Worked problems


def cvar_of(weights, returns, beta=0.95):
    """The mean of the worst losses, by sorting: the definition, with a part of the scenario at the border."""
    losses = np.sort(-returns @ weights)[::-1]
    tail = (1 - beta) * len(losses)
    whole = int(tail)
    return (losses[:whole].sum() + (tail - whole) * losses[whole]) / tail


def test_cvar_portfolio():
    returns = cvar_portfolio.scenarios(3000, 8)
    model = cvar_portfolio.portfolio(returns, tol=1e-8)
    m = returns.shape[1]
    mean = np.append(returns.mean(axis=0), 0.0)
    rows = [(np.eye(m + 1)[j], 0.0, np.inf) for j in range(m)]
    rows += [(np.append(np.ones(m), 0.0), 1.0, 1.0), (mean, float(np.median(mean[:m])), np.inf)]
    q = np.append(np.zeros(m), 1.0)
    optimum, _ = solve_by_highs(program(returns, np.zeros(3000), slopes=(0.0, 1 / 150), q=q, rows=rows))
    assert model.objective_ == pytest.approx(optimum, rel=1e-7)
    assert model.lower_bound_ <= optimum * (1 + 1e-8)
    assert cvar_of(model.coef_, returns) == pytest.approx(model.objective_, rel=1e-7)
    assert model.coef_.sum() == pytest.approx(1.0, abs=1e-12)
    assert (model.coef_ >= 0).all()
    assert returns.mean(axis=0) @ model.coef_ >= np.median(returns.mean(axis=0)) * (1 - 1e-9)


def test_cvar_with_cash():
    # A constant column beside the intercept: no row tells anything of it, the budget does.
    returns = np.column_stack([cvar_portfolio.scenarios(2000, 4), np.full(2000, 1e-4)])
    free = cvar_portfolio.portfolio(returns, target=0.0, tol=1e-8)
    assert free.objective_ == pytest.approx(-1e-4, rel=1e-6)
    assert free.coef_[-1] == pytest.approx(1.0, abs=1e-6)
    risky = cvar_portfolio.portfolio(returns, target=float(returns.mean(axis=0).max()) * 0.9, tol=1e-8)
    assert 0 <= risky.coef_[-1] < 0.5
    assert cvar_of(risky.coef_, returns) == pytest.approx(risky.objective_, rel=1e-6)


def test_newsvendor():
    X, demand = newsvendor.sales(2000)
    rule = newsvendor.order_rule(X, demand, tol=1e-8)
    limited = newsvendor.order_rule(X, demand, most_on_average=90.0, tol=1e-8)
    assert newsvendor.cost(rule.predict(X), demand).sum() == pytest.approx(rule.objective_, rel=1e-9)
    rows = [(np.eye(4)[j], 0.0, np.inf) for j in range(3)]
    terms = {"kinks": (0.0, 15.0), "slopes": (-1.0, 4.0, 12.0)}
    optimum, _ = solve_by_highs(program(X, demand, rows=rows, **terms))
    assert rule.objective_ == pytest.approx(optimum, rel=1e-7)
    rows.append((np.append(X.mean(axis=0), 1.0), -np.inf, 90.0))
    optimum, _ = solve_by_highs(program(X, demand, rows=rows, **terms))
    assert limited.objective_ == pytest.approx(optimum, rel=1e-7)
    assert limited.predict(X).mean() <= 90.0 + 1e-9


def test_monotone_quantiles():
    rng = np.random.default_rng(6)
    x = rng.uniform(0, 10, 4000)
    y = np.log1p(x) + 0.5 * rng.standard_t(3, len(x))
    edges = np.linspace(0, 10, 16)[1:-1]
    model = monotone_quantiles.monotone_quantile(x, y, edges, 0.8, tol=1e-9)
    assert (np.diff(model.coef_) >= -1e-12).all()
    X = monotone_quantiles.steps(x, edges).toarray()
    rises = [(np.eye(15)[j + 1] - np.eye(15)[j], 0.0, np.inf) for j in range(14)]
    optimum, _ = solve_by_highs(program(X, y, slopes=(-0.2, 0.8), rows=rises, intercept=False))
    assert model.objective_ == pytest.approx(optimum, rel=1e-7)


def test_a_constant_column_that_the_quadratic_term_ties_to_another():
    pytest.importorskip("clarabel")
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=500), np.full(500, 5.0)]
    y, P = 10 + X[:, 0] + rng.laplace(size=500), np.array([[200.0, 100.0], [100.0, 200.0]])
    model = PiecewiseLinearModel(quadratic=P, tol=1e-7).fit(X, y)
    optimum, _ = solve_by_clarabel(program(X, y, P=P))
    assert model.objective_ == pytest.approx(optimum, rel=1e-7)
    assert model.gap_ <= 1e-7
