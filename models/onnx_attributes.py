"""Supported values of node attributes; all others are refused by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Accepted:
    """Supported values of an attribute, whose type ONNX's schema has checked."""

    holds: Callable[[Any], bool]  # whether a value is one of them
    expected: str  # what they are, for messages


def only(value: Any) -> Accepted:
    """Accept one value."""
    return Accepted(lambda found: bool(found == value), f"only {value} is supported")


def accepted_values(**attributes: Accepted) -> Mapping[str, Accepted]:
    """Return the supported attributes with the values accepted for them."""
    return MappingProxyType(attributes)


def _wholes(least: int) -> Callable[[Any], bool]:
    return lambda found: all(item >= least for item in found)


ANY = Accepted(lambda found: True, "")
"""Where inference does not depend on the value, or the operator's reader looks at it itself."""
FLAG = Accepted(lambda found: found in {0, 1}, "expected 0 or 1")
FINITE = Accepted(math.isfinite, "expected a finite number")
NOT_NEGATIVE = Accepted(
    lambda found: math.isfinite(found) and found >= 0, "expected a finite number of at least 0"
)
POSITIVE = Accepted(lambda found: bool(found >= 1), "expected at least 1")
SIZES = Accepted(_wholes(1), "expected numbers of at least 1")
PADS = Accepted(_wholes(0), "expected numbers of at least 0")
AUTO_PAD = Accepted(
    lambda found: found in {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"},
    "expected NOTSET, VALID, SAME_UPPER or SAME_LOWER",
)
