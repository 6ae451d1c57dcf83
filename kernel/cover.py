"""Covers: a tree of cases whose leaves together hold every counter-example, each leaf bounded.

Nothing here searches. The tree, the slopes of lines, the multipliers of half-spaces and those of
leaves are hints: whatever they are, what is accepted follows from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .boxes import shrink
from .networks import (
    ABOVE,
    BELOW,
    HIGH,
    LOW,
    Descent,
    Flags,
    Hull,
    Integers,
    Net,
    P,
    Pairs,
    Q,
    Slopes,
    above,
    at_least,
    largest,
    positive,
    take,
)
from .numbers import CROSSED, UNIT, Floats, Rejected, gamma, need
from .rows import Rows
from .values import Arrays, Ask, hint, question

ROOT, INPUT, MEMBERS, PHASE, UNTIED, RANGE = range(6)
"""How a node was made from its parent."""

_AT_ONCE = 256  # nodes bounded side by side, for networks of a hundred neurons
_ROWS = 1024  # forms pulled back at once
_KEPT = 16  # most forms that a node passes on to its children as half-spaces


@dataclass(frozen=True, eq=False)
class Asked:
    """Nodes whose evaluation errors are wanted."""

    lower: Floats  # shape (n, inputs): shifted
    upper: Floats
    state: Floats  # shape (n, 6, hidden)
    case: Integers  # shape (n,)
    members: list[Integers]


Errors = Callable[[Asked], Floats]
"""Return what float32 evaluation may add to each node's rows, shape (n, rows), or infinity."""


@dataclass(frozen=True, eq=False)
class Space:
    """N and its members over one region, and cases there: forms that a counter-example meets."""

    net: Net
    differs: bool  # whether any form depends on differences from N
    ties: Flags  # by case of the claim: whether phases may be tied
    rows: Rows  # forms of the cases of this region
    cases: Integers  # their numbers in the claim
    errors: Errors


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree; parents come before children, so there is no cycle."""

    parent: Integers  # shape (n,): -1 of a root
    kind: NDArray[np.int8]
    index: Integers  # the case, the input or the neuron
    side: Integers
    point: Floats
    renew: Flags  # shape (n,): where evaluation errors are bounded again, for the children
    group: Integers  # which set of members; -1 the parent's
    members: Integers
    offsets: Integers
    case: Integers
    children: list[Integers]

    def set_of(self, node: int | np.integer[Any]) -> Integers:
        """Return a node's members."""
        group = int(self.group[node])
        return self.members[self.offsets[group] : self.offsets[group + 1]]


def read_tree(arrays: Arrays, net: Net, counts: Sequence[int], ties: Flags, everyone: int) -> Tree:
    """Read a tree of cases with these numbers of rows, and check that it covers all of them."""
    parent = hint(arrays, "parent", np.int64, (None,))
    n = len(parent)
    index, side, group = (hint(arrays, k, np.int64, (n,)) for k in ("index", "side", "group"))
    kind = hint(arrays, "kind", np.int8, (n,))
    point = hint(arrays, "point", np.float64, (n,))
    renew = hint(arrays, "renew", np.bool_, (n,))
    members, offsets = (hint(arrays, k, np.int64, (None,)) for k in ("members", "offsets"))
    sets, is_root = len(offsets) - 1, kind == ROOT
    _each(np.isfinite(point), "is split at no number")
    _each((kind >= ROOT) & (kind <= RANGE), "has an unknown kind")
    top = np.choose(kind, [len(counts), net.inputs, 1, net.hidden, 1, net.hidden])
    _each((index >= 0) & (index < top), "splits on something that does not exist")
    _each((parent >= -1) & (parent < np.arange(n)), "does not come after its parent")
    _each((parent == -1) == is_root, "must have a parent, unless it is a root")
    owns = is_root | (kind == MEMBERS)
    _each((group >= 0) == owns, "must list members only as a root or a split of them")
    _each(group < sets, "refers to a set that does not exist")
    need(sets >= 1 and offsets[0] == 0 and offsets[-1] == len(members), "the sets are invalid")
    need(offsets[1:] > offsets[:-1], "a set of members is empty")
    need((members >= 0) & (members < everyone), "a set has a member that does not exist")
    case, group = index.copy(), group.copy()
    children: list[list[int]] = [[] for _ in range(n)]
    for i in np.flatnonzero(~is_root).tolist():
        case[i] = case[parent[i]]
        group[i] = group[i] if owns[i] else group[parent[i]]
        children[parent[i]].append(i)
    _each((kind != PHASE) | ties[case], "ties a pair of neurons that several forms depend on")
    bent = net.is_bent[np.where(kind == PHASE, index, 0)] if net.hidden else kind < 0
    _each((kind != PHASE) | ~bent, "ties a smooth neuron")
    own = [np.array(each, np.int64) for each in children]
    tree = Tree(parent, kind, index, side, point, renew, group, members, offsets, case, own)
    roots = np.flatnonzero(is_root)
    need(sorted(index[roots]) == list(range(len(counts))), "there must be one root for every case")
    for root in roots:
        fine = np.array_equal(np.sort(tree.set_of(root)), np.arange(everyone))
        need(fine, f"node {root} is a root that does not cover every member")
    for node in range(n):
        _cover(tree, node)
    return tree


