"""Cross-validation that is cut short: what is done is used and saved, and a sentence says what is missing."""

import time
import warnings

import numpy as np
import pytest

from aidlearn import LinearSVC, LinearSVCCV, QuantileRegressor, QuantileRegressorCV, load_model, save_model
from aidlearn.cli import main
from aidlearn.engine.checkpoint import CheckpointError


def tied(n=6000, p=6):
    rng = np.random.default_rng(0)
    X = (rng.random((n, p)) < 0.4).astype(float)
    return X, rng.random(n) < 0.05 * (1 + X[:, 0])


def spread(n=6000, p=6):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    return X, X @ np.ones(p) + rng.logistic(size=n) > 0


class Clock:
    """Stops, or lets time pass, once so many points are done."""

    def __init__(self, after, stop):
        self.after, self.stop, self.seen = after, stop, []

    def __call__(self, record):
        return None

    def on_batch(self, progress):
        self.seen.append(progress.done)
        if progress.done >= self.after:
            self.stop()


def interrupt():
    raise KeyboardInterrupt


def shown_by(capsys, *arguments):
    """What a command prints."""
    capsys.readouterr()
    assert main(list(arguments)) == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("data", [tied, spread])
def test_no_time_is_a_sentence(data):
    with pytest.raises(TimeoutError, match="ended before all 3 folds were fitted for any of the 4 penalties"):
        LinearSVCCV(Cs=4, cv=3, time_limit=1e-6).fit(*data())


@pytest.mark.parametrize("n", [300, 6000])
def test_enough_time_changes_nothing(n):
    X, y = spread(n)
    one, two = LinearSVCCV(Cs=4, cv=3).fit(X, y), LinearSVCCV(Cs=4, cv=3, time_limit=600).fit(X, y)
    assert np.array_equal(one.coefs_paths_, two.coefs_paths_)
    assert np.array_equal(one.coef_, two.coef_)


def test_points_that_time_was_short_of():
    """Small fits one after the other: the first ones are there, and among them is chosen."""
    X, y = spread(300)
    clock = Clock(5, lambda: time.sleep(2.0))
    with pytest.warns(
        UserWarning, match=r"time_limit=1.5 ended with \d of 12 points not fitted .* among the 1 that all"
    ):
        model = LinearSVCCV(Cs=[0.01, 0.1, 1.0, 10.0], cv=3, time_limit=1.5, callbacks=[clock]).fit(X, y)
    assert np.isfinite(model.gaps_).sum() == 5
    assert np.array_equal(np.isnan(model.scores_), np.isinf(model.gaps_))
    assert model.C_ == 0.01
    assert model.predict(X).shape == (300,)


def test_the_user_stops(tmp_path, capsys):
    X, y = spread(300)
    path = tmp_path / "cv.ckpt"
    given = {"Cs": [0.01, 0.1, 1.0, 10.0], "cv": 3, "tol": 1e-6}
    with pytest.raises(KeyboardInterrupt):
        LinearSVCCV(**given, callbacks=[Clock(1, interrupt)]).fit(X, y)
    with pytest.warns(
        UserWarning, match=r"The fit was stopped with 5 of 12 points not fitted .* was chosen among the 2 that all"
    ):
        model = LinearSVCCV(**given, callbacks=[Clock(7, interrupt)], checkpoint=path).fit(X, y)
    assert np.isfinite(model.gaps_).sum() == 7
    single = LinearSVC(C=model.C_, tol=1e-9).fit(X, y)
    assert model.lower_bound_ <= single.objective_
    assert single.lower_bound_ <= model.objective_
    assert len(model.history_) == 1
    save_model(model, tmp_path / "m.aid")
    assert np.array_equal(load_model(tmp_path / "m.aid").coef_, model.coef_)
    shown = shown_by(capsys, "inspect", f"{path}.batch")
    assert "Checkpoint of LinearSVCCV" in shown
    assert "7 of 12 fits, worst gap" in shown
    clock = Clock(99, interrupt)
    resumed = LinearSVCCV(**given, callbacks=[clock], checkpoint=path).fit(X, y)
    assert clock.seen[0] == 8
    whole = LinearSVCCV(**given).fit(X, y)
    assert np.array_equal(resumed.coefs_paths_, whole.coefs_paths_)
    assert np.array_equal(resumed.coef_, whole.coef_)
    with pytest.raises(CheckpointError, match="cv was 3, now it is 4"):
        LinearSVCCV(**{**given, "cv": 4}, checkpoint=path).fit(X, y)
    with pytest.raises(CheckpointError, match="other data"):
        LinearSVCCV(**given, checkpoint=path).fit(X, ~y)


