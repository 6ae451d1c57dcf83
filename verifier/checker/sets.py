"""Sets of members omitted from a tree because the others imply them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.tree_arrays import MEMBERS, ROOT, TreePart

Integers = NDArray[np.int64]

_MOST = 2**28
"""Members of all sets together: a small file must not fill the memory."""


def with_all_sets(part: TreePart, group: Integers, children: Integers, members: int) -> TreePart:
    """Return a tree whose sets are all listed.

    A root whose set is empty has all members; of the parts of a set one may be empty: it is what
    the others leave of it.
    """
    count = len(part.offsets) - 1
    own = part.group[part.group >= 0]
    if len(np.unique(own)) != len(own):
        raise RejectedError("the sets of members are not one for each node that has one")
    sets: list[Integers] = [
        part.members[part.offsets[g] : part.offsets[g + 1]] for g in range(count)
    ]
    everyone, total = np.arange(members, dtype=np.int64), 0
    for root in np.flatnonzero(part.kind == ROOT):
        if not len(sets[part.group[root]]):
            sets[part.group[root]] = everyone
            total += members
    split = children[part.kind[children] == MEMBERS]
    parents, starts = np.unique(part.parent[split], return_index=True)
    pieces = np.split(split, starts[1:]) if len(split) else []
    for parent, own in zip(parents, pieces, strict=True):
        parts = [int(g) for g in part.group[own]]
        empty = [g for g in parts if not len(sets[g])]
        if len(empty) > 1:
            raise RejectedError(f"node {int(part.ident[parent])} has two parts without members")
        if empty:
            named = np.concatenate([sets[g] for g in parts])
            sets[empty[0]] = np.setdiff1d(sets[group[parent]], named)
        total += sum(len(sets[g]) for g in parts)
        if total > _MOST:
            raise RejectedError("the sets of members are too many")
    if not all(len(each) for each in sets):
        raise RejectedError("the sets of members are not sets of members")
    return replace(
        part,
        members=np.concatenate(sets),
        offsets=np.cumsum([0, *(len(each) for each in sets)]).astype(np.int64),
    )
