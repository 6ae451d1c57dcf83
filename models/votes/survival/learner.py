"""Protocol of surviving learners: scores, and the changes that force each vote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from leaveout.models.ballots import Against


@dataclass(frozen=True, eq=False)
class Part:
    """The rows of a part, with the test points."""

    X: NDArray[np.float64]  # shape (rows, features): in any order; it has no say in anything
    y: NDArray[np.int32]  # shape (rows,)
    tests: NDArray[np.float64]  # shape (points, features)
    labels: int  # how many labels there are


class SurvivingLearner(Protocol):
    """A learner with a proof of what its members survive."""

    name: ClassVar[str]  # as in ``--learner``
    survives: ClassVar[
        tuple[Against, ...]
    ]  # kinds of change that thresholds can be computed against
    searched: ClassVar[
        bool
    ]  # whether they come from a search, which ends at some number of changes

    def scores(self, part: Part) -> NDArray[np.float32]:
        """Return the member's scores, shape (points, labels); a vote is their argmax."""

    def thresholds(self, part: Part, against: Against, exact_to: int | None) -> NDArray[np.int32]:
        """Return the changes that force each vote, shape (points, labels), as in `Ballots`."""

    def work(self, times: Sequence[int], labels: int, against: Against, exact_to: int) -> int:
        """Return how many sets of changes a search tries in a part."""
