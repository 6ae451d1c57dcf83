"""One instance: a network, a family and a box, shared by all labels' searches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.encoders import (
    Applied,
    Box,
    Interval,
    PairBounds,
    apart,
    confidence_error,
    confidence_upper,
    network_bounds,
    pair_bounds,
    rounding_error,
)
from leaveout.errors import SpecError
from leaveout.models import Family, Members, Network, Stack
from leaveout.models.matrices import numbers


class Others(Protocol):
    """Networks with the first one's architecture, read a few at a time."""

    def __len__(self) -> int: ...

    def chunks(self, indices: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], Stack]]:
        """Iterate over some networks, a few at a time, with their indices and stack."""


Rows = NDArray[np.int64]

FEW = 16
"""Larger sets of members are clustered; smaller ones are split into single members."""

LARGEST = 1e60
"""Least bound of a neuron that is too large: products of slopes then stay in float64's range.

It is far above what float32 holds, which scores must not exceed either.
"""

_TOGETHER = 32  # members that are propagated side by side ...
_NUMBERS = 2**20  # ... and about how many numbers they may have

_SKETCH = 32
_POWER = 8
_LLOYD = 6


@dataclass(frozen=True, eq=False)
class Tree:
    """Sets of members; each is the union of two others, except the smallest."""

    order: Rows  # shape (members,): all members; those of a set are adjacent
    starts: Rows  # shape (sets,)
    ends: Rows  # shape (sets,)
    parts: Rows  # shape (sets, 2)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def sizes(self) -> Rows:
        """The number of members in each set."""
        return self.ends - self.starts

    def members(self, at: int) -> Rows:
        """Return the members of a set, in ascending order."""
        return np.sort(self.order[self.starts[at] : self.ends[at]])

    def find(self, members: Rows) -> int | None:
        """Return the set with exactly these ascending members, or None."""
        if not len(members):
            return None
        at = self._sets_by_key.get((int(members[0]), len(members)))
        found = at is not None and np.array_equal(self.members(at), members)
        return at if found else None

    @cached_property
    def _sets_by_key(self) -> dict[tuple[int, int], int]:
        """Return sets by their first member and size, which identify them in a tree."""
        least = [int(self.order[a:b].min()) for a, b in zip(self.starts, self.ends, strict=True)]
        return {name: at for at, name in enumerate(zip(least, self.sizes.tolist(), strict=True))}


class Clusters:
    """Two-means on a random sketch of the members' parameters."""

    def __init__(self, sketch: Floats, tree: Tree | None = None) -> None:
        self._sketch = sketch
        self.tree = tree_of(sketch) if tree is None else tree

    def split(self, group: Rows) -> tuple[Rows, Rows]:
        """Split a set of at least two members into two non-empty sets."""
        at = self.tree.find(group)
        if at is not None and self.tree.parts[at, 0] >= 0:
            one, two = self.tree.parts[at].tolist()
            return self.tree.members(one), self.tree.members(two)
        side = _side(self._sketch[group])
        return group[side], group[~side]


def tree_of(sketch: Floats) -> Tree:
    """Split all members in two repeatedly, until every set has at most `FEW`."""
    order = np.arange(len(sketch), dtype=np.int64)
    starts, ends, parts = [0], [len(sketch)], [(-1, -1)]
    at = 0
    while at < len(starts):
        start, end = starts[at], ends[at]
        if end - start > FEW:
            group = order[start:end]
            side = _side(sketch[group])
            order[start:end] = np.concatenate([group[side], group[~side]])
            middle = start + int(side.sum())
            parts[at] = (len(starts), len(starts) + 1)
            starts += [start, middle]
            ends += [middle, end]
            parts += [(-1, -1), (-1, -1)]
        at += 1
    return Tree(order, *(np.asarray(each, np.int64) for each in (starts, ends, parts)))


def _side(rows: Floats) -> NDArray[np.bool_]:
    """Split at least two rows into two non-empty clusters; return a mask of the first."""
    rows = rows - rows.mean(axis=0)
    direction = np.linspace(1.0, 2.0, rows.shape[1])
    for _ in range(_POWER):
        direction = rows.T @ (rows @ direction)
        size = float(np.linalg.norm(direction))
        if size == 0.0:
            break
        direction = direction / size
    side = rows @ direction > 0.0
    for _ in range(_LLOYD):
        if side.all() or not side.any():
            break
        one, two = rows[side].mean(axis=0), rows[~side].mean(axis=0)
        side = ((rows - one) ** 2).sum(axis=1) < ((rows - two) ** 2).sum(axis=1)
    if side.all() or not side.any():
        side = np.arange(len(rows)) < len(rows) // 2
    return np.asarray(side)


def make_clusters(first: Stack, members: Others) -> Clusters:
    """Sketch all members' parameters minus the first network's, a few at a time."""
    rng, own, count = np.random.default_rng(0), _flat(first), len(members)
    columns = rng.standard_normal((own.shape[1], min(_SKETCH, own.shape[1])))
    sketch = np.empty((count, columns.shape[1]))
    for chosen, taken in members.chunks(np.arange(count, dtype=np.int64)):
        sketch[chosen] = (_flat(taken) - own) @ columns
    return Clusters(sketch)


