"""The cells of the linear experiments: one solver on one instance, in a process of its own.

Faithful fits follow the paper in every part that determines its numbers: its initial clusters (``init="kmeans"``), its
splitting rules, the solver it used for aggregated problems at that solver's tolerance, and its stopping rule, which
compares the best objective with the value F_t that the solver reports. That value is not a proven bound; the proven
bound is kept as well.
"""

from __future__ import annotations

import resource
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from aidlearn import LADRegressor, LinearSVC
from aidlearn.bench.judge import Coefficients, Data, best_intercept, objective
from aidlearn.bench.measure import Measurement, measure
from aidlearn.bench.solvers import COMPILED, Job
from aidlearn.engine.result import Iteration
from aidlearn.linear.aggregated.solvers import SOLVERS
from aidlearn.linear.problem import PiecewiseLinear
from benchmarks.harness.peers import solvers
from benchmarks.paper.generators import KINDS

Row = dict[str, Any]
MODELS = {"lad": LADRegressor, "svm": LinearSVC}
TOLERANCE = {"lad": 1e-3, "svm": 1e-4}
"""Tolerance of the paper's gap."""
SOLVER_TOLERANCE = 1e-3
"""Tolerance of fn, libsvm and liblinear in the paper."""
PENALTY = 0.1
"""Penalty M of the paper's SVMs."""
MOST_ITERATIONS = 40
LIBLINEAR_STEPS = 100_000
"""Iteration limit of liblinear in the paper."""
WARM_COLUMNS = 20
SHARE_OF_TIME = 0.9
"""Fraction of the limit after which a faithful fit stops; its last aggregated problem may take longer."""


@dataclass
class Faithful:
    """Callback that applies the paper's stopping rule and records F_t and times of its procedure."""

    solver: str
    tol: float
    limit: float
    values: list[float] = field(default_factory=list)
    """Values F_t as the solver reports them."""
    start_seconds: float = 0.0
    solver_seconds: list[float] = field(default_factory=list)
    began: float = 0.0
    stopped_by_time: bool = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        solve, start = SOLVERS[self.solver], PiecewiseLinear.start

        def recorded(rows: Any, point: Any, has_intercept: bool, accuracy: Any) -> Any:
            before = time.process_time()
            solution = solve(rows, point, has_intercept, replace(accuracy, relative=SOLVER_TOLERANCE))
            self.solver_seconds.append(time.process_time() - before)
            self.values.append(float(rows.value(solution.point)))
            return solution

        def timed(problem: PiecewiseLinear) -> Any:
            before = time.process_time()
            try:
                return start(problem)
            finally:
                self.start_seconds = time.process_time() - before

        SOLVERS[self.solver], PiecewiseLinear.start = recorded, timed
        self.began = time.process_time()
        try:
            yield
        finally:
            SOLVERS[self.solver], PiecewiseLinear.start = solve, start

    def __call__(self, record: Iteration) -> bool:
        """Return whether to stop: (E_best - F_t) / E_best meets the paper's tolerance, or the time is up."""
        self.stopped_by_time = time.process_time() - self.began > SHARE_OF_TIME * self.limit
        best = record.best_objective
        return best - self.values[-1] <= self.tol * abs(best) or self.stopped_by_time


