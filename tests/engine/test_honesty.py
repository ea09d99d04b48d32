"""Data that tempt a solver to prove too much: offsets, constants, collinearity, extreme weights, interrupts."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from aidlearn import LADRegressor, LinearSVC, QuantileRegressor, Status
from aidlearn.data import ArraySource
from aidlearn.data.passes.run import Run
from aidlearn.data.passes.sharing import run_together


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 4))
    return X, X @ [1.0, 2.0, 3.0, 4.0] + rng.laplace(size=5000)


@pytest.fixture(scope="module")
def optimum(data):
    return LADRegressor(tol=1e-10).fit(*data).objective_


@pytest.mark.parametrize("constant", [1.0, 1.5, 0.1, 7.7, 100.0, 1e6, -3.3])
@pytest.mark.parametrize("init", ["band", "kmeans"])
def test_constant_columns_change_nothing(data, optimum, constant, init):
    X, y = data
    model = LADRegressor(tol=1e-7, init=init).fit(np.column_stack([X, np.full(len(y), constant)]), y)
    assert model.objective_ == pytest.approx(optimum, rel=1e-7)
    assert model.lower_bound_ <= optimum * (1 + 1e-10)
    assert model.coef_[-1] == 0
    assert np.abs(y - X @ model.coef_[:4] - model.intercept_).sum() == pytest.approx(optimum, rel=1e-7)


def test_only_a_constant_column(data):
    y = data[1]
    model = LADRegressor(tol=1e-7).fit(np.ones((len(y), 1)), y)
    assert model.objective_ == pytest.approx(np.abs(y - np.median(y)).sum(), rel=1e-7)


def test_a_column_that_varies_in_its_last_digits_is_refused(data):
    X, y = data
    column = np.full(len(y), 1.5)
    column[3] = np.nextafter(1.5, 2)
    for model in (LADRegressor(), LinearSVC()):
        with pytest.raises(ValueError, match="Column 4 of X varies only in its last digits"):
            model.fit(np.column_stack([X, column]), np.arange(len(y)) % 2)


@pytest.mark.parametrize("offset", [1e6, 1e9, 1e12])
@pytest.mark.parametrize("init", ["band", "kmeans"])
def test_large_targets_keep_their_digits(data, optimum, offset, init):
    X, y = data
    model = LADRegressor(tol=1e-6, init=init).fit(X, y + offset)
    assert model.gap_ <= 1e-6
    # Adding the offset has rounded the data themselves.
    assert model.objective_ == pytest.approx(optimum, rel=1e-6 + 1e-15 * offset)


@pytest.mark.parametrize("exponent", range(-14, -4))
def test_near_collinearity_never_proves_too_much(exponent):
    rng = np.random.default_rng(-exponent)
    x, z = rng.normal(size=(2, 600))
    d = 10.0**exponent
    X = np.column_stack([x, x + d * z])
    y = (X[:, 1] - X[:, 0]) / d
    model = LADRegressor(tol=1e-6).fit(X, y)
    # These coefficients reproduce y up to rounding, so no bound may exceed what they leave.
    reached = np.abs(y - X @ np.array([-1 / d, 1 / d])).sum()
    assert model.lower_bound_ <= reached or exponent <= -14
    assert model.status_ is not Status.optimal or model.gap_ <= 1e-6


@pytest.mark.parametrize("exponent", [2, 4, 6])
@pytest.mark.parametrize("C", [1.0, 100.0])
def test_weights_over_many_orders_of_magnitude(exponent, C):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 2))
    y = X[:, 0] + rng.normal(size=2000) > 0
    weight = 10.0 ** rng.uniform(-exponent, exponent, 2000)
    model = LinearSVC(C=C).fit(X, y, sample_weight=weight)
    assert model.gap_ <= 1e-4


@pytest.mark.parametrize("quantile", [0.5, 0.05])
def test_rows_of_zeros_without_intercept(quantile):
    rng = np.random.default_rng(2)
    X = (rng.random((5000, 3)) < 0.05).astype(float)
    y = np.round(X.sum(axis=1) + rng.normal(size=5000))
    model = QuantileRegressor(quantile=quantile, fit_intercept=False, tol=1e-6).fit(X, y)
    assert model.gap_ <= 1e-6


def test_a_bound_above_the_objective_is_discarded(data, monkeypatch, caplog):
    """Were a solver wrong, the fit would say so instead of reporting a gap of zero."""
    from aidlearn.engine.problem import Solution
    from aidlearn.linear.aggregated import solvers as aggregated

    honest = aggregated.SOLVERS["auto"]

    def boastful(*arguments):
        found = honest(*arguments)
        return Solution(found.point, found.lower_bound * 2, True, found.dual)

    monkeypatch.setitem(aggregated.SOLVERS, "auto", boastful)
    model = LADRegressor(max_iter=2).fit(*data)
    assert model.lower_bound_ == 0
    assert model.gap_ == 1
    assert not model.status_.reached_tolerance
    assert "discarded" in caplog.text


@pytest.mark.parametrize(
    ("weight", "message"), [(1e200, "sample_weight sums to 5e"), (1e-200, "sample_weight sums to 5e")]
)
def test_weights_out_of_range(data, weight, message):
    with pytest.raises(ValueError, match=message):
        LADRegressor().fit(*data, sample_weight=np.full(5000, weight))


def test_interrupt_inside_the_first_solve_of_a_classifier(data, monkeypatch):
    from aidlearn.linear.aggregated import solvers as aggregated

    def interrupted(*arguments):
        raise KeyboardInterrupt

    X, y = data
    label = (y > 0).astype(int)
    monkeypatch.setitem(aggregated.SOLVERS, "auto", interrupted)
    model = LinearSVC().fit(X, label)
    assert model.status_ is Status.interrupted
    assert model.score(X, label) > 0.7
    assert len(model.support_) == 0
    assert model.lower_bound_ == 0


def test_an_error_inside_a_shared_pass_ends_all_fits():
    source = ArraySource(np.ones((100, 2)), np.zeros(100), np.ones(100))

    def fit(shared):
        def broken(chunk, state):
            raise OSError("disk gone")

        shared.map(broken)

    with pytest.raises(OSError, match="disk gone"):
        run_together(Run(source), [fit, fit, fit])


@pytest.mark.parametrize("delay", [0.05, 0.2, 0.5])
def test_a_real_interrupt_never_hangs_a_multi_class_fit(delay):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 20))
    y = np.digitize(X[:, 0] + rng.normal(size=60_000), [-0.5, 0.5])

    def interrupt():
        time.sleep(delay)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        model = LinearSVC(init="kmeans", tol=1e-9).fit(X, y)
        assert model.coef_.shape == (3, 20)
    except KeyboardInterrupt:
        pass  # before every class had a solution
    finally:
        try:
            thread.join()
        except KeyboardInterrupt:
            thread.join()


@pytest.mark.parametrize("n", [2000, 5000])
def test_a_target_that_is_a_column_is_fitted_exactly(n):
    """What is left of coefficients that should be zero is rounding, also next to targets close to zero."""
    X = np.random.default_rng(0).normal(size=(n, 2))
    model = LADRegressor().fit(X, X[:, 0])
    assert (model.objective_, model.gap_) == (0.0, 0.0)
    assert model.status_.reached_tolerance
