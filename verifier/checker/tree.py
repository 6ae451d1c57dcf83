"""Whether a tree covers everything, by its shape alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.sets import with_all_sets
from leaveout.verifier.checker.tree_arrays import INPUT, MEMBERS, PHASE, ROOT, UNTIED, TreePart

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Shape:
    """Limits on the contents of a tree."""

    inputs: int
    hidden: int
    members: int
    goals: tuple[NDArray[np.bool_], ...]  # shape (rows,): of each case, which of its rows are goals
    ties: tuple[bool, ...]  # of each case, whether the phases of pairs may be tied
    names: tuple[str, ...]  # of the cases, for messages


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree whose leaves cover every counter-example there may be."""

    part: TreePart
    shape: Shape
    case: Integers  # shape (n,): what the counter-examples of each node are of
    group: Integers  # shape (n,): position of each node's set of members
    first: Integers  # the children of node i are ``children[first[i]:first[i + 1]]``
    children: Integers  # the children of node i are ``children[first[i]:first[i + 1]]``

    def is_leaf(self, nodes: Integers) -> NDArray[np.bool_]:
        """Return whether nodes have no children."""
        return np.asarray(self.first[nodes] == self.first[nodes + 1])

    @property
    def leaves(self) -> int:
        """The number of nodes without children."""
        return int((np.diff(self.first) == 0).sum())

    def members(self, group: int) -> Integers:
        """Return the members of a set."""
        offsets = self.part.offsets
        return self.part.members[offsets[group] : offsets[group + 1]]

    def path(self, node: int) -> str:
        """Return in words how a node derives from its root."""
        steps = []
        part = self.part
        while node >= 0:
            index, side = int(part.index[node]), int(part.side[node])
            kind = int(part.kind[node])
            if kind == ROOT:
                steps.append(self.shape.names[index])
            elif kind == INPUT:
                steps.append(f"x'[{index}] {'>' if side else '<'}= {part.point[node]:g}")
            elif kind == MEMBERS:
                steps.append(f"members {side}")
            elif kind == UNTIED:
                steps.append("untied")
            else:
                steps.append(f"neuron {index} tied {'off' if side else 'on'}")
            node = int(part.parent[node])
        return ", ".join(reversed(steps))


def make_tree(part: TreePart, shape: Shape, upper: float) -> Tree:
    """Check the shape of a tree."""
    count = len(part)
    if not count:
        raise RejectedError("the tree has no nodes")
    _numbers(part, shape)
    _all(part, ~(part.target > upper), "cuts away what is above the claim")
    is_root = np.asarray(part.kind == ROOT)
    _all(part, ((part.parent == -1) == is_root), "is a root with a parent, or has none")
    # Parents before children, so that there is no circle.
    _all(part, part.parent < np.arange(count), "comes before its parent")
    order = np.argsort(part.parent, kind="stable")
    order = order[np.searchsorted(part.parent[order], 0) :]
    first = np.searchsorted(part.parent[order], np.arange(count + 1)).astype(np.int64)
    owns = is_root | (part.kind == MEMBERS)
    _all(part, (part.group >= 0) == owns, "has a set of its own, or none")
    group, case = part.group.copy(), part.index.copy()
    for i in np.flatnonzero(~is_root):
        case[i] = case[part.parent[i]]
    for i in np.flatnonzero(group < 0):
        group[i] = group[part.parent[i]]
    if part.short:
        part = with_all_sets(part, group, order, shape.members)
    tree = Tree(part, shape, case, group, first, order)
    _roots(tree)
    may_tie = np.array(shape.ties)[case]
    _all(
        part,
        np.asarray((part.kind != PHASE) | may_tie),
        "ties a pair where several forms rest on it",
    )
    _splits(tree)
    _multipliers(tree)
    return tree


