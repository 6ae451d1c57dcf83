"""Multipliers that follow lines, over whole arrays; see `kernels.line_bounds`.

Arrays are indexed by node, then by neuron or source.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from leaveout.bab.native.kernels.array_bounds import (
    Array,
    Nodes,
    Pair,
    affine,
    best_pair,
    best_z,
)
from leaveout.bab.native.kernels.line_bounds import EVEN, NOISE


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


def _line_slopes(xp: Any, a: Array, b: Array, pair: Pair, lines: Array, differs: bool) -> list[Array]:
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
