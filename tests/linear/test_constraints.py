"""Bounds, linear constraints and elastic nets: the optimum of the full program, and bounds that hold."""

import numpy as np
import pytest
from benchmarks.full_programs import FullProgram, generated, solve_by_clarabel, solve_by_highs
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog

from aidlearn import LADRegressor, LinearSVC, LinearSVR, PiecewiseLinearModel, QuantileRegressor, bootstrap
from aidlearn.linear.constraints import Infeasible, Region

MODELS = {"quantile": QuantileRegressor, "lad": LADRegressor, "svc": LinearSVC, "svr": LinearSVR}


def point_of(model):
    slopes = np.ravel(model.coef_)
    return np.append(slopes, model.intercept_) if model.fit_intercept else slopes


def data(n=3000, m=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    return X, X @ np.array([1.0, -0.5, 0.0, 2.0])[:m] + 3 + rng.laplace(size=n)


def lad_program(X, y, G=None, low=(), high=(), l1=0.0, ridge=0.0):
    n, m = X.shape
    p = m + 1
    slopes = np.append(np.ones(m), 0.0)
    G = np.zeros((0, p)) if G is None else np.atleast_2d(G)
    A = np.hstack([X, np.ones((n, 1))])
    absolute = [(0.0, -1.0, 1.0)]
    P, q = np.diag(ridge * slopes), np.zeros(p)
    return FullProgram(A, y, np.ones(n), absolute, P, q, l1 * slopes, G, np.array(low, float), np.array(high, float))


@pytest.mark.parametrize("seed", range(30))
def test_generated_models_equal_the_full_program(seed):
    case = generated(seed, n=300 if seed % 5 else 1500)
    program = case.program
    if program.P.any():
        pytest.importorskip("clarabel")
        optimum, _ = solve_by_clarabel(program)
    else:
        optimum, _ = solve_by_highs(program)
    model = MODELS[case.model](tol=1e-8, **case.parameters).fit(case.X, case.y, case.weight)
    point = point_of(model)
    size = max(abs(optimum), 1e-9)
    assert abs(model.objective_ - optimum) <= 1e-6 * size
    assert model.lower_bound_ <= optimum + 1e-7 * size
    assert program.violation(point) <= 1e-9
    assert program.value(point) == pytest.approx(model.objective_, rel=1e-9)


def test_bounds_are_met_exactly():
    X, y = data()
    model = LADRegressor(positive=True, bounds=Bounds(-1, 1.5)).fit(X, y)
    assert (model.coef_ >= 0).all()
    assert (model.coef_ <= 1.5).all()
    assert model.gap_ <= 1e-4


def test_large_data_with_a_start():
    X, y = data(n=60_000)
    budget = LinearConstraint(np.ones(4), 1.0, 1.0)
    model = QuantileRegressor(quantile=0.3, positive=True, constraints=budget, tol=1e-6).fit(X, y)
    assert model.gap_ <= 1e-6
    assert model.coef_.sum() == pytest.approx(1.0, abs=1e-12)
    assert model.n_clusters_ < 20_000
    less = QuantileRegressor(quantile=0.3, tol=1e-6).fit(X, y)
    assert less.objective_ < model.lower_bound_


def test_constraints_on_the_intercept_beside_large_targets():
    X, y = data(n=2000)
    y = y + 1e6
    fixed = LinearConstraint(np.append(np.zeros(4), 1.0), 1e6, 1e6)
    model = LADRegressor(constraints=fixed, tol=1e-8).fit(X, y)
    assert model.intercept_ == pytest.approx(1e6, abs=1e-6)
    optimum, _ = solve_by_highs(lad_program(X, y - 1e6, np.append(np.zeros(4), 1.0), [0.0], [0.0]))
    assert model.objective_ == pytest.approx(optimum, rel=1e-7)
    assert LADRegressor(bounds=Bounds([-9] * 5, [9] * 4 + [np.inf])).fit(X, y - 1e6).intercept_ > 2


def test_constraints_are_in_the_units_of_the_data():
    X, y = data()
    X = X * np.array([1.0, 1e3, 1e-3, 10.0])
    bounds = Bounds([0.2, 1e-5, 50.0, 0.0], [0.5, 1.0, np.inf, 0.1])
    for extra in ({}, {"alpha": 0.01}):
        model = LADRegressor(bounds=bounds, standardize=True, **extra).fit(X, y)
        assert (model.coef_ >= bounds.lb).all()
        assert (model.coef_ <= bounds.ub).all()


@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0])
def test_elastic_net_is_the_documented_penalty(ratio):
    X, y = data(n=400)
    alpha = 0.1
    model = LADRegressor(alpha=alpha, l1_ratio=ratio, tol=1e-9).fit(X, y)
    total = alpha * len(y)
    pytest.importorskip("clarabel")
    optimum, _ = solve_by_clarabel(lad_program(X, y, l1=total * ratio, ridge=total * (1 - ratio)))
    assert model.objective_ == pytest.approx(optimum, rel=1e-7)
    assert model.lower_bound_ <= optimum * (1 + 1e-8)


