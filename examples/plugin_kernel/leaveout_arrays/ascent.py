"""The dual ascent over whole arrays; see `kernels.array_bounds`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from leaveout.bab.forms import Forms
from leaveout.bab.native.kernels.interface import CUT, EMPTY, FARTHEST, OPEN, Batch, Work
from leaveout.bab.native.kernels.line_bounds import EVEN, NOISE, SLOPE
from leaveout_arrays.bounds import (
    Array,
    Cuts,
    Nodes,
    Pair,
    Space,
    affine,
    backward,
    best_pair,
    best_z,
    branches,
    contract,
    over_box,
    reach,
    useful_cuts,
)


class Followed(NamedTuple):
    """Result of multipliers that follow lines, for a combination of scores."""

    cz: Array  # shape (n, hidden): the multipliers, float32 numbers
    cd: Array  # shape (n, hidden): the multipliers, float32 numbers
    ah: Array  # shape (n, sources): coefficients on the sources, and on their differences
    ad: Array  # shape (n, sources): coefficients on the sources, and on their differences
    slopes: Array  # shape (n, 5, hidden)
    constant: Array  # shape (n,)
    magnitude: Array  # shape (n,)


def usual(nodes: Nodes) -> Array:
    """Return lines with the better slope of 0 and 1, no offsets: shape (n, 4, hidden)."""
    xp = nodes.space.xp
    l, u, p, q, vl, vu = (nodes.state[:, row] for row in range(6))
    low = xp.where((nodes.phase > 0) | (l >= q), xp.maximum(l, -p), l)
    high = xp.where((nodes.phase < 0) | (u <= -p), xp.minimum(u, q), u)
    lines = nodes.space.full((len(nodes), 4, nodes.layout.hidden), 0.0)
    lines[:, 0] = xp.where(high > -low, 1.0 + 0.0 * u, 0.0)
    lines[:, 1] = xp.where(u + vu > -(l + vl), 1.0 + 0.0 * u, 0.0)
    return lines


def _line(xp: Any, a: Array, lo: Array, hi: Array, chosen: Array) -> Array:
    """Return the slope of a line above ``a relu(z)``: the chord, or the chosen one."""
    across = xp.where(a > 0.0, hi / xp.where(hi > lo, hi - lo, 1.0), chosen)
    return xp.where(lo >= 0.0, 1.0, xp.where(hi <= 0.0, 0.0, across))


def _ends(xp: Any, pair: Pair) -> tuple[Array, Array, Array, Array]:
    """Return whether pairs can be on, and off, and the range of z then."""
    can_on = (pair.phase >= 0) & (pair.u > -pair.p)
    can_off = (pair.phase <= 0) & ((pair.l < pair.q) | (pair.u <= -pair.p))
    lo = xp.where(can_off, pair.l, xp.maximum(pair.l, -pair.p))
    return can_on, can_off, lo, xp.where(can_on, pair.u, xp.minimum(pair.u, pair.q))


def _line_slopes(
    xp: Any, a: Array, b: Array, pair: Pair, lines: Array, differs: bool
) -> list[Array]:
    """Return slopes of lines for coefficients a and b; see `Followed`."""
    l, u, _, _, vl, vu, phase, tied = pair
    can_on, can_off, lo, hi = _ends(xp, pair)
    s, nothing = _line(xp, a, lo, hi, lines[:, 0]), 0.0 * a
    of_s = xp.where((a < 0.0) & (lo < 0.0) & (hi > 0.0), a, 0.0)
    if not differs:
        return [s, nothing, nothing, of_s, nothing]
    t = xp.where(b > 0.0, vu, -vl) / xp.where(vu > vl, vu - vl, 1.0)
    t = xp.where(vu <= 0.0, xp.where(b > 0.0, nothing, 1.0), t)
    t = xp.where(vl >= 0.0, xp.where(b > 0.0, 1.0, nothing), t)
    t = xp.where(can_off, xp.where(can_on, t, 0.0), 1.0)
    lo, hi = l + vl, u + vu
    apart = can_on & can_off & (phase == 0) & ~tied
    apart = apart & ((l >= 0.0) | (u <= 0.0) | (lo >= 0.0) | (hi <= 0.0))
    first, second = _line(xp, a - b, l, u, lines[:, 0]), _line(xp, b, lo, hi, lines[:, 1])
    of_first = xp.where((a < b) & (l < 0.0) & (u > 0.0), a - b, 0.0)
    of_second = xp.where((b < 0.0) & (lo < 0.0) & (hi > 0.0), b, 0.0)
    return [
        xp.where(apart, first, s),
        xp.where(apart, second - first, 0.0),
        xp.where(apart, second, t),
        xp.where(apart, of_first, of_s),
        xp.where(apart, of_second, 0.0),
    ]


def by_lines(nodes: Nodes, lines: Array, cz_top: Array, cd_top: Array, differs: bool) -> Followed:
    """Bound combinations of scores, one per node, by multipliers that follow lines."""
    space, xp, layout = nodes.space, nodes.space.xp, nodes.layout
    shape = (len(nodes), 1, layout.inputs + layout.hidden)
    ah, ad = space.full(shape, 0.0), space.full(shape, 0.0)
    cz, cd = (space.full((len(nodes), layout.hidden), 0.0) for _ in range(2))
    slopes = space.full((len(nodes), 5, layout.hidden), 0.0)
    top = layout.layers - 1
    constant, magnitude = affine(nodes, top, cz_top[:, None], cd_top[:, None], ah, ad)
    for k in range(top - 1, -1, -1):
        at = nodes.rows(k)
        here = slice(layout.inputs + at.start, layout.inputs + at.stop)
        a, b, pair = ah[:, 0, here], ad[:, 0, here], nodes.neurons(at)
        for place, each in enumerate(_line_slopes(xp, a, b, pair, lines[..., at], differs)):
            slopes[:, place, at] = each
        own, across, change = (slopes[:, place, at] for place in range(3))
        cz[:, at] = space.round_to_float32(own * a + across * b + lines[:, 2, at])
        if differs:
            cd[:, at] = space.round_to_float32(change * b + lines[:, 3, at])
            best = best_pair(xp, a, b, cz[:, at], cd[:, at], pair)[0]
        else:
            best = best_z(xp, a, cz[:, at], *_ends(xp, pair)[2:])[0]
        parts = affine(nodes, k, cz[:, None, at], cd[:, None, at], ah, ad)
        constant = constant + parts[0] + best.sum(-1)[:, None]
        magnitude = magnitude + parts[1]
    return Followed(cz, cd, ah[:, 0], ad[:, 0], slopes, constant[:, 0], magnitude[:, 0])


def _within(xp: Any, at: Array, lo: Array, hi: Array) -> Array:
    return xp.minimum(xp.maximum(at, lo), hi)


def _near(
    xp: Any, a: Array, c: Array, lo: Array, hi: Array, z: Array
) -> tuple[Array, Array, Array]:
    """Return the largest ``a h - c z``, h = relu(z), and (z, h), ties nearest to z."""
    left, right, size = -c, a - c, abs(a) + abs(c)
    even_left, even_right = abs(left) <= EVEN * size, abs(right) <= EVEN * size
    inside = _within(xp, z, lo, hi)
    off = xp.where(even_left, inside, xp.where(left > 0.0, hi, lo))
    on = xp.where(even_right, inside, xp.where(right > 0.0, hi, lo))
    below, above, even = left * lo, right * hi, EVEN * (size * (hi - lo))
    bend = xp.where((z > 0.0) & even_right, xp.minimum(z, hi), 0.0)
    bend = xp.where((z < 0.0) & even_left, xp.maximum(z, lo), bend)
    chord = hi * (inside - lo) / xp.where(hi > lo, hi - lo, 1.0)
    value, at = xp.maximum(below, above), xp.where(below > above, lo, hi)
    passed = at.clip(0.0, None)
    level = abs(below - above) <= even
    at, passed = xp.where(level, inside, at), xp.where(level, chord, passed)
    low = value <= even
    value = xp.where(low, xp.maximum(left * bend, right * bend), value)
    at, passed = xp.where(low, bend, at), xp.where(low, bend.clip(0.0, None), passed)
    value = xp.where(lo >= 0.0, right * on, value)
    at, passed = xp.where(lo >= 0.0, on, at), xp.where(lo >= 0.0, on, passed)
    value = xp.where(hi <= 0.0, left * off, value)
    return value, xp.where(hi <= 0.0, off, at), xp.where(hi <= 0.0, 0.0, passed)


def _end(xp: Any, slope: Array, small: Array, lo: Array, hi: Array, d: Array) -> Array:
    """Return where ``slope d`` is largest over [lo, hi], ties nearest to d."""
    far = xp.where(slope > 0.0, hi, lo)
    return xp.where(abs(slope) <= small, _within(xp, d, lo, hi), far)


def _nearest(
    xp: Any, a: Array, b: Array, cz: Array, cd: Array, z: Array, d: Array, pair: Pair
) -> tuple[Array, Array, Array, Array]:
    """Return where pairs are largest, (z, dz, h, dh), ties nearest to (z, d)."""
    l, u, p, q, vl, vu, phase, tied = pair
    small = EVEN * (abs(b) + abs(cd))
    can_on, can_off = _ends(xp, pair)[:2]
    on, z_on, h_on = _near(xp, a, cz, xp.maximum(l, -p), u, z)
    d_on = _end(xp, b - cd, small, vl, vu, d)
    on = xp.where(can_on, on + (b - cd) * d_on, -xp.inf)
    off, z_off, h_off = _near(xp, a, cz, l, xp.minimum(u, q), z)
    d_off = _end(xp, -cd, small, vl, vu, d)
    off = xp.where(can_off, off - cd * d_off, -xp.inf)
    even = EVEN * ((abs(a) + abs(cz)) * (u - l) + (abs(b) + abs(cd)) * (vu - vl))
    # How much of what is on, and of what is off, is taken.
    span = xp.where(z_on != z_off, z_on - z_off, 1.0)
    level = (abs(on - off) <= even) & (z_on != z_off)
    part = xp.where(on > off, 1.0 + 0.0 * on, 0.0)
    part = xp.where(level, ((z - z_off) / span).clip(0.0, 1.0), part)

    def interpolate(one: Array, other: Array) -> Array:
        """Return the point between two, exact at either end."""
        both = part * one + (1.0 - part) * other
        return xp.where(part == 1.0, one, xp.where(part == 0.0, other, both))

    # What is met is met exactly: Adam would make steps of what rounding leaves.
    between = _within(xp, z, xp.minimum(z_on, z_off), xp.maximum(z_on, z_off))
    two = (
        xp.where(level, between, interpolate(z_on, z_off)),
        xp.where(d_on == d_off, d_off, interpolate(d_on, d_off)),
        interpolate(h_on, h_off),
        interpolate(d_on, 0.0 * d_on),
    )
    _, at, change, passed = best_pair(xp, a, b, cz, cd, pair)
    either = tied | (phase != 0) | (l >= q) | (u <= -p) | ((b == 0.0) & (cd == 0.0))
    one = (at, change, at.clip(0.0, None), passed)
    z, d, h, dh = (xp.where(either, x, y) for x, y in zip(two, one, strict=True))
    return z, d, h, dh


def _left_of(xp: Any, slope: Array, size: Array) -> Array:
    """Return slopes, with 0 where they are only rounding of sums of this size."""
    return xp.where(abs(slope) <= NOISE * size, 0.0, slope)


def along(
    nodes: Nodes, found: Followed, cd_top: Array, differs: bool
) -> tuple[Array, Array, Array]:
    """Return slopes of the dual in all offsets, and the x that attains the bound.

    That point is propagated along the lines; score entries hold the scores there. Shapes (n,
    outputs), (n, outputs), (n, inputs).
    """
    space, xp, layout = nodes.space, nodes.space.xp, nodes.layout
    inputs = layout.inputs
    cd = xp.concatenate([found.cd, cd_top], -1)
    gz = nodes.bias + 0.0 * nodes.shift
    gd = nodes.shift + xp.where(cd > 0.0, nodes.slack, -nodes.slack)
    h = space.full((len(nodes), inputs + layout.hidden), 0.0)
    h[:, :inputs] = xp.where(found.ah[:, :inputs] > 0.0, nodes.upper, nodes.lower)
    x, after = h[:, :inputs], 1.0 * h
    for k in range(layout.layers):
        at = nodes.rows(k)
        for b, (layer, start, width, _, source) in enumerate(nodes.blocks):
            if layer != k:
                continue
            onto = slice(start, start + width)
            was, now = h[:, onto], after[:, onto]
            gz[:, at] += was @ nodes.weight[b].T
            if not differs:
                continue
            wide = was
            if source:
                wide = was + nodes.size[:, start - inputs : start - inputs + width]
                gd[:, at] += (now - was) @ nodes.weight[b].T
            gd[:, at] += (nodes.centre[b] @ now[..., None])[..., 0]
            wide = (nodes.radius[b] @ wide[..., None])[..., 0]
            gd[:, at] += xp.where(cd[:, at] > 0.0, wide, -wide)
        if k == layout.layers - 1:
            break
        here = slice(inputs + at.start, inputs + at.stop)
        a, cz, pair, z = found.ah[:, here], found.cz[:, at], nodes.neurons(at), gz[:, at]
        own, across, change = (found.slopes[:, place, at] for place in range(3))
        if not differs:
            lo = xp.where((pair.phase > 0) & (pair.l < 0.0), 0.0, pair.l)
            hi = xp.where((pair.phase < 0) & (pair.u > 0.0), 0.0, pair.u)
            _, where, passed = _near(xp, a, cz, lo, hi, z)
            gz[:, at] = _left_of(xp, z - where, nodes.rough[at])
            h[:, here] = passed + own * gz[:, at]
            continue
        where, move, passed, dh = _nearest(
            xp, a, found.ad[:, here], cz, found.cd[:, at], z, gd[:, at], pair
        )
        gz[:, at] = _left_of(xp, z - where, nodes.rough[at])
        gd[:, at] = _left_of(xp, gd[:, at] - move, nodes.rough_d[at])
        h[:, here] = passed + own * gz[:, at]
        after[:, here] = h[:, here] + dh + across * gz[:, at] + change * gd[:, at]
    return gz, gd, x


class Rows(NamedTuple):
    """The forms of each node's case: n nodes with equal numbers of rows.

    Attributes
    ----------
    inputs : array of float64, shape (n, rows, inputs)
    scores, change : array of float64, shape (n, rows, scores)
    constant, sizes : array of float64, shape (n, rows)
        With evaluation errors.
    goal, there : array of bool, shape (n, rows)
        Whether a row is a goal; whether the case has so many.
    sums : array of int64, shape (n, sums, 2)
    summed : array of bool, shape (n, sums)
        Whether the case has so many sums.
    """

    inputs: Array
    scores: Array
    change: Array
    constant: Array
    sizes: Array
    goal: Array
    there: Array
    sums: Array
    summed: Array


def gather_forms(space: Space, forms: Forms, batch: Batch) -> Rows:
    """Return the forms of nodes side by side."""
    case, width = batch.case, batch.share.shape[1]
    first, end = forms.starts[case, None], forms.starts[case + 1, None]
    place = first + np.arange(width)
    there = place < end
    place = np.minimum(place, end - 1)
    most = int(np.diff(forms.sum_starts).max(initial=0))
    first, end = forms.sum_starts[case, None], forms.sum_starts[case + 1, None]
    at = first + np.arange(most)
    summed = at < end
    sums = np.zeros((len(case), most, 2), np.int64)
    if len(forms.sums):
        sums = np.where(summed[..., None], forms.sums[np.minimum(at, len(forms.sums) - 1)], 0)
    mask = there[..., None]
    arrays = (
        np.where(mask, forms.inputs[place], 0.0),
        np.where(mask, forms.scores[place], 0.0),
        np.where(mask, forms.change[place], 0.0),
        np.where(there, forms.constant[place] + batch.errors, 0.0),
        np.where(there, forms.sizes[place] + batch.errors, 0.0),
        there & forms.goal[place],
        there,
        sums,
        summed,
    )
    return Rows(*(space.put(each) for each in arrays))


def recall(nodes: Nodes, rows: Rows, known: Array, cut: Array, warm: Array) -> Cuts:
    """Start from the ancestors' kept bounds: goals exceed the cut, conditions are >= 0."""
    space, inputs = nodes.space, nodes.layout.inputs
    goals = space.xp.where(rows.goal, cut[:, None], 0.0)
    pairs = space.pick(goals, rows.sums[..., 0]) + space.pick(goals, rows.sums[..., 1])
    place, there = _places(space, rows, known.shape[1])
    least = space.pick(space.xp.concatenate([goals, pairs], -1), place)
    shift = known[..., inputs] - least
    return useful_cuts(
        nodes, known[..., :inputs], shift, known[..., inputs + 1], there & warm[:, None]
    )