def _each(fine: Flags, what: str) -> None:
    if not fine.all():
        raise Rejected(f"node {int(np.argmin(fine))} {what}")


def _cover(tree: Tree, node: int) -> None:
    """Children cover their parent: two sides of a point or of a tie, a partition, or one untied."""
    own = tree.children[node]
    if not len(own):
        return
    kinds = tree.kind[own]
    need(kinds == kinds[0], f"node {node} has children of different kinds")
    if kinds[0] == MEMBERS:
        parts = np.sort(np.concatenate([tree.set_of(child) for child in own]))
        fine = np.array_equal(parts, np.sort(tree.set_of(node)))
        need(fine, f"the sets below node {node} do not partition its members")
    elif kinds[0] == UNTIED:
        need(len(own) == 1, f"node {node} is untied more than once")
    else:
        need(sorted(tree.side[own]) == [0, 1], f"node {node} does not have its two children")
        one, two = own
        same = tree.index[one] == tree.index[two]
        need(same, f"the children of node {node} split on different things")
        same = kinds[0] == PHASE or tree.point[one] == tree.point[two]
        need(same, f"the children of node {node} are split at different points")


class Nodes:
    """Some nodes side by side: where their counter-examples are, and what holds there.

    ``G x + s >= 0`` are half-spaces that hold every counter-example; those not in use are 0.
    """

    def __init__(
        self, net: Net, differs: bool, names: Integers, hulls: list[Hull], ask: Ask
    ) -> None:
        self.net, self.differs, self.names, self.hulls, self._ask = net, differs, names, hulls, ask
        self.lower: Floats
        self.upper: Floats
        self.state: Floats  # shape (n, 6, hidden)
        self.phase: NDArray[np.int8]  # shape (n, hidden)
        self.errors: Floats  # shape (n, rows): what float32 evaluation adds to each row
        self.kept: tuple[Floats, Floats]  # forms of rows, for the children
        self.alive = np.ones(len(names), bool)
        self.pairs: list[Pairs] = []
        self.slopes: list[Slopes] = []
        self.G: Floats = np.zeros((len(names), 0, self.net.inputs))
        self.s: Floats = np.zeros((len(names), 0))
        self.listed = False  # whether forms are bounded over whole listed rows

    def only(self, at: Integers) -> Nodes:
        """Return some of them, to bound forms of what is known."""
        part = Nodes(
            self.net, self.differs, self.names[at], [self.hulls[i] for i in at.tolist()], self._ask
        )
        part.lower, part.upper = self.lower[at], self.upper[at]
        part.pairs = [take(each, at) for each in self.pairs]
        part.slopes = [take(each, at) for each in self.slopes]
        return part

    def forms(
        self,
        of: slice,
        layer: int,
        cz: Floats,
        cd: Floats | None,
        given: tuple[Floats, Floats] | None = None,
    ) -> tuple[Floats, Floats]:
        """Return forms in the input above ``cz z + cd dz``; see `Descent.forms`."""
        descent = Descent(self.net, self.hulls, self.pairs, self.slopes, of)
        return descent.forms(layer, cz, cd, given)

    def learn(self, some: Flags, slopes: Floats, constant: Floats) -> None:
        """Keep ``slopes x + constant >= 0``, shape (n, r), of some nodes, and cut boxes to it."""
        far = np.maximum(np.abs(self.lower), np.abs(self.upper))[:, None]
        constant = constant + 16 * UNIT * (np.abs(constant) + (np.abs(slopes) * far).sum(-1))
        some = some & np.isfinite(constant) & np.isfinite(slopes).all(-1)
        slopes, constant = np.where(some[..., None], slopes, 0.0), np.where(some, constant, 0.0)
        self.G = np.concatenate([self.G, slopes], 1)
        self.s = np.concatenate([self.s, constant], 1)
        for k in range(slopes.shape[1]):
            self.cut(some[:, k], slopes[:, k], constant[:, k])

    def cut(self, some: Flags, slopes: Floats, constant: Floats) -> None:
        """Cut boxes to where ``slopes x + constant >= 0`` can be, given the rest of the box.

        At the far end of feature i the form is at most its maximum less ``|slope| times the way``.
        """
        top = largest(slopes[:, None], constant[:, None], self.lower, self.upper)[:, 0]
        self.alive &= ~(some & (top < -CROSSED))
        low, high, steep = self.lower, self.upper, np.abs(slopes)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            keep = positive(top)[:, None] / steep * (1 + 4 * UNIT)
            keep += 4 * UNIT * (np.abs(low) + np.abs(high))
        some = some[:, None] & self.alive[:, None]
        self.lower = np.where(some & (slopes > 0) & (high - keep > low), high - keep, low)
        self.upper = np.where(some & (slopes < 0) & (low + keep < high), low + keep, high)

    def shrink(self) -> None:
        """Shrink boxes to the hulls of the listed rows in them."""
        self.lower, self.upper, empty = shrink(self.net.tables, self.lower, self.upper)
        self.alive &= ~empty

    def bound_hidden(self) -> None:
        """Bound the z and dz of all hidden pairs, each layer from those before it.

        Ties of lower layers make dz virtual: bounds of ancestors may concern fewer ties, and those
        of the start hold for all.
        """
        net, differs = self.net, self.differs
        tied = np.stack(
            [(self.phase[:, at] != 0).any(1) for at in net.at[:-1]] or [self.alive & False], 1
        )
        lowest = np.where(tied.any(1), tied.argmax(1), net.depth)
        for k, at in enumerate(net.at[:-1]):
            known, over = self.state[:, :, at], lowest < k
            known[over, BELOW:] = net.state[BELOW:, at]
            told = {"nodes": self.names, "layer": np.array(k), "state": known}
            told["kinds"] = net.kinds[k]
            wanted = hint(
                question(self._ask, "rows", told), "wanted", np.bool_, over.shape + known.shape[2:]
            )
            wanted = wanted & self.alive[:, None]
            self._use_ties(k, wanted)
            self._tighten(k, wanted, False)
            if differs:
                self._tighten(k, wanted | (over & self.alive)[:, None], True)
            low, high, p, q, below, over_d = np.moveaxis(known, 1, 0)
            true = (lowest >= k)[:, None]
            np.copyto(p, np.minimum(p, positive(over_d)), where=true)
            np.copyto(q, np.minimum(q, positive(-below)), where=true)
            here = self.phase[:, at]
            gone = (low > high + CROSSED) | (below > over_d + CROSSED)
            gone |= ((here > 0) & (high < -p - CROSSED)) | ((here < 0) & (low > q + CROSSED))
            self.alive &= ~gone.any(1)
            # What underflow made to cross is one number.
            low[...], high[...] = np.minimum(low, high), np.maximum(low, high)
            np.copyto(low, np.minimum(low, q), where=here < 0)
            np.copyto(high, np.maximum(high, -p), where=here > 0)
            below[...], over_d[...] = np.minimum(below, over_d), np.maximum(below, over_d)
            need(np.isfinite(known[self.alive]), "numbers out of range")
            known[~self.alive] = net.state[:, at]
            here = np.where(self.alive[:, None], here, 0).astype(np.int8)
            self.pairs.append(Pairs.of(known, here, over, net.kinds[k]))
            self.slopes.append(self._ask_slopes(k, known))

    def _ask_slopes(self, k: int, known: Floats) -> Slopes:
        pairs = self.pairs[k]
        told = {"state": known, "on": pairs.on, "off": pairs.off, "free": pairs.free}
        told["kinds"] = self.net.kinds[k]
        found, shape = question(self._ask, "slopes", told), pairs.on.shape
        rise, fall, rise_d, fall_d = (
            hint(found, name, np.float64, shape) for name in ("rise", "fall", "rise_d", "fall_d")
        )
        apart = hint(found, "apart", np.bool_, shape) & pairs.free
        return Slopes(rise, fall, rise_d, fall_d, apart)

    def _use_ties(self, k: int, wanted: Flags) -> None:
        """Keep what tied pairs say of x: z >= -p where on, z <= q where off."""
        at = self.net.at[k]
        side = np.where(wanted, self.phase[:, at], 0)
        most = int((side != 0).sum(1).max(initial=0))
        if not most:
            return
        order = np.argsort(side == 0, 1, kind="stable")[:, :most]
        there = np.take_along_axis(side, order, 1)
        rows = np.zeros((*order.shape, side.shape[1]))
        np.put_along_axis(rows, order[..., None], there[..., None].astype(float), 2)
        bands = self.state[:, P, at], self.state[:, Q, at]
        p, q = (np.take_along_axis(band, order, 1) for band in bands)
        slopes, constant = self.forms(slice(None), k, rows, None)
        self.learn(there != 0, slopes, above(constant) + np.where(there > 0, p, q) * (1 + 4 * UNIT))

    def _tighten(self, k: int, wanted: Flags, pair: bool) -> None:
        """Bound z_j and -z_j, or dz_j and -dz_j, of what is wanted; more rows do no harm."""
        at = self.net.at[k]
        low, high = (BELOW, ABOVE) if pair else (LOW, HIGH)
        counts = wanted.sum(1)
        width = wanted.shape[1]
        begin = 0
        while begin < len(counts):
            end, most = begin + 1, int(counts[begin])
            while end < len(counts) and 2 * max(most, counts[end]) * (end + 1 - begin) <= _ROWS:
                most, end = max(most, int(counts[end])), end + 1
            of, begin = slice(begin, end), end
            if not most:
                continue
            order = np.argsort(~wanted[of], 1, kind="stable")[:, :most]
            unit = np.zeros((len(order), most, width))
            np.put_along_axis(unit, order[..., None], 1.0, 2)
            rows = np.concatenate([unit, -unit], 1)
            form = (
                self.forms(of, k, np.zeros_like(rows), rows)
                if pair
                else self.forms(of, k, rows, None)
            )
            found = self._bound(of, *form)
            nodes = np.arange(len(counts))[of][:, None]
            known = self.state[:, :, at]
            known[nodes, high, order] = np.minimum(known[nodes, high, order], found[:, :most])
            known[nodes, low, order] = np.maximum(known[nodes, low, order], -found[:, most:])

    def _bound(self, of: slice, slopes: Floats, constant: Floats) -> Floats:
        """Bound forms over the box, and over the box with multiples t >= 0 of half-spaces added.

        Where all half-spaces hold, a form is at most itself plus multiples of them.
        """
        lower, upper, G, s = self.lower[of], self.upper[of], self.G[of], self.s[of]
        plain = largest(
            slopes, constant, lower, upper, tables=self.net.tables if self.listed else ()
        )
        if not G.any():
            return plain
        told = {
            "slopes": slopes, "constant": constant, "lower": lower, "upper": upper,
            "half_spaces": G, "shifts": s,
        }  # fmt: skip
        answer = question(self._ask, "multiples", told)
        row = hint(answer, "row", np.int64, (None,))
        slot = hint(answer, "slot", np.int64, row.shape)
        t = hint(answer, "t", np.float64, row.shape)
        n, r, _ = slopes.shape
        need(
            (row >= 0) & (row < n * r) & (slot >= 0) & (slot < G.shape[1]), "a multiple of nothing"
        )
        need(t >= 0, "a negative multiple")
        T = np.zeros((n * r, G.shape[1]))
        T[row, slot] = t
        T = T.reshape(n, r, -1)
        far = np.maximum(np.abs(lower), np.abs(upper))[:, None]
        size = np.abs(constant) + (np.abs(slopes) * far).sum(-1)
        size += (T @ (np.abs(s) + (np.abs(G) * far).sum(-1))[..., None])[..., 0]
        size *= 2 * gamma(2 * G.shape[1] + 64)
        added = (T @ s[..., None])[..., 0]
        return np.minimum(plain, largest(slopes + T @ G, constant + added + size, lower, upper))


