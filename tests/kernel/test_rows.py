"""Kernel products: compiled against plain, in both precisions."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import pairwise_kernels

from aidlearn.kernel.functions import Kernel
from aidlearn.kernel.rows import KernelRows, expansion_scores, kernel_rows

KERNELS = [Kernel("rbf", 0.1), Kernel("poly", 0.3, 2, 1.0), Kernel("poly", 0.3, 3, 0.0), Kernel("poly", 0.2, 5, 0.5)]
KERNELS += [Kernel("linear")]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: f"{k.name}{k.degree}")
@pytest.mark.parametrize("tol", [1e-4, 1e-8])
@pytest.mark.parametrize(("m", "offset"), [(1, 0.0), (7, 100.0), (300, 0.0)])
def test_compiled_products_are_those_of_the_kernel(kernel, tol, m, offset):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, m)) + (offset if kernel.name == "rbf" else 0.0)
    some, others = rng.permutation(700)[:300], rng.permutation(700)[:531]
    coef = rng.normal(size=(531, 2))
    plain, compiled = KernelRows(kernel, X), kernel_rows(kernel, X, 1, tol, compiled=True)
    expected = plain.block(some, others)
    size = plain.lengths[some, None] * plain.lengths[others]
    assert (np.abs(compiled.block(some, others) - expected) <= compiled.rounding()[some, None] * size + 1e-12).all()
    products = expected @ coef
    allowed = (size @ np.abs(coef)) * compiled.rounding()[some, None]
    assert (np.abs(compiled.times(some, others, coef) - products) <= allowed + 1e-12).all()
    exact = compiled.times(some, others, coef, exact=True)
    allowed = (size @ np.abs(coef)) * compiled.rounding(exact=True)[some, None]
    assert (np.abs(exact - products) <= 2 * allowed + 1e-12).all()
    assert (np.abs(plain.times(some, others, coef) - products) <= allowed + 1e-12).all()


def test_outliers_do_not_take_the_digits_of_other_rows():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 3))
    X[0] *= 1e8
    values = Kernel("rbf", 0.01).block(X, X)
    apart = X[:, None].astype(np.longdouble) - X[None]
    expected = np.exp(-np.longdouble(0.01) * (apart**2).sum(axis=2))
    assert np.abs(values - expected).max() < 1e-7


def test_scores_of_new_rows():
    rng = np.random.default_rng(1)
    X, Z = rng.normal(size=(40, 4)), rng.normal(size=(30, 4))
    coef = rng.normal(size=(30, 2))
    kernel = Kernel("rbf", 0.3)
    expected = pairwise_kernels(X, Z, metric="rbf", gamma=0.3) @ coef
    assert expansion_scores(kernel, X, Z, coef) == pytest.approx(expected)
    many = np.repeat(X, 60, axis=0)
    assert expansion_scores(kernel, many, Z, coef) == pytest.approx(np.repeat(expected, 60, axis=0))
