"""Compiled operations on blocks of rows, for dense and for CSR storage.

Rows are a tuple, ``(X,)`` for a dense C-ordered block or ``(data, indices, indptr)`` for CSR rows (``indptr`` may be
a slice of a larger matrix's, so that chunks are never copied); see :func:`rows_of`. Only the six primitives below
depend on the storage; passes are written in terms of them. A pass takes its rows in blocks of ``BLOCK``: it computes
their products with a hyperplane, uses them, and sums over the rows of the block while these are in cache. Sums are in
float64, in an order that follows from the shapes alone: neither threads nor memory alignment change a bit.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numba import njit
from numba.core import event
from numba.extending import overload

logger = logging.getLogger("aidlearn")

BLOCK = 64
"""Rows per block. For 3 to 1000 columns, sizes from 32 to 128 change the time of no pass by more than a tenth."""
WIDE = 24
"""Minimum number of columns at which uncached rows are read one at a time: several at once confuse prefetching."""
SUMS = {"reassoc", "contract", "nsz"}
"""Fast-math flags: the compiler may reorder sums, but NaN and infinity keep their meaning."""


class _Compilation(event.Listener):
    """Listener that logs once why the first fit on a machine takes longer."""

    def __init__(self) -> None:
        self.told = False

    def on_start(self, event: Any) -> None:
        if not self.told:
            self.told = True
            logger.info("compiling for this machine, once; later fits and processes find it in numba's cache")

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Compilation())


def compiled(function: Any) -> Any:
    """Compile a function that releases the interpreter lock, and cache it on disk if a directory is writable.

    Numba tries the directory of this file, then the user's cache; without either it refuses to cache.
    """
    try:
        return njit(nogil=True, cache=True, fastmath=SUMS, error_model="numpy")(function)
    except RuntimeError:
        return njit(nogil=True, fastmath=SUMS, error_model="numpy")(function)


# The primitives of a storage. Indices are unsigned: checking signed ones for negative values takes half the time of a
# product with a CSR row.


def count(rows: Any) -> Any:
    """Return the number of rows."""
    raise TypeError("only compiled code can call this")


def products(rows: Any, first: Any, last: Any, planes: Any, q: Any, out: Any, at: Any) -> Any:
    """Compute ``out[at + k] = x'planes[q]`` (with the intercept) for each row ``x = x_{first + k}``."""
    raise TypeError("only compiled code can call this")


def products_of_four(rows: Any, first: Any, last: Any, planes: Any, q: Any, out: Any) -> Any:
    """Compute the products with planes ``q .. q + 3``; those with plane ``p`` start at ``out[p * BLOCK]``."""
    raise TypeError("only compiled code can call this")


def add(rows: Any, first: Any, last: Any, factor: Any, at: Any, out: Any) -> Any:
    """Compute ``out += sum_k factor[at + k] x_{first + k}``."""
    raise TypeError("only compiled code can call this")


def add_one(rows: Any, i: Any, factor: Any, out: Any, group: Any) -> Any:
    """Compute ``out[group] += factor x_i``."""
    raise TypeError("only compiled code can call this")


def add_squares(rows: Any, first: Any, last: Any, weight: Any, plain: Any, sums: Any, squares: Any, raw: Any) -> Any:
    """Add ``w x``, ``w x^2`` and ``x^2`` of each row; with ``plain`` all weights are 1 and ``raw`` is unchanged."""
    raise TypeError("only compiled code can call this")


def _dense_count(rows):
    return rows[0].shape[0]


def _csr_count(rows):
    return rows[2].shape[0] - 1


def _dense_products(rows, first, last, planes, q, out, at):
    X = rows[0]
    m = X.shape[1]
    for i in range(first, last):
        total = 0.0
        for j in range(m):
            total += X[i, j] * planes[q, j]
        out[at + i - first] = total + planes[q, m]


def _csr_products(rows, first, last, planes, q, out, at):
    data, indices, indptr = rows
    constant = planes[q, planes.shape[1] - 1]
    for i in range(first, last):
        total = 0.0
        for k in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            total += data[k] * planes[q, np.uintp(indices[k])]
        out[at + i - first] = total + constant


def _dense_products_of_four(rows, first, last, planes, q, out):
    X = rows[0]
    m = X.shape[1]
    for i in range(first, last):
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        for j in range(m):
            x = X[i, j]
            a += x * planes[q, j]
            b += x * planes[q + 1, j]
            c += x * planes[q + 2, j]
            d += x * planes[q + 3, j]
        k = q * BLOCK + i - first
        out[k] = a + planes[q, m]
        out[k + BLOCK] = b + planes[q + 1, m]
        out[k + 2 * BLOCK] = c + planes[q + 2, m]
        out[k + 3 * BLOCK] = d + planes[q + 3, m]


def _csr_products_of_four(rows, first, last, planes, q, out):
    data, indices, indptr = rows
    m = planes.shape[1] - 1
    for i in range(first, last):
        a, b, c, d = planes[q, m], planes[q + 1, m], planes[q + 2, m], planes[q + 3, m]
        for k in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            x, j = data[k], np.uintp(indices[k])
            a += x * planes[q, j]
            b += x * planes[q + 1, j]
            c += x * planes[q + 2, j]
            d += x * planes[q + 3, j]
        at = q * BLOCK + i - first
        out[at], out[at + BLOCK], out[at + 2 * BLOCK], out[at + 3 * BLOCK] = a, b, c, d