def _places(space: Space, rows: Rows, most: int) -> tuple[Array, Array]:
    """Return where kept entries lie among all rows and then sums, and which exist."""
    xp, width = space.xp, rows.goal.shape[1]
    count, sums = rows.there.sum(-1)[:, None], rows.summed.sum(-1)[:, None]
    place = space.put(np.arange(most)) + 0 * count
    there = place < count + sums
    return xp.where(there, xp.where(place < count, place, place - count + width), 0), there


def form(
    nodes: Nodes, rows: Rows, given: dict[str, Array], fine: Array
) -> tuple[Array, Array, Array, Array]:
    """Contract regions by linear forms, and blend these for a start.

    Above the cut, every goal exceeds it, and conditions are >= 0. Returns statuses, values of
    closed nodes, what children keep, and starting multipliers.
    """
    space, xp, every, cut = nodes.space, nodes.space.xp, nodes.every, given["cut"]
    count, width = rows.goal.shape
    lines, constant, pads = _lines(nodes, rows.inputs, rows.scores, rows.change, rows)
    # What was kept above may have cut away what is not above the cut.
    status = xp.where(fine, OPEN, xp.where(given["warm"], CUT, EMPTY))
    value = xp.where(status == CUT, cut, -xp.inf)
    best, least = space.put(np.zeros(count, np.int64)), space.full((count,), np.inf)
    for k in range(width):
        goal, there = rows.goal[:, k], rows.there[:, k]
        threshold = xp.where(goal, cut, 0.0)
        found = reach(nodes, lines[:, k], constant[:, k])
        lost = (status == OPEN) & there & (found - threshold < -1e-9 * (1.0 + abs(threshold)))
        # Rows before this one may have cut some away, though none above the cut.
        value = xp.where(lost, xp.where(goal, xp.maximum(found, cut), cut), value)
        status = xp.where(lost, xp.where(goal, CUT, EMPTY), status)
        contract(nodes, lines[:, k], found - threshold, (status == OPEN) & there)
        better = goal & (found < least)
        best, least = xp.where(better, k, best), xp.where(better, found, least)
    pairs = _sums(nodes, rows)
    for p in range(rows.summed.shape[1]):
        there = rows.summed[:, p]
        line, shift = pairs[0][:, p], pairs[1][:, p]
        goals = rows.goal[every, rows.sums[:, p, 0]], rows.goal[every, rows.sums[:, p, 1]]
        threshold = xp.where(goals[0], cut, 0.0) + xp.where(goals[1], cut, 0.0)
        found = reach(nodes, line, shift)
        lost = (status == OPEN) & there & (found - threshold < -1e-9 * (1.0 + abs(threshold)))
        value = xp.where(lost, cut, value)
        status = xp.where(lost, xp.where(goals[0] | goals[1], CUT, EMPTY), status)
        contract(nodes, line, found - threshold, (status == OPEN) & there)
    share, blended = _blend_lines(nodes, rows, lines, constant, best)
    mine = lines[every, best], constant[every, best]
    one = space.eye(width)
    for p in range(rows.summed.shape[1]):
        k, o = rows.sums[:, p, 0], rows.sums[:, p, 1]
        goals = rows.goal[every, k], rows.goal[every, o]
        unit = 1.0 + 0.0 * least
        half = xp.where(goals[0] & goals[1], 0.5 * unit, unit)
        line, shift = half[:, None] * pairs[0][:, p], half * pairs[1][:, p]
        t, found = _blend(nodes, mine, (line, shift), unit, unit)
        chosen = rows.summed[:, p] & (goals[0] | goals[1]) & (found <= blended)
        blended = xp.where(chosen, found, blended)
        far = (t * half)[:, None]
        tried = (1.0 - t)[:, None] * one[best] + far * (one[k] + one[o])
        share = xp.where(chosen[:, None], tried, share)
    kept = [xp.concatenate(each, 1) for each in zip((lines, constant, pads), pairs, strict=True)]
    place, there = _places(space, rows, given["known"].shape[1])
    numbers = [space.pick(each, place)[..., None] for each in kept[1:]]
    known = xp.concatenate([kept[0][every[:, None], place], *numbers], -1)
    there = there & (status == OPEN)[:, None]
    known = xp.where(there[..., None], known, given["known"])
    return status, value, known, settle(nodes, rows, share)


