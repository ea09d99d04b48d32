"""The options of ``aidlearn fit`` are parameters of the estimators, with the same defaults."""

from __future__ import annotations

from inspect import signature

import pytest

from aidlearn.cli.errors import CliError
from aidlearn.cli.options import ASKED, OF_ALL_MODELS, described, options_of, parameters_from
from aidlearn.estimators.registry import MODELS

OF_THE_COMMAND_LINE = {"n_jobs": -1}
"""Defaults that differ on purpose: a command has the machine to itself."""

each_model = pytest.mark.parametrize("model", MODELS.values(), ids=list(MODELS))


def defaults(model):
    """What a command is given when nothing is said."""
    own = {name: described(name, known) for name, known in options_of(model).items()}
    return {name: default for name, (_, default) in (own | OF_ALL_MODELS).items()}


@each_model
def test_defaults_are_those_of_the_estimator(model):
    usual = {name: parameter.default for name, parameter in signature(model.estimator).parameters.items()}
    found = parameters_from(model, defaults(model))
    assert set(found) <= set(usual)
    assert found == {name: OF_THE_COMMAND_LINE.get(name, usual[name]) for name in found}


@each_model
def test_every_option_is_described_and_named_once(model):
    names = options_of(model).keys()
    assert not names & OF_ALL_MODELS.keys()
    assert "checkpoint" in names


def test_no_description_is_left_over():
    offered = {name for model in MODELS.values() for name in options_of(model)}
    assert offered >= set(ASKED)


@pytest.mark.parametrize(
    ("name", "option", "value", "expected"),
    [
        ("QuantileRegressor", "quantile", "0.9", {"quantile": 0.9}),
        ("QuantileRegressor", "quantile", "0.1,0.9", {"quantile": [0.1, 0.9]}),
        ("LADRegressor", "fit_intercept", True, {"fit_intercept": False}),
        ("SVC", "approximation", 50, {"approximation": "nystroem", "n_components": 50}),
        ("SVC", "gamma", "0.25", {"gamma": 0.25}),
        ("SVC", "gamma", "auto", {"gamma": "auto"}),
    ],
)
def test_values_that_are_more_than_themselves(name, option, value, expected):
    model = MODELS[name]
    found = parameters_from(model, defaults(model) | {option: value})
    assert {key: found[key] for key in expected} == expected


def test_a_matrix_of_kernel_values_is_for_python():
    model = MODELS["SVC"]
    with pytest.raises(CliError, match="fit it from Python"):
        parameters_from(model, defaults(model) | {"kernel": "precomputed"})
