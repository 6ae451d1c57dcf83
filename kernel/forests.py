"""Leaks of forests: no input of a set is answered otherwise by a member, confident as it may be.

A claim is proved box by box, for each member: a tree of boxes covers the inputs, and in each box a
rule that `certify` names rules out each label that the member might answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .forest_file import Answering, Exact
from .forest_members import Cells, Forests, Inputs, cells_of_members, every_label, pair
from .forest_splits import Flags, Ints
from .numbers import Floats, Rejected, need
from .values import Ask, hint, question

Array = NDArray[Any]

BOUND, AWAY, MONOTONE, EXACT = range(4)
"""The rules of a box and a rival; see `check_boxes`."""

_STEEPEST, _AT_ONCE = 2.0**10, 2**19


def cover(feature: Array, value: Floats, inputs: Inputs) -> tuple[Ints, Floats, Floats]:
    """Return the leaves of a tree of boxes in preorder, and their boxes.

    Each inner node cuts its box at a value of a feature, so an input is in exactly one leaf.
    """
    size, cuts = len(feature), iter(value.tolist())
    low, high = (np.tile(end, (size, 1)) for end in inputs.ends)
    above, waits = [0.0] * size, [(-1, 0)]
    need((feature >= -1) & (feature < len(inputs.lower)), "its box tree is malformed")
    splits = feature.tolist()
    for node, at in enumerate(splits):
        need(bool(waits), "its box tree is malformed")
        parent, side = waits.pop()
        if parent >= 0:
            f, cut = splits[parent], above[parent]
            low[node], high[node] = low[parent], high[parent]
            if side:
                low[node, f] = max(low[node, f], cut)
            else:
                high[node, f] = min(high[node, f], cut)
        if at >= 0:
            above[node] = next(cuts)
            waits += [(node, 1), (node, 0)]
    need(not waits, "its box tree is malformed")
    leaf = np.flatnonzero(feature < 0)
    return leaf, low[leaf], high[leaf]


@dataclass(frozen=True, eq=False)
class Claim:
    """No leak of a label has a confidence above ``upper``."""

    label: int
    upper: float
    parts: Sequence[Forests]  # some members each
    inputs: Inputs
    names: Sequence[str]  # of all members, in messages


def prove(
    claim: Claim,
    proof: Mapping[str, Array],
    ask: Ask,
    progress: Callable[[int], None] = lambda done: None,
) -> int:
    """Prove a claim by a tree of boxes for each member; return the number of boxes."""
    many = sum(len(forests.others) for forests in claim.parts)
    need(many == len(claim.names) > 0, "a member is missing")
    size, feature, value = _box_trees(proof, many)
    member = node = cut = leaves = 0
    for forests in claim.parts:
        need(0 <= claim.label < forests.shares.shape[1], f"the forest has no label {claim.label}")
        need(forests.feature.max() < len(claim.inputs.lower), "inputs with too few features")
        for number, cells in enumerate(cells_of_members(forests, claim.inputs)):
            own = feature[node : node + size[member]]
            many = int((own >= 0).sum())
            try:
                leaf, low, high = cover(own, value[cut : cut + many], claim.inputs)
                there, low, high = claim.inputs.narrow(low, high)
                leaf, low, high = leaf[there], low[there], high[there]
                for at, some in _blocks(cells, low, high):
                    block = Block.of(claim, forests, number, some, low[at], high[at])
                    check_boxes(block, leaf[at], ask)
            except Rejected as error:
                raise Rejected(f"{claim.names[member]}, {error}") from None
            member, node, cut = member + 1, node + len(own), cut + many
            leaves += len(own) - many
            progress(node)
    return leaves


def _box_trees(proof: Mapping[str, Array], members: int) -> tuple[list[int], Array, Floats]:
    """Return sizes, features and cuts of all trees of boxes; only inner nodes have a cut."""
    kinds = {"size": np.int32, "feature": np.int32, "value": np.float64}
    need(set(proof) == set(kinds), "its proof does not consist of the arrays of box trees")
    for name, kind in kinds.items():
        fits = proof[name].dtype == kind and proof[name].ndim == 1
        need(fits, f"its box trees: {name!r} has the wrong type or rank")
    size, feature, value = proof["size"], proof["feature"], proof["value"]
    need(len(size) == members, f"it has box trees for {len(size)} of {members} forests")
    whole = int(size.sum(dtype=np.int64)) == len(feature)
    need(whole and (size >= 1).all(), "its box trees have missing or extra nodes")
    cuts = np.isfinite(value).all() and int((feature >= 0).sum()) == len(value)
    need(cuts, "its box trees have a split value that is missing, extra or not finite")
    return size.tolist(), feature, value


@dataclass(frozen=True, eq=False)
class Block:
    """Some boxes, and which cells each meets; the cells' shares in the forest and the member."""

    label: int
    upper: float
    trees: tuple[int, int]
    padding: float
    meets: Flags  # shape (boxes, cells)
    first: Ints  # shape (trees,): each tree's first cell
    one: Floats  # shape (cells, labels)
    other: Floats  # shape (cells, labels)

    @classmethod
    def of(
        cls, claim: Claim, forests: Forests, member: int, cells: Cells, low: Floats, high: Floats
    ) -> Block:
        """Return the block of some boxes."""
        trees, first = np.unique(cells.tree, return_index=True)
        need(len(trees) == len(forests.whole), "a tree that no input reaches")
        other = forests.shares[cells.other]
        if forests.remains is not None:
            other[forests.empty[cells.other]] = forests.remains[member]
        return cls(
            claim.label, claim.upper, forests.trees, forests.padding, cells.meet(low, high), first,
            forests.shares[cells.one], other,
        )  # fmt: skip

    @property
    def arrays(self) -> dict[str, Array]:
        """What is known of the block, in arrays that cannot be written to."""
        found = {name: np.asarray(value).view() for name, value in vars(self).items()}
        for array in found.values():
            array.flags.writeable = False
        return found

    def peaks(self, boxes: Array, values: Floats) -> Floats:
        """Return each tree's greatest value of a cell that a box meets; values are of cells."""
        reached = np.where(self.meets[boxes], values, -np.inf)
        found: Floats = np.maximum.reduceat(reached, self.first, axis=1)
        need(found > -np.inf, "a tree that no input reaches")
        return found

    def bounds(self, boxes: Array, rival: int, over: Array, uses: Array, factor: Floats) -> Floats:
        """Bound ``uses`` times the confidence of a leak to a rival, in some boxes."""
        one, other = (
            (shares[:, self.label] - shares.T) / trees
            for shares, trees in zip((self.one, self.other), self.trees, strict=True)
        )
        values = uses[:, None] * one[over] - factor[:, None] * other[rival]
        return np.asarray(self.peaks(boxes, values).sum(axis=1) + self.padding * (1.0 + factor))

    def worse(self, rival: int) -> Flags:
        """Return the cells in which the member gives the rival more, or the label less."""
        c = self.label
        more = self.other[:, rival] > self.one[:, rival]
        return np.asarray(more | (self.other[:, c] < self.one[:, c]))

    def is_settled(self, boxes: Array) -> Flags:
        """Return in which boxes all cells of each tree have the same shares."""
        same = np.ones(len(boxes), bool)
        for values in (*self.one.T, *self.other.T):
            same &= (self.peaks(boxes, values) == -self.peaks(boxes, -values)).all(axis=1)
        return same

    def confidence(self, boxes: Array) -> Floats:
        """Return the confidence of a leak at any cells of boxes; minus infinity if it is none.

        Shares are added in the order of the trees and divided once, as forests do.
        """
        c, meets = self.label, self.meets[boxes]
        means = [np.zeros((len(boxes), self.one.shape[1])) for _ in range(2)]
        for begin, end in zip(self.first, [*self.first[1:], meets.shape[1]], strict=True):
            cell = begin + meets[:, begin:end].argmax(axis=1)
            need(meets[np.arange(len(boxes)), cell], "a tree that no input reaches")
            means = [mean + s[cell] for mean, s in zip(means, (self.one, self.other), strict=True)]
        one, other = (mean / trees for mean, trees in zip(means, self.trees, strict=True))
        leaks = (one.argmax(axis=1) == c) & (other.argmax(axis=1) != c)
        rest = np.delete(one, c, axis=1).max(axis=1, initial=0.0)
        return np.where(leaks, one[:, c] - rest, -np.inf)


