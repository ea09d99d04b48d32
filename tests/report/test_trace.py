"""What plots show is what the rows say: rates, distances and pictures, recomputed entry by entry."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from aidlearn import SVC, LADRegressor, LinearSVC, LinearSVR, QuantileRegressor, SemiSupervisedSVC
from aidlearn.engine.clusters import near_and_far
from aidlearn.trace import MOST_CLUSTERS, sample


def test_near_and_far_by_hand():
    # Entries by distance: 1 1 2 3 3 3 3; the median entry has distance 3.
    near, far = near_and_far(np.array([4, 2, 1]), np.array([3.0, 1.0, 2.0]))
    assert near == 2 / 3
    assert far == 1 / 4


def test_one_cluster_is_far():
    assert near_and_far(np.array([5]), np.array([0.0])) == (None, 1 / 5)


clusterings = st.lists(st.tuples(st.integers(1, 50), st.floats(0, 10)), min_size=1, max_size=60)


@given(clusterings)
def test_near_and_far_against_entries(clusters):
    counts, distances = (np.array(values) for values in zip(*clusters, strict=True))
    entries = np.sort(np.repeat(distances, counts))
    median = entries[-(-len(entries) // 2) - 1]
    groups = [distances < median, distances >= median]
    expected = [group.sum() / counts[group].sum() if group.any() else None for group in groups]
    assert list(near_and_far(counts, distances)) == expected


@given(clusterings, st.integers(2, 30))
def test_a_sample_has_the_largest_and_both_ends(clusters, most):
    counts, distances = (np.array(values) for values in zip(*clusters, strict=True))
    shown = sample(counts, distances, most)
    assert len(shown) == min(most, len(counts))
    assert len(set(shown.tolist())) == len(shown)
    if len(counts) > most:
        left_out = np.setdiff1d(np.arange(len(counts)), shown)
        assert np.sort(counts)[::-1][: most // 2].tolist() == np.sort(counts[shown])[::-1][: most // 2].tolist()
        assert counts[left_out].max() <= np.sort(counts[shown])[::-1][most // 2 - 1]


def watched(model, X, y, monkeypatch):
    """Fit, and keep what each iteration was recorded with: labels of all entries and the point."""
    from aidlearn.engine.progress import Progress

    seen = []
    original = Progress.record

    def record(run, clusters, solution, *given):
        seen.append((clusters.labels(), solution.point))
        return original(run, clusters, solution, *given)

    monkeypatch.setattr(Progress, "record", record)
    model.fit(X, y)
    return seen


def means_by(labels, values):
    counts = np.bincount(labels)
    return np.array([np.bincount(labels, weights=column) / counts for column in values.T]).T


@pytest.fixture
def plane():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2000, 2)) + 5.0
    y = X @ [1.0, -2.0] + rng.laplace(size=2000) + 1e6
    return X, y


@pytest.mark.parametrize("n_features", [1, 2])
@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_regression(plane, n_features, epsilon, monkeypatch):
    X, y = plane[0][:, :n_features], plane[1]
    model = LinearSVR(epsilon=epsilon, C=10) if epsilon else LADRegressor(init="kmeans")
    seen = watched(model, X, y, monkeypatch)
    assert len(model.frames_) == len(seen) == len(model.history_)
    offset = np.median(y)  # taken out of the targets before the fit
    for (labels, point), frame, record in zip(seen, model.frames_, model.history_, strict=True):
        means = means_by(labels, np.column_stack([X, y]))
        fitted = means[:, :-1] @ point[:-1] + point[-1] + offset
        residual = means[:, -1] - fitted
        distances = np.abs(np.abs(residual) - epsilon)
        if np.median(distances[labels]) > 1e-6:  # a line through most clusters leaves rounding errors to compare
            assert (record.near_rate, record.far_rate) == pytest.approx(near_and_far(np.bincount(labels), distances))
        assert frame.iteration == record.iteration
        assert frame.n_clusters == record.n_clusters
        assert_allclose(frame.x, means[:, 0] if n_features == 1 else fitted, rtol=1e-9)
        assert_allclose(frame.y, means[:, -1], rtol=1e-12)
        assert frame.sizes.tolist() == np.bincount(labels).tolist()
        p, q, r = frame.line
        assert_allclose(p * frame.x + q * frame.y + r, -residual, atol=1e-6)
        assert sorted(frame.levels) == ([-epsilon, epsilon] if epsilon else [])
        clear = distances > 1e-6
        below = (residual > -epsilon).astype(int) + (residual > epsilon) if epsilon else (residual > 0).astype(int)
        assert frame.regions[clear].tolist() == below[clear].tolist()


def test_classifier(plane, monkeypatch):
    X, y = plane[0], np.where(plane[1] > np.median(plane[1]), "up", "down")
    model = LinearSVC(init="kmeans", C=0.1)
    seen = watched(model, X, y, monkeypatch)
    assert len(model.frames_) == len(seen) >= 2
    sign = np.where(y == "up", 1.0, -1.0)
    for (labels, point), frame, record in zip(seen, model.frames_, model.history_, strict=True):
        means = means_by(labels, np.column_stack([X, sign]))
        scores = means[:, :2] @ point[:2] + point[2]
        distances = np.abs(1 - means[:, 2] * scores)
        if np.median(distances[labels]) > 1e-6:  # clusters on the margin leave rounding errors to compare
            assert (record.near_rate, record.far_rate) == pytest.approx(near_and_far(np.bincount(labels), distances))
        assert_allclose(np.column_stack([frame.x, frame.y]), means[:, :2], rtol=1e-9)
        assert frame.labels.tolist() == means[:, 2].tolist()
        assert_allclose(np.array([frame.x, frame.y]).T @ frame.line[:2] + frame.line[2], scores, atol=1e-8)
        assert frame.levels.tolist() == [-1.0, 1.0]
        clear = distances > 1e-6
        assert frame.regions[clear].tolist() == (means[clear, 2] * scores[clear] < 1).astype(int).tolist()


def test_semi_supervised(plane, monkeypatch):
    X = plane[0][:200]
    y = np.where(np.arange(200) % 10 == 0, np.where(plane[1][:200] > np.median(plane[1]), 1, 2), -1)
    model = SemiSupervisedSVC()
    seen = watched(model, X, y, monkeypatch)
    sign = np.select([y == 1, y == 2], [-1.0, 1.0], 0.0)
    for (labels, point), frame, record in zip(seen, model.frames_, model.history_, strict=True):
        means = means_by(labels, np.column_stack([X, sign]))
        z, label = means[:, :2] @ point[:2] + point[2], means[:, 2]
        kinks = np.abs(np.abs(z) - 1), np.abs(z)
        distances = np.where(label == 0, np.minimum(*kinks), np.abs(1 - label * z))
        assert (record.near_rate, record.far_rate) == pytest.approx(near_and_far(np.bincount(labels), distances))
        assert frame.labels.tolist() == label.tolist()
        assert_allclose(frame.line, point)
        clear = distances > 1e-6
        loss = np.where(label == 0, np.abs(z) < 1, label * z < 1)
        assert frame.regions[clear].tolist() == (loss + 2 * ((label == 0) & (z > 0)))[clear].tolist()


@pytest.mark.parametrize("init", ["rows", "kmeans"])
def test_kernel_machine(plane, init, monkeypatch):
    X, y = plane[0][:300], plane[1][:300] > np.median(plane[1])
    model = SVC(init=init)
    seen = watched(model, X, y, monkeypatch)
    sign = np.where(y, 1.0, -1.0)
    for (labels, point), record in zip(seen, model.history_, strict=True):
        means = means_by(labels, np.column_stack([point.scores, sign]))
        distances = np.abs(1 - means[:, 1] * (means[:, 0] + point.intercept))
        assert (record.near_rate, record.far_rate) == pytest.approx(near_and_far(np.bincount(labels), distances))
    assert not hasattr(model, "frames_")


def test_the_final_clusters(plane):
    X, y = plane
    model = QuantileRegressor(quantile=[0.2, 0.7], tol=1e-8).fit(X, y)
    for sizes, distances, n_clusters in zip(
        model.cluster_sizes_, model.cluster_distances_, model.n_clusters_, strict=True
    ):
        assert len(sizes) == len(distances) == n_clusters
        assert sizes.sum() == len(X)
        assert (distances >= 0).all()


def test_many_clusters_are_sampled(plane):
    model = LADRegressor(init=np.arange(2000)).fit(*plane)
    assert model.n_clusters_ == 2000
    assert len(model.cluster_sizes_) == len(model.cluster_distances_) == MOST_CLUSTERS
    assert len(model.frames_[0].x) == MOST_CLUSTERS
    assert model.frames_[0].n_clusters == 2000


def test_pictures_of_an_earlier_fit_do_not_stay(plane):
    X, y = plane
    model = LADRegressor().fit(X, y)
    assert hasattr(model, "frames_")
    model.fit(np.column_stack([X, X[:, :1] ** 2]), y)
    assert not hasattr(model, "frames_")
    labels = np.where(np.arange(2000) % 5 == 0, (y > 1e6).astype(int), -1)
    machine = SemiSupervisedSVC(max_iter=1).fit(X[:300], labels[:300])
    assert hasattr(machine, "frames_")
    machine.set_params(kernel="rbf").fit(X[:300], labels[:300])
    assert not hasattr(machine, "frames_")
    assert not hasattr(machine, "coef_")


def test_clusters_of_mixed_classes_are_not_drawn(plane):
    X, y = plane[0], plane[1] > np.median(plane[1])
    model = LinearSVC(init=np.arange(2000) % 50, max_iter=1).fit(X, y)
    assert len(model.frames_[0].x) == 0
    assert not hasattr(LinearSVC(fit_intercept=False).fit(X, y), "frames_")


def test_a_resumed_fit_has_the_pictures_from_then_on(plane, tmp_path):
    options = {"init": "kmeans", "tol": 1e-6, "checkpoint": tmp_path / "run"}
    LADRegressor(**options, max_iter=2).fit(*plane)
    model = LADRegressor(**options).fit(*plane)
    whole = LADRegressor(init="kmeans", tol=1e-6).fit(*plane)
    rates = [[(record.near_rate, record.far_rate) for record in one.history_] for one in (model, whole)]
    assert rates[0] == rates[1]
    first = model.frames_[0].iteration
    assert first > 1
    for frame, other in zip(model.frames_, whole.frames_[first - 1 :], strict=True):
        assert frame.iteration == other.iteration
        assert_allclose(frame.x, other.x, rtol=0)


def test_weights_of_zero(plane):
    X, y = plane
    model = LADRegressor().fit(X, y, sample_weight=(np.arange(2000) % 2).astype(float))
    assert np.isfinite(model.cluster_distances_).all()
    assert all(np.isfinite(frame.x).all() for frame in model.frames_)
