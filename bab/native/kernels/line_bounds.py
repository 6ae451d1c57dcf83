"""Compiled: multipliers that follow their pairs' coefficients, and dual slopes.

A multiplier is a slope times the pair's coefficient plus an offset (`docs/native.md`). ``lines``
holds the slope of z, that of z + dz, and both offsets of every neuron.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from leaveout.arrays import Floats
from leaveout.bab.native.kernels.curve_tables import (
    APART,
    DOWN,
    DOWN_D,
    FIRST,
    GAP,
    GAP_D,
    KIND,
    LEAST,
    MOST,
    UP,
    UP_D,
)
from leaveout.bab.native.kernels.curves import curve_pair
from leaveout.bab.native.kernels.neuron_bounds import clear, through
from leaveout.bab.native.kernels.pair_bounds import (
    best_pair,
    best_z,
    branches,
    jit_function,
    jit_inline,
)

EVEN = 1e-6
"""Values that differ by a smaller share of their terms count as equal."""

NOISE = 1e-9
"""Slopes this small relative to the sums they come from count as 0: Adam ignores magnitude."""


@jit_inline
def line(a: float, lo: float, hi: float, chosen: float) -> float:
    """Return the slope of a line above ``a relu(z)``: the chord, or the chosen one."""
    if lo >= 0.0:
        return 1.0
    if hi <= 0.0:
        return 0.0
    return hi / (hi - lo) if a > 0.0 else chosen


@jit_function
def usual(state: Floats, phase: Any, lines: Floats) -> None:
    """Set slopes to the better of 0 and 1, and offsets to 0."""
    for j in range(lines.shape[1]):
        l, u, p, q = state[0, j], state[1, j], state[2, j], state[3, j]
        lo = max(l, -p) if phase[j] > 0 or l >= q else l
        hi = min(u, q) if phase[j] < 0 or u <= -p else u
        lines[0, j] = 1.0 if hi > -lo else 0.0
        lines[1, j] = 1.0 if u + state[5, j] > -(l + state[4, j]) else 0.0
        lines[2, j] = 0.0
        lines[3, j] = 0.0


@jit_function
def along_curve(
    net: Any, state: Floats, j: int, a: float, b: float, lines: Floats, cz: Floats, cd: Floats,
    slopes: Floats, pair: bool,
) -> float:  # fmt: skip
    """Do the work of `by_lines` for a smooth neuron; return what it costs."""
    apart = pair and state[APART, j] != 0.0
    s = state[UP, j] if (a - b if apart else a) > 0.0 else state[DOWN, j]
    t = state[UP_D, j] if b > 0.0 else state[DOWN_D, j]
    slopes[0, j], slopes[1, j], slopes[2, j] = s, t - s if apart else 0.0, t
    slopes[3, j], slopes[4, j] = 0.0, 0.0
    z = s * a + slopes[1, j] * b + lines[2, j]
    cz[j] = np.float64(np.float32(z))
    if pair:
        cd[j] = np.float64(np.float32(t * b + lines[3, j]))
    best, _, _, _, _ = curve_pair(net.knots, net.curves, state, j, a, b, cz[j], cd[j], pair)
    return best


@jit_function
def by_lines(
    net: Any, own: Any, members: Any, state: Floats, phase: Any, bottom: int, size: Floats,
    lines: Floats, cz: Floats, cd: Floats, ah: Floats, ad: Floats, slopes: Floats, pair: bool,
) -> tuple[float, float]:  # fmt: skip
    """Bound a combination of scores by float32 multipliers that follow lines.

    Leaves the multipliers, and in ``slopes`` their change by a unit of each pair's coefficients and
    chosen slopes.
    """
    inputs, starts, first = net.inputs, net.starts, net.first
    weights, bias, rough, rough_d = own
    centre, radius, shift, slack, exact = members
    last = len(starts) - 2
    clear(ah)
    clear(ad)
    constant, magnitude = 0.0, 0.0
    bent = state.shape[0] > FIRST
    for k in range(last, -1, -1):
        if k < last:
            for j in range(starts[k], starts[k + 1]):
                a, b = ah[inputs + j], ad[inputs + j]
                if bent and state[KIND, j] != 0.0:
                    constant += along_curve(net, state, j, a, b, lines, cz, cd, slopes, pair)
                    continue
                l, u, p, q = state[0, j], state[1, j], state[2, j], state[3, j]
                vl, vu = state[4, j], state[5, j]
                can_on = phase[j] >= 0 and u > -p
                can_off = phase[j] <= 0 and (l < q or u <= -p)
                lo, hi = l + vl, u + vu
                if (
                    pair and can_on and can_off and phase[j] == 0 and k <= bottom
                    and (l >= 0.0 or u <= 0.0 or lo >= 0.0 or hi <= 0.0)
                ):  # fmt: skip
                    s = line(a - b, l, u, lines[0, j])
                    t = line(b, lo, hi, lines[1, j])
                    slopes[0, j], slopes[1, j], slopes[2, j] = s, t - s, t
                    slopes[3, j] = a - b if a < b and l < 0.0 < u else 0.0
                    slopes[4, j] = b if b < 0.0 and lo < 0.0 < hi else 0.0
                else:
                    lo, hi = l if can_off else max(l, -p), u if can_on else min(u, q)
                    s = line(a, lo, hi, lines[0, j])
                    if not can_off:
                        t = 1.0
                    elif not can_on:
                        t = 0.0
                    elif vl >= 0.0:
                        t = 1.0 if b > 0.0 else 0.0
                    elif vu <= 0.0:
                        t = 0.0 if b > 0.0 else 1.0
                    else:
                        t = (vu if b > 0.0 else -vl) / (vu - vl)
                    slopes[0, j], slopes[1, j], slopes[2, j] = s, 0.0, t
                    slopes[3, j] = a if a < 0.0 and lo < 0.0 < hi else 0.0
                    slopes[4, j] = 0.0
                z = slopes[0, j] * a + slopes[1, j] * b + lines[2, j]
                cz[j] = np.float64(np.float32(z))
                if pair:
                    cd[j] = np.float64(np.float32(slopes[2, j] * b + lines[3, j]))
                    best, _, _, _ = best_pair(
                        a, b, cz[j], cd[j], l, u, p, q, vl, vu, phase[j], k > bottom
                    )
                else:
                    best, _ = best_z(a, cz[j], lo, hi)
                constant += best
        for j in range(starts[k], starts[k + 1]):
            constant += cz[j] * bias[j]
            magnitude += abs(cz[j]) * rough[j]
            if pair:
                constant += cd[j] * shift[j] + abs(cd[j]) * slack[j]
                magnitude += abs(cd[j]) * rough_d[j]
        for b in range(first[k], first[k + 1]):
            constant += through(
                net, b, starts[k], starts[k + 1], pair, weights, centre, radius, exact,
                size, cz, cd, ah, ad,
            )  # fmt: skip
    return constant, magnitude


@jit_inline
def near(a: float, c: float, lo: float, hi: float, z: float) -> tuple[float, float, float]:
    """Return the largest ``a h - c z``, h = relu(z), and (z, h), ties nearest to z."""
    left, right = -c, a - c
    small = EVEN * (abs(a) + abs(c))
    if hi <= 0.0:
        at = min(max(z, lo), hi) if abs(left) <= small else hi if left > 0.0 else lo
        return left * at, at, 0.0
    if lo >= 0.0:
        at = min(max(z, lo), hi) if abs(right) <= small else hi if right > 0.0 else lo
        return right * at, at, at
    below, above = left * lo, right * hi
    even = EVEN * ((abs(a) + abs(c)) * (hi - lo))
    if max(below, above) <= even:
        at = 0.0
        if z < 0.0 and abs(left) <= small:
            at = max(z, lo)
        elif z > 0.0 and abs(right) <= small:
            at = min(z, hi)
        return max(left * at, right * at), at, max(at, 0.0)
    if abs(below - above) <= even:
        at = min(max(z, lo), hi)
        return max(below, above), at, hi * (at - lo) / (hi - lo)
    if below > above:
        return below, lo, 0.0
    return above, hi, hi


@jit_inline
def end(slope: float, small: float, lo: float, hi: float, d: float) -> float:
    """Return where ``slope d`` is largest over [lo, hi], ties nearest to d."""
    if abs(slope) <= small:
        return min(max(d, lo), hi)
    return hi if slope > 0.0 else lo


@jit_function
def nearest(
    ah: float, ad: float, cz: float, cd: float, z: float, d: float,
    l: float, u: float, p: float, q: float, vl: float, vu: float, phase: int, tied: bool,
) -> tuple[float, float, float, float]:  # fmt: skip
    """Return where a pair is largest, (z, dz, h, dh), ties nearest to (z, d)."""
    if not (tied or phase != 0 or l >= q or u <= -p) and not (ad == 0.0 and cd == 0.0):
        _, at, change, passed = best_pair(ah, ad, cz, cd, l, u, p, q, vl, vu, phase, tied)
        return at, change, max(at, 0.0), passed
    small = EVEN * (abs(ad) + abs(cd))
    on, z_on, h_on, d_on = -np.inf, 0.0, 0.0, 0.0
    off, z_off, h_off, d_off = -np.inf, 0.0, 0.0, 0.0
    if phase >= 0 and u > -p:
        on, z_on, h_on = near(ah, cz, max(l, -p), u, z)
        d_on = end(ad - cd, small, vl, vu, d)
        on += (ad - cd) * d_on
    if phase <= 0 and (l < q or u <= -p):
        off, z_off, h_off = near(ah, cz, l, min(u, q), z)
        d_off = end(-cd, small, vl, vu, d)
        off -= cd * d_off
    even = EVEN * ((abs(ah) + abs(cz)) * (u - l) + (abs(ad) + abs(cd)) * (vu - vl))
    if abs(on - off) <= even and z_on != z_off:
        part = min(max((z - z_off) / (z_on - z_off), 0.0), 1.0)
        # Exact where attained: Adam would turn rounding errors into steps.
        at = min(max(z, min(z_on, z_off)), max(z_on, z_off))
        change = d_off if d_on == d_off else part * d_on + (1.0 - part) * d_off
        return at, change, part * h_on + (1.0 - part) * h_off, part * d_on
    if on > off:
        return z_on, d_on, h_on, d_on
    return z_off, d_off, h_off, 0.0


@jit_inline
def left_of(slope: float, size: float) -> float:
    """Return a slope, or 0 if it may be rounding error of sums of this size."""
    return 0.0 if abs(slope) <= NOISE * size else slope


@jit_function
def along_entries(
    net: Any, b: int, begin: int, end: int, pair: bool, weights: Floats, centre: Floats,
    radius: Floats, exact: bool, size: Floats, cd: Floats, h: Floats, after: Floats,
    gz: Floats, gd: Floats,
) -> None:  # fmt: skip
    """Add the products of a sparse block to ``gz`` and ``gd``, as `along` does."""
    start, offset, source = net.blocks[b, 1], net.blocks[b, 3], net.blocks[b, 4]
    pointers = net.pointers[net.entries[b, 0] :]
    columns = net.columns[net.entries[b, 1] :]
    for j in range(begin, end):
        z, d, r = 0.0, 0.0, 0.0
        for o in range(pointers[j - begin], pointers[j - begin + 1]):
            i = start + columns[o]
            w = weights[offset + o]
            z += w * h[i]
            if pair:
                d += centre[offset + o] * after[i] + w * (after[i] - h[i])
                if not exact:
                    r += radius[offset + o] * h[i]
                    if source != 0:
                        r += radius[offset + o] * size[i - net.inputs]
        gz[j] += z
        gd[j] += d + (r if cd[j] > 0.0 else -r)


@jit_function
def along_rows(
    net: Any, b: int, begin: int, end: int, pair: bool, weights: Floats, centre: Floats,
    radius: Floats, exact: bool, size: Floats, cd: Floats, h: Floats, after: Floats,
    gz: Floats, gd: Floats,
) -> None:  # fmt: skip
    """Add the products of a dense block to ``gz`` and ``gd``, as `along` does."""
    start, width, offset, source = (
        net.blocks[b, 1],
        net.blocks[b, 2],
        net.blocks[b, 3],
        net.blocks[b, 4],
    )
    h, after = h[start : start + width], after[start : start + width]
    for j in range(begin, end, 2):
        # Two rows at a time, so that activations are read once; the last may be read twice.
        o = min(j + 1, end - 1)
        v = weights[offset + (j - begin) * width : offset + (j - begin + 1) * width]
        w = weights[offset + (o - begin) * width : offset + (o - begin + 1) * width]
        z, y, d, e = 0.0, 0.0, 0.0, 0.0
        if not pair:
            for i in range(width):
                z += v[i] * h[i]
                y += w[i] * h[i]
        else:
            p = centre[offset + (j - begin) * width : offset + (j - begin + 1) * width]
            q = centre[offset + (o - begin) * width : offset + (o - begin + 1) * width]
            for i in range(width):
                z += v[i] * h[i]
                y += w[i] * h[i]
                d += p[i] * after[i] + v[i] * (after[i] - h[i])
                e += q[i] * after[i] + w[i] * (after[i] - h[i])
        gz[j] += z
        gd[j] += d
        if o > j:
            gz[o] += y
            gd[o] += e
    if pair and not exact:
        for j in range(begin, end):
            row, r = offset + (j - begin) * width, 0.0
            for i in range(width):
                r += radius[row + i] * h[i]
            if source != 0:
                for i in range(width):
                    r += radius[row + i] * size[start - net.inputs + i]
            gd[j] += r if cd[j] > 0.0 else -r


@jit_function
def along(
    net: Any, own: Any, members: Any, lower: Floats, upper: Floats, state: Floats, phase: Any,
    bottom: int, size: Floats, cz: Floats, cd: Floats, ah: Floats, ad: Floats, slopes: Floats,
    h: Floats, after: Floats, gz: Floats, gd: Floats, pair: bool,
) -> None:  # fmt: skip
    """Write the dual's slopes in all offsets into ``gz`` and ``gd``.

    The point that attains the bound is propagated along the lines: ``h`` and ``after`` hold the
    activations of N and the member there, score entries the scores.
    """
    inputs, starts, first = net.inputs, net.starts, net.first
    weights, bias, rough, rough_d = own
    centre, radius, shift, slack, exact = members
    bent = state.shape[0] > FIRST
    for i in range(inputs):
        h[i] = upper[i] if ah[i] > 0.0 else lower[i]
        after[i] = h[i]
    for k in range(len(starts) - 1):
        for j in range(starts[k], starts[k + 1]):
            gz[j] = bias[j]
            gd[j] = shift[j] + (slack[j] if cd[j] > 0.0 else -slack[j])
        for b in range(first[k], first[k + 1]):
            if net.entries[b, 0] >= 0:
                along_entries(
                    net, b, starts[k], starts[k + 1], pair, weights, centre, radius, exact, size,
                    cd, h, after, gz, gd,
                )  # fmt: skip
                continue
            along_rows(
                net, b, starts[k], starts[k + 1], pair, weights, centre, radius, exact, size,
                cd, h, after, gz, gd,
            )  # fmt: skip
        if k == len(starts) - 2:
            return
        for j in range(starts[k], starts[k + 1]):
            if bent and state[KIND, j] != 0.0:
                _, at, change, passed, e = curve_pair(
                    net.knots, net.curves, state, j, ah[inputs + j], ad[inputs + j], cz[j], cd[j],
                    pair,
                )  # fmt: skip
                gz[j] = left_of(gz[j] - at, rough[j])
                h[inputs + j] = passed + slopes[0, j] * gz[j]
                if pair:
                    gd[j] = left_of(gd[j] - change, rough_d[j])
                    e += slopes[1, j] * gz[j] + slopes[2, j] * gd[j]
                    after[inputs + j] = h[inputs + j] + e
                continue
            if not pair:
                l, u = state[0, j], state[1, j]
                l, u = 0.0 if phase[j] > 0 and l < 0.0 else l, 0.0 if phase[j] < 0 < u else u
                _, at, passed = near(ah[inputs + j], cz[j], l, u, gz[j])
                gz[j] = left_of(gz[j] - at, rough[j])
                h[inputs + j] = passed + slopes[0, j] * gz[j]
                continue
            z, d = gz[j], gd[j]
            at, change, passed, e = nearest(
                ah[inputs + j], ad[inputs + j], cz[j], cd[j], z, d, state[0, j], state[1, j],
                state[2, j], state[3, j], state[4, j], state[5, j], phase[j], k > bottom,
            )  # fmt: skip
            gz[j] = left_of(z - at, rough[j])
            gd[j] = left_of(d - change, rough_d[j])
            h[inputs + j] = passed + slopes[0, j] * gz[j]
            e += slopes[1, j] * gz[j] + slopes[2, j] * gd[j]
            after[inputs + j] = h[inputs + j] + e


SLOPE = 0.3
"""First step size of a slope between 0 and 1."""


@jit_function
def adam(mean: Floats, square: Floats, o: int, slope: float, p1: float, p2: float) -> float:
    """Update the means at ``o`` by a slope; return a step, about 1 for a constant sign."""
    mean[o] = 0.9 * mean[o] + 0.1 * slope
    square[o] = 0.99 * square[o] + 0.01 * slope * slope
    root: float = math.sqrt(square[o] / (1.0 - p2)) + 1e-30
    step: float = mean[o] / (1.0 - p1) / root
    return step


@jit_function
def onto_simplex(v: Floats) -> None:
    """Project onto the probability simplex, in place (Michelot's method)."""
    level = -math.inf
    for _ in range(len(v)):
        total, count = -1.0, 0
        for i in range(len(v)):
            if v[i] > level:
                total += v[i]
                count += 1
        level = total / count
    for i in range(len(v)):
        v[i] = max(v[i] - level, 0.0)


@jit_function
def narrow(number: float) -> float:
    """Round to a float32 number."""
    rounded: float = np.float64(np.float32(number))
    return rounded


@jit_function
def sensitivity(
    net: Any, weights: Floats, state: Floats, size: Floats, ah: Floats, ad: Floats,
    sums: Floats, input_score: Floats,
) -> None:  # fmt: skip
    """Write the relaxation error that each input can remove, per unit of width.

    A pair loses at most its coefficient times its width. Slopes of the dual bound vanish at its
    optimum, so they cannot be used.
    """
    inputs, starts, blocks, first = net.inputs, net.starts, net.blocks, net.first
    layers = len(starts) - 1
    bent = state.shape[0] > FIRST
    for i in range(len(sums)):
        sums[i] = 0.0
    for k in range(layers - 2, -1, -1):
        for j in range(starts[k], starts[k + 1]):
            l, u, p, q = state[0, j], state[1, j], state[2, j], state[3, j]
            curved = bent and state[KIND, j] != 0.0
            if u <= -p and not curved:
                continue
            own, passing = 0.0, 1.0
            if curved:
                turn = state[MOST, j] - state[LEAST, j]
                passing = 0.5 * abs(state[MOST, j] + state[LEAST, j])
                own = abs(ah[inputs + j]) * turn + abs(ad[inputs + j]) * turn * size[j] / max(
                    max(u - l, 1e-300), size[j]
                )
            elif l < q:
                width = max(u - l, 1e-300)
                passing = max(u, 0.0) / width if l < 0.0 else 1.0
                if l < 0.0 < u:
                    own = abs(ah[inputs + j])
                own += abs(ad[inputs + j]) * size[j] / max(width, size[j])
            total = own + sums[inputs + j] * passing
            for b in range(first[k], first[k + 1]):
                start, width_of = blocks[b, 1], blocks[b, 2]
                if net.entries[b, 0] >= 0:
                    pointers = net.pointers[net.entries[b, 0] :]
                    columns = net.columns[net.entries[b, 1] :]
                    for o in range(pointers[j - starts[k]], pointers[j - starts[k] + 1]):
                        sums[start + columns[o]] += total * abs(weights[blocks[b, 3] + o])
                    continue
                row = blocks[b, 3] + (j - starts[k]) * width_of
                for i in range(width_of):
                    sums[start + i] += total * abs(weights[row + i])
    for i in range(inputs):
        input_score[i] = sums[i]


@jit_function
def neuron_scores(
    state: Floats, phase: Any, cz: Floats, cd: Floats, ah: Floats, ad: Floats, neuron_score: Floats
) -> None:
    """Write the gap between each neuron's tied phases; -1 if a split gains nothing."""
    for j in range(len(cz)):
        l, u, p, q = state[0, j], state[1, j], state[2, j], state[3, j]
        neuron_score[j] = -1.0
        if state.shape[0] > FIRST and state[KIND, j] != 0.0:
            neuron_score[j] = abs(ah[j]) * state[GAP, j] + abs(ad[j]) * state[GAP_D, j]
            continue
        if phase[j] == 0 and l < q and u > -p:
            on, _, _, off, _, _ = branches(
                ah[j], ad[j], cz[j], cd[j], l, u, p, q, state[4, j], state[5, j], phase[j]
            )
            neuron_score[j] = abs(on - off)
