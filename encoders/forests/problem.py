"""Two forests side by side as a MILP: an input at which they answer apart, if there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from leaveout.encoders.forests.leaves import Leaves
from leaveout.solvers import Problem

__all__ = ["Apart", "apart"]

Floats = NDArray[np.float64]


@dataclass
class _Rows:
    """Sparse rows ``lower <= a @ v``, collected."""

    rows: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)

    def add(
        self, terms: Sequence[tuple[int, float]], lower: float = -np.inf, upper: float = np.inf
    ) -> None:
        for column, value in terms:
            self.rows.append(len(self.lower))
            self.columns.append(column)
            self.values.append(value)
        self.lower.append(lower)
        self.upper.append(upper)


@dataclass(frozen=True, eq=False)
class Apart:
    """The problem, and how to read an input from a point of it.

    Attributes
    ----------
    problem : Problem
        Maximises the margin by which each forest prefers a label of its own, the two labels being
        different. Where the optimum is negative the forests answer alike.
    cuts : tuple of (ndarray of float64, slice)
        For each feature the numbers at which a leaf may end, and the columns of the binaries that
        say whether the input is at most each.
    """

    problem: Problem
    cuts: tuple[tuple[Floats, slice], ...]

    def input(self, point: Floats, lower: Floats, upper: Floats) -> Floats:
        """Return the input a point stands for: of each feature the greatest number it may be."""
        x = upper.copy()
        for at, (ends, columns) in enumerate(self.cuts):
            below = np.flatnonzero(point[columns] > 0.5)
            if below.size:
                x[at] = ends[below[0]]
        return np.clip(x, lower, upper)


def apart(one: Sequence[Leaves], other: Sequence[Leaves], lower: Floats, upper: Floats) -> Apart:
    """Return the problem of finding an input at which two forests answer apart.

    A binary for each feature and number at which a leaf ends says whether the input is at most
    that; they ascend. An input is in a leaf only if it is between the ends of the leaf, and in one
    leaf of each tree. Each forest chooses a label, not both the same, and a forest's mean share of
    its label exceeds that of any other by at least the margin.

    Parameters
    ----------
    one, other : sequence of Leaves
        A tree each, over the same features and labels.
    lower, upper : ndarray of float64, shape (features,)
    """
    labels = one[0].shares.shape[1]
    rows, cuts, count = _Rows(), [], 1
    for at in range(len(lower)):
        ends = np.unique(np.concatenate([tree.upper[:, at] for tree in (*one, *other)]))
        ends = ends[ends < upper[at]]
        columns = range(count, count + len(ends))
        for first, second in pairwise(columns):
            rows.add([(first, -1.0), (second, 1.0)], lower=0.0)
        cuts.append((ends, slice(columns.start, columns.stop)))
        count += len(ends)
    binaries = count
    choices = []
    for trees in (one, other):
        first_leaf = count
        count = _place(trees, rows, cuts, count, lower, upper)
        chosen = count
        count += labels
        choices.append(chosen)
        rows.add([(chosen + label, 1.0) for label in range(labels)], 1.0, 1.0)
        shares = np.concatenate([tree.shares for tree in trees]) / len(trees)
        for label in range(labels):
            for rival in range(labels):
                if rival == label:
                    continue
                gap = shares[:, label] - shares[:, rival]
                terms = [(first_leaf + int(i), float(gap[i])) for i in np.flatnonzero(gap)]
                # Without the choice the row says nothing: shares and margin are within [-1, 1].
                rows.add([*terms, (0, -1.0), (chosen + label, -2.0)], lower=-2.0)
    for label in range(labels):
        rows.add([(choices[0] + label, 1.0), (choices[1] + label, 1.0)], upper=1.0)
    integer = np.zeros(count, dtype=bool)
    integer[1:binaries] = True
    for chosen in choices:
        integer[chosen : chosen + labels] = True
    objective, low = np.zeros(count), np.zeros(count)
    objective[0], low[0] = 1.0, -1.0
    matrix = csr_array((rows.values, (rows.rows, rows.columns)), shape=(len(rows.lower), count))
    problem = Problem(
        objective,
        matrix,
        np.array(rows.lower),
        np.array(rows.upper),
        low,
        np.ones(count),
        integer,
        maximise=True,
    )
    return Apart(problem, tuple(cuts))


def _place(
    trees: Sequence[Leaves],
    rows: _Rows,
    cuts: Sequence[tuple[Floats, slice]],
    count: int,
    lower: Floats,
    upper: Floats,
) -> int:
    """Add a variable a leaf, and the rows that tie it to the input; return the next column."""
    for tree in trees:
        rows.add([(count + leaf, 1.0) for leaf in range(len(tree.shares))], 1.0, 1.0)
        for leaf in range(len(tree.shares)):
            for at in np.flatnonzero(tree.upper[leaf] < upper).tolist():
                ends, columns = cuts[at]
                place = int(np.searchsorted(ends, tree.upper[leaf, at]))
                rows.add([(columns.start + place, 1.0), (count + leaf, -1.0)], lower=0.0)
            for at in np.flatnonzero(tree.lower[leaf] > lower).tolist():
                ends, columns = cuts[at]
                # The leaf begins just above the last number that is below it.
                place = int(np.searchsorted(ends, tree.lower[leaf, at])) - 1
                rows.add([(columns.start + place, 1.0), (count + leaf, 1.0)], upper=1.0)
        count += len(tree.shares)
    return count
