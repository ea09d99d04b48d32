"""The kernel matrix of a small machine: pairs of rows are evaluated once."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import pairwise_kernels

from aidlearn.kernel.functions import Kernel
from aidlearn.kernel.rows import KernelRows, TubeRows


@pytest.mark.parametrize("name", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("n", [1, 127, 128, 300])
def test_square_is_the_kernel_matrix(name, n):
    X = np.random.default_rng(n).normal(size=(n, 3))
    rows = KernelRows(Kernel(name, gamma=0.4, degree=2, coef0=1.0), X)
    order = np.random.default_rng(0).permutation(n)
    out = np.full((n, n + 5), np.nan)  # with room for more
    rows.square(order, out)
    settings = {"rbf": {"gamma": 0.4}, "poly": {"gamma": 0.4, "degree": 2, "coef0": 1.0}, "linear": {}}[name]
    np.testing.assert_allclose(out[:, :n], pairwise_kernels(X[order], metric=name, **settings), rtol=1e-12, atol=1e-12)
    square = out[:, :n]
    np.testing.assert_array_equal(square[:128, 128:], square[128:, :128].T)
    assert np.isnan(out[:, n:]).all()


def test_both_sides_of_a_row():
    X = np.random.default_rng(0).normal(size=(70, 2))
    base = KernelRows(Kernel("rbf", gamma=0.5), X)
    out = np.empty((140, 140))
    TubeRows(base).square(np.arange(140), out)
    np.testing.assert_allclose(out, np.tile(base.block(np.arange(70), np.arange(70)), (2, 2)), rtol=1e-12)
