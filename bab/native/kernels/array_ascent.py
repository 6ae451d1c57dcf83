"""The dual ascent over whole arrays; see `kernels.array_bounds`."""

from __future__ import annotations

import math
from typing import NamedTuple

from leaveout.bab.native.kernels.array_bounds import (
    Array,
    Nodes,
    backward,
    best_pair,
    branches,
    over_box,
)
from leaveout.bab.native.kernels.array_forms import Rows, settle
from leaveout.bab.native.kernels.ascent import NOISE
from leaveout.bab.native.kernels.interface import Work

__all__ = ["Found", "ascend"]


class Found(NamedTuple):
    """Best multipliers of each node, their value, and what they say of splits."""

    best: Array
    cz: Array
    cd: Array
    share: Array
    input_score: Array
    neuron_score: Array


def _where(nodes: Nodes, chosen: Array, new: list[Array], old: list[Array]) -> list[Array]:
    """Take the chosen nodes' values from ``new``."""
    result = []
    for a, b in zip(new, old, strict=True):
        mask = chosen.reshape((-1,) + (1,) * (len(a.shape) - 1))
        result.append(nodes.space.xp.where(mask, a, b))
    return result


def ascend(
    nodes: Nodes,
    work: Work,
    rows: Rows,
    given: dict[str, Array],
    start: tuple[Array, ...],
    running: Array,
) -> Found:
    """Lower the dual values by Adam, from the better of two starts.

    Parameters
    ----------
    nodes : Nodes
    work : Work
    rows : Rows
    given : dict of arrays
        The batch; its ``cz, cd, share`` are the second start of the nodes that are ``warm``.
    start : tuple of arrays
        The first start.
    running : array of bool
        The open nodes; the others are left alone.
    """
    space, layout = nodes.space, nodes.layout
    xp, count, hidden = space.xp, len(nodes), layout.hidden
    is_open = running
    best = space.full((count,), math.inf)
    sources = layout.inputs + hidden
    second = [given["cz"], given["cd"], given["share"]]
    kept = [*second, *(space.full((count, sources), 0.0) for _ in range(2))]
    adam = _Adam(nodes, 2 * hidden + rows.goal.shape[1])
    several = (rows.goal.sum(-1) > 1)[:, None] & rows.goal
    now: list[Array] = []
    scale = space.full((count, 2 * hidden), 0.0)
    for step in range(-1, work.steps + 1):
        if step <= 0:
            now = second if step < 0 else list(start)
        now = [space.rounded(now[0]), space.rounded(now[1]), now[2]]
        value, noise, ah, ad, cd_top = _value(nodes, rows, now)
        # Gains that rounding may have made are none.
        better = running & (best - value > noise)
        if step < 0:
            better = better & given["warm"]
        best = xp.where(better, value, best)
        kept = _where(nodes, better, [*now, ah, ad], kept)
        if step < 0:
            continue
        running = running & ~(best <= given["stop_at"])
        if step == work.steps or not bool(running.any()):
            break
        if step == 0:
            *now, ah, ad = _where(nodes, ~better, kept, [*now, ah, ad])
            cd_top = (now[2][:, :, None] * rows.change).sum(1)
            scale = _scale(nodes, ah, ad)
        gz, gd, x = _residuals(nodes, now[0], now[1], cd_top, ah, ad)
        over = gz[:, None, hidden:] * rows.scores + gd[:, None, hidden:] * rows.change
        slope = rows.constant + over.sum(-1) + (rows.inputs * x[:, None, :]).sum(-1)
        slopes = [gz[:, :hidden], gd[:, :hidden], slope]
        pace = work.rate * (1.02 - step / work.steps)
        move = pace * adam.step(xp.concatenate(slopes, -1))
        by_share = move[:, 2 * hidden :]
        simplex = _onto_simplex(xp.where(several, now[2] - by_share, -1e9 + 0.0 * by_share))
        condition = rows.there & ~rows.goal
        share = xp.where(several, simplex, now[2])
        share = xp.where(condition, (now[2] - 0.3 * by_share).clip(0.0, None), share)
        now = [
            now[0] - scale[:, :hidden] * move[:, :hidden],
            now[1] - scale[:, hidden:] * move[:, hidden : 2 * hidden],
            settle(nodes, rows, share),
        ]
    *found, ah, ad = kept
    input_score = _sensitivity(nodes, ah, ad) * (nodes.upper - nodes.lower)
    neuron_score = _neuron_score(nodes, found[0], found[1], ah, ad)
    input_score = xp.where(is_open[:, None], input_score, 0.0 * input_score)
    neuron_score = xp.where(is_open[:, None], neuron_score, 0.0 * neuron_score - 1.0)
    return Found(best, found[0], found[1], found[2], input_score, neuron_score)


