"""Which rule rules leaks of a forest out in a box of inputs, and with which factor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.kernel.forests import AWAY, BOUND, EXACT, MONOTONE, Block
from leaveout.kernel.values import Arrays

_FACTORS = (1.0, 0.5, 0.75, 0.25, 1.5)
"""Multiples of the member's margin to subtract, in the order in which they are tried."""

Places = NDArray[np.int64]


def rules_of_boxes(what: str, known: Arrays) -> Arrays:
    """Return a rule that rules each label out in each box, the first that does."""
    upper = float(known["upper"])
    trees = int(known["trees"][0]), int(known["trees"][1])
    block = Block(
        int(known["label"]), upper, trees, float(known["padding"]), known["meets"],
        known["first"], known["one"], known["other"],
    )  # fmt: skip
    boxes, labels = len(block.meets), block.one.shape[1]
    rule = np.full((boxes, labels), EXACT, np.int8)
    rule[:, block.label] = BOUND
    over, factor = np.zeros((boxes, labels), np.int32), np.zeros((boxes, labels))
    rivals = [d for d in range(labels) if d != block.label]

    def attempt(at: Places, rival: int, how: int, e: int, t: float) -> Places:
        """Return the boxes in which a rule holds."""
        uses, many = np.full(len(at), float(how == BOUND)), len(at)
        bound = block.bounds(at, rival, np.full(many, e), uses, np.full(many, t))
        return at[(bound < 0) | ((how == BOUND) & (bound <= upper))]

    if trees[0] == trees[1]:
        for d in rivals:
            worse = block.worse(d)
            rule[~block.meets[:, worse].any(axis=1), d] = MONOTONE
    for e in rivals:
        at = attempt(np.flatnonzero((rule == EXACT).any(axis=1)), e, BOUND, e, 0.0)
        for d in rivals:
            rule[at, d], over[at, d] = BOUND, e
    for d in rivals:
        for how, t in ((AWAY, 1.0), *((BOUND, t) for t in _FACTORS)):
            at = attempt(np.flatnonzero(rule[:, d] == EXACT), d, how, d, t)
            rule[at, d], over[at, d], factor[at, d] = how, d, t
    return {"rule": rule, "over": over, "factor": factor}
