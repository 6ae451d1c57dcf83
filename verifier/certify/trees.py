"""Trees of certificates: read, expanded to what the kernel asks for, and handed over."""

from __future__ import annotations

import numpy as np

from leaveout.kernel.numbers import Rejected
from leaveout.kernel.values import Arrays, Ask
from leaveout.verifier.certify.networks import multiples, rows, slopes, split
from leaveout.verifier.checker.tree_shape import ROOT, TreePart, with_all_sets

_SPLITS = 1000
"""Most leaves split in a small tree; in a larger one as many as it has nodes."""


def answers(part: TreePart, members: int, hidden: int) -> Ask:
    """Return who answers the kernel's questions about a tree of cases."""
    part = _expanded(part, members)
    counts = [0]
    renew = np.zeros(len(part), bool)
    child = np.flatnonzero((part.parent >= 0) & (part.parent < len(part)))
    smaller = (part.errors[child] < part.errors[part.parent[child]]).any(axis=1)
    renew[part.parent[child[smaller]]] = True
    tree = {
        "parent": part.parent, "kind": part.kind, "index": part.index, "side": part.side,
        "point": part.point, "renew": renew, "group": part.group, "members": part.members,
        "offsets": part.offsets,
    }  # fmt: skip

    def ask(what: str, known: Arrays) -> Arrays:
        if what == "rows":
            return rows(known)
        if what == "slopes":
            return slopes(known)
        if what == "multiples":
            return multiples(known)
        if what == "tree":
            return tree
        if what == "proof":
            proof = part.proof[known["nodes"]]
            missing = proof < 0
            cz, cd = part.multipliers.rows(np.maximum(proof, 0), hidden)
            share = part.share[np.maximum(proof, 0)]
            cz[missing], cd[missing] = np.nan, np.nan
            share[missing] = 0.0
            share[missing, 0] = 1.0
            return {"share": share, "cz": cz, "cd": cd}
        if what == "split":
            counts[0] += len(known["nodes"])
            return {} if counts[0] > max(_SPLITS, len(part)) else split(known)
        return {}

    return ask


def _expanded(part: TreePart, members: int) -> TreePart:
    if not part.short or not len(part):
        return part
    group = part.group.copy()
    for i in np.flatnonzero(group < 0):
        if 0 <= part.parent[i] < i:
            group[i] = group[part.parent[i]]
    order = np.argsort(part.parent, kind="stable")
    order = order[np.searchsorted(part.parent[order], 0) :]
    return with_all_sets(part, group, order, members)


def leak_tree(part: TreePart, label: int, labels: int) -> TreePart:
    """Return the arrays of a tree of leaks as a tree of cases."""
    from dataclasses import replace

    others = [c for c in range(labels) if c != label]
    place = np.full(labels, -1)
    place[others] = np.arange(len(others))
    known = (part.index >= 0) & (part.index < labels)
    rival = np.where(known, place[np.where(known, part.index, 0)], -1)
    if part.share.shape[1:] != (labels + 1,):
        raise Rejected("the multipliers do not match the network")
    if part.share[:, label].any():
        raise Rejected(f"a leaf has a share for its own label {label}")
    return replace(
        part,
        index=np.where(part.kind == ROOT, rival, part.index),
        errors=part.errors[:, [*(0 for _ in others), 1]],
        share=part.share[:, [*others, -1]],
    )
