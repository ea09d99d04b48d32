"""``summary``: the same wherever the rows are, a sentence where there is nothing to say, and how it is shown."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse, stats

from aidlearn import LADRegressor, QuantileDisplay, QuantileRegressor, Summary, likelihood_ratio_test, open_source
from aidlearn.estimators.linear import standard_errors
from aidlearn.inference import order_statistics
from aidlearn.inference.summary import METHODS


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    n = 4000
    X = pd.DataFrame(rng.normal([0.0, 5.0, 0.0], size=(n, 3)), columns=["a", "b", "c"])
    y = X.to_numpy() @ [1.0, -2.0, 0.0] + (1 + 0.3 * np.abs(X.a)) * rng.standard_t(3, size=n) + 4
    return X, pd.Series(y.to_numpy(), name="y"), pd.Series(np.arange(n) // 20, name="g")


def test_few_rows_of_one_column_give_no_warning():
    """Hessians of no near rows made steps that overflowed, which users saw as a warning."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, 500)[:, None]
    y = 1 + 0.5 * x[:, 0] + (1 + 0.2 * x[:, 0]) * rng.normal(size=500)
    summaries = QuantileRegressor(quantile=[0.1, 0.9]).fit(x, y).summary(x, y, se="nid")
    assert all(np.isfinite(summary.standard_errors).all() for summary in summaries)


def numbers(summary):
    return np.array([summary.coefficients, summary.standard_errors, summary.p_values, summary.lower, summary.upper])


@pytest.mark.parametrize("se", ["iid", "nid", "kernel", "cluster", "bootstrap"])
def test_rows_in_every_place_give_the_same_bits(rows, se, tmp_path):
    X, y, g = rows
    path = tmp_path / "rows.parquet"
    pd.concat([X, y, g], axis=1).to_parquet(path)
    array = np.ascontiguousarray(X)
    model = QuantileRegressor(quantile=0.3, n_jobs=1).fit(array, y)
    clusters = g if se == "cluster" else None
    given = {"se": se, "random_state": 3, "n_replicates": 20}
    here = numbers(model.summary(array, y, clusters=clusters, **given))
    source = open_source(path, "y", ["a", "b", "c"])
    in_file = model.summary(source, se=se, clusters="g" if se == "cluster" else None, random_state=3, n_replicates=20)
    assert np.array_equal(numbers(in_file), here)
    assert np.array_equal(numbers(model.set_params(n_jobs=2).summary(array, y, clusters=clusters, **given)), here)
    table = pl.DataFrame({name: X[name].to_numpy() for name in X})
    assert np.array_equal(numbers(model.summary(table, y.to_numpy(), clusters=clusters, **given)), here)
    # Products with columns stored one after the other, and with sparse rows, are rounded differently.
    for other in (X, sparse.csr_array(array)):
        assert numbers(model.summary(other, y, clusters=clusters, **given)) == pytest.approx(here, rel=1e-4)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("se", ["iid", "nid", "kernel", "cluster"])
def test_dask_gives_the_same_bits(rows, se, many, monkeypatch):
    dd = pytest.importorskip("dask.dataframe")
    if many:
        settings = replace(order_statistics.SETTINGS, most_kept=100, sample_rows=400)
        monkeypatch.setattr(order_statistics, "SETTINGS", settings)
    X, y, g = rows
    array = np.ascontiguousarray(X)
    model = LADRegressor().fit(array, y)
    here = model.summary(array, y, se=se, clusters=g if se == "cluster" else None)
    collection = dd.from_pandas(pd.concat([X, y, g], axis=1), npartitions=3)
    source = open_source(collection, "y", ["a", "b", "c"])
    there = model.summary(source, se=se, clusters=g.to_numpy() if se == "cluster" else None)
    assert np.array_equal(numbers(here), numbers(there))


