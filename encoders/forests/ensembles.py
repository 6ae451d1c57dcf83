"""Linear forms of the scores of tree ensembles, over inputs cut into cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Bools, Floats
from leaveout.encoders.box import Box, Choices
from leaveout.encoders.forests.cells import Cells, Codes, Longs, cut_box
from leaveout.encoders.forests.tree_walks import walk
from leaveout.encoders.query import Form
from leaveout.errors import SpecError
from leaveout.kernel.trees import Ensemble, greatest
from leaveout.models.trees.assemble import chain_nodes

Words = NDArray[np.uint64]
Relation = tuple[int, int, int, int]
Domain = tuple[Codes, Words, Longs]
"""Ordered and special codes of each variable; pairs, the first of which is not above the second."""

_UNIT = 2.0**-52
_LEVELS = 512  # most questions on a path, or more if there is room
_ROOM = 2**28  # bytes for what is known at each question of a path
_LEAST = 1e-300


@dataclass(frozen=True, eq=False)
class Applied:
    """An ensemble applied to a point, by its position."""

    ensemble: Ensemble
    point: int


@dataclass(frozen=True)
class Pairing:
    """Which trees of two applications become trees of pairs of leaves."""

    room: int = 8  # they may have so many times the nodes of both; else they are bounded singly
    trees: Sequence[tuple[int, int]] = ()  # -1 for none; if empty, those in the same place
    keep: bool = False  # whether those that weigh nothing stay, so that they are searched, too


@dataclass(frozen=True, eq=False)
class Questions:
    """Nodes of trees over cells, each tree in preorder.

    A code goes left if it is an ordered one of at most ``cut``, or a special one in ``mask``. A
    missing value is special, and so are all codes of a feature that trees ask for its category.
    """

    roots: Longs  # shape (trees + 1,)
    feature: Codes  # shape (nodes,): -1 for a leaf
    cut: Codes  # shape (nodes,)
    mask: Codes  # shape (nodes,): row of ``masks``
    left: Longs  # shape (nodes,); of a leaf its row of ``weights``
    right: Longs  # shape (nodes,)
    masks: Words  # shape (masks, words): row 0 is empty
    source: Codes  # shape (nodes, 2): application, and the node there that asks
    deep: int = 0  # above the most questions on a path

    @property
    def arrays(self) -> tuple[Codes, Codes, Codes, Longs, Longs, Words]:
        """What compiled functions read first."""
        return self.feature, self.cut, self.mask, self.left, self.right, self.masks


@dataclass(frozen=True, eq=False)
class Sums:
    """Forms over points: sums over trees, and linear terms of features.

    Equal features of two points are one variable; a tree of one application and its counterpart of
    another may be one tree of pairs of leaves.
    """

    variable: tuple[Longs, ...]  # of each point: the variable of each feature
    cells: Cells  # over the variables
    low: Floats  # least value of each code, as ``cells.values`` is the greatest
    first: Codes  # shape (variables, 2): least and greatest ordered code; crossed if there is none
    special: Words  # shape (variables, words): the special codes
    missing: Codes  # shape (variables,): the special code of a missing value, -1 for none
    trees: Questions
    weights: Floats  # shape (leaves, forms)
    slopes: Floats  # shape (forms, variables)
    constant: Floats  # shape (forms,)
    padding: Floats  # shape (forms,): how far computed forms exceed what is added here
    ordered: Bools  # shape (forms,): not above 0, as computed, where no tree's weight is
    whole: bool  # whether no tree was left out that adds anything to a score
    pairs: tuple[tuple[int, int], ...]  # applications whose trees are paired

    def points(self, ordered: Codes, special: Codes, values: Floats | None = None) -> list[Floats]:
        """Return points: a code each, or its special one where that is not -1."""
        x = self.cells.input(np.maximum(ordered, 0)) if values is None else values.copy()
        x[special >= 0] = np.nan
        for v in np.flatnonzero((special >= 0) & (special != self.missing)).tolist():
            x[v] = self.cells.values[self.cells.start[v] + special[v]]
        return [x[own] for own in self.variable]


def encode(applied: Sequence[Applied], boxes: Sequence[Box], forms: Sequence[Form],
           equal: Sequence[Relation], below: Sequence[Relation], missing: Sequence[Bools],
           pairing: Pairing = Pairing(),
) -> Sums:  # fmt: skip
    """Return forms over cells.

    Of ``equal`` features, and of the first at most the second in ``below``, each is given by its
    point and place; ``missing`` says which features of each point may be missing.
    """
    box, variable = _join(boxes, equal, missing)
    absent = np.zeros(box.dimension, np.bool_)
    for own, flags in zip(variable, missing, strict=True):
        absent[own] |= flags
    listed = _category_values(applied, variable, box)
    every = [each.ensemble.nodes for each in applied]
    feature = np.concatenate([
        np.where(nodes.feature >= 0, variable[each.point][nodes.feature], -1)
        for each, nodes in zip(applied, every, strict=True)
    ]).astype(np.int32)  # fmt: skip
    threshold = np.concatenate([nodes.threshold for nodes in every])
    ends = [(v, float(end)) for v, values in listed.items() for end in values]
    less = _comparable(box, variable, below, listed, absent)
    ends += [
        (w, float(end))
        for v, w in (*less, *((w, v) for v, w in less))
        for end in np.unique(threshold[feature == v])
    ]
    asks = (feature >= 0) & ~np.isin(feature, [*listed])
    cells, cut = cut_box(
        box,
        np.concatenate((feature[asks], [v for v, _ in ends])).astype(np.int32),
        np.concatenate((threshold[asks], [end for _, end in ends])),
    )
    codes = np.full(len(feature), -1, np.int32)
    codes[asks] = cut[: int(asks.sum())]
    first, special, none = _domain(cells, listed, absent)
    trees = _questions(applied, feature, codes, listed, special, none)
    slopes = np.zeros((len(forms), box.dimension))
    factor = [np.zeros((len(forms), len(each.ensemble.base))) for each in applied]
    for k, form in enumerate(forms):
        for p, i, c in form.features:
            slopes[k, variable[p][i]] += c
        for a, j, c in form.scores:
            factor[a][k, j] += c
    constant, padding = np.array([form.constant for form in forms]), np.zeros(len(forms))
    size, weights = np.zeros(len(forms)), []
    for ensemble, rates in zip((each.ensemble for each in applied), factor, strict=True):
        weights.append(ensemble.nodes.values @ rates.T / ensemble.divisor)
        constant += rates @ ensemble.base / ensemble.divisor
        padding += np.abs(rates) @ (ensemble.rounding() + ensemble.tie)
        size += np.abs(rates) @ np.abs(ensemble.base)
    weight = np.concatenate(weights)
    size += greatest(trees.roots, trees.feature, np.abs(weight)).sum(axis=0) + np.abs(constant)
    size += np.abs(slopes) @ np.maximum(np.abs(box.lower), np.abs(box.upper))
    padding += (len(trees.roots) + 32) * _UNIT * size
    signs = _differences(applied, factor, slopes, constant)
    signs = [None if form.rounded else sign for form, sign in zip(forms, signs, strict=True)]
    paired, weight, together, whole = _pair(
        applied, factor, trees, weight, (first, special, np.array(less, np.int64).reshape(-1, 2)),
        signs, pairing,
    )  # fmt: skip
    is_ordered = np.array([pair is not None and pair[:2] in together for pair in signs], np.bool_)
    return Sums(
        variable, cells, _least_values(cells), first, special, none, paired, weight, slopes,
        constant, padding, is_ordered, whole,
        tuple(pair for pair in sorted(together) if pair[1] >= 0),
    )  # fmt: skip


def _join(
    boxes: Sequence[Box], equal: Sequence[Relation], missing: Sequence[Bools]
) -> tuple[Box, tuple[Longs, ...]]:
    """Return one box over variables, and the variable of each feature of each point."""
    starts = np.cumsum([0, *(box.dimension for box in boxes)])
    parent = np.arange(starts[-1])
    group = {}
    for p, box in enumerate(boxes):
        for each in box.choices:
            group.update(dict.fromkeys((starts[p] + each.columns).tolist(), (p, each)))

    def root(v: int) -> int:
        while parent[v] != v:
            v = int(parent[v])
        return v

    wanted = {(int(starts[p] + i), int(starts[q] + j)) for p, i, q, j in equal}
    for a, b in sorted(wanted):
        if _same_domain(a, b, wanted, group, starts, boxes, missing):
            one, other = sorted((root(a), root(b)))
            parent[other] = one
    roots = np.array([root(v) for v in range(int(starts[-1]))])
    kept, variable = np.unique(roots, return_inverse=True)
    lower, upper = np.full(len(kept), -np.inf), np.full(len(kept), np.inf)
    np.maximum.at(lower, variable, np.concatenate([box.lower for box in boxes]))
    np.minimum.at(upper, variable, np.concatenate([box.upper for box in boxes]))
    upper = np.maximum(lower, upper)
    choices: dict[tuple[int, ...], Choices] = {}
    for p, box in enumerate(boxes):
        for each in box.choices:
            own = variable[starts[p] + each.columns]
            choices.setdefault(tuple(own.tolist()), Choices(own, each.values, exact=True))
    split = [variable[starts[p] : starts[p + 1]] for p in range(len(boxes))]
    return Box(lower, upper, tuple(choices.values())), tuple(split)


def _same_domain(
    a: int, b: int, wanted: set[tuple[int, int]], group: dict[int, Any], starts: Longs,
    boxes: Sequence[Box], missing: Sequence[Bools],
) -> bool:  # fmt: skip
    """Return whether two equal features can be one variable."""
    (p, i), (q, j) = (
        (int(at := np.searchsorted(starts, v, side="right") - 1), int(v - starts[at]))
        for v in (a, b)
    )
    if bool(missing[p][i]) != bool(missing[q][j]):
        return False
    one, other = group.get(a), group.get(b)
    if one is None and other is None:
        low = max(boxes[p].lower[i], boxes[q].lower[j])
        return bool(low <= min(boxes[p].upper[i], boxes[q].upper[j]))
    if one is None or other is None or not np.array_equal(one[1].values, other[1].values):
        return False
    pairs = zip(one[1].columns.tolist(), other[1].columns.tolist(), strict=True)
    return all((int(starts[p] + c), int(starts[q] + d)) in wanted for c, d in pairs)


def _comparable(
    box: Box, variable: Sequence[Longs], below: Sequence[Relation],
    categories: Mapping[int, Floats], absent: Bools,
) -> list[tuple[int, int]]:  # fmt: skip
    """Return the variables one of which is at most the other, where both are cut alike."""
    listed = set(box.discrete.tolist())
    found = []
    for p, i, q, j in below:
        v, w = int(variable[p][i]), int(variable[q][j])
        same = box.lower[v] == box.lower[w] and box.upper[v] == box.upper[w] and v != w
        if same and not {v, w} & (listed | set(categories)) and not absent[[v, w]].any():
            found.append((v, w))
    return found


class FeatureError(SpecError):
    """A feature of a point that trees cannot read, or a claim cannot use, as its set has it."""

    def __init__(self, point: int, feature: int, wrong: str, cure: str) -> None:
        super().__init__(f"feature {feature} of point {point} {wrong}; {cure}")
        self.point, self.feature, self.wrong, self.cure = point, feature, wrong, cure


def _category_values(
    applied: Sequence[Applied], variable: Sequence[Longs], box: Box
) -> dict[int, Floats]:
    """Return the values of the variables that are asked for a category."""
    found: dict[int, Floats] = {}
    for each in applied:
        for feature in each.ensemble.categories.tolist():
            v = int(variable[each.point][feature])
            values = _values_of(box, v)
            if values is None:
                raise FeatureError(
                    each.point, feature, "is a category to the trees",
                    f"list its values, e.g. integers(X, at = {feature})",
                )  # fmt: skip
            found[v] = values
    return found


def _values_of(box: Box, variable: int) -> Floats | None:
    for each in box.choices:
        for k in np.flatnonzero(each.columns == variable).tolist():
            return np.unique(each.values[:, k])
    if box.lower[variable] == box.upper[variable]:
        return box.lower[variable : variable + 1]
    return None


def _domain(
    cells: Cells, categories: Mapping[int, Floats], absent: Bools
) -> tuple[Codes, Words, Codes]:
    """Return ordered codes, special codes, and the code of a missing value of each variable."""
    variables = len(cells.most)
    first = np.stack((np.zeros(variables, np.int32), cells.most), 1)
    counts = np.zeros(variables, np.int64)
    for v in categories:
        counts[v] = int(cells.most[v]) + 1
        first[v] = 1, 0
    words = int((counts.max(initial=0) + 1 + 63) // 64)
    special = np.zeros((variables, words), np.uint64)
    missing = np.where(absent, counts, -1).astype(np.int32)
    for v in range(variables):
        for code in range(int(counts[v]) + bool(absent[v])):
            special[v, code // 64] |= np.uint64(1 << (code % 64))
    return first, special, missing


def _least_values(cells: Cells) -> Floats:
    """Return the least value that each code stands for."""
    low = np.empty_like(cells.values)
    low[1:] = np.nextafter(cells.values[:-1], np.inf)
    low[cells.start[:-1]] = cells.box.lower
    for each in cells.box.choices:
        for v, own in zip(each.columns.tolist(), each.values.T, strict=True):
            known = np.unique(own)
            at = slice(int(cells.start[v]), int(cells.start[v + 1]))
            low[at] = known[np.searchsorted(known, low[at])]
    return low


def _questions(
    applied: Sequence[Applied], feature: Codes, codes: Codes, listed: Mapping[int, Floats],
    special: Words, missing: Codes,
) -> Questions:  # fmt: skip
    """Return all nodes, unpaired."""
    masks: dict[bytes, int] = {bytes(special.shape[1] * 8): 0}
    roots, left, right = chain_nodes([each.ensemble.nodes for each in applied])
    mask, source, base = np.zeros(len(feature), np.int32), list[Codes](), 0
    by_value = np.isin(feature, [*listed])
    for a, each in enumerate(applied):
        nodes = each.ensemble.nodes
        size = len(nodes.feature)
        source.append(np.stack((np.full(size, a), np.arange(size)), 1).astype(np.int32))
        own = slice(base, base + size)
        gaps = nodes.missing_left & (missing[feature[own]] >= 0)
        for node in np.flatnonzero((feature[own] >= 0) & (by_value[own] | gaps)).tolist():
            v, word = int(feature[base + node]), np.zeros(special.shape[1] * 64, np.bool_)
            if v in listed:
                word[: len(listed[v])] = each.ensemble.goes_left(node, listed[v])
            if gaps[node]:
                word[missing[v]] = True
            packed = np.packbits(word, bitorder="little").tobytes()
            mask[base + node] = masks.setdefault(packed, len(masks))
        base += size
    table = np.frombuffer(b"".join(masks), np.uint64).reshape(len(masks), -1)
    return Questions(
        roots, feature, codes, mask, left, np.where(feature < 0, -1, right), table,
        np.concatenate(source),
    )  # fmt: skip


Sign = tuple[int, int, int, float]
"""Two applications, a score, and the sign of the first."""


def _differences(
    applied: Sequence[Applied], factor: Sequence[Floats], slopes: Floats, constant: Floats
) -> list[Sign | None]:
    """Return which forms are a multiple of the difference of two scores that are summed alike."""
    found: list[Sign | None] = [None] * len(constant)
    for k in range(len(constant)):
        used = [(a, int(j)) for a, own in enumerate(factor) for j in np.flatnonzero(own[k])]
        if len(used) != 2 or slopes[k].any() or constant[k] != 0.0:
            continue
        (a, i), (b, j) = used
        alike = i == j and applied[a].ensemble.adds_as(applied[b].ensemble, i)
        if alike and factor[a][k, i] == -factor[b][k, j]:
            found[k] = a, b, i, float(np.sign(factor[a][k, i]))
    return found


def _pair(
    applied: Sequence[Applied], factor: Sequence[Floats], trees: Questions, weights: Floats,
    domain: Domain, signs: Sequence[Sign | None], pairing: Pairing,
) -> tuple[Questions, Floats, set[tuple[int, int]], bool]:  # fmt: skip
    """Return trees, or pairs of them, cut to the box; which pair wholly; if none is left out."""
    starts, whole = np.cumsum([0, *(each.ensemble.trees for each in applied)]), True
    rows = np.cumsum([0, *(len(each.ensemble.nodes.values) for each in applied)])

    def values(tree: int, leaves: Longs) -> tuple[int, Floats]:
        a = int(np.searchsorted(starts, tree, side="right")) - 1
        return a, applied[a].ensemble.nodes.values[leaves - rows[a]]

    jobs, together = list[tuple[int, int]](), set[tuple[int, int]]()
    for pair in pairing.trees or ():
        one, other = (int(starts[a]) + t if t >= 0 else -1 for a, t in enumerate(pair))
        jobs.append((one, other) if one >= 0 else (other, -1))
    for a, b in () if pairing.trees else _partners(applied, factor):
        one, other = int(starts[a]), -1 if b < 0 else int(starts[b])
        jobs += [(one + t, -1 if b < 0 else other + t) for t in range(applied[a].ensemble.trees)]
        together.add((a, b))
    made: list[tuple[NDArray[np.int64], Floats]] = []
    # What is appended to is walked to its end.
    for one, other in jobs:
        sides = [t for t in (one, other) if t >= 0]
        nodes = sum(int(trees.roots[t + 1] - trees.roots[t]) for t in sides)
        found = _product(trees, one, other, domain, pairing.room * nodes, 2 + 2 * nodes)
        if found is None and other < 0:
            raise SpecError("a tree is too deep to be searched")
        if found is None:
            a, b = (int(np.searchsorted(starts, t, side="right")) - 1 for t in sides)
            together.discard((a, b))
            jobs += [(one, -1), (other, -1)]
            continue
        leaf = found[:, 0] < 0
        total = sum(weights[found[leaf, 3 + k]] for k in range(len(sides)))
        own = [values(t, found[leaf, 3 + k]) for k, t in enumerate(sides)]
        for k, sign in enumerate(signs):
            if sign is not None and sign[:2] == tuple(a for a, _ in own):
                # Above 0 where a greater value was rounded to the same weight.
                greater = (own[0][1] - own[1][1])[:, sign[2]] * sign[3] > 0
                total[greater & (total[:, k] <= 0), k] = _LEAST
        if total.any() or not made or pairing.keep:
            made.append((found, total))
        else:
            whole &= not any(each[:, factor[a].any(axis=0)].any() for a, each in own)
    weights = np.concatenate([each for _, each in made])
    return _concatenate(trees, made), weights, together, whole


def _partners(applied: Sequence[Applied], factor: Sequence[Floats]) -> list[tuple[int, int]]:
    """Return pairs of applications with as many trees that a form has both of; -1 for none."""
    left = list(range(len(applied)))
    found = []
    while left:
        a = left.pop(0)
        fits = (
            b for b in left
            if applied[a].ensemble.trees == applied[b].ensemble.trees
            and (factor[a].any(axis=1) & factor[b].any(axis=1)).any()
        )  # fmt: skip
        b = next(fits, -1)
        if b >= 0:
            left.remove(b)
        found.append((a, b))
    return found


def _concatenate(trees: Questions, made: list[tuple[NDArray[np.int64], Floats]]) -> Questions:
    """Return cut or paired trees as nodes; their columns are those of `walk`."""
    nodes = np.concatenate([each for each, _ in made])
    sizes = [len(each) for each, _ in made]
    base = np.repeat(np.cumsum([0, *sizes[:-1]]), sizes)
    leaf = nodes[:, 0] < 0
    at = nodes[:, 1]
    below = np.where(leaf, np.cumsum(leaf) - 1, np.arange(len(nodes)) + 1)
    return Questions(
        np.cumsum([0, *sizes]), np.where(leaf, -1, trees.feature[at]).astype(np.int32),
        trees.cut[at], trees.mask[at], below, np.where(leaf, -1, nodes[:, 2] + base), trees.masks,
        trees.source[at], int(nodes[~leaf, 3].max(initial=0)) + 2,
    )  # fmt: skip


def _product(
    trees: Questions, one: int, other: int, domain: Domain, room: int, levels: int
) -> NDArray[np.int64] | None:
    """Return the leaves, or pairs of leaves, that an input reaches as a tree; None if too many."""
    first, special, _ = domain
    out, second = np.empty((room + 1, 5), np.int64), -1 if other < 0 else int(trees.roots[other])
    levels = min(levels, max(_LEVELS, _ROOM // (8 * first.size + special.nbytes)))
    size = walk(*trees.arrays, int(trees.roots[one]), second, *domain, levels, out)
    return None if size < 0 else out[:size].copy()
