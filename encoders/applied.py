"""A network, or a family member in its place, prepared for evaluation at points."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np

from leaveout.encoders.bounds import hyper_bounds, network_bounds
from leaveout.encoders.box import Box
from leaveout.encoders.evaluation import Evaluation, evaluation_of, evaluation_of_any
from leaveout.encoders.exactness import exact_layers
from leaveout.encoders.hyper_network import HyperNetwork, hyper_network
from leaveout.encoders.interval import Interval
from leaveout.encoders.rational import Rows, rows_of
from leaveout.encoders.rounding import RoundingError, rounding_error
from leaveout.errors import FamilyError
from leaveout.models import Members, Network, Stack
from leaveout.models.replay import Runner

_EVALUATIONS = 64
"""Members whose evaluation is kept at hand."""

_RATIONAL = 2**17
"""Weights that are written down as rational numbers."""

_RUNNERS = 256
"""Members that are kept loaded in onnxruntime."""


class Applied:
    """A network alone, or the members of a family in its place."""

    def __init__(self, network: Network, members: Members | None = None) -> None:
        self.network, self.members = network, members
        self._evaluations = lru_cache(_EVALUATIONS)(self._evaluation)
        self._runners = lru_cache(_RUNNERS)(self._runner)

    def __reduce__(self) -> tuple[type[Applied], tuple[Network, Members | None]]:
        return Applied, (self.network, self.members)

    @cached_property
    def hyper(self) -> HyperNetwork:
        """Return the hyper-network of all members."""
        assert self.members is not None
        with np.errstate(all="ignore"):
            hyper = hyper_network(self.members)
            # What is not finite in any member shows in the extremes.
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
        size = sum(w.size for layer in self.network.stack.layers for w in layer.weights.values())
        if self.members is not None or size > _RATIONAL:
            return None
        return rows_of(self.network.stack, exact_layers(self.evaluation()))

    def evaluation(self, member: int | None = None) -> Evaluation:
        """Return the products and sums that a runtime computes."""
        return self._evaluations(member)

    def runner(self, member: int | None = None) -> Runner:
        """Return the network, or a member, in onnxruntime."""
        return self._runners(member)

    def stack(self, member: int | None = None) -> Stack:
        """Return the normal form of the network, or of a member."""
        if self.members is None or member is None:
            return self.network.stack
        return self.members.member(member)

    def bounds(self, box: Box, member: int | None = None) -> tuple[Interval, ...]:
        """Bound the pre-activations of each layer over a box."""
        if self.members is not None and member is None:
            return hyper_bounds(self.hyper, box)
        return network_bounds(self.stack(member), box)

    def rounding(
        self, box: Box, member: int | None = None, bounds: Sequence[Interval] | None = None
    ) -> RoundingError:
        """Return the rounding error over a box, optionally given hidden bounds."""
        known = self.bounds(box, member) if bounds is None else bounds
        return rounding_error(self.evaluation(member), known, box)

    def _evaluation(self, member: int | None) -> Evaluation:
        if self.members is None:
            alone = {name: value[None] for name, value in self.network.parameters.items()}
            return evaluation_of(self.network.graph, alone)
        family = self.members.family
        if member is None:
            return evaluation_of_any(self.network.graph, family.parameters)
        return evaluation_of(self.network.graph, family.take([member]))

    def _runner(self, member: int | None) -> Runner:
        if self.members is None or member is None:
            return self.network.runner()
        taken = self.members.family.take([member])
        return self.network.runner({name: value[0] for name, value in taken.items()})


def _infinite(members: Members, network: Network) -> FamilyError:
    """Return the error that names the first member with non-finite values."""
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
