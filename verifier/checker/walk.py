"""Go through a tree from its roots, bounding every node anew; a leaf must reach its claim."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from leaveout.verifier.checker.backward import Forms, Nodes, largest, pull_back
from leaveout.verifier.checker.choices import shrink
from leaveout.verifier.checker.errors import OUT_OF_RANGE, RejectedError
from leaveout.verifier.checker.intervals import Start
from leaveout.verifier.checker.layout import Net, SetStore
from leaveout.verifier.checker.leads import LeadProgram, Region, lead_program
from leaveout.verifier.checker.pairs import facts_of
from leaveout.verifier.checker.question import Question
from leaveout.verifier.checker.rounding import UNIT
from leaveout.verifier.checker.tree import INPUT, PHASE, ROOT, Tree

__all__ = ["Walk"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

_NODES = 256
"""Nodes bounded together, for networks of a hundred neurons."""

_ROWS = 1024
"""Rows pulled back together, so that they stay in cache."""


@dataclass(eq=False)
class _Block:
    """Nodes side by side: what their children start from."""

    nodes: Integers
    lower: Floats
    upper: Floats
    state: Floats
    phase: NDArray[np.int8]
    alive: Flags

    @staticmethod
    def gathered(parts: list[tuple[_Block, int]], nodes: Integers) -> _Block:
        """Return copies of some rows of some blocks."""
        return _Block(
            nodes,
            np.stack([block.lower[i] for block, i in parts]),
            np.stack([block.upper[i] for block, i in parts]),
            np.stack([block.state[i] for block, i in parts]),
            np.stack([block.phase[i] for block, i in parts]),
            np.ones(len(nodes), bool),
        )


class Walk:
    """One tree, checked.

    Parameters
    ----------
    question : Question
    net : Net
    store : SetStore
    start : Start
    tree : Tree
    upper : float
        What is claimed.
    whole : (float, float)
        Evaluation errors of N and of any member over the whole box.
    """

    def __init__(
        self,
        question: Question,
        net: Net,
        store: SetStore,
        start: Start,
        tree: Tree,
        upper: float,
        whole: tuple[float, float],
    ) -> None:
        self.question, self.net, self.store, self.start = question, net, store, start
        self.tree, self.upper, self.whole = tree, upper, whole
        self._alone: LeadProgram | None = None
        self._stack: list[tuple[_Block, int, int]] = []
        self.done = 0

    def run(self, progress: Callable[[int], None] | None = None) -> None:
        """Check every node.

        Raises
        ------
        RejectedError
            Naming the first node that fails.
        """
        part, net = self.tree.part, self.net
        high = part.target > self.upper
        if high.any():
            self._fail(
                int(np.argmax(high)),
                "cuts away leaks above the claim",
                float(part.target[np.argmax(high)] - self.upper),
            )
        roots = np.flatnonzero(part.kind == ROOT)
        block = _Block(
            roots,
            np.tile(net.lower, (len(roots), 1)),
            np.tile(net.upper, (len(roots), 1)),
            np.tile(self.start.state, (len(roots), 1, 1)),
            np.zeros((len(roots), net.hidden), np.int8),
            np.ones(len(roots), bool),
        )
        for root in roots:
            for recorded, own, what in (
                (part.error[root], self.whole[0], "N"), (part.tie[root], self.whole[1], "members"),
            ):  # fmt: skip
                if not recorded >= own:
                    self._fail(
                        int(root), f"has too small an evaluation error of {what}", own - recorded
                    )
        self._stack = [(block, i, int(root)) for i, root in enumerate(roots)]
        size = max(8, min(_NODES, _NODES * 100 // max(net.hidden, 1)))
        while self._stack:
            taken, self._stack = self._stack[-size:], self._stack[:-size]
            # Nodes of one set side by side.
            taken.sort(key=lambda entry: (int(self.tree.group[entry[2]]), entry[2]))
            nodes = np.array([entry[2] for entry in taken], np.int64)
            # Products this small lose more to several threads than they gain.
            with threadpool_limits(1, "blas"):
                self._check(_Block.gathered([entry[:2] for entry in taken], nodes))
            self.done += len(nodes)
            if progress is not None:
                progress(self.done)

    def _check(self, block: _Block) -> None:
        self._split(block)
        block.lower, block.upper, empty = shrink(self.net.tables, block.lower, block.upper)
        block.alive &= ~empty
        groups, which = np.unique(self.tree.group[block.nodes], return_inverse=True)
        sets = self.store.sets(groups.tolist(), [self.tree.members(int(g)) for g in groups])
        nodes = Nodes(self.net, sets, which, self.start.terms, self.start.terms_d, [])
        self._tighten(block, nodes)
        self._contract(block, nodes)
        is_leaf = self.tree.is_leaf(block.nodes)
        _, _, empty = shrink(self.net.tables, block.lower, block.upper)
        block.alive &= ~empty
        self._prove(block, nodes, np.flatnonzero(is_leaf & block.alive))
        self._regauge(block, np.flatnonzero(~is_leaf & block.alive))
        for i in np.flatnonzero(~is_leaf & block.alive):
            node = int(block.nodes[i])
            begin, end = self.tree.first[node], self.tree.first[node + 1]
            self._stack += [(block, int(i), int(child)) for child in self.tree.children[begin:end]]

    def _split(self, block: _Block) -> None:
        """Turn what was copied from the parents into the children's regions and phases."""
        part = self.tree.part
        for i, node in enumerate(block.nodes):
            kind, index, side = part.kind[node], int(part.index[node]), part.side[node]
            if kind == INPUT:
                point = part.point[node]
                if side == 0:
                    block.upper[i, index] = min(block.upper[i, index], point)
                else:
                    block.lower[i, index] = max(block.lower[i, index], point)
            elif kind == PHASE:
                if block.phase[i, index]:
                    self._fail(node, "ties a pair that is tied already", math.inf)
                block.phase[i, index] = -1 if side else 1

    def _tighten(self, block: _Block, nodes: Nodes) -> None:
        """Bound all hidden pairs, layer by layer."""
        net, state, phase = self.net, block.state, block.phase
        lowest = np.full(len(block.nodes), net.layers)
        for k in reversed(range(net.layers - 1)):
            lowest[(phase[:, net.at(k)] != 0).any(axis=1)] = k
        for k in range(net.layers - 1):
            at = net.at(k)
            known = state[:, :, at]
            tied = (lowest < k) & block.alive
            # What ancestors proved of differences there may be of others: of fewer tied pairs.
            known[tied, 4:] = np.array([-np.inf, np.inf])[:, None]
            wanted = np.ones((len(block.nodes), at.stop - at.start), bool)
            if k:
                wanted = ~((known[:, 0] >= known[:, 3]) | (known[:, 1] <= -known[:, 2]))
            wanted &= block.alive[:, None]
            self._tighten_some(block, nodes, k, wanted, pair=False)
            wanted |= tied[:, None]
            self._tighten_some(block, nodes, k, wanted, pair=True)
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

    def _tighten_some(
        self, block: _Block, nodes: Nodes, layer: int, wanted: Flags, *, pair: bool
    ) -> None:
        """Bound some outputs of a layer, or their differences, from both sides."""
        at = self.net.at(layer)
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
            found = largest(
                pull_back(nodes, twice, layer, own, change), block.lower[twice], block.upper[twice]
            )
            state[of, above, neuron] = np.minimum(state[of, above, neuron], found[::2])
            state[of, below, neuron] = np.maximum(state[of, below, neuron], -found[1::2])

    def _contract(self, block: _Block, nodes: Nodes) -> None:
        """Cut regions to where leaks above the target can be."""
        part, net, label = self.tree.part, self.net, self.tree.label
        live = np.flatnonzero(block.alive)
        if not len(live):
            return
        target, error = part.target[block.nodes[live]], part.error[block.nodes[live]]
        tie, rival = part.tie[block.nodes[live]], self.tree.rival[block.nodes[live]]
        # A leak of exact confidence at most this has a float32 one of at most the target.
        cut = target - error - 1e-12 * (1.0 + np.abs(target))
        top, one = net.layers - 1, np.arange(len(live))
        forms: list[tuple[Forms, Floats]] = []
        for other in (c for c in range(net.labels) if c != label):
            lead = np.zeros((len(live), net.labels))
            lead[:, label], lead[:, other] = 1.0, -1.0
            forms.append((pull_back(nodes, live, top, lead, None), cut))
        behind = np.zeros((len(live), net.labels))
        behind[:, label] -= 1.0
        behind[one, rival] += 1.0
        for own, least in ((behind, np.zeros(len(live))), (np.zeros_like(behind), cut)):
            found = pull_back(nodes, live, top, own, behind)
            forms.append((Forms(found.slopes, found.constant + tie), least))
        for each, least in forms:
            self._cut(block, live, each, least)

    def _cut(self, block: _Block, live: Integers, forms: Forms, least: Floats) -> None:
        """Keep of regions where ``slopes x + constant >= least`` is possible."""
        lower, upper = block.lower[live], block.upper[live]
        slack = largest(forms, lower, upper) - least
        slack += 4 * UNIT * (np.abs(slack) + np.abs(least) + np.abs(forms.constant))
        block.alive[live[slack < 0.0]] = False
        slack = np.maximum(slack, 0.0)[:, None]
        width = upper - lower
        steep = np.abs(forms.slopes)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            keep = slack / steep * (1.0 + 1e-9) + 1e-9 * width
            keep += 4 * UNIT * (np.abs(lower) + np.abs(upper))
        cutting = (steep * width > slack) & (keep < width)
        rising = forms.slopes > 0.0
        lower = np.where(cutting & rising, np.maximum(lower, upper - keep), lower)
        upper = np.where(cutting & ~rising, np.minimum(upper, block.lower[live] + keep), upper)
        block.lower[live], block.upper[live] = lower, upper

    def _prove(self, block: _Block, nodes: Nodes, leaves: Integers) -> None:
        """Bound leaves by their multipliers."""
        if not len(leaves):
            return
        part, label = self.tree.part, self.tree.label
        names = block.nodes[leaves]
        proof = part.proof[names]
        if (proof < 0).any():
            first = int(np.argmax(proof < 0))
            self._fail(int(names[first]), "is not empty, and has no multipliers", math.inf)
        t, share = part.t[proof].astype(np.float64), part.share[proof]
        top, one, rival = -share, np.arange(len(leaves)), self.tree.rival[names]
        behind = np.zeros_like(share)
        behind[one, label], behind[one, rival] = -t, t
        top[:, label] = 1.0
        top += behind
        given = (part.cz[proof].astype(np.float64), part.cd[proof].astype(np.float64))
        forms = pull_back(nodes, leaves, self.net.layers - 1, top, behind, given)
        value = largest(forms, block.lower[leaves], block.upper[leaves])
        terms = t * part.tie[names], part.error[names]
        value = value + terms[0] + terms[1]
        value += 8 * UNIT * (np.abs(forms.constant) + np.abs(value) + terms[0] + terms[1])
        claim = np.minimum(part.claim[names], self.upper)
        wrong = ~(value <= claim)
        if wrong.any():
            i = int(np.argmax(wrong))
            self._fail(
                int(names[i]),
                f"is bounded by {value[i]:.9g}, not by {claim[i]:.9g}",
                float(value[i] - claim[i]),
            )

    def _regauge(self, block: _Block, inner: Integers) -> None:
        """Check evaluation errors that children claim to be smaller than their parent's."""
        part, tree = self.tree.part, self.tree
        chosen, wanted = [], []
        for i in inner:
            node = block.nodes[i]
            children = tree.children[tree.first[node] : tree.first[node + 1]]
            least = part.error[children].min(), part.tie[children].min()
            if least[0] < part.error[node] or least[1] < part.tie[node]:
                chosen.append(int(i))
                wanted.append((int(children[np.argmin(part.error[children])]), *least))
        if not chosen:
            return
        at = np.array(chosen)
        found, other = self._errors(block, at)
        for i, (child, error, tie) in enumerate(wanted):
            node = block.nodes[at[i]]
            if error < part.error[node] and not error >= found[i]:
                self._fail(child, "has too small an evaluation error of N", found[i] - error)
            if tie < part.tie[node] and not tie >= other[i]:
                self._fail(child, "has too small an evaluation error of members", other[i] - tie)

    def _errors(self, block: _Block, at: Integers) -> tuple[Floats, Floats]:
        """Bound evaluation errors over regions of nodes; infinite for nodes of several members."""
        net, question, tree = self.net, self.question, self.tree
        graph = question.network.graph
        if self._alone is None:
            own = {name: value[None] for name, value in question.network.parameters.items()}
            self._alone = lead_program(graph, own)
        low, high = block.lower[at] + net.origin, block.upper[at] + net.origin
        pad = 4 * UNIT * (np.abs(block.upper[at]) + np.abs(net.origin))
        inputs = np.maximum(high + pad, 0.0), np.maximum(pad - low, 0.0)
        state = [block.state[at][:, :, net.at(k)] for k in range(net.layers - 1)]
        here = Region(*inputs, [s[:, 0] for s in state], [s[:, 1] for s in state])
        # A member's difference lies in the band, whatever pairs are tied.
        there = Region(
            *inputs, [s[:, 0] - s[:, 3] for s in state], [s[:, 1] + s[:, 2] for s in state]
        )
        label, none = tree.label, np.zeros(len(at), np.int64)
        rivals = [none + c for c in range(net.labels) if c != label]
        found = self._alone.errors(none, here, label, rivals)
        other = np.full(len(at), math.inf)
        names = block.nodes[at]
        groups = tree.group[names]
        single = np.array([len(tree.members(int(g))) == 1 for g in groups])
        for begin in range(0, len(at), 64):
            rows = np.flatnonzero(single[begin : begin + 64]) + begin
            if not len(rows):
                continue
            members = np.array([tree.members(int(groups[i]))[0] for i in rows], np.int64)
            unique, which = np.unique(members, return_inverse=True)
            program = lead_program(graph, question.family.take(unique))
            other[rows] = program.errors(which, there.rows(rows), label, [tree.rival[names[rows]]])
        return found, other

    def _fail(self, node: int, what: str, by: float) -> None:
        part = self.tree.part
        amount = f" (by {by:.3g})" if math.isfinite(by) else ""
        raise RejectedError(
            f"node {int(part.ident[node])} [{self.tree.path(int(node))}] {what}{amount}"
        )
