"""One question: a network, a family and a box, with what every label's search shares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leaveout.encoders import (
    Box,
    Interval,
    confidence_error,
    confidence_upper,
    hyper_network,
    network_bounds,
    pair_bounds,
)
from leaveout.errors import FamilyError, SpecError
from leaveout.models import Family, Network, Stack, lower

__all__ = ["Instance", "make_instance"]


@dataclass(frozen=True, eq=False)
class Instance:
    """A network, its family and a box.

    Attributes
    ----------
    network : Network
    family : Family
    members : Stack
        The family in normal form.
    box : Box
    bounds : tuple of Interval
        Pre-activation bounds of N over the box.
    network_error, member_error : float
        How far a float32 confidence of N, or of any member, may be from the exact one.
    """

    network: Network
    family: Family
    members: Stack
    box: Box
    bounds: tuple[Interval, ...]
    network_error: float
    member_error: float

    @property
    def labels(self) -> int:
        """Number of labels."""
        return self.network.labels

    def most(self, label: int) -> float:
        """Upper bound of N's float32 confidence in ``label`` over the box."""
        exact = confidence_upper(self.network.stack, self.box, self.bounds, label)
        return exact + self.network_error


def make_instance(network: Network, family: Family, box: Box) -> Instance:
    """Prepare a question.

    Raises
    ------
    SpecError
        If the box has another dimension than the network's input, or is so large that scores
        may overflow float32.
    FamilyError
        If a member's folded weights are not finite (a division by zero, a negative variance).
    """
    if box.dimension != network.inputs:
        raise SpecError(
            f"the box has {box.dimension} features, {network.source} reads {network.inputs}"
        )
    with np.errstate(all="ignore"):
        members = lower(network.graph, family.parameters)
        _refuse_infinite(members, family, network)
        bounds = network_bounds(network.stack, box)
        pair = pair_bounds(network.stack, hyper_network(members), bounds, box)
        own = {name: value[None] for name, value in network.parameters.items()}
        errors = (
            confidence_error(network.graph, own, bounds, box),
            confidence_error(network.graph, family.parameters, pair.hyper, box),
        )
    known = (*bounds, *pair.hyper, *pair.before, *pair.after)
    if not (np.isfinite(errors).all() and all(np.isfinite(b.width).all() for b in known)):
        raise SpecError(
            f"over this box scores of {network.source} or of a member may overflow float32; "
            "nothing can be proved of them"
        )
    return Instance(network, family, members, box, bounds, *errors)


def _refuse_infinite(members: Stack, family: Family, network: Network) -> None:
    finite = np.isfinite(members.flat()).all(axis=1)
    if not finite.all():
        first = int(np.argmin(finite))
        raise FamilyError(
            f"member {first} (row {int(family.removed[first])}) of the family of "
            f"{network.source} divides by zero, or has a negative variance"
        )