def _dense_add(rows, first, last, factor, at, out):
    X = rows[0]
    m = X.shape[1]
    whole = first + (last - first) // 4 * 4
    # Four rows at a time, so that sums are loaded and stored once per four rows.
    for i in range(first, whole, 4):
        k = at + i - first
        a, b, c, d = factor[k], factor[k + 1], factor[k + 2], factor[k + 3]
        for j in range(m):
            out[j] += a * X[i, j] + b * X[i + 1, j] + c * X[i + 2, j] + d * X[i + 3, j]
    for i in range(whole, last):
        a = factor[at + i - first]
        for j in range(m):
            out[j] += a * X[i, j]


def _csr_add(rows, first, last, factor, at, out):
    data, indices, indptr = rows
    for i in range(first, last):
        a = factor[at + i - first]
        for k in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            out[np.uintp(indices[k])] += a * data[k]


def _dense_add_one(rows, i, factor, out, group):
    X = rows[0]
    for j in range(X.shape[1]):
        out[group, j] += factor * X[i, j]


def _csr_add_one(rows, i, factor, out, group):
    data, indices, indptr = rows
    for k in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
        out[group, np.uintp(indices[k])] += factor * data[k]


def _dense_add_squares(rows, first, last, weight, plain, sums, squares, raw):
    X = rows[0]
    m = X.shape[1]
    if plain and m >= WIDE:
        for i in range(first, last):
            for j in range(m):
                a = np.float64(X[i, j])
                sums[j] += a
                squares[j] += a * a
    elif plain:
        whole = first + (last - first) // 4 * 4
        for i in range(first, whole, 4):
            for j in range(m):
                a, b = np.float64(X[i, j]), np.float64(X[i + 1, j])
                c, d = np.float64(X[i + 2, j]), np.float64(X[i + 3, j])
                sums[j] += (a + b) + (c + d)
                squares[j] += (a * a + b * b) + (c * c + d * d)
        for i in range(whole, last):
            for j in range(m):
                a = np.float64(X[i, j])
                sums[j] += a
                squares[j] += a * a
    else:
        for i in range(first, last):
            w = weight[i]
            for j in range(m):
                a = np.float64(X[i, j])
                sums[j] += w * a
                squares[j] += w * (a * a)
                raw[j] += a * a


def _csr_add_squares(rows, first, last, weight, plain, sums, squares, raw):
    data, indices, indptr = rows
    for i in range(first, last):
        w = weight[i]
        for k in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            j, a = np.uintp(indices[k]), np.float64(data[k])
            sums[j] += w * a
            squares[j] += w * (a * a)
            if not plain:
                raw[j] += a * a


_OPTIONS: Any = {"fastmath": SUMS, "error_model": "numpy"}
DENSE = 1
"""Number of arrays in the tuple of dense rows."""


@overload(count, jit_options=_OPTIONS)
def _count(rows):
    return _dense_count if len(rows.types) == DENSE else _csr_count


@overload(products, jit_options=_OPTIONS)
def _products(rows, first, last, planes, q, out, at):
    return _dense_products if len(rows.types) == DENSE else _csr_products


@overload(products_of_four, jit_options=_OPTIONS)
def _products_of_four(rows, first, last, planes, q, out):
    return _dense_products_of_four if len(rows.types) == DENSE else _csr_products_of_four


@overload(add, jit_options=_OPTIONS)
def _add(rows, first, last, factor, at, out):
    return _dense_add if len(rows.types) == DENSE else _csr_add


@overload(add_one, jit_options=_OPTIONS)
def _add_one(rows, i, factor, out, group):
    return _dense_add_one if len(rows.types) == DENSE else _csr_add_one


@overload(add_squares, jit_options=_OPTIONS)
def _add_squares(rows, first, last, weight, plain, sums, squares, raw):
    return _dense_add_squares if len(rows.types) == DENSE else _csr_add_squares


# Conversion of rows for compiled code


@compiled
def _copy(X, out):
    """Copy a Fortran-ordered array into a C-ordered one, in tiles of whole cache lines."""
    n, m = X.shape
    for first in range(0, n, BLOCK):
        last = min(n, first + BLOCK)
        for left in range(0, m, 8):
            right = min(m, left + 8)
            for i in range(first, last):
                for j in range(left, right):
                    out[i, j] = X[i, j]


class _Writable:
    """The memory of an array without its read-only flag.

    Compiled code never writes to rows, but numba would compile it again for read-only arrays.
    """

    def __init__(self, array: Any) -> None:
        self.array = array
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


def plain(array: Any) -> Any:
    """Return the same memory as a writable array, the only kind that functions are compiled for."""
    return array if array.flags.writeable else np.asarray(_Writable(array))


def vector(array: Any) -> Any:
    """Return targets, weights or the like as a contiguous array for compiled code."""
    return plain(np.ascontiguousarray(array))


def rows_of(X: Any) -> tuple[Any, ...]:
    """Return the rows of a chunk as the tuple that passes take; C-ordered arrays and CSR matrices are not copied."""
    if hasattr(X, "indptr"):
        return vector(X.data), vector(X.indices), vector(X.indptr)
    if X.flags.c_contiguous:
        return (plain(X),)
    copy = np.empty(X.shape, dtype=X.dtype)
    if X.strides[0] == X.itemsize:  # columns are contiguous
        _copy(plain(X), copy)
    else:
        copy[:] = X
    return (copy,)
