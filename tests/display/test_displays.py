"""Plots show the numbers of the model, and say in one sentence what they cannot show."""

from __future__ import annotations

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from aidlearn import ClusterDisplay, ConvergenceDisplay, LADRegressor, LinearSVC, QuantileDisplay, QuantileRegressor
from small_models import NAMES, data, fitted

mpl.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def lad():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 4))
    return LADRegressor(init="kmeans", tol=1e-6).fit(X, X.sum(axis=1) + rng.laplace(size=3000))


@pytest.fixture(scope="module")
def quantiles():
    X, y, *_ = data(500, 10)
    table = pd.DataFrame(X, columns=[f"_{k}" for k in range(10)])
    return QuantileRegressor(quantile=[0.9, 0.1, 0.5]).fit(table, y)


def line(ax, label):
    return next(line for line in ax.get_lines() if line.get_label() == label)


def drawn(display):
    display.figure_.canvas.draw()
    return display


@pytest.mark.parametrize("display", [ConvergenceDisplay, ClusterDisplay])
@pytest.mark.parametrize("name", NAMES)
def test_every_estimator_can_be_drawn(display, name):
    model, _ = fitted(name)
    shown = drawn(display.from_estimator(model))
    assert len(shown.ax_) == 2
    assert shown.figure_ is shown.ax_[0].figure


@pytest.mark.parametrize("x", ["iteration", "seconds"])
def test_convergence_shows_the_history(lad, x):
    bounds, gaps = drawn(ConvergenceDisplay.from_estimator(lad, x=x)).ax_
    records = lad.history_
    across = [getattr(record, x) for record in records]
    objective, bound = line(bounds, "objective, on all rows"), line(bounds, "proven lower bound")
    assert_allclose(objective.get_xydata(), np.column_stack([across, [r.best_objective for r in records]]))
    assert_allclose(bound.get_xydata(), np.column_stack([across, [r.best_lower_bound for r in records]]))
    assert_allclose(gaps.get_lines()[0].get_ydata(), [r.gap for r in records])
    assert line(gaps, "tolerance").get_ydata()[0] == lad.tol
    assert gaps.get_yscale() == "log"
    assert bounds.get_xlabel() == x


@pytest.fixture(scope="module")
def one_iteration():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20_000, 4))
    model = LADRegressor().fit(X, X.sum(axis=1) + rng.laplace(size=20_000))
    assert model.n_iter_ == 1
    return model


def test_the_start_is_drawn_where_one_iteration_was_enough(one_iteration):
    model = one_iteration
    bounds, gaps = drawn(ConvergenceDisplay.from_estimator(model)).ax_
    assert bounds.get_xlabel() == gaps.get_xlabel() == "seconds"
    on_all = [step for step in model.start_ if step.n_rows == 20_000]
    on_samples = [step for step in model.start_ if step.n_rows < 20_000]
    assert len(on_all) >= 2
    assert on_samples
    way = [[step.seconds, step.objective] for step in on_all] + [[model.history_[0].seconds, model.objective_]]
    assert_allclose(line(bounds, "objective, on all rows").get_xydata(), way)
    samples = [[step.seconds, step.objective] for step in on_samples]
    assert_allclose(line(bounds, "on samples, an estimate").get_xydata(), samples)
    above = [(step.objective - model.lower_bound_) / step.objective for step in on_all]
    assert_allclose(line(gaps, "start: above the final bound").get_ydata(), [*above, model.gap_])


def test_the_start_is_iteration_zero(one_iteration):
    bounds, _ = drawn(ConvergenceDisplay.from_estimator(one_iteration, x="iteration")).ax_
    values = [one_iteration.start_[-1].objective, one_iteration.objective_]
    assert_allclose(line(bounds, "objective, on all rows").get_xydata(), np.column_stack([[0, 1], values]))


def test_steps_of_the_start_are_what_it_evaluated(one_iteration):
    """Times rise, passes are counted, and what was evaluated last on all rows is never below the optimum."""
    steps = one_iteration.start_
    stamps = [0.0, *(step.seconds for step in steps), one_iteration.history_[0].seconds]
    assert (np.diff(stamps) > 0).all()
    assert (np.diff([step.n_passes for step in steps]) >= 0).all()
    assert all(step.objective >= one_iteration.lower_bound_ for step in steps if step.n_rows == 20_000)
    assert steps[-1].n_passes < one_iteration.n_passes_


def test_a_gap_of_zero_is_drawn():
    X = np.arange(40.0).reshape(-1, 1)
    model = LADRegressor().fit(X, 2 * X[:, 0])
    assert model.gap_ == 0
    gaps = drawn(ConvergenceDisplay.from_estimator(model, kind="gap")).ax_
    assert gaps.get_lines()[0].get_ydata()[-1] == 1e-16


def test_clusters_show_rates_and_sizes(lad):
    rates, sizes = drawn(ClusterDisplay.from_estimator(lad)).ax_
    for label, attribute in [
        ("all clusters", "aggregation_rate"),
        ("near the hyperplane", "near_rate"),
        ("far from it", "far_rate"),
    ]:
        expected = np.array([getattr(record, attribute) for record in lad.history_], dtype=float)
        assert_allclose(line(rates, label).get_ydata(), expected)
    points = np.asarray(sizes.collections[0].get_offsets())
    assert_allclose(points, np.column_stack([lad.cluster_distances_, lad.cluster_sizes_]))


