"""Files of arrays and words, without code: checkpoints and models are archives.

An archive is an ordinary zip of .npy arrays and one JSON text, so that anyone can look into it. Its zip comment is the
SHA-256 of every byte before the comment: a file that was cut off or changed anywhere is noticed before it is used.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import IO, Any, BinaryIO, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

META = "meta.json"
DIGEST = len(hashlib.sha256().hexdigest())
BLOCK = 1 << 20


class ArchiveError(ValueError):
    """An archive that cannot be used, and why."""


@dataclass(frozen=True)
class Archive:
    """What a file holds."""

    version: int
    meta: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def write(
    path: Path,
    kind: str,
    version: int,
    meta: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    previous: Path | None = None,
) -> None:
    """Write an archive: the file is either the old one or the whole new one, whatever happens.

    ``kind`` is what the file is, in words ("aidlearn model"); ``meta`` is anything that JSON can hold; the old file
    is kept as ``previous``, if that is given.
    """
    with whole_file(path, previous) as file:
        _write(file, {"kind": kind, "version": version, "content": meta}, arrays)


@contextmanager
def whole_file(path: Path, previous: Path | None = None) -> Iterator[BinaryIO]:
    """A temporary file in the folder of ``path`` that replaces it when the block ends without an error.

    Its name is unique, so that two writers of one path never write into the same file: the last one wins. The old
    file is kept as ``previous``, if that is given.
    """
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.writing")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if previous is not None:
            with suppress(FileNotFoundError):  # there is none yet, or another writer has just renamed it
                os.replace(path, previous)
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    _sync_folder(path.parent)


def read(path: Path, kind: str, newest: int) -> Archive:
    """An archive of a kind, of this or an older version."""
    what = kind.removeprefix("aidlearn ")
    try:
        with open(path, "rb") as file:
            _verify(file, path, what)
            header, arrays = _content(file)
    except ArchiveError:
        raise
    except OSError as error:
        raise ArchiveError(f"The {what} {path} cannot be read: {error.strerror or error}.") from None
    except (ValueError, KeyError, TypeError, EOFError, NotImplementedError, zipfile.BadZipFile) as error:
        raise ArchiveError(f"{path} is not an aidlearn {what} file: {error}.") from None
    except RecursionError:
        raise ArchiveError(f"{path} is not an aidlearn {what} file: its description is nested too deeply.") from None
    found, version = header.get("kind"), header.get("version")
    if found != kind or not isinstance(version, int) or not isinstance(header.get("content"), dict):
        raise ArchiveError(f"{path} is not an aidlearn {what} file: it is {found!r}.")
    if version > newest:
        raise ArchiveError(
            f"The {what} {path} has format version {version}; this version of aidlearn reads up to {newest}."
        )
    return Archive(version, header["content"], arrays)


def record(kind: type[T], values: Any) -> T:
    """Return a data class of the values of a file; raise a TypeError unless each has its declared type."""
    if not isinstance(values, Mapping):
        raise TypeError(f"a {kind.__name__} is {shown(values)}")
    made, hints = kind(**values), get_type_hints(kind)
    for name, value in values.items():
        if not has_type(value, hints[name]):
            raise TypeError(f"{name} is {shown(value)}")
    return made


def has_type(value: Any, hint: Any) -> bool:
    """Return whether a value of a file has a declared type; numbers fit into 64 bits, arrays have one dimension."""
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind is Any:
        return True
    if kind in (Union, UnionType):
        return any(has_type(value, one) for one in inner)
    if kind is None or kind is NoneType:
        return value is None
    if kind is bool:  # 0 and 1 are flags, too
        return isinstance(value, (bool, np.bool_, Integral)) and value in (0, 1)
    if kind in (int, float):
        right = isinstance(value, Integral if kind is int else Real)
        return right and (not isinstance(value, Integral) or -(2**63) <= int(value) < 2**63)
    if kind is np.ndarray:
        dtype = get_args(inner[1])[0] if inner else Any
        right = dtype is Any or (np.ndim(value) == 1 and np.asarray(value).dtype.kind == np.dtype(dtype).kind)
        return isinstance(value, np.ndarray) and right
    if not isinstance(value, kind):
        return False
    if kind is list or (kind is Sequence and inner):
        return all(has_type(item, inner[0]) for item in value)
    return kind not in (dict, Mapping) or all(has_type(k, inner[0]) and has_type(v, inner[1]) for k, v in value.items())


def shown(value: Any) -> str:
    """Return a value for a message: short, and on one line."""
    text = " ".join(repr(value).split()) if isinstance(value, (str, bool, float, NoneType)) else type(value).__name__
    return text if len(text) <= 40 else f"{text[:37]}..."


def _write(file: BinaryIO, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    hashing = _Hashing(file)
    with zipfile.ZipFile(hashing, "w") as archive:  # type: ignore[call-overload]  # it needs write and flush only
        archive.comment = b"0" * DIGEST
        archive.writestr(META, json.dumps(header))
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                # Not ascontiguousarray, which makes a number an array of one.
                np.lib.format.write_array(entry, np.asarray(array, order="C"), allow_pickle=False)
    file.seek(-DIGEST, os.SEEK_END)
    file.write(hashing.digest.hexdigest().encode())


def _verify(file: BinaryIO, path: Path, what: str) -> None:
    """Compare the checksum; leaves the file at its beginning."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if file.read(2) != b"PK":
        raise ArchiveError(f"{path} is not an aidlearn {what} file.")
    file.seek(0)
    digest, left = hashlib.sha256(), size - DIGEST
    while left > 0:
        block = file.read(min(BLOCK, left))
        if not block:
            break
        digest.update(block)
        left -= len(block)
    if file.read() != digest.hexdigest().encode():
        raise ArchiveError(f"{path} is damaged or not an aidlearn {what} file: its checksum does not match.")
    file.seek(0)


