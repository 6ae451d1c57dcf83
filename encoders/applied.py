"""A network, or a family's members in its place, prepared for evaluation at points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats, Integers
from leaveout.deadline import NEVER, Deadline
from leaveout.encoders.bounds import HyperNetwork, hyper_bounds, hyper_network, network_bounds
from leaveout.encoders.box import Box
from leaveout.encoders.interval import Interval, gamma
from leaveout.encoders.rational import NO_BIT, Rows, exact_layers, lowest_bit, rows_of
from leaveout.encoders.rounding import (
    Evaluation,
    RoundingError,
    Step,
    Sums,
    evaluation_of,
    evaluation_of_any,
    rounding_error,
)
from leaveout.errors import FamilyError
from leaveout.models import Members, Network, Stack
from leaveout.models.matrices import Sparse
from leaveout.models.replay import Runner

_EVALUATIONS = 64  # most members whose evaluations are cached
_RATIONAL = 2**17  # most weights of a network evaluated in rational arithmetic
_RUNNERS = 256  # most members kept loaded in onnxruntime


class Applied:
    """A network, or the members of a family in its place."""

    def __init__(self, network: Network, members: Members | None = None) -> None:
        self.network, self.members = network, members
        self._evaluations: dict[int | None, Evaluation] = {}
        self._runners = lru_cache(_RUNNERS)(self._runner)

    def __reduce__(self) -> tuple[type[Applied], tuple[Network, Members | None]]:
        return Applied, (self.network, self.members)

    @cached_property
    def hyper(self) -> HyperNetwork:
        """Return the hyper-network of all members."""
        assert self.members is not None
        with np.errstate(all="ignore"):
            hyper = hyper_network(self.members)
            # A non-finite parameter of any member appears in the extremes.
            if not all(
                np.isfinite(end).all()
                for layer in hyper.layers
                for interval in (*layer.weights.values(), layer.bias)
                for end in (interval.lower, interval.upper)
            ):
                raise _infinite(self.members, self.network)
        return hyper

    @cached_property
    def rational(self) -> tuple[Rows, ...] | None:
        """Return the network's layers in exact arithmetic; None for members or if too large."""
        layers = self.network.stack.layers
        size = sum(math.prod(w.shape) for layer in layers for w in layer.weights.values())
        if self.members is not None or size > _RATIONAL or self.network.stack.is_smooth:
            return None
        return rows_of(self.network.stack, exact_layers(self.evaluation()))

    @property
    def size(self) -> int:
        """How many numbers the network has, or all members together."""
        own = sum(
            each.size for layer in self.network.stack.layers for each in layer.weights.values()
        )
        return own * (1 if self.members is None else len(self.members))

    def evaluation(self, member: int | None = None, deadline: Deadline = NEVER) -> Evaluation:
        """Return the products and sums that a runtime computes, by a deadline or not at all."""
        found = self._evaluations.get(member)
        if found is None:
            found = self._evaluation(member, deadline)
            if len(self._evaluations) >= _EVALUATIONS:
                self._evaluations.pop(next(iter(self._evaluations)), None)
            self._evaluations[member] = found
        return found

    def runner(self, member: int | None = None) -> Runner:
        """Return the network, or a member, in onnxruntime."""
        return self._runners(member)

    def stack(self, member: int | None = None) -> Stack:
        """Return the normal form of the network, or of a member."""
        if self.members is None or member is None:
            return self.network.stack
        return self.members.member(member)

    def bounds(
        self, box: Box, member: int | None = None, deadline: Deadline = NEVER
    ) -> tuple[Interval, ...]:
        """Bound the pre-activations of each layer over a box, less well after a deadline."""
        if self.members is not None and member is None:
            return hyper_bounds(self.hyper, box)
        return network_bounds(self.stack(member), box, deadline)

    def rounding(
        self,
        box: Box,
        member: int | None = None,
        bounds: Sequence[Interval] | None = None,
        deadline: Deadline = NEVER,
    ) -> RoundingError:
        """Return the rounding error over a box, optionally given hidden bounds.

        `OverdueError` is raised where it is not known by the deadline.
        """
        known = self.bounds(box, member, deadline) if bounds is None else bounds
        return rounding_error(self.evaluation(member, deadline), known, box, deadline)

    def _evaluation(self, member: int | None, deadline: Deadline) -> Evaluation:
        if self.members is None:
            alone = {name: value[None] for name, value in self.network.parameters.items()}
            return evaluation_of(self.network.graph, alone, deadline)
        family = self.members.family
        if member is None:
            return evaluation_of_any(self.network.graph, family.parameters, deadline)
        return evaluation_of(self.network.graph, family.take([member]), deadline)

    def _runner(self, member: int | None) -> Runner:
        if self.members is None or member is None:
            return self.network.runner()
        taken = self.members.family.take([member])
        return self.network.runner({name: value[0] for name, value in taken.items()})