def test_constant_and_repeated_columns():
    X, y = data(n=500)
    X = np.column_stack([X, np.full(500, 7.0), X[:, 0]])
    both = LinearConstraint([[0, 0, 0, 0, 1.0, 0], [1, 0, 0, 0, 0, -1.0]], [0.5, 0.25], [0.5, 0.25])
    model = LADRegressor(constraints=both, tol=1e-8).fit(X, y)
    G = np.array([[0, 0, 0, 0, 1.0, 0, 0], [1, 0, 0, 0, 0, -1.0, 0]])
    optimum, _ = solve_by_highs(lad_program(X, y, G, [0.5, 0.25], [0.5, 0.25]))
    assert model.objective_ == pytest.approx(optimum, rel=1e-7)
    assert model.coef_[4] == pytest.approx(0.5)
    assert model.coef_[0] - model.coef_[5] == pytest.approx(0.25)


@pytest.mark.parametrize("n", [40, 3000])
def test_a_direction_that_only_a_constraint_knows_stays_of_ordinary_size(n):
    # A constant column beside the intercept, bounded on one side: every value below is as good.
    X, y = data(n=n, m=2)
    X[:, 1] = 3.0
    model = LADRegressor(bounds=Bounds([-1.5, -np.inf], [-0.1, -0.7]), tol=1e-7).fit(X, y)
    rows = np.array([[1.0, 0, 0], [0, 1.0, 0]])
    optimum, _ = solve_by_highs(lad_program(X, y, rows, [-1.5, -np.inf], [-0.1, -0.7]))
    assert model.objective_ == pytest.approx(optimum, rel=1e-6)
    assert model.gap_ <= 1e-6
    assert np.abs(model.coef_).max() < 1e4


def test_equations_that_leave_one_point():
    X, y = data(n=300, m=2)
    fixed = LinearConstraint(np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0], [0.0, 0.0, 1.0]]), [1, 3, 2], [1, 3, 2])
    model = LADRegressor(constraints=fixed).fit(X, y)
    assert np.allclose(model.coef_, [2.0, -1.0])
    assert model.objective_ == pytest.approx(np.abs(y - X @ [2.0, -1.0] - 2.0).sum())
    assert model.gap_ <= 1e-9


def test_equations_on_repeated_columns():
    X, y = data(n=30, m=2)
    X[:, 1] = X[:, 0]
    model = LADRegressor(constraints=LinearConstraint(np.ones(2), 0.7, 0.7), tol=1e-7).fit(X, y)
    z = y - 0.7 * X[:, 0]
    assert model.objective_ == pytest.approx(np.abs(z - np.median(z)).sum(), rel=1e-6)
    few = X[:8].copy()
    few = np.column_stack([few[:, 0], np.random.default_rng(1).normal(size=(8, 3)), few[:, 1]])
    limits = LinearConstraint(
        np.vstack([np.ones(5), [1, -1, 2, 0, 1], np.ones(5)]), [0.5, 0.2, 0.5], [0.5, np.inf, np.inf]
    )
    ridge = LinearSVR(C=2.0, epsilon=0.2, constraints=limits, tol=1e-7).fit(few, y[:8])
    assert ridge.gap_ <= 1e-7
    assert ridge.coef_[0] == pytest.approx(ridge.coef_[4], abs=1e-6)


def test_several_quantiles_and_classes_meet_them_one_by_one():
    X, y = data(n=3000)
    model = QuantileRegressor(quantile=[0.2, 0.5, 0.8], positive=True).fit(X, y)
    assert (model.coef_ >= 0).all()
    assert (model.gap_ <= 1e-4).all()
    labels = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    bounded = LinearSVC(bounds=Bounds(-0.1, 0.2)).fit(X, labels)
    assert np.abs(bounded.coef_ - 0.05).max() <= 0.15 + 1e-15
    assert (bounded.gap_ <= 1e-4).all()


