"""Fits whose time is over before they begin: a model that is of use, a true bound, few passes."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

from aidlearn import LADRegressor, LinearOneClassSVM, LinearSVC, LinearSVR, QuantileRegressor, Status, open_source
from aidlearn.linear import problem
from aidlearn.linear.start import paper

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
    # To check the rows, and to draw groups around a point (whose objective comes along).
    assert late.n_passes_ == 2


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
        def _fit_design(self, rows, *given, **more):
            seconds.append((rows.run.deadline, more["n_left"]))
            return original(self, rows, *given, **more)

    Spied(**model.get_params()).fit(X, y)
    assert [left for _, left in seconds] == [3, 2, 1]
    assert len({end for end, _ in seconds}) == 1


def test_from_a_file_rows_are_read_twice(rows, tmp_path):
    X, y = rows
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    model = LADRegressor(time_limit=NOTHING).fit(open_source(tmp_path / "rows.npy", target=5))
    assert model.status_ is Status.time_limit
    assert model.n_passes_ == 2


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
    assert model.n_passes_ == 2, "rows are checked, and all planes are looked at in one pass"
    best = LinearSVC(tol=1e-7).fit(X, classes)
    assert (model.objective_ >= best.lower_bound_).all()
    assert (model.lower_bound_ <= best.objective_).all()
    margins = np.where(classes[:, None] == np.arange(3), 1, -1) * model.decision_function(X)
    objectives = 0.5 * (model.coef_**2).sum(axis=1) + np.maximum(0, 1 - margins).sum(axis=0)
    assert model.objective_ == pytest.approx(objectives, rel=1e-12)
    assert model.dual_coef_.shape == (3, len(model.support_))
    assert [record.n_clusters for record in model.history_[0]] == [2]


@pytest.mark.parametrize("init", ["kmeans", "birch"])
def test_a_solution_that_is_worse_than_nothing_is_not_what_remains(rows, init, monkeypatch):
    """A start that used up the time has no point: the aggregated solution, cut short, was 1.8 times a constant's."""
    X, y = rows
    for module in (paper, problem):
        monkeypatch.setattr(module, "out_of_time", lambda run: False)
    monkeypatch.setattr(paper, "_in_time", lambda *given: True)
    late = LADRegressor(init=init, time_limit=NOTHING).fit(X, y)
    assert late.status_ is Status.time_limit
    assert late.objective_ < 0.6 * np.abs(y - np.median(y)).sum()


def test_starts_of_the_paper_are_left_where_they_would_take_too_long(rows, monkeypatch):
    """To find the nearest centre of all rows took 0.5 s beyond a limit of 0.3 (1,000,000 rows, 50 columns)."""
    X, y = rows
    now = 0.0

    def pretended():  # every look at the clock is a tenth of a second later
        nonlocal now
        now += 0.1
        return now

    monkeypatch.setattr(paper.time, "monotonic", pretended)
    some = [np.zeros(5)]
    run = SimpleNamespace(deadline=100.0)
    assert paper._in_time(run, lambda: some.pop(), 900)
    assert not some, "it was tried"
    assert not paper._in_time(run, lambda: None, 1100)
    run.deadline = np.inf
    assert paper._in_time(run, lambda: pytest.fail("tried for nothing"), 1e9)
    monkeypatch.undo()
    free = LADRegressor(init="kmeans", max_iter=1, initial_rate=0.01).fit(X, y)
    monkeypatch.setattr(paper, "_in_time", lambda run, work, times: times < 2)
    late = LADRegressor(init="kmeans", time_limit=1000, max_iter=1, initial_rate=0.01).fit(X, y)
    assert 1 < late.history_[0].n_clusters < free.history_[0].n_clusters
