"""The report is one file that holds the model's numbers, escapes every text and needs no network."""

from __future__ import annotations

import copy
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from aidlearn import SVC, LADRegressor, LinearSVC, SemiSupervisedSVC, Status, load_model, save_model
from aidlearn.report import ReportError, write_report
from aidlearn.report.page import render
from small_models import NAMES, data, fitted

EVIL = "<script>alert('x')</script>\"&"


class Checker(HTMLParser):
    """Tags that open and close in order; the texts of the page; every address it mentions."""

    VOID = ("meta", "link", "input", "path", "circle", "rect", "br")

    def __init__(self):
        super().__init__()
        self.open, self.texts, self.tags, self.addresses = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "action", "data")]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(text)


def checked(page):
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert checker.addresses == ["data:,"]
    assert "@import" not in page
    assert "url(" not in page.replace("url(#plane-", "")
    return checker, " ".join(" ".join(checker.texts).split())


@pytest.mark.parametrize("name", NAMES)
def test_every_estimator_has_a_report(name, tmp_path):
    model, _ = fitted(name)
    _, text = checked(render(model))
    assert type(model).__name__ in text
    assert "60 rows, " in text
    assert text.count("Objective and lower bound") == np.size(model.gap_)
    assert ('class="pictures"' in render(model)) == hasattr(model, "frames_")
    # One loaded from a file has the same report.
    save_model(model, tmp_path / "model")
    assert render(load_model(tmp_path / "model")) == render(model)
    assert "None" not in re.sub(r"Parameters.*", "", text)
    assert "nan" not in text


def test_the_numbers_are_the_model_s():
    X, y, *_ = data(500, 40)
    model = LADRegressor(init="kmeans", tol=1e-6).fit(X, y)
    _, text = checked(render(model))
    assert f"{model.history_[0].objective:.9g}" in text
    assert f"{model.history_[-1].lower_bound:.9g}" in text
    order = np.argsort(-np.abs(model.coef_))
    shown = [f"x{k} {model.coef_[k]:.6g}" for k in order]
    positions = [text.index(item) for item in shown[:30]]
    assert positions == sorted(positions)
    assert not any(f" {item} " in text for item in shown[30:])
    assert "and 10 smaller ones" in text
    assert "500 rows, 40 features" in text
    assert "init kmeans" in text
    for package in ("numpy", "scipy", "scikit-learn", "python", "aidlearn"):
        assert re.search(rf"{package} \d+\.\d+", text)


def test_the_start_of_a_fit_of_one_iteration():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 3))
    model = LADRegressor().fit(X, X.sum(axis=1) + rng.laplace(size=20_000))
    text = render(model)
    assert model.n_iter_ == 1
    for step in model.start_:
        sample = step.n_rows < 20_000
        wanted = f"sample of {step.n_rows:,} rows: about {step.objective:.6g}"
        assert (wanted if sample else f"pass {step.n_passes}: objective {step.objective:.9g}") in text
    assert text.count("above the final bound") > 2
    assert "over seconds" in text
    assert "clusters / rows over iteration" not in text  # one dot is no chart


def test_texts_are_escaped(tmp_path):
    X, y, *_ = data(m=2)
    table = pd.DataFrame(X, columns=[EVIL, "b"])
    model = LinearSVC().fit(table, np.where(y > 0, EVIL, np.where(y > -2, "b", "</script>")))
    model.training_ = {EVIL: EVIL, "columns": [EVIL], "nested": {"deep": {EVIL: None}}}
    checker, text = checked(render(model))
    allowed = {"head": 1, "frames": len(model.classes_)}
    assert checker.tags.count("script") == sum(allowed.values())
    assert f"{EVIL} against the rest" in text


def test_facts_of_the_training():
    model, _ = fitted("lad")
    model.training_ = {"data": "rent.csv", "target": "rent", "rows": 60, "seconds": 1.23456789, "filters": None}
    _, text = checked(render(model))
    assert "data rent.csv" in text
    assert "filters" not in text
    assert "seconds 1.23457" in text


