"""Compiled: one neuron pair, a neuron of N and the member's difference.

A pair is (z, dz), with coefficients ``ah`` and ``ad`` on its ReLU outputs, h and dh, and
multipliers ``cz`` and ``cd`` of the affine maps of z and dz. Its state is ``l <= z <= u``, ``vl <=
dz <= vu``, and the band [-p, q]: outside of it both networks' phases agree.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from leaveout.arrays import Floats
from leaveout.compiling import Function, subroutine

OPTIONS: dict[str, Any] = {
    # Sums may be reordered, which the rounding bound covers; NaN and infinities keep their meaning.
    "fastmath": {"reassoc", "contract", "nsz"},
    "error_model": "numpy",
}


def jit_function(function: Function) -> Function:
    """Compile a function for use in passes; plain Python elsewhere."""
    return subroutine(function, OPTIONS)


def jit_inline(function: Function) -> Function:
    """Compile a function for use in passes, as part of whatever calls it."""
    # By LLVM: if numba puts it there, everything is typed again at each call.
    return subroutine(function, {"forceinline": True, **OPTIONS})


EQUAL_AREAS = 1.0 + 1e-9
"""Areas above a ReLU within this factor count as equal."""


@jit_inline
def best_z(ah: float, cz: float, lo: float, hi: float) -> tuple[float, float]:
    """Return the largest ``ah relu(z) - cz z`` over [lo, hi], and where it is."""
    best = (ah - cz if lo > 0.0 else -cz) * lo
    at = lo
    value = (ah - cz if hi > 0.0 else -cz) * hi
    if value > best:
        best = value
        at = hi
    if lo < 0.0 and hi > 0.0 and best < 0.0:
        best = 0.0
        at = 0.0
    return best, at


@jit_inline
def branches(
    ah: float, ad: float, cz: float, cd: float,
    l: float, u: float, p: float, q: float, vl: float, vu: float, phase: int,
) -> tuple[float, float, float, float, float, float]:  # fmt: skip
    """Return the largest values tied on and off, and where: (on, z, dz, off, z, dz).

    Minus infinity marks an impossible branch. At ``u = -p`` or ``l = q`` one branch suffices; a
    neuron that is always 0 counts as off.
    """
    on, z_on, d_on = -np.inf, 0.0, 0.0
    off, z_off, d_off = -np.inf, 0.0, 0.0
    if phase >= 0 and u > -p:
        on, z_on = best_z(ah, cz, max(l, -p), u)
        d_on = vu if ad > cd else vl
        on += (ad - cd) * d_on
    if phase <= 0 and (l < q or u <= -p):
        off, z_off = best_z(ah, cz, l, min(u, q))
        d_off = vl if cd > 0.0 else vu
        off -= cd * d_off
    return on, z_on, d_on, off, z_off, d_off


@jit_inline
def relu_change(z: float, d: float) -> float:
    """Return ``relu(z + d) - relu(z)`` with an error relative to d, not to z."""
    return max(d, -z) if z > 0.0 else max(z + d, 0.0)


@jit_inline
def at_point(ah: float, ad: float, cz: float, cd: float, z: float, d: float) -> float:
    """Return the value at a point (z, d), with true ReLUs.

    Multipliers equal to coefficients cancel exactly, so that points of equal value compare equal.
    """
    dh = relu_change(z, d)
    change = (ad - cd) * d if dh == d else ad * dh - cd * d
    return (ah - cz if z > 0.0 else -cz) * z + change


@jit_function
def best_pair(
    ah: float, ad: float, cz: float, cd: float,
    l: float, u: float, p: float, q: float, vl: float, vu: float, phase: int, tied: bool,
) -> tuple[float, float, float, float]:  # fmt: skip
    """Return the largest value of a pair, and where: (value, z, dz, dh).

    Pairs with ties use the better branch. Otherwise the pair is piecewise linear in (z, dz), so a
    corner of the rectangle and the lines z = 0, z + dz = 0 is best.
    """
    if tied or phase != 0 or l >= q or u <= -p:
        on, z_on, d_on, off, z_off, d_off = branches(ah, ad, cz, cd, l, u, p, q, vl, vu, phase)
        if on > off:
            return on, z_on, d_on, d_on
        return off, z_off, d_off, 0.0
    if ad == 0.0 and cd == 0.0:
        best, z = best_z(ah, cz, l, u)
        return best, z, vl, relu_change(z, vl)
    best, z, d = -np.inf, l, vl
    for side in range(2):
        # Along the edge with this dz: both ends, and the kinks of both ReLUs.
        edge = vl if side == 0 else vu
        for corner in range(4):
            at = l if corner == 0 else u
            if corner == 2:
                at = min(max(0.0, l), u)
            elif corner == 3:
                at = min(max(-edge, l), u)
            value = at_point(ah, ad, cz, cd, at, edge)
            if value > best:
                best, z, d = value, at, edge
        # Along the edge with this z: the kink of the second ReLU.
        at = l if side == 0 else u
        edge = min(max(-at, vl), vu)
        value = at_point(ah, ad, cz, cd, at, edge)
        if value > best:
            best, z, d = value, at, edge
    if l < 0.0 < u and vl < 0.0 < vu and best < 0.0:
        best, z, d = 0.0, 0.0, 0.0
    return best, z, d, relu_change(z, d)


@jit_function
def slope(a: float, lo: float, hi: float) -> float:
    """Return a slope above ``a relu(z)``: the chord's, or the better of 0 and 1."""
    if lo >= 0.0:
        return 1.0
    if hi <= 0.0:
        return 0.0
    if a > 0.0:
        return hi / (hi - lo)
    # For equal areas the choice must not depend on how the bounds were rounded.
    return 1.0 if hi > -lo * EQUAL_AREAS else 0.0