def _lines(
    nodes: Nodes, inputs: Array, scores: Array, change: Array, rows: Rows
) -> tuple[Array, Array, Array]:
    """Bound forms by linear ones: rows, constants with pads, and pads."""
    ah, constant, magnitude = backward(nodes, nodes.layout.layers - 1, scores, change)
    pads = nodes.unit * (magnitude + rows.sizes)
    return ah[..., : nodes.layout.inputs] + inputs, constant + rows.constant + pads, pads


def _sums(nodes: Nodes, rows: Rows) -> tuple[Array, Array, Array]:
    """Bound the sums of two forms that each case considers."""
    at, k, o = nodes.every[:, None], rows.sums[..., 0], rows.sums[..., 1]

    def both(values: Array) -> Array:
        return values[at, k] + values[at, o]

    summed = rows._replace(constant=both(rows.constant), sizes=both(rows.sizes))
    return _lines(nodes, both(rows.inputs), both(rows.scores), both(rows.change), summed)


def _blend_lines(
    nodes: Nodes, rows: Rows, lines: Array, constant: Array, best: Array
) -> tuple[Array, Array]:
    """Blend in one linear form after another; return multipliers and the value there."""
    space, xp, every = nodes.space, nodes.space.xp, nodes.every
    share = space.eye(rows.goal.shape[1])[best]
    joined, shift = lines[every, best], constant[every, best]
    blended = space.full((len(nodes),), np.inf)
    for k in range(rows.goal.shape[1]):
        chosen = rows.there[:, k] & (best != k)
        goal = rows.goal[:, k]
        mixing = xp.where(goal, 1.0 + 0.0 * shift, 0.0 * shift)
        far = xp.where(goal, 1.0 + 0.0 * shift, FARTHEST + 0.0 * shift)
        t, found = _blend(nodes, (joined, shift), (lines[:, k], constant[:, k]), far, mixing)
        t = xp.where(chosen, t, 0.0 * t)
        blended = xp.where(chosen, found, blended)
        keep = 1.0 - mixing * t
        joined = keep[:, None] * joined + t[:, None] * lines[:, k]
        shift = keep * shift + t * constant[:, k]
        share = keep[:, None] * share
        share[:, k] += t
    return share, blended


