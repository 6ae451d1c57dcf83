"""The split of a set of rows: a function of its key, its level and its rows.

docs/forest.md says what is drawn, and from what. Sets are decided side by side, and so is each of
them without one of its rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .forest_file import Settings
from .numbers import Floats, need

Ints = NDArray[np.int64]
Bits = NDArray[np.uint64]
Flags = NDArray[np.bool_]

CACHING_FROM = 65
"""Nodes with at least this many rows list the splits they considered."""

STEP = np.uint64(0x9E3779B97F4A7C15)
_ATTRIBUTE = np.uint64(0x8CB92BA72F3D8DD7)
_DRAWN = np.uint64(0xF1357AEA2E62A9C5)
_LAST = np.uint64(2**64 - 1)
_DRAWS, _TERMS, _MOST_ROWS = 128, 13, 2**26


def mix(x: Bits) -> Bits:
    """Return SplitMix64's finaliser of each number, a bijection of 64 bits."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def word(number: int) -> Bits:
    """Return one number of 64 bits."""
    return np.array([number], np.uint64)


def bits_of(values: Floats) -> Bits:
    """Return the bits of each number."""
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
    start = mix(start + cell.astype(np.int64).astype(np.uint64) * STEP)
    start = mix(start + (exponent + 2000).astype(np.uint64) * STEP)
    drawn, waits = low.copy(), np.ones(len(low), bool)
    for i in range(_DRAWS if len(low) else 0):
        share = (mix(start + word(i + 1) * STEP) >> np.uint64(11)).astype(np.float64) * 2.0**-53
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
    cell = of * data.columns.shape[1] + data.codes[attribute[of], sets.rows[at]]
    order = np.argsort(cell)
    at, of, cell = at[order], of[order], cell[order]
    new = np.diff(cell, prepend=-1) > 0
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
        place, own_set, value, counts, sums, first, last, mix(own[own_set] ^ bits_of(value))
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
    """The split of each set of rows, then of each set without one row; feature -1 is a leaf."""

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
            (sets.key[:, None] ^ _ATTRIBUTE) + np.arange(1, width + 1, dtype=np.uint64) * STEP
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
