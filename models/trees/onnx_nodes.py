"""The nodes of ONNX tree ensembles, written as questions of at most a threshold.

Every mode of comparison becomes `x <= threshold`, exactly, for the type that onnxruntime compares
in. What is asked by equality becomes two comparisons a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.errors import TreesError
from leaveout.kernel.forest_file import before_rounding
from leaveout.kernel.trees import Nodes

_MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")
_POSTS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_LARGEST = 2**23  # most nodes of all trees, once questions of equality are written as comparisons
_DEEPEST = 2**12
_MOST_CELLS = 2**28
_WHOLE = 2**23

_Question = tuple[float, bool, Any, Any, int]
"""A threshold, whether a missing value goes left, both children, and the feature."""


def refuse(said: str, cure: str = "export the model again") -> NoReturn:
    """Raise what is wrong with a file, and the cure."""
    shown = "".join(each if each.isprintable() else "?" for each in said)
    raise TreesError(f"{shown}; {cure}")


def read_old_nodes(options: dict[str, Any], double: bool, classifier: bool) -> Raw:
    """Read the attributes of opsets 1 and 3."""
    kind, others = ("class", "target") if classifier else ("target", "class")
    for each in ("nodes_hitrates", "nodes_hitrates_as_tensor"):
        options.pop(each, None)
    for each in ("ids", "nodeids", "treeids", "weights", "weights_as_tensor"):
        if f"{others}_{each}" in options:
            refuse(f"has trees with an attribute {others}_{each}")

    def floats(name: str) -> Floats:
        plain, tensor = options.pop(name, None), options.pop(f"{name}_as_tensor", None)
        if plain is not None and tensor is not None and len(plain) and tensor.size:
            refuse(f"has {name} twice")
        wanted = np.float64 if double else np.float32
        if tensor is not None and tensor.size:
            if tensor.dtype != wanted:
                refuse(f"has {name} of another type than its input")
            return np.asarray(tensor, np.float64).reshape(-1)
        return np.asarray(plain if plain is not None else [], np.float32).astype(np.float64)

    def whole(name: str) -> NDArray[np.int64]:
        return np.asarray(options.pop(name, []), np.int64)

    strings = [as_text(each) for each in options.pop("classlabels_strings", [])]
    numbers = [str(each) for each in options.pop("classlabels_int64s", [])]
    names = tuple(strings or numbers) if classifier else ()
    count = len(names) if classifier else int(options.pop("n_targets", 0))
    modes = [as_text(each).removeprefix("BRANCH_") for each in options.pop("nodes_modes", [])]
    tree, node = whole("nodes_treeids"), whole("nodes_nodeids")
    yes, no, missing = (
        whole(f"nodes_{each}")
        for each in ("truenodeids", "falsenodeids", "missing_value_tracks_true")
    )
    feature, split = whole("nodes_featureids"), floats("nodes_values")
    sizes = {len(each) for each in (modes, tree, node, yes, no, feature, split)}
    if len(sizes) != 1 or not modes or len(missing) not in (0, len(modes)):
        refuse("has lists of nodes that differ in length")
    runs = np.flatnonzero(np.diff(tree, prepend=tree[0] - 1))
    if len(set(tree[runs].tolist())) < len(runs):
        refuse("has a tree in several places")
    place = {key: at for at, key in enumerate(zip(tree.tolist(), node.tolist(), strict=True))}
    if len(place) < len(modes):
        refuse("has a node twice")
    is_leaf = np.array([mode == "LEAF" for mode in modes])
    if unknown := sorted(set(modes) - {*_MODES, "LEAF"}):
        refuse(f"has nodes of mode {unknown[0]!r}")
    trees = tree.tolist()
    left, right = (
        [-1 if leaf else place[each, at] for each, at, leaf in zip(trees, to, is_leaf, strict=True)]
        for to in (yes.tolist(), no.tolist())
    )
    ids, weights = whole(f"{kind}_ids"), floats(f"{kind}_weights")
    keys = zip(whole(f"{kind}_treeids").tolist(), whole(f"{kind}_nodeids").tolist(), strict=True)
    ends = np.array([place[key] for key in keys], np.int64)
    if not len(ids) == len(weights) == len(ends):
        refuse("has lists of leaves that differ in length")
    kept = is_leaf[ends]  # onnxruntime ignores the others
    members = {at: (split[at],) for at, mode in enumerate(modes) if mode in ("EQ", "NEQ")}
    return Raw(
        modes, left, right, feature.tolist(), split, missing == 1, members, runs.tolist(),
        ends[kept], ids[kept], weights[kept], count, names, floats("base_values"),
        as_text(options.pop("post_transform", "NONE")),
        as_text(options.pop("aggregate_function", "SUM")) if not classifier else "SUM",
        whole_labels=not strings,
    )  # fmt: skip


def read_nodes(options: dict[str, Any], double: bool) -> Raw:
    """Read the attributes of opset 5, where leaves are numbered by themselves."""
    options.pop("nodes_hitrates", None)
    wanted = np.float64 if double else np.float32

    def take(name: str) -> NDArray[Any]:
        return np.asarray(options.pop(name, [])).reshape(-1)

    splits, weights, members = (
        take(each) for each in ("nodes_splits", "leaf_weights", "membership_values")
    )
    if any(each.size and each.dtype != wanted for each in (splits, weights, members)):
        refuse("has trees of another type than its input")
    codes, feature = take("nodes_modes").astype(int), take("nodes_featureids").astype(int)
    modes, count, leaves = [_MODES[each] for each in codes], len(codes), len(weights)
    sides = []
    for side in ("true", "false"):
        at, leaf = take(f"nodes_{side}nodeids").astype(int), take(f"nodes_{side}leafs") != 0
        ends = np.where(leaf, leaves, count)
        if not len(at) == len(leaf) == count or (at < 0).any() or (at >= ends).any():
            refuse("has nodes without children")
        sides.append((np.where(leaf, count + at, at).tolist(), leaf))
    (left, left_leaf), (right, right_leaf) = sides
    missing, roots = (
        take("nodes_missing_value_tracks_true") == 1,
        take("tree_roots").astype(int),
    )
    ids = take("leaf_targetids").astype(np.int64)
    if len(missing) not in (0, count) or not len(feature) == len(splits) == count or (
        len(ids) != leaves or (roots < 0).any() or (roots >= count).any() or not len(roots)
    ):  # fmt: skip
        refuse("has lists of nodes that differ in length")
    # A tree of one leaf is written as a node with that leaf on both sides.
    starts = [
        left[at] if left[at] == right[at] and left_leaf[at] and right_leaf[at] else int(at)
        for at in roots
    ]
    # Sets are separated by NaN.
    parts = np.split(members.astype(np.float64), np.flatnonzero(np.isnan(members)) + 1)
    sets = [part[~np.isnan(part)].tolist() for part in parts]
    asks = [at for at, mode in enumerate(modes) if mode == "MEMBER"]
    if len(sets) < len(asks):
        refuse("has fewer sets than nodes that ask of one")
    asked: dict[int, Sequence[float]] = {
        at: (float(splits[at]),) for at, m in enumerate(modes) if m in ("EQ", "NEQ")
    } | dict(zip(asks, sets, strict=False))
    return Raw(
        modes + ["LEAF"] * leaves, left + [-1] * leaves, right + [-1] * leaves,
        feature.tolist() + [0] * leaves, np.append(splits, np.zeros(leaves)),
        np.append(missing, np.zeros(leaves, bool)) if len(missing) else missing,
        asked, starts, np.arange(count, count + leaves), ids,
        weights.astype(np.float64), int(options.pop("n_targets", 0)), (),
        np.zeros(0), _POSTS[options.pop("post_transform", 0)],
        _AGGREGATES[options.pop("aggregate_function", 1)],
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Raw:
    """Trees as a file has them; nodes are numbered among all trees."""

    modes: list[str]
    yes: list[int]
    no: list[int]
    feature: list[int]
    split: Floats
    missing: NDArray[np.bool_]  # whether it goes with the yes; empty: nowhere
    members: Mapping[int, Sequence[float]]  # what is asked of by equality
    roots: list[int]
    ends: NDArray[np.int64]  # the leaf of each weight
    target_ids: NDArray[np.int64]
    weights: Floats
    targets: int
    names: tuple[str, ...]
    base: Floats
    post: str
    aggregate: str
    whole_labels: bool = False

    @property
    def count(self) -> int:
        """The number of trees."""
        return len(self.roots)

    def writes(self, target: int) -> bool | None:
        """Return whether a score is always written; None if it depends on the input."""
        if not (self.target_ids == target).any():
            return False
        writers = set(self.ends[self.target_ids == target].tolist())
        for root in self.roots:
            reached, waiting = set[int](), [root]
            while waiting:
                at = waiting.pop()
                if at not in reached:
                    reached.add(at)
                    waiting += [self.yes[at], self.no[at]] if self.modes[at] != "LEAF" else []
            if all(at in writers for at in reached if self.modes[at] == "LEAF"):
                return True
        return None


def write_nodes(raw: Raw, places: Sequence[int], double: bool, rounded: bool) -> Nodes:
    """Return trees in preorder; ``places`` numbers their columns, empty if unknown."""
    inner = np.array([mode != "LEAF" for mode in raw.modes])
    if raw.targets < 1 or (raw.target_ids < 0).any() or (raw.target_ids >= raw.targets).any():
        refuse("has leaves with scores that do not exist")
    if len(raw.modes) * raw.targets > _MOST_CELLS:
        refuse("has too many leaves and scores", "train a smaller model")
    if len(np.unique(raw.ends * raw.targets + raw.target_ids)) < len(raw.ends):
        refuse("has a leaf with a score twice")
    if not np.isin(np.flatnonzero(~inner), raw.ends).all():
        refuse("has a leaf without a weight")
    if np.isnan(raw.split[inner]).any():
        refuse("has a threshold that is not a number")
    if min(raw.feature) < 0 or (len(places) and max(raw.feature) >= len(places)):
        refuse("asks of a feature that its input does not have")
    rows = np.zeros((len(raw.modes), raw.targets))
    rows[raw.ends, raw.target_ids] = raw.weights
    return _Writer(raw, double).nodes(rows, places, rounded)


class _Writer:
    """Writes trees as questions of at most a threshold."""

    def __init__(self, raw: Raw, double: bool) -> None:
        self._raw, self._kind = raw, np.float64 if double else np.float32
        # Of each node the feature, threshold, whether a missing value goes left, and leaf.
        self._nodes, self._right = list[tuple[int, float, bool, int]](), list[int]()

    def nodes(self, rows: Floats, places: Sequence[int], rounded: bool) -> Nodes:
        """Return the trees, whose leaves add some rows."""
        roots = [0]
        for root in self._raw.roots:
            self._write(root)
            roots.append(len(self._nodes))
        feature, threshold, missing, leaf = map(np.array, zip(*self._nodes, strict=True))
        inner, size = feature >= 0, len(feature)
        known = np.array(places or range(1 + max(0, int(feature.max()))), np.int32)
        if rounded:
            early = np.where(np.isposinf(threshold), np.inf, before_rounding(threshold))
            threshold = np.where(inner, early, 0.0)
        return Nodes(
            np.array(roots, np.int64), np.where(inner, known[feature], np.int32(-1)), threshold,
            missing, np.full(size, -1, np.int32),
            np.where(inner, np.arange(1, size + 1), np.cumsum(~inner) - 1),
            np.array(self._right, np.int64), np.zeros((0, 1), bool), rows[leaf[~inner]],
        )  # fmt: skip

    def _write(self, root: int) -> None:
        """Append a tree; one that is shared by several nodes is written for each."""
        modes = self._raw.modes
        # What is to be written next, its depth, and the node whose right child it is.
        waiting: list[tuple[int | _Question, int, int]] = [(root, 0, -1)]
        while waiting:
            what, depth, parent = waiting.pop()
            here = len(self._nodes)
            self._right.append(0)
            if parent >= 0:
                self._right[parent] = here
            if here > _LARGEST or depth > _DEEPEST:
                refuse("has trees that are too large or deep", "train smaller ones")
            if isinstance(what, int) and modes[what] == "LEAF":
                self._nodes.append((-1, 0.0, False, what))
                continue
            question = self._question(what) if isinstance(what, int) else what
            threshold, missing, yes, no, feature = question
            self._nodes.append((feature, threshold, missing, -1))
            waiting.append((no, depth + 1, here))
            waiting.append((yes, depth + 1, -1))

    def _question(self, at: int) -> _Question:
        """Return a node's threshold, where a missing value goes, both children and the feature."""
        raw, mode = self._raw, self._raw.modes[at]
        yes, no, feature = raw.yes[at], raw.no[at], raw.feature[at]
        missing = bool(len(raw.missing) and raw.missing[at])
        threshold = float(raw.split[at])
        if mode in ("LT", "GTE"):
            threshold = self._below(threshold)
        if mode in ("LEQ", "LT"):
            return threshold, missing, yes, no, feature
        if mode in ("GT", "GTE"):
            return threshold, not missing, no, yes, feature
        members = set(raw.members[at])
        if mode == "NEQ":
            # A missing value differs from every number.
            yes, no, missing = no, yes, False
        # A node that asks the same of a further number is joined.
        asked = "EQ", feature, yes
        while mode == "EQ" and (raw.modes[no], raw.feature[no], raw.yes[no]) == asked:
            if bool(len(raw.missing) and raw.missing[no]) != missing:
                refuse("sends missing values both ways at questions that onnxruntime joins")
            members |= set(raw.members[no])
            no = raw.no[no]
        rest: Any = no
        for before, last in reversed(self._pieces(sorted(members), mode)):
            rest = (before, not missing, no, (last, missing, yes, rest, feature), feature)
        return rest  # type: ignore[no-any-return]

    def _pieces(self, members: list[float], mode: str) -> list[tuple[float, float]]:
        """Return intervals: the number before each, and its last one."""
        if not members or not np.isfinite(members).all():
            refuse("asks for no number or an infinite one")
        if mode != "MEMBER" or (members[0] >= 0 and members[-1] <= 30 and len(members) < 31):
            return [(self._below(each), each) for each in members]
        # Of larger sets onnxruntime asks for the whole part of a number.
        if any(each != int(each) or abs(each) > _WHOLE for each in members):
            refuse("asks for members that are no whole numbers up to 2 ** 23")
        return [
            (self._below(each) if each > 0 else each - 1,
             self._below(each + 1) if each >= 0 else each)
            for each in members
        ]  # fmt: skip

    def _below(self, threshold: float) -> float:
        """Return the number before one, of the type that the trees compare in."""
        if threshold == -np.inf:
            refuse("compares with minus infinity", "train it on finite numbers")
        with np.errstate(over="ignore", under="ignore"):
            return float(np.nextafter(self._kind(threshold), self._kind(-np.inf)))


def as_text(value: Any) -> str:
    """Return a string of an attribute."""
    return value.decode() if isinstance(value, bytes) else str(value)
