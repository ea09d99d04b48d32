"""Limits, interruption and callbacks end with the best solution and its true gap."""

import numpy as np
import pytest

from aidlearn import LADRegressor, Status
from aidlearn.engine.result import relative_gap


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 4))
    return X, X @ [1, 2, 3, 4] + rng.laplace(size=4000)


def objective(model, X, y):
    return np.abs(y - model.predict(X)).sum()


def test_iteration_limit(data):
    model = LADRegressor(init="kmeans", max_iter=2, tol=1e-9).fit(*data)
    assert model.status_ is Status.iteration_limit
    assert model.n_iter_ == 2
    assert model.objective_ == pytest.approx(objective(model, *data), rel=1e-12)
    assert model.gap_ == relative_gap(model.objective_, model.lower_bound_)
    assert 0 < model.gap_ <= 1


def test_time_limit(data):
    model = LADRegressor(init="kmeans", time_limit=1e-9, tol=1e-9).fit(*data)
    assert model.status_ is Status.time_limit
    assert model.n_iter_ == 1
    assert model.lower_bound_ <= model.objective_ == pytest.approx(objective(model, *data))


def test_callback_sees_every_iteration_and_may_stop(data):
    seen = []

    def stop_at_three(record):
        seen.append(record)
        return record.iteration == 3

    model = LADRegressor(init="kmeans", tol=1e-9, callbacks=stop_at_three).fit(*data)
    assert model.status_ is Status.interrupted
    assert [record.iteration for record in seen] == [1, 2, 3]
    assert seen == model.history_


def test_keyboard_interrupt_keeps_the_best(data):
    def interrupt(record):
        if record.iteration == 2:
            raise KeyboardInterrupt

    model = LADRegressor(init="kmeans", tol=1e-9, callbacks=[interrupt]).fit(*data)
    assert model.status_ is Status.interrupted
    assert model.objective_ == pytest.approx(objective(model, *data))
    assert model.lower_bound_ > 0


def test_errors_of_callbacks_are_not_swallowed(data):
    def broken(record):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        LADRegressor(callbacks=broken).fit(*data)


def test_history_is_consistent(data):
    model = LADRegressor(init="kmeans", tol=1e-6).fit(*data)
    best = [record.best_objective for record in model.history_]
    assert best == sorted(best, reverse=True)
    assert [record.n_clusters for record in model.history_] == sorted(r.n_clusters for r in model.history_)
    last = model.history_[-1]
    assert (last.best_objective, last.gap) == (model.objective_, model.gap_)
    assert last.n_clusters == model.n_clusters_
    assert model.aggregation_rate_ == pytest.approx(model.n_clusters_ / 4000)


def test_zero_tolerance_ends_optimal(data):
    for init in ("band", "kmeans"):
        model = LADRegressor(tol=0, init=init).fit(*data)
        assert model.status_ is Status.optimal
        assert model.gap_ <= 1e-13
        assert model.history_[-1].n_violated == 0


def test_every_status_has_a_sentence():
    for status in Status:
        assert status.sentence.endswith(".")
        assert str(status) == status.name


def test_verbose_logs(data, caplog):
    with caplog.at_level("INFO", logger="aidlearn"):
        LADRegressor(verbose=1).fit(*data)
    assert "iteration 1" in caplog.text
