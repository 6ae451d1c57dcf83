"""Inputs as integer cells: the distinctions that forests make in a set of inputs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders.box import Box

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Groups:
    """Features that together take listed rows, as codes."""

    of: Codes  # shape (features,): which group a feature is in, -1 for none
    column_start: NDArray[np.int64]  # shape (groups + 1,)
    columns: Codes  # the features of each group, one group after another
    row_start: NDArray[np.int64]  # shape (groups + 1,)
    rows: Codes  # rows of different codes, flat
    values: tuple[Floats, ...]  # for each group the values that each row of codes stands for


_DIGITS = 12
"""Behind the point, at most, of what an input of a cell is rounded to."""


@dataclass(frozen=True, eq=False)
class Cells:
    """A set of inputs cut at thresholds, each feature's intervals numbered from 0.

    Every code stands for a value of the set; features outside groups are independent.
    """

    most: Codes  # shape (features,): the greatest code of each feature
    start: NDArray[np.int64]  # shape (features + 1,): where each feature's values begin
    values: Floats  # the greatest value that each code stands for
    box: Box
    groups: Groups

    def codes(self, X: Floats) -> Codes:
        """Return the codes of inputs of the set, shape (rows, features)."""
        found = np.empty(X.shape, np.int32)
        for at in range(X.shape[1]):
            cuts = self.values[self.start[at] : self.start[at + 1] - 1]
            found[:, at] = np.searchsorted(cuts, X[:, at])
        return found

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        """Draw inputs uniformly by code, shape (count, features)."""
        codes = rng.integers(0, self.most + 1, (count, len(self.most)))
        return self.box.nearest(self.values[self.start[:-1] + codes])

    def input(self, codes: Codes) -> Floats:
        """Return an input with these codes, shape (features,), in few digits."""
        places = self.start[:-1] + codes
        x: Floats = self.values[places]
        below = np.where(codes > 0, self.values[np.maximum(places - 1, 0)], self.box.lower)
        middle = below + (x - below) / 2
        for digits in range(_DIGITS, -1, -1):
            short = np.round(middle, digits) + 0.0
            inside = (short >= self.box.lower) & (short <= self.box.upper)
            x = np.where(inside & (self.codes(short[None])[0] == codes), short, x)
        groups = self.groups
        for g, values in enumerate(groups.values):
            columns = groups.columns[groups.column_start[g] : groups.column_start[g + 1]]
            rows = groups.rows[groups.row_start[g] : groups.row_start[g + 1]]
            same = (rows.reshape(-1, len(columns)) == codes[columns]).all(axis=1)
            if not same.any():
                raise ValueError(f"no listed row of features {columns.tolist()} has these codes")
            x[columns] = values[same.argmax()]
        return x


def cut_box(box: Box, feature: NDArray[np.int32], threshold: Floats) -> tuple[Cells, Codes]:
    """Cut a set of inputs at the thresholds of nodes."""
    listed: dict[int, Floats] = {}
    for each in box.choices:
        for column, values in zip(each.columns.tolist(), each.values.T, strict=True):
            listed[column] = np.unique(values)
    cut = np.zeros(len(feature), np.int32)
    # Numbers of 16 bits are sorted in linear time.
    short = feature.astype(np.int16) if box.dimension < 2**15 else feature
    order = np.argsort(short, kind="stable")
    ends = np.searchsorted(short[order], np.arange(box.dimension + 1, dtype=short.dtype))
    lists = []
    for at in range(box.dimension):
        nodes = order[ends[at] : ends[at + 1]]
        below = threshold[nodes]
        if at in listed:
            place = np.searchsorted(listed[at], below, side="right") - 1
            below = np.where(place < 0, -np.inf, listed[at][np.maximum(place, 0)])
        cuts = np.unique(below[(below >= box.lower[at]) & (below < box.upper[at])])
        cut[nodes] = np.where(below < box.lower[at], -1, np.searchsorted(cuts, below))
        lists.append(np.append(cuts, box.upper[at]))
    sizes = np.array([len(each) for each in lists], np.int64)
    cells = Cells(
        (sizes - 1).astype(np.int32), np.concatenate(([0], np.cumsum(sizes))),
        np.concatenate(lists), box, _no_groups(box.dimension),
    )  # fmt: skip
    return replace(cells, groups=_groups(cells)), cut


def _no_groups(features: int) -> Groups:
    none = np.zeros(0, np.int32)
    start = np.zeros(1, np.int64)
    return Groups(np.full(features, -1, np.int32), start, none, start, none, ())


def _groups(cells: Cells) -> Groups:
    """Return each group's distinct rows as codes."""
    of = np.full(cells.box.dimension, -1, np.int32)
    columns: list[Codes] = []
    rows: list[Codes] = []
    values: list[Floats] = []
    for each in cells.box.choices:
        X = np.tile(cells.box.lower, (len(each), 1))
        X[:, each.columns] = each.values
        known, first = np.unique(cells.codes(X)[:, each.columns], axis=0, return_index=True)
        of[each.columns] = len(columns)
        columns.append(each.columns.astype(np.int32))
        rows.append(known.astype(np.int32))
        values.append(each.values[first])
    return Groups(
        of, _starts(columns), _flat(columns), _starts(rows), _flat(rows), tuple(values)
    )  # fmt: skip


def _starts(parts: list[Codes]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum([each.size for each in parts]))).astype(np.int64)


def _flat(parts: list[Codes]) -> Codes:
    return np.concatenate([np.zeros(0, np.int32), *(each.ravel() for each in parts)])
