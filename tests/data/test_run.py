"""A run holds what belongs to one fit; sources never change."""

import copy
import threading
import time

import numpy as np
import pytest

from aidlearn import SVC, LADRegressor, LinearSVC, QuantileRegressor, SemiSupervisedSVC, Status, as_source, open_source
from aidlearn.data import Chunk, DataSource
from aidlearn.data.passes.run import Run, Systematic
from aidlearn.data.passes.sharing import run_together
from aidlearn.data.rows.numbers import Targets


class Watcher:
    """A callback that counts passes and may stop a fit."""

    def __init__(self, stop_after=None):
        self.passes, self.iterations, self.stop_after = [], 0, stop_after

    def __call__(self, record):
        self.iterations += 1
        return self.stop_after is not None and self.iterations >= self.stop_after

    def on_pass(self, progress):
        if progress.rows == progress.n_rows:
            self.passes.append(progress.number)


@pytest.fixture
def classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    return X, np.digitize(X[:, 0] + 0.5 * rng.normal(size=4000), [-0.8, 0, 0.8])


class Streamed(DataSource):
    """A source of a user: rows that only passes can read."""

    def __init__(self, X, y):
        self.X, self.y = X, y
        self.n_entries, self.n_attributes = X.shape

    def chunk(self, k):
        rows = slice(k * self.rows_per_chunk, min((k + 1) * self.rows_per_chunk, self.n_entries))
        return Chunk(rows.start, rows.stop, self.X[rows], self.y[rows], np.ones(rows.stop - rows.start))


@pytest.mark.parametrize("n_classes", [2, 4])
def test_passes_over_a_source_of_numbers_are_heard(classes, n_classes):
    X, y = classes
    watcher = Watcher()
    model = LinearSVC(callbacks=watcher).fit(as_source(X, y % n_classes))
    assert watcher.passes == list(range(1, model.n_passes_ + 1))


def test_a_fit_changes_nothing_of_its_source(classes):
    X, y = classes
    source = as_source(X, y + 1e6)
    before, values = copy.copy(vars(source)), (X.copy(), y + 1e6)
    LADRegressor().fit(source)
    LinearSVC().fit(source)
    QuantileRegressor(quantile=[0.2, 0.8], n_jobs=2).fit(source)
    assert vars(source).keys() == before.keys()
    assert all(vars(source)[name] is value for name, value in before.items())
    assert np.array_equal(source.X, values[0])
    assert np.array_equal(source.y, values[1])


def test_classes_that_share_passes_keep_to_the_memory_limit(tmp_path, classes, monkeypatch):
    """The members of a shared pass have the budget of the whole between them, and one sample serves them all."""
    X, y = classes
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    source = open_source(tmp_path / "rows.npy", 3, memory_limit="1GB")
    run = Run(source, Targets(source.classes().labels))
    seen = []

    def fit(member):
        seen.append((member.budget, member.sample(lambda: Systematic(3, 1))))
        return True

    run_together(run, [fit] * 4)
    assert all(budget.clusters == run.budget.clusters / 4 < np.inf for budget, _ in seen)
    assert all(budget.later == run.budget.later / 4 and budget.sample == run.budget.sample for budget, _ in seen)
    assert all(sample is seen[0][1] for _, sample in seen)
    assert run.n_passes == 1


def test_the_sample_comes_with_the_first_pass(classes):
    """One draw decides it: a file costs no further pass, whatever the random state."""
    X, y = classes
    for state in (0, 7):
        streamed = LADRegressor(random_state=state).fit(Streamed(X, y + X[:, 1]))
        memory = LADRegressor(random_state=state).fit(X, y + X[:, 1])  # where a sample takes no pass
        assert streamed.n_passes_ == memory.n_passes_
        assert streamed.objective_ == memory.objective_


def test_texts_are_classes_of_any_source(classes):
    X, y = classes
    names = np.array(["a", "b", "c", "d"])[y]
    own, memory = LinearSVC().fit(Streamed(X, names)), LinearSVC().fit(X, names)
    assert own.classes_.tolist() == ["a", "b", "c", "d"]
    assert np.array_equal(own.coef_, memory.coef_)
    with pytest.raises(ValueError, match="holds texts; a regression needs numbers"):
        LADRegressor().fit(Streamed(X, names))


MANY = {
    "quantiles": lambda watcher: QuantileRegressor(
        quantile=[0.1, 0.4, 0.6, 0.9], init="kmeans", tol=0, callbacks=watcher
    ),
    "classes": lambda watcher: LinearSVC(C=10, init="kmeans", tol=0, callbacks=watcher),
    "pairs": lambda watcher: SVC(C=10, init="kmeans", tol=0, callbacks=watcher),
    "semi": lambda watcher: SemiSupervisedSVC(max_iter=50, tol=0, callbacks=watcher),
}


@pytest.mark.parametrize("kind", MANY)
def test_stopping_one_of_several_fits_stops_all(classes, kind):
    """Once the user has stopped, every other fit of the same model gets what one hasty iteration gives."""
    X, y = classes
    X, y = X[:1200], y[:1200].copy()
    if kind == "semi":
        y[40:] = -1
    watcher = Watcher(stop_after=1)
    model = MANY[kind](watcher).fit(X, y)
    assert len(model.status_) >= 4
    assert Status.interrupted in model.status_
    assert all(len(history) <= 1 for history in model.history_)
    assert all(
        status in (Status.interrupted, Status.optimal, Status.gap, Status.one_region) for status in model.status_
    )
    assert np.isfinite(model.objective_).all()
    assert len(model.predict(X)) == 1200