def _infinite(members: Members, network: Network) -> FamilyError:
    """Return the error for the first member with non-finite values."""
    first = next(
        int(chosen[np.argmin(finite)])
        for chosen, finite in (
            (chosen, np.isfinite(stack.flat()).all(axis=1)) for chosen, stack in members.chunks()
        )
        if not finite.all()
    )
    return FamilyError(
        f"member {first} (row {int(members.family.removed[first])}) of the family of "
        f"{network.source} divides by zero, or has a negative variance"
    )


_UNIT32 = 2.0**-24
_TINY32 = float(np.finfo(np.float32).tiny)
_BITS, _LEAST_BIT = 24, -126
_SPARE = 8  # roundings allowed beyond the terms of a sum, such as a runtime's scalings and fusions


@dataclass(frozen=True, eq=False)
class _Side:
    """Extreme values, with every term at one end, before rounding."""

    value: Floats
    size: Floats  # sums of the absolute values of all terms since the last activation
    bit: Integers  # exponent of a power of two that divides all these terms

    @staticmethod
    def of(values: Floats) -> _Side:
        return _Side(values, np.abs(values), lowest_bit(values))


@dataclass(frozen=True, eq=False)
class _Ends:
    """Range of a computed tensor, and its derivation from the last activation."""

    lower: Floats
    upper: Floats
    low: _Side | None
    high: _Side | None
    matrices: int = 0  # operators since then that do more than add and scale by powers of two
    terms: int = 1  # most terms of a sum since then
    least: int = 0  # every product of constants since then is at least two to this power
    joined: bool = False

    @staticmethod
    def of(lower: Floats, upper: Floats) -> _Ends:
        return _Ends(lower, upper, _Side.of(lower), _Side.of(upper))


def computed_ends(error: RoundingError, box: Box) -> Interval:
    """Bound the scores that float32 evaluation gives over a box."""
    graph = error.evaluation.graph
    ends = {graph.input: _Ends.of(box.lower, box.upper)}
    for step in error.evaluation.steps:
        first = ends[step.inputs[0]]
        if step.sums is not None:
            found = _propagate_ends(first, step.sums, error, step)
        elif step.sign:
            found = _join_ends(first, ends[step.inputs[1]], step.sign)
        else:
            found = _Ends.of(np.maximum(first.lower, 0.0), np.maximum(first.upper, 0.0))
        ends[step.output] = _within(found, error.values, step)
    found = ends[graph.output]
    return Interval(found.lower, found.upper)


def _within(ends: _Ends, values: Mapping[str, Floats], step: Step) -> _Ends:
    """Intersect ends with the error analysis; where that is tighter, the sum starts afresh."""
    above, below = values[step.output][0], values[step.output][1]
    upper, lower = np.minimum(ends.upper, above), np.maximum(ends.lower, -below)
    if step.sums is None and not step.sign:
        return _Ends.of(lower, upper)
    return replace(ends, lower=lower, upper=upper)


