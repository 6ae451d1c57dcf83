"""Bounds of a node over whole arrays: the readable form of the compiled passes.

Arrays are indexed by node, then by row (one linear bound each), then by neuron or input. The
derivation is in ``docs/native.md``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from leaveout.bab.native.kernels.array_library import Space
from leaveout.bab.native.kernels.pair_bounds import EQUAL_AREAS
from leaveout.bab.native.layout import Layout

Array = Any
"""An array of the space in use: numpy's or torch's."""


class Pair(NamedTuple):
    """States of neuron pairs, as arrays that broadcast over rows."""

    l: Array
    u: Array
    p: Array
    q: Array
    vl: Array
    vu: Array
    phase: Array
    tied: Array


class Nodes:
    """Some nodes with their numbers gathered in one space."""

    def __init__(
        self,
        space: Space,
        layout: Layout,
        numbers: tuple[Array, ...],
        members: tuple[Array, ...],
        box: tuple[Array, Array],
        state: Array,
        phase: Array,
        unit: float,
    ) -> None:
        self.space, self.layout, self.unit = space, layout, unit
        weights, self.bias, self.rough, self.rough_d = numbers
        centre, radius, self.shift, self.slack = members
        self.lower, self.upper = box
        self.state, self.phase = state, phase
        self.starts = [int(s) for s in layout.starts]
        self.blocks = [tuple(int(v) for v in block) for block in layout.blocks]
        count = len(self.blocks)
        self.weight = [layout.matrix(weights, b) for b in range(count)]
        self.centre = [layout.matrix(centre, b) for b in range(count)]
        self.radius = [layout.matrix(radius, b) for b in range(count)]
        self.changed = [w + d for w, d in zip(self.weight, self.centre, strict=True)]
        self.size = space.full((len(state), layout.hidden), 0.0)
        self.every = space.put(np.arange(len(state)))
        layer = space.put(layout.starts[1:-1].searchsorted(range(layout.hidden), side="right"))
        self.layer = layer
        # The lowest layer with a tied pair; pairs above it depend on the tie.
        untied = len(self.starts)
        self.bottom = (
            space.xp.amin(space.xp.where(phase != 0, layer[None, :], untied), -1)
            if layout.hidden
            else space.full((len(state),), float(untied))
        )

    def __len__(self) -> int:
        return len(self.state)

    def rows(self, layer: int) -> slice:
        """Return the slice of a layer's outputs."""
        return slice(self.starts[layer], self.starts[layer + 1])

    def pair(self, at: slice) -> Pair:
        """Return the states of some hidden neurons, shape (n, 1, neurons)."""
        l, u, p, q, vl, vu = (self.state[:, row, None, at] for row in range(6))
        tied = self.layer[None, at] > self.bottom[:, None]
        return Pair(l, u, p, q, vl, vu, self.phase[:, None, at], tied[:, None, :])

    def neurons(self, at: slice) -> Pair:
        """Return the states of some hidden neurons, shape (n, neurons)."""
        return Pair(*(each[:, 0] for each in self.pair(at)))


def _pick(xp: Any, better: Array, new: tuple[Array, ...], old: tuple[Array, ...]) -> Any:
    """Return the better entries, array by array."""
    return tuple(xp.where(better, a, b) for a, b in zip(new, old, strict=True))


def best_z(xp: Any, ah: Array, cz: Array, lo: Array, hi: Array) -> tuple[Array, Array]:
    """Return the largest ``ah relu(z) - cz z`` over [lo, hi], and where it is."""
    best, at = xp.where(lo > 0.0, ah - cz, -cz) * lo, lo + 0.0 * cz
    value = xp.where(hi > 0.0, ah - cz, -cz) * hi
    best, at = _pick(xp, value > best, (value, hi + 0.0 * cz), (best, at))
    bend = (lo < 0.0) & (hi > 0.0) & (best < 0.0)
    return xp.where(bend, 0.0, best), xp.where(bend, 0.0, at)


