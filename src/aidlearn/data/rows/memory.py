"""Memory limits: how users write them, and how a fit keeps to them."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from aidlearn.data.rows.chunk import SPARSE_NUMBERS
from aidlearn.data.rows.threads import n_threads

if TYPE_CHECKING:
    from aidlearn.data.rows.source import DataSource

UNITS = {"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def parse_bytes(name: str, value: Any) -> float:
    """Bytes of a number, or of a text such as "500MB" or "2GiB"."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]*)\s*", value)
        if match and match[2].upper() in UNITS:
            value = float(match[1]) * UNITS[match[2].upper()]
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf"):
        return float(value)
    raise ValueError(f"{name} must be a positive number of bytes or a text such as '500MB' or '2GiB', got {value!r}.")


@dataclass(frozen=True)
class Budget:
    """Maximum sizes, in numbers of 8 bytes, of what a fit can choose the size of."""

    sample: float = 1 << 25
    """Size of the largest sample of rows."""
    clusters: float = math.inf
    """Size of the sums of the first clusters."""
    later: float = math.inf
    """Size of the sums of all clusters after the sample is freed; a split that needs more ends the fit."""
    near: float = math.inf
    """Size of the near rows of neighbouring problems, with the weights of those solved together."""

    spare: float = math.inf
    """Bytes for results of a fit after its samples, clusters and labels are freed."""
    classes: int = sys.maxsize
    """Number of classes whose models can be fitted in the same passes."""

    @classmethod
    def of(cls, source: DataSource, n_jobs: int) -> Budget:
        """The budget under the memory limit of a source, if it has one."""
        return cls() if source.memory_limit is None else Need.of(source, n_jobs).budget(source.memory_limit)

    def of_members(self, n_members: int, p: int) -> Budget:
        """The budget of one of several models that are fitted at once, at least what each of them needs."""
        least = p * fewest_clusters(p)
        clusters, later = (max(number / n_members, least) for number in (self.clusters, self.later))
        return replace(self, clusters=clusters, later=later, near=self.near / n_members)

    def near_rows(self, m: int, n_weights: int = 1) -> float:
        """Maximum number of near rows of m columns with ``n_weights`` weights each."""
        return self.near / (m + 2 + n_weights)

    def sample_rows(self, n: int, p: int) -> int:
        """Rows of the largest sample: a twelfth of all, at most what fits, and at least what a start needs."""
        return max(fewest_rows(n, p), min(n // 12, int(self.sample / p)))


def fewest_rows(n: int, p: int) -> int:
    """Minimum number of rows of a sample: 20 per variable, and 2000."""
    return min(n, max(20 * p, 2000))


def fewest_clusters(p: int) -> int:
    """Number of clusters that every fit may hold: 10 per variable, and 100 more."""
    return 10 * p + 100


@dataclass(frozen=True)
class MemorySettings:
    """What a fit holds, for plans that keep to a memory limit."""

    row_bytes: int = 40
    """Bytes per row: labels before and after a split, leverages, and rows that change their cluster."""
    row_and_class_bytes: int = 32
    """Bytes per row and class that is fitted in the same passes."""
    sample_copies: float = 2.2
    """Copies of the sample: rows of large leverage are joined to it."""
    cluster_copies: float = 7.0
    """Copies of the sums of clusters: a solver holds scaled rows and their duals."""
    near_copies: float = 4.0
    """Copies of near rows: they are joined from those of chunks, and each member selects some."""


SETTINGS = MemorySettings()


@dataclass(frozen=True)
class Need:
    """Peak memory of a fit in bytes beyond that of the process when it begins (see the page on scaling)."""

    n: int
    m: int
    chunk_rows: int
    n_jobs: int
    reading: float
    """Bytes of the buffers that a file is read with."""
    stored: float
    """Numbers of 8 bytes of a row of a chunk."""

    @classmethod
    def of(cls, source: DataSource, n_jobs: int) -> Need:
        # A stored number of a sparse row also has a column index.
        stored = source.n_attributes + 1.0
        if source.is_sparse:
            stored = min(stored, SPARSE_NUMBERS)
        if source.is_sparse and source.encoding is not None:
            stored = 1.5 * len(source.encoding.columns) + 1.0
        return cls(source.n_entries, source.n_attributes, source.rows_per_chunk, n_jobs, source.reading_bytes, stored)

    @property
    def fixed(self) -> float:
        """Bytes that do not depend on the sizes of samples and clusters."""
        p = self.m + 1
        chunk = 8.0 * min(self.n, self.chunk_rows) * self.stored
        newton = 16.0 * max(40 * p, 5000) * p + 64.0 * p * p
        return SETTINGS.row_bytes * self.n + chunk * (6 + 3 * self.n_jobs) + newton + self.reading

    def least(self) -> float:
        """Bytes with the smallest sample and the fewest clusters."""
        p = self.m + 1
        sample, clusters = fewest_rows(self.n, p), min(self.n, fewest_clusters(p))
        return self.fixed + 8 * p * (SETTINGS.sample_copies * sample + SETTINGS.cluster_copies * clusters)

    def budget(self, limit: float) -> Budget:
        """Budget under a limit: half of the rest for the sample, half for the first clusters, all for later ones."""
        left = max(limit - self.fixed, 0.0) / 2 / 8
        later = max(2 * left / SETTINGS.cluster_copies, (self.m + 1) * fewest_clusters(self.m + 1))
        # Neighbouring problems have near rows in place of clusters and labels.
        near = (left + SETTINGS.row_bytes * self.n / 8) / SETTINGS.near_copies
        class_bytes = SETTINGS.row_and_class_bytes * self.n + 8.0 * SETTINGS.cluster_copies * self.m * 10 * self.m
        return Budget(
            sample=min(Budget.sample, left / SETTINGS.sample_copies),
            clusters=left / SETTINGS.cluster_copies,
            later=later,
            near=near,
            spare=max(limit - self.fixed + SETTINGS.row_bytes * self.n, 0.0),
            classes=1 + max(0, int((limit - self.least()) / class_bytes)),
        )


def check_limit(source: DataSource, named: str = "") -> None:
    """Refuse a memory limit that is too low for the source; the error states the amount needed."""
    assert source.memory_limit is not None
    threads = n_threads(source.n_jobs)
    need = Need.of(source, threads)
    if need.least() > source.memory_limit:
        fewer = "fewer columns or fewer threads (n_jobs=1)" if threads > 1 else "fewer columns"
        raise ValueError(
            f"A fit of {source.n_entries} rows x {source.n_attributes} columns needs about "
            f"{math.ceil(need.least() / 1e6)} MB, more than memory_limit={named or source.memory_limit}: raise it, or "
            f"choose {fewer}."
        )
