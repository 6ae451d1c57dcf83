"""Bounds of a node over whole arrays: the readable form of the compiled passes.

Arrays are indexed by node, then by row (one linear bound each), then by neuron or input. The
derivation is in ``docs/native.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.native.kernels.interface import Layout
from leaveout.bab.native.kernels.neuron_bounds import EDGE
from leaveout.bab.native.kernels.pair_bounds import (
    CANCELLED,
    EQUAL_AREAS,
    FLAT,
    ROUNDS,
    UNDERFLOW,
)
from leaveout.errors import SolverError


@dataclass(frozen=True)
class Space:
    """The functions that numpy and torch share, with adapters for the rest."""

    xp: Any
    device: Any
    room: int

    def put(self, array: NDArray[Any]) -> Any:
        """Copy an array to the device; never a view."""
        if self.device is None:
            return np.array(array)
        return self.xp.tensor(np.ascontiguousarray(array), device=self.device)

    def take(self, array: Any) -> NDArray[Any]:
        """Copy an array back to the host."""
        return np.asarray(array if self.device is None else array.cpu().numpy())

    def full(self, shape: tuple[int, ...], value: float) -> Any:
        """Return a float64 array filled with one value."""
        if self.device is None:
            return np.full(shape, value)
        return self.xp.full(shape, value, dtype=self.xp.float64, device=self.device)

    def eye(self, size: int) -> Any:
        """Return the identity in float64."""
        return self.put(np.eye(size))

    def order(self, array: Any) -> Any:
        """Return the stable sorting order along the last axis."""
        if self.device is None:
            return np.argsort(array, axis=-1, kind="stable")
        return self.xp.argsort(array, dim=-1, stable=True)

    def pick(self, array: Any, places: Any) -> Any:
        """Take indices along the last axis."""
        if self.device is None:
            return np.take_along_axis(array, places, -1)
        return self.xp.take_along_dim(array, places, -1)

    def round_to_float32(self, array: Any) -> Any:
        """Round to float32 numbers, kept as float64."""
        if self.device is None:
            return array.astype(np.float32).astype(np.float64)
        return array.to(self.xp.float32).to(self.xp.float64)


def numpy_space() -> Space:
    """Return the space of numpy's arrays."""
    return Space(np, None, 2**28)


