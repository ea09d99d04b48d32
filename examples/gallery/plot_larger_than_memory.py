"""
A Parquet file larger than the memory limit
===========================================

The linear models read files in passes over chunks of rows. This example writes a Parquet file of 500 MB, allows the fit
400 MB, and records the memory of the process.
"""

# %%
# The file is written in parts, so it is never in memory as a whole.

import tempfile
import threading
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from aidlearn import LADRegressor, open_source

n, m, parts = 3_000_000, 20, 30
folder = tempfile.TemporaryDirectory()
path = Path(folder.name, "rows.parquet")
rng = np.random.default_rng(0)
truth = np.linspace(-1, 1, m)
schema = pa.schema([(f"x{k}", pa.float64()) for k in range(m)] + [("y", pa.float64())])
with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as file:
    for _ in range(parts):
        X = rng.normal(size=(n // parts, m))
        y = X @ truth + rng.laplace(size=len(X))
        file.write_table(pa.table([*X.T, y], schema=schema))
size = path.stat().st_size
print(f"{n:,} rows x {m} columns, {size / 1e6:.0f} MB")

# %%
# ``memory_limit`` is what the fit may add to the process. Meanwhile a thread samples the resident memory (Linux).


def resident():
    """Resident memory of this process in bytes."""
    fields = Path("/proc/self/statm")
    return int(fields.read_text().split()[1]) * 4096 if fields.exists() else 0


LADRegressor().fit(np.zeros((1000, 2)) + rng.normal(size=(1000, 2)), rng.normal(size=1000))  # loads libraries
source = open_source(path, target="y", memory_limit="400MB")
before, began, seen, done = resident(), time.perf_counter(), [], threading.Event()


def watch():
    while not done.wait(0.02):
        seen.append((time.perf_counter() - began, (resident() - before) / 1e6))


watcher = threading.Thread(target=watch)
watcher.start()
model = LADRegressor(tol=1e-5).fit(source)
done.set()
watcher.join()
spent = time.perf_counter() - began
print(
    f"{spent:.1f} s, {model.n_passes_} passes, gap {model.gap_:.1e}, largest error {np.abs(model.coef_ - truth).max():.4f}"
)

# %%
# The file was never in memory as a whole.

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
seconds, megabytes = np.array(seen).T
ax.plot(seconds, megabytes, color="#0072B2", label="memory added by the fit")
ax.axhline(size / 1e6, color="#D55E00", ls="--", label="size of the file")
ax.axhline(400, color="0.5", ls=":", label="limit")
ax.set(xlabel="seconds", ylabel="MB", ylim=(0, 1.15 * size / 1e6))
ax.legend(frameon=False, loc="center right")
plt.show()
print(f"at most {megabytes.max():.0f} MB")
folder.cleanup()
