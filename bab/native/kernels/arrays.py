"""The kernel over whole arrays: numpy as the reference, torch for GPUs."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from leaveout.bab.native.kernels.array_ascent import ascend
from leaveout.bab.native.kernels.array_passes import Array, Nodes, backward, over_box, tighten
from leaveout.bab.native.kernels.batch import (
    CLOSED,
    CUT,
    EMPTY,
    FARTHEST,
    OPEN,
    Batch,
    Bounded,
    MemberSets,
    Numbers,
    Work,
)
from leaveout.bab.native.kernels.spaces import space_of
from leaveout.bab.native.layout import Layout

__all__ = ["ArrayKernel"]


class ArrayKernel:
    """All nodes at once, in numpy or torch; equal to the compiled kernel up to rounding.

    Parameters
    ----------
    name : {"numpy", "torch", "torch:cpu", "torch:cuda"}

    Raises
    ------
    SolverError
        If torch, or a GPU, is asked for and there is none.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._space = space_of(name)

    def bound(self, numbers: Numbers, sets: MemberSets, batch: Batch, work: Work) -> Bounded:
        """See `Kernel.bound`."""
        count = len(batch.which)
        piece = max(1, self._space.room // _bytes(numbers.layout))
        parts = [
            self._piece(numbers, sets, _take(batch, i, i + piece), work)
            for i in range(0, max(count, 1), piece)
        ]
        names = [field.name for field in fields(Bounded)]
        return Bounded(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def _piece(self, numbers: Numbers, sets: MemberSets, batch: Batch, work: Work) -> Bounded:
        space, which = self._space, batch.which
        own = (numbers.weights, numbers.bias, numbers.rough, numbers.rough_difference)
        members = (sets.centre, sets.radius, sets.shift, sets.slack)
        given = {field.name: space.put(getattr(batch, field.name)) for field in fields(Batch)}
        nodes = Nodes(
            space,
            numbers.layout,
            tuple(space.put(each) for each in own),
            tuple(space.put(each[which]) for each in members),
            (given["lower"], given["upper"]),
            given["state"],
            given["phase"],
            numbers.unit,
        )
        with np.errstate(all="ignore"):
            fine = tighten(nodes)
            status, value, start = _form(nodes, work.label, given, fine)
            found = ascend(nodes, work, given, start, status == OPEN)
        is_open = status == OPEN
        value = space.xp.where(is_open, space.xp.maximum(found.best, given["cut"]), value)
        closed = is_open & (found.best <= given["cut"])
        status = space.xp.where(closed, CLOSED, status)
        results = (
            status, value, nodes.lower, nodes.upper, nodes.state, found.cz, found.cd, found.t,
            found.share, found.pull, found.tension,
        )  # fmt: skip
        return Bounded(*(space.take(each) for each in results))


def _bytes(layout: Layout) -> int:
    """Bytes that bounding one node may take: about 24 arrays for each row of the widest layer."""
    widest = int(np.diff(layout.starts).max())
    sources = layout.inputs + layout.hidden
    return 8 * (4 * layout.weights + 4 * widest * (4 * sources + 24 * widest) + 80 * sources)


def _take(batch: Batch, begin: int, end: int) -> Batch:
    return Batch(*(getattr(batch, field.name)[begin:end] for field in fields(Batch)))


def _form(
    nodes: Nodes, label: int, given: dict[str, Array], fine: Array
) -> tuple[Array, Array, tuple[Array, ...]]:
    """Contract regions by linear forms, and solve the 1-D Lagrangian over them.

    On a leak above the cut, N leads every other label by more than the cut; the member leads its
    rival by at most the tie; and so N leads the rival by at most the difference plus the tie.
    Returns statuses, values of what is not open, and multipliers to start from.
    """
    space, layout = nodes.space, nodes.layout
    xp, labels, count = space.xp, layout.labels, len(nodes)
    rival, tie, cut = given["rival"], given["tie"], given["cut"]
    others = [c for c in range(labels) if c != label]
    one = space.eye(labels)
    to_rival = one[rival]
    cz = space.full((count, labels + 1, labels), 0.0)
    cd = space.full((count, labels + 1, labels), 0.0)
    # Rows of forms: N's lead over each label, minus the member's lead, and the difference.
    for row, c in enumerate(others):
        cz[:, row] = one[label] - one[c]
    lead = one[label] - to_rival
    cz[:, labels - 1] = -lead
    cd[:, labels - 1] = -lead
    cd[:, labels] = -lead
    ah, _, constant, magnitude, used = backward(nodes, layout.layers - 1, cz, cd, None)
    form = ah[..., : layout.inputs]
    allowed = space.full((count, labels + 1), 0.0)
    allowed[:, labels - 1 :] = tie[:, None]
    constant = constant + allowed + nodes.unit * (magnitude + allowed)
    status = xp.where(fine, OPEN, EMPTY)
    value = space.full((count,), -np.inf)
    best, least = 0 * rival, space.full((count,), np.inf)
    for row in range(labels + 1):
        member = row == labels - 1
        bar = 0.0 * cut if member else cut
        found = over_box(xp, form[:, row], nodes.lower, nodes.upper) + constant[:, row]
        lost = (status == OPEN) & (found - bar < -1e-9 * (1.0 + abs(bar)))
        # Rows before this one may have cut leaks away, though none above the cut.
        value = xp.where(lost, cut if member else xp.maximum(found, cut), value)
        status = xp.where(lost, EMPTY if member else CUT, status)
        _contract(nodes, form[:, row], found - bar, status == OPEN)
        if row < labels - 1:
            best = xp.where(found < least, row, best)
            least = xp.minimum(least, found)
    every = space.put(np.arange(count))
    mine = form[every, best], constant[every, best]
    box = nodes.lower, nodes.upper
    t, found = _blend(
        space, mine, (form[:, labels - 1], constant[:, labels - 1]), box, FARTHEST, 0.0
    )
    t_d, found_d = _blend(space, mine, (form[:, labels], constant[:, labels]), box, 1.0, 1.0)
    order = space.put(np.array(others))
    by_difference = (order[best] == rival) & (found_d <= found)
    keep = xp.where(by_difference, 1.0 - t_d, 1.0 + 0.0 * t_d)[:, None]
    other = xp.where(by_difference, labels, labels - 1)
    t = xp.where(by_difference, t_d, t)
    starts = [keep * each[every, best] + t[:, None] * each[every, other] for each in used]
    return status, value, (*starts, t, one[order[best]])


def _contract(nodes: Nodes, form: Array, slack: Array, chosen: Array) -> None:
    """Cut boxes to where a form can still reach its bar, which it does by ``slack`` at best."""
    xp = nodes.space.xp
    lower, upper = nodes.lower, nodes.upper
    slack, steep, width = slack.clip(0.0, None)[:, None], abs(form), upper - lower
    keep = slack / xp.where(steep > 0.0, steep, 1.0 + 0.0 * steep) * (1.0 + 1e-9) + 1e-9 * width
    # A box narrow beside where it lies must not lose a point to the last subtraction.
    keep = keep + 1e-15 * (abs(lower) + abs(upper))
    cut = (steep * width > slack) & (keep < width) & chosen[:, None]
    nodes.lower = xp.where(cut & (form > 0.0), upper - keep, lower)
    nodes.upper = xp.where(cut & (form <= 0.0), lower + keep, upper)


def _blend(
    space: Any,
    first: tuple[Array, Array],
    second: tuple[Array, Array],
    box: tuple[Array, Array],
    most: float,
    mixing: float,
) -> tuple[Array, Array]:
    """Find t in [0, most] that about minimises ``max (1 - mixing t) first + t second``.

    This is convex and piecewise linear in t: its slope is bisected. Returns t, a multiple of
    ``most / 2^22`` and so a float32 number, and the value there.
    """
    xp, low, width = space.xp, 0.0 * first[1], most

    def at(t: Array) -> Array:
        return (1.0 - mixing * t)[:, None] * first[0] + t[:, None] * second[0]

    for _ in range(22):
        width *= 0.5
        ends = xp.where(at(low + width) > 0.0, box[1], box[0])
        slope = second[1] - mixing * first[1] + ((second[0] - mixing * first[0]) * ends).sum(-1)
        low = xp.where(slope < 0.0, low + width, low)
    constant = (1.0 - mixing * low) * first[1] + low * second[1]
    return low, over_box(xp, at(low), *box) + constant