def test_the_paper_s_finding_near_clusters_are_split_more(lad):
    assert lad.history_[-1].near_rate > 2 * lad.history_[-1].far_rate


def test_several_models_have_their_names(quantiles):
    bounds, _ = drawn(ConvergenceDisplay.from_estimator(quantiles)).ax_
    texts = [text.get_text() for text in bounds.get_legend().get_texts()]
    assert texts == ["quantile 0.9", "quantile 0.1", "quantile 0.5"]
    # Each relative to what it reached, so that all end at 1.
    assert_allclose([line(bounds, text).get_ydata()[-1] for text in texts], 1.0)
    X, _, names, _ = data()
    rates, _ = drawn(ClusterDisplay.from_estimator(LinearSVC().fit(X, names))).ax_
    texts = [text.get_text() for text in rates.get_legend().get_texts()]
    assert texts[:3] == ["<high> against the rest", "low against the rest", "middle against the rest"]


def test_quantile_paths(quantiles):
    ax = drawn(QuantileDisplay.from_estimator(quantiles, coefficients=["_3", 1, -1], intercept=True)).ax_
    paths = [path for path in ax.get_lines() if len(path.get_xdata()) == 3]
    order = [1, 2, 0]
    expected = [*quantiles.coef_[order][:, [3, 1, 9]].T, quantiles.intercept_[order]]
    for path, values in zip(paths, expected, strict=True):
        assert path.get_xdata().tolist() == [0.1, 0.5, 0.9]
        assert_allclose(path.get_ydata(), values)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["_3", "_1", "_9", "intercept"]


def test_the_largest_coefficients_are_drawn_by_default(quantiles):
    display = QuantileDisplay.from_estimator(quantiles)
    largest = np.argsort(-np.abs(quantiles.coef_).max(axis=0))[:8]
    assert display.names == [f"_{k}" for k in largest]
    named = QuantileDisplay.from_estimator(quantiles, coefficients="a", names=list("abcdefghij"))
    assert named.names == ["a"]


def test_axes_that_are_given(lad):
    figure, axes = plt.subplots(1, 2)
    assert list(ConvergenceDisplay.from_estimator(lad, ax=axes).ax_) == list(axes)
    _, ax = plt.subplots()
    assert ClusterDisplay.from_estimator(lad, kind="size", ax=ax).ax_ is ax
    _, ax = plt.subplots()
    display = drawn(ClusterDisplay.from_estimator(lad, ax=ax))
    assert display.figure_ is ax.figure
    assert len(display.ax_) == 2
    with pytest.raises(ValueError, match="2 axes for this plot, got 3"):
        display.plot(ax=plt.subplots(1, 3)[1])
    with pytest.raises(ValueError, match="needs 2 axes"):
        display.plot(ax=figure.add_axes([0, 0, 1, 1]))
    assert len(display.plot(ax=list(axes)).ax_) == 2


@pytest.mark.parametrize("display", [ConvergenceDisplay, ClusterDisplay, QuantileDisplay])
def test_what_cannot_be_drawn(display):
    with pytest.raises(NotFittedError):
        display.from_estimator(QuantileRegressor(quantile=[0.1, 0.9]))
    with pytest.raises(TypeError, match="LinearRegression is not an aidlearn estimator"):
        display.from_estimator(LinearRegression().fit([[1.0], [2.0]], [1.0, 2.0]))


def test_errors_name_the_value(lad, quantiles):
    with pytest.raises(ValueError, match="x must be 'auto', 'iteration' or 'seconds', got 'time'"):
        ConvergenceDisplay.from_estimator(lad, x="time")
    for display in (ConvergenceDisplay, ClusterDisplay):
        with pytest.raises(ValueError, match="kind must be one of"):
            display.from_estimator(lad, kind="pie")
    with pytest.raises(ValueError, match=r"several quantiles.*got LADRegressor"):
        QuantileDisplay.from_estimator(lad)
    X, y, *_ = data()
    with pytest.raises(ValueError, match="several quantiles"):
        QuantileDisplay.from_estimator(QuantileRegressor().fit(X, y))
    for wanted, message in [(["age"], "no feature named 'age'"), ([10], "no feature number 10"), ([], "at least one")]:
        with pytest.raises(ValueError, match=message):
            QuantileDisplay.from_estimator(quantiles, coefficients=wanted)
    with pytest.raises(ValueError, match="10 names"):
        QuantileDisplay.from_estimator(quantiles, names=["a"])


def test_models_without_iterations_or_clusters(lad):
    import copy

    model = copy.copy(lad)
    model.history_ = []
    for display in (ConvergenceDisplay, ClusterDisplay):
        with pytest.raises(ValueError, match="no iteration to draw"):
            display.from_estimator(model)
    model = copy.copy(lad)
    del model.cluster_sizes_
    with pytest.raises(ValueError, match="has no cluster sizes"):
        ClusterDisplay.from_estimator(model)
    drawn(ClusterDisplay.from_estimator(model, kind="rate"))


def test_without_matplotlib(lad, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'^Plots need matplotlib: pip install "aidlearn\[plot\]".$'):
        ConvergenceDisplay.from_estimator(lad)


def test_importing_aidlearn_imports_no_matplotlib():
    code = "import sys, aidlearn, aidlearn.report; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
