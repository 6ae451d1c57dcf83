"""Trees of certificates: expanded to what the kernel asks for, and handed over as it walks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats, Integers
from leaveout.kernel.cover import ROOT
from leaveout.kernel.networks import HIGH, LOW, P, Q
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.values import Arrays
from leaveout.verifier.certify.networks import LINES, split
from leaveout.verifier.certify.tree_arrays import TreePart, with_all_sets

SPLITS = 100  # most leaves split in a small tree; in a larger one as many for every 400 nodes


@dataclass(eq=False)
class Used:
    """The parts of a tree that a check used."""

    seen: NDArray[np.bool_]  # shape (n,): the other nodes have an empty ancestor
    neurons: dict[int, Integers] = field(default_factory=dict)
    """By leaf, the neurons whose multipliers are needed."""

    @staticmethod
    def of(nodes: int, hidden: int) -> Used:
        """Return that of a check that has not begun; without hidden neurons all nodes are kept."""
        return Used(np.full(nodes, hidden == 0))


class TreeAnswers:
    """Answers the kernel's questions about one tree of cases.

    To learn what a certificate can do without, it gives a leaf no multipliers at first, then those
    of neurons that bend, then all.
    """

    def __init__(self, part: TreePart, members: int, hidden: int, used: Used | None = None) -> None:
        self._part, self._hidden, self._used = _expand(part, members), hidden, used
        self._left = SPLITS * (1 + len(part) // 400)
        self._tries: dict[int, int] = {}
        if not part.multipliers.fits(hidden):
            raise Rejected("the multipliers do not match the network")

    def __call__(self, what: str, known: Arrays) -> Arrays:
        """Answer; an empty answer if there is none."""
        if self._used is not None and what == "rows":
            self._used.seen[known["nodes"]] = True
        if what in LINES:
            return LINES[what](known)
        if what == "tree":
            return self._tree()
        if what == "proof":
            return self._proof(known)
        return self._split(known) if what == "split" else {}

    def _tree(self) -> Arrays:
        part = self._part
        renew = np.zeros(len(part), bool)
        child = np.flatnonzero((part.parent >= 0) & (part.parent < len(part)))
        smaller = (part.errors[child] < part.errors[part.parent[child]]).any(axis=1)
        renew[part.parent[child[smaller]]] = True
        names = ("parent", "kind", "index", "side", "point", "group", "members", "offsets")
        return {"renew": renew, **{name: getattr(part, name) for name in names}}

    def _proof(self, known: Arrays) -> Arrays:
        part, nodes = self._part, known["nodes"]
        proof = part.proof[nodes]
        if (proof >= len(part.share)).any():
            raise Rejected("a node refers to a proof that does not exist")
        share = np.zeros((len(nodes), part.share.shape[1]))
        cz, cd = np.full((2, len(nodes), self._hidden), np.nan)
        there = proof >= 0
        share[~there, :1] = 1.0
        if there.any():
            share[there] = part.share[proof[there]]
            cz[there], cd[there] = part.multipliers.rows(proof[there], self._hidden)
        if self._used is not None:
            low, high, p, q = (known["state"][:, i] for i in (LOW, HIGH, P, Q))
            bends = ~((low >= q) | (high <= -p))
            for i in np.flatnonzero(there).tolist():
                node = int(nodes[i])
                needed = (np.zeros_like(bends[i]), bends[i], np.ones_like(bends[i]))
                own = needed[self._tries.get(node, 0)]
                self._used.neurons[node] = np.flatnonzero(own)
                cz[i], cd[i] = np.where(own, cz[i], np.nan), np.where(own, cd[i], np.nan)
        return {"share": share, "cz": cz, "cd": cd}

    def _split(self, known: Arrays) -> Arrays:
        found, nodes = dict(split(known)), known["nodes"].tolist()
        for i, node in enumerate(nodes):
            tries = self._tries.get(node, 0)
            if self._used is not None and tries < 2:
                # The whole leaf again, with more multipliers.
                self._tries[node] = tries + 1
                found["point"][i] = known["lower"][i, found["index"][i]]
            else:
                self._left -= 1
        return found if self._left >= 0 else {}


def _expand(part: TreePart, members: int) -> TreePart:
    """Return a tree whose sets are all listed."""
    if not len(part):
        raise Rejected("the tree has no nodes")
    sets, offsets = len(part.offsets) - 1, part.offsets
    fine = sets >= 1 and offsets[0] == 0 and offsets[-1] == len(part.members)
    if not (fine and (offsets[1:] >= offsets[:-1]).all() and (part.group < sets).all()):
        raise Rejected("the sets of members are invalid")
    if not part.short:
        return part
    late = np.flatnonzero(part.parent >= np.arange(len(part)))
    if len(late):
        raise Rejected(f"node {int(part.ident[late[0]])} does not come after its parent")
    group = part.group.copy()
    for i in np.flatnonzero(group < 0):
        if part.parent[i] >= 0:
            group[i] = group[part.parent[i]]
    order = np.argsort(part.parent, kind="stable")
    order = order[np.searchsorted(part.parent[order], 0) :]
    return with_all_sets(part, group, order, members)


def leak_tree(part: TreePart, label: int, labels: int) -> TreePart:
    """Return the arrays of a tree of leaks in the form of a tree of cases."""
    if not 0 <= label < labels:
        raise Rejected(f"there is no label {label}")
    others = [c for c in range(labels) if c != label]
    if part.share.shape[1:] != (labels + 1,):
        raise Rejected("the multipliers do not match the network")
    if part.share[:, label].any():
        raise Rejected(f"a leaf has a share for its own label {label}")
    place = np.full(labels, -1)
    place[others] = np.arange(len(others))
    known = (part.index >= 0) & (part.index < labels)
    rival = np.where(known, place[np.where(known, part.index, 0)], -1)
    errors: Floats = part.errors[:, [*(0 for _ in others), 1]]
    return replace(
        part,
        index=np.where(part.kind == ROOT, rival, part.index),
        errors=errors,
        share=part.share[:, [*others, -1]],
    )
