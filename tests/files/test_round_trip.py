"""A loaded model is the saved one: the same predictions to the last bit, the same fitted attributes."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from aidlearn import SVC, LADRegressor, LinearSVC, SemiSupervisedSVC, load_model, save_model
from aidlearn.estimators.fits import fits_of
from aidlearn.files.models import ModelFileError
from small_models import NAMES, data, fitted, fitted_sparse


def again(model, path, **options):
    save_model(model, path, **options)
    return load_model(path)


def assert_same(value, other):
    """Equal in type and in every bit, arrays and sparse matrices included."""
    assert type(value) is type(other)
    if sparse.issparse(value):
        assert_same(value.toarray(), other.toarray())
    elif isinstance(value, np.ndarray):
        assert value.dtype == other.dtype
        assert_array_equal(value, other, strict=True)
    elif is_dataclass(value):
        assert_same([getattr(value, f.name) for f in fields(value)], [getattr(other, f.name) for f in fields(value)])
    elif isinstance(value, (list, tuple)):
        assert len(value) == len(other)
        for one, two in zip(value, other, strict=True):
            assert_same(one, two)
    else:
        assert value == other or value != value


def assert_same_model(model, loaded, X):
    assert type(model) is type(loaded)
    assert_same(model.predict(X), loaded.predict(X))
    if hasattr(model, "decision_function"):
        assert_same(model.decision_function(X), loaded.decision_function(X))
    names = {name for name in vars(model) if name.endswith("_")}
    assert names == {name for name in vars(loaded) if name.endswith("_")}
    for name in names:
        assert_same(getattr(model, name), getattr(loaded, name))
    assert str(model.get_params()) == str(loaded.get_params())


@pytest.mark.parametrize("name", NAMES)
def test_same_predictions_and_attributes(name, tmp_path):
    model, X = fitted(name)
    assert_same_model(model, again(model, tmp_path / "model"), X)
    # New rows too, in other numbers than at the fit.
    assert_same(model.predict(X[:7]), load_model(tmp_path / "model").predict(X[:7]))


@pytest.mark.parametrize("name", ["lad", "linear-svc-names", "svc-rbf", "semi-rbf", "semi-graph"])
def test_sparse_training_rows(name, tmp_path):
    model, X = fitted_sparse(name)
    assert_same_model(model, again(model, tmp_path / "model"), X)


@pytest.mark.parametrize("name", ["quantiles", "linear-svc-names", "svc-rbf", "semi-graph"])
def test_saved_twice(name, tmp_path):
    model, X = fitted(name)
    once = again(model, tmp_path / "model", training={"rows": 3})
    twice = again(once, tmp_path / "model")
    assert twice.training_ == {"rows": 3}
    del twice.training_
    assert_same_model(model, twice, X)


def test_feature_names_stay_with_the_model(tmp_path):
    X, y, *_ = data()
    table = pd.DataFrame(X, columns=["age", "<b>", "größe"])
    loaded = again(LADRegressor().fit(table, y), tmp_path / "model")
    assert loaded.feature_names_in_.tolist() == ["age", "<b>", "größe"]
    assert loaded.feature_names_in_.dtype == object
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(table.rename(columns={"age": "height"}))


@pytest.mark.parametrize(
    "classes", [["no", "yes"], [False, True], [3, 1], [-2.0, 1.0], np.array(["b", "a"], dtype=object)]
)
def test_classes_keep_their_type(classes, tmp_path):
    X, y, *_ = data()
    labels = np.asarray(classes)[(y > 0).astype(int)]
    loaded = again(LinearSVC().fit(X, labels), tmp_path / "model")
    assert_same(loaded.predict(X), LinearSVC().fit(X, labels).predict(X))


def test_parameters_of_the_machine_are_left_behind(tmp_path):
    X, y, *_ = data()
    model = LADRegressor(
        callbacks=[lambda record: None],
        checkpoint=tmp_path / "run",
        init=lambda X, y: np.arange(len(y)) % 9,
        random_state=np.random.RandomState(0),
        max_iter=7,
    ).fit(X, y)
    loaded = again(model, tmp_path / "model")
    assert (loaded.callbacks, loaded.checkpoint, loaded.init, loaded.random_state) == (None, None, "auto", 0)
    assert loaded.max_iter == 7
    assert_same(model.predict(X), loaded.predict(X))


@pytest.mark.parametrize("name", ["svc-poly", "semi-rbf", "semi-graph", "semi-linear"])
def test_parameters_changed_after_the_fit_do_not_change_the_machine(name, tmp_path):
    model, X = fitted(name)
    model.set_params(kernel="linear" if name != "semi-linear" else "rbf", degree=5, coef0=7.0, gamma=0.1)
    loaded = again(model, tmp_path / "model")
    assert_same(loaded.decision_function(X), model.decision_function(X))
    assert loaded.get_params()["degree"] == 5


@pytest.mark.parametrize("time_limit", [1e-9, 1e-4, 1e-3])
@pytest.mark.parametrize("n", [60, 3000])
def test_several_fits_that_time_ended_before_their_clusters(n, time_limit, tmp_path):
    X, _, names, _ = data(n)
    model = LinearSVC(C=0.01, init="kmeans", tol=0, time_limit=time_limit).fit(X, names)
    loaded = again(model, tmp_path / "model")
    assert_same_model(model, loaded, X)
    assert [fit.name for fit in fits_of(loaded)] == [f"{label} against the rest" for label in model.classes_]
    assert [fit.cluster_sizes is None for fit in fits_of(model)] == [sizes is None for sizes in loaded.cluster_sizes_]


def test_an_array_of_initial_labels_is_kept(tmp_path):
    X, y, *_ = data()
    model = LADRegressor(init=np.arange(len(y)) % 9).fit(X, y)
    loaded = again(model, tmp_path / "model")
    assert_array_equal(loaded.init, model.init)
    assert_same(model.coef_, loaded.fit(X, y).coef_)


@pytest.mark.parametrize("estimator", [SVC, SemiSupervisedSVC])
def test_a_kernel_that_is_a_function_is_refused(estimator, tmp_path):
    X, y, *_ = data()
    model = estimator(kernel=lambda a, b: a @ b.T).fit(X, np.where(y > 0, 1, 2))
    with pytest.raises(ModelFileError, match="kernel is a function"):
        save_model(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_fitted_estimator_is_refused(tmp_path):
    X, y, *_ = data()
    with pytest.raises(NotFittedError):
        save_model(LADRegressor(), tmp_path / "model")
    with pytest.raises(ModelFileError, match=r"one estimator of aidlearn .* got Pipeline"):
        save_model(make_pipeline(StandardScaler(), LADRegressor()).fit(X, y), tmp_path / "model")

    class Mine(LADRegressor):
        pass

    with pytest.raises(ModelFileError, match="got Mine"):
        save_model(Mine().fit(X, y), tmp_path / "model")


def test_attributes_without_a_place_are_named(tmp_path):
    model, _ = fitted("lad")
    model.note_ = object()
    with pytest.raises(ModelFileError, match="note_ is a object"):
        save_model(model, tmp_path / "model")
    del model.note_
    with pytest.raises(ModelFileError, match="training must hold what JSON can hold"):
        save_model(model, tmp_path / "model", training={"x": object()})


def test_a_folder_that_does_not_exist(tmp_path):
    model, _ = fitted("lad")
    with pytest.raises(ModelFileError, match=r"nowhere.model cannot be written: No such file"):
        save_model(model, tmp_path / "nowhere" / "model")


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    model, X = fitted("lad")
    save_model(model, tmp_path / "model")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("aidlearn.archive.os.fsync", full)
    other, _ = fitted("lad-options")
    with pytest.raises(ModelFileError, match="No space left"):
        save_model(other, tmp_path / "model")
    assert_same(load_model(tmp_path / "model").predict(X), model.predict(X))
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
