"""Starts whose Newton steps do not settle, and what they save in passes."""

import numpy as np
import pytest
from scipy import sparse

from aidlearn import LinearSVC
from aidlearn.data import as_source
from aidlearn.data.passes.moments import inspect
from aidlearn.data.passes.run import Run
from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.problem import Incumbent, Solution
from aidlearn.engine.sums import Assignment
from aidlearn.linear.aggregated.solvers import SOLVERS
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import Metric, NormalEquations
from aidlearn.linear.model.losses import hinge
from aidlearn.linear.passes.compiled import COMPILED
from aidlearn.linear.passes.in_numpy import NUMPY
from aidlearn.linear.passes.records import ByColumn, Grouping
from aidlearn.linear.problem import PiecewiseLinear, Procedure
from aidlearn.linear.rows.columns import Costs
from aidlearn.linear.start.plan import Plan, Reached, bins_and_planes, rare_columns
from aidlearn.linear.start.samples import ByLeverage, Samples
from aidlearn.linear.start.sharpen import Band


def classes(n=4000, m=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    return X, (X[:, 0] + rng.normal(size=n) > 1.5).astype(float)


def designed(X, y):
    run = Run(as_source(X, y))
    return run, Design.of(hinge(1.0, 1.0), inspect(run, True), ridge=1.0)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix])
def test_sides_part_groups_alike_in_both_versions_of_the_pass(storage):
    X, y = classes(600)
    X = storage(X)
    _, design = designed(X, y)
    chunk = Chunk(0, 600, X, y, np.ones(600))
    rng = np.random.default_rng(1)
    point, sides = rng.normal(size=7) * 0.3, rng.normal(size=(2, 7))
    grouping = Grouping(0.05, 1.0, 4, np.array([0.0]), 2 * 4 * 2 * 4, 0.5, sides=sides)
    leverage = np.full(600, 0.1, dtype=np.float32)
    one, two = (passes.groups(design, chunk, point, leverage, grouping) for passes in (NUMPY, COMPILED))
    np.testing.assert_array_equal(one.labels, two.labels)
    np.testing.assert_array_equal(one.counts, two.counts)
    np.testing.assert_allclose(one.sums, two.sums, atol=1e-9)
    # A group has rows of one side of every plane.
    above = np.asarray(X @ sides[:, :-1].T) + sides[:, -1] > 0
    for group in np.unique(one.labels):
        assert len(np.unique(above[one.labels == group], axis=0)) == 1


@pytest.mark.parametrize("n_bins", [1, 2, 6, 32])
def test_groups_ofbins_and_planes_grow_with_the_single_rows_and_never_outnumber_them(n_bins):
    before = 0
    for n_single in np.geomspace(n_bins, 1e6, 60):
        bins, planes = bins_and_planes(n_bins, n_single)
        n_groups = bins * 2**planes
        assert before <= n_groups <= n_single
        assert bins in (1, n_bins)
        before = n_groups


def categories(n, sizes, seed=0):
    """Dummies of factors whose levels are rarer and rarer."""
    rng = np.random.default_rng(seed)
    blocks = []
    for size in sizes:
        frequency = 1 / np.arange(1, size + 1)
        codes = rng.choice(size, size=n, p=frequency / frequency.sum())
        blocks.append(sparse.csr_matrix((np.ones(n), (np.arange(n), codes)), shape=(n, size))[:, 1:])
    return sparse.csr_matrix(sparse.hstack([sparse.csr_matrix(rng.normal(size=(n, 2))), *blocks])), rng


def test_rows_of_rare_columns_are_grouped_alike_in_both_versions_of_the_pass():
    X, rng = categories(3000, (30, 12))
    y = (rng.random(3000) < 0.3).astype(float)
    X = sparse.csr_matrix(sparse.diags((np.arange(3000) != 7).astype(float)) @ X)
    X.eliminate_zeros()  # a row without any number
    _, design = designed(X, y)
    m = X.shape[1]
    filled = np.asarray((X != 0).mean(axis=0)).ravel()
    rare = np.flatnonzero(filled < 0.05)
    rare = rare[np.argsort(filled[rare])]
    part = np.full(m, 9, dtype=np.int32)
    part[rare] = np.arange(len(rare)) * 9 // len(rare)
    grouping = Grouping(0.05, 1.0, 4, np.array([0.0]), 4 * (4 + 9), 0.5, by_column=ByColumn(part, 9, 4 * 4))
    chunk, point = Chunk(0, 3000, X, y, np.ones(3000)), rng.normal(size=m + 1) * 0.3
    one, two = (passes.groups(design, chunk, point, np.full(3000, 0.1), grouping) for passes in (NUMPY, COMPILED))
    np.testing.assert_array_equal(one.labels, two.labels)
    np.testing.assert_array_equal(one.alone, two.alone)
    np.testing.assert_array_equal(one.counts, two.counts)
    np.testing.assert_allclose(one.sums, two.sums, atol=1e-9)
    # Every row is where the rarest of its columns says, and rows of none of them are in the bins.
    rarest = [min((part[j] for j in X[i].indices), default=9) for i in range(3000)]
    sides = design.margins(chunk, point) > 0
    expected = 16 + (sides + 2 * (y == 1)) * 9 + np.array(rarest)
    np.testing.assert_array_equal(
        np.where(one.labels < 16, 9, one.labels), np.where(np.array(rarest) == 9, 9, expected)
    )


