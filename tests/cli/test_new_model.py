"""A model that is declared in the registry has a command, a file, a report and checkpoints: nothing else is needed."""

import sys
from types import ModuleType

import numpy as np
import pytest
from cli_support import COLUMNS

from aidlearn import LADRegressor, load_model
from aidlearn.cli.commands import fit
from aidlearn.estimators.declared import FitParameters, PenaltyParameters
from aidlearn.estimators.parameters import parameters
from aidlearn.estimators.registry import MODELS, Model


@parameters
class MedianParameters(PenaltyParameters, FitParameters):
    """What its command offers."""


class MedianRegressor(LADRegressor):
    """Of a family of its own."""


@pytest.fixture
def declared(monkeypatch):
    home = ModuleType("family_of_its_own")
    home.MedianRegressor = MedianRegressor
    monkeypatch.setitem(sys.modules, "family_of_its_own", home)
    monkeypatch.setattr(MedianRegressor, "__module__", "family_of_its_own")
    model = Model("family_of_its_own:MedianRegressor", "median", "Medians.", MedianParameters)
    monkeypatch.setitem(MODELS, "MedianRegressor", model)
    monkeypatch.setattr(fit.app, "registered_commands", list(fit.app.registered_commands))
    fit.add_model(model)
    return model


def test_every_command_knows_it(ran, files, declared):
    assert "median" in ran("fit", "--help").out
    assert "--no-intercept" not in ran("fit", "median", "--help").out
    command = [
        "fit",
        "median",
        files / "table.csv",
        "-t",
        "y",
        "--columns",
        COLUMNS,
        "--alpha",
        "0.01",
        "--tol",
        "1e-6",
    ]
    stopped = ran(*command, "-o", "m.aid", "--checkpoint", "run.ckpt", "--time-limit", "1e-9")
    assert stopped.code in (0, 2), stopped
    assert "MedianRegressor of table.csv" in stopped.out
    assert ran("resume", "run.ckpt", "-o", "m.aid", "--time-limit", "600").code == 0
    model = load_model("m.aid")
    assert type(model) is MedianRegressor
    assert "MedianRegressor" in ran("inspect", "m.aid").out
    assert ran("report", "m.aid", "-o", "page.html").code == 0
    assert ran("predict", "m.aid", files / "table.csv", "-o", "p.npy").code == 0
    assert np.load("p.npy").shape == (400,)
    assert ran("fit", "median", files / "table.csv", "-t", "y", "--alpha", "-1", "-o", "n.aid").code == 1
