"""A witness: which parts to poison, and what their members then vote."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Attack:
    """Votes that change what is answered at one test point."""

    point: int
    edits: int  # its cost, in edits of the training set
    poisoned: tuple[int, ...]
    members: tuple[int, ...]  # members that then vote otherwise
    votes: tuple[int, ...]  # what these members vote
    before: int  # what is answered
    after: int  # what is answered


def recount(ballot: NDArray[np.int32], labels: int, attack: Attack) -> int:
    """Return what is answered once an attack's members vote as it says: a plain count."""
    changed = np.array(ballot)
    changed[list(attack.members)] = attack.votes
    return int(np.bincount(changed, minlength=labels).argmax())
