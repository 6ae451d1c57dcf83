"""Nodes of a tree side by side, with the state that their children start from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats, Integers
from leaveout.verifier.checker.arithmetic import UNIT, Arithmetic, gamma
from leaveout.verifier.checker.errors import OUT_OF_RANGE, RejectedError
from leaveout.verifier.checker.layout import Net
from leaveout.verifier.checker.pairs import (
    Forms,
    Nodes,
    facts_of,
    largest,
    pull_back,
    round_up_forms,
)
from leaveout.verifier.checker.spaces import Space
from leaveout.verifier.checker.tree_shape import INPUT, PHASE, UNTIED, Tree

Flags = NDArray[np.bool_]

_ROUNDS = 3
"""Most half-spaces added to one form."""

_FLAT = 1e-4
"""Half-spaces violated by a smaller share of their width do not count as violated."""

_CANCELLED = 1e-6
"""Slopes whose terms cancel down to this share count as 0."""

_AT_ONCE = 2**20
"""Numbers processed at once."""

_SIDE_BY_SIDE = 32
"""Rows of one node multiplied with its half-spaces at once."""

_TINY = float(np.finfo(np.float64).tiny)


@dataclass(eq=False)
class HalfSpaces:
    """Half-spaces ``rows x + shift >= 0`` of some nodes; each contains the relevant points."""

    rows: Floats  # shape (n, most, inputs)
    shift: Floats  # shape (n, most)
    width: Floats  # shape (n, most): how much a row varied in the box when it was added
    count: Integers  # shape (n,): number of half-spaces per node; the rest is 0
    arithmetic: Arithmetic

    @staticmethod
    def none(nodes: int, most: int, inputs: int, numbers: Arithmetic) -> HalfSpaces:
        """Return storage for some half-spaces of each node."""
        return HalfSpaces(
            np.zeros((nodes, most, inputs)),
            np.zeros((nodes, most)),
            np.zeros((nodes, most)),
            np.zeros(nodes, np.int64),
            numbers,
        )

    def add(self, of: Integers, forms: Forms, least: Floats, lower: Floats, upper: Floats) -> None:
        """Add ``slopes x + constant >= least`` unless it holds in a node's whole box.

        Half-spaces with numbers beyond float64's range are not added.
        """
        numbers, (low, high) = self.arithmetic, (lower[of], upper[of])
        with np.errstate(invalid="ignore", over="ignore"):
            forms = round_up_forms(forms, low, high, numbers)
            slopes = forms.slopes
            shift = numbers.up(numbers.number(forms.constant) - least)
            shift += 8 * UNIT * (np.abs(forms.constant) + np.abs(least))
            lowest = shift + np.minimum(slopes * low, slopes * high).sum(axis=1)
            width = (np.abs(slopes) * (high - low)).sum(axis=1)
        some = np.isfinite(shift) & np.isfinite(slopes).all(axis=1) & np.isfinite(width)
        some = np.flatnonzero(some & ~(lowest >= 0.0))
        own = of[some]
        place = self.count[own] + np.arange(len(own)) - np.searchsorted(own, own)
        self.rows[own, place] = slopes[some]
        self.shift[own, place], self.width[own, place] = shift[some], width[some]
        np.add.at(self.count, own, 1)


def contract(
    forms: Forms, least: Floats, lower: Floats, upper: Floats, numbers: Arithmetic
) -> tuple[Floats, Floats, Flags]:
    """Shrink boxes to where ``slopes x + constant >= least`` is possible."""
    slack = numbers.up(numbers.number(largest(forms, lower, upper, numbers)) - least)
    slopes, constant = numbers.nearest(forms.slopes), numbers.nearest(forms.constant)
    slack += 4 * UNIT * (np.abs(slack) + np.abs(least) + np.abs(constant))
    empty = slack < 0.0
    slack = np.maximum(slack, 0.0)[:, None]
    width = upper - lower
    steep = np.abs(slopes)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        keep = slack / steep * (1.0 + 1e-9) + 1e-9 * width
        keep += 4 * UNIT * (np.abs(lower) + np.abs(upper))
    cutting = (steep * width > slack) & (keep < width)
    rising = slopes > 0.0
    low = np.where(cutting & rising, np.maximum(lower, upper - keep), lower)
    high = np.where(cutting & ~rising, np.minimum(upper, lower + keep), upper)
    if numbers.exact:
        # The ends were rounded; whether a part is cut off must be decided exactly.
        exact = numbers.number(forms.slopes)
        cut = np.where(rising, numbers.number(upper) - low, lower - numbers.number(high))
        sure = exact * cut >= slack
        low, high = np.where(sure, low, lower), np.where(sure, high, upper)
    return low, high, empty


def largest_within(
    forms: Forms, of: Integers, lower: Floats, upper: Floats, given: HalfSpaces
) -> tuple[Floats, Flags]:
    """Bound each form over the box and the half-spaces of its node.

    In turn, the half-space most violated by the form's maximiser gets its best multiplier.
    """
    numbers = given.arithmetic
    bounds, empty = largest(forms, lower[of], upper[of], numbers), np.zeros(len(of), bool)
    clipped = np.flatnonzero(given.count[of] > 0)
    step = max(1, _AT_ONCE // (_SIDE_BY_SIDE * lower.shape[1]))
    for begin in range(0, len(clipped), step):
        at = clipped[begin : begin + step]
        part = Forms(forms.slopes[at], forms.constant[at])
        with np.errstate(all="ignore"):
            found, nowhere = _clip_bounds(part, of[at], lower, upper, given)
        bounds[at], empty[at] = np.minimum(bounds[at], found), nowhere
    return bounds, empty


class _Values:
    """Values of each row's node's half-spaces at points: one product per group of rows."""

    def __init__(self, given: HalfSpaces, of: Integers) -> None:
        nodes, self._node = np.unique(of, return_inverse=True)
        most = int(given.count[nodes].max())
        rank = np.arange(len(of)) - np.searchsorted(of, of)
        self._slot = rank % _SIDE_BY_SIDE
        firsts = np.flatnonzero(self._slot == 0)
        self._group = np.searchsorted(firsts, np.arange(len(of)), side="right") - 1
        self.rows, self.shift = given.rows[nodes, :most], given.shift[nodes, :most]
        self._products = self.rows[self._node[firsts]].transpose(0, 2, 1)
        slots = int(self._slot.max(initial=0)) + 1
        self._points = np.zeros((len(firsts), slots, given.rows.shape[2]))

    def at(self, x: Floats, left: Integers) -> Floats:
        """Return them, shape (r, most), for some rows, at one point each."""
        group, slot = self._group[left], self._slot[left]
        self._points[group, slot] = x
        values = (self._points @ self._products)[group, slot]
        values += self.shift[self._node[left]]
        return np.asarray(values)


def _clip_bounds(
    forms: Forms, of: Integers, lower: Floats, upper: Floats, given: HalfSpaces
) -> tuple[Floats, Flags]:
    """Return bounds by some multipliers, infinite without any, and which nodes are empty."""
    best, empty = np.full(len(of), np.inf), np.zeros(len(of), bool)
    nodes, node = np.unique(of, return_inverse=True)
    values = _Values(given, of)
    widths = given.width[nodes, : values.shift.shape[1]]
    far = np.maximum(np.abs(lower[nodes]), np.abs(upper[nodes]))
    terms = np.abs(values.shift) + (np.abs(values.rows) @ far[:, :, None])[:, :, 0]
    numbers = given.arithmetic
    room, tiny = 2 * gamma(2 * lower.shape[1] + 64), _TINY * (16 + far.sum(axis=1))
    now, constant = numbers.nearest(forms.slopes), numbers.nearest(forms.constant)
    low, high = lower[of], upper[of]
    # The results hold for these multipliers, however they were chosen.
    exact = forms if numbers.exact else None
    size = np.abs(constant) + np.einsum("ri,ri->r", np.abs(now), far[node])
    # Rounding errors of cancelled slopes must not decide where the maximiser is.
    flat = np.abs(now) <= _CANCELLED * np.abs(now).max(axis=1, keepdims=True)
    constant = constant + np.where(flat, np.maximum(now * low, now * high), 0.0).sum(axis=1)
    now = np.where(flat, 0.0, now)
    x, left = np.where(now > 0.0, high, low), np.arange(len(of))
    for _ in range(_ROUNDS):
        value, own = values.at(x, left), node[left]
        missed = np.where(value < 0.0, -value / widths[own], 0.0)
        farthest = missed.max(axis=1)
        going = np.flatnonzero(farthest > _FLAT)
        if not len(going):
            break
        if len(going) < 0.75 * len(left):
            left, own, value = left[going], own[going], value[going]
            missed, farthest, size = missed[going], farthest[going], size[going]
            now, constant, low, high, x = (a[going] for a in (now, constant, low, high, x))
            if exact is not None:
                exact = Forms(exact.slopes[going], exact.constant[going])
        # The first of those that are violated about equally.
        chosen = np.argmax(missed * (1.0 + _FLAT) >= farthest[:, None], axis=1)
        one = np.arange(len(left))
        row, shift = values.rows[own, chosen], values.shift[own, chosen]
        t, falling = _multiplier(
            now, row, value[one, chosen], _FLAT * widths[own, chosen], high - low
        )
        # Forms without a violated half-space get the multiplier 0 and do not change.
        missing = farthest > _FLAT
        t, falling = np.where(missing, t, 0.0), falling & missing
        if falling.any():
            ends = np.maximum(numbers.number(row) * low, numbers.number(row) * high)
            top = numbers.up(shift + ends.sum(axis=1))
            top += room * terms[own, chosen] + tiny[own]
            empty[left[falling & (top < 0.0)]] = True
        if exact is not None:
            times = numbers.number(t)
            exact = Forms(exact.slopes + times[:, None] * row, exact.constant + times * shift)
        moved = now + t[:, None] * row
        constant, size = constant + t * shift, size + t * terms[own, chosen]
        r, i = np.nonzero(np.abs(moved) <= _CANCELLED * np.abs(now))
        rest = moved[r, i]
        np.add.at(constant, r, np.maximum(rest * low[r, i], rest * high[r, i]))
        moved[r, i] = np.where(np.isfinite(rest), 0.0, np.nan)
        now, x = moved, np.where(moved > 0.0, high, low)
        if exact is None:
            found = constant + np.einsum("ri,ri->r", now, x)
        else:
            found = largest(exact, low, high, numbers)
        found += room * size + tiny[own]
        # Numbers beyond the range bound nothing; such a slope makes the sum infinite or NaN.
        best[left] = np.minimum(best[left], np.where(np.isfinite(found), found, np.inf))
    return best, empty


def _multiplier(
    now: Floats, row: Floats, value: Floats, small: Floats, width: Floats
) -> tuple[Floats, Flags]:
    """Return the multiplier with the least maximum over the box; 0 if it decreases for ever.

    The maximum is convex and piecewise linear in the multiplier. Its slope is the row's value at
    the maximiser, which increases where slopes of the form change sign, one at a time.
    """
    gain = np.where(now > 0.0, -row, row) * width
    turning = gain > 0.0
    step = np.full(row.shape, np.inf)
    np.divide(now, -row, out=step, where=turning)
    order = np.argsort(step, axis=1)
    order += (np.arange(len(row)) * row.shape[1])[:, None]
    slope = np.cumsum(np.where(turning, gain, 0.0).ravel()[order], axis=1)
    enough = slope >= (-small - value)[:, None]
    t = step.ravel()[order[np.arange(len(row)), np.argmax(enough, axis=1)]]
    # Any non-negative multiplier is valid.
    return np.where(enough[:, -1] & np.isfinite(t) & (t > 0.0), t, 0.0), ~enough[:, -1]


@dataclass(eq=False)
class Block:
    """Nodes side by side, with the state that their children start from.

    ``slopes`` and ``constant``, shape (n, remembered, inputs) and (n, remembered), bound the first
    forms and sums of each node's case.
    """

    nodes: Integers
    lower: Floats
    upper: Floats
    state: Floats
    phase: NDArray[np.int8]
    slopes: Floats
    constant: Floats
    alive: Flags

    @staticmethod
    def gather_rows(parts: list[tuple[Block, int]], nodes: Integers) -> Block:
        """Return copies of some rows of several blocks."""
        return Block(
            nodes,
            np.stack([block.lower[i] for block, i in parts]),
            np.stack([block.upper[i] for block, i in parts]),
            np.stack([block.state[i] for block, i in parts]),
            np.stack([block.phase[i] for block, i in parts]),
            np.stack([block.slopes[i] for block, i in parts]),
            np.stack([block.constant[i] for block, i in parts]),
            np.ones(len(nodes), bool),
        )

    def select(self, own: Integers) -> Block:
        """Return some of the nodes."""
        return Block(
            self.nodes[own], self.lower[own], self.upper[own], self.state[own], self.phase[own],
            self.slopes[own], self.constant[own], self.alive[own],
        )  # fmt: skip

    def split(self, tree: Tree, net: Net) -> None:
        """Turn what was copied from the parents into the children's regions and phases."""
        part = tree.part
        for i, node in enumerate(self.nodes):
            kind, index, side = part.kind[node], int(part.index[node]), part.side[node]
            if kind == INPUT:
                point = part.point[node]
                if side == 0:
                    self.upper[i, index] = min(self.upper[i, index], point)
                else:
                    self.lower[i, index] = max(self.lower[i, index], point)
            elif kind == PHASE:
                if self.phase[i, index]:
                    raise RejectedError(
                        f"node {int(part.ident[node])} [{tree.path(int(node))}] ties a pair that "
                        "is already tied"
                    )
                self.phase[i, index] = -1 if side else 1
            elif kind == UNTIED:
                self._untie(i, net)

    def _untie(self, i: int, net: Net) -> None:
        """Drop tied phases: facts on virtual differences do not hold for true ones.

        Bounds of z concern N, and bands true differences: both hold for every counter-example.
        """
        phase, state = self.phase[i], self.state[i]
        tied = [k for k in range(net.layers - 1) if phase[net.at(k)].any()]
        for k in range(tied[0] + 1 if tied else net.layers, net.layers - 1):
            at = net.at(k)
            state[4, at], state[5, at] = -state[3, at], state[2, at]
        phase[:] = 0

    def cut(self, own: Integers, forms: Forms, least: Floats, numbers: Arithmetic) -> None:
        """Shrink some nodes' regions to where ``slopes x + constant >= least`` is possible."""
        self.lower[own], self.upper[own], empty = contract(
            forms, least, self.lower[own], self.upper[own], numbers
        )
        self.alive[own[empty]] = False

    def cut_to(self, given: HalfSpaces, first: Integers | int = 0) -> None:
        """Cut regions to half-spaces, from a given index of each node on."""
        for c in range(int(given.count.max(initial=0))):
            own = np.flatnonzero(self.alive & (first <= c) & (c < given.count))
            if len(own):
                forms = Forms(given.rows[own, c], given.shift[own, c])
                self.cut(own, forms, np.zeros(len(own)), given.arithmetic)


