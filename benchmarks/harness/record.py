"""Records of a fit of aidlearn, in addition to its times and its objective."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any

import aidlearn
from aidlearn.bench.measure import UNSEEN


def record(model: Any) -> dict[str, Any]:
    """Return certificate, clusters, passes and history of a fitted model, and a digest of the source that fitted it."""
    return {
        "gap": float(model.gap_),
        "lower_bound": float(model.lower_bound_),
        "claimed": float(model.objective_),
        "status": str(model.status_),
        "rate": float(model.aggregation_rate_),
        "clusters": int(model.n_clusters_),
        "passes": int(model.n_passes_),
        "bounds": [float(entry.lower_bound) for entry in model.history_],
        "rates": [float(entry.aggregation_rate) for entry in model.history_],
        "source": source_digest(),
    }


def product_seconds(X: Any, b: Any, repeat: int = 5) -> float:
    """Return the CPU seconds of one ``X @ b``, best of ``repeat``."""
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        X @ b
        best = min(best, time.process_time() - start)
    return max(best, UNSEEN)


def source_digest() -> str:
    """Return a short digest of the installed source, so that results of different versions are not mixed."""
    digest = hashlib.sha256()
    for path in sorted(Path(aidlearn.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]
