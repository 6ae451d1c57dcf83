"""Cases over one region, in the form used by walks through their trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats, Integers
from leaveout.verifier.checker.arithmetic import UNIT, Arithmetic, gamma
from leaveout.verifier.checker.layout import Net, Sets, Start


@dataclass(frozen=True, eq=False)
class CaseRows:
    """``inputs u + scores z + change dz + constant`` of one case, one per row."""

    inputs: Floats  # shape (r, inputs): coefficients of the unshifted input
    scores: Floats  # shape (r, scores)
    change: Floats  # shape (r, scores)
    constant: Floats  # shape (r,)
    errors: Floats  # shape (r,): largest effect of float32 evaluation over the whole region
    goal: NDArray[np.bool_]  # shape (r,)
    sums: Integers  # shape (s, 2): pairs of rows whose sum is also bounded
    slip: Floats  # shape (r, scores): rounding error of the coefficients of scores


@dataclass(frozen=True, eq=False)
class Combined:
    """Non-negative combinations of rows, one each."""

    inputs: Floats  # shape (n, inputs)
    scores: Floats  # shape (n, scores)
    change: Floats  # shape (n, scores)
    constant: Floats  # shape (n,): includes rounding, except that of sums with other numbers


@dataclass(frozen=True, eq=False)
class Rows:
    """The forms of some cases over one region, concatenated, for shifted inputs."""

    inputs: Floats  # as in `CaseRows`; constants are for shifted inputs
    scores: Floats  # as in `CaseRows`; constants are for shifted inputs
    change: Floats  # as in `CaseRows`; constants are for shifted inputs
    constant: Floats  # as in `CaseRows`; constants are for shifted inputs
    errors: Floats  # as in `CaseRows`; constants are for shifted inputs
    goal: NDArray[np.bool_]  # as in `CaseRows`; constants are for shifted inputs
    terms: Floats  # shape (scores,)
    terms_d: Floats  # shape (scores,)
    placed: Floats  # shape (r,)
    sizes: Floats  # shape (r,): sums of absolute terms over the whole region
    starts: Integers  # shape (cases + 1,): start of each case's rows
    sums: Integers  # shape (s, 2): positions among all rows
    sum_starts: Integers  # shape (cases + 1,)
    unit: float
    arithmetic: Arithmetic  # number type of the forms

    def case(self, number: int) -> slice:
        """Return the slice of a case's rows."""
        return slice(int(self.starts[number]), int(self.starts[number + 1]))

    def pick(self, *parts: Integers) -> Combined:
        """Return single rows, or sums of two, by index; parts have shape (n,).

        Coefficients of scores are charged only for their rounding, which is zero for leaks.
        """
        first, *others = parts
        inputs, scores, change = self.inputs[first], self.scores[first], self.change[first]
        constant, charge = self.constant[first], self.placed[first]
        for each in others:
            inputs, constant = inputs + self.inputs[each], constant + self.constant[each]
            scores, slip = add_sums(scores, self.scores[each])
            change, slip_d = add_sums(change, self.change[each])
            charge = charge + self.placed[each] + slip @ self.terms + slip_d @ self.terms_d
        return Combined(inputs, scores, change, constant + (1.0 + 8 * UNIT) * charge)

    def combine(self, case: Integers, share: Floats) -> Combined:
        """Return combinations of the rows of each case by its shares."""
        count, number = len(case), self.arithmetic.number
        found = Combined(
            number(np.zeros((count, self.inputs.shape[1]))),
            number(np.zeros((count, self.scores.shape[1]))),
            number(np.zeros((count, self.scores.shape[1]))),
            number(np.zeros(count)),
        )
        for each in np.unique(case):
            at, own = self.case(int(each)), case == each
            weights = share[own, : at.stop - at.start]
            found.inputs[own] = weights @ self.inputs[at]
            found.scores[own] = weights @ self.scores[at]
            found.change[own] = weights @ self.change[at]
            found.constant[own] = weights @ self.constant[at] + self.unit * (
                weights @ self.sizes[at]
            )
        return found


def stacked_rows(cases: Sequence[CaseRows], net: Net, start: Start) -> Rows:
    """Return the forms of cases for the shifted inputs of a network."""
    numbers = net.arithmetic
    inputs, scores, change, constant = (
        numbers.number(np.concatenate([getattr(c, k) for c in cases]))
        for k in ("inputs", "scores", "change", "constant")
    )
    top = net.at(net.layers - 1)
    farthest = np.abs(net.origin) + np.maximum(np.abs(net.lower), np.abs(net.upper))
    sizes = np.abs(numbers.nearest(constant)) + np.abs(numbers.nearest(inputs)) @ farthest
    # A constant alone is exact.
    alone = ~inputs.any(axis=1)
    placed = 2 * gamma(6 * net.inputs + 64) * np.where(alone, 0.0, sizes)
    slip = numbers.nearest(np.concatenate([c.slip for c in cases]))
    placed = placed + (1.0 + gamma(64)) * (slip @ start.terms[top])
    sizes += np.abs(numbers.nearest(scores)) @ start.terms[top]
    sizes += np.abs(numbers.nearest(change)) @ start.terms_d[top]
    starts = np.cumsum([0, *(len(c.goal) for c in cases)])
    widest = int(np.diff(starts).max())
    return Rows(
        inputs,
        scores,
        change,
        constant + inputs @ net.origin,
        np.concatenate([c.errors for c in cases]),
        np.concatenate([c.goal for c in cases]),
        start.terms[top],
        start.terms_d[top],
        placed,
        2 * sizes,
        starts,
        np.concatenate([c.sums + at for c, at in zip(cases, starts, strict=False)]),
        np.cumsum([0, *(len(c.sums) for c in cases)]),
        gamma(4 * widest + 6 * net.inputs + 4 * scores.shape[1] + 128),
        numbers,
    )


def add_sums(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Return a sum and its exact rounding error (Knuth's two-sum)."""
    total = first + second
    part = total - first
    return total, np.abs((first - (total - part)) + (second - part))


class SetSource(Protocol):
    """Source of the differences of sets of members from N."""

    def sets(self, keys: list[int], groups: list[Integers]) -> Sets:
        """Return the differences of some sets; in a tree, a key always denotes the same set."""
        ...


@dataclass(frozen=True, eq=False)
class Asked:
    """Nodes whose evaluation errors are requested."""

    lower: Floats  # shape (n, inputs): shifted
    upper: Floats  # shape (n, inputs): shifted
    state: Floats  # shape (n, 6, hidden)
    case: Integers  # shape (n,): index of each node's case in the space
    members: list[Integers]  # of each node


class Errors(Protocol):
    """Bounds evaluation errors over regions of nodes."""

    def over(self, asked: Asked) -> Floats:
        """Return the errors of each node's rows, shape (n, rows); infinite if unknown."""
        ...


@dataclass(frozen=True, eq=False)
class Space:
    """Two networks, or N and sets of members, over one region, and cases there."""

    net: Net
    start: Start
    sets: SetSource
    differs: bool  # whether any form depends on differences from N
    rows: Rows  # forms of the cases
    cases: Integers  # numbers of the cases in the tree
    errors: Errors
