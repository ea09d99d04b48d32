"""The board of a notebook shows what the terminal's does, and only there."""

import copy
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from aidlearn import LADRegressor, LinearSVC, PassProgress, ProgressDisplay, QuantileRegressor
from aidlearn.display import progress


@pytest.fixture
def notebook(monkeypatch):
    """IPython with a kernel: what was displayed, and every picture since."""
    pictures = []
    handle = SimpleNamespace(update=lambda html: pictures.append(html.data))

    def display(html, display_id):
        pictures.append(html.data)
        return handle

    shell = SimpleNamespace(kernel=object())
    html = SimpleNamespace(HTML=lambda text: SimpleNamespace(data=text), display=display)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell, display=html))
    monkeypatch.setitem(sys.modules, "IPython.display", html)
    return SimpleNamespace(pictures=pictures, shell=shell)


def rows(n=5000):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, X.sum(axis=1) + rng.laplace(size=n)


def test_a_fit_in_a_notebook(notebook, capsys):
    model = LADRegressor(init="kmeans", callbacks=[ProgressDisplay()]).fit(*rows())
    first, last = notebook.pictures[0], notebook.pictures[-1]
    assert "LADRegressor of 5,000 rows" in first
    assert "no bound yet, goal 0.0001" in first
    assert len(notebook.pictures) >= model.n_iter_ + 1
    assert f"iteration {model.n_iter_}" in last
    assert f"{model.n_clusters_:,} (" in last
    assert re.search(r"<progress value='1.000'", last)
    assert capsys.readouterr().err == ""


def test_several_fits_are_counted(notebook):
    X, y = rows(300)
    QuantileRegressor(quantile=[0.2, 0.5, 0.8], callbacks=ProgressDisplay()).fit(X, y)
    assert "fit 3 of 3" in notebook.pictures[-1]
    LinearSVC(callbacks=ProgressDisplay()).fit(X, np.arange(300) % 3)
    assert " of 3, " in notebook.pictures[-1]


def test_a_display_serves_one_fit_after_the_other(notebook):
    display = ProgressDisplay("mine <b>")
    X, y = rows(300)
    for _ in range(2):
        LADRegressor(callbacks=display).fit(X, y)
        assert len(display.tracks) == 1
        assert "mine &lt;b&gt;" in notebook.pictures[-1]


@pytest.mark.parametrize("where", ["no IPython", "a terminal of IPython"])
def test_lines_elsewhere(notebook, where, monkeypatch, capsys):
    if where == "no IPython":
        monkeypatch.delitem(sys.modules, "IPython")
    else:
        del notebook.shell.kernel
    model = LADRegressor(init="kmeans", callbacks=[ProgressDisplay()]).fit(*rows())
    assert notebook.pictures == []
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == model.n_iter_
    assert all(re.match(r"iteration \d+: gap .* <= optimum <= ", line) for line in lines)


def test_passes_are_redrawn_a_few_times_a_second(notebook, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    display = ProgressDisplay()
    display.on_fit("LADRegressor", 1e-4, 1000)
    for k in range(10):
        now[0] += 0.05
        display.on_pass(PassProgress(1, 100 * (k + 1), 1000, 0.05 * (k + 1)))
    assert 3 <= len(notebook.pictures) - 1 <= 4


def test_copies_begin_anew():
    display = ProgressDisplay("mine")
    LADRegressor(callbacks=[display]).fit(*rows(300))
    assert copy.deepcopy(display).tracks == []
    assert copy.deepcopy(display).html().count("mine") == 1