def _join_ends(first: _Ends, second: _Ends, sign: int) -> _Ends:
    """Add two tensors with the terms of both, as a runtime may start sums at a residual."""
    unknown = np.full(first.lower.shape, np.inf)
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return _Ends(-unknown, unknown, None, None)
    low, high = (second.low, second.high) if sign > 0 else (second.high, second.low)
    terms, least = first.terms + second.terms + 1, min(first.least, second.least)
    roundings = 2 * (terms + _SPARE)
    sides, room = [], []
    for one, other in ((first.low, low), (first.high, high)):
        bit = np.minimum(one.bit, other.bit)
        side = _Side(one.value + sign * other.value, one.size + other.size, bit)
        exact = _is_exact(side.size, side.bit) & ((least >= _LEAST_BIT) | (side.size == 0.0))
        lost = 2 * gamma(roundings, _UNIT32) * side.size + 2 * roundings * _TINY32
        sides.append(side)
        room.append(np.where(exact, 0.0, lost + _excess(first, one) + _excess(second, other)))
    lower, upper = sides[0].value - room[0], sides[1].value + room[1]
    matrices = max(first.matrices, second.matrices)
    return _Ends(lower, upper, sides[0], sides[1], matrices, terms, least, joined=True)


def _excess(ends: _Ends, side: _Side) -> Floats:
    """Return how far a tensor may already exceed one of its sides."""
    beyond = ends.upper - side.value if side is ends.high else side.value - ends.lower
    return np.maximum(beyond, 0.0)


def _is_exact(size: Floats, bit: Integers) -> NDArray[np.bool_]:
    """Return whether float32 represents such terms and all their partial sums, none subnormal."""
    fits = (bit >= _LEAST_BIT) & (size <= np.ldexp(1.0, np.minimum(bit + _BITS, 1000)))
    return np.asarray((size == 0.0) | fits)


def _propagate_ends(ends: _Ends, sums: Sums, error: RoundingError, step: Step) -> _Ends:
    """Propagate ends through a linear operator."""
    width = sums.constant.shape[-1]
    unknown = np.full(width, np.inf)
    if ends.joined and ends.low is not None:
        ends = _Ends.of(ends.lower, ends.upper)
    if sums.shift is None or ends.low is None or ends.high is None:
        return _Ends(-unknown, unknown, None, None)
    matrices = ends.matrices + (not sums.copies)
    if matrices > 1:
        # A runtime may first multiply two matrices, which rounds and can change signs.
        return _Ends(-unknown, unknown, None, None)
    low, high = _shift_side(ends.low, ends.high, sums), _shift_side(ends.high, ends.low, sums)
    terms, least = ends.terms * max(1, sums.terms) + 1, ends.least + _exponent(sums.factors)
    reach = sums.chain.reach(error.values)
    roundings = 2 * (terms + _SPARE)
    room = [
        np.where(
            _is_exact(side.size, side.bit) & ((least >= _LEAST_BIT) | (side.size == 0.0)),
            0.0,
            2 * gamma(roundings, _UNIT32) * side.size + 2 * roundings * _TINY32 * reach,
        )
        for side in (low, high)
    ]
    return _Ends(low.value - room[0], high.value + room[1], low, high, matrices, terms, least)


def _shift_side(own: _Side, other: _Side, sums: Sums) -> _Side:
    """Return an operator's side with each term at one end, subtracted ones at the other."""
    up, down = sums.sides[0], sums.sides[1]
    assert sums.shift is not None
    bit = lowest_bit(sums.shift)
    for side, at in ((own, 0), (other, 1)):
        bit = np.minimum(bit, _product_bits(side, sums, at))
    return _Side(
        own.value @ up - other.value @ down + sums.shift,
        own.size @ up + other.size @ down + np.abs(sums.shift),
        # What underflows once stays lost, whatever it is multiplied by later.
        np.where(bit < _LEAST_BIT, -NO_BIT, bit),
    )


def _product_bits(side: _Side, sums: Sums, at: int) -> Integers:
    """Return an exponent of two that divides each output's products with one side."""
    factors = sums.factors[at]
    rows = sums.sides.rows if isinstance(sums.sides, Sparse) else np.arange(len(factors))[:, None]
    there = (factors > 0) & (side.size > 0)[rows]
    each = np.where(there, lowest_bit(factors) + side.bit[rows], NO_BIT)
    if not isinstance(sums.sides, Sparse):
        return np.asarray(each.min(axis=0, initial=NO_BIT))
    found = np.full(sums.sides.width, NO_BIT)
    np.minimum.at(found, sums.sides.columns, each)
    return found


def _exponent(sides: Floats) -> int:
    """Return an exponent of two, at most 0, such that no constant is below that power."""
    present = sides[sides > 0]
    return min(0, int(np.frexp(present)[1].min(initial=1)) - 1)