def _blend(
    nodes: Nodes,
    first: tuple[Array, Array],
    second: tuple[Array, Array],
    most: Array,
    mixing: Array,
) -> tuple[Array, Array]:
    """Find t in [0, most] that roughly minimises ``max (1 - mixing t) first + t second``."""
    xp, low, width = nodes.space.xp, 0.0 * first[1], 1.0 * most

    def at(t: Array) -> Array:
        return (1.0 - mixing * t)[:, None] * first[0] + t[:, None] * second[0]

    for _ in range(22):
        width = 0.5 * width
        ends = xp.where(at(low + width) > 0.0, nodes.upper, nodes.lower)
        bent = second[0] - mixing[:, None] * first[0]
        slope = second[1] - mixing * first[1] + (bent * ends).sum(-1)
        low = xp.where(slope < 0.0, low + width, low)
    constant = (1.0 - mixing * low) * first[1] + low * second[1]
    return low, over_box(xp, at(low), nodes.lower, nodes.upper) + constant


def settle(nodes: Nodes, rows: Rows, share: Array) -> Array:
    """Round multipliers to numbers that a certificate holds exactly.

    Goal multipliers become multiples of 2^-23 that sum to exactly 1, the others float32.
    """
    xp = nodes.space.xp
    goals = xp.where(rows.goal, share, -1.0 + 0.0 * share)
    largest = nodes.space.eye(share.shape[1])[goals.argmax(-1)] > 0.0
    floored = xp.where(rows.goal & ~largest, xp.floor(share * 8388608.0) / 8388608.0, 0.0 * share)
    rest = (1.0 - floored.sum(-1))[:, None]
    return xp.where(
        rows.goal, xp.where(largest, rest, floored), nodes.space.round_to_float32(share)
    )


