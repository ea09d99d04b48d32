"""Memory limits: how users state them, and how a fit keeps within them."""

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
    """Return the bytes that a number, or a text such as "500MB" or "2GiB", stands for."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]*)\s*", value)
        if match and match[2].upper() in UNITS:
            value = float(match[1]) * UNITS[match[2].upper()]
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf"):
        return float(value)
    raise ValueError(f"{name} must be a positive number of bytes or a text such as '500MB' or '2GiB', got {value!r}.")


@dataclass(frozen=True)
class Budget:
    """Maximum sizes, in numbers of 8 bytes, of the parts of a fit whose size can be chosen."""

    sample: float = 1 << 25
    """Maximum size of a sample of rows."""
    clusters: float = math.inf
    """Maximum size of the sums of the first clusters."""
    later: float = math.inf
    """Maximum size of the sums of all clusters once the sample is freed; a split that needs more ends the fit."""
    near: float = math.inf
    """Maximum size of the near rows of neighbouring problems, including the weights of problems solved together."""

    spare: float = math.inf
    """Bytes available to the results of a fit once its samples, clusters and labels are freed."""
    held: float = math.inf
    """Bytes available to the results of finished models while others are fitted."""
    classes: int = sys.maxsize
    """Maximum number of classes whose models are fitted in the same passes."""

    @classmethod
    def of(cls, source: DataSource, n_jobs: int, held: float = 0.0) -> Budget:
        """Return the budget under the memory limit of a source, less the bytes of results that are already held.

        Without a limit, it is the default budget.
        """
        limit = source.memory_limit
        return cls() if limit is None else Need.of(source, n_jobs).budget(limit - held)

    def of_members(self, n_members: int, p: int) -> Budget:
        """Return the budget of one of several models fitted together, at least the minimum that a model needs."""
        least = p * fewest_clusters(p)
        clusters, later = (max(number / n_members, least) for number in (self.clusters, self.later))
        return replace(self, clusters=clusters, later=later, near=self.near / n_members)

    def near_rows(self, m: int, n_weights: int = 1) -> float:
        """Return the maximum number of near rows with m columns and ``n_weights`` weights each."""
        return self.near / (m + 2 + n_weights)

    def sample_rows(self, n: int, p: int) -> int:
        """Return the size of the largest sample: a twelfth of all rows, within the budget, but enough for a start."""
        return max(fewest_rows(n, p), min(n // 12, int(self.sample / p)))


def fewest_rows(n: int, p: int) -> int:
    """Return the minimum number of rows in a sample: 20 per variable, at least 2000, and at most all."""
    return min(n, max(20 * p, 2000))


def fewest_clusters(p: int) -> int:
    """Return the number of clusters that every fit may hold: 10 per variable, plus 100."""
    return 10 * p + 100


@dataclass(frozen=True)
class MemorySettings:
    """Memory that the parts of a fit take, for planning under a memory limit."""

    row_bytes: int = 40
    """Bytes per row for labels before and after a split, leverages, and rows that change their cluster."""
    row_and_class_bytes: int = 32
    """Bytes per row and class, for classes fitted in the same passes."""
    sample_copies: float = 2.2
    """Number of copies of the sample; joining rows of high leverage to it makes another."""
    cluster_copies: float = 7.0
    """Number of copies of the sums of clusters; a solver holds scaled rows and their duals."""
    near_copies: float = 4.0
    """Number of copies of near rows; those of chunks are joined, and each member selects from them."""


SETTINGS = MemorySettings()


@dataclass(frozen=True)
class Need:
    """Peak memory of a fit in bytes, beyond that of the process at its start (see the page on scaling)."""

    n: int
    m: int
    chunk_rows: int
    n_jobs: int
    reading: float
    """Bytes of the buffers for reading a file."""
    stored: float
    """Size of one row of a chunk, in numbers of 8 bytes."""
    is_decoded: bool
    """Whether as many chunks again wait as decoded columns."""

    @classmethod
    def of(cls, source: DataSource, n_jobs: int) -> Need:
        # In sparse rows, the index of a column takes half the memory of its number.
        stored = source.n_attributes + 1.0
        if source.is_sparse:
            stored = min(stored, SPARSE_NUMBERS)
        if source.is_sparse and source.encoding is not None:
            stored = 1.5 * len(source.encoding.columns) + 1.0
        n, m, size = source.n_entries, source.n_attributes, source.rows_per_chunk
        return cls(n, m, size, n_jobs, source.reading_bytes, stored, source.is_decoded)

    @property
    def fixed(self) -> float:
        """Bytes that are independent of the sizes of samples and clusters."""
        p = self.m + 1
        chunk = 8.0 * min(self.n, self.chunk_rows) * self.stored
        chunks = 6 + 3 * self.n_jobs + (4 + 2 * self.n_jobs if self.is_decoded else 0)
        newton = 16.0 * max(40 * p, 5000) * p + 64.0 * p * p
        return SETTINGS.row_bytes * self.n + chunk * chunks + newton + self.reading

    def least(self) -> float:
        """Return the bytes needed with the smallest sample and the fewest clusters."""
        p = self.m + 1
        sample, clusters = fewest_rows(self.n, p), min(self.n, fewest_clusters(p))
        return self.fixed + 8 * p * (SETTINGS.sample_copies * sample + SETTINGS.cluster_copies * clusters)

    def budget(self, limit: float) -> Budget:
        """Return the budget under a limit.

        Of the memory that is not fixed, the sample and the first clusters get half each, later clusters get all.
        """
        left = max(limit - self.fixed, 0.0) / 2 / 8
        later = max(2 * left / SETTINGS.cluster_copies, (self.m + 1) * fewest_clusters(self.m + 1))
        # Neighbouring problems hold near rows in place of clusters and labels.
        near = (left + SETTINGS.row_bytes * self.n / 8) / SETTINGS.near_copies
        class_bytes = SETTINGS.row_and_class_bytes * self.n + 8.0 * SETTINGS.cluster_copies * self.m * 10 * self.m
        return Budget(
            sample=min(Budget.sample, left / SETTINGS.sample_copies),
            clusters=left / SETTINGS.cluster_copies,
            later=later,
            near=near,
            spare=max(limit - self.fixed + SETTINGS.row_bytes * self.n, 0.0),
            held=max(limit - self.least(), 0.0),
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