def _blocks(cells: Cells, low: Floats, high: Floats) -> Iterator[tuple[Ints, Cells]]:
    """Yield the boxes in parts, each with the cells that they may meet."""
    waits = [(np.arange(len(low)), cells)] if len(low) else []
    while waits:
        at, here = waits.pop()
        here = here.take(here.meet(low[at].min(axis=0)[None], high[at].max(axis=0)[None])[0])
        if len(at) > 1 and len(at) * len(here.tree) > _AT_ONCE:
            half = len(at) // 2
            waits += [(at[half:], here), (at[:half], here)]
        else:
            yield at, here


def check_boxes(block: Block, nodes: Ints, ask: Ask) -> None:
    """Check that no box has a leak with a confidence above the bound, by one rule a rival.

    A member that answers d has a margin of the label c over d of at most 0; a leak's confidence is
    at most the forest's margin of c over any label, and not negative. So, with factors t >= 0,
    BOUND: confidence <= sum over trees of the most of (w_c - w_e) / N - t (m_c - m_d) / M;
    AWAY: the same without the forest's margin is negative, so d is not answered;
    MONOTONE: with as many trees, none of whose cells gives d more or c less, d is not answered:
    sums in a fixed order are monotone in their terms, and so is division;
    EXACT: every tree is at one pair of shares, and both means are computed as the forests do.
    """
    boxes, labels = block.meets.shape[0], block.one.shape[1]
    found = question(ask, "rules of boxes", block.arrays)
    rule, over, factor = (
        hint(found, name, kind, (boxes, labels))
        for name, kind in (("rule", np.int8), ("over", np.int32), ("factor", np.float64))
    )
    need((rule >= BOUND) & (rule <= EXACT), "a rule")
    exact, fails = (rule == EXACT).any(axis=1), np.zeros(boxes, bool)
    for rival in range(labels):
        if rival == block.label:
            continue
        own = rule[:, rival]
        at = np.flatnonzero(~exact & (own <= AWAY))
        e, t, uses = over[at, rival], factor[at, rival], (own[at] == BOUND) * 1.0
        need((t >= 0) & (t <= _STEEPEST), "a factor")
        need((e >= 0) & (e < labels) & (e != block.label), "a label to be confident over")
        bound = block.bounds(at, rival, e, uses, t)
        fails[at] |= ~((bound < 0) | ((uses > 0) & (bound <= block.upper)))
        at = np.flatnonzero(~exact & (own == MONOTONE))
        fails[at] |= block.trees[0] != block.trees[1]
        fails[at] |= (block.meets[at] & block.worse(rival)).any(axis=1)
    at = np.flatnonzero(exact)
    fails[at] = ~block.is_settled(at) | ~(block.confidence(at) <= block.upper)
    if fails.any():
        raise Rejected(
            f"box {nodes[fails][0]} of its tree: a leak with a confidence above the claimed bound "
            f"{block.upper!r} is not ruled out"
        )