class Found(NamedTuple):
    """Best multipliers of each node, their value, and the split scores."""

    best: Array
    cz: Array
    cd: Array
    lines: Array
    share: Array
    input_score: Array
    neuron_score: Array


class _Tried(NamedTuple):
    """Some multipliers, and their results."""

    lines: Array
    share: Array
    value: Array
    noise: Array
    top: Array
    found: Followed


def _better(nodes: Nodes, chosen: Array, new: _Tried, old: _Tried) -> _Tried:
    """Take the chosen nodes' multipliers from ``new``."""

    def pick(a: Array, b: Array) -> Array:
        return nodes.space.xp.where(chosen.reshape((-1,) + (1,) * (len(a.shape) - 1)), a, b)

    found = Followed._make(pick(*each) for each in zip(new.found, old.found, strict=True))
    plain = [pick(*each) for each in zip(new[:-1], old[:-1], strict=True)]
    return _Tried._make([*plain, found])


def ascend(
    nodes: Nodes,
    work: Work,
    rows: Rows,
    given: dict[str, Array],
    start: Array,  # shape (n, rows)
    running: Array,
    differs: bool,
) -> Found:
    """Lower the dual values by Adam, from the better of two starts."""
    space, xp, hidden = nodes.space, nodes.space.xp, nodes.layout.hidden
    is_open = running
    adam = _Adam(nodes, 4 * hidden + rows.goal.shape[1])
    now = kept = try_multipliers(nodes, rows, given["lines"], given["share"], differs)
    best = xp.where(running & given["warm"] & (now.value < math.inf), now.value, math.inf)
    scale = space.full((len(nodes), 2, hidden), 0.0)
    lines, share = usual(nodes), start
    for step in range(work.steps + 1):
        now = try_multipliers(nodes, rows, lines, share, differs)
        # Gains that rounding may have made are none.
        better = running & (best - now.value > now.noise)
        best = xp.where(better, now.value, best)
        kept = _better(nodes, better, now, kept)
        running = running & ~(best <= given["stop_at"])
        if step == work.steps or not bool(running.any()):
            break
        if step == 0:
            now = kept
            scale = _scale(nodes, now.found)
        slopes = _slopes(nodes, rows, now, differs)
        left = 1.02 - step / work.steps
        pace = work.rate * left
        parts = adam.step(xp.concatenate(slopes, -1))
        moves = [parts[:, place * hidden : (place + 1) * hidden] for place in range(4)]
        share = _step_forms(nodes, rows, now.share, pace * parts[:, 4 * hidden :])
        lines = 1.0 * now.lines
        lines[:, 0] = (lines[:, 0] - SLOPE * left * moves[2]).clip(0.0, 1.0)
        lines[:, 2] -= pace * scale[:, 0] * moves[0]
        if differs:
            lines[:, 1] = (lines[:, 1] - SLOPE * left * moves[3]).clip(0.0, 1.0)
            lines[:, 3] -= pace * scale[:, 1] * moves[1]
    found, ended = kept.found, is_open[:, None]
    input_score = _sensitivity(nodes, found.ah, found.ad) * (nodes.upper - nodes.lower)
    return Found(
        best,
        xp.where(ended, found.cz, 0.0),
        xp.where(ended, found.cd, 0.0),
        kept.lines,
        kept.share,
        xp.where(ended, input_score, 0.0),
        xp.where(ended, _neuron_score(nodes, found), -1.0),
    )


