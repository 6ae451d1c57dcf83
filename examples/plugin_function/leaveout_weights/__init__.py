"""What the weights of a network tell, as functions of leaveout's language."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from leaveout.errors import SpecError
from leaveout.models import Network
from leaveout.specs import Function, Parameter
from leaveout.specs.deciders import Arguments, Bounds
from leaveout.specs.types import NETWORK, NUMBER
from leaveout_weights.steepness import largest_slope, steepest_sample

__all__ = ["LIPSCHITZ", "SPARSITY"]

SAMPLES = 200


def sparsity(given: Arguments) -> Bounds:
    """Return the share of parameters that are zero, exactly."""
    network = given["network"]
    assert isinstance(network, Network)
    zeros = sum(int(np.sum(value == 0)) for value in network.parameters.values())
    total = sum(value.size for value in network.parameters.values())
    if not total:
        raise SpecError(f"{network.source} has no parameters")
    return Bounds.exactly(Fraction(zeros, total))


def lipschitz(given: Arguments) -> Bounds:
    """Return bounds of the Lipschitz constant: the steepest sample, and norms of all layers."""
    network = given["network"]
    assert isinstance(network, Network)
    upper = largest_slope(network.stack)
    lower = steepest_sample(network.stack, np.random.default_rng(given.seed), SAMPLES, upper)
    return Bounds(
        lower,
        upper,
        reason=f"numerical: the best of {SAMPLES} samples below, norms of layers above",
    )


_NETWORK = (Parameter("network", (NETWORK,)),)

SPARSITY = Function(
    "sparsity",
    _NETWORK,
    NUMBER,
    "The share of a network's parameters that are zero.",
    "sparsity(N) >= 0.5",
    decider=sparsity,
    words="the share of {network}'s parameters that are zero",
    share=True,
)

LIPSCHITZ = Function(
    "lipschitz",
    _NETWORK,
    NUMBER,
    "How much any score changes at most when every feature changes by at most 1, relative to it.",
    "lipschitz(N) <= 100",
    decider=lipschitz,
    words="the steepest slope of {network}",
)
