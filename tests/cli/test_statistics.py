"""``fit --se``, what ``inspect`` and ``report`` show of it, and ``compare``."""

import numpy as np
import pandas as pd
import pytest
from cli_support import COLUMNS, frame

from aidlearn import LADRegressor, QuantileRegressor, equal_slopes, load_model


@pytest.fixture
def table(ran, tmp_path):
    frame().to_csv(tmp_path / "table.csv", index=False)
    return frame()


def fit(ran, *arguments):
    done = ran("fit", *arguments)
    assert done.code == 0, done
    return done


def test_the_summary_of_python_is_printed_and_kept(ran, table):
    done = fit(ran, "lad", "table.csv", "-t", "y", "--columns", COLUMNS, "--se", "kernel", "-o", "m.aid")
    X = table[COLUMNS.split(",")].to_numpy()
    expected = LADRegressor().fit(X, table.y).summary(X, table.y, se="kernel")
    kept = load_model("m.aid").training_["summaries"]
    assert kept[0]["standard_errors"] == pytest.approx(expected.standard_errors)
    assert kept[0]["names"] == ["(intercept)", *COLUMNS.split(",")]
    for shown in (done.out, ran("inspect", "m.aid").out):
        assert "std err" in shown
        assert f"{expected.standard_errors[0]:.4g}" in shown
    assert ran("inspect", "m.aid", "--json").json["training"]["summaries"] == kept
    assert ran("report", "m.aid", "-o", "m.html").code == 0
    with open("m.html", encoding="utf-8") as page:
        assert "Standard errors" in page.read()
    printed = fit(ran, "lad", "table.csv", "-t", "y", "--columns", COLUMNS, "--se", "iid", "-o", "m.aid", "--json").json
    assert len(printed["summaries"]) == 1
    assert printed["summaries"][0]["se"] == "iid"


def test_clusters_are_a_column(ran, table):
    arguments = ["lad", "table.csv", "-t", "y", "--columns", COLUMNS, "--se", "cluster", "--clusters", "city"]
    fit(ran, *arguments, "-o", "m.aid", "-q")
    [kept] = load_model("m.aid").training_["summaries"]
    X = table[COLUMNS.split(",")].to_numpy()
    expected = LADRegressor().fit(X, table.y).summary(X, table.y, se="cluster", clusters=table.city)
    assert kept["n_clusters"] == 3
    assert kept["standard_errors"] == pytest.approx(expected.standard_errors)


def test_compare(ran, table):
    fit(
        ran,
        "quantile",
        "table.csv",
        "-t",
        "y",
        "--columns",
        COLUMNS,
        "--quantile",
        "0.3,0.7",
        "--se",
        "nid",
        "-o",
        "q.aid",
        "-q",
    )
    fit(ran, "lad", "table.csv", "-t", "y", "--columns", "x0,x1", "--se", "iid", "-o", "small.aid", "-q")
    fit(ran, "lad", "table.csv", "-t", "y", "--columns", COLUMNS, "--se", "iid", "-o", "large.aid", "-q")
    fit(ran, "lad", "table.csv", "-t", "y", "--columns", COLUMNS, "-o", "bare.aid", "-q")
    X = table[COLUMNS.split(",")].to_numpy()
    expected = equal_slopes(QuantileRegressor(quantile=[0.3, 0.7]).fit(X, table.y).summary(X, table.y))
    [test] = ran("compare", "q.aid", "--json").json["tests"]
    assert test["statistic"] == pytest.approx(expected.statistic)
    assert "Equality of slopes" in ran("compare", "q.aid").out
    [test] = ran("compare", "small.aid", "large.aid", "--json").json["tests"]
    assert (test["df"], test["df_residual"]) == (1, None)
    assert test["p_value"] < 1e-6
    for arguments, words in [
        (["small.aid"], "only one fit"),
        (["bare.aid", "large.aid"], "no standard errors"),
        (["small.aid", "q.aid"], "two at a time"),
        (["small.aid", "nowhere.aid"], "no file nowhere.aid"),
    ]:
        done = ran("compare", *arguments)
        assert done.code == 1
        assert words in done.err


def test_a_fit_without_standard_errors_is_saved_all_the_same(ran, table, tmp_path):
    table["copy"] = 2 * table.x0
    table.to_csv(tmp_path / "table.csv", index=False)
    done = fit(ran, "lad", "table.csv", "-t", "y", "--columns", "x0,copy", "--se", "nid", "-o", "m.aid")
    assert "Warning: Standard errors could not be computed" in done.err
    assert "linear combination" in done.err
    assert np.isfinite(load_model("m.aid").coef_).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--se", "hc3"], "must be one of 'iid'"),
        (["--se", "cluster"], "needs clusters"),
        (["--clusters", "city"], "--clusters requires"),
        (["--se", "nid", "--clusters", "city"], "not for se='nid'"),
    ],
)
def test_bad_options_are_told_before_the_fit(ran, table, options, words):
    done = ran("fit", "lad", "table.csv", "-t", "y", "--columns", COLUMNS, *options, "-o", "m.aid")
    assert done.code == 1
    assert words in done.err
    assert ran("fit", "svm", "table.csv", "-t", "label", "--columns", COLUMNS, "--se", "nid", "-o", "m.aid").code == 1


def test_bands_and_joint_tests_in_the_report(ran, tmp_path):
    rng = np.random.default_rng(0)
    n = 800
    frame = pd.DataFrame({"a": rng.normal(size=n), "city": rng.choice(["Wien", "Köln", "<b>"], n)})
    frame["y"] = frame.a * 2 + (frame.city == "Wien") + rng.laplace(size=n)
    frame.to_csv("t.csv", index=False)
    done = ran("fit", "quantile", "t.csv", "-t", "y", "--quantile", "0.2,0.5,0.8", "--se", "nid", "-o", "m.aid")
    assert done.code == 0, done
    assert "city (3 levels): F(2, " in done.out
    assert "city (3 levels): F(2, " in ran("inspect", "m.aid").out
    assert ran("report", "m.aid", "-o", "r.html").code == 0
    page = (tmp_path / "r.html").read_text()
    assert "Coefficients over quantiles" in page
    assert page.count('class="band"') >= 3
    assert "city[Wien]" in page
    assert "<b>" not in page.replace("&lt;b&gt;", "")
    assert ran("fit", "lad", "t.csv", "-t", "y", "--se", "nid", "-o", "l.aid").code == 0
    assert ran("report", "l.aid", "-o", "l.html").code == 0
    page = (tmp_path / "l.html").read_text()
    assert "Confidence intervals" in page
    assert "Joint tests of factors" in page
    assert "Coefficients over quantiles" not in page
