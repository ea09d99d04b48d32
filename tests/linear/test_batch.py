"""Batches of neighbouring problems: bounds are valid whatever is near, and passes agree with their compiled twins."""

import numpy as np
import pytest
from scipy import sparse

from aidlearn import LinearSVCCV, PiecewiseLinearModel, QuantileRegressor, open_source
from aidlearn.data.passes.moments import inspect
from aidlearn.data.passes.run import Run
from aidlearn.data.passes.transforms import Multinomial
from aidlearn.data.rows.arrays import ArraySource
from aidlearn.data.rows.chunk import Chunk
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import Hinge, Loss, epsilon_insensitive, hinge, piecewise_linear, pinball
from aidlearn.linear.passes.compiled import COMPILED
from aidlearn.linear.passes.in_numpy import NUMPY
from aidlearn.linear.passes.records import MemberLosses, Reach
from aidlearn.neighbours.batch import Batch, Member
from aidlearn.neighbours.corridors import Corridor
from oracles import highs_quantile


def table(n=1500, p=4, seed=0, zeros=True):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    X[:, 1] = rng.random(n) < 0.02
    y = X @ np.arange(1.0, p + 1) + (0.2 + np.abs(X[:, 0])) * rng.standard_t(3, n)
    return X, y, rng.integers(0 if zeros else 1, 3, n).astype(float)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("seed", range(3))
def test_bounds_of_many_quantiles_against_highs(storage, seed):
    X, y, weight = table(seed=seed)
    X[:, 3] = 0.0  # an empty column
    taus = [0.03, 0.04, 0.05, 0.3, 0.32, 0.34, 0.36, 0.9, 0.97]
    model = QuantileRegressor(quantile=taus, tol=1e-6).fit(storage(X), y, weight)
    assert model.n_passes_ < 3 * len(taus)
    assert (model.coef_[:, 3] == 0).all()
    for tau, objective, bound in zip(taus, model.objective_, model.lower_bound_, strict=True):
        best = highs_quantile(X, y, tau, weight)
        assert bound <= best * (1 + 1e-9)
        assert best * (1 - 1e-9) <= objective <= best * (1 + 1.1e-6)


@pytest.mark.parametrize("reach", [0.0, 1.0, 30.0, np.inf])
@pytest.mark.parametrize("off", [0.0, 1.0])
def test_bounds_are_valid_whatever_is_near(reach, off):
    """Corridors far from the solutions, or without width, weaken bounds and never make them false."""
    X, y, weight = table()
    run = Run(ArraySource(X, y, weight), compiled=False)
    design = Design.of(pinball(0.5), inspect(run, True))
    taus = [0.2, 0.5, 0.6]
    batch = Batch(run, design, [Member(pinball(tau)) for tau in taus], tol=1e-6)
    best = [highs_quantile(X, y, tau, weight) for tau in taus]
    start = np.append(np.arange(1.0, 5.0) + off, off)
    given = []

    def refit(number, member, point):
        assert member is batch.members[number]
        given.append(number)
        return seen[number]

    seen = {}
    found = batch.solve([Corridor(range(3), (start, start), reach, 10.0)], refit, done=seen.update)
    for solved, optimum in zip(found.values(), best, strict=True):
        assert solved.lower_bound <= optimum * (1 + 1e-9)
        assert optimum * (1 - 1e-9) <= solved.objective
    if reach == np.inf:
        assert not given
        assert max(solved.gap for solved in found.values()) <= 1e-6


def test_members_respect_the_jumps_of_a_loss():
    """Bounds of a loss whose slope jumps by different amounts are valid and close the gap without a fit."""
    X, y, weight = table()
    run = Run(ArraySource(X, y, weight), compiled=False)
    loss = piecewise_linear([-1.0, 0.5], [-1.0, 0.0, 3.0])
    batch = Batch(run, Design.of(loss, inspect(run, True)), [Member(loss)], tol=1e-6)
    model = PiecewiseLinearModel(kinks=[-1.0, 0.5], slopes=[-1.0, 0.0, 3.0], tol=1e-9).fit(X, y, weight)
    start = np.append(model.coef_, model.intercept_) + 0.01
    fits = []

    def refit(number, member, point):
        fits.append(number)
        return seen[number]

    seen = {}
    solved = batch.solve([Corridor(range(1), (start, start), np.inf, 10.0)], refit, done=seen.update)[0]
    assert not fits
    assert solved.lower_bound <= model.objective_ * (1 + 1e-9)
    assert model.lower_bound_ * (1 - 1e-9) <= solved.objective
    assert solved.gap <= 1e-6


