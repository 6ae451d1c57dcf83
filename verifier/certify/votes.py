"""Hints about votes: trees that show that no attack loses more than some points."""

from __future__ import annotations

import numpy as np

from leaveout.bab.votes.search import WORK, TooLongError, sum_hint, write_tree
from leaveout.kernel.counting import Stake
from leaveout.kernel.values import Arrays, Ask


def answer(what: str, known: Arrays) -> Arrays:
    """Answer a question of the kernel about votes; nothing where no tree is found."""
    try:
        return hints(WORK)(what, known)
    except TooLongError:
        return {}


def hints(work: float) -> Ask:
    """Return what answers a question of the kernel about votes, or raises `TooLongError`."""

    def reply(what: str, known: Arrays) -> Arrays:
        stake = _stake_of(known)
        if what == "sum":
            return sum_hint(stake, known["weights"].astype(np.int64))
        return write_tree(stake, int(known["upper"]), work, trusting=True) or {}

    return reply


def _stake_of(known: Arrays) -> Stake:
    names = "gains", "needs", "pairs", "points", "quotas", "family", "cost", "group"
    offsets = tuple(known["offsets"].tolist())
    return Stake(**{name: known[name] for name in names}, offsets=offsets)