def at_everywhere(net: Net, ask: Ask) -> Floats:
    """Bound all hidden pairs over the whole region, from one node, shape (1, 6, hidden)."""
    node = Nodes(net, True, np.zeros(1, np.int64), [net.hull(np.arange(len(net.others)))], ask)
    node.lower, node.upper = net.lower[None], net.upper[None]
    node.state, node.phase = net.state[None].copy(), np.zeros((1, net.hidden), np.int8)
    node.listed = True
    node.bound_hidden()
    return node.state


_Half = tuple[int, int, float]  # an input, a side and the point between the sides

_Entry = tuple[Nodes, int, int, _Half | None]
"""A parent among its nodes, the child's name, and which half of a leaf it is, if it is one."""


class Walk:
    """The part of a claim's tree over one region, node by node from its roots."""

    def __init__(self, space: Space, tree: Tree, upper: float, ask: Ask) -> None:
        self.space, self.net, self.rows = space, space.net, space.rows
        self.tree, self.upper, self._ask = tree, upper, ask
        self._place = np.full(len(space.ties), -1)
        self._place[space.cases] = np.arange(len(space.cases))
        self.done = 0

    def run(self, report: Callable[[int], None] = lambda done: None) -> None:
        """Check every node: a child starts from what its parent knows."""
        tree, net = self.tree, self.net
        roots = np.flatnonzero(tree.kind == ROOT)
        roots = roots[self._place[tree.index[roots]] >= 0]
        n, room = len(roots), min(self.rows.most_asked, _KEPT)
        start = Nodes(net, self.space.differs, roots, [], self._ask)
        start.lower, start.upper = np.tile(net.lower, (n, 1)), np.tile(net.upper, (n, 1))
        start.state = np.tile(net.state, (n, 1, 1))
        start.phase = np.zeros((n, net.hidden), np.int8)
        start.errors = self.rows.errors_of(self._place[tree.index[roots]])
        start.kept = np.zeros((n, room, net.inputs)), np.zeros((n, room))
        stack: list[_Entry] = [(start, i, root, None) for i, root in enumerate(roots.tolist())]
        size = max(8, min(_AT_ONCE, _AT_ONCE * 100 // max(net.hidden, 1)))
        while stack:
            taken, stack = stack[-size:], stack[:-size]
            # Nodes with the same members, side by side.
            taken.sort(key=lambda entry: (int(tree.group[entry[2]]), entry[2]))
            stack += self._check(taken, room)
            self.done += len(taken)
            report(self.done)

    def _check(self, taken: list[_Entry], room: int) -> list[_Entry]:
        """Bound some nodes, prove those that are leaves, and return what follows."""
        names = np.array([name for _, _, name, _ in taken], np.int64)
        groups = self.tree.group[names].tolist()
        known = {
            group: self.net.hull(self.tree.set_of(name))
            for group, name in zip(groups, names, strict=True)
        }
        nodes = Nodes(
            self.net, self.space.differs, names, [known[group] for group in groups], self._ask
        )
        nodes.lower, nodes.upper, nodes.state, nodes.phase, nodes.errors = (
            np.stack([getattr(parent, key)[i] for parent, i, _, _ in taken])
            for key in ("lower", "upper", "state", "phase", "errors")
        )
        for i, (_, _, name, half) in enumerate(taken):
            self._split(nodes, i, name, half)
        nodes.shrink()
        case = self._place[self.tree.case[names]]
        inherited = [
            np.stack([parent.kept[part][i] for parent, i, _, _ in taken]) for part in (0, 1)
        ]
        there = (self.tree.kind[names] != ROOT)[:, None] & self.rows.which_asked(case, room)
        least = self.rows.least(case, self.upper, room)
        nodes.learn(
            there & nodes.alive[:, None],
            inherited[0],
            above(inherited[1] - least) + 8 * UNIT * abs(least),
        )
        nodes.bound_hidden()
        nodes.kept = self._contract(nodes, case, room)
        nodes.shrink()
        leaf = np.array([not len(self.tree.children[name]) for name in names.tolist()])
        halves = self._prove(nodes, case, np.flatnonzero(leaf & nodes.alive))
        inner = np.flatnonzero(~leaf & nodes.alive).tolist()
        renew = [i for i in inner if self.tree.renew[names[i]]]
        self._bound_errors(nodes, case, np.array(renew, np.int64))
        found = [
            (nodes, i, int(child), None) for i in inner for child in self.tree.children[names[i]]
        ]
        return [*found, *halves]

    def _split(self, nodes: Nodes, i: int, name: int, half: _Half | None) -> None:
        """Turn what was the parent's into the child's, or into one half of a leaf."""
        tree, net = self.tree, self.net
        kind, j, side, point = (
            each[name] for each in (tree.kind, tree.index, tree.side, tree.point)
        )
        if half is not None:
            kind, (j, side, point) = np.int8(INPUT), half
        if kind == INPUT and side:
            nodes.lower[i, j] = max(nodes.lower[i, j], point)
        elif kind == INPUT:
            nodes.upper[i, j] = min(nodes.upper[i, j], point)
        elif kind == PHASE:
            need(nodes.phase[i, j] == 0, f"node {name} ties a pair that is already tied")
            nodes.phase[i, j] = -1 if side else 1
        elif kind == RANGE and side:
            nodes.state[i, HIGH, j] = min(nodes.state[i, HIGH, j], point)
        elif kind == RANGE:
            nodes.state[i, LOW, j] = max(nodes.state[i, LOW, j], point)
        elif kind == UNTIED:
            # Bounds of z concern N, and bands true differences: only virtual ones are forgotten.
            tied = [k for k in range(net.depth - 1) if nodes.phase[i, net.at[k]].any()]
            for k in range(tied[0] + 1 if tied else net.depth, net.depth - 1):
                at, state = net.at[k], nodes.state[i]
                state[BELOW, at], state[ABOVE, at] = -state[Q, at], state[P, at]
            nodes.phase[i] = 0

    def _contract(self, nodes: Nodes, case: Integers, room: int) -> tuple[Floats, Floats]:
        """Bound what each case asks, cut to where that can be met, and keep it for children.

        Rows that a case does not ask for, and those of empty nodes, stay 0: nobody reads them.
        """
        slopes = np.zeros((len(case), self.rows.most_asked, self.net.inputs))
        constant = np.zeros(slopes.shape[:2])
        asked = self.rows.which_asked(case, slopes.shape[1])
        least = self.rows.least(case, self.upper, slopes.shape[1])
        for k in range(slopes.shape[1]):
            some = asked[:, k] & nodes.alive
            if not some.any():
                continue
            form, error = self.rows.pick(case, k, nodes.errors)
            g, c = self._over(nodes, slice(None), form)
            slopes[:, k], constant[:, k] = g, above(c + error * (1 + 8 * UNIT))
            nodes.cut(some, g, above(constant[:, k] - least[:, k]) + 8 * UNIT * np.abs(least[:, k]))
        return slopes[:, :room], constant[:, :room]

    def _over(
        self,
        nodes: Nodes,
        of: slice,
        form: tuple[Floats, Floats, Floats, Floats],
        given: tuple[Floats, Floats] | None = None,
    ) -> tuple[Floats, Floats]:
        """Return forms in x above ``inputs x + scores z + change dz + constant``, one a node."""
        inputs, scores, change, constant = form
        paired = bool(change.any()) or (given is not None and self.space.differs)
        cd = change[:, None] if paired else None
        g, c = nodes.forms(of, self.net.depth - 1, scores[:, None], cd, given)
        slopes, total = inputs + g[:, 0], constant + c[:, 0]
        return slopes, total + 4 * UNIT * (np.abs(constant) + np.abs(total)) * (constant != 0)

    def _prove(self, nodes: Nodes, case: Integers, leaves: Integers) -> list[_Entry]:
        """Bound the least goal by a share of all goals, which is no less; split what fails."""
        rows = self.rows
        if not len(leaves):
            return []
        names, n = nodes.names[leaves], len(leaves)
        answer = question(self._ask, "proof", {"nodes": names, "state": nodes.state[leaves]})
        share = hint(answer, "share", np.float64, (n, nodes.errors.shape[1]))
        cz, cd = (hint(answer, key, np.float64, (n, self.net.hidden)) for key in ("cz", "cd"))
        need(share >= 0, "a negative multiplier")
        for name, own, at in zip(names.tolist(), share, case[leaves].tolist(), strict=True):
            goal = rows.goal[rows.case(at)]
            need(~own[len(goal) :].any(), f"node {name} has multipliers of rows it does not have")
            need(math.fsum(own[: len(goal)][goal]) == 1, f"node {name}: shares do not sum to 1")
        found: list[_Entry] = []
        for i in range(0, n, 64):
            some = slice(i, i + 64)
            at, own = leaves[some], share[some]
            part = nodes.only(at)
            form = rows.combine(case[at], own)
            g, c = self._over(part, slice(None), form, (cz[some], cd[some]))
            error = (own * nodes.errors[at]).sum(1) * (1 + gamma(4 * own.shape[1] + 8))
            value = largest(g[:, None], (c + error)[:, None], part.lower, part.upper)[:, 0]
            value = value + 8 * UNIT * (np.abs(c) + error)
            open_ = np.flatnonzero(~(value <= self.upper))
            if len(open_):
                found += self._halve(nodes, case, at[open_], value[open_], g[open_])
        return found

    def _halve(
        self, nodes: Nodes, case: Integers, at: Integers, value: Floats, slopes: Floats
    ) -> list[_Entry]:
        """Ask where to split leaves that are not bounded yet; both halves are leaves again."""
        told = {"lower": nodes.lower[at], "upper": nodes.upper[at], "nodes": nodes.names[at]}
        answer = question(self._ask, "split", {**told, "slopes": slopes, "value": value})
        if "index" not in answer:
            raise Rejected(
                f"node {nodes.names[at[0]]} is bounded by {value[0]:.9g}, not by the claimed "
                f"{self.upper:.9g} (by {value[0] - self.upper:.3g})"
            )
        index = hint(answer, "index", np.int64, at.shape)
        point = hint(answer, "point", np.float64, at.shape)
        need((index >= 0) & (index < self.net.inputs), "a split of no input")
        need(np.isfinite(point), "a split at no number")
        self._bound_errors(nodes, case, at)
        return [
            (nodes, i, int(nodes.names[i]), (j, side, p))
            for i, j, p in zip(at.tolist(), index.tolist(), point.tolist(), strict=True)
            for side in (0, 1)
        ]

    def _bound_errors(self, nodes: Nodes, case: Integers, at: Integers) -> None:
        """Bound evaluation errors again in some nodes, for what starts from them."""
        if len(at):
            members = [self.tree.set_of(int(name)) for name in nodes.names[at]]
            found = self.space.errors(
                Asked(nodes.lower[at], nodes.upper[at], nodes.state[at], case[at], members)
            )
            width = found.shape[1]
            nodes.errors[at, :width] = np.minimum(nodes.errors[at, :width], at_least(found))