def try_multipliers(nodes: Nodes, rows: Rows, lines: Array, share: Array, differs: bool) -> _Tried:
    """Bound nodes by given multipliers, as linear forms in x."""
    weight, inputs = share[:, :, None], nodes.layout.inputs
    top = (weight * rows.change).sum(1)
    found = by_lines(nodes, lines, (weight * rows.scores).sum(1), top, differs)
    found.ah[:, :inputs] += (weight * rows.inputs).sum(1)
    noise = nodes.unit * (found.magnitude + (share * rows.sizes).sum(-1))
    shift = found.constant + (share * rows.constant).sum(-1) + noise
    return _Tried(lines, share, reach(nodes, found.ah[:, :inputs], shift), noise, top, found)


def _slopes(nodes: Nodes, rows: Rows, now: _Tried, differs: bool) -> list[Array]:
    """Return slopes of the dual in offsets, chosen slopes, and form multipliers."""
    hidden = nodes.layout.hidden
    gz, gd, x = along(nodes, now.found, now.top, differs)
    over = gz[:, None, hidden:] * rows.scores + gd[:, None, hidden:] * rows.change
    of_share = rows.constant + over.sum(-1) + (rows.inputs * x[:, None, :]).sum(-1)
    own, other = gz[:, :hidden], gd[:, :hidden]
    first, second = now.found.slopes[:, 3], now.found.slopes[:, 4]
    return [own, other, first * own, second * (own + other), of_share]


