"""The loops of the workload, compiled by numba: load with ``compiled.load``, which keeps the machine code for later.

Every function runs without the GIL, so that threads share the work, and none depends on how many do. Signatures are
given, so that all is compiled when the module is loaded and nothing is while a timer runs.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

OK, MALFORMED, TOO_LARGE = 0, 1, 2
WIDTHS = (1, 2, 4, 8)
"""The number of sources that go through the graph at once."""

_TAB, _END, _RETURN, _SPACE, _QUOTE, _HASH, _PERCENT, _SLASH, _ZERO = 9, 10, 13, 32, 34, 35, 37, 47, 48
_u1, _u2, _u4, _u8, _i8, _f8 = types.uint8, types.uint16, types.uint32, types.uint64, types.int64, types.float64


def _read(dtype: Any, dimensions: int = 1) -> Any:
    return types.Array(dtype, dimensions, "C", readonly=True)


def _write(dtype: Any, dimensions: int = 1) -> Any:
    return types.Array(dtype, dimensions, "C")


@intrinsic
def prefetch(typing, array, row):  # type: ignore[no-untyped-def]
    """Have a row of an array on its way from memory: where rows are read at random, that is what takes the time."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        kind = signature.args[0]
        found = context.make_array(kind)(context, builder, arguments[0])
        zero = ir.Constant(ir.IntType(64), 0)
        place = [arguments[1]] + [zero] * (kind.ndim - 1)
        pointer = cgutils.get_item_pointer(context, builder, kind, found, place, wraparound=False)
        pointer = builder.bitcast(pointer, ir.PointerType(ir.IntType(8)))
        number = ir.IntType(32)
        wanted = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, wanted, "llvm.prefetch.p0")
        builder.call(function, [pointer, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@intrinsic
def added(typing, totals, array, row):  # type: ignore[no-untyped-def]
    """Add a row of numbers as :func:`_short` has them to as many float64.

    It is no closure: numba would take it for another function in each process, and compile what calls it again.
    """
    width = totals.count

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        kind = signature.args[1]
        found = context.make_array(kind)(context, builder, arguments[1])
        place = [arguments[2], ir.Constant(ir.IntType(64), 0)]
        pointer = cgutils.get_item_pointer(context, builder, kind, found, place, wraparound=False)
        halves, words, floats, doubles = (
            ir.VectorType(one, width) for one in (ir.IntType(16), ir.IntType(32), ir.FloatType(), ir.DoubleType())
        )
        read = builder.load(builder.bitcast(pointer, ir.PointerType(halves)))
        read.align = 2
        bits = builder.shl(builder.zext(read, words), ir.Constant(words, [16] * width))
        values = builder.fpext(builder.bitcast(bits, floats), doubles)
        places = [ir.Constant(ir.IntType(32), column) for column in range(width)]
        before = ir.Constant(doubles, ir.Undefined)
        for column, at in enumerate(places):
            before = builder.insert_element(before, builder.extract_value(arguments[0], column), at)
        after, out = builder.fadd(before, values), ir.Constant(arguments[0].type, ir.Undefined)
        for column, at in enumerate(places):
            out = builder.insert_value(out, builder.extract_element(after, at), column)
        return out

    return totals(totals, array, types.int64), generate


AHEAD = 24


def _compiled(*signatures: Any) -> Any:
    return njit(list(signatures), nogil=True, cache=True)


def _lazily(function: Any) -> Any:
    """For what few runs need: compiled when it is first called."""
    return njit(function, nogil=True, cache=True)


# Edge lists ----------------------------------------------------------------------------------------------------------


@njit(inline="always")
def _carriage(text, i, n):  # type: ignore[no-untyped-def]
    return text[i] == _RETURN and (i + 1 == n or text[i + 1] == _END)


@njit(inline="always")
def _is_comment(text, i, n):  # type: ignore[no-untyped-def]
    return text[i] == _HASH or text[i] == _PERCENT or (text[i] == _SLASH and i + 1 < n and text[i + 1] == _SLASH)


@_compiled(*(types.UniTuple(_i8, 4)(_read(_u1), _i8, _write(ids), _u8) for ids in (_u4, _u8)))
def parse(text, separator, ids, largest):  # type: ignore[no-untyped-def]
    """Read whole lines of two decimal ids of at most `largest` each into `ids`, one after the other.

    `text`: uint8 (b,); `separator`: the byte between the ids, or 32 for spaces and tabs; `ids`: uint32 or uint64, of at
    least 2 (b // 4 + 1). Returns (OK, MALFORMED or TOO_LARGE, ids read, lines read, comments among them). A line may be
    blank, a comment, or end in CRLF; the last may lack its end.
    """
    n = len(text)
    count = 0
    lines = 0
    comments = 0
    i = 0
    while i < n:
        status = OK
        found = 0
        while True:
            passed = 0
            while i < n and (text[i] == _SPACE or text[i] == _TAB or text[i] == separator):
                passed += text[i] == separator
                i += 1
            if separator != _SPACE and passed != (found == 1):
                return MALFORMED, count, lines, comments
            if i == n or text[i] == _END or _carriage(text, i, n):
                break
            digit = np.uint64(text[i]) - np.uint64(_ZERO)
            if digit > 9 or found == 2:
                if found == 0 and _is_comment(text, i, n):
                    comments += 1
                    while i < n and text[i] != _END:
                        i += 1
                    break
                status = MALFORMED
                break
            value = np.uint64(0)
            while digit <= 9:
                if value > np.uint64(1844674407370955161) or (value == np.uint64(1844674407370955161) and digit > 5):
                    status = MALFORMED
                    break
                value = value * np.uint64(10) + digit
                i += 1
                if i == n:
                    break
                digit = np.uint64(text[i]) - np.uint64(_ZERO)
            if (
                status == OK
                and i < n
                and not (text[i] == _SPACE or text[i] == _TAB or text[i] == separator)
                and not (text[i] == _END or _carriage(text, i, n))
            ):
                status = MALFORMED
            if status != OK:
                break
            if value > largest:
                return TOO_LARGE, count, lines, comments
            ids[count + found] = value
            found += 1
        if status != OK or found == 1:
            return MALFORMED, count, lines, comments
        count += found
        lines += 1
        while i < n and text[i] != _END:
            i += 1
        i += 1
    return OK, count, lines, comments


@njit(inline="always")
def _power(exponent):  # type: ignore[no-untyped-def]
    power = 1.0
    for _ in range(exponent):
        power *= 10.0
    return power


@_compiled(
    types.UniTuple(_i8, 4)(
        *(_read(_u1), _i8, _i8, _i8, _i8, _i8, _i8, types.boolean, _i8),
        *(_write(_u8), _write(_f8), _write(_u1)),
    )
)
def columns(text, separator, source, target, weight, kind, width, rest, letter, ids, weights, undirected):  # type: ignore[no-untyped-def]  # noqa: PLR0911, PLR0915 - numba: one loop
    """Read whole lines of several columns, two of which are decimal ids; what is rare ends it, for a slower reader.

    `separator`: a byte, or 32 for spaces and tabs. `source`, `target`, `weight`, `kind`: the numbers of columns, -1 for
    none; `width`: how many a line has, or with `rest` as far as the ids at least. `letter`: the first column, or 0.
    `ids` (2 m,); `weights` (m,), filled where `weight` is a column; `undirected` (m,), where `kind` is. Returns (OK
    or MALFORMED, ids read, lines read, comments among them). Ids may be quoted, and end in ``.0`` or ``e+05``.
    """
    n = len(text)
    count = 0
    lines = 0
    comments = 0
    i = 0
    blanks = separator == _SPACE
    least = max(width if rest else 0, max(source, target) + 1)
    while i < n:
        while i < n and (text[i] == _SPACE or (text[i] == _TAB and separator != _TAB)):
            i += 1
        if i == n or text[i] == _END or _carriage(text, i, n):
            while i < n and text[i] != _END:
                i += 1
            i += 1
            lines += 1
            continue
        if letter == 0 and _is_comment(text, i, n):
            while i < n and text[i] != _END:
                i += 1
            i += 1
            lines += 1
            comments += 1
            continue
        column = 0
        first = np.uint64(0)
        second = np.uint64(0)
        heavy = 1.0
        both = 0
        while True:
            if column == source or column == target:  # noqa: PLR1714, SIM109 - no tuple in the inner loop
                quoted = i < n and text[i] == _QUOTE
                if quoted:
                    i += 1
                value = np.uint64(0)
                digits = 0
                while i < n and np.uint64(text[i]) - np.uint64(_ZERO) <= 9:
                    if digits >= 18:
                        return MALFORMED, count, lines, comments
                    value = value * np.uint64(10) + (np.uint64(text[i]) - np.uint64(_ZERO))
                    digits += 1
                    i += 1
                if digits == 0:
                    return MALFORMED, count, lines, comments
                if i < n and text[i] == 46:
                    i += 1
                    while i < n and text[i] == _ZERO:
                        i += 1
                if i + 2 < n and (text[i] == 101 or text[i] == 69):
                    i += 1
                    if text[i] == 43:
                        i += 1
                    exponent = 0
                    places = 0
                    while i < n and np.uint64(text[i]) - np.uint64(_ZERO) <= 9 and places < 3:
                        exponent = exponent * 10 + np.int64(text[i]) - _ZERO
                        places += 1
                        i += 1
                    if places == 0 or exponent + digits > 18:
                        return MALFORMED, count, lines, comments
                    for _ in range(exponent):
                        value *= np.uint64(10)
                if quoted:
                    if i == n or text[i] != _QUOTE:
                        return MALFORMED, count, lines, comments
                    i += 1
                if column == source:
                    first = value
                else:
                    second = value
            elif column == weight:
                mantissa = np.uint64(0)
                digits = 0
                shift = 0
                point = False
                while i < n and (np.uint64(text[i]) - np.uint64(_ZERO) <= 9 or (text[i] == 46 and not point)):
                    if text[i] == 46:
                        point = True
                    else:
                        mantissa = mantissa * np.uint64(10) + (np.uint64(text[i]) - np.uint64(_ZERO))
                        digits += 1
                        shift += point
                    if digits > 15:
                        return MALFORMED, count, lines, comments
                    i += 1
                if digits == 0:
                    return MALFORMED, count, lines, comments
                heavy = np.float64(mantissa) / _power(shift)
            elif column == kind:
                if i < n and text[i] == _QUOTE:
                    i += 1
                if i == n:
                    return MALFORMED, count, lines, comments
                both = np.int64((text[i] | 0x20) == 117)
                if both == 0 and (text[i] | 0x20) != 100:
                    return MALFORMED, count, lines, comments
                while i < n and np.uint64(text[i] | 0x20) - np.uint64(97) < 26:
                    i += 1
                if i < n and text[i] == _QUOTE:
                    i += 1
            elif column == 0 and letter != 0:
                if text[i] != letter:
                    return MALFORMED, count, lines, comments
                i += 1
            else:
                if i < n and text[i] == _QUOTE:
                    i += 1
                    while i < n and text[i] != _QUOTE and text[i] != _END:
                        i += 1
                    if i == n or text[i] == _END:
                        return MALFORMED, count, lines, comments
                    i += 1
                while i < n and text[i] != _END and text[i] != separator and not (blanks and text[i] == _TAB):
                    if text[i] == _QUOTE:
                        return MALFORMED, count, lines, comments
                    i += 1
            column += 1
            gap = i
            while i < n and (text[i] == _SPACE or (text[i] == _TAB and separator != _TAB)):
                i += 1
            if i == n or text[i] == _END or _carriage(text, i, n):
                break
            if rest and column >= least and (weight < 0 or column > weight):
                while i < n and text[i] != _END:
                    i += 1
                break
            if blanks:
                if i == gap:
                    return MALFORMED, count, lines, comments
            else:
                if text[i] != separator:
                    return MALFORMED, count, lines, comments
                i += 1
                while i < n and (text[i] == _SPACE or (text[i] == _TAB and separator != _TAB)):
                    i += 1
                if i == n or text[i] == _END or _carriage(text, i, n):
                    column += 1
                    if column - 1 <= max(least - 1, weight, kind):
                        return MALFORMED, count, lines, comments
                    break
        if column < least or (column != width and not rest) or (weight >= 0 and column <= weight and not rest):
            return MALFORMED, count, lines, comments
        ids[count] = first
        ids[count + 1] = second
        if weight >= 0:
            weights[count // 2] = heavy
        if kind >= 0:
            undirected[count // 2] = both
        count += 2
        while i < n and text[i] != _END:
            i += 1
        i += 1
        lines += 1
    return OK, count, lines, comments


@_compiled(*(_i8(_read(ids), types.boolean, _read(_u1), _read(_f8), _write(ids), _write(_f8)) for ids in (_u4, _u8)))
def both_ways(ids, all_of_them, undirected, weights, both, both_weights):  # type: ignore[no-untyped-def]
    """Put each edge and, behind all, each that is undirected and no loop once more, from target to source, into `both`.

    `ids` (2 m,); `undirected` (m,) is read where they are not all undirected; `weights` (m,) where it is not empty;
    `both`: of at least (4 m,), `both_weights` (2 m,) with weights. Returns how many ids are in `both`.
    """
    count = len(ids)
    both[:count] = ids
    weighted = len(weights) > 0
    if weighted:
        both_weights[: count // 2] = weights
    for edge in range(len(ids) // 2):
        source, target = ids[2 * edge], ids[2 * edge + 1]
        if source != target and (all_of_them or undirected[edge]):
            both[count] = target
            both[count + 1] = source
            if weighted:
                both_weights[count // 2] = weights[edge]
            count += 2
    return count


# Numbers of nodes ----------------------------------------------------------------------------------------------------


@_compiled(types.void(_read(_u4), _write(_u8)))
def mark(ids, bits):  # type: ignore[no-untyped-def]
    """Set in `bits` uint64 (w,) the bit of each of `ids` uint32 (k,): bit i % 64 of word i // 64."""
    for i in range(len(ids)):
        bits[ids[i] >> 6] |= np.uint64(1) << np.uint64(ids[i] & 63)


@njit(inline="always")
def _ones(word):  # type: ignore[no-untyped-def]
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@_compiled(_i8(_read(_u8), _write(_u4)))
def count_ones(bits, before):  # type: ignore[no-untyped-def]
    """Put into `before` uint32 (w,) how many bits are set before each word of `bits` (w,); returns how many in all."""
    total = np.uint64(0)
    for i in range(len(bits)):
        before[i] = total
        total += _ones(bits[i])
    return np.int64(total)


@_compiled(types.void(_read(_u8), _write(_u4)))
def list_ones(bits, out):  # type: ignore[no-untyped-def]
    """Put the numbers of the bits that are set in `bits` uint64 (w,) into `out` uint32, as long as these, ascending."""
    count = 0
    for i in range(len(bits)):
        word = bits[i]
        place = np.uint64(i) * np.uint64(64)
        while word:
            if word & np.uint64(1):
                out[count] = place
                count += 1
            word >>= np.uint64(1)
            place += np.uint64(1)


@_compiled(types.void(_read(_u4), _read(_u8), _read(_u4), _write(_u4)))
def places_by_bits(ids, bits, before, out):  # type: ignore[no-untyped-def]
    """Put into `out` (k,), for each of `ids` uint32 (k,), how many smaller ids `bits` and `before` (w,) have."""
    for i in range(len(ids)):
        word = ids[i] >> 6
        below = (np.uint64(1) << np.uint64(ids[i] & 63)) - np.uint64(1)
        out[i] = before[word] + _ones(bits[word] & below)


@_compiled(types.void(_write(_u4), _read(_u4)))
def renumber(places, numbers):  # type: ignore[no-untyped-def]
    """Replace each of `places` uint32 (k,) by the number of what is there, of `numbers` uint32 (n,)."""
    for i in range(len(places)):
        places[i] = numbers[places[i]]


@_compiled(types.void(_read(_i8), _write(_i8), _write(_u4)))
def number(degrees, positions, numbers):  # type: ignore[no-untyped-def]
    """Number places by their degrees int64 (n,) into `numbers` uint32 (n,).

    `positions` int64 (largest degree + 1,): the first number of each degree; they are used up.
    """
    for place in range(len(degrees)):
        degree = degrees[place]
        numbers[place] = positions[degree]
        positions[degree] += 1


# Synthetic graphs ----------------------------------------------------------------------------------------------------


@njit(inline="always")
def _mixed(state):  # type: ignore[no-untyped-def]
    """The output function of splitmix64 (S. Vigna, public domain)."""
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@_lazily
def rmat(levels, nodes, seed, first, pairs):  # type: ignore[no-untyped-def]
    """Fill `pairs` uint32 (2 m,) with the edges of R-MAT (see rmat.py) from number `first` on.

    Their ends are below `nodes`, at most 2**levels. The same `seed` and number give the same edge.
    """
    step = np.uint64(0x9E3779B97F4A7C15)
    a, ab, abc = np.uint64(37355), np.uint64(49807), np.uint64(62259)
    for i in range(len(pairs) // 2):
        state = _mixed(np.uint64(seed) * step + np.uint64(first + i) + np.uint64(1))
        while True:
            u = np.uint64(0)
            v = np.uint64(0)
            bits = np.uint64(0)
            for level in range(levels):
                if level % 4 == 0:
                    state += step
                    bits = _mixed(state)
                t = bits & np.uint64(0xFFFF)
                bits >>= np.uint64(16)
                down = np.uint64(t >= ab)
                right = np.uint64(t >= a) - down + np.uint64(t >= abc)
                u = (u << np.uint64(1)) | down
                v = (v << np.uint64(1)) | right
            if u < np.uint64(nodes) and v < np.uint64(nodes):
                break
        pairs[2 * i] = u
        pairs[2 * i + 1] = v


# Compressed sparse rows ----------------------------------------------------------------------------------------------


@_compiled(types.void(_read(_u4), _i8, _i8, _write(_u4)))
def count(values, start, stride, counts):  # type: ignore[no-untyped-def]
    """Add to `counts` uint32 (n,) how often each value is in `values[start::stride]`, of `values` uint32."""
    for i in range(start, len(values), stride):
        prefetch(counts, np.int64(values[min(i + AHEAD * stride, len(values) - 1)]))
        counts[values[i]] += 1


@_compiled(types.void(_read(_u4), _i8, _write(_i8), _write(_u4)))
def scatter(pairs, key, positions, out):  # type: ignore[no-untyped-def]
    """Put the other end of each pair in the row of its end `key` (0 or 1), at the row's next position.

    `pairs` uint32 (2 m,); `positions` int64 (n,), which move on; `out` uint32, the columns of all rows.
    """
    last = len(pairs) - 2 + key
    for i in range(0, len(pairs), 2):
        prefetch(positions, np.int64(pairs[min(i + key + 4 * AHEAD, last)]))
        prefetch(out, positions[pairs[min(i + key + 2 * AHEAD, last)]])
        row = pairs[i + key]
        out[positions[row]] = pairs[i + 1 - key]
        positions[row] += 1


@_compiled(types.void(_read(_i8), _read(_u4), _i8, _i8, _write(_i8), _write(_u4)))
def transpose(indptr, columns, first, last, positions, out):  # type: ignore[no-untyped-def]
    """Put each of the rows [first, last) in the rows that are its columns, at their next positions.

    `indptr` int64, `columns` uint32 (m,); `positions` int64, one for each new row, which move on; `out` uint32 (m,).
    """
    for row in range(first, last):
        for edge in range(indptr[row], indptr[row + 1]):
            prefetch(positions, np.int64(columns[min(edge + 2 * AHEAD, len(columns) - 1)]))
            prefetch(out, positions[columns[min(edge + AHEAD, len(columns) - 1)]])
            column = columns[edge]
            out[positions[column]] = row
            positions[column] += 1


@_compiled(types.void(_read(_u4), _i8, _read(_u2), _write(_i8)))
def count_parts(pairs, key, parts, counts):  # type: ignore[no-untyped-def]
    """Add to `counts` int64 (p,) how many pairs have an end `key` (0 or 1) of each part: `parts` uint16 (n,)."""
    last = len(pairs) - 2 + key
    for i in range(key, len(pairs), 2):
        prefetch(parts, np.int64(pairs[min(i + 2 * AHEAD, last)]))
        counts[parts[pairs[i]]] += 1


@_compiled(types.void(_read(_u4), _i8, _read(_u2), _write(_i8), _write(_u4)))
def deal(pairs, key, parts, positions, out):  # type: ignore[no-untyped-def]
    """Put each pair, its end `key` last, among those of that end's part, at the part's next position.

    `pairs` uint32 (2 m,); `parts` uint16 (n,); `positions` int64 (p,), in pairs, which move on; `out` uint32.
    """
    last = len(pairs) - 2 + key
    for i in range(0, len(pairs), 2):
        prefetch(parts, np.int64(pairs[min(i + key + 2 * AHEAD, last)]))
        part = parts[pairs[i + key]]
        place = 2 * positions[part]
        out[place] = pairs[i + 1 - key]
        out[place + 1] = pairs[i + key]
        positions[part] += 1


# Power iteration -----------------------------------------------------------------------------------------------------


@njit(inline="always")
def _degree(degrees, row):  # type: ignore[no-untyped-def]
    return np.float64(max(degrees[row], np.uint32(1)))


@njit(inline="always")
def _short(value):  # type: ignore[no-untyped-def]
    """The upper half of a float32, rounded (bfloat16: 8 bits are significant), as uint16."""
    return np.uint16((np.float32(value).view(np.uint32) + np.uint32(0x8000)) >> np.uint32(16))


@njit(inline="always")
def _long(bits):  # type: ignore[no-untyped-def]
    return np.float64(np.uint32(np.uint32(bits) << np.uint32(16)).view(np.float32))


@_compiled(_u2(_f8))
def short(value):  # type: ignore[no-untyped-def]
    """Round a number as :func:`step` does what it sends."""
    return _short(value)


@_compiled(_f8(_u2))
def long(bits):  # type: ignore[no-untyped-def]
    """Return the number that :func:`short` has made."""
    return _long(bits)


@functools.cache
def step(width: int) -> Any:
    """The step of the walk for a block of `width` sources at once; one of WIDTHS.

    `sent` uint16 (n, width) is what leaves along each edge (:func:`short`): its part of a score's change, or the change
    itself where there is no edge. `state` (rows, 2, width): the scores that have been sent, and what is still to send.
    The step computes the rows of chunks [first, last) of `state`, and into `out` what they send next; row 0 of both is
    the graph's row `offset`. `sums` (chunks, 3, width): for each chunk the L1 norm of what is to send, and what it
    sends in all and from dangling nodes. `homes` are the rows of the sources, or -1; `returned` is what comes to each
    besides the edges, `lacking` what it sends besides; `damping` is 1 - alpha.
    """
    zeros = (0.0,) * width

    @_compiled(
        types.void(
            *(_read(_i8), _read(_u4), _read(_u4), _read(_i8), _i8, _i8),
            *(_read(_u2, 2), _write(_f8, 3), _read(_i8), _read(_f8), _read(_f8), _f8),
            *(_write(_u2, 2), _i8, _write(_f8, 3)),
        )
    )
    def rows(  # type: ignore[no-untyped-def]
        indptr, columns, degrees, cuts, first, last, sent, state, homes, returned, lacking, damping, out, offset, sums
    ):
        for chunk in range(first, last):
            for c in range(width):
                sums[chunk, 0, c] = 0.0
                sums[chunk, 1, c] = 0.0
                sums[chunk, 2, c] = 0.0
            home = np.int64(-1)
            for row in range(cuts[chunk], cuts[chunk + 1]):
                if row > home:
                    home = len(degrees)
                    for c in range(width):
                        if row <= homes[c] < home:
                            home = homes[c]
                total = zeros
                for edge in range(indptr[row - offset], indptr[row - offset + 1]):
                    prefetch(sent, np.int64(columns[min(edge + AHEAD, len(columns) - 1)]))
                    total = added(total, sent, np.int64(columns[edge]))
                degree = _degree(degrees, row)
                inverse = 1.0 / degree
                for c in range(width):
                    gone = _long(sent[row, c]) * degree
                    left = state[row - offset, 1, c] - gone + damping * total[c]
                    wanted = left
                    if row == home and homes[c] == row:
                        left += returned[c]
                        wanted = left + lacking[c]
                    state[row - offset, 0, c] += gone
                    state[row - offset, 1, c] = left
                    bits = _short(wanted * inverse)
                    out[row - offset, c] = bits
                    sending = _long(bits) * degree
                    sums[chunk, 0, c] += abs(left)
                    sums[chunk, 1, c] += sending
                    if degrees[row] == 0:
                        sums[chunk, 2, c] += sending

    return rows


@_compiled(types.void(_read(_f8, 2), _i8, _read(_u4), _read(_u4), _write(_f8)))
def scores(z, column, degrees, numbers, out):  # type: ignore[no-untyped-def]
    """Put the scores of one source into `out` (n,), by place, from column `column` of `z` (n, width), by number.

    `z`: what leaves a node along each edge; `degrees` (n,) by number; `numbers` (n,) by place.
    """
    for place in range(len(numbers)):
        number = numbers[place]
        out[place] = z[number, column] * _degree(degrees, number)


# Pushing -------------------------------------------------------------------------------------------------------------

TOUCHED, QUEUED = 1, 2


@functools.cache
def pushing() -> Any:
    """The rounds of push.py: push until no r(u) is above epsilon times the degree.

    Gives how many nodes are `touched`, and the sum of r. `p`, `r` float64 (n,); `touched` int64 (n,), of which
    `count` are filled; `queue` int64 (n,) is a ring; `state` uint8 (n,) holds TOUCHED and QUEUED.
    """

    @_compiled(
        types.Tuple((_i8, _f8))(
            _read(_i8),
            _read(_u4),
            _read(_u4),
            _i8,
            _f8,
            _f8,
            _write(_f8),
            _write(_f8),
            _write(_i8),
            _write(_i8),
            _i8,
            _write(_u1),
        )
    )
    def push(indptr, columns, degrees, home, alpha, epsilon, p, r, queue, touched, count, state):  # type: ignore[no-untyped-def]
        n = len(degrees)
        head = 0
        waiting = 0
        for i in range(count):
            u = touched[i]
            if r[u] > epsilon * _degree(degrees, u):
                queue[waiting] = u
                waiting += 1
                state[u] |= QUEUED
        while waiting:
            u = queue[head]
            head = head + 1 if head + 1 < n else 0
            waiting -= 1
            state[u] = TOUCHED
            mass = r[u]
            r[u] = 0.0
            p[u] += alpha * mass
            rest = (1.0 - alpha) * mass
            first = indptr[u]
            last = indptr[u + 1]
            if degrees[u] == 0:
                last = first + 1
            else:
                rest /= np.float64(degrees[u])
            for edge in range(first, last):
                v = np.int64(columns[edge]) if degrees[u] else home
                r[v] += rest
                if state[v] == 0:
                    touched[count] = v
                    count += 1
                    state[v] = TOUCHED
                if state[v] == TOUCHED and r[v] > epsilon * _degree(degrees, v):
                    place = head + waiting
                    queue[place if place < n else place - n] = v
                    waiting += 1
                    state[v] = TOUCHED | QUEUED
        left = 0.0
        for i in range(count):
            left += r[touched[i]]
        return count, left

    return push
