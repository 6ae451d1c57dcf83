"""Form bounds of nodes before any ascent, over arrays; see `kernels.array_bounds`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from leaveout.bab.forms import Forms
from leaveout.bab.native.kernels.array_bounds import Array, Nodes, backward, over_box
from leaveout.bab.native.kernels.array_clipping import Cuts, contract, reach, useful_cuts
from leaveout.bab.native.kernels.array_library import Space
from leaveout.bab.native.kernels.interface import CUT, EMPTY, FARTHEST, OPEN, Batch


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
