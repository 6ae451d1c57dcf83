"""Protocol of surviving learners: scores, and the fewest changes that force each vote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
        """Return the fewest changes that force each vote, shape (points, labels), see `Ballots`."""

    def work(self, times: Sequence[int], labels: int, against: Against, exact_to: int) -> int:
        """Return how many sets of up to ``exact_to`` changes are tried; ``times`` counts rows."""
