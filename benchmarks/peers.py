"""The programs aidlearn is compared with: each fits X, y with an intercept at the median and is measured."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import PATIENCE, Measured, measure

SCRIPT = Path(__file__).with_name("quantreg.R")


@dataclass(frozen=True)
class Peer:
    """One program. ``skip`` says why it does not run on an n x m array, ``fit`` runs it."""

    name: str

    def skip(self, n: int, m: int) -> str | None:
        raise NotImplementedError

    def fit(self, X: np.ndarray, y: np.ndarray, repeat: int, timeout: float) -> Measured:
        raise NotImplementedError


@dataclass(frozen=True)
class Quantreg(Peer):
    """R's quantreg without the overhead of formulas: rq.fit.fnb ("fn") or rq.fit.pfn ("pfn")."""

    method: str
    max_work: float = float("inf")
    """Largest n m^2 it is asked to do."""

    def skip(self, n: int, m: int) -> str | None:
        if shutil.which("Rscript") is None:
            return "Rscript is not installed"
        if n * m**2 > self.max_work:
            return f"too slow: n m^2 > {self.max_work:.0e}"
        return None

    def fit(self, X: np.ndarray, y: np.ndarray, repeat: int, timeout: float) -> Measured:
        n, m = X.shape
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with open(folder / "X", "wb") as file:
                np.ones(n).tofile(file)
                for j in range(m):
                    np.ascontiguousarray(X[:, j]).tofile(file)
            y.tofile(folder / "y")
            call = ["Rscript", "--vanilla", str(SCRIPT), name, n, m + 1, self.method, repeat, PATIENCE]
            try:
                done = subprocess.run([str(word) for word in call], capture_output=True, text=True, timeout=timeout)
            except subprocess.TimeoutExpired:
                return Measured(failed=f"over {timeout:.0f} s")
            report = folder / "report"
            out = _parse(report.read_text() if report.exists() else "")
            if out.failed is None and not (folder / "coef").exists():
                out.failed = f"R ended with code {done.returncode}: {done.stderr.strip()[-200:]}"
            if out.failed is None:
                point = np.fromfile(folder / "coef")
                out.intercept, out.coef = float(point[0]), point[1:]
        return out


def _parse(report: str) -> Measured:
    """The lines that quantreg.R wrote: a key and its value."""
    out = Measured()
    for line in report.splitlines():
        key, _, value = line.partition(" ")
        if key == "run":
            cpu, wall = map(float, value.split())
            out.runs.append(cpu)
            out.cpu, out.wall = float(np.fmin(out.cpu, cpu)), float(np.fmin(out.wall, wall))
        elif key == "extra" and value != "NA":
            out.extra_bytes = float(value)
        elif key == "iterations":
            out.iterations = int(value)
        elif key == "warning" and value not in out.notes:
            out.notes.append(value)
        elif key == "failed":
            out.failed = value
    return out


@dataclass(frozen=True)
class ScikitLearn(Peer):
    """QuantileRegressor: the linear program of all rows, solved by HiGHS."""

    def skip(self, n: int, m: int) -> str | None:
        return "too slow: n > 20,000" if n > 20_000 else None

    def fit(self, X: np.ndarray, y: np.ndarray, repeat: int, timeout: float) -> Measured:
        from sklearn.linear_model import QuantileRegressor

        def model() -> Any:
            return QuantileRegressor(quantile=0.5, alpha=0.0, solver="highs")

        model().fit(X[:100], y[:100])
        out = measure(lambda: model().fit(X, y), repeat)
        if out.model is not None:
            out.coef, out.intercept = out.model.coef_, float(out.model.intercept_)
            out.iterations = int(np.max(out.model.n_iter_))
        return out


@dataclass(frozen=True)
class Statsmodels(Peer):
    """QuantReg: iteratively reweighted least squares."""

    def skip(self, n: int, m: int) -> str | None:
        try:
            import statsmodels.regression.quantile_regression  # noqa: F401
        except ImportError:
            return "statsmodels is not installed"
        return "too slow: n > 200,000 or m > 50" if n > 200_000 or m > 50 else None

    def fit(self, X: np.ndarray, y: np.ndarray, repeat: int, timeout: float) -> Measured:
        from statsmodels.regression.quantile_regression import QuantReg

        with_ones = np.column_stack([np.ones(len(y)), X])
        QuantReg(y[:1000], with_ones[:1000]).fit(q=0.5)
        out = measure(lambda: QuantReg(y, with_ones).fit(q=0.5), repeat)
        if out.model is not None:
            point = np.asarray(out.model.params)
            out.coef, out.intercept, out.iterations = point[1:], float(point[0]), int(out.model.iterations)
        return out


PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Quantreg("quantreg fn", "fn", max_work=2e10),
        Quantreg("quantreg pfn", "pfn"),
        ScikitLearn("scikit-learn"),
        Statsmodels("statsmodels"),
    )
}