def designs(loss, X, y, weight, fit_intercept):
    source = ArraySource(X, y, weight)
    return Design.of(loss, inspect(Run(source, compiled=False), fit_intercept), fit_intercept=fit_intercept)


@pytest.mark.parametrize("l1_ratio", [0.0, 0.3, 1.0])
def test_penalties_of_members_grow_with_their_weights(l1_ratio):
    """Replicates of an elastic net are the fits of the reweighted rows: ridge and l1 are per unit of weight."""
    X, y, weight = table(1000)
    model = QuantileRegressor(quantile=0.3, alpha=0.1, l1_ratio=l1_ratio, tol=1e-9).fit(X, y, weight)
    rows, weights = model._measured(Run(ArraySource(X, y, weight), compiled=False)), Multinomial(3, 1000)
    design, start = model._designs(rows)[0], rows.points(model.coef_, model.intercept_)[0]
    batch = Batch(rows.run, design, [Member(design.loss, 0), Member(design.loss, 1)], weights, tol=1e-6)
    for replicate, solved in batch.solve([Corridor(range(2), (start, start), np.inf, 10.0)]).items():
        own = weight * weights(0, 1000, [replicate])[0]
        alone = QuantileRegressor(quantile=0.3, alpha=0.1, l1_ratio=l1_ratio, tol=1e-9).fit(X, y, own)
        assert solved.lower_bound <= alone.objective_ * (1 + 1e-9)
        assert alone.lower_bound_ * (1 - 1e-9) <= solved.objective <= alone.objective_ * (1 + 1e-5)


def test_a_loss_that_folds_targets_in_its_own_way_is_refused():
    class Mirrored(Loss):
        def fold(self, y):
            return None, -y

    loss = Mirrored(1.0, (0.0,), (0.3,))
    X, y, weight = table(200)
    chunk, reach = Chunk(0, 200, X, y, weight), Reach(2.0, 30.0, 0.5)
    design = designs(loss, X, y, weight, True)
    point = np.ones(design.n_variables)
    assert np.allclose(design.margins(chunk, point), -y - X.sum(axis=1) - 1)
    for refused in (
        lambda: COMPILED.local_sums(design, chunk, point, 0.1, 1.0),
        lambda: COMPILED.between(design, chunk, design.planes(point), 0.1, reach),
        lambda: MemberLosses.of([loss]),
    ):
        with pytest.raises(NotImplementedError, match="Mirrored folds targets in its own way"):
            refused()


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", [pinball(0.3), hinge(2.0), epsilon_insensitive(1.0, 0.5)], ids=["tau", "svm", "svr"])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array, np.float32], ids=["dense", "sparse", "float32"])
def test_compiled_passes_are_those_of_numpy(loss, storage, fit_intercept):
    X, y, weight = table(1000)
    y = (y > 0).astype(float) if loss.classifies else y
    stored = storage(X)
    design = designs(loss, stored, y, weight, fit_intercept)
    rng = np.random.default_rng(1)
    chunk = Chunk(0, 1000, stored, y, weight)
    points = rng.normal(size=(2, design.n_variables))
    for planes in (design.planes(*points), design.planes(points[0])):
        for leverage in (0.1, np.abs(rng.normal(size=1000)).astype(np.float32) / 3):
            arguments = design, chunk, planes, leverage, Reach(2.0, 30.0, 0.5)
            one, two = NUMPY.between(*arguments), COMPILED.between(*arguments)
            assert np.array_equal(one.near, two.near)
            assert np.array_equal(one.regions, two.regions)
            assert np.array_equal(one.counts, two.counts)
            assert np.allclose(one.sums, two.sums, rtol=1e-5 if storage is np.float32 else 1e-10, atol=1e-8)
            assert 0 < len(one.near) < 1000


