"""Compiled passes over one node: linear bounds of neurons and scores.

Every function works on the flat arrays of `kernels.interface.Layout`; ``docs/native.md`` derives
the results, and ``examples/plugin_kernel`` computes them on whole arrays. ``net``, ``numbers`` and
``members`` are those of `kernels.arguments`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from leaveout.arrays import Floats
from leaveout.bab.native.kernels.curve_tables import FIRST, KIND
from leaveout.bab.native.kernels.curves import by_curve, shape_neuron
from leaveout.bab.native.kernels.pair_bounds import (
    UNDERFLOW,
    add_cut,
    best_pair,
    best_z,
    jit_function,
    jit_inline,
    largest,
    over_box,
    rule,
    slope,
)

EDGE = 1e-9
"""Bounds that cross by at most this relative amount, or by underflow, do not exclude a node."""


@jit_function
def first_tied(starts: Any, phase: Any) -> int:
    """Return the lowest layer with a tied pair, on which pairs above depend."""
    for k in range(len(starts) - 2):
        for j in range(starts[k], starts[k + 1]):
            if phase[j] != 0:
                return k
    return len(starts)


@jit_function
def clear(values: Floats) -> None:
    """Set all values to 0."""
    for i in range(len(values)):
        values[i] = 0.0


@jit_function
def through_entries(
    net: Any, b: int, begin: int, end: int, pair: bool, weights: Floats, centre: Floats,
    radius: Floats, exact: bool, size: Floats, cz: Floats, cd: Floats, ah: Floats, ad: Floats,
) -> float:  # fmt: skip
    """Do the work of `through` for a sparse block."""
    k, start, offset, source = (
        net.blocks[b, 0],
        net.blocks[b, 1],
        net.blocks[b, 3],
        net.blocks[b, 4],
    )
    pointers = net.pointers[net.entries[b, 0] :]
    columns = net.columns[net.entries[b, 1] :]
    cost = 0.0
    for i in range(begin, end):
        c, e = cz[i], cd[i] if pair else 0.0
        if c == 0.0 and e == 0.0:
            continue
        row = i - net.starts[k]
        if e == 0.0:
            for o in range(pointers[row], pointers[row + 1]):
                ah[start + columns[o]] += c * weights[offset + o]
            continue
        for o in range(pointers[row], pointers[row + 1]):
            j = start + columns[o]
            w, d = weights[offset + o], centre[offset + o]
            ah[j] += c * w + e * d
            if source != 0:
                ad[j] += e * (w + d)
            if not exact:
                ah[j] += abs(e) * radius[offset + o]
                if source != 0:
                    cost += abs(e) * radius[offset + o] * size[j - net.inputs]
    return cost


@jit_inline
def next_row(cz: Floats, cd: Floats, pair: bool, i: int, end: int) -> tuple[int, int]:
    """Return the first row from i on with a coefficient, or the end; and where to go on."""
    while i < end and cz[i] == 0.0 and (not pair or cd[i] == 0.0):
        i += 1
    return i, min(i + 1, end)


@jit_function
def through(
    net: Any, b: int, begin: int, end: int, pair: bool, weights: Floats, centre: Floats,
    radius: Floats, exact: bool, size: Floats, cz: Floats, cd: Floats, ah: Floats, ad: Floats,
) -> float:  # fmt: skip
    """Add rows of one block to ``ah`` and ``ad``; return the cost of the radii."""
    inputs, starts, block = net.inputs, net.starts, net.blocks[b]
    k, start, width, offset, source = block[0], block[1], block[2], block[3], block[4]
    cost = 0.0
    if net.entries[b, 0] >= 0:
        return through_entries(
            net, b, begin, end, pair, weights, centre, radius, exact, size, cz, cd, ah, ad
        )
    first, i = offset - starts[k] * width, begin
    while True:
        # Four rows at a time, so that the target is read and written only once.
        o, i = next_row(cz, cd, pair, i, end)
        if o == end:
            break
        p, i = next_row(cz, cd, pair, i, end)
        q, i = next_row(cz, cd, pair, i, end)
        r, i = next_row(cz, cd, pair, i, end)
        c0, c1 = cz[o], cz[p] if p < end else 0.0
        c2, c3 = cz[q] if q < end else 0.0, cz[r] if r < end else 0.0
        p, q, r = min(p, end - 1), min(q, end - 1), min(r, end - 1)
        e0, e1, e2, e3 = 0.0, 0.0, 0.0, 0.0
        if pair:
            e0, e1 = cd[o], cd[p] if p > o else 0.0
            e2, e3 = cd[q] if q > p else 0.0, cd[r] if r > q else 0.0
        o, p, q, r = first + o * width, first + p * width, first + q * width, first + r * width
        w0, w1 = weights[o : o + width], weights[p : p + width]
        w2, w3 = weights[q : q + width], weights[r : r + width]
        target = ah[start : start + width]
        if e0 == 0.0 and e1 == 0.0 and e2 == 0.0 and e3 == 0.0:
            for j in range(width):
                target[j] += c0 * w0[j] + c1 * w1[j] + c2 * w2[j] + c3 * w3[j]
            continue
        d0, d1 = centre[o : o + width], centre[p : p + width]
        d2, d3 = centre[q : q + width], centre[r : r + width]
        for j in range(width):
            target[j] += (c0 * w0[j] + c1 * w1[j] + c2 * w2[j] + c3 * w3[j]) + (
                e0 * d0[j] + e1 * d1[j] + e2 * d2[j] + e3 * d3[j]
            )
        if source != 0:
            target = ad[start : start + width]
            for j in range(width):
                target[j] += (
                    e0 * (w0[j] + d0[j])
                    + e1 * (w1[j] + d1[j])
                    + e2 * (w2[j] + d2[j])
                    + e3 * (w3[j] + d3[j])
                )
    if not pair or exact:
        return cost
    for i in range(begin, end):
        e = cd[i]
        if e != 0.0:
            # h is non-negative, so the widest difference costs |e| radius h + |e| radius |dh|.
            row = first + i * width
            for j in range(width):
                ah[start + j] += abs(e) * radius[row + j]
            if source != 0:
                for j in range(width):
                    cost += abs(e) * radius[row + j] * size[start - inputs + j]
    return cost


@jit_function
def down(
    net: Any, pair: bool, numbers: Any, members: Any, state: Floats, phase: Any, bottom: int,
    size: Floats, top: int, cz: Floats, cd: Floats, ah: Floats, ad: Floats,
) -> tuple[float, float]:  # fmt: skip
    """Propagate coefficients below ``top`` to a linear form in x, left in ``ah[:inputs]``.

    Returns the constant and the magnitude for rounding; multipliers of the `rule` are left behind.
    """
    inputs, starts, first = net.inputs, net.starts, net.first
    weights, bias, rough, rough_d = numbers
    centre, radius, shift, slack, exact = members
    constant = 0.0
    magnitude = 0.0
    bent = state.shape[0] > FIRST
    for k in range(top - 1, -1, -1):
        for j in range(starts[k], starts[k + 1]):
            a, b = ah[inputs + j], ad[inputs + j]
            if bent and state[KIND, j] != 0.0:
                cz[j], cd[j], best = by_curve(state, j, a, b, pair)
                constant += best + cz[j] * bias[j]
                magnitude += abs(cz[j]) * rough[j]
                if pair:
                    constant += cd[j] * shift[j] + abs(cd[j]) * slack[j]
                    magnitude += abs(cd[j]) * rough_d[j]
                continue
            l, u, p, q = state[0, j], state[1, j], state[2, j], state[3, j]
            vl, vu = state[4, j], state[5, j]
            if phase[j] <= 0 and u <= -p:
                # For a pair that is certainly off, or on, the rule costs nothing.
                cz[j], cd[j] = 0.0, 0.0
                continue
            if phase[j] >= 0 and l >= q:
                cz[j], cd[j] = a, b
                constant += cz[j] * bias[j]
                magnitude += abs(cz[j]) * rough[j]
                if pair:
                    constant += cd[j] * shift[j] + abs(cd[j]) * slack[j]
                    magnitude += abs(cd[j]) * rough_d[j]
                continue
            if not pair:
                # The same for N alone, over the range of z.
                lo = max(l, -p) if phase[j] > 0 else l
                hi = min(u, q) if phase[j] < 0 else u
                if a == 0.0:
                    cz[j] = 0.0
                    continue
                cz[j] = a * slope(a, lo, hi)
                best, _ = best_z(a, cz[j], lo, hi)
                constant += best + cz[j] * bias[j]
                magnitude += abs(cz[j]) * rough[j]
                continue
            cz[j], cd[j] = rule(a, b, l, u, p, q, vl, vu, phase[j], k > bottom)
            best, _, _, _ = best_pair(a, b, cz[j], cd[j], l, u, p, q, vl, vu, phase[j], k > bottom)
            constant += best + cz[j] * bias[j] + cd[j] * shift[j] + abs(cd[j]) * slack[j]
            magnitude += abs(cz[j]) * rough[j] + abs(cd[j]) * rough_d[j]
        for b in range(first[k], first[k + 1]):
            constant += through(
                net, b, starts[k], starts[k + 1], pair, weights, centre, radius, exact,
                size, cz, cd, ah, ad,
            )  # fmt: skip
    return constant, magnitude


@jit_function
def backward(
    net: Any, numbers: Any, members: Any, state: Floats, phase: Any, bottom: int, size: Floats,
    top: int, begin: int, end: int, cz: Floats, cd: Floats, ah: Floats, ad: Floats,
    pair: bool,
) -> tuple[float, float]:  # fmt: skip
    """Bound a combination of outputs begin to end of layer ``top``; see `down`.

    Its coefficients are in their slots of ``cz`` and ``cd``; without ``pair``, ``cd`` is not read.
    """
    first = net.first
    weights, bias, rough, rough_d = numbers
    centre, radius, shift, slack, exact = members
    clear(ah)
    clear(ad)
    constant = 0.0
    magnitude = 0.0
    for j in range(begin, end):
        constant += cz[j] * bias[j]
        magnitude += abs(cz[j]) * rough[j]
        if pair:
            constant += cd[j] * shift[j] + abs(cd[j]) * slack[j]
            magnitude += abs(cd[j]) * rough_d[j]
    for b in range(first[top], first[top + 1]):
        constant += through(
            net, b, begin, end, pair, weights, centre, radius, exact, size, cz, cd, ah, ad
        )
    more, size_of = down(
        net, pair, numbers, members, state, phase, bottom, size, top, cz, cd, ah, ad
    )
    return constant + more, magnitude + size_of


@jit_function
def contract(form: Floats, constant: float, cut: float, lower: Floats, upper: Floats) -> bool:
    """Cut the box to where ``form x + constant >= cut`` is possible; return False if nowhere."""
    slack = over_box(form, constant, lower, upper) - cut
    if slack < -1e-9 * (1.0 + abs(cut)):
        return False
    slack = max(slack, 0.0)
    for i in range(len(lower)):
        width = upper[i] - lower[i]
        if abs(form[i]) * width > slack:
            keep = slack / abs(form[i]) * (1.0 + 1e-9) + 1e-9 * width
            # A narrow box far from 0 must not lose a point to the last subtraction.
            keep += 1e-15 * (abs(lower[i]) + abs(upper[i]))
            if keep < width:
                if form[i] > 0.0:
                    lower[i] = upper[i] - keep
                else:
                    upper[i] = lower[i] + keep
    return True


@jit_inline
def is_crossed(low: float, high: float) -> bool:
    """Return whether bounds cross by more than a checker's rounding can explain."""
    if high == -np.inf or low == np.inf:
        return True
    return low - high > EDGE * (abs(low) + abs(high)) + UNDERFLOW


