"""The loops of cg.py, compiled by numba: load with ``compiled.load``, which keeps the machine code for later.

As in kernels.py: without the GIL, signatures given, each sum in the order of rows within a chunk.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import njit, types

from workloads.ppr.kernels import AHEAD, prefetch

_u4, _i8, _f4, _f8 = types.uint32, types.int64, types.float32, types.float64
_ZEROS = {width: (0.0,) * width for width in (1, 2, 4, 8)}


def _read(dtype: Any, dimensions: int = 1) -> Any:
    return types.Array(dtype, dimensions, "C", readonly=True)


def _write(dtype: Any, dimensions: int = 1) -> Any:
    return types.Array(dtype, dimensions, "C")


@njit(inline="always")
def inverse_degree(degrees, row):  # type: ignore[no-untyped-def]
    """1 / degree as float64, of `degrees` uint32 (n,) at `row`; 1 where there is no edge."""
    return 1.0 / np.float64(max(degrees[row], np.uint32(1)))


@functools.cache
def multiply(width: int) -> Any:
    """w = (D - damping A) p for rows of chunks [first, last), and p.w by chunk into `sums` (chunks, width).

    `indptr` int64 (n + 1,), `columns` uint32, `degrees` uint32 (n,), `cuts` int64 (chunks + 1,); w float64 (n, width).
    `p` float32 (n, width) is read at random: half the bytes of what is summed, which is float64.
    """
    zeros = _ZEROS[width]

    @njit(
        [
            types.void(
                *(_read(_i8), _read(_u4), _read(_u4), _read(_i8), _i8, _i8),
                *(_f8, _read(_f4, 2), _write(_f8, 2), _write(_f8, 2)),
            )
        ],
        nogil=True,
        cache=True,
    )
    def rows(indptr, columns, degrees, cuts, first, last, damping, p, w, sums):  # type: ignore[no-untyped-def]
        for chunk in range(first, last):
            for c in range(width):
                sums[chunk, c] = 0.0
            for row in range(cuts[chunk], cuts[chunk + 1]):
                total = zeros
                for edge in range(indptr[row], indptr[row + 1]):
                    prefetch(p, np.int64(columns[min(edge + AHEAD, len(columns) - 1)]))
                    v = columns[edge]
                    if width == 1:
                        total = (total[0] + p[v, 0],)
                    elif width == 2:
                        total = (total[0] + p[v, 0], total[1] + p[v, 1])
                    elif width == 4:
                        total = (total[0] + p[v, 0], total[1] + p[v, 1], total[2] + p[v, 2], total[3] + p[v, 3])
                    else:
                        low = (total[0] + p[v, 0], total[1] + p[v, 1], total[2] + p[v, 2], total[3] + p[v, 3])
                        high = (total[4] + p[v, 4], total[5] + p[v, 5], total[6] + p[v, 6], total[7] + p[v, 7])
                        total = low + high
                degree = np.float64(degrees[row])
                for c in range(width):
                    product = degree * p[row, c] - damping * total[c]
                    w[row, c] = product
                    sums[chunk, c] += p[row, c] * product

    return rows


@functools.cache
def advance(width: int) -> Any:
    """z += far p and r -= far w for rows of chunks [first, last); r.u and the L1 norm of r by chunk into `sums`.

    `far` (width,); `p` float32, `w`, `z`, `r` float64, all (n, width); `sums` (chunks, 2, width).
    """

    @njit(
        [
            types.void(
                *(_read(_u4), _read(_i8), _i8, _i8, _read(_f8), _read(_f4, 2), _read(_f8, 2)),
                *(_write(_f8, 2), _write(_f8, 2), _write(_f8, 3)),
            )
        ],
        nogil=True,
        cache=True,
    )
    def rows(degrees, cuts, first, last, far, p, w, z, r, sums):  # type: ignore[no-untyped-def]
        for chunk in range(first, last):
            for c in range(width):
                sums[chunk, 0, c] = 0.0
                sums[chunk, 1, c] = 0.0
            for row in range(cuts[chunk], cuts[chunk + 1]):
                inverse = inverse_degree(degrees, row)
                for c in range(width):
                    z[row, c] += far[c] * p[row, c]
                    left = r[row, c] - far[c] * w[row, c]
                    r[row, c] = left
                    sums[chunk, 0, c] += left * left * inverse
                    sums[chunk, 1, c] += abs(left)

    return rows


@functools.cache
def turn(width: int) -> Any:
    """p = u + keep p for rows of chunks [first, last): `keep` (width,), u = r / degree, `r` and `p` (n, width)."""

    @njit(
        [types.void(_read(_u4), _read(_i8), _i8, _i8, _read(_f8), _read(_f8, 2), _write(_f4, 2))],
        nogil=True,
        cache=True,
    )
    def rows(degrees, cuts, first, last, keep, r, p):  # type: ignore[no-untyped-def]
        for row in range(cuts[first], cuts[last]):
            inverse = inverse_degree(degrees, row)
            for c in range(width):
                p[row, c] = r[row, c] * inverse + keep[c] * p[row, c]

    return rows
