"""Formulas: lists of columns are fitted as tables are, all else is formulaic's matrix."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from aidlearn import LADRegressor, LinearSVC, formula, load_model, save_model


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 1500
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "b": rng.choice(["u", "v", "w"], n),
            "month": rng.integers(1, 13, n),
            "odd name": rng.uniform(1, 2, n),
            "w": rng.uniform(size=n),
        }
    )
    frame["y"] = frame.a + (frame.b == "v") * 2 + (frame.month == 3) + rng.laplace(size=n)
    return frame


def test_a_list_of_columns(table, tmp_path):
    model = formula.fit("y ~ a + C(b) + C(month)", table, tol=1e-6)
    X = table[["a", "b", "month"]]
    expected = LADRegressor(categorical_features=["b", "month"], tol=1e-6).fit(X, table["y"])
    assert model.coefficient_names_[:4] == ["a", "b[v]", "b[w]", "month[10]"]
    assert np.array_equal(model.coef_, expected.coef_)
    assert np.array_equal(model.predict(table), expected.predict(X))
    assert np.array_equal(model.predict(pl.from_pandas(table)), expected.predict(X))
    table.to_parquet(tmp_path / "t.parquet")
    for data in (tmp_path / "t.parquet", pl.from_pandas(table).lazy(), pl.from_pandas(table)):
        assert np.array_equal(formula.fit("y ~ a + C(b) + C(month)", data, tol=1e-6).coef_, expected.coef_)
    save_model(model, tmp_path / "m.aid")
    assert np.array_equal(load_model(tmp_path / "m.aid").predict(table), model.predict(table))


def test_references_intercepts_and_weights(table):
    named = formula.fit("y ~ 0 + `odd name` + C(b, contr.treatment('v'))", table, sample_weight="w")
    assert named.coefficient_names_ == ["odd name", "b[u]", "b[w]"]
    assert named.intercept_ == 0.0
    bare = formula.fit("y ~ a + b - 1", table)
    assert bare.coefficient_names_ == ["a", "b[u]", "b[v]", "b[w]"]
    svm = formula.fit("b ~ a + `odd name`", table, model="svm", C=0.1)
    assert isinstance(svm, LinearSVC)
    assert svm.classes_.tolist() == ["u", "v", "w"]


def test_transformations_are_formulaics(table):
    model = formula.fit("y ~ np.log(`odd name`) + a:C(b) + a", table, tol=1e-8)
    dense = np.column_stack(
        [np.log(table["odd name"]), table.a, table.a * (table.b == "v"), table.a * (table.b == "w")]
    )
    expected = LADRegressor(tol=1e-8).fit(sparse.csr_array(dense), table["y"])
    assert model.objective_ == pytest.approx(expected.objective_, rel=1e-7)
    assert {"a:b[v]", "a:b[w]", "a"} <= set(model.coefficient_names_)
    assert model.predict(table) == pytest.approx(expected.predict(dense), abs=1e-3)
    assert model.predict(table[:7]) == pytest.approx(model.predict(table)[:7])
    with pytest.raises(ValueError, match="cannot be saved in a file without code"):
        save_model(model, "never.aid")
    unseen = table[:3].assign(b=["u", "new", "v"])
    with pytest.raises(ValueError, match=r"'new'.*unknown='reference'"):
        model.predict(unseen)
    lenient = formula.fit("y ~ np.log(`odd name`) + C(b)", table, unknown="reference")
    assert lenient.predict(unseen)[1] == lenient.predict(unseen.assign(b="u"))[1]
    logged = formula.fit("np.exp(a) ~ month", table)
    assert logged.coefficient_names_ == ["month"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("y ~ zz", "names 'zz', which is not a column"),
        ("a + b", "names no target"),
        ("y ~ a +* b", "is no formula"),
        ("y ~ np.log(zz)", "cannot be computed"),
    ],
)
def test_formulas_that_can_be_nothing(table, text, words):
    with pytest.raises(ValueError, match=words):
        formula.fit(text, table)


def test_calls_that_can_be_nothing(table, tmp_path):
    table.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match="need a table in memory"):
        formula.fit("y ~ np.log(a)", tmp_path / "t.csv")
    with pytest.raises(ValueError, match="always has an intercept"):
        formula.fit("b ~ a - 1", table, model="kernel-svm")
    with pytest.raises(ValueError, match="model must be one of 'lad'"):
        formula.fit("y ~ a", table, model="ols")
    with pytest.raises(ValueError, match="named columns, got ndarray"):
        formula.fit("y ~ a", table[["a"]].to_numpy())


def test_summary_takes_the_table_of_the_formula(tmp_path):
    rng = np.random.default_rng(0)
    n = 900
    frame = pd.DataFrame({"a": rng.normal(size=n), "k": rng.integers(1, 4, n), "b": rng.choice(["u", "v"], n), "z": 0})
    frame["y"] = frame.a * frame.k + rng.laplace(size=n)
    model = formula.fit("y ~ a + C(k) + b", frame, tol=1e-9)
    table = model.summary(frame)
    assert table.names == ["(intercept)", "a", "k[2]", "k[3]", "b[v]"]
    frame.to_csv(tmp_path / "t.csv", index=False)
    from_file = formula.fit("y ~ a + C(k) + b", tmp_path / "t.csv", tol=1e-9).summary(tmp_path / "t.csv")
    assert np.array_equal(table.standard_errors, from_file.standard_errors)
    products = formula.fit("y ~ a:b + np.log(k)", frame, tol=1e-9).summary(frame)
    assert products.names == ["(intercept)", "np.log(k)", "a:b[u]", "a:b[v]"]
    assert not products.notes
