"""Fits whose time is over before they begin: a model that is of use, a true bound, few passes."""

import numpy as np
import pytest
from sklearn.base import clone

from aidlearn import LADRegressor, LinearOneClassSVM, LinearSVC, LinearSVR, QuantileRegressor, Status, open_source

N = 6000
NOTHING = 1e-9
"""Seconds."""


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 5)) @ rng.normal(size=(5, 5)) + 3
    return X, X @ [1.0, -2.0, 0.5, 0.0, 1.0] + rng.laplace(size=N) + 7


CASES = [
    *[(LADRegressor, {"init": init}) for init in ("auto", "kmeans", "birch", "labels")],
    *[(LADRegressor, {"solver": solver}) for solver in ("highs", "interior-point")],
    (LADRegressor, {"fit_intercept": False}),
    (LADRegressor, {"alpha": 0.05}),
    (QuantileRegressor, {"quantile": 0.9}),
    *[(LinearSVC, {"init": init}) for init in ("auto", "kmeans", "labels")],
    *[(LinearSVC, {"solver": solver}) for solver in ("libsvm", "liblinear")],
    (LinearSVR, {"epsilon": 0.5}),
]


@pytest.mark.parametrize(("estimator", "given"), CASES)
def test_a_model_better_than_a_constant_with_a_true_bound(rows, estimator, given):
    X, y = rows
    y = (y > np.quantile(y, 0.3)).astype(int) if estimator is LinearSVC else y
    changed = {"init": np.arange(N) % 700} if given.get("init") == "labels" else {}
    exact = estimator(**{**given, "init": "auto", "solver": "auto", "tol": 1e-7})
    best = clone(exact).fit(X, y)
    late = estimator(**{**given, **changed}, time_limit=NOTHING).fit(X, y)
    assert late.status_ is Status.time_limit
    assert late.objective_ >= best.lower_bound_ * (1 - 1e-9)
    assert late.lower_bound_ <= best.objective_ * (1 + 1e-9)
    assert late.lower_bound_ > 0
    constant = exact.fit(np.ones((N, 1)), y).objective_  # no column that varies
    assert late.objective_ < 0.6 * constant
    # To check the rows, to draw groups, to look at the point, and for the duals of a machine.
    assert late.n_passes_ <= (4 if estimator is LinearSVC else 3)


def test_several_quantiles_share_their_groups(rows):
    X, y = rows
    quantiles = [0.9, 0.1, 0.5, 0.3]
    late = QuantileRegressor(quantile=quantiles, time_limit=NOTHING).fit(X, y)
    best = QuantileRegressor(quantile=quantiles, tol=1e-7).fit(X, y)
    assert late.status_ == [Status.time_limit] * 4
    assert late.n_passes_ == 3
    assert late.crossings_ == 0
    assert (late.objective_ >= best.lower_bound_).all()
    assert (late.lower_bound_ <= best.objective_).all()
    assert (late.lower_bound_ > 0).all()
    r = y[:, None] - late.predict(X)
    loss = np.maximum(np.array(quantiles) * r, (np.array(quantiles) - 1) * r).sum(axis=0)
    assert late.objective_ == pytest.approx(loss, rel=1e-12)
    assert (late.objective_ < 2 * best.objective_).all()


def test_time_is_that_of_the_whole_fit(rows):
    """Each of several models has its share: before, each had all of it."""
    X, y = rows
    seconds = []
    model = QuantileRegressor(quantile=[0.2, 0.5, 0.8], init="kmeans", time_limit=1000, callbacks=lambda r: None)
    original = type(model)._fit_design

    class Spied(QuantileRegressor):
        def _fit_design(self, run, *given, **more):
            seconds.append((run.end, more["n_left"]))
            return original(self, run, *given, **more)

    Spied(**model.get_params()).fit(X, y)
    assert [left for _, left in seconds] == [3, 2, 1]
    assert len({end for end, _ in seconds}) == 1


def test_from_a_file_rows_are_read_three_times(rows, tmp_path):
    X, y = rows
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    model = LADRegressor(time_limit=NOTHING).fit(open_source(tmp_path / "rows.npy", target=5))
    assert model.status_ is Status.time_limit
    assert model.n_passes_ == 3


def test_a_late_fit_goes_on_from_its_checkpoint(rows, tmp_path):
    X, y = rows
    model = LADRegressor(time_limit=NOTHING, checkpoint=tmp_path / "c.aid").fit(X, y)
    assert model.status_ is Status.time_limit
    model = LADRegressor(checkpoint=tmp_path / "c.aid").fit(X, y)
    assert model.status_ is Status.gap


def test_the_other_models_are_of_use_too(rows):
    X, y = rows
    model = LinearOneClassSVM(nu=0.1, time_limit=NOTHING).fit(X + 9)
    assert 0.02 < np.mean(model.predict(X + 9) == -1) < 0.3
    classes = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    model = LinearSVC(time_limit=NOTHING).fit(X, classes)
    assert model.status_ == [Status.time_limit] * 3
    assert model.score(X, classes) > 0.5
