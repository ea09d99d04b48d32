"""Locations of files: paths, lists, patterns, (partitioned) folders, and remote file systems."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from glob import glob, has_magic
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

EXTENSIONS = {
    ".npy": "npy",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
}
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Name that Hive, Spark and pyarrow give to the folder of rows with a missing key."""


@dataclass(frozen=True)
class FilePlace:
    """One file, on disk or in a pyarrow file system."""

    path: str
    shown: str
    """Name of the file in messages."""
    system: Any = field(default=None, compare=False)
    """A pyarrow file system; None for the local disk."""
    keys: tuple[tuple[str, str | None], ...] = ()
    """Columns encoded in the folders of the path, as in ``year=2024/``."""

    def __str__(self) -> str:
        return self.shown

    @property
    def compression(self) -> str | None:
        return COMPRESSIONS.get(PurePosixPath(self.path).suffix.lower())

    @property
    def suffix(self) -> str:
        """Extension of the format, without that of a compression."""
        pure = PurePosixPath(self.path)
        return PurePosixPath(pure.stem).suffix.lower() if self.compression else pure.suffix.lower()

    @property
    def kind(self) -> str | None:
        return EXTENSIONS.get(self.suffix)

    def file(self) -> Any:
        """Return what pyarrow needs to open the file for random access."""
        return self.path if self.system is None else self.system.open_input_file(self.path)

    def stream(self) -> Any:
        """Return the decompressed bytes as a stream."""
        import pyarrow as pa

        raw = (
            pa.OSFile(self.path) if self.system is None else self.system.open_input_stream(self.path, compression=None)
        )
        return pa.CompressedInputStream(raw, self.compression) if self.compression else raw

    def stamp(self) -> tuple[Any, ...] | None:
        """Return size and time of the last change; None if the file is missing."""
        if self.system is None:
            try:
                status = os.stat(self.path)
            except FileNotFoundError:
                return None
            return status.st_size, status.st_mtime_ns
        info = self.system.get_file_info(self.path)
        return None if info.size is None else (info.size, info.mtime_ns)


def is_path(X: Any) -> bool:
    return isinstance(X, (str, os.PathLike))


def is_paths(X: Any) -> bool:
    """Return whether ``X`` is a path or a list of paths."""
    return is_path(X) or (isinstance(X, (list, tuple)) and len(X) > 0 and all(map(is_path, X)))


def find_places(given: Any) -> list[FilePlace]:
    """Return the files of a path, a pattern, a folder, or a list of these."""
    if not is_path(given):
        return [place for one in given for place in find_places(one)]
    text = os.fspath(given)
    scheme = re.match(r"([a-zA-Z][a-zA-Z0-9+.-]+)://", text)
    if scheme and scheme[1].lower() != "file":
        found = _elsewhere(text)
    else:
        found = _here(unquote(text.partition("://")[2]) if scheme else text)
    if not found:
        raise FileNotFoundError(f"There is no file {text}{': nothing matches this pattern' * has_magic(text)}.")
    return found


def _here(text: str) -> list[FilePlace]:
    """Return files on disk; none if the path does not exist or nothing matches the pattern."""
    path = Path(text)
    if path.is_dir():
        inside = [file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()]
        return [_in_folder(str(path / name), name, None) for name in _tables(inside, text)]
    if path.exists():
        if not path.is_file():
            raise ValueError(f"{text} is a pipe or device, which is read once only: write its rows to a file first.")
        return [FilePlace(str(path), str(path))]
    return [_in_folder(name, name, None) for name in sorted(glob(text, recursive=True)) if os.path.isfile(name)]


def _in_folder(path: str, relative: str, system: Any, shown: str | None = None) -> FilePlace:
    """Return a file with the keys of its folders."""
    keys: list[tuple[str, str | None]] = []
    for part in PurePosixPath(relative).parts[:-1]:
        name, equals, value = part.partition("=")
        if equals and name:
            keys.append((unquote(name), None if value == NULL_PARTITION else unquote(value)))
    return FilePlace(path, shown or path, system, tuple(keys))


def _tables(names: Sequence[str], folder: str) -> list[str]:
    """Return the table files of a folder in the order of their names: Parquet, or else CSV.

    Names that begin with . or _ are skipped as metadata of other programs.
    """
    plain = [name for name in names if not any(part[0] in "._" for part in PurePosixPath(name).parts)]
    for kind in ("parquet", "csv"):
        found = sorted(name for name in plain if FilePlace(name, name).kind == kind)
        if found:
            return found
    raise ValueError(f"The folder {folder} has no file *.parquet or *.csv.")


def _elsewhere(uri: str) -> list[FilePlace]:
    """Return the files at an address such as ``s3://bucket/folder``, by pyarrow or, for other schemes, by fsspec."""
    from pyarrow import fs

    start = uri.partition("://")[0] + "://"
    system, path = _system(uri)
    if has_magic(path):
        folder = re.split(r"[*?[]", path, maxsplit=1)[0].rpartition("/")[0]
        inside = _listed(system, fs.FileSelector(folder, allow_not_found=True, recursive=True), uri)
        fitting = sorted(info.path for info in inside if info.is_file and PurePosixPath(info.path).match(path))
        return [_in_folder(name, name, system, start + name) for name in fitting]
    info = _listed(system, path, uri)
    if info.type == fs.FileType.Directory:
        found = _listed(system, fs.FileSelector(path, recursive=True), uri)
        base = path.rstrip("/") + "/"
        inside = [entry.path.removeprefix(base) for entry in found if entry.is_file]
        return [_in_folder(base + name, name, system, start + base + name) for name in _tables(inside, uri)]
    return [] if info.type == fs.FileType.NotFound else [FilePlace(path, uri, system)]


def _listed(system: Any, what: Any, uri: str) -> Any:
    """Return information on a path or folder of a file system; raise a one-line error if it does not answer."""
    try:
        return system.get_file_info(what)
    except OSError as error:
        raise OSError(f"{uri} cannot be listed: {first_line(error)}") from None


def _system(uri: str) -> tuple[Any, str]:
    from pyarrow import fs

    try:
        return fs.FileSystem.from_uri(uri)
    except Exception as first:
        try:
            import fsspec

            system, path = fsspec.core.url_to_fs(uri)
        except ImportError as error:
            raise ValueError(
                f"{uri} lies in a file system that pyarrow does not know; install the package that opens it ({error})."
            ) from None
        except Exception as error:
            raise ValueError(f"{uri} cannot be opened: {first_line(error)} (pyarrow: {first_line(first)})") from None
        return fs.PyFileSystem(fs.FSSpecHandler(system)), path


def first_line(error: Exception) -> str:
    """Return the first line of an error message."""
    return (str(error).splitlines() or [type(error).__name__])[0]
