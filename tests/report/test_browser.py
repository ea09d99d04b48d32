"""The page in a browser: no complaints, no network, no sideways scrolling, and the pictures can be stepped through."""

from __future__ import annotations

import numpy as np
import pytest
from browser import Browser, find_browser

from aidlearn import LinearSVC, QuantileRegressor
from aidlearn.report import write_report
from small_models import NAMES, fitted

pytestmark = pytest.mark.skipif(find_browser() is None, reason="no Chromium or Chrome on this machine: make browser")


@pytest.fixture(scope="module")
def browser():
    browser = Browser(find_browser())
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    """A classifier of plane data with several iterations, and its report."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2))
    y = np.where(X @ [1.0, 0.7] + 0.5 * rng.normal(size=4000) > 0.2, "up", "down")
    model = LinearSVC(init="kmeans", tol=1e-6).fit(X, y)
    assert len(model.frames_) >= 4
    path = tmp_path_factory.mktemp("report") / "plane.html"
    write_report(model, path)
    return model, path


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith(("plane", "quantiles", "svc-rbf", "one"))])
def test_pages_are_quiet_and_fit_the_screen(browser, tmp_path, name, width):
    model, _ = fitted(name)
    write_report(model, tmp_path / "report.html")
    browser.open(tmp_path / "report.html", width=width, dark=width < 600)
    assert browser.complaints() == []
    assert browser.run("document.documentElement.scrollWidth") == width


def state(browser):
    return browser.run(
        """(() => {
        const s = document.querySelector(".stepper");
        return [s.querySelector(".caption").textContent, Number(s.querySelector("input").value),
                s.querySelectorAll("circle").length, s.querySelectorAll(".stage path").length];
        })()"""
    )


def test_the_stepper(browser, plane):
    model, path = plane
    browser.open(path)
    frames, last = model.frames_, len(model.frames_) - 1

    def shows(number):
        caption, slider, circles, lines = state(browser)
        assert caption.startswith(f"Iteration {number + 1}: {frames[number].n_clusters:,} clusters, gap ")
        assert slider == number
        assert circles == len(frames[number].x)
        assert lines == 3

    shows(0)
    assert browser.run("document.querySelector('.previous').disabled")
    browser.run("document.querySelector('.next').click()")
    shows(1)
    browser.run("document.querySelector('.previous').click()")
    shows(0)
    browser.run("document.querySelector('.stepper').focus()")
    browser.press("ArrowRight")
    browser.press("ArrowRight")
    shows(2)
    browser.press("ArrowLeft")
    shows(1)
    browser.press("End")
    shows(last)
    assert browser.run("document.querySelector('.next').disabled")
    browser.press("ArrowRight")
    shows(last)
    browser.press("Home")
    shows(0)
    # On the slider itself a key moves by one too, and not by two.
    browser.run("document.querySelector('.stepper input').focus()")
    browser.press("ArrowRight")
    shows(1)
    browser.run(
        "(s => { s.value = 3; s.dispatchEvent(new Event('input')); })(document.querySelector('.stepper input'))"
    )
    shows(3)
    assert browser.complaints() == []


def test_play_goes_to_the_end_and_stops(browser, plane):
    model, path = plane
    browser.open(path)
    # A clock that ticks at once: the test waits for no second.
    browser.run("window.setInterval = (f) => { window.tick = f; return 1; }; window.clearInterval = () => {};")
    browser.run("document.querySelector('.play').click()")
    assert browser.run("document.querySelector('.play').textContent") == "Pause"
    for _ in range(len(model.frames_) - 1):
        browser.run("window.tick()")
    assert state(browser)[1] == len(model.frames_) - 1
    assert browser.run("document.querySelector('.play').textContent") == "Play"


def test_circles_lie_where_the_clusters_are(browser, plane):
    model, path = plane
    browser.open(path)
    browser.run("document.querySelector('.stepper').focus()")
    browser.press("End")
    circles = np.array(
        browser.run(
            """[...document.querySelectorAll(".stage circle")].map(
            c => [c.cx.baseVal.value, c.cy.baseVal.value, c.r.baseVal.value])"""
        )
    )
    frame = model.frames_[-1]
    order = np.argsort(-frame.sizes, kind="stable")
    for pixels, values, direction in ((circles[:, 0], frame.x, 1), (circles[:, 1], frame.y, -1)):
        slope, offset = np.polyfit(values[order], pixels, 1)
        assert np.sign(slope) == direction
        assert np.abs(slope * values[order] + offset - pixels).max() < 0.11
    assert (np.diff(circles[:, 2]) <= 0).all()
    # The hyperplane passes through the points where the score is 0.
    line = np.array(
        browser.run("document.querySelector('.hyperplane').getAttribute('d').slice(1).split(/[ L]/).map(Number)")
    )
    (ax, bx), (ay, by) = (np.polyfit(circles[:, k], values[order], 1) for k, values in ((0, frame.x), (1, frame.y)))
    ends = np.column_stack([ax * line[[0, 2]] + bx, ay * line[[1, 3]] + by])
    scores = ends @ frame.line[:2] + frame.line[2]
    assert np.abs(scores).max() < 0.02 * np.abs(frame.line[:2]).sum()


def test_tabs(browser, tmp_path):
    model, _ = fitted("quantiles")
    assert isinstance(model, QuantileRegressor)
    write_report(model, tmp_path / "report.html")
    browser.open(tmp_path / "report.html")
    visible = "[...document.querySelectorAll('.panel')].map(p => !p.hidden)"
    assert browser.run(visible) == [True, False, False]
    browser.run("document.getElementById('tab-2').click()")
    assert browser.run(visible) == [False, False, True]
    browser.run("document.getElementById('tab-2').focus()")
    browser.press("ArrowRight")
    assert browser.run(visible) == [True, False, False]
    assert browser.run("document.activeElement.id") == "tab-0"


def test_points_tell_their_values(browser, plane):
    model, path = plane
    browser.open(path)
    browser.run("document.querySelector('.dot').focus()")
    tip = browser.run("document.getElementById('tip').textContent")
    assert tip == f"iteration 1: objective {model.history_[0].best_objective:.9g}"
    assert not browser.run("document.getElementById('tip').hidden")


def test_light_and_dark(browser, plane):
    _, path = plane
    shades = []
    for dark in (False, True):
        browser.open(path, dark=dark)
        colour = browser.run("getComputedStyle(document.body).backgroundColor")
        shades.append(sum(int(part) for part in colour.strip("rgb()").split(",")))
    assert shades[0] > 600
    assert shades[1] < 150
