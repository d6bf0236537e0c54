"""The step of the walk where edges have weights, compiled by numba: load with ``compiled.load``."""

from __future__ import annotations

from numba import njit, types

from workloads.ppr.kernels import _long, _short

_u2, _u4, _i8, _f8 = types.uint16, types.uint32, types.int64, types.float64
_read = {dtype: types.Array(dtype, 1, "C", readonly=True) for dtype in (_u4, _i8, _f8)}
_short_rows = types.Array(_u2, 2, "C", readonly=True)
_out = types.Array(_u2, 2, "C")
_sums = types.Array(_f8, 3, "C")


@njit(
    [
        types.void(
            *(_read[_i8], _read[_u4], _read[_f8], _read[_f8], _read[_i8], _i8, _i8),
            *(_short_rows, _sums, _read[_i8], _read[_f8], _read[_f8], _f8, _out, _sums),
        )
    ],
    nogil=True,
    cache=True,
)
def step(  # type: ignore[no-untyped-def]
    indptr, columns, weights, strengths, cuts, first, last, sent, state, homes, returned, lacking, damping, out, sums
):
    """Compute the rows of chunks [first, last), as ``step`` of kernels.py does, with `weights` (m,) and `columns`.

    What leaves a node is shared by `strengths` (n,); where this is 0, no edge does.
    """
    width = sent.shape[1]
    for chunk in range(first, last):
        for c in range(width):
            sums[chunk, 0, c] = 0.0
            sums[chunk, 1, c] = 0.0
            sums[chunk, 2, c] = 0.0
        for row in range(cuts[chunk], cuts[chunk + 1]):
            strength = strengths[row] if strengths[row] > 0.0 else 1.0
            for c in range(width):
                gone = _long(sent[row, c]) * strength
                state[row, 0, c] += gone
                state[row, 1, c] -= gone
            for edge in range(indptr[row], indptr[row + 1]):
                u = columns[edge]
                weight = damping * weights[edge]
                for c in range(width):
                    state[row, 1, c] += weight * _long(sent[u, c])
            for c in range(width):
                wanted = state[row, 1, c]
                if homes[c] == row:
                    state[row, 1, c] += returned[c]
                    wanted = state[row, 1, c] + lacking[c]
                out[row, c] = _short(wanted / strength)
                sending = _long(out[row, c]) * strength
                sums[chunk, 0, c] += abs(state[row, 1, c])
                sums[chunk, 1, c] += sending
                if strengths[row] == 0.0:
                    sums[chunk, 2, c] += sending