@jit_function
def neuron_form(
    net: Any, numbers: Any, members: Any, unit: float, state: Floats, phase: Any, bottom: int,
    size: Floats, k: int, j: int, side: int, cz: Floats, cd: Floats, ah: Floats, ad: Floats,
) -> tuple[float, float]:  # fmt: skip
    """Leave a bound of z, -z, dz or -dz of a neuron in ``ah``; return its constant and the pad."""
    sign = 1.0 if side % 2 == 0 else -1.0
    pair = side >= 2
    cz[j], cd[j] = (0.0, sign) if pair else (sign, 0.0)
    total, magnitude = backward(
        net, numbers, members, state, phase, bottom, size, k, j, j + 1, cz, cd, ah, ad, pair
    )
    pad = unit * magnitude
    return total + pad, pad


@jit_function
def tighten(
    net: Any, numbers: Any, members: Any, unit: float, lower: Floats, upper: Floats,
    state: Floats, phase: Any, refresh: Any, size: Floats, cz: Floats, cd: Floats, ah: Floats,
    ad: Floats, differs: bool, cuts: Any,
) -> bool:  # fmt: skip
    """Bound the chosen hidden pairs over the box into ``state``; False if the node is empty.

    The band depends on true differences, so it is unchanged above a layer with a tied pair, where
    dz is virtual and earlier bounds of it are not used. The box is contracted to all cuts.
    """
    starts = net.starts
    layers = len(starts) - 1
    bent = state.shape[0] > FIRST
    bottom = first_tied(starts, phase)
    for c in range(cuts.count[0]):
        if not contract(cuts.rows[c], cuts.shift[c], 0.0, lower, upper):
            return False
    for k in range(layers - 1):
        fixed = differs and k > bottom
        known = cuts.count[0]
        for j in range(starts[k], starts[k + 1]):
            if fixed:
                state[4, j], state[5, j] = -np.inf, np.inf
            if phase[j] == 0 or state[0, j] >= state[3, j] or state[1, j] <= -state[2, j]:
                continue
            # A tied phase is a half-space, which cuts the bounds of its whole layer.
            side = 0 if phase[j] > 0 else 1
            total, pad = neuron_form(
                net, numbers, members, unit, state, phase, bottom, size, k, j, side, cz, cd, ah, ad
            )
            least = state[2, j] if side == 0 else state[3, j]
            add_cut(cuts, ah, total + least, pad, lower, upper)
        for c in range(known, cuts.count[0]):
            if not contract(cuts.rows[c], cuts.shift[c], 0.0, lower, upper):
                return False
        for j in range(starts[k], starts[k + 1]):
            stable = state[0, j] >= state[3, j] or state[1, j] <= -state[2, j]
            if bent and state[KIND, j] != 0.0:
                stable = False
            # For a stable pair the known bounds suffice; layer 0 costs next to nothing.
            begin = 0 if (k == 0 or not stable) else (2 if fixed else 4)
            if not (refresh[j] or fixed):
                begin = 4
            for side in range(begin, 4 if differs else 2):
                total, _ = neuron_form(
                    net, numbers, members, unit, state, phase, bottom, size, k, j, side,
                    cz, cd, ah, ad,
                )  # fmt: skip
                value = largest(ah, total, lower, upper, cuts)
                if side == 0:
                    state[1, j] = min(state[1, j], value)
                elif side == 1:
                    state[0, j] = max(state[0, j], -value)
                elif side == 2:
                    state[5, j] = min(state[5, j], value)
                    if not fixed:
                        state[2, j] = min(state[2, j], max(state[5, j], 0.0))
                else:
                    state[4, j] = max(state[4, j], -value)
                    if not fixed:
                        state[3, j] = min(state[3, j], max(-state[4, j], 0.0))
            if is_crossed(state[0, j], state[1, j]) or is_crossed(state[4, j], state[5, j]):
                return False
            for row in (0, 4):
                if state[row, j] > state[row + 1, j]:
                    state[row, j], state[row + 1, j] = state[row + 1, j], state[row, j]
            l, u, p, q = state[0, j], state[1, j], state[2, j], state[3, j]
            if (phase[j] > 0 and is_crossed(-p, u)) or (phase[j] < 0 and is_crossed(l, q)):
                return False
            on = phase[j] >= 0 and u > -p
            size[j] = max(abs(state[4, j]), abs(state[5, j])) if on else 0.0
            if bent and state[KIND, j] != 0.0:
                size[j] = shape_neuron(net.knots, net.curves, state, j, differs)
    return True


@jit_function
def blend(
    first: Floats, first_constant: float, second: Floats, second_constant: float,
    lower: Floats, upper: Floats, most: float, mixing: float,
) -> tuple[float, float]:  # fmt: skip
    """Find t in [0, most] that roughly minimises ``max (1 - mixing t) first + t second``.

    Bisects the slope of this convex function. t is a multiple of ``most / 2^22``, so a float32; the
    value there is also returned.
    """
    low, width = 0.0, most
    for _ in range(22):
        width *= 0.5
        t = low + width
        slope = second_constant - mixing * first_constant
        for i in range(len(lower)):
            x = (1.0 - mixing * t) * first[i] + t * second[i]
            slope += (second[i] - mixing * first[i]) * (upper[i] if x > 0.0 else lower[i])
        if slope < 0.0:
            low = t
    value = (1.0 - mixing * low) * first_constant + low * second_constant
    for i in range(len(lower)):
        x = (1.0 - mixing * low) * first[i] + low * second[i]
        value += x * (upper[i] if x > 0.0 else lower[i])
    return low, value