def test_passes_of_all_machines_are_counted(classes):
    X, y = classes
    X, y = X[:900], y[:900]
    together = SVC().fit(X, y)
    pairs = [(a, b) for a in range(4) for b in range(a + 1, 4)]
    alone = [SVC(gamma=together._kernel.gamma).fit(X[(y == a) | (y == b)], y[(y == a) | (y == b)]) for a, b in pairs]
    # Each fit alone validates its own rows; together they are validated once.
    assert together.n_passes_ == sum(model.n_passes_ for model in alone) - len(pairs) + 1


def test_an_error_in_a_member_ends_the_others():
    run = Run(as_source(np.ones((50, 1)), np.zeros(50)))
    waiting = threading.Event()

    def fails(member):
        waiting.wait(5)
        raise ValueError("mine")

    def waits(member):
        waiting.set()
        member.map(lambda chunk, state: (None, None))

    with pytest.raises(ValueError, match="mine"):
        run_together(run, [fails, waits])


def test_a_stop_in_the_iteration_that_reaches_the_tolerance_counts(classes):
    X, y = classes
    watcher = Watcher(stop_after=1)
    model = QuantileRegressor(quantile=[0.1, 0.5, 0.9], callbacks=watcher).fit(X, y + X[:, 1])
    assert model.status_[0].reached_tolerance
    assert watcher.iterations == 3
    assert all(len(history) == 1 for history in model.history_)
    alone = [QuantileRegressor(quantile=tau).fit(X, y + X[:, 1]).n_passes_ for tau in (0.1, 0.5, 0.9)]
    assert model.n_passes_ < sum(alone)  # the others began with a hasty start


class InterruptsPass:
    """Ctrl-C in a pass by number."""

    def __init__(self, number):
        self.number = number

    def __call__(self, record):
        pass

    def on_pass(self, progress):
        if progress.number == self.number:
            self.number = None
            raise KeyboardInterrupt


@pytest.mark.parametrize("n_classes", [2, 4])
def test_no_finished_class_is_lost_while_duals_are_computed(classes, n_classes):
    X, y = classes
    weight = 1.0 + np.arange(len(y)) % 2  # with which duals take a pass, the last one
    whole = LinearSVC().fit(X, y % n_classes, weight)
    model = LinearSVC(callbacks=InterruptsPass(whole.n_passes_)).fit(X, y % n_classes, weight)
    assert np.array_equal(model.coef_, whole.coef_)
    assert np.array_equal(model.lower_bound_, whole.lower_bound_)


def test_a_bound_that_was_proven_survives_an_interrupt(classes, monkeypatch):
    from aidlearn.engine.clusters import Clusters

    def interrupted(self, trial):
        raise KeyboardInterrupt

    X, y = classes
    monkeypatch.setattr(Clusters, "check", interrupted)
    model = LinearSVC().fit(X, y % 2)
    assert model.status_ is Status.interrupted
    assert model.gap_ < 0.1


@pytest.mark.parametrize("kind", ["quantiles", "classes"])
def test_passes_of_continued_fits_add_up(tmp_path, classes, kind):
    X, y = classes
    y = y + X[:, 1] if kind == "quantiles" else y

    def model(**more):
        if kind == "quantiles":
            return QuantileRegressor(quantile=[0.2, 0.7], init="kmeans", tol=1e-9, **more)
        return LinearSVC(C=0.1, init="kmeans", tol=1e-9, **more)

    whole = model().fit(X, y)
    path = tmp_path / "run.ckpt"
    begun = model(checkpoint=path, max_iter=2).fit(X, y)
    finished = model(checkpoint=path).fit(X, y)
    assert np.array_equal(finished.coef_, whole.coef_)
    assert begun.n_passes_ < finished.n_passes_
    assert finished.n_passes_ >= whole.n_passes_ - len(whole.status_)


def test_large_labels_stay_apart(classes):
    X, y = classes
    model = LinearSVC().fit(Streamed(X, np.where(y > 1, 1e20, 2e20)))
    assert model.classes_.tolist() == [1e20, 2e20]


def test_a_slow_thread_keeps_its_chunk(tmp_path, monkeypatch):
    """Buffers are reused in turn: with many threads, a slow one must not see the rows of a later chunk."""
    monkeypatch.setattr("aidlearn.data.rows.chunk.CHUNK_ELEMENTS", 1)
    n = 60 * 256
    np.save(tmp_path / "X.npy", np.repeat(np.arange(60.0), 256)[:, None])
    np.save(tmp_path / "y.npy", np.zeros(n))
    run = Run(open_source(tmp_path / "X.npy", tmp_path / "y.npy"), n_jobs=12)
    others = threading.Semaphore(0)

    def first_waits(chunk, state):
        if chunk.start == 0:
            for _ in range(2 * run.n_jobs):  # chunks that may be handed out before the first is done
                others.acquire()
            time.sleep(0.2)  # the reader reads ahead meanwhile
        else:
            others.release()
        return np.unique(chunk.X).tolist(), None

    found = []
    run.map(first_waits, collect=found.append)
    assert found == [[float(k)] for k in range(60)]
