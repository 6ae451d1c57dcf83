"""Intermediate bounds of nodes over whole arrays; see `kernels.array_bounds`."""

from __future__ import annotations

from typing import Any

from leaveout.bab.native.kernels.array_bounds import Array, Nodes, backward
from leaveout.bab.native.kernels.array_clipping import (
    Cuts,
    concatenate_cuts,
    contract_all,
    largest,
    useful_cuts,
)
from leaveout.bab.native.kernels.neuron_bounds import EDGE


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
    return (high == -xp.inf) | (low == xp.inf) | (low - high > EDGE * (abs(low) + abs(high)))


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
