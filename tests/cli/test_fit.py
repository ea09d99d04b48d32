"""Fits from the command line are those of Python, from every kind of file."""

import json
import os

import numpy as np
import pandas as pd
import pytest
from cli_support import COLUMNS, X, frame

from aidlearn import (
    SVC,
    SVR,
    LADRegressor,
    LinearOneClassSVM,
    LinearSVC,
    LinearSVR,
    QuantileRegressor,
    SemiSupervisedSVC,
    Status,
    load_model,
    save_model,
)
from aidlearn.cli.run import exit_code
from exact_csv import read_csv


def columns():
    return np.ascontiguousarray(frame()[X])  # rows of files are: the same bits are expected


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("table.csv", ["-t", "y", "--columns", COLUMNS]),
        ("table.tsv", ["-t", "4", "--columns", "0,1,2"]),
        ("table.parquet", ["--target", "y", "--columns", COLUMNS]),
        ("parts", ["--target", "y", "--columns", COLUMNS]),
        ("table.npy", ["-t", "3"]),
        ("table.npy", ["-t", "-1"]),
        ("table.svmlight", []),
    ],
)
def test_every_format(ran, files, name, options):
    done = ran("fit", "lad", files / name, *options, "-o", "m.aid", "--tol", "1e-8")
    assert done.code == 0, done
    assert done.err.startswith("iteration 1: gap ")
    assert "LADRegressor of" in done.out
    expected = LADRegressor(tol=1e-8).fit(columns(), frame()["y"])
    model = load_model("m.aid")
    # svmlight text has 16 digits, one less than a double needs.
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-12 if "svmlight" in name else 0)
    assert model.training_["rows"] == len(frame())


OPTIONS = {
    "lad --alpha 0.01 --no-intercept --init kmeans --seed 3 --max-iter 50": (
        LADRegressor(alpha=0.01, fit_intercept=False, init="kmeans", random_state=3, max_iter=50),
        "y",
    ),
    "lad --solver highs --jobs 2": (LADRegressor(solver="highs"), "y"),
    "quantile --quantile 0.9": (QuantileRegressor(quantile=0.9), "y"),
    "quantile --quantile 0.1,0.9 --alpha 0.001": (QuantileRegressor(quantile=[0.1, 0.9], alpha=0.001), "y"),
    "svr --C 3 --epsilon 0.2": (LinearSVR(C=3.0, epsilon=0.2), "y"),
    "svm --C 0.1": (LinearSVC(C=0.1), "label"),
    "svm --class-weight balanced": (LinearSVC(class_weight="balanced"), "three"),
    "svm --class-weight yes=2,no=0.5": (LinearSVC(class_weight={"yes": 2.0, "no": 0.5}), "label"),
    "svm --class-weight 0=2,1=1,2=3 --solver libsvm": (
        LinearSVC(class_weight={0: 2.0, 1: 1.0, 2: 3.0}, solver="libsvm"),
        "three",
    ),
    "kernel-svm --C 2 --kernel poly --degree 2 --coef0 1 --gamma 0.5 --solver libsvm": (
        SVC(C=2.0, kernel="poly", degree=2, coef0=1.0, gamma=0.5, solver="libsvm"),
        "label",
    ),
    "kernel-svr --C 2 --epsilon 0.3 --kernel rbf --gamma 0.5": (SVR(C=2.0, epsilon=0.3, gamma=0.5), "y"),
    "kernel-svm --nystroem 50 --class-weight balanced --solver libsvm --memory-limit 1GB": (
        SVC(approximation="nystroem", n_components=50, class_weight="balanced", solver="libsvm"),
        "three",
    ),
}