_ROWS = 1024
"""Rows pulled back at once, so that they stay in the cache."""


def bound_hidden_pairs(space: Space, block: Block, nodes: Nodes, given: HalfSpaces) -> None:
    """Bound the z and dz of all hidden pairs, each layer from those before it."""
    net, state, phase = nodes.net, block.state, block.phase
    lowest = np.full(len(block.nodes), net.layers)
    for k in reversed(range(net.layers - 1)):
        lowest[(phase[:, net.at(k)] != 0).any(axis=1)] = k
    for k in range(net.layers - 1):
        at = net.at(k)
        known = state[:, :, at]
        tied = (lowest < k) & block.alive & space.differs
        # Ancestors' bounds of differences may concern others, with fewer tied pairs.
        known[tied, 4:] = np.array([-np.inf, np.inf])[:, None]
        unstable = ~((known[:, 0] >= known[:, 3]) | (known[:, 1] <= -known[:, 2]))
        _cut_by_ties(block, nodes, k, unstable, given)
        wanted = unstable if k else np.ones_like(unstable)
        wanted &= block.alive[:, None]
        _tighten(block, nodes, k, wanted, given, pair=False)
        wanted |= (tied & block.alive)[:, None]
        if space.differs:
            _tighten(block, nodes, k, wanted, given, pair=True)
        low, high, p, q = known[:, 0], known[:, 1], known[:, 2], known[:, 3]
        below, above = known[:, 4], known[:, 5]
        true = (lowest >= k)[:, None] & wanted
        np.copyto(p, np.minimum(p, np.maximum(above, 0.0)), where=true)
        np.copyto(q, np.minimum(q, np.maximum(-below, 0.0)), where=true)
        here = phase[:, at]
        if np.isnan(known[block.alive]).any():
            raise RejectedError(OUT_OF_RANGE)
        crossed = (low > high) | (below > above)
        crossed |= ((here > 0) & (high < -p)) | ((here < 0) & (low > q))
        block.alive &= ~crossed.any(axis=1)
        nodes.facts.append(facts_of(known, here, lowest < k))


