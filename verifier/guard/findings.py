"""What is found out about one input. It is private."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Finding", "Glance"]


class Finding(NamedTuple):
    """What is known of one input: only its label may be given away, if no leak.

    Attributes
    ----------
    label : int
        That the model answers.
    leak : bool
        Whether some member answers otherwise; of networks a tie counts.
    tier : {1, 2}
        1: the model's own confidence tells; 2: members had to be looked at.
    """

    label: int
    leak: bool
    tier: int


class Glance(NamedTuple):
    """What the model itself says of one input.

    Attributes
    ----------
    label : int
    confidence : float
    is_clear : bool
        Whether that alone shows that all members answer alike.
    """

    label: int
    confidence: float
    is_clear: bool