@pytest.mark.parametrize("arguments", OPTIONS)
def test_every_option_is_the_parameter_of_python(ran, files, arguments):
    expected, target = OPTIONS[arguments]
    kind, *options = arguments.split()
    done = ran("fit", kind, files / "table.parquet", "-t", target, "--columns", COLUMNS, "-o", "m.aid", *options)
    assert done.code == 0, done
    table = frame()
    expected.fit(columns(), table[target])
    model = load_model("m.aid")
    np.testing.assert_array_equal(model.intercept_, expected.intercept_)
    if target != "y":
        np.testing.assert_array_equal(model.predict(table[X]), expected.predict(columns()))
    np.testing.assert_array_equal(model.objective_, expected.objective_)
    np.testing.assert_array_equal(model.lower_bound_, expected.lower_bound_)
    assert list(model.feature_names_in_) == X
    if hasattr(model, "classes_"):
        assert model.classes_.tolist() == sorted(set(table[target]))


def test_weights_and_factors(ran, files):
    options = ["--columns", f"{COLUMNS},city", "--categorical", "city", "--weight", "w", "--tol", "1e-9"]
    assert ran("fit", "lad", files / "table.csv", "-t", "y", *options, "-o", "m.aid").code == 0
    table = frame()
    dummies = np.column_stack([table["city"] == name for name in ("Paris", "Rome")]).astype(float)
    expected = LADRegressor(tol=1e-9).fit(np.hstack([columns(), dummies]), table["y"], sample_weight=table["w"])
    model = load_model("m.aid")
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert model.coefficient_names_ == [*X, "city[Paris]", "city[Rome]"]
    assert list(model.feature_names_in_) == [*X, "city"]


def test_standard_input(ran, files, only, tmp_path, monkeypatch):
    spool = tmp_path / "spool"
    spool.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spool))
    text = frame()[[*X, "y"]].to_csv(index=False)
    done = ran("fit", "lad", "-", "-t", "y", "-o", "m.aid", stdin=text)
    assert done.code == 0, done
    np.testing.assert_array_equal(load_model("m.aid").coef_, LADRegressor().fit(columns(), frame()["y"]).coef_)
    assert "standard input" in done.out
    assert only() == ["m.aid", "spool"]
    assert os.listdir(spool) == []


def test_json_has_the_certificate(ran, files):
    options = ["--columns", COLUMNS, "--quantile", "0.1,0.5", "--json", "-q"]
    done = ran("fit", "quantile", files / "table.csv", "-t", "y", *options, "-o", "m.aid")
    assert (done.code, done.err) == (0, "")
    model = load_model("m.aid")
    told = done.json
    assert told["model"] == "m.aid"
    assert told["estimator"] == "QuantileRegressor"
    assert told["rows"] == len(frame())
    assert told["reached_tolerance"] is True
    assert [fit["objective"] for fit in told["fits"]] == model.objective_.tolist()
    assert [fit["lower_bound"] for fit in told["fits"]] == model.lower_bound_.tolist()
    assert told["gap"] == model.gap_.max()


FOUR = ["ant", "bee", "cat", "dog"]
PAIRS = ["ant against bee", "ant against cat", "ant against dog", "bee against cat", "bee against dog"]
PAIRS += ["cat against dog"]


@pytest.fixture
def four(tmp_path):
    """A file of four classes."""
    rng = np.random.default_rng(2)
    y = rng.integers(0, 4, 400)
    points = 3.0 * np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])[y] + rng.normal(size=(400, 2))
    table = pd.DataFrame(points, columns=["a", "b"]).assign(kind=np.array(FOUR)[y])
    table.to_csv(tmp_path / "four.csv", index=False)
    return tmp_path / "four.csv"


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("limit", [1, 3, 100])
def test_every_pair_of_four_classes_counts(ran, four, kernel, limit):
    """In the lines of the display, the JSON of fit and of inspect, and the exit code."""
    options = ["--kernel", kernel, "--solver", "libsvm", "--init", "kmeans", "--max-iter", limit, "--json"]
    done = ran("fit", "kernel-svm", four, "-t", "kind", "-o", "m.aid", *options)
    model = load_model("m.aid")
    assert len(model.status_) == 6
    assert [fit["name"] for fit in done.json["fits"]] == PAIRS
    assert [fit["status"] for fit in done.json["fits"]] == [status.name for status in model.status_]
    assert [fit["objective"] for fit in done.json["fits"]] == model.objective_.tolist()
    reached = all(status.reached_tolerance for status in model.status_)
    assert (done.code, done.json["reached_tolerance"]) == (0 if reached else 2, reached)
    assert "fit 6 of 6, iteration 1" in done.err
    assert [fit["name"] for fit in ran("inspect", "m.aid", "--json").json["fits"]] == PAIRS
    assert all(pair in ran("inspect", "m.aid").out for pair in PAIRS)


