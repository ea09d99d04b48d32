"""Members on one partition: bounds are valid for each of them, ties are no obstacle, passes agree with their twins."""

import numpy as np
import pytest
from scipy import sparse

from aidlearn import LinearSVC, LinearSVCCV, open_source
from aidlearn.data.passes.moments import inspect
from aidlearn.data.passes.run import Run
from aidlearn.data.passes.transforms import Exponential, Folds
from aidlearn.data.rows.arrays import ArraySource
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.loop import aid
from aidlearn.engine.progress import Limits
from aidlearn.engine.sums import Assignment
from aidlearn.linear.aggregated.solvers import SOLVERS
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import hinge, pinball
from aidlearn.linear.passes.compiled import COMPILED
from aidlearn.linear.passes.in_numpy import NUMPY
from aidlearn.linear.passes.records import MemberLosses
from aidlearn.linear.problem import PiecewiseLinear, Procedure
from aidlearn.linear.start.sharpen import Band
from aidlearn.neighbours import shared_clusters as together
from aidlearn.neighbours.batch import Member
from oracles import highs_quantile


def tied(n=6000, p=8, seed=0, rare=0.03):
    """Attributes that are there or not, and a class so rare that the best plane puts most rows on the margin."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n, p)) < rng.uniform(0.1, 0.6, p)).astype(float)
    y = rng.random(n) < rare * (1 + X[:, 0] + 2 * X[:, 1])
    return X, y


def problem_of(X, y, loss, members, weights, n_groups=None, weight=None):
    weight = np.ones(len(y)) if weight is None else weight
    run = Run(ArraySource(X, y.astype(float), weight), compiled=False)
    design = Design.of(loss, inspect(run, True), fit_intercept=True, ridge=1.0 if loss.classifies else 0.0)
    fitted = PiecewiseLinear(run, design, Procedure(SOLVERS["auto"], Band(), rng=np.random.default_rng(0)))
    if n_groups is None:
        partition = aid(fitted, Limits(tol=1e-4)).clusters
    else:
        rng = np.random.default_rng(1)
        partition, _ = Clusters.build(
            fitted, lambda chunk, state: Assignment(rng.integers(0, n_groups, chunk.n_entries)), n_groups
        )
    return together.Together(run, design, members, weights, partition)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("n_groups", [1, 40])
def test_bounds_of_any_partition_against_highs(storage, n_groups):
    """Quantiles with the weights of replicates, some of them 0, and a column that has rows in some folds only."""
    rng = np.random.default_rng(0)
    n = 1200
    X = np.round(rng.normal(size=(n, 3)), 1)
    X[:, 2] = np.where(np.arange(n) < 300, X[:, 2], 0.0)
    y = np.round(X @ [1.0, 2.0, 3.0] + rng.laplace(size=n), 1)
    weight = rng.integers(0, 3, n).astype(float)
    folds = Folds.of([(np.arange(300, n), np.arange(300)), (np.arange(900), np.arange(900, n))], n)
    members = [Member(pinball(tau), fold) for tau in (0.2, 0.5) for fold in range(2)]
    problem = problem_of(storage(X), y, pinball(0.5), members, folds, n_groups, weight)
    points = dict.fromkeys(range(4), np.array([1.0, 2.0, 3.0, 0.0]))
    found = together.solve_together(problem, range(4), points, 1e-6)
    for k, member in enumerate(members):
        own = weight * folds.training[member.replicate]
        best = highs_quantile(X, y, 1 - member.loss.tilts[0], own)
        assert found[k].lower_bound <= best * (1 + 1e-9)
        assert found[k].objective >= best * (1 - 1e-9)
        assert found[k].gap <= 1e-6
        z = y - X @ found[k].point[:3] - found[k].point[3]
        tau = 1 - member.loss.tilts[0]
        assert found[k].objective == pytest.approx(own @ np.maximum(tau * z, (tau - 1) * z), rel=1e-12)
    assert found[0].point[2] == 0  # no row of the first fold has it


def test_replicates_of_a_classifier_against_fits_of_their_own():
    X, y = tied()
    members = [Member(hinge(C, 1.0), replicate) for C in (0.01, 1.0, 100.0) for replicate in range(3)]
    weights = Exponential(3)
    problem = problem_of(X, y, hinge(1.0, 1.0), members, weights)
    found = together.solve_together(problem, range(9), dict.fromkeys(range(9), np.zeros(9)), 1e-5)
    for k, member in enumerate(members):
        own = weights(0, len(y), [member.replicate])[0]
        single = LinearSVC(C=member.loss.scale, tol=1e-9).fit(X, y, own)
        assert found[k].gap <= 1e-5
        assert found[k].lower_bound <= single.objective_ * (1 + 1e-9)
        assert single.lower_bound_ * (1 - 1e-9) <= found[k].objective <= single.objective_ * (1 + 1.1e-5)


def test_folds_share_clusters_where_rows_are_tied(tmp_path):
    X, y = tied(20_000)
    model = LinearSVCCV(Cs=4, cv=3, tol=1e-5).fit(X, y)
    assert model.n_refitted_ == 0
    assert model.gaps_.max() <= 1e-5
    assert model.n_passes_ < 60
    train = np.arange(len(y)) % 3 > 0
    split = LinearSVCCV(Cs=[0.1], cv=[(np.flatnonzero(train), np.flatnonzero(~train))], tol=1e-8).fit(X, y)
    single = LinearSVC(C=0.1, tol=1e-8).fit(X[train], y[train])
    point = split.coefs_paths_[0, 0]
    loss = np.maximum(0, 1 - np.where(y[train], 1, -1) * (X[train] @ point[:-1] + point[-1])).sum()
    assert 0.5 * point[:-1] @ point[:-1] + 0.1 * loss == pytest.approx(single.objective_, rel=2e-8)
    assert split.scores_[0, 0] == single.score(X[~train], y[~train])
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    again = LinearSVCCV(Cs=4, cv=3, tol=1e-5).fit(open_source(tmp_path / "rows.npy", target=-1))
    assert np.array_equal(again.coefs_paths_, model.coefs_paths_)


def test_a_fold_without_the_rare_class():
    X, y = tied(5000)
    order = np.argsort(y, kind="stable")
    common = np.flatnonzero(~y[order])
    cv = [(common, np.arange(len(y))), (np.arange(0, len(y), 2), np.arange(1, len(y), 2))]
    model = LinearSVCCV(Cs=[0.1, 10.0], cv=cv).fit(X[order], y[order])
    assert model.gaps_.max() <= 1e-4
    assert np.abs(model.coefs_paths_[0, :, :-1]).max() < 1e-6


@pytest.mark.parametrize("positive", [np.nan, 1.0])
@pytest.mark.parametrize("alike", [True, False])
def test_segments_agree_with_their_compiled_twin(positive, alike):
    rng = np.random.default_rng(0)
    n, n_members, n_kinks = 300, 5, 2
    ends, origins = rng.normal(size=(n, n_members)), rng.normal(size=(n, 1 if alike else n_members))
    y = rng.integers(0, 2, n).astype(float)
    weight, of = rng.integers(0, 3, (n, 3)).astype(float), rng.integers(0, 3, n_members)
    kinks = np.sort(rng.normal(size=(n_kinks, n_members)), axis=0)
    right, left = rng.random((n_kinks, n_members)), -rng.random((n_kinks, n_members))
    losses = MemberLosses(positive, np.ones(n_members), kinks, right, left)
    labels, homes = rng.integers(0, 7, n).astype(np.int32), rng.integers(0, 3, (7, 2, n_members)).astype(np.int8)
    given = (ends, origins, y, weight, of, losses, labels, homes)
    codes, theirs = np.zeros(n, dtype=np.int16), np.zeros(n, dtype=np.int16)
    totals = NUMPY.segments(*given, codes)
    assert np.allclose(totals, COMPILED.segments(*given, theirs), rtol=1e-12)
    assert np.array_equal(codes, theirs)
    assert (codes != 0).any()
    everywhere = np.zeros((0, 2, n_members), dtype=np.int8)
    nothing = np.zeros(n, dtype=np.int16)
    assert np.allclose(totals, NUMPY.segments(*given[:-1], everywhere, nothing))
    assert not nothing.any()
