"""Fits from files larger than memory, in multiples of a plain read: python -m benchmarks.scale --folder DIR.

Missing files are generated in the folder. To see the effect of a memory limit (page cache included), start the
benchmark in a control group of that size, or under ``ulimit -v``.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np

from aidlearn import LADRegressor, LinearSVC, open_source
from aidlearn.bench.measure import forget_peak, resident
from benchmarks.harness.cells import Cell, Row
from benchmarks.harness.command import Options, Table, main
from benchmarks.harness.table import TableLayout, pick

BLOCK = 250_000
MODELS = {"lad": (LADRegressor(), "y"), "svm": (LinearSVC(C=0.1), "label")}


def make_files(folder: Path, rows: int, columns: int) -> None:
    """Write Gaussian rows, a linear target with Laplace noise, and classes of a logistic model."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    slopes = rng.normal(size=columns)
    opened = {
        name: np.lib.format.open_memmap(folder / f"{name}.npy", "w+", dtype=np.float64, shape=shape)
        for name, shape in (("X", (rows, columns)), ("y", (rows,)), ("label", (rows,)))
    }
    schema = pa.schema(
        [(f"x{k}", pa.float64()) for k in range(columns)] + [("y", pa.float64()), ("label", pa.float64())]
    )
    with pq.ParquetWriter(folder / "table.parquet", schema) as table:
        for start in range(0, rows, BLOCK):
            X = rng.standard_normal((min(BLOCK, rows - start), columns))
            y = X @ slopes + rng.laplace(size=len(X))
            label = (0.3 * X @ slopes + rng.logistic(size=len(X)) > 0).astype(np.float64)
            for name, values in (("X", X), ("y", y), ("label", label)):
                opened[name][start : start + len(X)] = values
                opened[name].flush()
            arrays = [np.ascontiguousarray(X[:, k]) for k in range(columns)]
            table.write_batch(pa.record_batch([pa.array(values) for values in (*arrays, y, label)], schema=schema))


def plain_read(path: Path) -> float:
    """Return the seconds of a sequential read with a large buffer."""
    started, buffer = time.perf_counter(), bytearray(8 << 20)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.perf_counter() - started


def opened(folder: Path, ending: str, target: str, columns: int) -> tuple[Path, Any]:
    if ending == "npy":
        return folder / "X.npy", open_source(folder / "X.npy", target=folder / f"{target}.npy")
    path = folder / "table.parquet"
    return path, open_source(path, target=target, columns=[f"x{k}" for k in range(columns)])


def fit(folder: str, rows: int, columns: int, model: str, ending: str) -> Row:
    """Measure a fit from a file, with plain reads before and after."""
    place = Path(folder) / f"{rows}x{columns}"
    if not (place / "table.parquet").exists():
        make_files(place, rows, columns)
    estimator, target = MODELS[model]
    path, source = opened(place, ending, target, columns)
    read = min(plain_read(path) for _ in range(2))
    forget_peak()
    wall, cpu = time.perf_counter(), time.process_time()
    estimator.fit(source)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    read = min(read, plain_read(path))
    row = {"read": read, "wall": wall, "reads": wall / read, "cpu": cpu, "gap": float(estimator.gap_)}
    return row | {"passes": int(estimator.n_passes_), "peak": resident(peak=True) / 1e6}


def cells(options: Options) -> list[Cell]:
    rows, columns = (200_000, 20) if options.quick else (10_000_000, 100)
    size = {"folder": str(options.folder.absolute()), "rows": rows, "columns": columns}
    return [
        Cell(f"{model}-{ending}", "aidlearn", "benchmarks.scale:fit", size | {"model": model, "ending": ending})
        for ending, model in itertools.product(("npy", "parquet"), MODELS)
    ]


SHOWN = pick("cpu", "wall", read=("plain read s", "{:.2f}"), reads=("plain reads", "{:.1f}")) | pick(
    "gap", passes=("passes", "{}"), peak=("peak resident MB", "{:.0f}")
)
TABLE = Table("files", "Fits from files, default settings", cells, TableLayout(SHOWN))

if __name__ == "__main__":
    main("scale", __doc__.split("\n")[0], TABLE)
