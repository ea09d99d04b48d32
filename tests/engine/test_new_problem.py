"""The example of the guide: a problem from outside, with four regions, on the same engine."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from aidlearn import Status
from aidlearn.engine import Limits, aid

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
