"""Neuron multipliers at leaves, by default those of the rule.

Any multipliers give a valid bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Multipliers:
    """Neuron multipliers of every proof, for some or all neurons."""

    cz: NDArray[np.float32]
    cd: NDArray[np.float32]
    neuron: Integers | None  # the neurons, where they are listed
    starts: Integers  # shape (proofs + 1,)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def fits(self, hidden: int) -> bool:
        """Return whether they fit a network with that many hidden neurons."""
        if self.neuron is None:
            return not len(self.cz) or self.cz.shape[1:] == (hidden,)
        return bool(((self.neuron >= 0) & (self.neuron < hidden)).all())

    def rows(self, proofs: Integers, hidden: int) -> tuple[Floats, Floats]:
        """Return those of some proofs, shape (n, hidden) each, NaN for the rule's."""
        if self.neuron is None:
            return self.cz[proofs].astype(np.float64), self.cd[proofs].astype(np.float64)
        cz, cd = np.full((2, len(proofs), hidden), np.nan)
        for i, proof in enumerate(proofs.tolist()):
            own = slice(int(self.starts[proof]), int(self.starts[proof + 1]))
            cz[i, self.neuron[own]], cd[i, self.neuron[own]] = self.cz[own], self.cd[own]
        return cz, cd
