"""Compiled: smooth activations, by their tables (`leaveout.kernel.smooth`).

A neuron's lines and ranges follow its state, in rows from `FIRST` on, which ReLU networks lack.
Values are those of the activation raised by its floor. ``docs/native.md`` derives the rules.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from leaveout.arrays import Floats
from leaveout.bab.native.kernels.curve_tables import (
    APART,
    DOWN,
    DOWN_AT,
    DOWN_D,
    DOWN_D_AT,
    FIRST,
    GAP,
    GAP_D,
    KIND,
    LEAST,
    MOST,
    ROWS,
    UP,
    UP_AT,
    UP_D,
    UP_D_AT,
    tables,
)
from leaveout.bab.native.kernels.pair_bounds import OPTIONS, jit_function, jit_inline
from leaveout.compiling import cached_njit
from leaveout.kernel import smooth
from leaveout.kernel.smooth import HALF, ROOTED, SLOPE, Kinds

_SEARCHED = 12
"""Slopes tried for a line that is neither a chord nor a tangent in the middle."""

_UNIT = 2.0**-53

_SQUARE, _INVERSE_ROOT = smooth.KIND["Square"], smooth.KIND["InverseRoot"]


@jit_inline
def closed_form(kind: int, z: float) -> tuple[float, float]:
    """Return the value and slope of a closed form: those from `_SQUARE` on."""
    if kind == _SQUARE:
        return z * z, 2.0 * z
    v = max(z, 0.0) + ROOTED
    root = 1.0 / math.sqrt(v)
    return root, -0.5 * root / v


@jit_inline
def within(kind: int, lo: float, hi: float) -> tuple[float, float]:
    """Return the part of a range that an activation may be given."""
    if kind == _INVERSE_ROOT:
        return max(lo, 0.0), max(hi, 0.0)
    return lo, hi


@jit_inline
def touch(kind: int, slope: float) -> float:
    """Return where a closed form has a slope."""
    if kind == _SQUARE:
        return 0.5 * slope
    return (-2.0 * slope) ** (-2.0 / 3.0) - ROOTED if slope < 0.0 else np.inf


@jit_inline
def curve(knots: Any, data: Any, kind: int, z: float) -> tuple[float, float]:
    """Return the value and slope at a point."""
    if kind >= _SQUARE:
        return closed_form(kind, z)
    step = data[kind, 0]
    place = min(max(z / step + HALF, 0.0), 2.0 * HALF)
    i = min(int(place), 2 * HALF - 1)
    t = place - i
    y, rise = knots[kind, i, 0], knots[kind, i + 1, 0] - knots[kind, i, 0]
    a, n = knots[kind, i, 1] * step, knots[kind, i + 1, 1] * step
    b, c = 3.0 * rise - 2.0 * a - n, a + n - 2.0 * rise
    beyond = data[kind, 4] * max(z - HALF * step, 0.0)
    return y + t * (a + t * (b + t * c)) + beyond, (a + t * (2.0 * b + t * 3.0 * c)) / step


@jit_inline
def extremum(
    knots: Any, data: Any, kind: int, ratio: float, begin: int, end: int, sign: float
) -> float:
    """Return where ``f(z) - ratio z`` has its extremum in a piece, of slopes sorted by sign."""
    step, low, high = data[kind, 0], begin, end
    while high - low > 1:
        middle = (low + high) // 2
        if sign * knots[kind, middle, 1] <= sign * ratio:
            low = middle
        else:
            high = middle
    rise = knots[kind, low + 1, 0] - knots[kind, low, 0]
    m, n = knots[kind, low, 1] * step, knots[kind, low + 1, 1] * step
    b, e = 3.0 * rise - 2.0 * m - n, m + n - 2.0 * rise
    m -= ratio * step
    # The root where the difference of slopes crosses 0 as the slope does; rounding may put it just
    # outside the cell.
    root = sign * math.sqrt(max(b * b - 3.0 * e * m, 0.0))
    above, below = (-m, b + root) if sign * b >= 0.0 else (root - b, 3.0 * e)
    t = above / below if below != 0.0 else 0.5
    t = min(max(t, 0.0), 1.0) if t == t else 0.5
    at: float = (low - HALF + t) * step
    return at


@jit_inline
def closed_top(kind: int, a: float, c: float, lo: float, hi: float) -> tuple[float, float]:
    """Do the work of `curve_top` for a convex closed form; turned over, it is below a tangent."""
    if a < 0.0:
        z = min(max(touch(kind, c / a), lo), hi)
        y, s = closed_form(kind, z)
        rise, size = a * s - c, abs(a) * y + abs(c * z) + (abs(a * s) + abs(c)) * (hi - lo)
        top = a * y - c * z + max(rise * (lo - z), rise * (hi - z))
        return top + 32.0 * _UNIT * size, z
    left, _ = closed_form(kind, lo)
    right, _ = closed_form(kind, hi)
    size = abs(a) * (left + right) + abs(c) * (abs(lo) + abs(hi))
    left, right = a * left - c * lo, a * right - c * hi
    return max(left, right) + 32.0 * _UNIT * size, lo if left > right else hi


@jit_function
def curve_top(
    knots: Any, data: Any, kind: int, a: float, c: float, lo: float, hi: float
) -> tuple[float, float]:
    """Return a bound of the largest ``a f(z) - c z`` over [lo, hi], and where it is."""
    if kind >= _SQUARE:
        return closed_top(kind, a, c, lo, hi)
    step, sign = data[kind, 0], data[kind, 3]
    first, second = int(data[kind, 1]), int(data[kind, 2])
    best, at, size = -np.inf, lo, 0.0
    for point in range(6):
        if point == 0:
            z = lo
        elif point == 1:
            z = hi
        elif point == 2:
            z = -HALF * step
        elif point == 3:
            z = HALF * step
        else:
            z = ((first if point == 4 else second) - HALF) * step
        if lo <= z <= hi:
            y, _ = curve(knots, data, kind, z)
            value = a * y - c * z
            size = max(size, abs(a) * y + abs(c * z))
            if value > best:
                best, at = value, z
    if a != 0.0:
        begin = 0
        for piece in range(3):
            end = first if piece == 0 else second if piece == 1 else 2 * HALF
            # Where a f is concave, and the piece meets the range.
            if sign * a < 0.0 and end > begin:
                left, right = max(lo / step + HALF, begin), min(hi / step + HALF, end)
                if left < right:
                    l, r = int(left), min(math.ceil(right), end)
                    z = extremum(knots, data, kind, c / a, l, max(r, l + 1), sign)
                    if lo < z < hi:
                        y, _ = curve(knots, data, kind, z)
                        value = a * y - c * z
                        if value > best:
                            best, at = value, z
            begin, sign = end, -sign
    return best + abs(a) * data[kind, 6] + 32.0 * _UNIT * size, at


@jit_inline
def size_of(kind: int, lo: float, hi: float) -> float:
    """Bound values, and products of slopes and inputs, between two points."""
    far = abs(lo) + abs(hi)
    if kind < _SQUARE:
        return 2.0 + far
    y, s = closed_form(kind, lo)
    other, t = closed_form(kind, hi)
    return 2.0 + far + y + other + (abs(s) + abs(t)) * far


@jit_function
def best_line(
    knots: Any, data: Any, kind: int, side: float, lo: float, hi: float
) -> tuple[float, float]:
    """Return slope and constant of the line above (side 1) or below f that is best in the middle.

    Its height there is convex in its slope, and the slope of that is the middle minus the point
    that it touches.
    """
    middle = 0.5 * (lo + hi)
    left, _ = curve(knots, data, kind, lo)
    right, _ = curve(knots, data, kind, hi)
    _, tangent = curve(knots, data, kind, middle)
    if not hi - lo > 1e-9:
        top, _ = curve_top(knots, data, kind, side, side * tangent, lo, hi)
        return tangent, side * top
    chord = (right - left) / (hi - lo)
    best, constant = chord, 0.0
    height, even = np.inf, 1e-9 + data[kind, 6]
    low, high = min(chord, tangent), max(chord, tangent)
    for tried in range(2 + _SEARCHED):
        s = chord if tried == 0 else tangent if tried == 1 else 0.5 * (low + high)
        top, at = curve_top(knots, data, kind, side, side * s, lo, hi)
        found = top + side * s * middle
        if found < height:
            best, constant, height = s, side * top, found
        if tried == 0 and top <= side * (left - s * lo) + even:
            break
        if tried == 1:
            exact, _ = curve(knots, data, kind, middle)
            if found <= side * exact + even or abs(tangent - chord) < 1e-6:
                break
        if tried > 1:
            # The touching point moves down as the slope rises, for a line above.
            if (at > middle) == (side > 0.0):
                low = s
            else:
                high = s
    return best, constant


@jit_function
def steepness(knots: Any, data: Any, kind: int, lo: float, hi: float) -> tuple[float, float]:
    """Return bounds of slopes over [lo, hi]."""
    _, least = curve(knots, data, kind, lo)
    _, most = curve(knots, data, kind, hi)
    least, most = min(least, most), max(least, most)
    if kind >= _SQUARE:
        return least - 16.0 * _UNIT * abs(least), most + 16.0 * _UNIT * abs(most)
    for place in (data[kind, 1], data[kind, 2]):
        z = (place - HALF) * data[kind, 0]
        if lo < z < hi:
            _, s = curve(knots, data, kind, z)
            least, most = min(least, s), max(most, s)
    return least - SLOPE, most + SLOPE


@jit_function
def shape_neuron(knots: Any, data: Any, state: Floats, j: int, pair: bool) -> float:
    """Write a smooth neuron's lines and ranges; return the largest change of its output."""
    kind = int(state[KIND, j])
    l, u, vl, vu = state[0, j], state[1, j], state[4, j], state[5, j]
    lower, upper = within(kind, l, u)
    middle = 0.5 * (lower + upper)
    state[UP, j], state[UP_AT, j] = best_line(knots, data, kind, 1.0, lower, upper)
    state[DOWN, j], state[DOWN_AT, j] = best_line(knots, data, kind, -1.0, lower, upper)
    room = 32.0 * _UNIT * size_of(kind, lower, upper)
    state[UP_AT, j] += room
    state[DOWN_AT, j] -= room
    gap = (state[UP, j] - state[DOWN, j]) * middle + state[UP_AT, j] - state[DOWN_AT, j]
    state[GAP, j] = gap
    if not pair:
        state[LEAST, j], state[MOST, j] = steepness(knots, data, kind, lower, upper)
        return 0.0
    pad = 4.0 * _UNIT * (abs(l) + abs(u) + abs(vl) + abs(vu))
    lo, hi = within(kind, l + vl - pad, u + vu + pad)
    least, most = steepness(knots, data, kind, min(lower, lo), max(upper, hi))
    state[LEAST, j], state[MOST, j] = least, most
    far: float = max(abs(vl), abs(vu))
    change: float = max(abs(least), abs(most)) * far + data[kind, 7]
    if kind >= _SQUARE:
        top, _ = closed_top(kind, 1.0, 0.0, lower, upper)
        bottom, _ = closed_top(kind, -1.0, 0.0, lower, upper)
        after, _ = closed_top(kind, 1.0, 0.0, lo, hi)
        before, _ = closed_top(kind, -1.0, 0.0, lo, hi)
        change = min(change, max(after + bottom, top + before))
    direct = (most - least) * far
    up, up_at = best_line(knots, data, kind, 1.0, lo, hi)
    down, down_at = best_line(knots, data, kind, -1.0, lo, hi)
    second = (up - down) * 0.5 * (lo + hi) + up_at - down_at
    state[APART, j] = 1.0 if gap + second < direct else 0.0
    room += 32.0 * _UNIT * size_of(kind, lo, hi)
    if state[APART, j] != 0.0:
        state[UP_D, j], state[UP_D_AT, j] = up, up_at + room
        state[DOWN_D, j], state[DOWN_D_AT, j] = down, down_at - room
        state[GAP_D, j] = gap + second
        return change
    # Above and below m d, for m and d between their ends.
    if vl >= 0.0:
        up, down = most, least
    elif vu <= 0.0:
        up, down = least, most
    else:
        up = (most * vu - least * vl) / (vu - vl)
        down = (least * vu - most * vl) / (vu - vl)
    rounding = 16.0 * _UNIT * (abs(up) + abs(down) + abs(least) + abs(most)) * far + data[kind, 7]
    state[UP_D, j], state[DOWN_D, j] = up, down
    state[UP_D_AT, j] = rounding + max(
        max((most - up) * vl, (most - up) * vu), max((least - up) * vl, (least - up) * vu)
    )
    state[DOWN_D_AT, j] = -rounding + min(
        min((most - down) * vl, (most - down) * vu), min((least - down) * vl, (least - down) * vu)
    )
    state[GAP_D, j] = state[UP_D_AT, j] - state[DOWN_D_AT, j]
    return change


