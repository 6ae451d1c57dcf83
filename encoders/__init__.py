"""Encoders from networks to bounds and neutral problems."""

from __future__ import annotations

from leaveout.encoders.applied import Applied
from leaveout.encoders.bounds import (
    HyperNetwork,
    PairBounds,
    apart,
    confidence_upper,
    hyper_network,
    network_bounds,
    pair_bounds,
)
from leaveout.encoders.box import Box, Choices
from leaveout.encoders.idp import Encoding, IdpProblem, encode_idp
from leaveout.encoders.interval import Interval
from leaveout.encoders.rounding import (
    Evaluation,
    RoundingError,
    confidence_error,
    evaluation_of,
    evaluation_of_any,
    rounding_error,
)
from leaveout.solvers import Problem

__all__ = [
    "Applied",
    "Box",
    "Choices",
    "Encoding",
    "Evaluation",
    "HyperNetwork",
    "IdpProblem",
    "Interval",
    "PairBounds",
    "Problem",
    "RoundingError",
    "apart",
    "confidence_error",
    "confidence_upper",
    "encode_idp",
    "evaluation_of",
    "evaluation_of_any",
    "hyper_network",
    "network_bounds",
    "pair_bounds",
    "rounding_error",
]
