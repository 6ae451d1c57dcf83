"""What of a tree nothing rests on, so that it need not be written."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(eq=False)
class Spare:
    """What a walk made use of."""

    seen: Flags  # shape (n,): nodes that were looked at; of others an ancestor is empty
    neurons: dict[int, Integers] = field(default_factory=dict)

    @staticmethod
    def of(nodes: int) -> Spare:
        """Return that of a walk that has not begun."""
        return Spare(np.zeros(nodes, bool))

    def note(self, leaves: Integers, needed: Flags, fine: Flags) -> None:
        """Note of leaves that these neurons' multipliers are enough, where that is fine.

        What was noted before stays.
        """
        for leaf, own in zip(leaves[fine].tolist(), needed[fine], strict=True):
            self.neurons.setdefault(leaf, np.flatnonzero(own))