@jit_inline
def by_curve(state: Floats, j: int, a: float, b: float, pair: bool) -> tuple[float, float, float]:
    """Return multipliers along a smooth neuron's lines, (cz, cd), and their constant."""
    if not pair:
        if a > 0.0:
            return a * state[UP, j], 0.0, a * state[UP_AT, j]
        return a * state[DOWN, j], 0.0, a * state[DOWN_AT, j]
    apart = state[APART, j] != 0.0
    own = a - b if apart else a
    if own > 0.0:
        cz, best = own * state[UP, j], own * state[UP_AT, j]
    else:
        cz, best = own * state[DOWN, j], own * state[DOWN_AT, j]
    if b > 0.0:
        cd, more = b * state[UP_D, j], b * state[UP_D_AT, j]
    else:
        cd, more = b * state[DOWN_D, j], b * state[DOWN_D_AT, j]
    best += more
    if apart:
        cz += cd
        kind = int(state[KIND, j])
        l, u = within(kind, state[0, j], state[1, j])
        lo, hi = within(kind, state[0, j] + state[4, j], state[1, j] + state[5, j])
        size = size_of(kind, l, u) + size_of(kind, lo, hi)
        best += 32.0 * _UNIT * (abs(a) + abs(b)) * size
    return cz, cd, best


