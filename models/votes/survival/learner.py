"""Protocol of surviving learners: scores, and the fewest changes that force each vote."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from leaveout.models.ballots import Against


@dataclass(frozen=True, eq=False)
class Part:
    """The rows of a part, and the test points."""

    X: NDArray[np.float64]  # shape (rows, features): in any order, which has no effect
    y: NDArray[np.int32]  # shape (rows,): -1 where it is unknown, if the learner keeps such rows
    tests: NDArray[np.float64]  # shape (points, features)
    labels: int  # number of labels


class SurvivingLearner(Protocol):
    """A learner with proved thresholds for its members, as `leaveout.partition_options` says."""

    name: ClassVar[str]  # as in ``--learner``

    def scores(self, part: Part) -> NDArray[np.float32]:
        """Return the member's scores, shape (points, labels); a vote is their argmax."""

    def thresholds(self, part: Part, against: Against, exact_to: int | None) -> NDArray[np.int32]:
        """Return the fewest changes that force each vote, shape (points, labels), see `Ballots`.

        ``exact_to`` is up to how many changes a learner searches that has to.
        """


def count_sets(times: Sequence[int], labels: int, against: Against, exact_to: int) -> int:
    """Return how many sets of up to ``exact_to`` changes there are; equal rows count once.

    ``times`` has how often each distinct row occurs.
    """
    ways, sets = ways_of(labels, against), 0
    for changes in range(1, min(sum(times), exact_to) + 1):
        slots = sum(min(each, changes) for each in times)
        sets += math.comb(slots, changes) * int(ways**changes)
    return sets


def ways_of(labels: int, against: Against) -> int:
    """Return how many ways a changed row can change: to each other label, or out of the part."""
    return labels if against == "relabels" else 1


def slots_of(part: Part, changes: int) -> NDArray[np.int64]:
    """Return rows that represent every set of that many changes.

    Of rows equal in values and label, only as many as can change.
    """
    whole = np.column_stack([part.X, part.y])
    _, kind = np.unique(whole, axis=0, return_inverse=True)
    order = np.argsort(kind, kind="stable")
    starts = np.flatnonzero(np.diff(kind[order], prepend=-1))
    sizes = np.diff(starts, append=len(order))
    place = np.arange(len(order)) - np.repeat(starts, sizes)
    return np.sort(order[place < changes]).astype(np.int64)


def changed_parts(part: Part, against: Against, changes: int) -> Iterator[Part]:
    """Yield the part after every set of so many removals or relabels, also to an unknown label."""
    given = range(part.labels) if against == "relabels" else ()
    for chosen in combinations(slots_of(part, changes).tolist(), changes):
        own = [[-1, *(label for label in given if label != part.y[row])] for row in chosen]
        for labels in product(*own):
            y = part.y.copy()
            y[list(chosen)] = labels
            yield replace(part, X=part.X[y >= 0], y=y[y >= 0])
