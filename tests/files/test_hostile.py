"""Files with a checksum that agrees and a content made to do harm are refused in a sentence, before memory is taken."""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from aidlearn import LADRegressor, archive, load_model, save_model
from aidlearn.engine.checkpoint import KIND as CHECKPOINT
from aidlearn.engine.checkpoint import VERSION as CHECKPOINT_VERSION
from aidlearn.engine.checkpoint import CheckpointError
from aidlearn.files.models import KIND, VERSION, ModelFileError
from small_models import NAMES, data, fitted


@pytest.fixture
def path(tmp_path):
    save_model(fitted("lad")[0], tmp_path / "model")
    return tmp_path / "model"


def refused(path, match):
    with pytest.raises(ModelFileError, match=match) as caught:
        load_model(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    assert str(path) in message


def forged(path, parts, compression=zipfile.ZIP_STORED):
    """An archive of these parts with a checksum that agrees."""
    with zipfile.ZipFile(path, "w", compression) as file:
        file.comment = b"0" * archive.DIGEST
        for name, content in parts:
            file.writestr(name, content)
    whole = path.read_bytes()[: -archive.DIGEST]
    path.write_bytes(whole + hashlib.sha256(whole).hexdigest().encode())
    return path


def parts_of(path):
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def npy(shape, dtype="<f8", content=b""):
    header = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (64 - (len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


def test_a_forged_file_of_the_same_parts_loads(path):
    before = load_model(path).coef_
    assert np.array_equal(load_model(forged(path, parts_of(path).items())).coef_, before)


def test_compressed_parts(path):
    parts = parts_of(path)
    parts["coef_.npy"] = npy((10_000_000,), content=bytes(80_000_000))
    refused(forged(path, parts.items(), zipfile.ZIP_DEFLATED), "is compressed")
    assert path.stat().st_size < 200_000


@pytest.mark.parametrize("shape", [(10**15,), (10**9, 10**9), (-5,), (-1, -3), (7, 0, 10**30), (), (2,)])
def test_shapes_that_the_part_does_not_hold(path, shape):
    parts = parts_of(path)
    parts["coef_.npy"] = npy(shape, content=bytes(24))
    refused(forged(path, parts.items()), "does not hold an array|not an aidlearn model file")


@pytest.mark.parametrize("dtype", ["|O", "<U0", [("a", "<f8")], ("<f8", (1000,))])
def test_types_that_no_array_of_a_model_has(path, dtype):
    parts = parts_of(path)
    parts["coef_.npy"] = npy((10**12,) if dtype == "<U0" else (3,), dtype, bytes(24))
    refused(forged(path, parts.items()), "not an aidlearn model file")


def test_two_parts_of_one_name(path):
    with pytest.warns(UserWarning, match="Duplicate name"):
        forged(path, [*parts_of(path).items(), ("meta.json", b"{}")])
    refused(path, "two parts of one name")


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_json(path, opening):
    parts = parts_of(path)
    parts["meta.json"] = opening.encode() * 200_000
    refused(forged(path, parts.items()), "nested too deeply")


def test_deep_values(path):
    meta = json.loads(parts_of(path)["meta.json"])
    inner = {"$": "tuple", "items": []}
    for _ in range(400):
        inner = {"$": "tuple", "items": [inner]}
    meta["content"]["fitted"]["coef_"] = inner
    refused(forged(path, [("meta.json", json.dumps(meta))]), "nested too deeply|missing|cannot be used|shape")


def changed(path, change):
    found = archive.read(path, KIND, VERSION)
    meta, arrays = dict(found.meta), dict(found.arrays)
    change(meta, arrays)
    archive.write(path, KIND, VERSION, meta, arrays)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_arrays_of_a_wrong_shape(name, tmp_path):
    """One row less, one dimension more, texts, nothing: whatever predictions use is refused when the file is read."""
    model, X = fitted(name)
    save_model(model, tmp_path / "model")
    names = [key for key, value in archive.read(tmp_path / "model", KIND, VERSION).arrays.items()]
    wrongs = {
        "fewer": lambda a: a[:-1] if a.ndim else np.zeros(3),
        "deeper": lambda a: np.zeros((2, 2, *a.shape)),
        "texts": lambda a: np.full(a.shape, "x"),
    }
    for key in names:
        for wrong in wrongs.values():
            save_model(model, tmp_path / "model")
            changed(
                tmp_path / "model", lambda meta, arrays, key=key, wrong=wrong: arrays.update({key: wrong(arrays[key])})
            )
            with contextlib.suppress(ModelFileError):
                load_model(tmp_path / "model").predict(X)


@pytest.mark.parametrize("value", [10**15, 0, -3, "3", None, 2.5])
def test_numbers_of_features(path, value):
    refused(changed(path, lambda meta, arrays: meta["fitted"].update(n_features_in_=value)), "n_features_in_|features")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs the memory of a process from Linux")
def test_memory_of_a_bomb(tmp_path, path):
    """A file that declares terabytes takes next to nothing, in a process that could not have it."""
    parts = parts_of(path)
    parts["coef_.npy"] = npy((10**11,), content=bytes(24))
    forged(path, parts.items())
    code = (
        "import sys; from aidlearn import load_model; from aidlearn.files.models import ModelFileError\n"
        "try: load_model(sys.argv[1])\n"
        "except ModelFileError: pass\n"
        "else: raise SystemExit('loaded')\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 1e9


@pytest.mark.parametrize("kind", ["negative", "beyond", "short", "counts", "homes"])
def test_labels_of_a_checkpoint(tmp_path, kind):
    X, y, *_ = data()
    options = {"init": "kmeans", "tol": 0.0, "checkpoint": tmp_path / "run"}
    LADRegressor(max_iter=1, **options).fit(X, y)
    found = archive.read(tmp_path / "run", CHECKPOINT, CHECKPOINT_VERSION)
    arrays = dict(found.arrays)
    labels = arrays["labels"].copy()
    labels[0] = {"negative": -1, "beyond": 10**6}.get(kind, labels[0])
    arrays["labels"] = labels[:-1] if kind == "short" else labels
    if kind == "counts":
        arrays["counts"] = arrays["counts"] + 1
    if kind == "homes":
        arrays["homes"] = arrays["homes"][:-1]
    archive.write(tmp_path / "run", CHECKPOINT, found.version, found.meta, arrays)
    with pytest.raises(CheckpointError, match="damaged"):
        LADRegressor(max_iter=2, **options).fit(X, y)