@pytest.mark.parametrize("number", range(6))
def test_one_pair_that_was_stopped_makes_the_exit_code_2(ran, four, number):
    assert ran("fit", "kernel-svm", four, "-t", "kind", "-o", "m.aid", "--kernel", "linear", "-q").code == 0
    model = load_model("m.aid")
    assert exit_code(model) == 0
    model.status_[number] = Status.iteration_limit
    assert exit_code(model) == 2
    save_model(model, "m.aid")
    told = ran("inspect", "m.aid", "--json").json
    assert (told["reached_tolerance"], told["status"]) == (False, "iteration_limit")


def test_json_of_an_unknown_bound_is_null(ran, files):
    from aidlearn.cli.output import json_value

    assert (
        json.dumps(json_value({"a": [float("nan"), np.float64("inf"), np.arange(2)]})) == '{"a": [null, null, [0, 1]]}'
    )


def test_a_limit_gives_code_2_and_a_usable_model(ran, files):
    options = ["--init", "kmeans", "--tol", "0", "--max-iter", "1"]
    done = ran("fit", "lad", files / "table.npy", "-t", "3", "-o", "m.aid", *options, "--json")
    assert done.code == 2
    assert done.json["status"] == "iteration_limit"
    assert load_model("m.aid").predict(columns()).shape == (len(frame()),)
    done = ran(
        "fit",
        "lad",
        files / "table.npy",
        "-t",
        "3",
        "-o",
        "t.aid",
        "--tol",
        "0",
        "--time-limit",
        "1e-9",
        "--init",
        "kmeans",
    )
    assert done.code == 2
    assert "Stopped at the time limit" in done.out


def test_a_fit_overwrites_its_output(ran, files):
    for quantile in ("0.1", "0.9"):
        assert (
            ran("fit", "quantile", files / "table.npy", "-t", "3", "--quantile", quantile, "-o", "m.aid", "-q").code
            == 0
        )
    assert load_model("m.aid").quantile == 0.9


def test_an_output_behind_a_link_stays_behind_it(ran, files, tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "real.aid").write_text("old")
    os.symlink("far/real.aid", tmp_path / "link.aid")
    assert ran("fit", "lad", files / "table.npy", "-t", "3", "-o", "link.aid", "-q").code == 0
    assert (tmp_path / "link.aid").is_symlink()
    assert load_model(tmp_path / "far" / "real.aid").n_features_in_ == 3


def clouds():
    rng = np.random.default_rng(0)
    side = rng.integers(0, 2, 120)
    return rng.normal(size=(120, 2)) * 0.5 + 3 * side[:, None], side, rng.random(120) < 0.2


