"""Residuals with a gap at their quantile have no density there: every method says so, and none of good data."""

import numpy as np
import pytest

from aidlearn import QuantileRegressor

METHODS = ["iid", "nid", "kernel", "cluster"]


def away(tail):
    """Errors at least 1 away from zero, a share tau of them below it."""

    def errors(rng, n, tau):
        return np.where(rng.random(n) < tau, -1.0, 1.0) * (1 + tail(rng, n))

    return errors


GAPS = {
    "lumps": away(lambda rng, n: 0.02 * rng.normal(size=n)),
    "uniform": away(lambda rng, n: rng.random(n)),
    "exponential": away(lambda rng, n: rng.exponential(size=n)),
    "two values": away(lambda rng, n: np.zeros(n)),
    "four values": away(lambda rng, n: rng.integers(0, 2, n)),
}
GOOD = {
    "normal": lambda rng, n: rng.normal(size=n),
    "t2": lambda rng, n: rng.standard_t(2, n),
    "Cauchy": lambda rng, n: rng.standard_cauchy(n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "lognormal": lambda rng, n: rng.lognormal(0, 1.5, n),
    "uniform": lambda rng, n: rng.random(n),
    "chi2": lambda rng, n: rng.chisquare(1, n),
    "two modes": lambda rng, n: np.where(rng.random(n) < 0.5, -2, 2) + rng.normal(size=n),
    "arcsine": lambda rng, n: rng.beta(0.5, 0.5, n),
    "rounded": lambda rng, n: np.round(rng.normal(size=n), 1),
}


def fitted(errors, n, tau, seed):
    rng = np.random.default_rng([seed, n])
    X = rng.normal(size=(n, 2))
    y = X @ [1.0, 2.0] + errors(rng) * (1 + np.abs(X[:, 0]) * (seed % 2))
    return X, y, QuantileRegressor(quantile=tau, tol=1e-9, n_jobs=1).fit(X, y)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", GAPS)
def test_a_gap_is_refused(kind, seed):
    """The fit tilts in the gap, so that its own residuals hide it in part."""
    tau = [0.5, 0.3, 0.8][seed % 3]
    X, y, model = fitted(lambda rng: GAPS[kind](rng, 1500, tau), 1500, tau, 2 * seed)
    for se in METHODS:
        with pytest.raises(ValueError, match=r"they leave a gap at their 0\.[358] quantile"):
            model.summary(X, y, se=se, clusters=np.arange(1500) // 10 if se == "cluster" else None)


@pytest.mark.parametrize("kind", GOOD)
def test_a_density_is_not_refused(kind):
    """Ten samples of each of ten distributions, tails and modes included."""
    for seed in range(10):
        n, tau = [200, 1000, 3000][seed % 3], [0.5, 0.1, 0.9, 0.75][seed % 4]
        X, y, model = fitted(lambda rng, n=n: GOOD[kind](rng, n), n, tau, seed)
        for se in METHODS:
            found = model.summary(X, y, se=se, clusters=np.arange(n) // 4 if se == "cluster" else None)
            assert np.isfinite(found.standard_errors).all()