def _content(file: BinaryIO) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    arrays = {}
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        _check_entries(entries, file.seek(0, os.SEEK_END))
        header = json.loads(archive.read(META))
        for entry in entries:
            if entry.filename.endswith(".npy"):
                with archive.open(entry) as content:
                    arrays[entry.filename.removesuffix(".npy")] = _array(content, entry)
    if not isinstance(header, dict):
        raise ValueError("its description is not a table")
    return header, arrays


def _check_entries(entries: list[zipfile.ZipInfo], size: int) -> None:
    """Parts as they are written: once each and uncompressed, so that no more comes out than the file holds."""
    if len({entry.filename for entry in entries}) < len(entries):
        raise ValueError("it holds two parts of one name")
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
            raise ValueError(f"its part {entry.filename!r} is compressed")
    if sum(entry.file_size for entry in entries) > size:
        raise ValueError("its parts are larger than the file")


def _array(content: IO[bytes], entry: zipfile.ZipInfo) -> NDArray[Any]:
    """An array whose declared shape is what the part holds: looked at before memory is taken for it."""
    version = np.lib.format.read_magic(content)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"its part {entry.filename!r} has an unknown version")
    shape, by_columns, dtype = readers[version](content)
    if dtype.hasobject or dtype.fields is not None or dtype.subdtype is not None:
        raise ValueError(f"its part {entry.filename!r} holds values of type {dtype}")
    count = math.prod(int(n) for n in shape)
    length = count * dtype.itemsize
    if any(n < 0 for n in shape) or length != entry.file_size - content.tell() or (count and not length):
        raise ValueError(f"its part {entry.filename!r} does not hold an array of shape {shape}")
    values = np.empty(count, dtype=dtype)
    left = memoryview(values.view(np.uint8).data)
    while left:
        n = content.readinto(left)  # type: ignore[attr-defined]  # a part of a zip is a buffered file
        if not n:
            raise EOFError(f"its part {entry.filename!r} ends early")
        left = left[n:]
    return values.reshape(shape, order="F" if by_columns else "C")


class _Hashing:
    """A file written from front to back, with the digest of all but the last ``DIGEST`` bytes."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.digest = file, hashlib.sha256()
        self._recent = b""

    def write(self, data: Any) -> int:
        self._recent += bytes(data)
        self.digest.update(self._recent[:-DIGEST])
        self._recent = self._recent[-DIGEST:]
        return self.file.write(data)

    def flush(self) -> None:
        self.file.flush()


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