@jit_function
def rule(
    ah: float, ad: float,
    l: float, u: float, p: float, q: float, vl: float, vu: float, phase: int, tied: bool,
) -> tuple[float, float]:  # fmt: skip
    """Return default multipliers (cz, cd) of a pair; any others are valid too.

    A difference much smaller than z is bounded directly; where one of the ReLUs is linear, each is
    bounded separately.
    """
    can_on = phase >= 0 and u > -p
    can_off = phase <= 0 and (l < q or u <= -p)
    if can_on and can_off and phase == 0 and not tied:
        lo, hi = l + vl, u + vu
        if l >= 0.0 or u <= 0.0 or lo >= 0.0 or hi <= 0.0:
            second = ad * slope(ad, lo, hi)
            return (ah - ad) * slope(ah - ad, l, u) + second, second
    cz = ah * slope(ah, l if can_off else max(l, -p), u if can_on else min(u, q))
    if not can_off:
        cd = ad
    elif not can_on:
        cd = 0.0
    elif vl >= 0.0:
        cd = max(ad, 0.0)
    elif vu <= 0.0:
        cd = min(ad, 0.0)
    elif ad > 0.0:
        cd = ad * vu / (vu - vl)
    else:
        cd = ad * -vl / (vu - vl)
    return cz, cd


CUTS = 512  # most half-spaces of tied phases

ROUNDS = 3
"""Most half-spaces added to one form."""

SORTED = 64  # steps up to this many are sorted; more are only parted around the one that is sought

UNDERFLOW = 1e-100
"""Values below 0 by no more may be so by underflow alone."""

FLAT = 1e-4
"""Half-spaces violated by a smaller share of their width do not count as violated.

Boxes are cut to half-spaces, so that their corners violate these only by rounding.
"""

CANCELLED = 1e-6
"""Slopes whose terms cancel down to this share count as 0, at their largest possible error."""


class Cuts(NamedTuple):
    """Half-spaces ``row x + shift >= 0`` that contain all relevant points."""

    rows: Floats  # shape (most, inputs)
    shift: Floats  # shape (most,)
    pads: Floats  # shape (most,)
    width: Floats  # shape (most,)
    count: Any  # shape (1,): how many there are
    x: Floats  # shape (inputs,): work space
    order: Any  # shape (inputs,): work space
    at: Floats  # shape (inputs,): work space
    form: Floats  # shape (inputs,): work space


@jit_function
def no_cuts(most: int, inputs: int) -> Any:
    """Return empty storage for half-spaces."""
    return Cuts(
        np.zeros((most, inputs)), np.zeros(most), np.zeros(most), np.zeros(most),
        np.zeros(1, np.int64), np.zeros(inputs), np.zeros(inputs, np.int64), np.zeros(inputs),
        np.zeros(inputs),
    )  # fmt: skip


@jit_function
def add_cut(cuts: Any, row: Floats, shift: float, pad: float, lower: Floats, upper: Floats) -> None:
    """Add a half-space unless it contains the whole box, or there is no room."""
    c = cuts.count[0]
    if c == len(cuts.shift):
        return
    least, width = shift, 0.0
    for i in range(len(lower)):
        cuts.rows[c, i] = row[i]
        least += row[i] * (lower[i] if row[i] > 0.0 else upper[i])
        width += abs(row[i]) * (upper[i] - lower[i])
    if least >= 0.0:
        return
    cuts.shift[c], cuts.pads[c], cuts.width[c] = shift, pad, width
    cuts.count[0] = c + 1


@jit_function
def over_box(form: Floats, constant: float, lower: Floats, upper: Floats) -> float:
    """Return the maximum of ``form x + constant`` over the box."""
    value = constant
    for i in range(len(lower)):
        value += form[i] * (upper[i] if form[i] > 0.0 else lower[i])
    return value


