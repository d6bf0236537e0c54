"""The step of the walk where edges have weights, compiled by numba: load with ``compiled.load``."""

from __future__ import annotations

from numba import njit, types

_u4, _i8, _f8 = types.uint32, types.int64, types.float64
_read = {dtype: types.Array(dtype, 1, "C", readonly=True) for dtype in (_u4, _i8, _f8)}
_wide = types.Array(_f8, 2, "C", readonly=True)
_out = types.Array(_f8, 2, "C")
_sums = types.Array(_f8, 3, "C")


@njit(
    [
        types.void(
            *(_read[_i8], _read[_u4], _read[_f8], _read[_f8], _read[_i8], _i8, _i8),
            *(_wide, _read[_i8], _read[_f8], _f8, _out, _sums),
        )
    ],
    nogil=True,
    cache=True,
)
def step(indptr, columns, weights, strengths, cuts, first, last, z, homes, bonus, damping, moved, sums):  # type: ignore[no-untyped-def]
    """Compute the rows of chunks [first, last), as ``step`` of kernels.py does, with `weights` (m,) and `columns`.

    z (n, width) holds score / strength, or the score itself where no weight leaves a node: `strengths` (n,).
    """
    width = z.shape[1]
    for chunk in range(first, last):
        for c in range(width):
            sums[chunk, 0, c] = 0.0
            sums[chunk, 1, c] = 0.0
        for row in range(cuts[chunk], cuts[chunk + 1]):
            for c in range(width):
                moved[row, c] = 0.0
            for edge in range(indptr[row], indptr[row + 1]):
                u = columns[edge]
                weight = weights[edge]
                for c in range(width):
                    moved[row, c] += weight * z[u, c]
            strength = strengths[row] if strengths[row] > 0.0 else 1.0
            for c in range(width):
                score = damping * moved[row, c]
                if homes[c] == row:
                    score += bonus[c]
                sums[chunk, 0, c] += abs(score - z[row, c] * strength)
                if strengths[row] == 0.0:
                    sums[chunk, 1, c] += score
                moved[row, c] = score / strength
