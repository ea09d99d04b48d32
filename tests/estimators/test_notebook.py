"""What a notebook shows of an estimator: the certificate in words, above scikit-learn's diagram."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from aidlearn import LADRegressor, LinearSVC, QuantileRegressor
from aidlearn.estimators.fits import certificate, fits_of
from small_models import NAMES, fitted


@pytest.mark.parametrize("name", NAMES)
def test_every_fitted_estimator_shows_its_certificate(name):
    model, _ = fitted(name)
    fits = fits_of(model)
    shown = model._repr_mimebundle_()
    words = certificate(fits[0])[0] if len(fits) == 1 else f"The largest gap of {len(fits)} fits is "
    assert words in shown["text/html"]
    assert shown["text/html"].split("<style")[0] == model._repr_html_().split("<style")[0]
    assert shown["text/plain"] == repr(model)


def test_an_estimator_that_is_not_fitted_shows_its_parameters_alone():
    html = LADRegressor()._repr_html_()
    assert "objective" not in html.split("<style", 1)[0]
    assert "LADRegressor" in html


def test_each_of_several_fits_has_a_line_and_many_are_cut():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), rng.normal(size=200)
    html = QuantileRegressor(quantile=np.arange(1, 9) / 10 + 0.05).fit(X, y)._repr_html_()
    assert "quantile 0.15: gap" in html
    assert "quantile 0.75: gap" not in html.split("and 3 more")[0]
    assert "and 3 more" in html


def test_names_of_classes_are_escaped():
    X = np.random.default_rng(0).normal(size=(90, 2))
    y = np.array(["<b>a", "b", "c"])[np.arange(90) % 3]
    html = LinearSVC().fit(X, y)._repr_html_()
    assert "&lt;b&gt;a" in html
    assert "<b>a" not in html


def test_texts_and_pipelines_are_scikit_learn_s():
    X, y = np.arange(20.0).reshape(-1, 1), np.arange(20.0)
    model = LADRegressor().fit(X, y)
    with config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()
        assert not hasattr(model, "_repr_html_")
    assert "LADRegressor" in make_pipeline(StandardScaler(), LADRegressor()).fit(X, y)._repr_html_()