@jit_function
def turning_step(
    at: Floats, order: Any, found: int, row: Floats, lower: Floats, upper: Floats,
    slope: float, enough: float,
) -> tuple[float, float]:  # fmt: skip
    """Return the first of some steps at which the slope is ``enough``, or the last; and the slope.

    At each step the slope rises by the width of its input. ``at`` and ``order`` are reordered.
    """
    begin, end, t = 0, found, 0.0
    while end - begin > SORTED:
        first, middle, last = at[begin], at[(begin + end) // 2], at[end - 1]
        pivot = max(min(first, middle), min(max(first, middle), last))
        # Three ranges: below the pivot, equal, above.
        low, o, high, below, equal = begin, begin, end, 0.0, 0.0
        while o < high:
            i = order[o]
            rise = abs(row[i]) * (upper[i] - lower[i])
            if at[o] < pivot:
                below += rise
                at[o], order[o], at[low], order[low] = at[low], order[low], at[o], i
                low += 1
                o += 1
            elif at[o] > pivot:
                high -= 1
                at[o], order[o], at[high], order[high] = at[high], order[high], at[o], i
            else:
                equal += rise
                o += 1
        if slope + below >= enough:
            end = low
            continue
        slope, t, begin = slope + below + equal, pivot, high
        if slope >= enough:
            return t, slope
    for k in range(begin + 1, end):
        step, i, o = at[k], order[k], k
        while o > begin and at[o - 1] > step:
            at[o], order[o] = at[o - 1], order[o - 1]
            o -= 1
        at[o], order[o] = step, i
    for o in range(begin, end):
        t = at[o]
        slope += abs(row[order[o]]) * (upper[order[o]] - lower[order[o]])
        if slope >= enough:
            break
    return t, slope


@jit_function
def largest(form: Floats, constant: float, lower: Floats, upper: Floats, cuts: Any) -> float:
    """Bound ``form x + constant`` from above over the box and the half-spaces.

    ``form + sum of multiplier * half-space`` is a bound for any multipliers >= 0; in turn, the
    half-space most violated by the maximiser gets its best multiplier.
    """
    value = over_box(form, constant, lower, upper)
    count = cuts.count[0]
    if count == 0:
        return value
    n = len(lower)
    x, order, at, now = cuts.x, cuts.order, cuts.at, cuts.form
    steepest = 0.0
    for i in range(n):
        steepest = max(steepest, abs(form[i]))
    for i in range(n):
        now[i] = form[i]
        if abs(now[i]) <= CANCELLED * steepest:
            # Rounding errors of cancelled terms must not decide where the maximiser is.
            constant += max(now[i] * lower[i], now[i] * upper[i])
            now[i] = 0.0
    best = value
    for _ in range(ROUNDS):
        for i in range(n):
            x[i] = upper[i] if now[i] > 0.0 else lower[i]
        chosen, missed, slope = -1, FLAT, 0.0
        for c in range(count):
            v = cuts.shift[c]
            for i in range(n):
                v += cuts.rows[c, i] * x[i]
            if -v > missed * cuts.width[c]:
                chosen, missed, slope = c, (1.0 + FLAT) * -v / cuts.width[c], v
        if chosen < 0:
            break
        row = cuts.rows[chosen]
        # The form's slopes change sign one at a time.
        found = 0
        for i in range(n):
            if row[i] * (1.0 if now[i] > 0.0 else -1.0) < 0.0 and upper[i] > lower[i]:
                at[found], order[found] = -now[i] / row[i], i
                found += 1
        small = FLAT * cuts.width[chosen]
        t, slope = turning_step(at, order, found, row, lower, upper, slope, -small)
        if slope < -small - UNDERFLOW:
            # The box does not meet the half-space.
            return -np.inf
        constant += t * (cuts.shift[chosen] + cuts.pads[chosen])
        for i in range(n):
            moved = now[i] + t * row[i]
            if abs(moved) <= CANCELLED * abs(now[i]):
                constant += max(moved * lower[i], moved * upper[i])
                moved = 0.0
            now[i] = moved
        value = over_box(now, constant, lower, upper)
        # Overflowing multipliers prove nothing.
        if -np.inf < value < best:
            best = value
    return best


@jit_function
def remember(known: Floats, place: int, row: Floats, shift: float, pad: float) -> None:
    """Keep a form's bound for descendants, if there is room."""
    if place < known.shape[0]:
        inputs = known.shape[1] - 2
        for i in range(inputs):
            known[place, i] = row[i]
        known[place, inputs], known[place, inputs + 1] = shift, pad


@jit_function
def recall(
    rows: Any, known: Floats, cut: float, warm: bool, lower: Floats, upper: Floats, cuts: Any
) -> None:
    """Start from the ancestors' kept bounds: goals exceed the cut, conditions are >= 0."""
    cuts.count[0] = 0
    if not warm:
        return
    count, inputs = len(rows.goal), known.shape[1] - 2
    for place in range(min(known.shape[0], count + len(rows.sums))):
        least = 0.0
        if place < count:
            least += cut if rows.goal[place] else 0.0
        else:
            k, o = rows.sums[place - count]
            least += (cut if rows.goal[k] else 0.0) + (cut if rows.goal[o] else 0.0)
        shift = known[place, inputs] - least
        add_cut(cuts, known[place], shift, known[place, inputs + 1], lower, upper)