def _flat(stack: Stack) -> Floats:
    """Return all weights, then all biases of each network, shape (m, numbers)."""
    weights = [numbers(w) for layer in stack.layers for _, w in sorted(layer.weights.items())]
    return np.concatenate([*weights, *(layer.bias for layer in stack.layers)], axis=1)


@dataclass(frozen=True, eq=False)
class Instance:
    """A network, its family and a box."""

    network: Network
    family: Family
    members: Members  # the family in normal form, lowered on demand
    box: Box
    pair: PairBounds  # of N and the hyper-network of all members over the box
    network_error: float
    member_error: float

    @property
    def bounds(self) -> tuple[Interval, ...]:
        """Pre-activation bounds of N over the box."""
        return self.pair.network

    @property
    def labels(self) -> int:
        """Number of labels."""
        return self.network.labels

    @cached_property
    def own(self) -> Applied:
        """Return N as an application."""
        return Applied(self.network)

    @cached_property
    def others(self) -> Applied:
        """Return the members as an application in its place."""
        return Applied(self.network, self.members)

    @cached_property
    def clusters(self) -> Clusters:
        """Return clusters of similar members."""
        return make_clusters(self.network.stack, self.members)

    def alone(self, member: int) -> Instance:
        """Return the instance of a single member, for which propagation bounds are far lower.

        The rounding error of any member bounds that of this one.
        """
        family = self.family
        one = Family(family.take([member]), family.removed[[member]], family.manifest)
        members = Members(self.network.graph, one)
        others = Applied(self.network, members)
        pair = pair_bounds(self.network.stack, others.hyper, self.bounds, self.box)
        return replace(self, family=one, members=members, pair=pair)

    def most(self, label: int, *, matching: bool = True) -> float:
        """Bound the float32 confidence of any leak by propagation alone."""
        most = self.own_most(label)
        return min(most, self.difference_upper(self.pair, label)) if matching else most

    def own_most(self, label: int) -> float:
        """Bound the network's float32 confidence."""
        exact = confidence_upper(self.network.stack, self.box, self.bounds, label)
        return exact + self.network_error

    def difference_upper(self, pair: PairBounds, label: int) -> float:
        """Bound the float32 confidence of a leak by difference intervals.

        It is ``-inf`` if no member can lose to any rival.
        """
        return float(self.difference_uppers(pair, label))

    def difference_uppers(self, pair: PairBounds, label: int) -> Floats:
        """Bound the float32 confidence of leaks of a pair, or of each pair of a stack.

        If a member answers c', its margin over c' is at most the tie error, and N's is that minus
        the difference.
        """
        rivals = [c for c in range(self.labels) if c != label]
        change, member = pair.after[-1], pair.hyper[-1]
        tie, own = self.member_error, slice(label, label + 1)
        margin = change.upper[..., rivals] - change.lower[..., own] + tie
        possible = ~(member.lower[..., own] - member.upper[..., rivals] > tie)
        rounding = 1e-12 * (1 + member.magnitude.max(axis=-1))
        most = np.where(possible, margin, -np.inf).max(axis=-1)
        return np.asarray(most + self.network_error + rounding)

    def uppers(self, members: Rows, labels: Sequence[int]) -> Iterator[tuple[Rows, list[Floats]]]:
        """Bound single members' leaks by propagation, a few members at a time, for each label."""
        known = [self.own_most(label) for label in labels]
        together = max(1, min(_TOGETHER, _NUMBERS // self.network.stack.flat().shape[1]))
        for chosen, stack in self.members.chunks(members, together):
            pair = pair_bounds(self.network.stack, apart(stack), self.bounds, self.box)
            yield (
                chosen,
                [
                    np.minimum(most, self.difference_uppers(pair, label))
                    for label, most in zip(labels, known, strict=True)
                ],
            )


def overflow_error(network: Network) -> SpecError:
    """Return the error of a network over a box where nothing can be bounded."""
    return SpecError(
        f"over this box the scores of {network.source} or of a member may overflow float32; "
        "nothing can be proved about them"
    )


def make_instance(network: Network, family: Family, box: Box) -> Instance:
    """Return the instance of a network, a family and a box."""
    if box.dimension != network.inputs:
        raise SpecError(
            f"the box has {box.dimension} features, but {network.source} reads {network.inputs}"
        )
    with np.errstate(all="ignore"):
        members = Members(network.graph, family)
        others = Applied(network, members)
        bounds = network_bounds(network.stack, box)
        pair = pair_bounds(network.stack, others.hyper, bounds, box)
        own = {name: value[None] for name, value in network.parameters.items()}
        errors = (
            confidence_error(network.graph, own, bounds, box),
            rounding_error(others.evaluation(), pair.hyper, box).of_confidence(),
        )
    known = (*bounds, *pair.hyper, *pair.before, *pair.after)
    if not (np.isfinite(errors).all() and all((b.width < LARGEST).all() for b in known)):
        raise overflow_error(network)
    return Instance(network, family, members, box, pair, *errors)