def test_columns_share_groups_where_sums_are_dear():
    X, rng = categories(20_000, (400,))
    y = (rng.random(20_000) < 0.3).astype(float)
    run, design = designed(X, y)
    costs = Costs.of(design.n_variables, design.layout)
    assert costs.sum > 20 * costs.row  # sums of sparse rows are dense
    filled = np.asarray((X != 0).sum(axis=0)).ravel()
    # Columns filled less than a bin, but with more rows than are single anyway.
    rare = (filled > 50) & (filled < 20_000 / 32)
    columns = rare_columns(design, 20_000, 32)
    np.testing.assert_array_equal(np.sort(columns), np.flatnonzero(rare))
    problem = PiecewiseLinear(run, design, Procedure(SOLVERS["auto"], Band()))
    samples = Samples(run, design, np.random.default_rng(0))
    point = np.zeros(design.n_variables)
    plan = Plan.of(problem, samples.at(design, point), Reached(point, 1.0, settled=False))
    by = plan.by_column(design)
    assert 0 < by.n_parts < len(columns)
    assert by.n_parts * plan.n_kinds * costs.sum <= 2 * max(plan.n_single, np.sqrt(401 * 20_000)) * costs.row
    assert ((by.part < by.n_parts) == rare).all()
    assert (np.diff(by.part[columns]) >= 0).all()  # the rarest first
    assert plan.n_groups == 4 * (plan.n_bins + by.n_parts)


def test_the_aggregated_problem_is_the_original_one_where_that_costs_no_more():
    """Short sparse rows beside many columns: sums are dense, and cost as much as a hundred rows."""
    rng = np.random.default_rng(0)
    n, sizes = 40_000, (300, 60, 30, 30, 20)
    blocks = [
        sparse.csr_matrix((np.ones(n), (np.arange(n), rng.integers(0, size, n))), shape=(n, size)) for size in sizes
    ]
    X = sparse.csr_matrix(sparse.hstack([block[:, 1:] for block in blocks]))
    y = np.where(X @ rng.normal(size=X.shape[1]) * 0.3 + rng.logistic(size=n) > 0.3, 1.0, -1.0)
    model = LinearSVC(C=1.0, tol=1e-4, random_state=0).fit(X, y)
    assert model.n_clusters_ == n
    assert model.n_iter_ == 1
    X, rng = categories(20_000, (200, 50))  # few levels predict a class: many steps, and groups that pay
    y = np.where(X @ rng.normal(size=X.shape[1]) * 3 > 9, 1.0, -1.0)
    grouped = LinearSVC(C=1.0, tol=1e-4, random_state=0).fit(X, y)
    assert grouped.n_clusters_ < 20_000
    for plan in (model.plan_, grouped.plan_):
        assert plan["all_rows"] == (plan["all_rows_cost"] <= plan["solve_cost"])


def test_a_plan_is_kept_where_there_is_one():
    X, y = classes()
    plan = LinearSVC(C=0.1, random_state=0).fit(X, y).plan_
    assert (plan["n_rows"], plan["n_variables"]) == (4000, 7)
    assert LinearSVC(C=0.1, init="kmeans").fit(X, y).plan_ == {}


def test_rows_tied_on_their_kink_stay_together():
    """A constant predicts a class that has hardly another beside it: all of its rows are at distance 0."""
    rng = np.random.default_rng(1)
    n = 50_000
    y = np.where(rng.random(n) < 0.0005, 1.0, -1.0)
    X = rng.normal(size=(n, 10)) * (1 + (y > 0)[:, None])
    X[:, :2] += 4.2 * (y > 0)[:, None]
    model = LinearSVC(C=1.0, tol=1e-4, random_state=1).fit(X, y)
    assert model.gap_ <= 1e-4
    assert model.n_clusters_ < 0.1 * n  # every row had one


