"""Parts of a tree on which nothing rests, so that they need not be written."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(eq=False)
class Spare:
    """Parts of a tree that a walk used."""

    seen: Flags  # shape (n,): nodes that were looked at; of others an ancestor is empty
    neurons: dict[int, Integers] = field(default_factory=dict)

    @staticmethod
    def of(nodes: int) -> Spare:
        """Return that of a walk that has not begun."""
        return Spare(np.zeros(nodes, bool))

    def note(self, leaves: Integers, needed: Flags, fine: Flags) -> None:
        """Record that these neurons' multipliers suffice for leaves; earlier records stay."""
        for leaf, own in zip(leaves[fine].tolist(), needed[fine], strict=True):
            self.neurons.setdefault(leaf, np.flatnonzero(own))
