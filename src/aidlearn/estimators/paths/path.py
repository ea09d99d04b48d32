"""Cross-validation over a path of penalties: every point of every fold certified, at the cost of a few fits.

Solutions of a sample along the path locate those of the folds. A fold gives weight zero to the rows it leaves
out, so folds and close penalties share passes (:mod:`aidlearn.neighbours.batch`), and no row is copied.
"""

from __future__ import annotations

import copy
import logging
import math
import time
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing

from aidlearn.data.passes.moments import inspect
from aidlearn.data.passes.run import Run
from aidlearn.data.passes.transforms import Folds, Reweighting
from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.numbers import as_array
from aidlearn.data.rows.source import DataSource
from aidlearn.data.rows.threads import one_blas_thread
from aidlearn.data.tables.conversion import is_elsewhere
from aidlearn.engine.loop import aid
from aidlearn.estimators.checks import check_flag, check_number
from aidlearn.estimators.fitting import BATCH, BatchRecord, checkpoint_of
from aidlearn.estimators.linear.coordinates import MeasuredRows
from aidlearn.estimators.linear.template import LinearEstimator
from aidlearn.estimators.paths.folds import SETTINGS, FoldRows, Path
from aidlearn.linear.model.design import Design
from aidlearn.linear.problem import PiecewiseLinear
from aidlearn.linear.start.sharpen import Band, few_entries
from aidlearn.neighbours.batch import Batch, Member, Refit, Solved
from aidlearn.neighbours.corridors import Sampled
from aidlearn.neighbours.shared_clusters import SamePartition, Together, solve_together
from aidlearn.numerics import Float

logger = logging.getLogger("aidlearn")


