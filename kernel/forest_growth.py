"""What a forest is: a function of its settings, seed and rows. Trees of sets of rows, side by side.

A node is a function of its key, its level and its rows, so equal sets of rows under one key are
one node; docs/forest.md says what is drawn, and from what.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.kernel.forest_file import Exact, Settings, Tree, share_of_trees
from leaveout.kernel.numbers import Floats, need

Ints = NDArray[np.int64]
Bits = NDArray[np.uint64]
Flags = NDArray[np.bool_]

CACHING_FROM = 65
"""Nodes with at least this many rows list the splits they considered."""

_STEP = np.uint64(0x9E3779B97F4A7C15)
_ATTRIBUTE = np.uint64(0x8CB92BA72F3D8DD7)
_DRAWN = np.uint64(0xF1357AEA2E62A9C5)
_SHARE = np.uint64(0xE7037ED1A0B428DB)
_SIDES = np.array([0xD1B54A32D192ED03, 0xABC98388FB8FAC03], np.uint64)
_LAST = np.uint64(2**64 - 1)
_DRAWS, _TERMS, _MOST_ROWS = 128, 13, 2**26
_AT_ONCE = 2**14


def mix(x: Bits) -> Bits:
    """Return SplitMix64's finaliser of each number, a bijection of 64 bits."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _word(number: int) -> Bits:
    return np.array([number], np.uint64)


def _bits(values: Floats) -> Bits:
    return np.ascontiguousarray(values).view(np.uint64)


def _between(low: Floats, high: Floats) -> Floats:
    """Return the middle of adjacent values; the lower one if that rounds up, or is missing."""
    with np.errstate(invalid="ignore", over="ignore"):
        middle = low + (high - low) * 0.5
    return np.where((low <= middle) & (middle < high), middle, low)