def _numbers(part: TreePart, shape: Shape) -> None:
    """Check that every number is within its range."""
    top = np.choose(part.kind.clip(0, 4), [len(shape.goals), shape.inputs, 1, shape.hidden, 1])
    _all(part, (part.kind >= 0) & (part.kind <= UNTIED), "is of no known kind")
    _all(part, (part.index >= 0) & (part.index < top), "splits what does not exist")
    _all(part, part.parent >= -1, "has a parent that does not exist")
    rows = max(len(goal) for goal in shape.goals)
    if part.errors.shape[1] != rows or (len(part.share) and part.share.shape[1] != rows):
        raise RejectedError("the evaluation errors, or the multipliers, are of other forms")
    _all(part, np.all(part.errors >= 0, axis=1), "has a negative evaluation error")
    proofs = len(part.share)
    _all(part, (part.proof >= -1) & (part.proof < proofs), "has a proof that does not exist")
    sets = len(part.offsets) - 1
    _all(part, (part.group >= -1) & (part.group < sets), "has a set that does not exist")
    if not part.multipliers.fits(shape.hidden):
        raise RejectedError("the multipliers are of another network")
    offsets, listed = part.offsets, part.members
    if (
        sets < 1
        or offsets[0] != 0
        or offsets[-1] != len(listed)
        # Compared, not subtracted: differences of large numbers wrap round.
        or (offsets[1:] < offsets[:-1]).any()
        or (not part.short and (offsets[1:] == offsets[:-1]).any())
        or (len(listed) and not 0 <= listed.min() <= listed.max() < shape.members)
    ):
        raise RejectedError("the sets of members are not sets of members")


def _all(part: TreePart, fine: NDArray[np.bool_], what: str) -> None:
    if not fine.all():
        raise RejectedError(f"node {int(part.ident[int(np.argmin(fine))])} {what}")


def _multipliers(tree: Tree) -> None:
    """Check the signs and sums of multipliers."""
    part = tree.part
    for node in np.flatnonzero(part.proof >= 0):
        share, goal = part.share[part.proof[node]], tree.shape.goals[tree.case[node]]
        name = int(part.ident[node])
        if not (share >= 0.0).all():
            raise RejectedError(f"node {name} has a negative multiplier")
        if share[len(goal) :].any():
            raise RejectedError(f"node {name} has multipliers of forms that its case has not")
        total = math.fsum(share[: len(goal)][goal])
        if total != 1.0:
            raise RejectedError(
                f"node {name} has shares of the goals that do not sum to 1 (but to {total:.17g})"
            )


def _roots(tree: Tree) -> None:
    part, cases = tree.part, len(tree.shape.goals)
    roots = np.flatnonzero(part.kind == ROOT)
    if not np.array_equal(np.sort(part.index[roots]), np.arange(cases)):
        raise RejectedError(
            f"there are {len(roots)} roots for {cases} cases, or not one for each of them"
        )
    everyone = np.arange(tree.shape.members)
    for root in roots:
        if not np.array_equal(np.sort(tree.members(int(part.group[root]))), everyone):
            raise RejectedError(f"node {int(part.ident[root])} is a root that lacks a member")


def _splits(tree: Tree) -> None:
    """Check that children cover their parent."""
    part, first = tree.part, tree.first
    for node in np.flatnonzero(np.diff(first) > 0):
        children = tree.children[first[node] : first[node + 1]]
        kinds = part.kind[children]
        name = int(part.ident[node])
        if (kinds != kinds[0]).any():
            raise RejectedError(f"node {name} is split in two ways at once")
        if kinds[0] == MEMBERS:
            parts = [tree.members(int(part.group[child])) for child in children]
            together = np.sort(np.concatenate(parts))
            if not np.array_equal(together, np.sort(tree.members(int(tree.group[node])))):
                raise RejectedError(f"the sets below node {name} are not the members above")
            continue
        if kinds[0] == UNTIED:
            if len(children) != 1:
                raise RejectedError(f"node {name} is untied more than once")
            continue
        if len(children) != 2 or sorted(part.side[children].tolist()) != [0, 1]:
            raise RejectedError(f"node {name} lacks one of its two children")
        one, two = children
        if part.index[one] != part.index[two]:
            raise RejectedError(f"the children of node {name} split different things")
        if kinds[0] == INPUT and part.point[one] != part.point[two]:
            raise RejectedError(f"the children of node {name} are split at different points")
