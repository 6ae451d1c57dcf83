"""Trees of hints about votes, written by `certify` and followed by the kernel."""

from __future__ import annotations

import numpy as np

from leaveout.bab.votes.search import WORK, write_tree
from leaveout.kernel.counting import show_no_more_lost
from leaveout.kernel.numbers import Rejected


def no_more_lost(stake, upper, work=WORK):
    """Return whether the kernel accepts that no attack loses more; False if one is found."""
    written = {} if stake.count <= upper else write_tree(stake, upper, work)
    if written is None:
        return False
    show_no_more_lost(stake, upper, lambda what, known: written)
    return True


def rejects(stake, upper, log):
    """Return whether the kernel rejects a log."""
    try:
        show_no_more_lost(stake, upper, lambda what, known: log)
    except Rejected:
        return True
    return False


def random_log(rng, length, choices):
    """Return a log of random numbers that could be one."""
    return {
        "weights": rng.integers(0, 257, length).astype(np.uint16),
        "rows": rng.integers(0, 2, length).astype(np.uint16) // 2,
        "forms": rng.integers(0, 3, length).astype(np.int16),
        "prices": rng.integers(0, 2**31, length),
        "kept": rng.integers(0, 513, length).astype(np.uint16),
        "counts": rng.integers(0, 3, length).astype(np.int32),
        "branch": rng.integers(0, choices, length).astype(np.int32),
    }