class InScores:
    """Stops in the pass of the scores, when all points are done."""

    def __init__(self, n_points):
        self.n_points, self.done = n_points, False

    def __call__(self, record):
        return None

    def on_batch(self, progress):
        self.done = progress.done == self.n_points

    def on_pass(self, progress):
        if self.done:
            self.done = False
            raise KeyboardInterrupt


def test_scores_survive_an_interruption(recwarn):
    X, y = spread(300)
    model = LinearSVCCV(Cs=4, cv=3, callbacks=[InScores(12)]).fit(X, y)
    assert not recwarn.list
    assert model.gap_ < 1
    assert np.array_equal(model.scores_, LinearSVCCV(Cs=4, cv=3).fit(X, y).scores_)


def test_unfinished_models_are_not_saved(tmp_path):
    X, y = spread(300)
    model = LinearSVCCV(Cs=4, cv=3, callbacks=[Clock(1, interrupt)])
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    for unfinished in (model, LinearSVCCV(Cs=4, cv=3, refit=False).fit(X, y)):
        with pytest.raises(ValueError, match="has no "):
            save_model(unfinished, tmp_path / "m.aid")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("data", [tied, spread])
def test_neighbours_go_on_from_a_checkpoint(data, tmp_path):
    X, y = data()
    path = tmp_path / "cv.ckpt"
    with warnings.catch_warnings():  # nothing is missing if all points were done at once
        warnings.simplefilter("ignore")
        LinearSVCCV(Cs=6, cv=3, tol=1e-6, callbacks=[Clock(1, interrupt)], checkpoint=path).fit(X, y)
    assert (tmp_path / "cv.ckpt.batch").exists()
    model = LinearSVCCV(Cs=6, cv=3, tol=1e-6, checkpoint=path).fit(X, y)
    assert model.gaps_.max() <= 1e-6
    assert np.allclose(model.scores_, LinearSVCCV(Cs=6, cv=3, tol=1e-6).fit(X, y).scores_, atol=2e-3)
    clock = Clock(99, interrupt)
    again = LinearSVCCV(Cs=6, cv=3, tol=1e-6, callbacks=[clock], checkpoint=path).fit(X, y)
    assert not clock.seen  # nothing is solved again
    assert np.array_equal(again.coefs_paths_, model.coefs_paths_)
    assert np.array_equal(again.coef_, model.coef_)


def test_quantiles_too(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = X[:, 0] + rng.laplace(size=400)
    path = tmp_path / "q.ckpt"
    with pytest.warns(UserWarning, match="The fit was stopped with 2 of 6 points"):
        QuantileRegressorCV(alphas=[0.1, 0.01, 0.001], cv=2, callbacks=[Clock(4, interrupt)], checkpoint=path).fit(X, y)
    resumed = QuantileRegressorCV(alphas=[0.1, 0.01, 0.001], cv=2, checkpoint=path).fit(X, y)
    assert np.array_equal(resumed.scores_, QuantileRegressorCV(alphas=[0.1, 0.01, 0.001], cv=2).fit(X, y).scores_)


def test_inspect_of_several_quantiles(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    y = X[:, 0] + rng.laplace(size=3000)
    path = tmp_path / "q.ckpt"
    QuantileRegressor(quantile=np.arange(1, 20) / 20, checkpoint=path).fit(X, y)
    shown = shown_by(capsys, "inspect", str(path), "--json")
    assert '"n_done": 19, "n_members": 19' in shown