def _step_forms(nodes: Nodes, rows: Rows, share: Array, move: Array) -> Array:
    """Step multipliers of the forms, keeping several goals on the simplex."""
    xp = nodes.space.xp
    several = (rows.goal.sum(-1) > 1)[:, None] & rows.goal
    simplex = _onto_simplex(xp.where(several, share - move, -1e9))
    condition = rows.there & ~rows.goal
    share = xp.where(several, simplex, share)
    return settle(nodes, rows, xp.where(condition, (share - 0.3 * move).clip(0.0, None), share))


def _scale(nodes: Nodes, found: Followed) -> Array:
    """Return the mean absolute coefficient of each layer, which scales the steps."""
    scale = nodes.space.full((len(nodes), 2, nodes.layout.hidden), 0.0)
    for place, each in enumerate((found.ah, found.ad)):
        for k in range(nodes.layout.layers - 1):
            at = nodes.rows(k)
            here = abs(each[:, nodes.layout.inputs + at.start : nodes.layout.inputs + at.stop])
            scale[:, place, at] = here.mean(-1)[:, None]
    return scale


class _Adam:
    """Running means of slopes and their squares."""

    def __init__(self, nodes: Nodes, width: int) -> None:
        self._xp = nodes.space.xp
        self._mean = nodes.space.full((len(nodes), width), 0.0)
        self._square = nodes.space.full((len(nodes), width), 0.0)
        self._p1 = self._p2 = 1.0

    def step(self, slope: Array) -> Array:
        """Update the means; return steps, about 1 for slopes of constant sign."""
        self._p1, self._p2 = 0.9 * self._p1, 0.99 * self._p2
        self._mean = 0.9 * self._mean + 0.1 * slope
        self._square = 0.99 * self._square + 0.01 * slope * slope
        root = self._xp.sqrt(self._square / (1.0 - self._p2)) + 1e-30
        return self._mean / (1.0 - self._p1) / root


