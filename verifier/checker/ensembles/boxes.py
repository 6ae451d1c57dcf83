"""Claims about leaks of forests, checked by the trees of boxes that prove them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.ensembles.margins import FACTORS, Asked
from leaveout.verifier.checker.ensembles.members import Members
from leaveout.verifier.checker.ensembles.sharing import Listed
from leaveout.verifier.checker.ensembles.walking import (
    DEEPEST,
    PROVED,
    Levels,
    Tables,
    depth_of,
    walk,
)
from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.inputs import Inputs

Floats = NDArray[np.float64]

_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees of boxes, one a member, in preorder, one after another."""

    size: NDArray[np.int32]  # shape (members,): how many nodes each has
    feature: NDArray[np.int32]  # shape (nodes,): what a box is split on; -1 for a leaf
    value: Floats  # shape (nodes,): at most that goes left; 0 for a leaf


@dataclass(frozen=True, eq=False)
class Boxes:
    """Forests over a set of inputs."""

    members: Members
    inputs: Inputs
    names: Callable[[int], str]  # from a member to what it is called
    _tables: Tables = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tables", _tables_of(self.inputs))

    @property
    def tables(self) -> Tables:
        """The listed features of the inputs."""
        return self._tables


def listed_of(inputs: Inputs) -> Listed:
    """Return a set of inputs as far as nodes depend on it."""
    known: list[Floats] = [np.zeros(0)] * len(inputs.lower)
    lower, upper = inputs.lower.copy(), inputs.upper.copy()
    for table in inputs.tables:
        for column, values in zip(table.columns.tolist(), table.values.T, strict=True):
            known[column] = np.unique(values)
            lower[column], upper[column] = known[column][0], known[column][-1]
    start = np.concatenate(([0], np.cumsum([len(each) for each in known])))
    return Listed(lower, upper, start.astype(np.int64), np.concatenate([np.zeros(0), *known]))


def _tables_of(inputs: Inputs) -> Tables:
    wide = [table for table in inputs.tables if len(table.columns) > 1]
    of = np.full(len(inputs.lower), -1, np.int64)
    for i, table in enumerate(wide):
        of[table.columns] = i
    columns = [table.columns.astype(np.int64) for table in wide]
    rows = [np.ascontiguousarray(table.values).ravel() for table in wide]
    starts = [
        np.concatenate(([0], np.cumsum([len(each) for each in parts]))).astype(np.int64)
        for parts in (columns, rows)
    ]
    return Tables(
        of, starts[0], np.concatenate([np.zeros(0, np.int64), *columns]), starts[1],
        np.concatenate([np.zeros(0), *rows]),
    )  # fmt: skip


def read_boxes(proof: Mapping[str, NDArray[Any]], members: int) -> Trees:
    """Return trees of boxes as a certificate has them.

    Only inner nodes have a value there.
    """
    kinds = {"size": np.int32, "feature": np.int32, "value": np.float64}
    if set(proof) != set(kinds):
        raise RejectedError("its trees of boxes are missing, or more than that")
    for name, kind in kinds.items():
        if proof[name].dtype != kind or proof[name].ndim != 1:
            raise RejectedError(f"its trees of boxes: {name!r} has another type")
    size, feature = proof["size"], proof["feature"]
    inner = feature >= 0
    if len(size) != members:
        raise RejectedError(f"it has trees of boxes for {len(size)} of {members} forests")
    if (size < 1).any() or int(size.astype(np.int64).sum()) != len(feature):
        raise RejectedError("its trees of boxes have a node too few or too many")
    if int(inner.sum()) != len(proof["value"]) or not np.isfinite(proof["value"]).all():
        raise RejectedError("its trees of boxes are split at what is no number")
    value = np.zeros(len(feature))
    value[inner] = proof["value"]
    return Trees(size.copy(), np.ascontiguousarray(feature), value)


def prove(
    boxes: Boxes,
    label: int,
    upper: float,
    trees: Trees,
    progress: Callable[[int], None] = lambda done: None,
) -> int:
    """Prove that no leak of a label is above a bound; return how many leaves that took."""
    found, features = boxes.members, len(boxes.inputs.lower)
    starts = np.concatenate(([0], np.cumsum(trees.size.astype(np.int64))))
    deepest = 0
    for i in range(len(trees.size)):
        depth = depth_of(trees.feature, int(starts[i]), int(starts[i + 1]), features)
        if depth < 0:
            raise RejectedError(f"{boxes.names(i)}: its tree of boxes is none")
        deepest = max(deepest, depth)
    if deepest > DEEPEST:
        raise RejectedError(f"a tree of boxes has {deepest} levels; {DEEPEST} are followed")
    shape = len(found.whole), found.pool.shares.shape[1]
    levels = Levels(
        np.empty((deepest + 1, features)), np.empty((deepest + 1, features)),
        np.zeros(deepest + 1, np.bool_), np.empty((deepest + 1, shape[0], 2), np.int64),
        np.empty((deepest + 1, *shape, 2 + len(FACTORS))),
        np.zeros((deepest + 1, *shape), np.bool_),
    )  # fmt: skip
    asked = Asked(label, found.trees, np.array(FACTORS), _padding(found))
    for begin in range(0, len(trees.size), _AT_ONCE):
        end = min(begin + _AT_ONCE, len(trees.size))
        member, node, bound = walk(
            found.pool, found.whole, found.others, asked, boxes.tables, found.pool.listed.lower,
            found.pool.listed.upper, starts, trees.feature, trees.value, levels, upper, begin, end,
        )  # fmt: skip
        if member != PROVED:
            raise RejectedError(
                f"{boxes.names(int(member))}, box {node} of its tree: a leak of confidence "
                f"{float(bound)!r} is not excluded, above {upper!r}"
            )
        progress(int(starts[end]))
    return int(np.count_nonzero(trees.feature < 0))


def _padding(members: Members) -> float:
    """Return more than what rounding can move a bound by; see the page on certificates."""
    used = int(members.pool.used[1])
    most = float(members.pool.shares[:used].max())
    return 8.0 * (max(members.trees) + 8) * (1.0 + max(FACTORS)) * most * 2.0**-53
