"""The dual ascent over whole arrays; see `kernels.array_bounds`."""

from __future__ import annotations

import math
from typing import NamedTuple

from leaveout.bab.native.kernels.array_bounds import Array, Nodes, branches
from leaveout.bab.native.kernels.array_clipping import reach
from leaveout.bab.native.kernels.array_forms import Rows, settle
from leaveout.bab.native.kernels.array_lines import Followed, along, by_lines, usual
from leaveout.bab.native.kernels.ascent import SLOPE
from leaveout.bab.native.kernels.interface import Work


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