@cache
def warm() -> None:
    """Load compiled code before cells are forked from this process, which saves each a second or two."""
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rows in (500, COMPILED // WARM_COLUMNS + 1):
            X = rng.standard_normal((rows, WARM_COLUMNS))
            y = X[:, 0] + rng.standard_normal(rows)
            LADRegressor(n_jobs=1).fit(X, y)
            LinearSVC(C=PENALTY, n_jobs=1).fit(X, np.sign(y))
            LinearSVC(C=PENALTY, n_jobs=1, init="kmeans", max_iter=3).fit(X, np.sign(y))


def fit(
    kind: str,
    n: int,
    m: int,
    seed: int,
    problem: str,
    solver: str,
    limit: float,
    memory: float,
    params: Row | None = None,
    repeat: int = 1,
    keep_history: bool = False,
) -> Row:
    """Generate the data, run one solver and judge its result.

    Parameters
    ----------
    kind, n, m, seed
        Kind, size and seed of the data.
    problem : {"lad", "svm"}
    solver : str
        "default", "faithful NAME" with the solver of aggregated problems, or a peer of that name.
    limit : float
        Limit on the CPU seconds of a peer or a faithful fit.
    memory : float
        Limit on the memory that a fit may need, in GB.
    params : dict or None
        Further arguments of our estimator.
    repeat : int
        Number of runs of a default fit; the best counts.
    keep_history : bool
        Whether the row contains every iteration.
    """
    needed = _needed(n, m, solver)
    if needed > memory:
        return {"failed": f"not run: needs about {needed:.0f} GB"}
    X, y = KINDS[kind](n, m, seed)
    data = Data(X, y)
    settings = {"C": PENALTY} if problem == "svm" else {}
    if solver == "default":
        out = _own(problem, data, settings | (params or {}), repeat)
    elif solver.startswith("faithful"):
        out = _faithful(problem, data, settings | (params or {}), solver.split()[1], limit)
    else:
        out = _peer(problem, data, settings, solver, limit)
    row = out.certificate | {
        "cpu": out.cpu,
        "wall": out.wall,
        "peak": out.peak_bytes / 1e6,
        "iterations": out.iterations,
    }
    if out.solution is None or out.failed:
        over = {"cpu_over": limit} if "code -24" in (out.failed or "") else {}
        return row | {"failed": f"over {limit:g} s" if over else out.failed or "no coefficients"} | over
    row["objective"] = objective(problem, data, out.solution, **settings)
    if problem == "svm":
        row["train"] = train_rate(data, out.solution)
    if not keep_history:
        row.pop("history", None)
    return row


def train_rate(data: Data, solution: Coefficients) -> float:
    """Return the share of rows on the correct side, with the intercept of least objective."""
    scores = np.asarray(data.X @ solution.coef)
    errors = data.y - scores
    intercept = best_intercept(errors, np.ones(len(errors)), float((data.y > 0).sum()))
    return float(((scores + intercept > 0) == (data.y > 0)).mean())


def _needed(n: int, m: int, solver: str) -> float:
    """Return the approximate memory in GB: R holds the rows, their transpose and a work copy in addition to ours."""
    return 8e-9 * n * m * (4.0 if "quantreg" in solver else 1.15)


def _own(problem: str, data: Data, arguments: Row, repeat: int) -> Measurement:
    """Measure the default after a warm-up, so that compilation is not counted."""
    model = MODELS[problem]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        n = -(-COMPILED // data.X.shape[1])
        for rows in (1000, n) if n < len(data.y) else (1000,):
            some = _some(data, rows)
            model(n_jobs=1, **arguments).fit(some.X, some.y)
    out = measure(lambda: model(n_jobs=1, **arguments).fit(data.X, data.y), repeat)
    if out.model is not None:
        _read(out)
    return out


def _faithful(problem: str, data: Data, arguments: Row, name: str, limit: float) -> Measurement:
    model, watch = MODELS[problem], Faithful(name, TOLERANCE[problem], limit)
    given = {"init": "kmeans", "solver": name, "tol": 1e-9, "max_iter": MOST_ITERATIONS, "n_jobs": 1} | arguments
    some = _some(data, 2000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model(**given | {"max_iter": 2}).fit(some.X, some.y)

    def run() -> Any:
        with watch.watching():
            return model(**given, callbacks=[watch]).fit(data.X, data.y)

    out = measure(run, 1)
    if out.model is None:
        return out
    _read(out)
    best = out.certificate["claimed"]
    out.certificate |= {
        "F": watch.values,
        "paper_gap": (best - watch.values[-1]) / abs(best) if best else 0.0,
        "start_cpu": watch.start_seconds,
        "loop_cpu": out.cpu - watch.start_seconds,
        "solver_cpu": sum(watch.solver_seconds),
        "cut": watch.stopped_by_time and best - watch.values[-1] > TOLERANCE[problem] * abs(best),
    }
    return out


def _some(data: Data, rows: int) -> Data:
    """Return the first rows and a few positive ones, so that both classes occur."""
    chosen = np.arange(min(rows, len(data.y)))
    positive = np.flatnonzero(data.y > 0)[:5]
    chosen = np.union1d(chosen, positive)
    return Data(data.X[chosen], data.y[chosen])


def _read(out: Measurement) -> None:
    model = out.model
    history = model.history_
    out.solution = Coefficients(np.ravel(model.coef_), float(np.ravel(model.intercept_)[0]))
    out.iterations = int(model.n_iter_)
    out.certificate |= {
        "gap": float(model.gap_),
        "bound": float(model.lower_bound_),
        "claimed": float(model.objective_),
        "status": str(model.status_),
        "rate0": float(history[0].aggregation_rate),
        "rate": float(history[-1].aggregation_rate),
        "passes": int(model.n_passes_),
        "history": [_plain(record) for record in history],
        "bounds": [float(record.lower_bound) for record in history],
    }


def _plain(record: Iteration) -> Row:
    names = (
        "aggregation_rate",
        "near_rate",
        "far_rate",
        "lower_bound",
        "objective",
        "best_objective",
        "gap",
        "seconds",
    )
    values = {name: getattr(record, name) for name in names}
    return {name: None if value is None else float(value) for name, value in values.items()}


def _peer(problem: str, data: Data, settings: dict[str, float], name: str, limit: float) -> Measurement:
    program = solvers(problem)[name]
    missing = program.missing()
    if missing:
        return Measurement(failed=missing)
    if name == "scikit-learn LinearSVC":
        program = replace(program, arguments=program.arguments | {"max_iter": LIBLINEAR_STEPS})
    # The limit is on CPU seconds: on a busy machine, wall time would end a fit that has hardly run.
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime + limit) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
    try:
        return program.fit(Job(problem, data, settings, SOLVER_TOLERANCE, repeat=1, timeout=20 * limit))
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def call(function: Callable[..., Row]) -> str:
    """Return the name by which a cell's process finds a function."""
    return f"{function.__module__}:{function.__name__}"