def test_rows_picked_by_leverage_stand_for_all_of_every_column_and_class():
    X, rng = categories(30_000, (200,))
    y = (rng.random(30_000) < 0.05).astype(float)
    run, design = designed(X, y)
    classes_of = NormalEquations.of_classes(design, run)
    whole = NormalEquations.of_all(design, run)
    np.testing.assert_allclose((classes_of[0] + classes_of[1]).gram, whole.gram, atol=1e-8)
    np.testing.assert_allclose((classes_of[0] + classes_of[1]).right, whole.right, atol=1e-8)
    metrics = [Metric.of(design, found.gram) for found in classes_of]
    pick = ByLeverage(design, metrics, 3000, 0.4, NUMPY)
    picked = pick(Chunk(0, 30_000, X, y, np.ones(30_000)))
    assert 1500 < picked.n_entries <= 3001
    np.testing.assert_allclose(picked.weight.sum(), 30_000, rtol=0.05)
    for label in (0.0, 1.0):
        here, all_here = picked.y == label, y == label
        total = np.asarray(X[all_here].sum(axis=0)).ravel()[2:]
        estimate = (X_picked := picked.X[here].toarray())[:, 2:].T @ picked.weight[here]
        rows = (X_picked[:, 2:] != 0).sum(axis=0)
        few = (total > 0) & (total <= 2)
        assert few.any() == (label == 1)
        # The only ones of their class in a level: a systematic sample would have one of ten.
        assert rows[few].sum() >= 0.5 * total[few].sum()
        deviation = np.sqrt((X_picked[:, 2:] != 0).T @ picked.weight[here] ** 2)
        assert (np.abs(estimate - total) <= 4 * deviation)[rows > 0].all()


@pytest.mark.parametrize("sort", [False, True])
def test_chunks_without_a_row_of_a_class(sort):
    rng = np.random.default_rng(0)
    X = rng.standard_t(1.5, size=(100_000, 8))
    y = np.arange(100_000) >= 50_000 if sort else rng.random(100_000) < 2e-4
    assert LinearSVC(C=0.01, tol=1e-3).fit(X, y).gap_ <= 1e-3


def test_the_smallest_groups_become_single_with_a_split_and_emptied_clusters_go():
    X, y = classes(20_000, 8)
    run, design = designed(X, y)
    problem = PiecewiseLinear(run, design, Procedure(SOLVERS["auto"], Band()))
    given = np.where(np.arange(20_000) < 600, np.arange(20_000) // 3, 200 + np.arange(20_000) % 4).astype(np.int32)
    clusters, _ = Clusters.build(problem, lambda chunk, state: Assignment(given[chunk.start : chunk.stop]), 204)
    rng = np.random.default_rng(0)
    incumbent, solution = Incumbent(rng.normal(size=9), 1.0), Solution(rng.normal(size=9), 0.0)
    trial = problem.split_trial(solution, incumbent, clusters)
    sizes, groups = clusters.counts, clusters.counts > 1
    assert 0 < sizes[trial.dissolved].sum() <= clusters.n_clusters / 2 + sizes[trial.dissolved].max()
    assert sizes[trial.dissolved].max() <= sizes[groups & ~trial.dissolved].min()
    clusters.decluster(clusters.check(trial))
    labels = clusters.labels()
    assert (clusters.counts[labels[trial.dissolved[given]]] == 1).all()
    assert (clusters.counts > 0).all()
    np.testing.assert_array_equal(np.bincount(labels), clusters.counts)
    chunk = Chunk(0, len(y), X, y, np.ones(len(y)))
    np.testing.assert_allclose(clusters.store.array(), design.aggregate(chunk, labels, clusters.n_clusters), atol=1e-8)


def test_duals_need_no_pass_where_weights_are_one():
    X, y = classes()
    plainly = LinearSVC(C=0.1, tol=1e-6).fit(X, y)
    weighted = LinearSVC(C=0.05, tol=1e-6).fit(X, y, np.full(len(y), 2.0))
    assert plainly.n_passes_ < weighted.n_passes_
    # Both are the same problem: w = sum of duals times rows.
    for model in (plainly, weighted):
        np.testing.assert_allclose(model.dual_coef_[0] @ X[model.support_], model.coef_[0], atol=1e-3)
        assert abs(model.dual_coef_).max() <= 0.1 * (1 + 1e-9)
