"""Replicates: certified, the same everywhere, and what refits of the same weights give."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aidlearn
from aidlearn import LADRegressor, LinearSVC, LinearSVR, QuantileRegressor
from aidlearn.data.passes.transforms import ByCluster, Exponential, Multinomial
from aidlearn.neighbours import batch
from aidlearn.neighbours import replicates as vertices
from oracles import highs_quantile


def data(n=3000, p=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, X @ np.arange(1.0, p + 1) + (1 + X[:, 0] ** 2) * rng.laplace(size=n) + 2


def seed_of(random_state):
    return int(np.random.SeedSequence(random_state).generate_state(1, np.uint64)[0])


@pytest.mark.parametrize("weights", [Exponential(7), Multinomial(7, 9001), ByCluster(7, np.arange(9001) % 77, 77)])
def test_weights_depend_on_the_row_alone(weights):
    whole = weights(0, 9001, range(4))
    assert whole.shape == (4, 9001)
    assert np.array_equal(weights(1234, 8765, [2, 0]), whole[[2, 0], 1234:8765])
    assert len(np.unique(whole[:, 0])) > 1
    assert whole.mean() == pytest.approx(1, abs=0.25 if isinstance(weights, ByCluster) else 0.05)
    if isinstance(weights, Multinomial):
        assert (whole.sum(axis=1) == 9001).all()
    if isinstance(weights, Exponential):
        assert not np.array_equal(whole[:, :2048], whole[:, 2048:4096])


@pytest.mark.parametrize("kind", ["exponential", "multinomial", "cluster"])
@pytest.mark.parametrize(("quantile", "few"), [(0.5, False), (0.1, False), (0.5, True)])
def test_replicates_are_refits_with_their_weights(kind, quantile, few, monkeypatch):
    """By corridors as well as by walks from vertex to vertex, which few rows take."""
    if not few:
        monkeypatch.setattr(vertices, "SETTINGS", replace(vertices.SETTINGS, most_cells=0))
    X, y = data()
    n = len(y)
    groups = np.arange(n) // 30
    model = QuantileRegressor(quantile=quantile, tol=1e-7).fit(X, y)
    found = aidlearn.bootstrap(model, X, y, 6, kind, groups if kind == "cluster" else None, random_state=5)
    seed = seed_of(5)
    makers = {"exponential": Exponential(seed), "multinomial": Multinomial(seed, n)}
    weights = makers.get(kind) or ByCluster(seed, groups, 100)
    assert found.coefficients.shape == (6, 4)
    assert (found.gaps <= 1e-7).all()
    for k, weight in enumerate(weights(0, n, range(6))):
        refit = QuantileRegressor(quantile=quantile, tol=1e-9).fit(X, y, sample_weight=weight)
        assert found.lower_bounds[k] <= refit.objective_ * (1 + 1e-12)
        assert found.objectives[k] >= refit.lower_bound_ * (1 - 1e-12)
        assert found.coefficients[k] == pytest.approx(np.append(refit.intercept_, refit.coef_), abs=5e-3)


@given(st.integers(0, 10**6), st.integers(2, 4), st.sampled_from([0.2, 0.5]), st.booleans())
@settings(max_examples=25, deadline=None)
def test_bounds_are_valid_whatever_is_near(seed, p, quantile, empty):
    """Jensen: the bound of a reduced problem never exceeds the optimum, however few rows stay single."""
    X, y = data(1500, p, seed)
    weight = np.random.default_rng(seed).integers(0, 3, size=1500).astype(float)
    if empty:
        X[:, -1] *= np.arange(1500) < 3
        weight[:3] = 0.0
    model = QuantileRegressor(quantile=quantile, n_jobs=1).fit(X, y, weight)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(batch, "SETTINGS", replace(batch.SETTINGS, near=0.3, wider=1.0))
        patched.setattr(vertices, "SETTINGS", replace(vertices.SETTINGS, most_cells=0))
        found = aidlearn.bootstrap(model, X, y, 2, sample_weight=weight, random_state=seed)
    for k, factor in enumerate(Exponential(seed_of(seed))(0, 1500, range(2))):
        optimum = highs_quantile(X, y, quantile, weight * factor)
        assert found.lower_bounds[k] <= optimum * (1 + 1e-9)
        assert found.objectives[k] >= optimum * (1 - 1e-9)
        assert found.gaps[k] <= 1e-5
    if empty:
        assert (found.coefficients[:, -1] == 0).all()


def test_rows_in_every_place_give_the_same_bits(tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    X, y = data()
    model = LADRegressor(n_jobs=1).fit(X, y)
    here = aidlearn.bootstrap(model, X, y, 5, random_state=1).coefficients
    table = pd.DataFrame(np.column_stack([X, y]), columns=["a", "b", "c", "y"])
    table.to_parquet(tmp_path / "t.parquet")
    np.save(tmp_path / "t.npy", table.to_numpy())
    sources = [
        aidlearn.open_source(tmp_path / "t.parquet", "y"),
        aidlearn.open_source(tmp_path / "t.npy", 3, n_jobs=2),
        aidlearn.open_source(dd.from_pandas(table, npartitions=3), "y"),
    ]
    for source in sources:
        assert np.array_equal(aidlearn.bootstrap(model, source, n_replicates=5, random_state=1).coefficients, here)
    fewer = aidlearn.bootstrap(model, X, y, 3, random_state=1).coefficients
    assert fewer == pytest.approx(here[:3], rel=1e-12)
    assert not np.array_equal(aidlearn.bootstrap(model, X, y, 5, random_state=2).coefficients, here)


def test_standard_errors_of_the_normal_mean_model():
    """Where theory knows them: the median of n Laplace errors has the standard error 1/sqrt(n)."""
    rng = np.random.default_rng(0)
    X, e = rng.normal(size=(20_000, 2)), rng.laplace(size=20_000)
    model = LADRegressor(tol=1e-6).fit(X, X @ [1.0, 2.0] + e)
    found = aidlearn.bootstrap(model, X, X @ [1.0, 2.0] + e, 200, random_state=0)
    assert found.standard_errors == pytest.approx(np.full(3, 20_000**-0.5), rel=0.2)
    low, high = found.intervals()
    assert ((low < found.estimates) & (found.estimates < high)).all()


def test_classifiers_and_other_regressions():
    X, y = data(4000)
    classes = np.digitize(y, [0, 4])
    model = LinearSVC(C=0.1, class_weight="balanced").fit(X, classes)
    found = aidlearn.bootstrap(model, X, classes, 4, random_state=0)
    assert found.coefficients.shape == (3, 4, 4)
    assert found.gaps.max() <= 1e-5
    balanced = len(y) / (3 * np.bincount(classes))
    factor = Exponential(seed_of(0))(0, 4000, [2])[0]
    refit = LinearSVC(C=0.1, tol=1e-8).fit(X, classes, sample_weight=factor * balanced[classes])
    for k in range(3):
        assert found.coefficients[k, 2] == pytest.approx(np.append(refit.intercept_[k], refit.coef_[k]), abs=0.01)
        assert found.lower_bounds[k, 2] <= refit.objective_[k] * (1 + 1e-9)
    svr = LinearSVR(C=0.1, epsilon=0.5).fit(X, y)
    found = aidlearn.bootstrap(svr, X, y, 3, random_state=0)
    refit = LinearSVR(C=0.1, epsilon=0.5, tol=1e-8).fit(X, y, sample_weight=Exponential(seed_of(0))(0, 4000, [1])[0])
    assert found.coefficients[1] == pytest.approx(np.append(refit.intercept_, refit.coef_), abs=5e-3)
    penalised = LADRegressor(alpha=0.05).fit(X, y)
    found = aidlearn.bootstrap(penalised, X, y, 3, random_state=0)
    refit = LADRegressor(alpha=0.05, tol=1e-9).fit(X, y, sample_weight=Exponential(seed_of(0))(0, 4000, [1])[0])
    assert found.objectives[1] == pytest.approx(refit.objective_, rel=2e-5)
    assert found.lower_bounds[1] <= refit.objective_


def test_an_interval_of_a_score():
    """Scores of all replicates by one product, as the docs have it: those of the refitted classifiers."""
    X, y = data(4000)
    label = np.where(y > 2, "up", "down")
    svm = LinearSVC(C=0.1).fit(X[:3000], label[:3000])
    found = aidlearn.bootstrap(svm, X[:3000], label[:3000], 30, random_state=0)
    scores = X[3000:] @ found.coefficients[:, 1:].T + found.coefficients[:, 0]
    right = ((scores > 0) == (label[3000:] == svm.classes_[1])[:, None]).mean(axis=0)
    low, high = np.quantile(right, [0.025, 0.975])
    assert low <= svm.score(X[3000:], label[3000:]) <= high
    factor = Exponential(seed_of(0))(0, 3000, [4])[0]
    refit = LinearSVC(C=0.1, tol=1e-7).fit(X[:3000], label[:3000], sample_weight=factor)
    assert right[4] == pytest.approx(refit.score(X[3000:], label[3000:]), abs=0.003)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"n_replicates": 1}, "n_replicates must be an integer >= 2"),
        ({"kind": "wild"}, "kind must be one of"),
        ({"kind": "cluster"}, "needs clusters"),
        ({"clusters": np.zeros(3000)}, "needs clusters"),
    ],
)
def test_bad_requests_are_told(given, words):
    X, y = data()
    with pytest.raises(ValueError, match=words):
        aidlearn.bootstrap(LADRegressor().fit(X, y), X, y, **given)
    with pytest.raises(TypeError, match="a linear model"):
        aidlearn.bootstrap(aidlearn.SVC().fit(X[:50], y[:50] > 0), X, y)


def test_a_model_that_is_not_fitted_is_fitted_before():
    X, y = data(400)
    models = LADRegressor(), LADRegressor().fit(X, y)
    one, two = (aidlearn.bootstrap(model, X, y, 5, random_state=0) for model in models)
    assert np.array_equal(one.coefficients, two.coefficients)


class StopsAfter:
    """Weights that interrupt the bootstrap once they were asked for so many replicates."""

    def __init__(self, weights, most):
        self.weights, self.left = weights, most

    def __getattr__(self, name):
        return getattr(self.weights, name)

    def __call__(self, start, stop, replicates):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return self.weights(start, stop, replicates)


@pytest.mark.parametrize("most", [1, 7])
def test_an_interrupted_bootstrap_keeps_its_replicates(monkeypatch, most):
    from aidlearn.estimators.linear import bootstrap as module

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = X.sum(axis=1) + rng.laplace(size=300)
    model = LADRegressor().fit(X, y)
    whole = aidlearn.bootstrap(model, X, y, 20, random_state=0)
    made = module._weights
    monkeypatch.setattr(module, "_weights", lambda *given: StopsAfter(made(*given), most))
    if most < 2:
        with pytest.raises(KeyboardInterrupt):
            aidlearn.bootstrap(model, X, y, 20, random_state=0)
        return
    with pytest.warns(UserWarning, match=f"stopped with {most} of 20 replicates"):
        found = aidlearn.bootstrap(model, X, y, 20, random_state=0)
    assert np.array_equal(found.coefficients, whole.coefficients[:most])
    assert found.gaps.shape == (most,)
    with pytest.warns(UserWarning, match="stopped with"):
        summary = model.summary(X, y, se="bootstrap", n_replicates=20, random_state=0)
    assert np.isfinite(summary.standard_errors).all()
