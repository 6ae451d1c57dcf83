"""Largest values of linear forms over boxes and half-spaces, over whole arrays.

See `kernels.clipping`; arrays are indexed by node, then by form or half-space, then by input.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from leaveout.bab.native.kernels.array_bounds import Array, Nodes, over_box
from leaveout.bab.native.kernels.clipping import CANCELLED, FLAT, ROUNDS


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
