"""Files larger than memory: time of a fit as a multiple of one plain read of its file, and peak memory.

    python -m benchmarks.scale FOLDER [--rows 10000000] [--columns 100] [--cells lad-npy,svm-npy,lad-parquet]

The files are made in FOLDER if they are not there. To see what a limit on memory does (page cache included), start
it in a control group of that size, or under ``ulimit -v``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from aidlearn import LADRegressor, LinearSVC, open_source
from benchmarks.measure import forget_peak, resident

BLOCK = 250_000
MODELS = {"lad": (LADRegressor(), "y"), "svm": (LinearSVC(C=0.1), "label")}


def make_files(folder: Path, rows: int, columns: int) -> None:
    """Gaussian rows, a linear target with Laplace noise, and classes of a logistic model."""
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
    """Seconds of a sequential read with a large buffer."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--cells", default="lad-npy,svm-npy,lad-parquet,svm-parquet")
    given = parser.parse_args()
    if not (given.folder / "table.parquet").exists():
        make_files(given.folder, given.rows, given.columns)
    print("| fit | plain read s | fit s | plain reads | CPU s | passes | gap | peak resident MB |")
    print("|---|---|---|---|---|---|---|---|")
    for cell in given.cells.split(","):
        name, ending = cell.split("-")
        model, target = MODELS[name]
        path, source = opened(given.folder, ending, target, given.columns)
        read = min(plain_read(path) for _ in range(2))
        forget_peak()
        started, cpu = time.perf_counter(), time.process_time()
        model.fit(source)
        wall, used = time.perf_counter() - started, time.process_time() - cpu
        read = min(read, plain_read(path))
        numbers = f"{read:.1f} | {wall:.1f} | {wall / read:.1f} | {used:.1f} | {model.n_passes_} | {model.gap_:.1e}"
        print(f"| {cell} | {numbers} | {resident(peak=True) / 1e6:.0f} |", flush=True)


if __name__ == "__main__":
    main()
