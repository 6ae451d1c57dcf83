"""Encoders from networks to bounds and neutral problems."""

from __future__ import annotations

from leaveout.encoders.applied import Applied
from leaveout.encoders.bounds import (
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
    RoundingError,
    confidence_error,
    evaluation_of,
    rounding_error,
)

__all__ = [
    "Applied",
    "Box",
    "Choices",
    "Encoding",
    "IdpProblem",
    "Interval",
    "PairBounds",
    "RoundingError",
    "apart",
    "confidence_error",
    "confidence_upper",
    "encode_idp",
    "evaluation_of",
    "hyper_network",
    "network_bounds",
    "pair_bounds",
    "rounding_error",
]