def test_sparse_rows():
    rng = np.random.default_rng(1)
    X = sparse.random_array((4000, 30), density=0.1, random_state=rng, format="csr")
    y = X @ rng.normal(size=30) + rng.laplace(size=4000)
    monotone = LinearConstraint((np.eye(30) - np.eye(30, k=1))[:-1], -np.inf, 0.0)
    dense = LADRegressor(constraints=monotone, positive=True, tol=1e-7).fit(X.toarray(), y)
    model = LADRegressor(constraints=monotone, positive=True, tol=1e-7).fit(X, y)
    assert model.objective_ == pytest.approx(dense.objective_, rel=1e-6)
    assert (np.diff(model.coef_) >= -1e-12).all()


def test_compiled_sparse_rows_stay_sparse():
    rng = np.random.default_rng(2)
    n, m = 60_000, 80
    level = rng.integers(0, m, n)
    X = sparse.csr_array((np.ones(n), level, np.arange(n + 1)), shape=(n, m))
    y = np.sort(rng.normal(size=m))[level] + rng.laplace(size=n)
    model = LADRegressor(bounds=Bounds(-0.5, 0.5), tol=1e-6).fit(X, y)
    assert model.gap_ <= 1e-6
    assert np.abs(model.coef_).max() == 0.5
    # Levels are apart: given the intercept each is a clipped median.
    for j in (0, 40, 79):
        own = y[level == j] - model.intercept_
        at = np.abs(own - model.coef_[j]).sum()
        assert at <= np.abs(own - np.clip(np.median(own), -0.5, 0.5)).sum() + 1e-3 * len(own)


def test_the_start_is_warm_and_feasible():
    X, y = data(n=20_000)
    model = LADRegressor(positive=True, warm_start=True).fit(X, y)
    model.set_params(bounds=Bounds(0.1, 0.4)).fit(X, y)
    assert (model.coef_ >= 0.1).all()
    assert (model.coef_ <= 0.4).all()
    assert model.gap_ <= 1e-4


@pytest.mark.parametrize("init", ["kmeans", "birch", "band"])
def test_every_start_respects_constraints(init):
    X, y = data(n=3000)
    seen = []
    model = LADRegressor(bounds=Bounds(0, 0.5), init=init, callbacks=lambda record: seen.append(record.objective))
    model.fit(X, y)
    optimum = LADRegressor(bounds=Bounds(0, 0.5), tol=1e-9).fit(X, y).lower_bound_
    assert min(seen) >= optimum * (1 - 1e-9)


def test_highs_solves_constrained_aggregated_problems():
    X, y = data(n=2000)
    limits = {"constraints": LinearConstraint(np.ones(4), 1.0, 1.0), "positive": True, "tol": 1e-7}
    one, two = (LADRegressor(solver=solver, **limits).fit(X, y) for solver in ("auto", "highs"))
    assert one.objective_ == pytest.approx(two.objective_, rel=1e-6)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"bounds": Bounds([0, 0, 2, 0], [1, 1, 1, 1])}, "The coefficient of column 2 has no values between 2 and 1"),
        ({"bounds": (0, 1)}, "bounds must be a scipy.optimize.Bounds"),
        ({"bounds": Bounds([0, 0], [1, 1])}, "bounds.lb must have 4 numbers"),
        ({"positive": "yes"}, "positive must be True or False"),
        ({"constraints": {"type": "eq"}}, "constraints must be scipy.optimize.LinearConstraint"),
        ({"constraints": LinearConstraint(np.ones((1, 3)), 0, 1)}, "A must have 4 columns"),
        ({"constraints": LinearConstraint(np.full((1, 4), np.nan), 0, 1)}, "NaN"),
        (
            {"positive": True, "constraints": LinearConstraint(np.ones(4), -2.0, -1.0)},
            "row 0 of constraints cannot be met together with the others",
        ),
        (
            {"constraints": [LinearConstraint(np.eye(4)[:1], 1, 1), LinearConstraint(np.eye(4)[:1], 2, 2)]},
            "cannot be met together",
        ),
        ({"l1_ratio": 1.5, "alpha": 1.0}, "l1_ratio must be a number"),
        ({"l1_ratio": 0.5, "alpha": 1.0, "solver": "highs"}, "linear programs only"),
    ],
)
def test_what_cannot_be_met_is_named_before_the_fit(parameters, sentence):
    X, y = data(n=50)
    with pytest.raises(ValueError, match=sentence):
        LADRegressor(**parameters).fit(X, y)


def test_what_knows_no_constraints_says_so():
    X, y = data(n=200)
    model = LADRegressor(positive=True).fit(X, y)
    with pytest.raises(ValueError, match="constrained fit has no standard errors"):
        model.summary(X, y)
    with pytest.raises(ValueError, match="takes no constrained model"):
        bootstrap(model, X, y)
    with pytest.raises(ValueError, match="knows no constraints"):
        LinearSVC(positive=True, solver="libsvm").fit(X, y > 3)


