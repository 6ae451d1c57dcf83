"""Walk of a tree from its roots, bounding every node; leaves must prove the claim."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from leaveout.arrays import Floats, Integers
from leaveout.verifier.checker.arithmetic import UNIT, gamma
from leaveout.verifier.checker.blocks import Block, HalfSpaces, bound_hidden_pairs
from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.inputs import shrink
from leaveout.verifier.checker.pairs import Forms, Nodes, largest, pull_back, round_up_forms
from leaveout.verifier.checker.spaces import Asked, Combined, Space
from leaveout.verifier.checker.tree_shape import ROOT, Tree

Flags = NDArray[np.bool_]


@dataclass(eq=False)
class Spare:
    """The parts of a tree that a walk used."""

    seen: Flags  # shape (n,): visited nodes; the others have an empty ancestor
    neurons: dict[int, Integers] = field(default_factory=dict)

    @staticmethod
    def of(nodes: int) -> Spare:
        """Return that of a walk that has not begun."""
        return Spare(np.zeros(nodes, bool))

    def note(self, leaves: Integers, needed: Flags, fine: Flags) -> None:
        """Record that these neurons' multipliers suffice for leaves; earlier records remain."""
        for leaf, own in zip(leaves[fine].tolist(), needed[fine], strict=True):
            self.neurons.setdefault(leaf, np.flatnonzero(own))


_NODES = 256
"""Nodes bounded at once, for networks of a hundred neurons."""

_ROOM = 1e-9
"""Multipliers are not needed if others prove a claim with this relative margin."""

_REMEMBERED = 16
"""Most bounds of forms, and of sums, that a node passes to its children."""