def test_many_rows_have_exact_quantiles(monkeypatch, rows):
    """Of many rows the quantiles of residuals are found in brackets; of few they are all sorted."""
    X, y, g = rows
    model = LADRegressor(tol=1e-8).fit(X, y)
    methods = [("iid", None), ("kernel", None), ("cluster", g)]
    few = [numbers(model.summary(X, y, se=se, clusters=c)) for se, c in methods]
    settings = replace(order_statistics.SETTINGS, most_kept=100, sample_rows=400)
    monkeypatch.setattr(order_statistics, "SETTINGS", settings)
    many = [numbers(model.summary(X, y, se=se, clusters=c)) for se, c in methods]
    assert np.array_equal(few, many)


def test_equivariance(rows):
    """Other units of the columns and the target change coefficients and standard errors alike."""
    X, y, _ = rows
    one = LADRegressor(tol=0).fit(X, y).summary(X, y)
    scale = np.array([1e-3, 10.0, 1e4])
    other = LADRegressor(tol=0).fit(X * scale, 7 * y).summary(X * scale, 7 * y)
    assert other.standard_errors == pytest.approx(7 * one.standard_errors / np.append(1.0, scale), rel=1e-5)
    shifted = LADRegressor(tol=0).fit(X, y + 1e6).summary(X, y + 1e6)
    assert shifted.standard_errors == pytest.approx(one.standard_errors, rel=1e-4)
    assert shifted.pseudo_r2 == pytest.approx(one.pseudo_r2, rel=1e-6)


def test_weights_are_those_of_rows_times_them(rows):
    """What R's weights mean: the data are (w x, w y), and a weight of zero leaves a row out."""
    X, y, _ = rows
    w = np.random.default_rng(1).uniform(0.5, 2, size=len(y))
    w[::7] = 0.0
    weighted = LADRegressor(tol=0).fit(X, y, w).summary(X, y, w)
    used = w > 0
    plain = np.column_stack([np.ones(len(y)), X])[used] * w[used, None]
    as_rows = LADRegressor(tol=0, fit_intercept=False).fit(plain, (y * w)[used]).summary(plain, (y * w)[used])
    assert weighted.n == used.sum()
    assert weighted.standard_errors == pytest.approx(as_rows.standard_errors, rel=1e-5)
    assert weighted.coefficients == pytest.approx(as_rows.coefficients, rel=1e-6)


def test_wald_and_likelihood_ratio(rows):
    X, y, _ = rows
    summary = LADRegressor(tol=0).fit(X, y).summary(X, y, se="iid")
    single = summary.wald_test("c")
    assert single.statistic == pytest.approx(summary.statistics[3] ** 2)
    assert single.p_value == pytest.approx(summary.p_values[3])
    matrix = summary.wald_test([[0, 0, 1, 0], [0, 1, 0, 0]], [-2.0, 1.0])
    rest = summary.coefficients[[2, 1]] - [-2.0, 1.0]
    expected = rest @ np.linalg.inv(summary.covariance[np.ix_([2, 1], [2, 1])]) @ rest / 2
    assert matrix.statistic == pytest.approx(expected)
    small = LADRegressor(tol=0).fit(X[["a", "b"]], y).summary(X[["a", "b"]], y, se="iid")
    test = likelihood_ratio_test(small, summary)
    assert test.statistic == pytest.approx(8 * (small.loss - summary.loss) / summary.sparsity)
    assert test.p_value == pytest.approx(stats.chi2.sf(test.statistic, 1))
    with pytest.raises(ValueError, match="some, not all"):
        likelihood_ratio_test(summary, summary)
    with pytest.raises(ValueError, match="no coefficient 'z'"):
        summary.wald_test(["z"])
    with pytest.raises(ValueError, match="not independent"):
        summary.wald_test([[0, 1, 0, 0], [0, 2, 0, 0]])