def _onto_simplex(v: Array) -> Array:
    """Project onto the probability simplex (Michelot's method)."""
    level = 0.0 * v[:, :1] - math.inf
    for _ in range(v.shape[1]):
        above = v > level
        level = ((v * above).sum(-1) - 1.0)[:, None] / above.sum(-1)[:, None]
    return (v - level).clip(0.0, None)


def _sensitivity(nodes: Nodes, ah: Array, ad: Array) -> Array:
    """Return the relaxation error each input can remove, per unit of its width."""
    xp, inputs = nodes.space.xp, nodes.layout.inputs
    sums = 0.0 * ah
    for k in range(nodes.layout.layers - 2, -1, -1):
        at = nodes.rows(k)
        here = slice(inputs + at.start, inputs + at.stop)
        l, u, p, q = (nodes.state[:, row, at] for row in range(4))
        width = (u - l).clip(1e-300, None)
        one = 1.0 + 0.0 * l
        passing = xp.where((l < q) & (l < 0.0), u.clip(0.0, None) / width, one)
        own = xp.where((l < 0.0) & (u > 0.0), abs(ah[:, here]), 0.0 * one)
        size = nodes.size[:, at]
        own = xp.where(l < q, own + abs(ad[:, here]) * size / xp.maximum(width, size), 0.0 * one)
        total = xp.where(u <= -p, 0.0 * one, own + sums[:, here] * passing)
        for b, (layer, start, wide, _, _) in enumerate(nodes.blocks):
            if layer == k:
                sums[:, start : start + wide] += total @ abs(nodes.weight[b])
    return sums[:, :inputs]


def _neuron_score(nodes: Nodes, found: Followed) -> Array:
    """Return the gap between a neuron's tied phases; -1 if there is nothing to split."""
    xp, inputs, pair = nodes.space.xp, nodes.layout.inputs, nodes.neurons(slice(None))
    a, b = found.ah[:, inputs:], found.ad[:, inputs:]
    (on, _, _), (off, _, _) = branches(xp, a, b, found.cz, found.cd, pair)
    free = (pair.phase == 0) & (pair.l < pair.q) & (pair.u > -pair.p)
    return xp.where(free, abs(on - off), -1.0)