def _draw(key: Bits, low: Floats, high: Floats) -> Floats:
    """Return random thresholds in [low, high): the first point of a keyed grid in there."""
    found, fine = low.copy(), low > -np.inf
    low, high, key = low[fine], high[fine], key[fine]
    exponent = np.frexp(high - low)[1].astype(np.int64)
    side = np.ldexp(1.0, exponent)
    cell = np.floor(low / side)
    start = mix(key ^ _DRAWN)
    start = mix(start + cell.astype(np.int64).astype(np.uint64) * _STEP)
    start = mix(start + (exponent + 2000).astype(np.uint64) * _STEP)
    drawn, waits = low.copy(), np.ones(len(low), bool)
    for i in range(_DRAWS if len(low) else 0):
        share = (mix(start + _word(i + 1) * _STEP) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        point = (cell + 2.0 * share) * side
        hit = waits & (low <= point) & (point < high)
        drawn[hit], waits = point[hit], waits & ~hit
        if not waits.any():
            break
    found[fine] = drawn
    return found


def _count_logs(most: int) -> Floats:
    """Return n log2 n for n up to a number, by atanh's series in basic arithmetic."""
    n = np.arange(most + 1, dtype=np.float64)
    fraction, exponent = np.frexp(n)
    low = fraction < 0.7071067811865476
    fraction, power = np.where(low, fraction * 2.0, fraction), exponent - low
    ratio = (fraction - 1.0) / (fraction + 1.0)
    square, series = ratio * ratio, np.zeros(len(n))
    for j in range(_TERMS, -1, -1):
        series = series * square + 1.0 / (2 * j + 1)
    found: Floats = n * (power + 2.0 * ratio * series * 1.4426950408889634)
    found[:2] = 0.0
    return found


class Data:
    """Rows, and settings."""

    def __init__(self, settings: Settings, X: Floats, y: NDArray[np.int32], labels: int) -> None:
        need(len(X) < _MOST_ROWS, "too many rows")
        self.settings, self.columns = settings, np.ascontiguousarray(X.T)
        self.y, self.labels = y.astype(np.int64), labels
        codes = [np.unique(column, return_inverse=True)[1].reshape(-1) for column in self.columns]
        self.codes = np.array(codes, np.int64)  # the rank of each value of an attribute
        self.depth = math.inf if settings.depth is None else settings.depth
        self.thresholds = min(settings.thresholds, max(len(X), 1))
        self.logs = _count_logs(len(X)) if settings.criterion == "entropy" else None

    def worth(self, left: Ints, total: Ints) -> Floats:
        """Return the quality of splits, shape (n, k), from the rows of each label on the left.

        Operations are in the order of the definition, so equal counts have equal scores.
        """
        right = total[:, None] - left
        sizes = left.sum(axis=2), right.sum(axis=2)
        if self.logs is None:
            first, second = ((side * side).sum(axis=2) for side in (left, right))
            found: Floats = first / np.maximum(sizes[0], 1) + second / np.maximum(sizes[1], 1)
            return found
        gains = []
        for side, size in zip((left, right), sizes, strict=True):
            gain = np.zeros(size.shape)
            for label in range(self.labels):
                gain = gain + self.logs[side[:, :, label]]
            gains.append(gain - self.logs[size])
        return np.asarray(gains[0] + gains[1])


@dataclass(frozen=True, eq=False)
class Sets:
    """Sets of rows on one level, one after the other; the last ones may be empty."""

    rows: Ints
    of: Ints  # shape (rows,): the set of each, ascending
    key: Bits  # shape (sets,)

    @property
    def start(self) -> Ints:
        """The first row of each set, and the end."""
        return np.searchsorted(self.of, np.arange(len(self.key) + 1))


@dataclass(frozen=True, eq=False)
class Splits:
    """The split of each set, then of each set without one of its rows; feature -1 is a leaf."""

    feature: Ints
    threshold: Floats
    counts: Ints  # shape (splits, labels)


@dataclass(frozen=True, eq=False)
class _Groups:
    """Equal values of an attribute in some sets, ascending, and the gaps above each."""

    place: Ints  # shape (rows of all sets,): the group of each row
    of: Ints  # shape (groups,): the set, numbered among those looked at
    value: Floats
    counts: Ints  # shape (groups, labels)
    sums: Ints  # shape (groups, labels): rows of the set up to this value
    first: Ints  # shape (sets,)
    last: Ints  # shape (sets,)
    priority: Bits  # shape (groups,): of the gap between this value and the next


def _groups(data: Data, sets: Sets, used: Ints, attribute: Ints, own: Bits) -> _Groups:
    """Sort the rows of some sets by the value of an attribute each."""
    number = np.full(len(sets.key), -1)
    number[used] = np.arange(len(used))
    at = np.flatnonzero(number[sets.of] >= 0)
    of = number[sets.of[at]]
    code = data.codes[attribute[of], sets.rows[at]]
    order = np.lexsort((code, of))
    at, of, code = at[order], of[order], code[order]
    new = np.ones(len(at), bool)
    new[1:] = (of[1:] != of[:-1]) | (code[1:] != code[:-1])
    group, head = np.cumsum(new) - 1, np.flatnonzero(new)
    rows, many = sets.rows[at], len(head)
    cell = group * data.labels + data.y[rows]
    counts = np.bincount(cell, minlength=many * data.labels).reshape(many, data.labels)
    own_set = of[head]
    first = np.searchsorted(own_set, np.arange(len(used)))
    last = np.searchsorted(own_set, np.arange(len(used)), side="right") - 1
    sums = np.cumsum(counts, axis=0)
    sums = sums - (sums[first] - counts[first])[own_set]
    value = data.columns[attribute[own_set], rows[head]]
    place = np.full(len(sets.rows), -1)
    place[at] = group
    return _Groups(
        place, own_set, value, counts, sums, first, last, mix(own[own_set] ^ _bits(value))
    )


def _first_gaps(groups: _Groups, most: int) -> Ints:
    """Return the valid gaps of each set that come first by priority, -1 where there are fewer."""
    pair = groups.counts[:-1] + groups.counts[1:]
    valid = (groups.of[:-1] == groups.of[1:]) & ((pair > 0).sum(axis=1) >= 2)
    gap = np.flatnonzero(valid)
    gap = gap[np.lexsort((groups.priority[gap], groups.of[gap]))]
    rank = np.arange(len(gap)) - np.searchsorted(groups.of[gap], groups.of[gap])
    found = np.full((len(groups.first), min(most, int(rank.max(initial=-1)) + 1)), -1)
    kept = rank < most
    found[groups.of[gap[kept]], rank[kept]] = gap[kept]
    return found


class Decision:
    """The splits of sets of rows, and of sets without one row each."""

    def __init__(self, data: Data, level: int, sets: Sets, out: Ints, listing: bool) -> None:
        self.data, self.sets, self.listing = data, sets, listing
        count = len(sets.key)
        cells = np.bincount(
            sets.of * data.labels + data.y[sets.rows], minlength=count * data.labels
        )
        self.of = np.concatenate((np.arange(count), sets.of[out]))  # the set of each split
        self.out = np.concatenate((np.full(count, -1), out))  # the row that it is without
        self.label = np.where(self.out < 0, -1, data.y[sets.rows[self.out]])
        self.less = (self.label[:, None] == np.arange(data.labels)).astype(np.int64)
        self.counts = cells.reshape(count, data.labels)[self.of] - self.less
        size = self.counts.sum(axis=1)
        mixed = (self.counts > 0).sum(axis=1) >= 2
        waits = (level < data.depth) & (size >= data.settings.least) & mixed
        self.feature, self.threshold = np.full(len(self.of), -1), np.zeros(len(self.of))
        self.best = np.full(len(self.of), -np.inf)
        self.considered: list[tuple[Ints, ...]] = []
        self.values: list[Floats] = []
        random = level < data.settings.random_depth
        wanted = 1 if random else data.settings.attributes
        seen = np.zeros(len(self.of), np.int64)
        order, varying, keys = self._attributes()
        for j in range(order.shape[1]):
            asked = np.flatnonzero(waits & (seen < wanted) & (j < varying[self.of]))
            if not len(asked):
                break
            used, number = np.unique(self.of[asked], return_inverse=True)
            attribute, own = order[used, j], keys[used, order[used, j]]
            groups = _groups(data, sets, used, attribute, own)
            seen[asked] += self._consider(asked, number, attribute, own, groups, random, j)

    def splits(self) -> Splits:
        """Return what was decided."""
        return Splits(self.feature, self.threshold, self.counts)

    def _attributes(self) -> tuple[Ints, Ints, Bits]:
        """Return attributes by priority, those that vary first; how many do; and priorities."""
        data, sets = self.data, self.sets
        start, width = sets.start, len(data.columns)
        full = np.flatnonzero(np.diff(start))
        varies = np.zeros((len(sets.key), width), bool)
        if len(full):
            codes = data.codes[:, sets.rows]
            least, most = (f.reduceat(codes, start[full], axis=1) for f in (np.minimum, np.maximum))
            varies[full] = (least < most).T
        keys = mix(
            (sets.key[:, None] ^ _ATTRIBUTE) + np.arange(1, width + 1, dtype=np.uint64) * _STEP
        )
        return np.lexsort((keys, ~varies), axis=1), varies.sum(axis=1), keys

    def _consider(
        self, asked: Ints, number: Ints, attribute: Ints, own: Bits, groups: _Groups, random: bool,
        turn: int,
    ) -> Flags:  # fmt: skip
        """Consider an attribute of each set; return for which splits it varies.

        Without a row only the group of its value changes: it may be gone. Then the gap below it
        ends at the next value, and the gap above it is gone.
        """
        here = np.where(self.out[asked] < 0, -9, groups.place[self.out[asked]])
        gone = (here >= 0) & (groups.counts[np.maximum(here, 0)].sum(axis=1) == 1)
        first, last = groups.first[number], groups.last[number]
        low = first + (gone & (here == first))
        high = last - (gone & (here == last))
        varies: Flags = np.asarray(low < high)
        some = np.flatnonzero(varies)
        asked, number, here, gone = asked[some], number[some], here[some], gone[some]
        if random:
            ends = groups.value[low[some]], groups.value[high[some]]
            self.feature[asked] = attribute[number]
            self.threshold[asked] = _draw(own[number], *ends)
            self._list(asked[:, None], turn, attribute[number], low[some, None], high[some, None],
                       np.ones((len(some), 1), bool), groups, True)  # fmt: skip
            return varies
        gaps = _first_gaps(groups, self.data.thresholds + 2)
        step = max(1, 2**20 // ((gaps.shape[1] + 2) * self.data.labels))
        for begin in range(0, len(some), step):
            part = slice(begin, begin + step)
            self._compare(
                asked[part], attribute[number[part]], here[part], gone[part],
                gaps[number[part]], low[some[part]], high[some[part]], groups, turn,
            )  # fmt: skip
        return varies

    def _compare(
        self, asked: Ints, attribute: Ints, here: Ints, gone: Flags, gaps: Ints, low: Ints,
        high: Ints, groups: _Groups, turn: int,
    ) -> None:  # fmt: skip
        """Compare the first valid thresholds of an attribute with the best split so far.

        Of the first k + 2 valid gaps at most the two beside a row's value can change without it,
        so the first k of the others and of these two as they are then are the right ones.
        """
        beside = np.stack((here - 1, here), axis=1)
        gap = np.concatenate((gaps, beside), axis=1)
        old = np.arange(gap.shape[1]) < gaps.shape[1]
        moved = (gap == here[:, None]) | (gap == here[:, None] - 1)
        exists = (gap >= low[:, None]) & (old != moved) & ~((gap == here[:, None]) & gone[:, None])
        gap = np.where(exists, gap, 0)
        above = gap + 1 + (gone[:, None] & (gap + 1 == here[:, None]))
        exists &= above <= high[:, None]
        above = np.where(exists, above, 0)
        less = self.less[asked][:, None]
        both = groups.counts[gap] + groups.counts[above]
        # The row is in one of both groups beside its gaps, unless its own group is gone.
        both = both - less * (moved & ~gone[:, None])[:, :, None]
        exists &= (both > 0).sum(axis=2) >= 2
        rank = np.argsort(np.where(exists, groups.priority[gap], _LAST), axis=1, kind="stable")
        kept = np.zeros_like(exists)
        np.put_along_axis(kept, rank[:, : self.data.thresholds], True, axis=1)
        kept &= exists
        left = groups.sums[gap] - less * (here[:, None] <= gap)[:, :, None]
        score = np.where(kept, self.data.worth(left, self.counts[asked]), -np.inf)
        most = score.max(axis=1, initial=-np.inf)
        cut = _between(groups.value[gap], groups.value[above])
        cut = np.where(kept & (score == most[:, None]), cut, np.inf).min(axis=1, initial=np.inf)
        tie = (most == self.best[asked]) & (attribute < self.feature[asked])
        better = (most > self.best[asked]) | (tie & (most > -np.inf))
        at = asked[better]
        self.best[at], self.feature[at] = most[better], attribute[better]
        self.threshold[at] = cut[better]
        self._list(asked, turn, attribute, gap, above, kept, groups, False)

    def _list(
        self, asked: Ints, turn: int, attribute: Ints, gap: Ints, above: Ints, kept: Flags,
        groups: _Groups, random: bool,
    ) -> None:  # fmt: skip
        """List the splits that large sets considered, as forest files do."""
        if not self.listing:
            return
        asked = asked.reshape(-1)
        large = (self.counts[asked].sum(axis=1) >= CACHING_FROM) & (self.out[asked] < 0)
        at, column = np.nonzero(kept & large[:, None])
        low, high = gap[at, column], above[at, column]
        counts = groups.sums[low], groups.counts[low], groups.counts[high]
        three = np.concatenate(counts, axis=1) * (not random)
        self.considered.append((asked[at], np.full(len(at), turn), attribute[at], three))
        self.values.append(np.stack((groups.value[low], groups.value[high]), axis=1))


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of several trees, parents first, level by level."""

    feature: Ints
    threshold: Floats
    left: Ints
    right: Ints
    counts: Ints
    levels: tuple[int, ...]  # where each level begins, and the end


@dataclass(frozen=True, eq=False)
class Listed:
    """What a forest file says besides of its nodes."""

    leaf: Ints  # shape (rows,): the node of each row
    row: Ints
    node: Ints  # shape (considered,): who considered a split
    turn: Ints
    attribute: Ints
    values: Floats
    counts: Ints


def _expand(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return the numbers of several ranges, and the range of each."""
    size = end - start
    of = np.repeat(np.arange(len(size)), size)
    return np.arange(len(of)) - (np.cumsum(size) - size)[of] + start[of], of


def grow(
    data: Data, sets: Sets, link: Ints, out: Ints, listing: bool = False
) -> tuple[Nodes, Listed]:
    """Grow the tree of each set, and of each set without one of its rows.

    ``link`` names, for a set that is a part of another one with the same key, that other one, -1
    for none; ``out`` are places of rows, each to be left out alone. The roots come first: those of
    the sets, then those without a row. Where a split sends the rows of a part to the sides to
    which the whole's split sends them, its children are parts of the whole's children, and equal
    to these where they lack no row; else they are grown as any other sets.
    """
    table: list[tuple[Any, ...]] = []
    lists: tuple[list[Ints], ...] = ([], [], [], [], [], [])
    values: list[Floats] = []
    offset, level, levels = 0, 0, [0]
    while len(sets.key) or len(out):
        made = Decision(data, level, sets, out, listing)
        found, count = made.splits(), len(sets.key)
        rows, of, start, columns = sets.rows, sets.of, sets.start, data.columns
        goes = columns[found.feature[of], rows] > found.threshold[of]  # to the right
        inner = found.feature >= 0
        left, right = (np.full(len(found.feature), -1) for _ in range(2))
        # Parts of other sets: is their split as good as the whole's?
        whole = np.where(link < 0, np.arange(count), link)
        other = columns[found.feature[whole[of]], rows] > found.threshold[whole[of]]
        apart = np.bincount(of[goes != other], minlength=count) > 0
        alike = (link >= 0) & inner[:count] & inner[whole] & ~apart
        sizes = np.bincount(2 * of + goes, minlength=2 * count).reshape(count, 2)
        fresh = inner[:count, None] & ~(alike[:, None] & (sizes == sizes[whole]))
        child = np.where(fresh, np.cumsum(fresh).reshape(-1, 2) - 1, -1)
        child = np.where(inner[:count, None] & ~fresh, child[whole], child)
        mine = np.flatnonzero(fresh[of, goes.astype(np.int64)])
        to = child[of, goes.astype(np.int64)]
        # Sets without a row: either as the set itself, or two new sets.
        base, split = of[out], slice(count, None)
        place, one = _expand(start[base], start[base + 1])
        differs = (found.feature[split] != found.feature[base]) | (
            found.threshold[split] != found.threshold[base]
        )
        checked = (inner[split] & differs)[one]
        place, one = place[checked], one[checked]
        stays = place != out[one]
        place, one = place[stays], one[stays]
        right_side = columns[found.feature[split][one], rows[place]] > found.threshold[split][one]
        wrong = np.bincount(one[right_side != goes[place]], minlength=len(out)) > 0
        same = inner[split] & inner[base] & ~(differs & wrong)
        anew = np.flatnonzero(inner[split] & ~same)
        number = np.full(len(out), -1)
        number[anew] = int(fresh.sum()) + 2 * np.arange(len(anew))
        again = number[one] >= 0
        # The next level.
        target = np.concatenate((to[mine], (number[one] + right_side)[again]))
        source = np.concatenate((mine, place[again]))
        order = np.argsort(target, kind="stable")
        moved = np.full(len(rows), -1)
        moved[mine] = np.argsort(order)[: len(mine)]
        parent, side = np.nonzero(fresh)
        parents = np.concatenate((parent, np.repeat(base[anew], 2)))
        sides = np.concatenate((side, np.tile([0, 1], len(anew))))
        links = np.where(alike[parent], child[whole[parent], side], -1)
        on = np.flatnonzero(same)
        after, following = offset + len(found.feature), len(parents)
        for s, kids in enumerate((left, right)):
            kids[:count] = np.where(inner[:count], after + child[:, s], -1)
            kids[split] = np.where(inner[split], after + child[base, s], -1)
            kids[count + anew] = after + number[anew] + s
            taken = on[goes[out[on]] == s]
            kids[count + taken] = after + following + np.searchsorted(on, taken)
        table.append((found.feature, found.threshold, left, right, found.counts))
        if listing:
            lists[0].append(offset + of[~inner[of]])
            lists[1].append(rows[~inner[of]])
            for node, *rest in made.considered:
                for to_list, part in zip(lists[2:], (offset + node, *rest), strict=True):
                    to_list.append(part)
            values += made.values
        out = moved[out[on]]
        key = mix(sets.key[parents] + _SIDES[sides])
        sets = Sets(rows[source[order]], target[order], key)
        link = np.concatenate((links, np.full(2 * len(anew), -1)))
        offset, level = after, level + 1
        levels.append(offset)
    feature, threshold, left, right, counts = (
        np.concatenate(part) for part in zip(*table, strict=True)
    )
    nodes = Nodes(feature, threshold, left, right, counts, tuple(levels))
    leaf, row, node, turn, attribute = (
        np.concatenate((np.zeros(0, np.int64), *part)) for part in lists[:5]
    )
    three = np.concatenate((np.zeros((0, 3 * data.labels), np.int64), *lists[5]))
    ends = np.concatenate((np.zeros((0, 2)), *values))
    return nodes, Listed(leaf, row, node, turn, attribute, ends, three)


def ranks(X: Floats, y: NDArray[np.int32]) -> tuple[Ints, Ints]:
    """Return the content of each row, a number, and its rank among rows of the same content."""
    _, content = np.unique(np.column_stack((X, y)), axis=0, return_inverse=True)
    content = content.reshape(-1).astype(np.int64)
    order = np.argsort(content, kind="stable")
    rank = np.empty(len(content), np.int64)
    rank[order] = np.arange(len(content)) - np.searchsorted(content[order], content[order])
    return content, rank


def _label_hash(label: Any) -> int:
    text = f"text {label}" if isinstance(label, str) else f"number {Fraction(label)}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def holders(forest: Exact) -> Iterator[Ints]:
    """Yield the rows of each tree, ascending.

    A row is in the first ceil(q trees) trees by a hash of its values, its label and its rank among
    rows of the same content; so of copies those of the greatest ranks leave first.
    """
    settings, X, y = forest.settings, forest.X, forest.y
    share, everyone = share_of_trees(settings), np.arange(len(X))
    if share == settings.trees:
        yield from (everyone for _ in range(settings.trees))
        return
    hashed = mix(mix(mix(_word(settings.seed) + _STEP) ^ _SHARE) ^ np.array(
        [_label_hash(label) for label in forest.labels], np.uint64
    )[y])  # fmt: skip
    for column in X.T:
        hashed = mix((hashed ^ _bits(column)) + _STEP)
    own = mix(hashed + (ranks(X, y)[1] + 1).astype(np.uint64) * _STEP)
    trees = np.arange(1, settings.trees + 1, dtype=np.uint64) * _STEP
    held = np.zeros((settings.trees, len(X)), bool)
    for begin in range(0, len(X), 4096):
        first = np.argsort(mix(own[begin : begin + 4096, None] + trees), axis=1)[:, :share]
        held[first.T, begin + np.arange(len(first))] = True
    for each in held:
        yield np.flatnonzero(each)


def planted(forest: Exact, most: int = _AT_ONCE) -> Iterator[tuple[int, Sets]]:
    """Yield the rows of a few trees at a time, with the number of the first tree."""
    begin, rows, size = 0, list[Ints](), 0
    for tree, held in enumerate((*holders(forest), None)):
        if rows and (held is None or size + len(held) > most):
            numbers = np.arange(begin + 1, begin + len(rows) + 1, dtype=np.uint64)
            key = mix(mix(_word(forest.settings.seed) + _STEP) + numbers * _STEP)
            of = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
            yield begin, Sets(np.concatenate(rows), of, key)
            begin, rows, size = tree, [], 0
        if held is not None:
            rows.append(held)
            size += len(held)


def train(forest: Exact) -> Exact:
    """Return the forest of a forest's settings and rows, whatever its trees are."""
    data = Data(forest.settings, forest.X, forest.y, len(forest.classes))
    none, trees = np.zeros(0, np.int64), list[Tree]()
    for _, sets in planted(forest):
        roots = len(sets.key)
        nodes, listed = grow(data, sets, np.full(roots, -1), none, listing=True)
        trees += _in_preorder(nodes, listed, roots)
    return replace(forest, trees=tuple(trees))


def _in_preorder(nodes: Nodes, listed: Listed, roots: int) -> Iterator[Tree]:
    """Yield trees as forest files have them."""
    inner = [
        a + np.flatnonzero(nodes.feature[a:b] >= 0)
        for a, b in zip(nodes.levels[:-1], nodes.levels[1:], strict=True)
    ]
    size, place = (np.full(len(nodes.feature), n) for n in (1, 0))
    tree = np.arange(len(nodes.feature))
    for at in reversed(inner):
        size[at] += size[nodes.left[at]] + size[nodes.right[at]]
    for at in inner:
        one, two = nodes.left[at], nodes.right[at]
        place[one], place[two] = place[at] + 1, place[at] + 1 + size[one]
        tree[one] = tree[two] = tree[at]
    number = np.where(nodes.feature < 0, -1, 1)
    left, right = (np.where(number < 0, -1, place[side]) for side in (nodes.left, nodes.right))
    for root in range(roots):
        own = np.flatnonzero(tree == root)
        own = own[np.argsort(place[own])]
        leaf = np.flatnonzero(tree[listed.leaf] == root)
        leaf = leaf[np.lexsort((listed.row[leaf], place[listed.leaf[leaf]]))]
        kept = np.flatnonzero(tree[listed.node] == root)
        order = listed.values[kept, 0], listed.turn[kept], place[listed.node[kept]]
        kept = kept[np.lexsort(order)]
        yield Tree(
            nodes.feature[own].astype(np.int32), nodes.threshold[own], left[own].astype(np.int32),
            right[own].astype(np.int32), nodes.counts[own].astype(np.int32),
            listed.row[leaf].astype(np.int32), place[listed.node[kept]].astype(np.int32),
            listed.attribute[kept].astype(np.int32), listed.values[kept],
            listed.counts[kept].astype(np.int32),
        )  # fmt: skip


def without(forest: Exact, rows: Sequence[int]) -> Exact:
    """Return a forest's rows without some of them, without trees; unused labels are dropped."""
    gone = np.array(rows, np.int64)
    need(len(np.unique(gone)) == len(gone), "a row is deleted twice")
    absent = gone[~np.isin(gone, forest.names)]
    need(not len(absent), f"{forest.path}: no row {absent[0] if len(absent) else 0} to delete")
    stays = ~np.isin(forest.names, gone)
    need(stays.any(), "no row is left, and a forest cannot be trained on none")
    present, y = np.unique(forest.y[stays], return_inverse=True)
    classes = forest.classes[present]
    if classes.dtype.kind == "U":
        classes = np.array(classes.tolist())  # as wide as the longest label left
    cells = None if forest.cells is None else np.array(forest.cells[stays].tolist())
    return replace(
        forest, classes=classes, names=forest.names[stays], X=forest.X[stays],
        y=y.reshape(-1).astype(np.int32), trees=(), cells=cells,
    )  # fmt: skip
