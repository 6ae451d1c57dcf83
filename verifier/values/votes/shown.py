"""Proofs per point that answers survive some edits and change with others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.collective_exact import CollectiveBounds
from leaveout.verifier.values.votes.radii import Radii

Arrays: TypeAlias = Mapping[str, NDArray[Any]]
Wide = NDArray[np.int64]


def too_long(found: CollectiveBounds) -> str:
    """Return that a joint bound takes too long to prove again."""
    return (
        f"that no attack loses more than {found.upper:,} points is {found.proof}, and takes "
        "too long to be shown again"
    )


@dataclass(eq=False)
class ShownPoints(ABC):
    """Proofs that hash values are too few, and attacks."""

    missing: int = 0  # points of which that cannot be shown
    _attacks: list[tuple[int, Sequence[int] | NDArray[np.int32]]] = field(default_factory=list)

    def gather(
        self, radii: Radii, points: Wide, survived: int, falling: int, known: Wide | None = None
    ) -> None:
        """Add proofs of which answers survive some edits and which do not."""
        for point in points.tolist():
            counted = 0 if known is None else max(0, int(known[point]))
            if counted < survived <= radii.lower[point]:
                self.survives(point, survived)
            if radii.upper[point] < falling:
                units = self.attack(point, falling)
                if units is None:
                    self.missing += 1
                else:
                    self._attacks.append((point, units))

    def arrays(self) -> Arrays:
        """Return the proofs as arrays; none if there is nothing to prove."""
        found = dict(self.survivals())
        if self._attacks:
            found["attacks"] = np.array([(at, len(units)) for at, units in self._attacks], np.int64)
            values = np.concatenate([np.asarray(units) for _, units in self._attacks])
            found["values"] = values.astype(np.int32)
        return found

    @abstractmethod
    def survives(self, point: int, edits: int) -> None:
        """Add a proof that some edits change no answer, or count it as missing."""

    @abstractmethod
    def attack(self, point: int, edits: int) -> Sequence[int] | NDArray[np.int32] | None:
        """Return at most ``edits`` hash values that change an answer, if any."""

    @abstractmethod
    def survivals(self) -> Arrays:
        """Return the added proofs as arrays."""