def test_a_region_of_many_shapes():
    rng = np.random.default_rng(3)
    for _ in range(40):
        p, k = int(rng.integers(1, 6)), int(rng.integers(1, 8))
        scale = 10.0 ** rng.uniform(-6, 6, p)
        inside = rng.normal(size=p) / scale
        A = rng.integers(-2, 3, (k, p)) * scale * 10.0 ** rng.uniform(-3, 3, (k, 1))
        middle = A @ inside
        low = middle - np.abs(middle) * rng.choice([0.0, 0.5], k)
        high = np.where(rng.random(k) < 0.3, middle, np.inf)
        free = np.full(p, np.inf)
        region = Region.of(-free, free, A, low, high)
        assert region.contains(region.centre)
        assert (region.slack(region.centre) > 0).all()
        assert region.contains(region.inside(inside))
        apart = Region.of(-free, free, A, low, high).in_units(1 / scale)
        assert apart.contains(region.centre * scale)


def test_contradictions_agree_with_a_linear_program():
    rng = np.random.default_rng(4)
    n_empty = 0
    for _ in range(60):
        p, k = int(rng.integers(1, 4)), int(rng.integers(2, 7))
        A, low = rng.integers(-2, 3, (k, p)).astype(float), rng.integers(-2, 3, k).astype(float)
        high = low + rng.choice([0.0, 1.0, np.inf], k)
        upper = np.where(np.isfinite(high), high, 1e9)
        answer = linprog(np.zeros(p), np.vstack([A, -A]), np.append(upper, -low), bounds=(None, None))
        free = np.full(p, np.inf)
        if answer.status == 2:
            n_empty += 1
            with pytest.raises(Infeasible):
                Region.of(-free, free, A, low, high)
        else:
            region = Region.of(-free, free, A, low, high)
            product = A @ region.centre
            assert (product >= low - 1e-9).all()
            assert (product <= high + 1e-9).all()
    assert 5 < n_empty < 55


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("equation", [False, True])
def test_bounds_hold_in_every_unit_of_the_target(seed, equation):
    """Targets and coefficients in other units, and P in their inverse square: the optimum is that many times as large.

    Steps of ordinary size from bounds of size 1e-9 made terms of 1e17, whose rounding errors were reported as bounds.
    """
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(4, 30)), int(rng.integers(2, 5))
    X, y = rng.normal(size=(n, m)), rng.normal(size=n)
    root, middle = rng.normal(size=(m, m - 1)), np.abs(rng.normal(size=m))
    least = np.where(rng.random(m) < 0.5, -np.inf, middle - 0.5)
    A = rng.integers(-1, 2, (1, m)).astype(float)
    found = []
    for unit in (1.0, 2.0**-30, 2.0**20):
        given = {"bounds": Bounds(least * unit, (middle + 0.1) * unit)}
        if equation:
            given["constraints"] = LinearConstraint(A, A @ middle * unit, A @ middle * unit)
        loss = {"kinks": [0.1 * unit], "slopes": [-3.0, 5.0], "quadratic": root @ root.T / unit**2}
        model = PiecewiseLinearModel(**loss, **given).fit(X, y * unit)
        # Beside a P of 1/unit^2 the losses are a part ``unit`` of the objective: compare with the exact one.
        v = np.append(model.coef_, model.intercept_) / unit
        z = y - X @ v[:m] - v[m] - 0.1
        losses = unit * np.maximum(-3 * z, 5 * z).sum()
        assert model.lower_bound_ <= model.objective_
        assert model.objective_ == pytest.approx(0.5 * ((root.T @ v[:m]) ** 2).sum() + losses, rel=1e-6)
        found.append((model, unit, v))
    for model, unit, _ in found:
        for _, _, v in found:
            z = y - X @ v[:m] - v[m] - 0.1
            value = 0.5 * ((root.T @ v[:m]) ** 2).sum() + unit * np.maximum(-3 * z, 5 * z).sum()
            assert model.lower_bound_ <= value * (1 + 1e-9)


def test_a_coefficient_of_a_small_number_in_a_constraint_may_be_large():
    """The only feasible points have w_0 near 4.4e7: a solver drops -4.6e-8 unless the column is scaled with its row."""
    X, y = data(40, 4, seed=3)
    row = np.array([-4.61542325e-08, 0.0, 3.00802969e05, 2.42232235e03])
    constraint = LinearConstraint(row[None], -2.03912641, -2.03912641)
    model = LADRegressor(positive=True, constraints=constraint, fit_intercept=False).fit(X, y)
    assert row @ model.coef_ == pytest.approx(-2.03912641, rel=1e-6)
    assert model.lower_bound_ <= model.objective_
