"""Starts whose Newton steps do not settle, and what they save in passes."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from aidlearn import LinearSVC
from aidlearn.data import as_source
from aidlearn.data.chunk import Chunk
from aidlearn.data.moments import inspect
from aidlearn.data.run import Run
from aidlearn.linear import compiled, plain
from aidlearn.linear.design import Design
from aidlearn.linear.draw import _bins_and_sides
from aidlearn.linear.layout import Layout, sums_over_rows
from aidlearn.linear.losses import hinge
from aidlearn.linear.metric import _carrying
from aidlearn.linear.newton import _thinned
from aidlearn.linear.passes import Split


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
    split = Split(0.05, 1.0, 4, np.array([0.0]), 2 * 4 * 2 * 4, 0.5, sides)
    leverage = np.full(600, 0.1, dtype=np.float32)
    one, two = (passes.groups(design, chunk, point, leverage, split) for passes in (plain, compiled))
    np.testing.assert_array_equal(one.labels, two.labels)
    np.testing.assert_array_equal(one.counts, two.counts)
    np.testing.assert_allclose(one.sums, two.sums, atol=1e-9)
    # A group has rows of one side of every plane.
    above = np.asarray(X @ sides[:, :-1].T) + sides[:, -1] > 0
    for group in np.unique(one.labels):
        assert len(np.unique(above[one.labels == group], axis=0)) == 1


def test_many_planes_take_the_place_of_bins_where_sums_cost_no_more_than_rows():
    dense = SimpleNamespace(n_variables=7, layout=None)
    assert _bins_and_sides(dense, 6, 3000.0) == (1, 11)
    assert _bins_and_sides(dense, 6, 20.0) == (6, 1)  # few single rows: few groups
    layout = Layout(np.array([400]), np.arange(400), filled=3.0, stored=3.0)
    assert sums_over_rows(401, layout) > 20  # sums of sparse rows are dense
    assert _bins_and_sides(SimpleNamespace(n_variables=401, layout=layout), 32, 3000.0) == (32, 3)


def test_an_overshooting_solution_is_held_by_groups_that_differ_in_every_direction():
    """A rare class that no row is told apart from: at the optimum most rows of the other one are on the margin."""
    rng = np.random.default_rng(0)
    n = 60_000
    X = (rng.random((n, 20)) < rng.uniform(0.1, 0.6, 20)).astype(float)
    y = np.where(rng.random(n) < 0.02 + 0.02 * X[:, 0] * X[:, 1], 1.0, -1.0)
    iterations = [LinearSVC(C=1.0, tol=1e-4, random_state=seed).fit(X, y).n_iter_ for seed in range(4)]
    assert iterations == [1] * 4  # with bins of distance: 2, the first solution 66 to 114 times the optimum


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


def test_thinned_rows_stand_for_all_whatever_their_leverage():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000, 3))
    rows[:, 2] = 0
    rows[::200, 2] = 1  # a level of a hundred rows
    leverage = np.sqrt(np.einsum("ij,ij->i", rows @ np.linalg.inv(rows.T @ rows), rows))
    kept, factor = _thinned(leverage, np.ones(len(rows)), 20)
    assert 500 < len(kept) < 1500
    gram = (rows[kept] * factor[:, None]).T @ rows[kept]
    np.testing.assert_allclose(np.diag(gram), np.diag(rows.T @ rows), rtol=0.2)
    assert rows[kept, 2].sum() > 30  # every twentieth would have left five


def test_rows_that_carry_a_column_are_found():
    X, y = classes()
    X[:, 3] = 0
    X[[5, 70, 900], 3] = 1
    for storage in (np.asarray, sparse.csr_matrix):
        rows = storage(X)
        _, design = designed(rows, y)
        found = _carrying(design, Chunk(0, len(y), rows, y, np.ones(len(y))), np.array([3]))
        dense = found.X.toarray() if sparse.issparse(found.X) else found.X
        np.testing.assert_array_equal(dense, X[[5, 70, 900]])


def test_duals_need_no_pass_where_weights_are_one():
    X, y = classes()
    plainly = LinearSVC(C=0.1, tol=1e-6).fit(X, y)
    weighted = LinearSVC(C=0.05, tol=1e-6).fit(X, y, np.full(len(y), 2.0))
    assert plainly.n_passes_ == weighted.n_passes_ - 1
    # Both are the same problem: w = sum of duals times rows.
    for model in (plainly, weighted):
        np.testing.assert_allclose(model.dual_coef_[0] @ X[model.support_], model.coef_[0], atol=1e-3)
        assert abs(model.dual_coef_).max() <= 0.1 * (1 + 1e-9)


def test_rare_classes_take_two_iterations_and_eight_passes():
    rng = np.random.default_rng(3)
    n = 30_000
    y = (rng.random(n) < 0.02).astype(float)
    X = rng.normal(size=(n, 20)) + 0.3 * y[:, None]
    for seed in range(3):
        model = LinearSVC(C=1.0, random_state=seed).fit(X, y)
        assert model.gap_ <= 1e-4
        assert model.n_iter_ <= 2
        assert model.n_passes_ <= 8
