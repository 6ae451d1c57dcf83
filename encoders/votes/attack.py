"""Witnesses on votes: the parts to poison, and their members' new votes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Attack:
    """Votes that change the answer at one test point."""

    point: int
    edits: int  # its cost, in edits of the training set
    poisoned: tuple[int, ...]
    members: tuple[int, ...]  # members that then vote otherwise
    votes: tuple[int, ...]  # what these members vote
    before: int  # what is answered
    after: int  # what is answered


def recount(ballot: NDArray[np.int32], labels: int, attack: Attack) -> int:
    """Return the answer by a plain count after an attack."""
    changed = np.array(ballot)
    changed[list(attack.members)] = attack.votes
    return int(np.bincount(changed, minlength=labels).argmax())
