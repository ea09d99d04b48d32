"""The example of the guide: a problem from outside, with four regions, on the same engine."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from aidlearn import Status
from aidlearn.engine import Limits, Trial, aid

EXAMPLE = Path(__file__).parents[2] / "examples" / "new_problem.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("new_problem", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", range(3))
def test_reaches_the_median_with_a_proof(example, seed):
    X = np.random.default_rng(seed).standard_t(2, size=(3001, 2))
    result = aid(example.ManhattanMedian(X), Limits(tol=0))
    assert result.status is Status.optimal
    assert result.point == pytest.approx(np.median(X, axis=0), abs=1e-12)
    optimum = np.abs(X - np.median(X, axis=0)).sum()
    assert all(record.lower_bound <= optimum * (1 + 1e-12) for record in result.history)
    assert result.aggregation_rate < 1


def test_splits_at_a_plain_trial(example):
    """A plain trial at another point than the solution is checked: its point may be the best, clusters split there."""
    X = np.random.default_rng(0).standard_t(2, size=(3001, 2))
    median = np.median(X, axis=0)

    class Towards(example.ManhattanMedian):
        def split_trial(self, solution, incumbent, clusters):
            return Trial([median])

    split, plain = (aid(kind(X), Limits(tol=0, max_iter=2)) for kind in (Towards, example.ManhattanMedian))
    assert split.objective == pytest.approx(np.abs(X - median).sum(), rel=1e-12)
    assert split.history[1].n_violated < plain.history[1].n_violated
