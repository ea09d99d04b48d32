"""A file that is no model, or not whole, is refused in one sentence; files of every older version load."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from aidlearn import LADRegressor, archive, load_model, save_model
from aidlearn.files.models import KIND, VERSION, ModelFileError
from small_models import data, fitted, fitted_sparse, rows

HERE = Path(__file__).parent


@pytest.fixture
def path(tmp_path):
    model, _ = fitted("quantiles")
    save_model(model, tmp_path / "model")
    return tmp_path / "model"


def refused(path, match):
    with pytest.raises(ModelFileError, match=match) as caught:
        load_model(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    assert str(path) in message


def rewritten(path, change, version=VERSION):
    """The file with its content changed, and a checksum that agrees."""
    found = archive.read(path, KIND, VERSION)
    meta, arrays = dict(found.meta), dict(found.arrays)
    change(meta, arrays)
    archive.write(path, KIND, version, meta, arrays)
    return path


def test_no_file(tmp_path):
    refused(tmp_path / "nothing", "cannot be read: No such file")


def test_a_folder(tmp_path):
    refused(tmp_path, "cannot be read: Is a directory")


@pytest.mark.parametrize("content", [b"", b"P", b"PK", b"PK\x03\x04 and more", pickle.dumps({"model": 1}), b"a,b\n1,2"])
def test_other_files(content, tmp_path):
    (tmp_path / "file").write_bytes(content)
    refused(tmp_path / "file", "not an aidlearn model file")


def test_an_ordinary_zip(tmp_path):
    with zipfile.ZipFile(tmp_path / "file", "w") as file:
        file.writestr("meta.json", "{}")
    refused(tmp_path / "file", "not an aidlearn model file")


def test_every_truncation(path):
    whole = path.read_bytes()
    for size in range(0, len(whole), 97):
        path.write_bytes(whole[:size])
        refused(path, "not an aidlearn model file")


def test_every_flipped_byte(path):
    whole = path.read_bytes()
    for k in range(0, len(whole), 53):
        path.write_bytes(whole[:k] + bytes([whole[k] ^ 0x10]) + whole[k + 1 :])
        refused(path, "damaged|not an aidlearn model")


def test_a_checkpoint(tmp_path):
    X, y, *_ = data()
    LADRegressor(checkpoint=tmp_path / "run").fit(X, y)
    refused(tmp_path / "run", "is not an aidlearn model file: it is 'aidlearn checkpoint'")


def test_a_newer_version(path):
    refused(rewritten(path, lambda meta, arrays: None, VERSION + 1), f"format version {VERSION + 1}")


@pytest.mark.parametrize("version", [0, -1])
def test_a_version_that_never_was(path, version):
    refused(rewritten(path, lambda meta, arrays: None, version), "incomplete|cannot be used")


def test_an_unknown_estimator(path):
    refused(rewritten(path, lambda meta, arrays: meta.update(estimator="Forest")), "does not know, 'Forest'")


@pytest.mark.parametrize("key", ["estimator", "parameters", "fitted", "private", "training", "environment"])
def test_missing_parts(path, key):
    refused(rewritten(path, lambda meta, arrays: meta.pop(key)), f"incomplete: '{key}' is missing")


@pytest.mark.parametrize("key", ["coef_", "intercept_", "history_", "gap_", "n_features_in_"])
def test_missing_attributes(path, key):
    refused(rewritten(path, lambda meta, arrays: meta["fitted"].pop(key)), f"incomplete: '{key}' is missing")


def test_a_missing_array(path):
    refused(rewritten(path, lambda meta, arrays: arrays.pop("coef_")), "'coef_' is missing")


def test_an_unknown_parameter(path):
    refused(rewritten(path, lambda meta, arrays: meta["parameters"].update(colour=1)), "colour")


def test_an_unknown_type(path):
    def change(meta, arrays):
        meta["fitted"]["coef_"] = {"$": "os.system", "value": "true"}

    refused(rewritten(path, change), "unknown type 'os.system'")


@pytest.mark.parametrize("key", ["predict", "_kernel", "fit", "__class__"])
def test_attributes_that_are_not_fitted_ones(path, key):
    def change(meta, arrays):
        meta["fitted"][key] = 1

    refused(rewritten(path, change), "not a fitted attribute")


def test_an_unknown_kernel(tmp_path):
    save_model(fitted("svc-rbf")[0], tmp_path / "model")
    refused(rewritten(tmp_path / "model", lambda meta, arrays: meta["private"].update(name="magic")), "'magic'")


def test_a_sparse_matrix_with_columns_that_it_has_not(tmp_path):
    save_model(fitted_sparse("svc-rbf")[0], tmp_path / "model")

    def change(meta, arrays):
        arrays["support_vectors_.indices"][0] = 99_999

    refused(rewritten(tmp_path / "model", change), "cannot be used")


@pytest.mark.parametrize("value", [None, 3, [1], "x"])
def test_parts_of_the_wrong_kind(path, value):
    refused(rewritten(path, lambda meta, arrays: meta.update(fitted=value)), "cannot be used")


def golden():
    return sorted(HERE.glob("version_*/*.aid"))


def test_there_are_files_of_every_version():
    assert {path.parent.name for path in golden()} == {f"version_{k}" for k in range(1, VERSION + 1)}


@pytest.mark.parametrize("path", golden(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_files_of_every_version_load(path):
    model = load_model(path)
    X = rows(path.stem)
    answers = np.load(path.parent / "answers.npz")
    expected = answers[path.stem]
    # Another processor or library may round the last digits of predictions, not the numbers in the file.
    if expected.dtype.kind == "f":
        assert_allclose(model.predict(X), expected, rtol=1e-9)
    else:
        assert_array_equal(model.predict(X), expected)
    assert_array_equal(model.objective_, answers[f"{path.stem}.objective"])
    assert model.training_ == {"command": "make_golden.py", "rows": len(X)}
    records = model.history_ if isinstance(model.status_, list) else [model.history_]
    assert all(history[-1].iteration == len(history) for history in records)