class CrossValidated(LinearEstimator):
    """Base class of the cross-validated models."""

    cv: Any
    scoring: Any
    refit: bool
    init: Any = "auto"
    initial_rate: float | None = None
    solver: str = "auto"
    no_bootstrap = "it chooses among penalties; give the model with the one that it has chosen"
    _model: ClassVar[type[LinearEstimator]]
    """Class of the model with one penalty."""
    _penalty: ClassVar[str]
    """Name of the penalty in that model; the path has the same name with an s."""

    @abstractmethod
    def _drawn_path(self, rows: FoldRows, n: int) -> list[float]:
        """Return ``n`` penalties on a logarithmic scale, if only their number is given."""

    @abstractmethod
    def _score(self, chunk: Chunk, scores: Float) -> Float:
        """Return the default score of each row (``scoring=None``), from linear scores of shape (rows, fits)."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the model (see :meth:`LinearSVC.fit`); a splitter ``cv`` receives the ``groups``, one per row."""
        self._check_parameters()
        given = self._given_path()
        self._forget()
        probe = self._probe()
        run = probe._opened(X, y, sample_weight)
        with one_blas_thread():
            rows = self._folded(probe, probe._measured(run), self._used_groups(X, y, sample_weight, groups))
            values = self._drawn_path(rows, given) if isinstance(given, int) else given
        points = self._validate(rows, values)
        setattr(self, f"{self._penalty}s_", np.array(values))
        setattr(self, f"{self._penalty}_", self._finish(rows, values, points, X, y, sample_weight))
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_flag("refit", self.refit)

    def _given_path(self) -> int | list[float]:
        """Return the given penalties, or their number."""
        name = f"{self._penalty}s"
        given = getattr(self, name)
        if isinstance(given, Integral):
            check_number(name, given, low=1, include_low=True, whole=True)
            return int(given)
        values = np.atleast_1d(np.asarray(given)).ravel().tolist()
        if not values:
            raise ValueError(f"{name} must hold at least one number, got an empty sequence.")
        for value in values:
            check_number(name, value, low=0, include_low=name == "alphas")
        return [float(value) for value in values]

    def _single(self, value: float) -> LinearEstimator:
        """Return the unfitted model of one penalty."""
        own = (f"{self._penalty}s", "cv", "scoring", "refit")
        settings = {name: setting for name, setting in self.get_params(deep=False).items() if name not in own}
        return self._model(**{**settings, self._penalty: value})

    def _probe(self) -> LinearEstimator:
        """Return the model that opens the rows."""
        return self._single(1.0)

    def _at(self, rows: FoldRows, value: float) -> LinearEstimator:
        """Return the model of one penalty with the classes of the rows; it has no checkpoint, as points share one."""
        return copy.copy(rows.probe).set_params(**{self._penalty: value}, checkpoint=None)

    def _used_groups(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Any:
        """Return the groups without those of rows that are dropped for missing cells."""
        groups = None if groups is None else as_array(groups)
        in_memory = groups is not None and not (is_elsewhere(X) or isinstance(X, DataSource))
        kept = self._complete(X, y, sample_weight).rows if in_memory else None
        return groups if kept is None or len(groups) != len(kept) else groups[kept]

    def _folded(self, probe: LinearEstimator, measured: MeasuredRows, groups: Any) -> FoldRows:
        """Return the rows with their folds."""
        folds = self._fold_weights(measured.run, hasattr(probe, "classes_"), groups)
        return FoldRows(measured.run, folds, measured, probe, len(probe._losses()))

    def _fold_weights(self, run: Run, classifies: bool, groups: Any) -> Folds:
        """Return the folds of ``cv``, from the targets as the fit sees them."""
        if groups is not None and groups.shape != (run.n_entries,):
            raise ValueError(f"groups.shape == {groups.shape}, expected {(run.n_entries,)}: one group per row.")
        parts: list[Float] = []
        run.map(lambda chunk, state: (np.array([chunk.y, chunk.weight]), None), collect=parts.append)
        y, weight = np.concatenate(parts, axis=1)
        y = y.astype(np.int64) if classifies else y
        splits = check_cv(self.cv, y, classifier=classifies).split(np.zeros((len(y), 1)), y, groups)
        return Folds.of(splits, len(y)).weighing(weight)

    def _path(self, rows: FoldRows, values: Sequence[float], number: int) -> list[list[Solved | None]]:
        """Solve each fold (inner) at each value (outer) for one class; points not reached in time are None."""
        n_folds, n_values = rows.folds.n, len(values)
        designs = [_design(self._at(rows, value), rows.measured, number) for value in values]
        pairs = [(k, fold) for k in range(n_values) for fold in range(n_folds)]
        members = [Member(designs[k].loss, fold, designs[k].l1 / designs[k].weight) for k, fold in pairs]

        def refit(k: int, member: Member, point: Float | None) -> Solved:
            """Fit one fold on all rows, from a point close to its solution if there is one."""
            run = rows.run.part().changed(Reweighting(rows.folds, member.replicate))
            own = replace(rows.measured, run=run, moments=inspect(run, self.fit_intercept))
            value = values[pairs[k][0]]
            self.n_refitted_ += 1
            logger.debug("fold %d is fitted on all rows at %g", member.replicate, value)
            single = self._at(rows, value)
            return single._refit(own, _design(single, own, number), point)

        part = BATCH if rows.n_fits == 1 else f"{number}.{BATCH}"
        origin, digest = rows.run.source.origin, rows.measured.moments.digest
        checkpoint = checkpoint_of(self, origin, digest, part, folds=rows.folds.digest)
        record = BatchRecord(self, self._callbacks(), rows.run, len(members), checkpoint)
        try:
            record.prove(lambda: Batch(rows.run, designs[0], members, rows.folds, self.tol))
            if few_entries(rows.run.n_entries, designs[0].n_variables):
                self._fit_rest(members, refit, record)
            else:
                self._neighbours(rows, designs, members, refit, record)
        except KeyboardInterrupt:
            rows.run.stop()
        solved = record.solved
        return [[solved.get(k * n_folds + fold) for fold in range(n_folds)] for k in range(n_values)]

    def _fit_rest(self, members: Sequence[Member], refit: Refit, record: BatchRecord) -> None:
        """Fit each open member on all rows."""
        for k in record.left():
            if record.run.ended:
                return
            before = record.solved.get(k)
            found = refit(k, members[k], None if before is None else before.point)
            if not record.run.stopped:
                record.improve({k: found})

    def _neighbours(
        self, rows: FoldRows, designs: Sequence[Design], members: Sequence[Member], refit: Refit, record: BatchRecord
    ) -> None:
        """Solve members by near rows if they are few, else by the clusters of one fit; then fit those still open."""
        if not record.left():
            return
        start = Band()
        middle = designs[len(designs) // 2]
        problem = PiecewiseLinear(rows.measured.run, middle, self._procedure(start))
        run = rows.run
        fit = aid(problem, self._limits(run), self._callbacks())
        if record.run.ended:
            return
        sampled = Sampled.of(rows.measured.run, middle, start)
        point = fit.point
        share = sampled.share(middle, (point, point), SETTINGS.doubt * sampled.error(middle, point))
        if share <= min(SETTINGS.few, sampled.largest_share(rows.folds.n)) and not sampled.is_tied(middle, point):
            batch = Batch(run, designs[0], members, rows.folds, self.tol, sampled.metric)
            path = Path(sampled, designs, rows.folds.n)
            record.improve(batch.solve(path.corridors(), None, path.begin, record.improve, record.solved))
        left, layout = record.left(), middle.layout
        # The sums of all folds are stored side by side.
        fits = fit.n_clusters * middle.n_variables * rows.folds.n <= run.budget.clusters
        if left and fits and not middle.offset and not (layout and layout.levels):
            together = Together(run, middle, members, rows.folds, fit.clusters)
            points = {k: record.solved[k].point if k in record.solved else point for k in left}
            rows.partition = fit.clusters
            record.improve(solve_together(together, left, points, self.tol, record.improve))
        self._fit_rest(members, refit, record)

    def _validate(self, rows: FoldRows, values: Sequence[float]) -> Float:
        """Fit all points of all folds; return them, shape (fits, folds, values, variables), and set ``gaps_``.

        Points not reached before the time limit are NaN, with an infinite gap.
        """
        self.n_refitted_ = 0
        order = np.argsort(values, kind="stable")
        with one_blas_thread():
            paths = [self._path(rows, [values[k] for k in order], number) for number in range(rows.n_fits)]
        back = np.argsort(order)
        paths = [[path[k] for k in back] for path in paths]
        missing = np.full(rows.run.n_attributes + self.fit_intercept, np.nan)
        points = np.array([[[missing if s is None else s.point for s in at] for at in path] for path in paths])
        gaps = np.array([[[np.inf if s is None else s.gap for s in at] for at in path] for path in paths])
        self.gaps_ = gaps.swapaxes(1, 2).max(axis=0)
        return points.swapaxes(1, 2)

    def _default_scores(self, rows: FoldRows, points: Float) -> Float:
        """Compute weighted mean scores over the test rows of each fold, by one pass."""
        n_fits, n_folds, n_values, _ = points.shape
        m, folds = rows.run.n_attributes, rows.folds
        slopes = points[..., :m]
        levels = points[..., m] if self.fit_intercept else np.zeros(points.shape[:3])
        total = np.zeros((n_folds, n_values + 1))

        def measure(chunk: Chunk, state: Any) -> tuple[Float, None]:
            sums = np.zeros_like(total)
            for fold in range(n_folds):
                tested = chunk.select(np.flatnonzero(folds.testing[fold, chunk.start : chunk.stop]))
                if tested.n_entries == 0:
                    continue
                flat = slopes[:, fold].reshape(-1, m).T
                scores = np.asarray(tested.X @ flat, dtype=np.float64) + levels[:, fold].ravel()
                scores = scores.reshape(-1, n_fits, n_values)
                for k in range(n_values):
                    sums[fold, k] = tested.weight @ self._score(tested, scores[:, :, k])
                sums[fold, -1] = tested.weight.sum()
            return sums, None

        def collect(part: Float) -> None:
            total[:] += part

        rows.run.map(measure, collect=collect)
        weight = total[:, -1:]
        return np.divide(total[:, :-1], weight, out=np.full((n_folds, n_values), np.nan), where=weight > 0)

    def _asked_scores(self, rows: FoldRows, X: Any, y: Any, sample_weight: Any, points: Float) -> Float:
        """Compute the scores of the scorer ``scoring``, on rows in memory."""
        if is_elsewhere(X) or isinstance(X, DataSource):
            raise ValueError("scoring needs rows in memory; files, sources and Dask are scored with scoring=None.")
        scorer = check_scoring(rows.probe, scoring=self.scoring)
        used = self._complete(X, y, sample_weight)
        kept = np.arange(rows.run.n_entries) if used.rows is None else np.flatnonzero(used.rows)
        scores = np.full(points.shape[1:3], np.nan)
        for fold in range(rows.folds.n):
            tested = np.flatnonzero(rows.folds.testing[fold])
            its_X, its_y = _safe_indexing(X, kept[tested]), _safe_indexing(used.y, tested)
            told = {} if used.weight is None else {"sample_weight": np.asarray(used.weight)[tested]}
            if told and not told["sample_weight"].any():
                continue
            for k in np.flatnonzero(np.isfinite(self.gaps_[fold])):
                model = copy.copy(rows.probe)
                model._store_coefficients(rows.measured, points[:, fold, k])
                scores[fold, k] = scorer(model, its_X, its_y, **told)
        return scores

    def _scored(self, rows: FoldRows, X: Any, y: Any, sample_weight: Any, points: Float) -> Float:
        """Return the score of each point; NaN for points not fitted."""
        if self.scoring is None:
            return np.where(np.isfinite(self.gaps_), self._default_scores(rows, points), np.nan)
        return self._asked_scores(rows, X, y, sample_weight, points)

    def _finish(
        self, rows: FoldRows, values: Sequence[float], points: Float, X: Any, y: Any, sample_weight: Any
    ) -> float:
        """Store the scores and the final model, and return the best value."""
        try:
            self.scores_ = self._scored(rows, X, y, sample_weight, points)
        except KeyboardInterrupt:  # the points are there, and scores take one pass
            rows.run.stop()
            self.scores_ = self._scored(rows, X, y, sample_weight, points)
        raised = points
        if self.fit_intercept and rows.measured.offset:
            raised = points.copy()
            raised[..., -1] += rows.measured.offset
        self.coefs_paths_ = raised if len(raised) > 1 else raised[0]
        scored = ~np.isnan(self.scores_).all(axis=1)  # a fold whose test rows all have weight 0 has no score
        means = self.scores_[scored].mean(axis=0) if scored.any() else self.scores_.mean(axis=0)
        self._tell_of_missing(rows)
        best = int(np.nanargmax(means)) if np.isfinite(means).any() else 0
        final, n_passes = rows.probe, rows.run.n_passes
        if self.refit:
            final = self._single(values[best])
            if rows.run.stopped:  # one iteration: a certified model, soon
                final.set_params(callbacks=[*self._callbacks(), lambda record: True], verbose=False)
            if np.isinf(self.gaps_).any():  # another may be the best once all are fitted
                final.set_params(checkpoint=None)
            if math.isfinite(rows.run.deadline):
                final.set_params(time_limit=max(rows.run.deadline - time.monotonic(), SETTINGS.least_time))
            if rows.partition is not None and rows.n_fits == 1:
                final._begin_with(SamePartition(rows.partition, points[0, 0, best]))
            final.fit(X, y, sample_weight)
            n_passes += final.n_passes_
        else:
            final._store_coefficients(rows.measured, points[:, :, best].mean(axis=1))
        self.__dict__.update({name: value for name, value in vars(final).items() if name.endswith("_")})
        self.n_passes_ = n_passes
        return float(values[best])

    def _tell_of_missing(self, rows: FoldRows) -> None:
        """Warn of points cut off by the time limit or the user; raise if no value was fitted for all folds."""
        missing = np.isinf(self.gaps_)
        short, what = missing, "not fitted (their gaps_ are infinite)"
        if not missing.any():
            short, what = (self.gaps_ > self.tol) & rows.run.ended, "short of the tolerance (see gaps_)"
        if not short.any():
            return
        if missing.any(axis=0).all():
            if rows.run.stopped:
                raise KeyboardInterrupt
            raise TimeoutError(
                f"time_limit={self.time_limit} ended before all {rows.folds.n} folds were fitted for any of the "
                f"{missing.shape[1]} penalties. Give more time, fewer penalties or fewer folds"
                f"{', or continue from the checkpoint' if self.checkpoint is not None else ''}."
            )
        why = "The fit was stopped" if rows.run.stopped else f"time_limit={self.time_limit} ended"
        warnings.warn(
            f"{why} with {short.sum()} of {short.size} points {what}: the penalty was chosen among the "
            f"{(~missing.any(axis=0)).sum()} that all folds have.",
            stacklevel=4,
        )


def _design(single: LinearEstimator, rows: MeasuredRows, number: int) -> Design:
    """Return the problem of one penalty and class."""
    return rows.design(single._losses()[number], single._terms(rows.moments))