@pytest.mark.parametrize(
    ("names", "unlabelled"),
    [
        (["cat", "dog"], ""),
        (["cat", "dog"], "NA"),
        (["cat", "dog"], "-1"),
        (["0", "1"], ""),
        (["0", "1"], "-1"),
        (["-1", "1"], ""),
        (["3", "7"], "NaN"),
    ],
)
def test_unlabelled_rows_as_users_write_them(ran, names, unlabelled):
    points, side, known = clouds()
    cells = [names[s] if k else unlabelled for s, k in zip(side, known, strict=True)]
    text = "a,b,y\n" + "".join(f"{p[0]!r},{p[1]!r},{cell}\n" for p, cell in zip(points.tolist(), cells, strict=True))
    with open("half.csv", "w") as file:
        file.write(text)
    done = ran("fit", "s3vm", "half.csv", "-t", "y", "-o", "m.aid", "--balance", "constraint", "--C-unlabeled", "0.5")
    assert done.code in (0, 2), done
    assert f"{known.sum()} labelled" in done.out
    expected = SemiSupervisedSVC(balance="constraint", C_unlabeled=0.5).fit(points, np.where(known, side, -1))
    model = load_model("m.aid")
    assert [str(label) for label in model.classes_] == names
    assert [
        names.index(str(label)) for label in model.predict(pd.DataFrame(points, columns=["a", "b"]))
    ] == expected.predict(points).tolist()
    assert model.objective_ == expected.objective_
    assert [names.index(str(label)) for label in model.transduction_] == expected.transduction_.tolist()


def test_parquet_nulls_are_unlabelled(ran):
    points, side, known = clouds()
    labels = pd.Series(np.where(side > 0, "dog", "cat")).where(known)
    pd.DataFrame(points, columns=["a", "b"]).assign(y=labels).to_parquet("half.parquet")
    done = ran("fit", "s3vm", "half.parquet", "-t", "y", "-o", "m.aid", "--json")
    assert done.code in (0, 2), done
    assert load_model("m.aid").training_["labelled"] == known.sum()


def test_warnings_are_one_line(ran, files, monkeypatch):
    import warnings

    real = LADRegressor.fit

    def warning(self, *args):
        warnings.warn("The disk is slow.\nVery slow.", stacklevel=2)
        warnings.warn("for programmers", DeprecationWarning, stacklevel=2)
        return real(self, *args)

    monkeypatch.setattr(LADRegressor, "fit", warning)
    done = ran("fit", "lad", files / "table.npy", "-t", "3", "-o", "m.aid", "-q")
    assert (done.code, done.err) == (0, "Warning: The disk is slow.\n")


def test_one_class_needs_no_target(ran):
    rows = frame()[X] + 4.0  # away from the origin
    rows.to_csv("rows.csv", index=False)
    rows.assign(label="some").to_csv("labelled.csv", index=False)
    expected = LinearOneClassSVM(nu=0.23).fit(np.ascontiguousarray(rows))
    assert expected.objective_ < 0
    for options in (["rows.csv"], ["labelled.csv", "-t", "label"]):
        done = ran("fit", "one-class", *options, "--nu", "0.23", "-o", "one.aid")
        assert done.code == 0, done
        assert np.array_equal(load_model("one.aid").coef_, expected.coef_)
    assert ran("predict", "one.aid", "labelled.csv", "--scores", "-o", "p.csv").code == 0
    found = read_csv("p.csv")
    np.testing.assert_allclose(found["score"], expected.decision_function(rows.to_numpy()))
    assert np.array_equal(found["prediction"], expected.predict(rows.to_numpy()))


def test_quoted_names_keep_their_spaces(ran):
    table = frame()[[*X, "y"]].rename(columns={"x0": "  a", "x1": "b ", "x2": "b"})
    table.to_csv("t.csv", index=False)
    done = ran("fit", "lad", "t.csv", "-t", "y", "--columns", '"  a" , "b ",b', "-o", "m.aid", "--json")
    assert done.code == 0, done
    assert list(load_model("m.aid").feature_names_in_) == ["  a", "b ", "b"]
    table.assign(x3=table.y, label=np.where(table.y > 0, " yes", "yes")).to_csv("c.csv", index=False)
    svm = ["fit", "svm", "c.csv", "-t", "label", "--columns", "x3 ", "-o", "s.aid"]
    assert ran(*svm, "--class-weight", '" yes"=2, yes = 3').code == 0
    assert load_model("s.aid").class_weight == {" yes": 2.0, "yes": 3.0}
