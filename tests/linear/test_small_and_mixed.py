"""Clusters that say nothing: classes mixed evenly, sums of zero, one cluster, weights of zero, few rows."""

import itertools

import numpy as np
import pytest

from aidlearn import SVC, LADRegressor, LinearSVC, LinearSVR, QuantileRegressor, SemiSupervisedSVC

DATA = {
    "line": ([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]),
    "symmetric": ([[-1.0], [1.0], [-1.0], [1.0]], [0, 0, 1, 1]),
    "plane": ([[1.0, -1.0], [-1.0, 1.0], [1.0, 1.0], [-1.0, -1.0]], [0, 1, 1, 0]),
    "sums that round to zero": ([[0.1], [0.2], [-0.3], [0.0]], [0, 1, 0, 1]),
    "constant column": ([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0], [4.0, 5.0]], [0, 1, 0, 1]),
    "zeros": ([[0.0], [0.0], [0.0], [0.0]], [0, 1, 0, 1]),
    "wide": (np.random.default_rng(0).normal(size=(4, 7)), [0, 1, 0, 1]),
}
CLUSTERS = {"one": [0, 0, 0, 0], "pairs": [0, 0, 1, 1], "alternating": [0, 1, 0, 1], "rows": [0, 1, 2, 3]}
WEIGHTS = {
    "equal": None,
    "some zero": [0.0, 1.0, 1.0, 1.0],
    "tenths": [0.1, 0.2, 0.3, 0.4],
    "balanced": [0.1, 0.3, 0.2, 0.0],
}
LINEAR = {
    "svc": LinearSVC(),
    "svc-dual": LinearSVC(row_duals=True),
    "svc-through-zero": LinearSVC(fit_intercept=False),
    "lad": LADRegressor(),
    "lad-through-zero": LADRegressor(fit_intercept=False),
    "lad-highs": LADRegressor(solver="highs"),
    "quantile": QuantileRegressor(quantile=0.3, alpha=0.1),
    "svr": LinearSVR(epsilon=0.1),
    "svr-tube-closed": LinearSVR(),
}


@pytest.mark.parametrize("model", LINEAR.values(), ids=LINEAR)
@pytest.mark.parametrize("data", DATA)
def test_clusters_that_say_nothing(data, model):
    X, y = map(np.array, DATA[data])
    for clusters, weights, tol in itertools.product(CLUSTERS, WEIGHTS, [1e-6, 0]):
        fitted = model.set_params(init=CLUSTERS[clusters], tol=tol).fit(X, y, sample_weight=WEIGHTS[weights])
        alone = model.set_params(init=CLUSTERS["rows"]).fit(X, y, sample_weight=WEIGHTS[weights]).objective_
        assert fitted.status_.reached_tolerance, (clusters, weights, tol)
        assert 0 <= fitted.gap_ <= 1e-6
        assert fitted.objective_ == pytest.approx(alone, rel=2e-6, abs=1e-12)


@pytest.mark.parametrize("clusters", CLUSTERS)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("data", DATA)
def test_given_clusters_of_kernel_machines(data, kernel, clusters):
    X, y = map(np.array, DATA[data])
    model = SVC(kernel=kernel, init=CLUSTERS[clusters], gamma=1.0).fit(X, y)
    assert 0 <= model.gap_ <= 1e-4
    assert model.lower_bound_ <= model.objective_


@pytest.mark.parametrize("clusters", CLUSTERS)
@pytest.mark.parametrize("data", DATA)
def test_given_clusters_of_semi_supervised_machines(data, clusters):
    X, y = map(np.array, DATA[data])
    X, y = np.concatenate([X, X + 0.5]), np.concatenate([y, np.full(4, -1)])
    model = SemiSupervisedSVC(init=CLUSTERS[clusters] * 2).fit(X, y)
    assert model.gap_ >= 0
    assert model.lower_bound_ <= model.objective_


def test_the_objective_of_one_class_that_counts_is_zero():
    model = LinearSVC(init=[0, 1, 0, 1]).fit([[-1.0], [1.0], [-1.0], [1.0]], [0, 0, 1, 1], sample_weight=[1, 1, 0, 0])
    assert model.objective_ == model.gap_ == 0


@pytest.mark.parametrize("solver", ["libsvm", "liblinear"])
def test_other_solvers_end_on_large_offsets(solver):
    X, y = [[1e9], [1e9 + 1], [1e9 + 2], [1e9 + 3]], [0, 1, 0, 1]
    model = LinearSVC(solver=solver).fit(X, y)
    assert model.objective_ == pytest.approx(LinearSVC().fit(X, y).objective_, rel=1e-2)