def branches(
    xp: Any, ah: Array, ad: Array, cz: Array, cd: Array, pair: Pair
) -> tuple[tuple[Array, Array, Array], tuple[Array, Array, Array]]:
    """Return the largest value of pairs tied on, and tied off, and where (z, dz).

    Minus infinity marks an impossible branch. At ``u = -p`` or ``l = q`` one branch is enough, as
    the member's phase agrees.
    """
    l, u, p, q, vl, vu, phase, _ = pair
    on, z_on = best_z(xp, ah, cz, xp.maximum(l, -p), u)
    d_on = xp.where(ad > cd, vu, vl)
    on = xp.where((phase >= 0) & (u > -p), on + (ad - cd) * d_on, -xp.inf)
    off, z_off = best_z(xp, ah, cz, l, xp.minimum(u, q))
    d_off = xp.where(cd > 0.0, vl, vu)
    off = xp.where((phase <= 0) & ((l < q) | (u <= -p)), off - cd * d_off, -xp.inf)
    return (on, z_on, d_on), (off, z_off, d_off)


def _relu_change(xp: Any, z: Array, d: Array) -> Array:
    """Return ``relu(z + d) - relu(z)`` with an error relative to d, not to z."""
    return xp.where(z > 0.0, xp.maximum(d, -z), (z + d).clip(0.0, None))


def best_pair(
    xp: Any, ah: Array, ad: Array, cz: Array, cd: Array, pair: Pair
) -> tuple[Array, Array, Array, Array]:
    """Return the largest value of pairs, and where: (value, z, dz, dh).

    Pairs that involve ties take the better branch. Otherwise the pair is piecewise linear in (z,
    dz), so a corner of the rectangle and the lines z = 0, z + dz = 0 is best.
    """
    l, u, p, q, vl, vu, phase, tied = pair
    (on, z_on, d_on), (off, z_off, d_off) = branches(xp, ah, ad, cz, cd, pair)
    two = _pick(xp, on > off, (on, z_on, d_on, d_on), (off, z_off, d_off, 0.0 * d_off))
    zero = 0.0 * cz
    found: tuple[Array, ...] = (zero - xp.inf, zero + l, zero + vl)
    for edge, end in ((vl, l), (vu, u)):
        bend = xp.minimum(xp.maximum(-edge, l), u)
        along = [(at, edge) for at in (l, u, xp.minimum(l.clip(0.0, None), u), bend)]
        for z, d in [*along, (end, xp.minimum(xp.maximum(-end, vl), vu))]:
            # Multipliers equal to coefficients cancel exactly, so that points of equal value tie.
            dh = _relu_change(xp, z, d)
            change = xp.where(dh == d, (ad - cd) * d, ad * dh - cd * d)
            value = xp.where(z > 0.0, ah - cz, -cz) * z + change
            found = _pick(xp, value > found[0], (value, z, d), found)
    both = (l < 0.0) & (u > 0.0) & (vl < 0.0) & (vu > 0.0) & (found[0] < 0.0)
    found = _pick(xp, both, (zero, zero, zero), found)
    result: tuple[Array, Array, Array, Array] = _pick(
        xp,
        tied | (phase != 0) | (l >= q) | (u <= -p),
        two,
        (*found, _relu_change(xp, found[1], found[2])),
    )
    return result


def _slope(xp: Any, a: Array, lo: Array, hi: Array) -> Array:
    """Return the slope above ``a relu(z)``: the chord, or the better of 0 and 1."""
    one = 0.0 * lo + 1.0
    chord = hi / xp.where(hi > lo, hi - lo, one)
    across = xp.where(a > 0.0, chord, xp.where(hi > -lo * EQUAL_AREAS, one, 0.0 * one))
    return xp.where(lo >= 0.0, one, xp.where(hi <= 0.0, 0.0 * one, across))