def test_shown_and_kept(rows):
    X, y, _ = rows
    summaries = QuantileRegressor(quantile=[0.2, 0.6], tol=1e-7).fit(X, y).summary(X, y)
    assert [s.quantile for s in summaries] == [0.2, 0.6]
    summary = summaries[0]
    assert summary.names == ["(intercept)", "a", "b", "c"]
    for text in (str(summary), summary._repr_html_(), summary.to_latex(), summary.to_markdown()):
        assert "(intercept)" in text
        assert "std err" in text
    lengths = {len(line) for line in str(summary).splitlines()[1:] if not line.startswith("Note")}
    assert len(lengths) == 1
    frame = summary.to_frame()
    assert frame.loc["a", "standard_errors"] == summary.standard_errors[1]
    back = Summary.from_dict(json.loads(json.dumps(summary.to_dict())))
    assert np.array_equal(numbers(back), numbers(summary))
    assert np.array_equal(back.covariance, summary.covariance)
    without = LADRegressor(fit_intercept=False).fit(X, y).summary(X, y)
    assert without.names == ["a", "b", "c"]
    awkward = LADRegressor().fit(X.rename(columns={"a": "a<b>_%"}), y).summary(X.rename(columns={"a": "a<b>_%"}), y)
    assert "a&lt;b&gt;" in awkward._repr_html_()
    assert r"\_\%" in awkward.to_latex()


def test_notes_of_a_coarse_fit_and_of_other_rows(rows):
    X, y, _ = rows
    coarse = LADRegressor(tol=0.05, init="kmeans").fit(X, y)
    assert coarse.gap_ > 1e-3
    assert any("not small compared with the sampling error" in note for note in coarse.summary(X, y).notes)
    fine = LADRegressor(tol=1e-8).fit(X, y)
    assert fine.summary(X, y).notes == []
    assert any("not the rows of the fit" in note for note in fine.summary(X[:2000], y[:2000]).notes)


BAD = [
    ({"se": "robust"}, "se must be one of 'iid', 'nid'"),
    ({"alpha": 1.5}, "alpha must be a number > 0 and < 1"),
    ({"bandwidth": "silverman"}, "bandwidth must be one of"),
    ({"se": "cluster"}, "needs clusters"),
    ({"clusters": np.zeros(4000)}, "not for se='nid'"),
    ({"se": "cluster", "clusters": np.zeros(4000)}, "one value only"),
    ({"se": "cluster", "clusters": np.zeros(7)}, "one value for each of 4000 rows"),
    ({"se": "cluster", "clusters": "g"}, "names a column"),
    ({"se": "rank"}, "at most 2,000"),
]


@pytest.mark.parametrize(("given", "words"), BAD)
def test_bad_requests_are_told(rows, given, words):
    X, y, _ = rows
    with pytest.raises(ValueError, match=words):
        LADRegressor().fit(X, y).summary(X, y, **given)


@pytest.mark.parametrize("se", ["iid", "nid", "kernel", "bootstrap", "rank"])
def test_what_has_no_standard_errors_is_told(se):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), rng.normal(size=200)

    def told(X, y, words, weight=None, **parameters):
        with pytest.raises(ValueError, match=words):
            LADRegressor(**parameters).fit(X, y, weight).summary(X, y, weight, se=se, n_replicates=5, random_state=0)

    told(rng.normal(size=(5, 8)), rng.normal(size=5), "more rows than coefficients: there are 5 rows")
    few = np.zeros(200)
    few[:3] = 1.0
    told(X, y, "there are 3 rows with a positive weight", few)
    told(np.column_stack([X, X[:, 0] - X[:, 1]]), y, "linear combination of the other columns")
    told(np.column_stack([X, np.full(200, 3.0)]), y, "column x2 is constant or zero")
    told(X, y, "penalised", alpha=0.1)
    told(X, X @ [1.0, 2.0] + 3, "fit exactly")
    if se in ("iid", "nid", "kernel"):
        told(X, np.r_[np.zeros(150), np.ones(50)], "cannot be estimated")


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("se", ["nid", "bootstrap"])
def test_factors_are_tested_jointly(se, intercept):
    rng = np.random.default_rng(1)
    n = 1200
    X = pd.DataFrame({"x": rng.normal(size=n), "f": rng.choice(list("abcd"), n), "g": rng.choice(["u", "v"], n)})
    y = X.x + (X.f == "c") * 2.0 + rng.laplace(size=n)
    model = LADRegressor(tol=1e-9, fit_intercept=intercept).fit(X[["x", "f"] + ["g"] * intercept], y)
    table = model.summary(X[["x", "f"] + ["g"] * intercept], y, se=se, random_state=0, n_replicates=60)
    names = [name for name in table.names if name.startswith("f[")]
    if intercept:
        expected = table.wald_test(names)
    else:
        R = np.zeros((3, len(table.names)))
        R[:, table.names.index("f[a]")] = -1.0
        for k, name in enumerate(names[1:]):
            R[k, table.names.index(name)] = 1.0
        expected = table.wald_test(R)
    found = table.tests[0]
    assert found.name == "f (4 levels)"
    assert (found.df, found.statistic) == (3, pytest.approx(expected.statistic, rel=1e-9))
    assert found.p_value < 1e-6
    if intercept:
        assert table.tests[1].statistic == pytest.approx(table.statistics[-1] ** 2, rel=1e-9)
        assert "g (2 levels): F(1, " in str(table)
    again = Summary.from_dict(json.loads(json.dumps(table.to_dict())))
    assert again.tests == table.tests
    assert "Joint tests of factors" in again.to_html()