def test_compiled_losses_and_crossings_are_those_of_numpy():
    rng = np.random.default_rng(0)
    scores, levels, y = rng.normal(size=(300, 5)), rng.normal(size=5), rng.normal(size=300)
    shapes = [(tuple(np.sort(rng.normal(size=2))), tuple(rng.random(2)), tuple(rng.random(2))) for _ in range(5)]
    for kind, target in ((Loss, y), (Hinge, (y > 0).astype(float))):
        losses = [kind(2.0, *shape) for shape in shapes]
        packed = MemberLosses.of(losses)
        for of, n in (([], 1), ([], 5), ([1, 0, 1, 1, 0], 2)):
            factors, of = rng.random((300, n)), np.array(of, dtype=np.int64)
            own = np.broadcast_to(factors[:, of] if len(of) else factors, scores.shape)
            margins = [loss.margins(target, scores[:, k] + levels[k]) for k, loss in enumerate(losses)]
            expected = [own[:, k] @ loss.values(z) for k, (loss, z) in enumerate(zip(losses, margins, strict=True))]
            for passes in (NUMPY, COMPILED):
                found = passes.losses(scores, levels, target, factors, of, packed)
                assert np.allclose(found * packed.scale, expected, rtol=1e-12)
    weight = rng.integers(0, 2, 300).astype(float)
    assert NUMPY.crossings(scores, levels, weight) == COMPILED.crossings(scores, levels, weight) > 0


def test_quantiles_of_memory_and_file_are_the_same(tmp_path):
    X, y, _ = table(30_000)
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    taus = np.arange(40, 56) / 100
    memory = QuantileRegressor(quantile=taus, tol=1e-6).fit(X, y)
    file = QuantileRegressor(quantile=taus, tol=1e-6).fit(open_source(tmp_path / "rows.npy", target=-1))
    assert np.array_equal(memory.coef_, file.coef_)
    assert np.array_equal(memory.lower_bound_, file.lower_bound_)
    assert memory.crossings_ == file.crossings_
    assert memory.n_passes_ <= 8


def test_targets_far_from_zero_have_rounded_objectives():
    X, y, weight = table(5000)
    taus = [0.48, 0.5, 0.52]
    far = QuantileRegressor(quantile=taus, tol=1e-6).fit(X, y + 1e9, weight)
    near = QuantileRegressor(quantile=taus, tol=1e-6).fit(X, y, weight)
    assert far.gap_.max() <= 1e-6
    assert np.allclose(far.objective_, near.objective_, rtol=1e-5)
    assert np.allclose(far.coef_, near.coef_, atol=1e-2)


def test_a_resumed_batch_has_the_bits_of_an_uninterrupted_one(tmp_path):
    X, y, weight = table(30_000)
    parameters = {"quantile": np.arange(30, 66) / 100, "tol": 1e-6}
    expected = QuantileRegressor(**parameters, checkpoint=tmp_path / "whole").fit(X, y, weight)
    path = tmp_path / "part"
    seen = []

    def stop(record):
        seen.append(record)
        return len(seen) == 15

    stopped = QuantileRegressor(**parameters, checkpoint=path, callbacks=stop).fit(X, y, weight)
    assert len({str(status) for status in stopped.status_}) == 2
    again = QuantileRegressor(**parameters, checkpoint=path).fit(X, y, weight)
    assert np.array_equal(again.coef_, expected.coef_)
    assert np.array_equal(again.intercept_, expected.intercept_)
    # A bound in a file is not believed: those of finished quantiles are proven again, around their own points.
    assert (again.lower_bound_ <= expected.objective_).all()
    assert np.allclose(again.lower_bound_, expected.lower_bound_, rtol=1e-6)
    assert again.status_ == expected.status_
    assert again.crossings_ == expected.crossings_
    assert all(map(np.array_equal, again.cluster_sizes_, expected.cluster_sizes_))
    with pytest.raises(ValueError, match="other data"):
        QuantileRegressor(**parameters, checkpoint=path).fit(X, y + 1, weight)


def test_batches_tell_how_far_they_are():
    X, y, weight = table(20_000)
    told = []

    class Listener:
        def __call__(self, record):
            return False

        def on_batch(self, progress):
            told.append(progress)

    model = QuantileRegressor(quantile=np.arange(40, 60) / 100, callbacks=Listener()).fit(X, y, weight)
    assert [progress.done for progress in told] == [11, 20]  # corridor by corridor
    assert all(progress.n_members == 20 for progress in told)
    assert told[-1].worst_gap == model.gap_.max()


def test_a_column_that_a_fold_leaves_empty_has_the_coefficient_zero():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 3))
    X[:, 2] = np.arange(6000) < 500
    y = X[:, 0] + rng.normal(size=6000) > 0
    splits = [(np.arange(1000, 6000), np.arange(1000)), (np.arange(5000), np.arange(5000, 6000))]
    model = LinearSVCCV(Cs=[0.1, 1.0], cv=splits).fit(X, y)
    assert (model.coefs_paths_[0, :, 2] == 0).all()
    assert (model.coefs_paths_[1, :, 2] != 0).all()
    assert model.gaps_.max() <= 1e-4