NO_LEAK = -1e-9
"""Below every confidence, including that of a tie."""


def same_function(
    one: Exact | Answering, other: Exact | Answering, inputs: Inputs, proof: Mapping[str, Array],
    ask: Ask,
) -> bool:  # fmt: skip
    """Return whether two forests answer all inputs alike: no leak of any label; or one input."""
    both = pair(one, other)
    if set(proof) == {"x"}:
        return _apart(both, inputs, proof["x"])
    every = every_label(one, other)
    for at, label in enumerate(one.labels):
        own = {name.removeprefix(f"{at}."): array for name, array in proof.items()
               if name.startswith(f"{at}.")}  # fmt: skip
        claim = Claim(every.index(label), NO_LEAK, [both], inputs, ["the other forest"])
        try:
            prove(claim, own, ask)
        except Rejected as error:
            raise Rejected(f"label {label!r}: {error}") from None
    return True


def _apart(forests: Forests, inputs: Inputs, x: Array) -> bool:
    """Return False; raise unless two forests answer the input differently."""
    fits = x.dtype == np.float64 and x.shape == inputs.lower.shape
    need(fits, "the input at which they are claimed to differ is malformed")
    need(inputs.contains(x), "the input at which they are claimed to differ is not in the set")
    answers = []
    for roots, trees in zip((forests.whole, forests.others[0]), forests.trees, strict=True):
        total = np.zeros(forests.shares.shape[1])
        for node in roots.tolist():
            while forests.feature[node] >= 0:
                goes = x[forests.feature[node]] <= forests.threshold[node]
                node = int((forests.left if goes else forests.right)[node])
            total += forests.shares[node]
        answers.append(int((total / trees).argmax()))
    what = "they give the same answer to the input at which they are claimed to differ"
    need(answers[0] != answers[1], what)
    return False