def test_no_paths_nor_addresses_of_objects(tmp_path):
    X, y, *_ = data()
    secret = tmp_path / "run"
    model = LADRegressor(callbacks=[lambda record: None], checkpoint=secret, init=lambda X, y: np.arange(len(y)) % 9)
    page = render(model.fit(X, y))
    assert str(tmp_path) not in page
    assert "0x" not in page
    _, text = checked(page)
    assert "init function &lt;lambda&gt;" in text or "init function <lambda>" in text


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_every_pair_of_four_classes_is_in_the_report(kernel):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 2)), np.array(["ant", "bee", "cat", "dog"])[rng.integers(0, 4, 120)]
    model = SVC(kernel=kernel, solver="libsvm").fit(X, y)
    page = render(model)
    _, text = checked(page)
    assert "120 rows, 2 features, 6 models" in text
    assert page.count('role="tab"') == page.count('role="tabpanel"') == 6
    assert "cat against dog" in text
    assert text.count("Objective and lower bound") == 6


def test_the_certificate_of_an_approximated_kernel_says_so():
    words = "Objective and bound are those of an approximated kernel: Nystroem approximation by 20 rows."
    assert words in checked(render(fitted("svc-nystroem")[0]))[1]
    X, _, _, partly = data()
    assert words in checked(render(SemiSupervisedSVC(kernel="rbf", n_components=20, max_iter=1).fit(X, partly)))[1]
    for name in ("svc-rbf", "semi-rbf", "semi-graph", "semi-linear", "linear-svc"):
        assert "approximated" not in checked(render(fitted(name)[0]))[1]


def test_a_report_of_every_status():
    model, _ = fitted("lad")
    for status in Status:
        changed = copy.copy(model)
        changed.status_ = status
        _, text = checked(render(changed))
        assert len(text) > 500


def test_a_fit_without_iterations_and_bounds():
    model, _ = fitted("lad")
    model.history_, model.lower_bound_, model.gap_ = [], -np.inf, np.inf
    _, text = checked(render(model))
    assert "interrupted during its first iteration" in text
    assert "no lower bound was proven" in text


def test_records_without_bounds_and_rates():
    model, _ = fitted("lad-options")
    from dataclasses import replace

    first = replace(model.history_[0], lower_bound=-np.inf, best_lower_bound=-np.inf, gap=np.inf)
    model.history_ = [replace(first, near_rate=None, far_rate=None), *model.history_[1:]]
    _, text = checked(render(model))
    assert "inf" not in text.replace("inf ", "")


def test_long_histories_are_cut():
    model, _ = fitted("lad")
    from dataclasses import replace

    model.history_ = [replace(model.history_[0], iteration=k + 1) for k in range(1000)]
    page = render(model)
    assert "(800 more)" in page
    assert page.split("<h3>Iterations</h3>")[1].split("</table>")[0].count("<tr>") == 202


def test_a_file_of_an_older_version(tmp_path):
    from pathlib import Path

    old = Path(__file__).parents[1] / "files" / "version_1" / "svc-rbf.aid"
    _, text = checked(render(load_model(old)))
    assert "Rows of each final cluster" not in text


def test_writing(tmp_path, monkeypatch):
    model, _ = fitted("lad")
    write_report(model, tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == render(model)
    with pytest.raises(ReportError, match=r"nowhere.r\.html cannot be written: No such file or directory\.$"):
        write_report(model, tmp_path / "nowhere" / "r.html")
    with pytest.raises(ReportError, match="cannot be written: Is a directory"):
        write_report(model, tmp_path)
    monkeypatch.setattr("aidlearn.report.page.os.replace", _full)
    (tmp_path / "report.html").write_text("old")
    with pytest.raises(ReportError, match="No space left"):
        write_report(model, str(tmp_path / "report.html"))
    assert (tmp_path / "report.html").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def _full(*args):
    raise OSError(28, "No space left on device")


def test_what_has_no_report(tmp_path):
    with pytest.raises(NotFittedError):
        write_report(LADRegressor(), tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_saved_standard_errors_are_no_fact(tmp_path):
    """They have a section of their own; as a fact they would be pages of raw numbers."""
    X, y, *_ = data()
    model = LADRegressor().fit(X, y)
    save_model(model, tmp_path / "model", training={"by": "hand", "summaries": [model.summary(X, y).to_dict()]})
    page = render(load_model(tmp_path / "model"))
    _, text = checked(page)
    assert "Standard errors" in text
    facts = text[text.index("Data and training") : text.index("Parameters")]
    assert "by hand" in facts
    assert "summaries" not in facts
    assert len(facts) < 300
