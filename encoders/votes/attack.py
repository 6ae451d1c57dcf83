"""A witness: which parts to poison, and what their members then vote."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Attack", "recount"]


@dataclass(frozen=True)
class Attack:
    """Votes that change what is answered at one test point.

    Attributes
    ----------
    point : int
    edits : int
        Its cost, in edits of the training set.
    poisoned : tuple of int
        Parts of the training set that are changed; under Finite Aggregation hash values.
    members : tuple of int
        Members that then vote otherwise.
    votes : tuple of int
        What these members vote.
    before, after : int
        What is answered.
    """

    point: int
    edits: int
    poisoned: tuple[int, ...]
    members: tuple[int, ...]
    votes: tuple[int, ...]
    before: int
    after: int


def recount(ballot: NDArray[np.int32], labels: int, attack: Attack) -> int:
    """Return what is answered once an attack's members vote as it says: a plain count.

    Parameters
    ----------
    ballot : ndarray of int32, shape (parts,)
        Votes at the attack's point.
    labels : int
    attack : Attack
    """
    changed = np.array(ballot)
    changed[list(attack.members)] = attack.votes
    return int(np.bincount(changed, minlength=labels).argmax())
