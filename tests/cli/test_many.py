"""Many fits from the command line: ranges of quantiles, cross-validation, bootstrap."""

import json

import numpy as np
import pytest

from aidlearn import LADRegressor, LinearSVCCV, PathDisplay, QuantileRegressorCV, load_model, save_model
from aidlearn.cli.app import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("many")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    y = X @ [1.0, -1.0, 0.5] + rng.laplace(size=1500)
    rows = [
        f"{a!r},{b!r},{c!r},{t!r},{'yes' if t > 0 else 'no'}"
        for (a, b, c), t in zip(X.tolist(), y.tolist(), strict=True)
    ]
    (path / "rows.csv").write_text("a,b,c,y,k\n" + "\n".join(rows) + "\n")
    return path


def told(capsys):
    return json.loads(capsys.readouterr().out)


def test_a_range_of_quantiles(folder, capsys):
    out = folder / "q.aid"
    arguments = ["fit", "quantile", str(folder / "rows.csv"), "-t", "y", "--columns", "a,b,c", "-o", str(out)]
    assert run([*arguments, "--quantiles", "0.1:0.3:0.1,0.9"]) == 0
    assert load_model(out).quantile == [0.1, 0.2, 0.3, 0.9]
    for wrong in ("0.1:0.3", "0.3:0.1:0.1", "0.1:0.9:0", "a:b:c", "0:1:1e-9"):
        capsys.readouterr()
        assert run([*arguments, "--quantiles", wrong]) == 1
        assert "--quantile" in capsys.readouterr().err


def test_cross_validation(folder, capsys):
    data, out = str(folder / "rows.csv"), folder / "svm.aid"
    arguments = ["fit", "svm", data, "-t", "k", "--columns", "a,b,c", "-o", str(out)]
    assert run([*arguments, "--cv", "3", "--penalties", "0.01,1"]) == 0
    assert "the best of 2 over 3 folds" in capsys.readouterr().out
    model = load_model(out)
    assert isinstance(model, LinearSVCCV)
    assert model.scores_.shape == model.gaps_.shape == (3, 2)
    assert model.C_ in (0.01, 1.0)
    assert run(["predict", str(out), data, "-o", str(folder / "p.csv")]) == 0
    assert run(["inspect", str(out)]) == 0
    arguments = ["fit", "quantile", data, "-t", "y", "--columns", "a,b,c", "-o", str(folder / "q.aid")]
    assert run([*arguments, "--cv", "2", "--penalties", "3", "--quantile", "0.3"]) == 0
    assert len(load_model(folder / "q.aid").alphas_) == 3
    capsys.readouterr()
    for more, words in (
        (["--cv", "3", "--alpha", "2"], "--alpha cannot be combined with --cv"),
        (["--cv", "3", "--checkpoint", str(folder / "x")], "--checkpoint cannot be combined with --cv"),
        (["--cv", "1"], "--cv must be at least 2"),
        (["--penalties", "3"], "--penalties requires --cv"),
        (["--cv", "3", "--penalties", "a"], "--penalties must be"),
    ):
        assert run([*arguments, *more]) == 1
        assert words in capsys.readouterr().err


def test_bootstrap(folder, capsys):
    data, out = str(folder / "rows.csv"), str(folder / "lad.aid")
    assert run(["fit", "lad", data, "-t", "y", "--columns", "a,b,c", "-o", out, "--quiet"]) == 0
    table = folder / "replicates.csv"
    capsys.readouterr()
    assert run(["bootstrap", out, data, "-n", "30", "--json", "-o", str(table)]) == 0
    found = told(capsys)
    assert found["largest_gap"] <= 1e-5
    assert [row["name"] for row in found["coefficients"]] == ["(intercept)", "a", "b", "c"]
    replicates = np.loadtxt(table, delimiter=",", skiprows=1)
    assert replicates.shape == (30, 4)
    errors = [row["standard_error"] for row in found["coefficients"]]
    assert np.allclose(replicates.std(axis=0, ddof=1), errors)
    assert run(["bootstrap", out, data, "-n", "30"]) == 0
    assert "30 replicates" in capsys.readouterr().out
    for more, words in (
        (["--kind", "other"], "--kind must be one of"),
        (["--kind", "cluster"], "requires --clusters"),
        (["-n", "1"], "--replicates must be at least 2"),
        (["--alpha", "2"], "--alpha must be between 0 and 1"),
    ):
        assert run(["bootstrap", out, data, *more]) == 1
        assert words in capsys.readouterr().err


def test_models_with_a_path_are_saved_and_drawn(tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = X[:, 0] + rng.normal(size=300)
    for model, name in (
        (LinearSVCCV(Cs=3, cv=3).fit(X, y > 0), "C"),
        (QuantileRegressorCV(alphas=3, cv=3).fit(X, y), "alpha"),
    ):
        save_model(model, tmp_path / "m.aid")
        again = load_model(tmp_path / "m.aid")
        assert np.array_equal(again.predict(X), model.predict(X))
        assert np.array_equal(again.scores_, model.scores_)
        display = PathDisplay.from_estimator(again)
        assert display.name == name
        mean = display.ax_.lines[3].get_ydata()
        assert np.allclose(np.sort(mean), np.sort(model.scores_.mean(axis=0)))
        assert display.gap_ax_.get_yscale() == "log"
    other = LADRegressor().fit(X, y)
    with pytest.raises(TypeError, match="PathDisplay draws"):
        PathDisplay.from_estimator(other)
