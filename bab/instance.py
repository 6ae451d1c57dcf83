"""One instance: a network, a family and a box, shared by all labels' searches."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from leaveout.bab.clusters import Clusters, make_clusters
from leaveout.encoders import (
    Applied,
    Box,
    Interval,
    PairBounds,
    confidence_error,
    confidence_upper,
    network_bounds,
    pair_bounds,
    rounding_error,
)
from leaveout.errors import SpecError
from leaveout.models import Family, Members, Network


@dataclass(frozen=True, eq=False)
class Instance:
    """A network, its family and a box."""

    network: Network
    family: Family
    members: Members  # the family in normal form, lowered as it is asked for
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
        """Return the instance of a single member, which propagation bounds far lower.

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
        exact = confidence_upper(self.network.stack, self.box, self.bounds, label)
        most = exact + self.network_error
        return min(most, self.difference_upper(self.pair, label)) if matching else most

    def difference_upper(self, pair: PairBounds, label: int) -> float:
        """Bound the float32 confidence of a leak by difference intervals.

        If a member answers c', its margin over c' is at most the tie error, and N's is that minus
        the difference. It is ``-inf`` if no member can lose to any rival.
        """
        rivals = [c for c in range(self.labels) if c != label]
        change, member = pair.after[-1], pair.hyper[-1]
        tie = self.member_error
        margin = change.upper[rivals] - change.lower[label] + tie
        possible = ~(member.lower[label] - member.upper[rivals] > tie)
        if not possible.any():
            return -math.inf
        rounding = 1e-12 * (1 + float(member.magnitude.max()))
        return float(margin[possible].max()) + self.network_error + rounding


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
    if not (np.isfinite(errors).all() and all(np.isfinite(b.width).all() for b in known)):
        raise SpecError(
            f"over this box the scores of {network.source} or of a member may overflow float32; "
            "nothing can be proved about them"
        )
    return Instance(network, family, members, box, pair, *errors)
