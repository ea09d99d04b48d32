"""The words of a certificate claim what was proven and not more."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aidlearn import Status
from aidlearn.estimators.fits import Fit, certificate, percent, precise
from aidlearn.report.charts import Axis, written


def fit(objective=100.0, lower_bound=99.999, status=Status.gap, coef=(1.0,)):
    gap = (objective - lower_bound) / objective if objective else 0.0
    slopes = None if coef is None else np.array(coef)
    return Fit("", objective, lower_bound, gap, status, 5, 0.1, [], slopes, 0.0, None, None, [])


def test_within_the_tolerance():
    first, second = certificate(fit())
    assert first == (
        "No coefficients can have an objective below 99.999; the ones returned have 100, so they are within 0.0011 % "
        "of the best possible."
    )
    assert second == Status.gap.sentence


def test_a_machine_is_one():
    first, _ = certificate(fit(coef=None))
    assert "No machine can have" in first
    assert "the one returned has 100, so it is within" in first


def test_optimal():
    first, second = certificate(fit(lower_bound=100.0, status=Status.optimal))
    assert first.endswith("the ones returned have 100: they are optimal.")
    assert second == Status.optimal.sentence
    rounded, _ = certificate(fit(lower_bound=100.0 * (1 - 1e-12), status=Status.optimal))
    assert "optimal (up to rounding, 1.1e-10 %)" in rounded


def test_a_local_optimum_is_not_called_the_best():
    (only,) = certificate(fit(lower_bound=40.0, status=Status.one_region))
    assert "local optimum" in only
    assert "not proven to be the global one" in only
    assert "below 40, which is 60 % lower" in only
    assert "best possible" not in only


@pytest.mark.parametrize(
    "status", [Status.iteration_limit, Status.time_limit, Status.interrupted, Status.numerical, Status.certified]
)
def test_every_other_status_has_its_sentence(status):
    first, second = certificate(fit(lower_bound=50.0, status=status))
    assert first.endswith("the best possible may be up to 50 % lower.")
    assert second == status.sentence
    close, _ = certificate(fit(lower_bound=99.99, status=status))
    assert "within 0.011 % of the best possible" in close


def test_an_objective_of_zero():
    (only,) = certificate(fit(0.0, 0.0, Status.optimal))
    assert (
        only
        == "The coefficients returned have the objective 0, and no objective is below 0: no coefficients can be better."
    )


def test_no_bound():
    first, second = certificate(replace(fit(), lower_bound=-math.inf, gap=math.inf, status=Status.interrupted))
    assert first == "The coefficients returned have the objective 100; no lower bound was proven."
    assert second == Status.interrupted.sentence


def test_percentages():
    assert percent(0.0) == "0 %"
    assert percent(0.003) == "0.30 %"
    assert percent(0.0000121) == "0.0013 %"
    assert percent(0.676) == "68 %"
    assert percent(1.0) == "100 %"
    assert percent(3.1e-13) == "3.1e-11 %"
    assert percent(math.inf) == percent(math.nan) == "an unknown part"


@given(st.floats(1e-18, 1.0))
def test_a_percentage_is_never_below_what_was_proven(part):
    shown = float(percent(part).removesuffix(" %")) / 100
    assert part * (1 - 1e-8) <= shown <= part * 1.101


@given(st.floats(1e-300, 1e300), st.floats(0, 1))
def test_numbers_are_rounded_to_the_safe_side(objective, part):
    bound = objective * part
    above, below = (float(text.replace(",", "")) for text in precise(objective, bound))
    if objective == bound:
        assert above == below == pytest.approx(objective, rel=1e-8)
        return
    # The float nearest to a decimal may lie on its other side by a rounding error.
    assert above >= objective * (1 - 1e-15)
    assert below <= bound * (1 + 1e-15)
    # What is shown does not exaggerate the difference.
    assert above - below <= 1.3 * (objective - bound) + 1e-5 * objective


def test_numbers_that_people_read():
    assert precise(99959.6325, 99959.6224) == ("99,959.6325", "99,959.6224")
    assert precise(5.2e20, 5.1e20) == ("5.20000e20", "5.10000e20")


@given(st.floats(-1e6, 1e6), st.floats(1e-4, 1e6))
def test_ticks_lie_in_the_axis_and_are_told_apart(low, extent):
    axis = Axis.over([low, low + extent], 0, 100)
    ticks = axis.ticks()
    assert len(ticks) >= 2
    assert all(axis.low - 1e-9 * extent <= tick <= axis.high + 1e-9 * extent for tick in ticks)
    texts = written(ticks)
    assert len(set(texts)) == len(texts)
    assert [float(text.replace(",", "")) for text in texts] == pytest.approx(ticks, rel=1e-6, abs=1e-3 * extent)


@given(st.floats(-15, 10), st.floats(0, 20))
def test_logarithmic_ticks(power, decades):
    axis = Axis.over([10.0**power, 10.0 ** (power + decades)], 0, 100, log=True)
    ticks = axis.ticks()
    assert len(ticks) >= 2
    assert all(-1e-6 <= axis(tick) <= 100 + 1e-6 for tick in ticks)