def _value(nodes: Nodes, rows: Rows, now: list[Array]) -> tuple[Array, Array, Array, Array, Array]:
    """Dual value of multipliers, its rounding, coefficients on the sources and the scores' dz.

    The coefficients on the inputs are those of the form in x, features and all.
    """
    cz, cd, share = now
    weight = share[:, :, None]
    cz_top, cd_top = (weight * rows.scores).sum(1), (weight * rows.change).sum(1)
    top, inputs = nodes.layout.layers - 1, nodes.layout.inputs
    ah, ad, constant, magnitude, _ = backward(
        nodes, top, cz_top[:, None, :], cd_top[:, None, :], (cz[:, None, :], cd[:, None, :])
    )
    ah, ad = ah[:, 0], ad[:, 0]
    ah[:, :inputs] += (weight * rows.inputs).sum(1)
    value = over_box(nodes.space.xp, ah[:, :inputs], nodes.lower, nodes.upper)
    noise = nodes.unit * (magnitude[:, 0] + (share * rows.sizes).sum(-1))
    return value + constant[:, 0] + (share * rows.constant).sum(-1) + noise, noise, ah, ad, cd_top


def _scale(nodes: Nodes, ah: Array, ad: Array) -> Array:
    """Mean absolute coefficient of each layer, at each of its neurons: sizes for the steps."""
    # Of no layer nothing, which is of no neuron.
    parts = [0.0 * ah[:, :0]]
    for each in (ah, ad):
        for k in range(nodes.layout.layers - 1):
            at = nodes.rows(k)
            here = abs(each[:, nodes.layout.inputs + at.start : nodes.layout.inputs + at.stop])
            parts.append(0.0 * here + here.mean(-1)[:, None])
    return nodes.space.xp.concatenate(parts, -1)


def _residuals(
    nodes: Nodes, cz: Array, cd: Array, cd_top: Array, ah: Array, ad: Array
) -> tuple[Array, Array, Array]:
    """Gradient of the dual: what the maximiser of each part misses of the affine maps; and x."""
    xp, inputs, hidden = nodes.space.xp, nodes.layout.inputs, nodes.layout.hidden
    pair = nodes.pair(slice(0, hidden))
    a, b, c, e = (each[:, None, :] for each in (ah[:, inputs:], ad[:, inputs:], cz, cd))
    _, z, d, change = (each[:, 0] for each in best_pair(xp, a, b, c, e, pair))
    x = xp.where(ah[:, :inputs] > 0.0, nodes.upper, nodes.lower)
    h = xp.concatenate([x, z.clip(0.0, None)], -1)
    dh = xp.concatenate([0.0 * x, change], -1)
    size = xp.concatenate([0.0 * x, nodes.size], -1)
    sign = xp.where(xp.concatenate([cd, cd_top], -1) > 0.0, 1.0, -1.0 + 0.0 * nodes.shift)
    gz = nodes.bias + 0.0 * nodes.shift
    gd = nodes.shift + sign * nodes.slack
    gz[:, :hidden] -= z
    gd[:, :hidden] -= d
    for block, (layer, start, width, _, _) in enumerate(nodes.blocks):
        rows, onto = nodes.rows(layer), slice(start, start + width)
        was, now = h[:, onto], dh[:, onto]
        gz[:, rows] += was @ nodes.weight[block].T
        gd[:, rows] += (
            nodes.centre[block] @ was[..., None] + nodes.changed[block] @ now[..., None]
        )[..., 0]
        wide = (nodes.radius[block] @ (was + size[:, onto])[..., None])[..., 0]
        gd[:, rows] += sign[:, rows] * wide
    gz = xp.where(abs(gz) <= NOISE * nodes.rough, 0.0 * gz, gz)
    return gz, xp.where(abs(gd) <= NOISE * nodes.rough_d, 0.0 * gd, gd), x


class _Adam:
    """Running means of slopes and of their squares."""

    def __init__(self, nodes: Nodes, width: int) -> None:
        self._xp = nodes.space.xp
        self._mean = nodes.space.full((len(nodes), width), 0.0)
        self._square = nodes.space.full((len(nodes), width), 0.0)
        self._p1 = self._p2 = 1.0

    def step(self, slope: Array) -> Array:
        """Take slopes in; return the steps, about 1 where slopes keep their sign."""
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
    """How much relaxation error each input can take away, a unit of its width.

    A pair loses at most its coefficient times its width; narrowing an input narrows z by at most
    the absolute weights on the way. Slopes of the dual bound itself say nothing here: at its
    optimum they vanish.
    """
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


def _neuron_score(nodes: Nodes, cz: Array, cd: Array, ah: Array, ad: Array) -> Array:
    """How far apart the two tied phases of a neuron are; -1 where there is nothing to split."""
    inputs = nodes.layout.inputs
    pair = nodes.pair(slice(0, nodes.layout.hidden))
    a, b, c, e = (each[:, None, :] for each in (ah[:, inputs:], ad[:, inputs:], cz, cd))
    (on, _, _), (off, _, _) = branches(nodes.space.xp, a, b, c, e, pair)
    free = (pair.phase == 0) & (pair.l < pair.q) & (pair.u > -pair.p)
    apart = nodes.space.xp.where(free, abs(on - off), -1.0)
    return apart[:, 0]
