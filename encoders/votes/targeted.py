"""Parts to poison to make a plurality answer a given label: a closed form."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def plurality_edits_to(counts: NDArray[np.int32], target: int) -> NDArray[np.int64]:
    """Return the fewest poisoned parts that make a label win, in the worst case.

    With r of them it has ``n + r`` votes; r suffice exactly if the others' excess over that is at
    most r, which bisection finds.
    """
    beyond = _beyond(counts, target)
    low = np.zeros(len(counts), np.int64)
    high: NDArray[np.int64] = (counts.sum(axis=1) - counts[:, target]).astype(np.int64)
    while (low < high).any():
        middle = (low + high) // 2
        enough = np.maximum(beyond - middle[:, None], 0).sum(axis=1) <= middle
        low = np.where(enough, low, np.minimum(middle + 1, high))
        high = np.where(enough, middle, high)
    return high


def plurality_votes_to(ballot: NDArray[np.int32], labels: int, target: int) -> NDArray[np.int64]:
    """Return the fewest members, ascending, that make a label win by voting for it."""
    counts = np.bincount(ballot, minlength=labels)[None].astype(np.int32)
    edits = int(plurality_edits_to(counts, target)[0])
    losses = np.maximum(_beyond(counts, target)[0] - edits, 0)
    # What each label must lose comes first, then whoever else votes for another one.
    order = np.zeros(len(ballot), np.int64)
    for label in np.unique(ballot).tolist():
        members = np.flatnonzero(ballot == label)
        order[members] = np.arange(len(members)) >= losses[label]
    order[ballot == target] = 2
    found: NDArray[np.int64] = np.sort(np.argsort(order, kind="stable")[:edits])
    return found


def _beyond(counts: NDArray[np.int32], target: int) -> NDArray[np.int64]:
    """Return each label's votes above what loses to the target; far less for itself."""
    wide = counts.astype(np.int64)
    beyond = wide - wide[:, [target]] + (np.arange(wide.shape[1]) < target)
    beyond[:, target] = np.iinfo(np.int64).min // 2
    return beyond