def test_a_display_with_bands(rows):
    pytest.importorskip("matplotlib").use("Agg")
    X, y, _ = rows
    model = QuantileRegressor(quantile=[0.2, 0.5, 0.8]).fit(X, y)
    display = QuantileDisplay.from_estimator(model, X=X, y=y, intercept=True, coefficients=["a", "c"])
    summaries = model.summary(X, y)
    assert np.array_equal(display.lower[:, 0], [s.lower[1] for s in summaries])
    assert np.array_equal(display.upper[:, 2], [s.upper[0] for s in summaries])
    A = np.column_stack([X.a, X.c, np.ones(len(X)), X.b])
    expected = np.linalg.lstsq(A, y, rcond=None)[0][:3]
    assert display.least_squares == pytest.approx(expected, rel=1e-8)
    assert len(display.ax_.collections) == 3
    with pytest.raises(ValueError, match="one Summary for each quantile"):
        QuantileDisplay.from_estimator(model, summaries=summaries[:2])


def test_standardised_columns_have_the_same_standard_errors():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2000, 2)) * [1.0, 50.0]
    y = X @ [1.0, 0.1] + rng.laplace(size=2000)
    plain, scaled = (LADRegressor(standardize=flag, tol=0).fit(X, y).summary(X, y) for flag in (False, True))
    assert scaled.coefficients == pytest.approx(plain.coefficients, rel=1e-6)
    assert scaled.standard_errors == pytest.approx(plain.standard_errors, rel=1e-6)


@pytest.mark.parametrize("se", ["bootstrap", "rank"])
def test_tied_targets_are_pointed_out(se):
    """Where most targets are the same, coefficients do not move and their standard errors are rounding errors."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(400, 2))
    y = np.where(rng.random(400) < 0.7, 0.0, rng.gamma(2, 1, 400))
    tied = QuantileRegressor(quantile=0.5, tol=1e-8).fit(X, y).summary(X, y, se=se)
    assert any("of the residuals are zero" in note for note in tied.notes)
    smooth = X[:, 0] + rng.normal(size=400)
    assert QuantileRegressor(quantile=0.5, tol=1e-8).fit(X, smooth).summary(X, smooth, se=se).notes == []


def test_a_name_without_a_density_is_no_other_density(monkeypatch):
    X, y = np.random.default_rng(0).normal(size=(200, 2)), np.arange(200.0)
    monkeypatch.setattr(standard_errors, "METHODS", (*METHODS, "new"))
    with pytest.raises(KeyError, match="new"):
        LADRegressor().fit(X, y).summary(X, y, se="new")


def test_latex_shows_names_as_they_are():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a~b^c", r"p\q{}$#%&_"])
    y = rng.normal(size=60)
    latex = LADRegressor().fit(table, y).summary(table, y).to_latex()
    assert r"a\textasciitilde{}b\textasciicircum{}c &" in latex
    assert r"p\textbackslash{}q\{\}\$\#\%\&\_ &" in latex