def _cut_by_ties(
    block: Block, nodes: Nodes, layer: int, unstable: Flags, given: HalfSpaces
) -> None:
    """Add what tied pairs imply about z: at least -p where on, at most q where off."""
    at = nodes.net.at(layer)
    phase, state = block.phase[:, at], block.state[:, :, at]
    first = given.count.copy()
    everything, neurons = np.nonzero((phase != 0) & unstable & block.alive[:, None])
    for begin in range(0, len(everything), _ROWS):
        of, neuron = everything[begin : begin + _ROWS], neurons[begin : begin + _ROWS]
        side = phase[of, neuron]
        rows = np.zeros((len(of), at.stop - at.start))
        rows[np.arange(len(of)), neuron] = side
        forms = pull_back(nodes, of, layer, rows, None)
        band = np.where(side > 0, state[of, 2, neuron], state[of, 3, neuron])
        given.add(of, forms, -band, block.lower, block.upper)
    if len(everything):
        block.cut_to(given, first)


def _tighten(
    block: Block,
    nodes: Nodes,
    layer: int,
    wanted: Flags,
    given: HalfSpaces,
    *,
    pair: bool,
) -> None:
    """Bound some outputs of a layer, or their differences, from both sides."""
    at = nodes.net.at(layer)
    state = block.state[:, :, at]
    everything, neurons = np.nonzero(wanted)
    below, above = (4, 5) if pair else (0, 1)
    for begin in range(0, len(everything), _ROWS):
        of, neuron = everything[begin : begin + _ROWS], neurons[begin : begin + _ROWS]
        # Both signs of a row, side by side.
        twice, sign = np.repeat(of, 2), np.tile([1.0, -1.0], len(of))
        rows = np.zeros((len(twice), at.stop - at.start))
        rows[np.arange(len(twice)), np.repeat(neuron, 2)] = sign
        own, change = (np.zeros_like(rows), rows) if pair else (rows, None)
        forms = pull_back(nodes, twice, layer, own, change)
        found, empty = largest_within(forms, twice, block.lower, block.upper, given)
        block.alive[twice[empty]] = False
        state[of, above, neuron] = np.minimum(state[of, above, neuron], found[::2])
        state[of, below, neuron] = np.maximum(state[of, below, neuron], -found[1::2])