class Walk:
    """The part of one tree over one region, to be checked."""

    def __init__(self, space: Space, tree: Tree, upper: float, spare: Spare | None = None) -> None:
        self._spare = spare
        self.space, self.net, self.rows = space, space.net, space.rows
        self._numbers = space.net.arithmetic
        self.tree, self.upper = tree, upper
        self._place = np.full(len(tree.shape.goals), -1)
        self._place[space.cases] = np.arange(len(space.cases))
        self._stack: list[tuple[Block, int, int]] = []
        # For each case its forms, then its sums.
        self._asked = np.diff(self.rows.starts) + np.diff(self.rows.sum_starts)
        self._remembered = min(int(self._asked.max()), _REMEMBERED)
        self.done = 0

    def run(self, progress: Callable[[int], None] | None = None) -> None:
        """Check every node."""
        part, net = self.tree.part, self.net
        roots = np.flatnonzero(part.kind == ROOT)
        roots = roots[self._place[part.index[roots]] >= 0]
        block = Block(
            roots,
            np.tile(net.lower, (len(roots), 1)),
            np.tile(net.upper, (len(roots), 1)),
            np.tile(self.space.start.state, (len(roots), 1, 1)),
            np.zeros((len(roots), net.hidden), np.int8),
            np.zeros((len(roots), self._remembered, net.inputs)),
            np.zeros((len(roots), self._remembered)),
            np.ones(len(roots), bool),
        )
        for root in roots:
            own = self.rows.errors[self.rows.case(int(self._place[part.index[root]]))]
            self._large_enough(int(root), part.errors[root, : len(own)], own)
        self._stack = [(block, i, int(root)) for i, root in enumerate(roots)]
        size = max(8, min(_NODES, _NODES * 100 // max(net.hidden, 1)))
        while self._stack:
            taken, self._stack = self._stack[-size:], self._stack[:-size]
            # Nodes with the same set, side by side.
            taken.sort(key=lambda entry: (int(self.tree.group[entry[2]]), entry[2]))
            nodes = np.array([entry[2] for entry in taken], np.int64)
            # For products this small, several threads cost more than they gain.
            with threadpool_limits(1, "blas"):
                self._check(Block.gather_rows([entry[:2] for entry in taken], nodes))
            self.done += len(nodes)
            if progress is not None:
                progress(self.done)

    def _check(self, block: Block) -> None:
        if self._spare is not None:
            self._spare.seen[block.nodes] = True
        block.split(self.tree, self.net)
        block.lower, block.upper, empty = shrink(self.net.tables, block.lower, block.upper)
        block.alive &= ~empty
        groups, which = np.unique(self.tree.group[block.nodes], return_inverse=True)
        sets = self.space.sets.sets(groups.tolist(), [self.tree.members(int(g)) for g in groups])
        nodes = Nodes(self.net, sets, which, self.space.start.terms, self.space.start.terms_d, [])
        bound_hidden_pairs(self.space, block, nodes, self._recall_half_spaces(block))
        self._contract(block, nodes)
        is_leaf = self.tree.is_leaf(block.nodes)
        _, _, empty = shrink(self.net.tables, block.lower, block.upper)
        block.alive &= ~empty
        self._prove(block, nodes, np.flatnonzero(is_leaf & block.alive))
        self._bound_rounding(block, np.flatnonzero(~is_leaf & block.alive))
        inner = block.select(np.flatnonzero(~is_leaf & block.alive))
        for i, node in enumerate(inner.nodes):
            begin, end = self.tree.first[node], self.tree.first[node + 1]
            self._stack += [(inner, i, int(child)) for child in self.tree.children[begin:end]]

    def _recall_half_spaces(self, block: Block) -> HalfSpaces:
        """Return the half-spaces of parents' forms, and cut regions to them.

        A form bounds the same row for every counter-example in the parent; in the node, goals must
        exceed the node's own target.
        """
        part, room = self.tree.part, self._remembered
        case, least = self._place[self.tree.case[block.nodes]], np.zeros((len(block.nodes), room))
        target = self._targets(block.nodes)
        rows = self.rows
        counts = np.diff(rows.starts)[case]
        there = (part.kind[block.nodes] != ROOT) & block.alive
        known = there[:, None] & (np.arange(room) < self._asked[case][:, None])
        for k in range(room):
            own = np.flatnonzero(known[:, k] & (counts > k))
            least[own, k] = np.where(rows.goal[rows.starts[case[own]] + k], target[own], 0.0)
            own = np.flatnonzero(known[:, k] & (counts <= k))
            pair = rows.sums[rows.sum_starts[case[own]] + k - counts[own]]
            least[own, k] = self._least_sum(pair, target[own])
        ties = int(np.count_nonzero(block.phase, axis=1).max(initial=0))
        found = HalfSpaces.none(len(block.nodes), room + ties, self.net.inputs, self._numbers)
        of, at = np.nonzero(known)
        forms = Forms(block.slopes[of, at], block.constant[of, at])
        found.add(of, forms, least[of, at], block.lower, block.upper)
        block.cut_to(found)
        return found

    def _contract(self, block: Block, nodes: Nodes) -> None:
        """Cut regions to where counter-examples above the target are possible."""
        rows, errors = self.rows, self.tree.part.errors[block.nodes]
        case = self._place[self.tree.case[block.nodes]]
        target = self._targets(block.nodes)
        counts, sums = np.diff(rows.starts)[case], np.diff(rows.sum_starts)[case]
        live = np.flatnonzero(block.alive)
        for k in range(int(counts[live].max(initial=0))):
            live = live[block.alive[live]]
            own = live[counts[live] > k]
            at = rows.starts[case[own]] + k
            least = np.where(rows.goal[at], target[own], 0.0)
            forms = self._add_errors(self._over(nodes, own, rows.pick(at)), errors[own, k])
            self._remember(block, own, np.full(len(own), k), forms)
            block.cut(own, forms, least, self._numbers)
        for k in range(int(sums[live].max(initial=0))):
            live = live[block.alive[live]]
            own = live[sums[live] > k]
            pair = rows.sums[rows.sum_starts[case[own]] + k]
            first, second = pair[:, 0], pair[:, 1]
            least = self._least_sum(pair, target[own])
            begin = rows.starts[case[own]]
            error = self._numbers.number(errors[own, first - begin]) + errors[own, second - begin]
            forms = self._add_errors(self._over(nodes, own, rows.pick(first, second)), error)
            self._remember(block, own, counts[own] + k, forms)
            block.cut(own, forms, least, self._numbers)

    def _targets(self, nodes: Integers) -> Floats:
        """Return slightly lower targets, so that rounding cuts away no points above them."""
        target = self.tree.part.target[nodes]
        return np.asarray(target - 1e-12 * (1.0 + np.abs(target)))

    def _least_sum(self, pair: Integers, target: Floats) -> Floats:
        """Return lower bounds of sums of two rows, shape (n, 2), above a target."""
        own = np.where(self.rows.goal[pair], target[:, None], 0.0)
        return self._numbers.down(self._numbers.number(own[:, 0]) + own[:, 1])

    def _remember(self, block: Block, own: Integers, place: Integers, forms: Forms) -> None:
        """Keep bounds of forms for children, if there is room."""
        fits = place < block.constant.shape[1]
        forms = round_up_forms(forms, block.lower[own], block.upper[own], self._numbers)
        own, place = own[fits], place[fits]
        block.slopes[own, place] = forms.slopes[fits]
        block.constant[own, place] = forms.constant[fits]

    def _over(
        self,
        nodes: Nodes,
        of: Integers,
        asked: Combined,
        given: tuple[Floats, Floats] | None = None,
    ) -> Forms:
        """Bound combinations of forms, one per node, by forms of the input."""
        slopes, constant = asked.inputs.copy(), asked.constant.copy()
        # Multipliers of differences may help even if a form is of N alone.
        paired = asked.change.any(axis=1) | (given is not None and self.space.differs)
        for own, pair in (
            (np.flatnonzero(paired), True),
            (np.flatnonzero(~paired & asked.scores.any(axis=1)), False),
        ):
            if not len(own):
                continue
            change = asked.change[own] if pair else None
            chosen = None if given is None else (given[0][own], given[1][own])
            top = self.net.layers - 1
            found = pull_back(nodes, of[own], top, asked.scores[own], change, chosen)
            slopes[own] += found.slopes
            # A sum of two numbers, unless one is zero.
            before, added = (self._numbers.nearest(c) for c in (constant[own], found.constant))
            room = 4 * UNIT * (np.abs(before) + np.abs(added))
            room[before == 0.0] = 0.0
            constant[own] += found.constant + room
        return Forms(slopes, constant)

    def _prove(self, block: Block, nodes: Nodes, leaves: Integers) -> None:
        """Bound leaves by their multipliers."""
        if not len(leaves):
            return
        part, names = self.tree.part, block.nodes[leaves]
        proof = part.proof[names]
        if (proof < 0).any():
            first = int(np.argmax(proof < 0))
            self._fail(int(names[first]), "is not empty, but has no multipliers", math.inf)
        share = part.share[proof]
        asked = self.rows.combine(self._place[self.tree.case[names]], share)
        given = part.multipliers.rows(proof, self.net.hidden)
        value = self._value(block, nodes, leaves, asked, given)
        claim = np.minimum(part.claim[names], self.upper)
        wrong = ~(value <= claim)
        if wrong.any():
            i = int(np.argmax(wrong))
            self._fail(
                int(names[i]),
                f"is bounded by {value[i]:.9g}, not by the claimed {claim[i]:.9g}",
                float(value[i] - claim[i]),
            )
        if self._spare is not None:
            self._try_fewer(block, nodes, leaves, asked, given, self._spare)

    def _value(
        self,
        block: Block,
        nodes: Nodes,
        leaves: Integers,
        asked: Combined,
        given: tuple[Floats, Floats],
    ) -> Floats:
        """Bound the least goal at leaves by a combination of forms and multipliers."""
        part, names, numbers = self.tree.part, block.nodes[leaves], self._numbers
        share = part.share[part.proof[names]]
        forms = self._over(nodes, leaves, asked, given)
        error = (numbers.number(share) * part.errors[names]).sum(axis=1)
        error = error * (1.0 + gamma(4 * share.shape[1] + 8))
        lower, upper = block.lower[leaves], block.upper[leaves]
        value = largest(self._add_errors(forms, error), lower, upper, numbers)
        terms = np.abs(numbers.nearest(forms.constant)) + np.abs(value) + numbers.nearest(error)
        return value + 8 * UNIT * terms

    def _try_fewer(
        self,
        block: Block,
        nodes: Nodes,
        leaves: Integers,
        asked: Combined,
        given: tuple[Floats, Floats],
        spare: Spare,
    ) -> None:
        """Record which neurons' multipliers are needed: none, those of unstable ones, or all."""
        names = block.nodes[leaves]
        enough = np.minimum(self.tree.part.claim[names], self.upper)
        enough = enough - _ROOM * (1.0 + np.abs(enough))
        low, high, p, q = (block.state[leaves, i] for i in range(4))
        bends = ~((low >= q) | (high <= -p))
        for needed in (np.zeros_like(bends), bends):
            fewer = (np.where(needed, given[0], np.nan), np.where(needed, given[1], np.nan))
            value = self._value(block, nodes, leaves, asked, fewer)
            spare.note(names, needed, value <= enough)
        everything = np.ones_like(bends)
        spare.note(names, everything, np.ones(len(names), bool))

    def _bound_rounding(self, block: Block, inner: Integers) -> None:
        """Check evaluation errors that children claim to be smaller than their parents'."""
        part, tree = self.tree.part, self.tree
        chosen, wanted = [], []
        for i in inner:
            node = int(block.nodes[i])
            children = tree.children[tree.first[node] : tree.first[node + 1]]
            if (part.errors[children] < part.errors[node]).any():
                chosen.append(int(i))
                wanted.append(children)
        if not chosen:
            return
        at = np.array(chosen)
        names = block.nodes[at]
        found = self.space.errors.over(
            Asked(
                block.lower[at], block.upper[at], block.state[at],
                self._place[tree.case[names]],
                [tree.members(int(group)) for group in tree.group[names]],
            )
        )  # fmt: skip
        for i, children in enumerate(wanted):
            count = found.shape[1]
            above = part.errors[names[i], :count]
            for child in children:
                own = part.errors[child, :count]
                self._large_enough(int(child), own, np.where(own < above, found[i], 0.0))

    def _large_enough(self, node: int, recorded: Floats, own: Floats) -> None:
        wrong = ~(recorded >= own)
        if wrong.any():
            k = int(np.argmax(wrong))
            self._fail(
                node,
                f"states too small an evaluation error of form {k}",
                float(own[k] - recorded[k]),
            )

    def _fail(self, node: int, what: str, by: float) -> None:
        part = self.tree.part
        amount = f" (by {by:.3g})" if math.isfinite(by) else ""
        raise RejectedError(
            f"node {int(part.ident[node])} [{self.tree.path(int(node))}] {what}{amount}"
        )

    def _add_errors(self, forms: Forms, error: Floats) -> Forms:
        """Add evaluation errors; the sum's own rounding is left to its users."""
        charged = error * (1.0 + 8 * UNIT)
        return Forms(forms.slopes, forms.constant + charged)
