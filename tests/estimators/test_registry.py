"""Every model is declared once, and what is declared is true of its estimator."""

from __future__ import annotations

import subprocess
import sys
from inspect import signature

import numpy as np
import pytest

import aidlearn
from aidlearn import SVC, LADRegressor, LinearSVC, QuantileRegressor, SemiSupervisedSVC
from aidlearn.estimators.base import AIDEstimator
from aidlearn.estimators.fits import fits_of
from aidlearn.estimators.parameters import declared
from aidlearn.estimators.paths.path import CrossValidated
from aidlearn.estimators.registry import MODELS, model_of

FOUR = ["ant", "bee", "cat", "dog"]


def four_classes(n=160):
    """Rows of four classes, each a cloud of its own."""
    rng = np.random.default_rng(2)
    y = rng.integers(0, 4, n)
    centres = 3.0 * np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])
    return centres[y] + rng.normal(size=(n, 2)), np.array(FOUR)[y]


def test_it_needs_nothing_heavy():
    code = "import sys, aidlearn.estimators.registry; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_every_public_estimator_is_declared():
    public = {name for name in aidlearn.__all__ if isinstance(getattr(aidlearn, name), type)}
    estimators = {name for name in public if issubclass(getattr(aidlearn, name), AIDEstimator)}
    chosen = {name for name in estimators if issubclass(getattr(aidlearn, name), CrossValidated)}
    assert chosen == {"LinearSVCCV", "QuantileRegressorCV"}  # they choose a declared model, which is what is saved
    assert estimators - chosen == set(MODELS)
    assert len({model.command for model in MODELS.values()}) == len(MODELS)


@pytest.mark.parametrize("model", MODELS.values(), ids=list(MODELS))
def test_a_declaration_is_true_of_its_estimator(model, tmp_path):
    assert model.estimator is getattr(aidlearn, model.name)
    assert model_of(model.estimator()) is model
    given = signature(model.estimator).parameters
    assert list(given) == [name for name, _ in declared(model.parameters)]
    for name, known in declared(model.parameters):
        assert given[name].default is known.default
        if known.choices and known.default is not None:
            assert known.default == known.choices[0]
    X, y = four_classes(60)
    target = np.arange(60.0) if not model.classifies else y
    estimator = model.estimator(checkpoint=tmp_path / "run.ckpt")
    estimator.fit(X, target)
    assert list(tmp_path.iterdir())


def test_classes_that_derive_from_a_model_are_that_model():
    class Mine(LADRegressor):
        pass

    class LinearSVC:
        """Of another package."""

    assert model_of(Mine()) is MODELS["LADRegressor"]
    assert model_of(LinearSVC()) is None
    assert model_of(3) is None


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_one_against_one_has_a_fit_per_pair_whatever_the_kernel(kernel):
    X, y = four_classes()
    model = SVC(kernel=kernel, gamma=0.5, solver="libsvm").fit(X, y)
    fits = fits_of(model)
    assert [fit.name for fit in fits] == [
        "ant against bee",
        "ant against cat",
        "ant against dog",
        "bee against cat",
        "bee against dog",
        "cat against dog",
    ]
    assert [fit.objective for fit in fits] == model.objective_.tolist()
    # The machine of a pair is that of these two classes alone, the first of them positive.
    for fit, (first, second) in zip(fits, [one.name.split(" against ") for one in fits], strict=True):
        here = np.isin(y, [first, second])
        alone = SVC(kernel=kernel, gamma=0.5, solver="libsvm").fit(X[here], y[here])
        assert fit.objective == pytest.approx(alone.objective_, rel=1e-3)
        if fit.coef is not None:
            assert fit.coef @ alone.coef_[0] < 0


@pytest.mark.parametrize("estimator", [LinearSVC(), SemiSupervisedSVC()], ids=lambda one: type(one).__name__)
def test_one_against_the_rest_has_a_fit_per_class(estimator):
    fits = fits_of(estimator.fit(*four_classes()))
    assert [fit.name for fit in fits] == [f"{label} against the rest" for label in FOUR]


def test_a_single_fit_has_no_name():
    X, y = four_classes()
    two = np.isin(y, FOUR[:2])
    for model in (LinearSVC(), SVC(solver="libsvm"), SemiSupervisedSVC()):
        assert [fit.name for fit in fits_of(model.fit(X[two], y[two]))] == [""]
    assert [fit.name for fit in fits_of(QuantileRegressor().fit(X, X[:, 0]))] == [""]
    assert [fit.name for fit in fits_of(QuantileRegressor(quantile=[0.2]).fit(X, X[:, 0]))] == ["quantile 0.2"]


def test_no_fit_is_lost_when_parameters_are_changed_afterwards():
    X, _ = four_classes()
    model = QuantileRegressor(quantile=[0.2, 0.5, 0.9]).fit(X, X[:, 0])
    model.quantile = 0.5
    assert [fit.name for fit in fits_of(model)] == ["fit 1", "fit 2", "fit 3"]