@jit_function
def curve_pair(
    knots: Any, data: Any, state: Floats, j: int, a: float, b: float, cz: float, cd: float,
    pair: bool,
) -> tuple[float, float, float, float, float]:  # fmt: skip
    """Bound a smooth pair, and say where: (value, z, dz, h, dh)."""
    kind = int(state[KIND, j])
    vl, vu = state[4, j], state[5, j]
    l, u = within(kind, state[0, j], state[1, j])
    if not pair:
        best, z = curve_top(knots, data, kind, a, cz, l, u)
        h, _ = curve(knots, data, kind, z)
        return best, z, 0.0, h, 0.0
    far = abs(vl) + abs(vu)
    pad = 4.0 * _UNIT * (abs(state[0, j]) + abs(state[1, j]) + far)
    lo, hi = within(kind, state[0, j] + vl - pad, state[1, j] + vu + pad)
    size = size_of(kind, l, u) + size_of(kind, lo, hi) + far
    size += max(abs(state[LEAST, j]), abs(state[MOST, j])) * far
    room = 32.0 * _UNIT * (abs(a) + abs(b)) * size
    if state[APART, j] != 0.0:
        best, z = curve_top(knots, data, kind, a - b, cz - cd, l, u)
        more, w = curve_top(knots, data, kind, b, cd, lo, hi)
        h, _ = curve(knots, data, kind, z)
        after, _ = curve(knots, data, kind, w)
        return best + more + room, z, w - z, h, after - h
    best, z = curve_top(knots, data, kind, a, cz, l, u)
    h, _ = curve(knots, data, kind, z)
    top, d, e = -np.inf, 0.0, 0.0
    for corner in range(4):
        m = state[LEAST, j] if corner % 2 == 0 else state[MOST, j]
        at = vl if corner < 2 else vu
        value = (b * m - cd) * at
        if value > top:
            top, d, e = value, at, m * at
    return best + top + abs(b) * data[kind, 7] + room, z, d, h, e


@cached_njit(nogil=True, **OPTIONS)
def shape_all(knots: Floats, data: Floats, states: Floats, pair: bool) -> None:
    """Shape the smooth neurons of several nodes."""
    for i in range(states.shape[0]):
        for j in range(states.shape[2]):
            if states[i, KIND, j] != 0.0:
                shape_neuron(knots, data, states[i], j, pair)


def shapes(kinds: Kinds, state: Floats, *, pair: bool) -> Floats:
    """Return what kernels know of smooth neurons in some nodes, shape (n, `ROWS`, width)."""
    more = np.zeros((len(state), ROWS - FIRST, len(kinds)))
    more[:, KIND - FIRST] = kinds
    found = np.concatenate([state, more], axis=1)
    shape_all(*tables(), found, pair)
    return found