def torch_space(device: str = "") -> Space:
    """Return the space of torch's arrays, by default on a GPU if torch sees one."""
    if device not in {"", "cpu", "cuda"}:
        raise SolverError(f"kernel 'torch' runs on 'torch:cpu' or 'torch:cuda', not on {device!r}")
    try:
        import torch
    except ImportError as error:
        raise SolverError(
            "kernel 'torch' needs torch; install it: pip install 'leaveout[train]'"
        ) from error
    if device == "cuda" and not torch.cuda.is_available():
        raise SolverError(
            "kernel 'torch:cuda' needs a GPU that torch sees; install torch for CUDA "
            "(pip install 'leaveout[train]'), or take 'torch:cpu'"
        )
    if device != "cpu" and torch.cuda.is_available():
        return Space(torch, torch.device("cuda"), int(torch.cuda.mem_get_info()[0] // 4))
    return Space(torch, torch.device("cpu"), 2**28)


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


class Cuts(NamedTuple):
    """Half-spaces ``rows x + shift >= 0`` that contain all that matters of each node."""

    rows: Array  # shape (n, most, inputs)
    shift: Array  # shape (n, most)
    pads: Array  # shape (n, most)
    width: Array  # shape (n, most)
    there: Array  # shape (n, most)


def useful_cuts(nodes: Nodes, rows: Array, shift: Array, pads: Array, there: Array) -> Cuts:
    """Return those half-spaces that do not contain the whole box."""
    xp, lower, upper = nodes.space.xp, nodes.lower[:, None], nodes.upper[:, None]
    least = shift + (rows * xp.where(rows > 0.0, lower, upper)).sum(-1)
    width = (abs(rows) * (upper - lower)).sum(-1)
    return _pack_cuts(nodes, Cuts(rows, shift, pads, width, there & (least < 0.0)))


def concatenate_cuts(nodes: Nodes, first: Cuts, second: Cuts) -> Cuts:
    """Return the half-spaces of both, in this order."""
    xp = nodes.space.xp
    both = [xp.concatenate(pair, 1) for pair in zip(first, second, strict=True)]
    return _pack_cuts(nodes, Cuts._make(both))


def _pack_cuts(nodes: Nodes, cuts: Cuts) -> Cuts:
    """Move each node's half-spaces to the front in order, dropping empty columns."""
    space, there = nodes.space, cuts.there
    most = int(there.sum(-1).max()) if len(nodes) else 0
    order = space.order(space.xp.where(there, 0.0, 1.0))[:, :most]
    there = space.pick(there, order)
    shift, pads, width = (
        space.xp.where(there, space.pick(each, order), 0.0)
        for each in (cuts.shift, cuts.pads, cuts.width)
    )
    rows = cuts.rows[nodes.every[:, None], order]
    return Cuts(space.xp.where(there[..., None], rows, 0.0), shift, pads, width, there)


def reach(nodes: Nodes, line: Array, shift: Array) -> Array:
    """Return the largest ``line x + shift`` over each node's box, shape (n,)."""
    return over_box(nodes.space.xp, line, nodes.lower, nodes.upper) + shift


def contract(nodes: Nodes, line: Array, slack: Array, chosen: Array) -> None:
    """Cut boxes to where a form can reach its threshold, exceeded by at most ``slack``."""
    xp = nodes.space.xp
    lower, upper = nodes.lower, nodes.upper
    slack, steep, width = slack.clip(0.0, None)[:, None], abs(line), upper - lower
    keep = slack / xp.where(steep > 0.0, steep, 1.0 + 0.0 * steep) * (1.0 + 1e-9) + 1e-9 * width
    # A box narrow beside where it lies must not lose a point to the last subtraction.
    keep = keep + 1e-15 * (abs(lower) + abs(upper))
    cut = (steep * width > slack) & (keep < width) & chosen[:, None]
    nodes.lower = xp.where(cut & (line > 0.0), upper - keep, lower)
    nodes.upper = xp.where(cut & (line <= 0.0), lower + keep, upper)


def contract_all(nodes: Nodes, cuts: Cuts, fine: Array) -> Array:
    """Cut boxes to half-spaces one by one; return which nodes are not empty."""
    for c in range(cuts.shift.shape[1]):
        slack = reach(nodes, cuts.rows[:, c], cuts.shift[:, c])
        fine = fine & ~(cuts.there[:, c] & (slack < -1e-9))
        contract(nodes, cuts.rows[:, c], slack, cuts.there[:, c] & fine)
    return fine


def _drop_small_slopes(
    xp: Any, slopes: Array, constant: Array, small: Array, lower: Array, upper: Array
) -> tuple[Array, Array]:
    """Replace small slopes by 0, adding their largest value to the constant."""
    flat = abs(slopes) <= small
    most = xp.where(flat, xp.maximum(slopes * lower, slopes * upper), 0.0)
    return xp.where(flat, 0.0, slopes), constant + most.sum(-1)


def largest(nodes: Nodes, forms: Array, constant: Array, cuts: Cuts) -> Array:
    """Bound ``forms x + constant`` from above over boxes and half-spaces."""
    space, xp = nodes.space, nodes.space.xp
    lower, upper = nodes.lower[:, None], nodes.upper[:, None]
    best = over_box(xp, forms, lower, upper) + constant
    if not cuts.shift.shape[1]:
        return best
    running, lost = best > -xp.inf, best == -xp.inf
    # What rounding leaves of terms that cancel must not decide where the maximiser is.
    steepest = xp.amax(abs(forms), -1)[..., None]
    now, constant = _drop_small_slopes(xp, forms, constant, CANCELLED * steepest, lower, upper)
    node, widths = nodes.every[:, None], cuts.width[:, None]
    rows, there = xp.swapaxes(cuts.rows, 1, 2), cuts.there[:, None]
    for _ in range(ROUNDS):
        value = xp.where(now > 0.0, upper, lower) @ rows + cuts.shift[:, None]
        missed = xp.where(there & (-value > FLAT * widths), -value / widths, 0.0)
        most = xp.amax(missed, -1)[..., None]
        # Of half-spaces missed by as much the first.
        chosen = xp.where((missed > 0.0) & (missed * (1.0 + FLAT) >= most), 1.0, 0.0).argmax(-1)
        running = running & (most[..., 0] > 0.0)
        row, small = cuts.rows[node, chosen], FLAT * cuts.width[node, chosen]
        # The form's slopes change their sign one after the other.
        turning = (xp.where(now > 0.0, row, -row) < 0.0) & (upper > lower)
        step = xp.where(turning, -now / xp.where(turning, row, 1.0), xp.inf)
        order = space.order(step)
        gain = space.pick(xp.where(turning, abs(row) * (upper - lower), 0.0), order)
        slope = space.pick(value, chosen[..., None]) + gain.cumsum(-1)
        reached = slope >= -small[..., None]
        # Where it is never reached, nothing of the box is in the half-space.
        lost = lost | (running & ~reached[..., -1])
        running = running & reached[..., -1]
        if not bool(running.any()):
            break
        first = xp.where(reached, 1.0, 0.0).argmax(-1)[..., None]
        t = xp.where(running, space.pick(space.pick(step, order), first)[..., 0], 0.0)
        constant = constant + t * (cuts.shift + cuts.pads)[node, chosen]
        small = CANCELLED * abs(now)
        now, constant = _drop_small_slopes(
            xp, now + t[..., None] * row, constant, small, lower, upper
        )
        value = over_box(xp, now, lower, upper) + constant
        best = xp.where(running & (value > -xp.inf) & (value < best), value, best)
    return xp.where(lost, -xp.inf, best)


def tighten(nodes: Nodes, differs: bool, cuts: Cuts) -> Array:
    """Refresh the states of nodes; return which are not empty.

    As in `neuron_bounds.tighten`: the band rests on true differences, so it stays fixed above a
    layer with a tied pair. Boxes are contracted to all ``cuts``.
    """
    xp = nodes.space.xp
    ties = bool((nodes.phase != 0).any())
    fine = contract_all(nodes, cuts, nodes.bottom >= 0)
    for k in range(nodes.layout.layers - 1):
        at, width = nodes.rows(k), nodes.starts[k + 1] - nodes.starts[k]
        l, u, p, q, vl, vu = (nodes.state[:, row, at] for row in range(6))
        phase, fixed = nodes.phase[:, at], ((nodes.bottom < k) & differs)[:, None]
        vl, vu = xp.where(fixed, -xp.inf, vl), xp.where(fixed, xp.inf, vu)
        # Of a stable pair everything known is good enough; layer 0 costs next to nothing.
        unstable = (l < q) & (u > -p)
        fresh = unstable | (k == 0)
        lines, shift, pads = _bounds(nodes, k, differs)
        if ties:
            # Tied on, z is at least -p; tied off, it is at most q.
            tied, on = (phase != 0) & unstable, phase > 0
            sides = slice(0, width), slice(width, 2 * width)
            row = xp.where(on[..., None], lines[:, sides[0]], lines[:, sides[1]])
            above = xp.where(on, shift[:, sides[0]] + p, shift[:, sides[1]] + q)
            pad = xp.where(on, pads[:, sides[0]], pads[:, sides[1]])
            own = useful_cuts(nodes, row, above, pad, tied)
            fine = contract_all(nodes, own, fine)
            cuts = concatenate_cuts(nodes, cuts, own)
        value = largest(nodes, lines, shift, cuts)
        l = xp.where(fresh, xp.maximum(l, -value[:, width : 2 * width]), l)
        u = xp.where(fresh, xp.minimum(u, value[:, :width]), u)
        if differs:
            low_d, high_d = -value[:, 3 * width :], value[:, 2 * width : 3 * width]
            vl = xp.where(fresh | fixed, xp.maximum(vl, low_d), vl)
            vu = xp.where(fresh | fixed, xp.minimum(vu, high_d), vu)
            p = xp.where(fresh & ~fixed, xp.minimum(p, vu.clip(0.0, None)), p)
            q = xp.where(fresh & ~fixed, xp.minimum(q, (-vl).clip(0.0, None)), q)
        lost = _is_crossed(xp, l, u) | _is_crossed(xp, vl, vu)
        l, u, vl, vu = xp.minimum(l, u), xp.maximum(l, u), xp.minimum(vl, vu), xp.maximum(vl, vu)
        for place, values in enumerate((l, u, p, q, vl, vu)):
            nodes.state[:, place, at] = values
        lost = lost | ((phase > 0) & _is_crossed(xp, -p, u)) | ((phase < 0) & _is_crossed(xp, l, q))
        fine = fine & ~lost.any(-1)
        passing = (phase >= 0) & (u > -p)
        nodes.size[:, at] = xp.where(passing, xp.maximum(abs(vl), abs(vu)), 0.0)
    return fine


def _is_crossed(xp: Any, low: Array, high: Array) -> Array:
    """Return whether bounds cross by more than a checker's rounding may differ."""
    apart = EDGE * (abs(low) + abs(high)) + UNDERFLOW
    return (high == -xp.inf) | (low == xp.inf) | (low - high > apart)


def _bounds(nodes: Nodes, layer: int, differs: bool) -> tuple[Array, Array, Array]:
    """Bound z, -z, dz and -dz of a layer by linear forms: rows, constants and pads."""
    xp, width = nodes.space.xp, nodes.starts[layer + 1] - nodes.starts[layer]
    one = nodes.space.eye(width)
    both, neither = xp.concatenate([one, -one]), xp.concatenate([0.0 * one, 0.0 * one])
    cz = xp.concatenate([both, neither]) if differs else both
    cd = xp.concatenate([neither, both]) if differs else neither
    every = nodes.space.full((len(nodes), 1, 1), 1.0)
    ah, constant, magnitude = backward(nodes, layer, every * cz, every * cd)
    pads = nodes.unit * magnitude
    return ah[..., : nodes.layout.inputs], constant + pads, pads
