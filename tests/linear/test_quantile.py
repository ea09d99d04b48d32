"""LADRegressor and QuantileRegressor as a scikit-learn user meets them."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import QuantileRegressor as SklearnQuantile
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from aidlearn import LADRegressor, QuantileRegressor


@parametrize_with_checks([LADRegressor(), QuantileRegressor(quantile=0.3)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4))
    return X, X @ [1.0, -2.0, 0.5, 0.0] + 3 + rng.standard_t(3, 3000)


@pytest.mark.parametrize("alpha", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.8])
def test_agrees_with_scikit_learn(data, alpha, quantile, weighted):
    X, y = data[0][:400], data[1][:400]
    weight = np.random.default_rng(1).uniform(0, 2, 400) if weighted else None
    theirs = SklearnQuantile(quantile=quantile, alpha=alpha).fit(X, y, sample_weight=weight)
    ours = QuantileRegressor(quantile=quantile, alpha=alpha, tol=1e-9).fit(X, y, sample_weight=weight)
    s = np.ones(400) if weight is None else weight

    def objective(model):
        z = y - model.predict(X)
        return s @ np.maximum(quantile * z, (quantile - 1) * z) + alpha * s.sum() * np.abs(model.coef_).sum()

    assert ours.objective_ == pytest.approx(objective(ours), rel=1e-12)
    assert ours.objective_ == pytest.approx(objective(theirs), rel=1e-7)


def test_penalty_on_aggregated_data(data):
    ours = QuantileRegressor(alpha=0.1, tol=1e-7).fit(*data)
    theirs = SklearnQuantile(alpha=0.1).fit(*data)
    assert ours.aggregation_rate_ < 1
    assert ours.coef_ == pytest.approx(theirs.coef_, abs=1e-3)
    assert ours.coef_[3] == pytest.approx(0, abs=1e-6)


def test_lad_is_twice_the_median(data):
    lad = LADRegressor(tol=1e-8).fit(*data)
    median = QuantileRegressor(quantile=0.5, tol=1e-8).fit(*data)
    assert lad.objective_ == pytest.approx(np.abs(data[1] - lad.predict(data[0])).sum())
    assert lad.objective_ == pytest.approx(2 * median.objective_, rel=1e-7)


def test_several_quantiles(data):
    several = QuantileRegressor(quantile=[0.1, 0.5, 0.9], tol=1e-7).fit(*data)
    assert several.coef_.shape == (3, 4)
    assert several.intercept_.shape == (3,)
    assert several.predict(data[0]).shape == (3000, 3)
    assert all(status.reached_tolerance for status in several.status_)
    for k, quantile in enumerate([0.1, 0.5, 0.9]):
        one = QuantileRegressor(quantile=quantile, tol=1e-7).fit(*data)
        assert several.objective_[k] == pytest.approx(one.objective_, rel=1e-6)
        assert several.gap_[k] <= 1e-7
        assert (data[1] <= several.predict(data[0])[:, k]).mean() == pytest.approx(quantile, abs=0.01)


def test_fraction_below_matches_quantile(data):
    model = QuantileRegressor(quantile=0.25, tol=0).fit(*data)
    below = (data[1] < model.predict(data[0]) - 1e-9).sum()
    assert below <= 0.25 * 3000 <= below + 5


@pytest.mark.parametrize(
    "convert",
    [
        np.asfortranarray,
        lambda X: X.astype(np.float32),
        sparse.csr_array,
        sparse.csc_matrix,
        pd.DataFrame,
        lambda X: pd.DataFrame(X).assign(integer=0).iloc[:, :4],
        lambda X: pl.DataFrame(X, schema=list("abcd")),
        lambda X: pa.table(dict(zip("abcd", X.T.copy(), strict=True))),
        lambda X: X.tolist(),
    ],
    ids=["F", "float32", "csr", "csc", "pandas", "pandas-mixed", "polars", "pyarrow", "list"],
)
def test_input_types_agree(data, convert):
    X, y = data
    X = X.astype(np.float32).astype(float)
    reference = LADRegressor(tol=1e-8).fit(X, y)
    model = LADRegressor(tol=1e-8).fit(convert(X), y)
    assert model.objective_ == pytest.approx(reference.objective_, rel=1e-7)
    assert model.predict(convert(X)) == pytest.approx(reference.predict(X), abs=1e-3)
    assert model.n_features_in_ == 4


def test_feature_names(data):
    X = pd.DataFrame(data[0], columns=list("abcd"))
    model = LADRegressor().fit(X, pd.Series(data[1]))
    assert list(model.feature_names_in_) == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[["b", "a", "c", "d"]])


def test_input_is_not_changed(data):
    X, y = data[0].copy(), data[1].copy()
    weight = np.ones(len(y))
    LADRegressor().fit(X, y, sample_weight=weight)
    assert np.array_equal(X, data[0])
    assert np.array_equal(y, data[1])


def test_threads_give_the_same_bits(data, monkeypatch):
    monkeypatch.setattr("aidlearn.data.rows.chunk.CHUNK_ELEMENTS", 1 << 11)
    one = QuantileRegressor(quantile=0.7, tol=1e-7, n_jobs=1).fit(*data)
    for jobs in (2, 3, -1):
        other = QuantileRegressor(quantile=0.7, tol=1e-7, n_jobs=jobs).fit(*data)
        assert np.array_equal(one.coef_, other.coef_)
        assert (one.lower_bound_, one.objective_, one.n_clusters_) == (
            other.lower_bound_,
            other.objective_,
            other.n_clusters_,
        )


def test_in_a_pipeline_and_grid_search(data):
    pipeline = make_pipeline(StandardScaler(), QuantileRegressor(quantile=0.4))
    search = GridSearchCV(pipeline, {"quantileregressor__alpha": [0.0, 0.01]}, cv=3).fit(*data)
    assert search.best_score_ > 0.3
    assert isinstance(clone(pipeline), type(pipeline))


def test_repr_names_what_differs_from_the_default():
    assert repr(QuantileRegressor(quantile=0.9, tol=1e-6)) == "QuantileRegressor(quantile=0.9, tol=1e-06)"


def bad_cell(X, value):
    X = X.copy()
    X[17, 2] = value
    return X


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y, w: (bad_cell(X, np.nan), y, w), "X contains NaN at row 17, column 2"),
        (lambda X, y, w: (bad_cell(X, np.inf), y, w), "X contains infinity at row 17, column 2"),
        (lambda X, y, w: (sparse.csr_array(bad_cell(X, np.nan)), y, w), "X contains NaN at row 17, column 2"),
        (
            lambda X, y, w: (pl.DataFrame(bad_cell(X, np.nan), schema=list("abcd")), y, w),
            r"X contains NaN at row 17, column 2 \('c'\)",
        ),
        (lambda X, y, w: (X, np.where(np.arange(len(y)) == 5, np.nan, y), w), "y contains NaN at row 5"),
        (
            lambda X, y, w: (X, y, np.where(np.arange(len(y)) == 9, np.inf, 1)),
            "sample_weight contains infinity at row 9",
        ),
        (lambda X, y, w: (X, y, np.where(np.arange(len(y)) == 9, -2, 1)), "non-negative, got -2 at row 9"),
        (lambda X, y, w: (X, y, np.zeros(len(y))), "sample_weight is zero for every row"),
        (lambda X, y, w: (X, y, np.ones(3)), r"sample_weight.shape == \(3,\)"),
        (lambda X, y, w: (X, y[:-1], w), "inconsistent numbers of samples"),
        (lambda X, y, w: (X[:, 0], y, w), "Expected 2D array"),
        (lambda X, y, w: (X[:0], y[:0], w), "minimum of 1"),
        (lambda X, y, w: (pd.DataFrame({"a": [[1]] * len(y)}), y, w), r"column 0 \('a'\) of X holds lists"),
        (lambda X, y, w: (pd.DataFrame({"a": ["x"] * len(y)}), y, w), "has only one level"),
        (lambda X, y, w: (X, ["a"] * len(y), w), "y must be numeric"),
    ],
)
def test_bad_data_is_refused_before_any_solve(data, change, message, monkeypatch):
    def no_solve(*args, **kwargs):
        raise AssertionError("solved before checking")

    monkeypatch.setattr("aidlearn.linear.aggregated.interior_point.solve", no_solve)
    X, y, weight = change(data[0], data[1], None)
    with pytest.raises(ValueError, match=message):
        LADRegressor().fit(X, y, sample_weight=weight)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"quantile": 0}, "quantile must be a number > 0 and < 1, got 0"),
        ({"quantile": 1.0}, "quantile must be"),
        ({"quantile": [0.5, 2]}, "quantile must be .* got 2"),
        ({"quantile": []}, "at least one"),
        ({"quantile": "median"}, "quantile must be"),
        ({"init": "kmean"}, "init must be one of .*'kmeans'.* got 'kmean'"),
        ({"init": np.zeros(3)}, r"expected shape \(3000,\), got \(3,\)"),
        ({"solver": "cplex"}, "solver must be one of .* got 'cplex'"),
        ({"tol": -1}, "tol must be a number >= 0, got -1"),
        ({"tol": np.nan}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be an integer >= 1"),
        ({"time_limit": 0}, "time_limit must be"),
        ({"alpha": -0.1}, "alpha must be"),
        ({"initial_rate": 2}, "initial_rate must be"),
    ],
)
def test_bad_parameters_are_named(data, parameters, message):
    with pytest.raises(ValueError, match=message):
        QuantileRegressor(**parameters).fit(*data)


def test_zero_weight_does_not_hide_a_bad_cell(data):
    weight = np.ones(len(data[1]))
    weight[17] = 0
    with pytest.raises(ValueError, match="row 17"):
        LADRegressor().fit(bad_cell(data[0], np.nan), data[1], sample_weight=weight)


@pytest.mark.parametrize("init", ["birch", "band", lambda X, y: (y > 0).astype(int)])
def test_initial_rate_and_inits(data, init):
    model = LADRegressor(init=init, initial_rate=0.05, tol=1e-6).fit(*data)
    assert model.gap_ <= 1e-6
    if init == "band":
        assert model.history_[0].aggregation_rate == pytest.approx(0.05, rel=0.3)


def test_exact_fit_has_objective_and_gap_zero(data):
    X = data[0]
    model = LADRegressor(tol=0).fit(X, X @ [1.0, 2.0, 3.0, 4.0] + 5)
    assert model.objective_ == 0
    assert model.gap_ == 0
    assert model.coef_ == pytest.approx([1, 2, 3, 4])


def test_what_precision_leaves_is_no_worse_than_a_constant():
    """An exact fit that a penalty should undo, far from zero: no digits are left to move it by."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(60_000, 5))
    Z[:, 0], Z[:, 1] = rng.random(60_000) < 0.15, rng.random(60_000) < 0.002
    Z[:, 2:] *= rng.random((60_000, 3)) < 0.2
    y = Z / Z.std(axis=0) @ [-0.3, -0.6, 0.2, -0.1, 2.0] + 1e9
    X = Z * [1, 1, 1, 1e6, 1e2]
    model = QuantileRegressor(quantile=0.1, alpha=0.1, tol=1e-6).fit(X, y)
    error = y - np.quantile(y, 0.1)
    # The constant is the quantile of a sample.
    assert model.objective_ <= 1.01 * np.maximum(0.1 * error, -0.9 * error).sum()
    assert model.lower_bound_ <= model.objective_