def rule(xp: Any, ah: Array, ad: Array, pair: Pair) -> tuple[Array, Array]:
    """Return default multipliers (cz, cd) of pairs; any others are valid too.

    A difference small beside z is bounded by itself; where one of the ReLUs keeps its sign, each is
    bounded separately.
    """
    l, u, p, q, vl, vu, phase, tied = pair
    can_on = (phase >= 0) & (u > -p)
    can_off = (phase <= 0) & ((l < q) | (u <= -p))
    lo, hi = xp.where(can_off, l, xp.maximum(l, -p)), xp.where(can_on, u, xp.minimum(u, q))
    cz = ah * _slope(xp, ah, lo, hi)
    width = xp.where(vu > vl, vu - vl, 1.0 + 0.0 * vu)
    across = ad * xp.where(ad > 0.0, vu, -vl) / width
    cd = xp.where(vu <= 0.0, ad.clip(None, 0.0), across)
    cd = xp.where(vl >= 0.0, ad.clip(0.0, None), cd)
    cd = xp.where(can_off, xp.where(can_on, cd, 0.0 * ad), ad)
    lo, hi = l + vl, u + vu
    apart = can_on & can_off & (phase == 0) & ~tied
    apart = apart & ((l >= 0.0) | (u <= 0.0) | (lo >= 0.0) | (hi <= 0.0))
    second = ad * _slope(xp, ad, lo, hi)
    first = (ah - ad) * _slope(xp, ah - ad, l, u) + second
    return xp.where(apart, first, cz), xp.where(apart, second, cd)


def affine(
    nodes: Nodes, layer: int, cz: Array, cd: Array, ah: Array, ad: Array
) -> tuple[Array, Array]:
    """Propagate multipliers of a layer, shape (n, rows, neurons), to its sources.

    Updates ``ah`` and ``ad``; returns the constant, and the magnitude for rounding.
    """
    at, inputs = nodes.rows(layer), nodes.layout.inputs
    shift, slack = nodes.shift[:, None, at], nodes.slack[:, None, at]
    constant = (cz * nodes.bias[at] + cd * shift + abs(cd) * slack).sum(-1)
    magnitude = (abs(cz) * nodes.rough[at] + abs(cd) * nodes.rough_d[at]).sum(-1)
    for b, (k, start, width, _, source) in enumerate(nodes.blocks):
        if k != layer:
            continue
        onto = slice(start, start + width)
        # h is not negative, so the widest difference costs |e| radius h + |e| radius |dh|.
        wide = abs(cd) @ nodes.radius[b]
        ah[..., onto] += cz @ nodes.weight[b] + cd @ nodes.centre[b] + wide
        if source:
            ad[..., onto] += cd @ nodes.changed[b]
            size = nodes.size[:, None, start - inputs : start - inputs + width]
            constant = constant + (wide * size).sum(-1)
    return constant, magnitude


def backward(nodes: Nodes, top: int, cz: Array, cd: Array) -> tuple[Array, Array, Array]:
    """Bound linear combinations of a layer's outputs by linear forms in x.

    Multipliers of the neurons below are those of the `rule`.
    """
    xp, layout = nodes.space.xp, nodes.layout
    inputs, shape = layout.inputs, (len(nodes), cz.shape[1])
    ah = nodes.space.full((*shape, inputs + layout.hidden), 0.0)
    ad = nodes.space.full((*shape, inputs + layout.hidden), 0.0)
    constant, magnitude = affine(nodes, top, cz, cd, ah, ad)
    for k in range(top - 1, -1, -1):
        at = nodes.rows(k)
        pair, here = nodes.pair(at), slice(inputs + at.start, inputs + at.stop)
        a, d = ah[..., here], ad[..., here]
        cz, cd = rule(xp, a, d, pair)
        parts = affine(nodes, k, cz, cd, ah, ad)
        constant = constant + parts[0] + best_pair(xp, a, d, cz, cd, pair)[0].sum(-1)
        magnitude = magnitude + parts[1]
    return ah, constant, magnitude


def over_box(xp: Any, form: Array, lower: Array, upper: Array) -> Array:
    """Return the largest ``form x`` over boxes."""
    return (form * xp.where(form > 0.0, upper, lower)).sum(-1)
