"""What forms say of nodes before any ascent, over whole arrays; see `kernels.array_bounds`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from leaveout.bab.forms import Forms
from leaveout.bab.native.kernels.array_bounds import Array, Nodes, backward, over_box
from leaveout.bab.native.kernels.array_library import Space
from leaveout.bab.native.kernels.interface import CUT, EMPTY, FARTHEST, OPEN, Batch

__all__ = ["Rows", "form", "gathered", "settle"]


class Rows(NamedTuple):
    """The forms of each node's case, n nodes with the same number of rows each.

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


def gathered(space: Space, forms: Forms, batch: Batch) -> Rows:
    """Lay the forms of nodes side by side."""
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


def form(
    nodes: Nodes, rows: Rows, cut: Array, fine: Array
) -> tuple[Array, Array, tuple[Array, ...]]:
    """Contract regions by linear forms, and blend these to start from.

    A counter-example above the cut has every goal above it, and no condition below 0. Returns
    statuses, values of what is not open, and multipliers to start from.
    """
    space, xp = nodes.space, nodes.space.xp
    count, width = rows.goal.shape
    lines, constant, used = _lines(nodes, rows.inputs, rows.scores, rows.change, rows)
    status = xp.where(fine, OPEN, EMPTY)
    value = space.full((count,), -np.inf)
    best, least = space.put(np.zeros(count, np.int64)), space.full((count,), np.inf)
    for k in range(width):
        goal, there = rows.goal[:, k], rows.there[:, k]
        threshold = xp.where(goal, cut, 0.0 * cut)
        found = over_box(xp, lines[:, k], nodes.lower, nodes.upper) + constant[:, k]
        lost = (status == OPEN) & there & (found - threshold < -1e-9 * (1.0 + abs(threshold)))
        # Rows before this one may have cut some away, though none above the cut.
        value = xp.where(lost, xp.where(goal, xp.maximum(found, cut), cut), value)
        status = xp.where(lost, xp.where(goal, CUT, EMPTY), status)
        _contract(nodes, lines[:, k], found - threshold, (status == OPEN) & there)
        better = goal & (found < least)
        best, least = xp.where(better, k, best), xp.where(better, found, least)
    every = space.put(np.arange(count))
    pairs = _sums(nodes, rows, every)
    for p in range(rows.summed.shape[1]):
        there = rows.summed[:, p]
        line, shift = pairs[0][:, p], pairs[1][:, p]
        goals = rows.goal[every, rows.sums[:, p, 0]], rows.goal[every, rows.sums[:, p, 1]]
        threshold = xp.where(goals[0], cut, 0.0 * cut) + xp.where(goals[1], cut, 0.0 * cut)
        found = over_box(xp, line, nodes.lower, nodes.upper) + shift
        lost = (status == OPEN) & there & (found - threshold < -1e-9 * (1.0 + abs(threshold)))
        value = xp.where(lost, cut, value)
        status = xp.where(lost, xp.where(goals[0] | goals[1], CUT, EMPTY), status)
        _contract(nodes, line, found - threshold, (status == OPEN) & there)
    share, blended = _blended(nodes, rows, lines, constant, best, every)
    starts = [(share[:, :, None] * each).sum(1) for each in used]
    mine = lines[every, best], constant[every, best]
    one = space.eye(width)
    for p in range(rows.summed.shape[1]):
        k, o = rows.sums[:, p, 0], rows.sums[:, p, 1]
        goals = rows.goal[every, k], rows.goal[every, o]
        half = xp.where(goals[0] & goals[1], 0.5 + 0.0 * cut, 1.0 + 0.0 * cut)
        line, shift = half[:, None] * pairs[0][:, p], half * pairs[1][:, p]
        unit = 1.0 + 0.0 * cut
        t, found = _blend(nodes, mine, (line, shift), unit, unit)
        chosen = rows.summed[:, p] & (goals[0] | goals[1]) & (found <= blended)
        blended = xp.where(chosen, found, blended)
        far = (t * half)[:, None]
        tried = (1.0 - t)[:, None] * one[best] + far * (one[k] + one[o])
        share = xp.where(chosen[:, None], tried, share)
        for i, own in enumerate(used):
            both = (1.0 - t)[:, None] * own[every, best] + far * pairs[2][i][:, p]
            starts[i] = xp.where(chosen[:, None], both, starts[i])
    return status, value, (*starts, settle(nodes, rows, share))


def _lines(
    nodes: Nodes, inputs: Array, scores: Array, change: Array, rows: Rows
) -> tuple[Array, Array, tuple[Array, Array]]:
    ah, _, constant, magnitude, used = backward(
        nodes, nodes.layout.layers - 1, scores, change, None
    )
    lines = ah[..., : nodes.layout.inputs] + inputs
    constant = constant + rows.constant + nodes.unit * (magnitude + rows.sizes)
    return lines, constant, used


def _sums(nodes: Nodes, rows: Rows, every: Array) -> tuple[Array, Array, tuple[Array, Array]]:
    """Bound the sums of two forms that each case looks at."""
    at, k, o = every[:, None], rows.sums[..., 0], rows.sums[..., 1]

    def both(values: Array) -> Array:
        return values[at, k] + values[at, o]

    summed = rows._replace(constant=both(rows.constant), sizes=both(rows.sizes))
    return _lines(nodes, both(rows.inputs), both(rows.scores), both(rows.change), summed)


def _blended(
    nodes: Nodes, rows: Rows, lines: Array, constant: Array, best: Array, every: Array
) -> tuple[Array, Array]:
    """Take one multiplier after the other, over the linear forms; returns the value there too."""
    space, xp = nodes.space, nodes.space.xp
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


def _contract(nodes: Nodes, line: Array, slack: Array, chosen: Array) -> None:
    """Cut boxes to where a form can reach its threshold, which it does by ``slack`` at best."""
    xp = nodes.space.xp
    lower, upper = nodes.lower, nodes.upper
    slack, steep, width = slack.clip(0.0, None)[:, None], abs(line), upper - lower
    keep = slack / xp.where(steep > 0.0, steep, 1.0 + 0.0 * steep) * (1.0 + 1e-9) + 1e-9 * width
    # A box narrow beside where it lies must not lose a point to the last subtraction.
    keep = keep + 1e-15 * (abs(lower) + abs(upper))
    cut = (steep * width > slack) & (keep < width) & chosen[:, None]
    nodes.lower = xp.where(cut & (line > 0.0), upper - keep, lower)
    nodes.upper = xp.where(cut & (line <= 0.0), lower + keep, upper)


def _blend(
    nodes: Nodes,
    first: tuple[Array, Array],
    second: tuple[Array, Array],
    most: Array,
    mixing: Array,
) -> tuple[Array, Array]:
    """Find t in [0, most] that about minimises ``max (1 - mixing t) first + t second``.

    This is convex and piecewise linear in t: its slope is bisected. Returns t, a multiple of
    ``most / 2^22`` and so a float32 number, and the value there.
    """
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
    """Move multipliers to numbers that a certificate can hold exactly.

    Those of the goals become multiples of 2^-23 whose sum is exactly 1, the others float32 numbers.
    """
    xp = nodes.space.xp
    goals = xp.where(rows.goal, share, -1.0 + 0.0 * share)
    largest = nodes.space.eye(share.shape[1])[goals.argmax(-1)] > 0.0
    floored = xp.where(rows.goal & ~largest, xp.floor(share * 8388608.0) / 8388608.0, 0.0 * share)
    rest = (1.0 - floored.sum(-1))[:, None]
    return xp.where(rows.goal, xp.where(largest, rest, floored), nodes.space.rounded(share))
