"""Linear forms in inputs, scores of N, and score differences of another network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats, Integers

_MOST_REMEMBERED = 16  # bounds of forms and sums that a node keeps for its descendants
_MOST_SUMMED = 8  # most forms of a case for which all sums of two are examined


@dataclass(frozen=True, eq=False)
class Forms:
    """``inputs u + scores z + change d + constant``, one per row, case after case.

    The search maximises the least *goal* of each case where all other forms, the *conditions*, are
    non-negative.
    """

    inputs: Floats  # shape (r, inputs)
    scores: Floats  # shape (r, scores): coefficients of the first network's scores z
    change: Floats  # shape (r, scores): of the second network's scores minus the first's, d
    constant: Floats  # shape (r,)
    errors: Floats  # shape (r,)
    goal: NDArray[np.bool_]  # shape (r,): every case has at least one
    starts: Integers  # shape (cases + 1,): where the rows of each case start
    sums: Integers  # shape (s, 2)
    sum_starts: Integers  # shape (cases + 1,)
    sizes: Floats  # shape (r,)

    @staticmethod
    def of_case(
        inputs: Floats,
        scores: Floats,
        change: Floats,
        constant: Floats,
        errors: Floats,
        goal: NDArray[np.bool_],
        sums: Integers | None = None,
    ) -> Forms:
        """Return the forms of one case, by default with all sums of two if the forms are few."""
        if sums is None:
            scored = np.flatnonzero(scores.any(axis=1) | change.any(axis=1))
            few = scored if len(goal) <= _MOST_SUMMED else scored[:0]
            pairs = [(k, o) for k in few for o in few if o < k]
            sums = np.array(pairs, np.int64).reshape(-1, 2)
        return Forms(
            inputs, scores, change, constant, errors, goal,
            np.array([0, len(goal)]), sums, np.array([0, len(sums)]), np.abs(constant),
        )  # fmt: skip

    @cached_property
    def has_inputs(self) -> NDArray[np.bool_]:
        """Return which rows have inputs."""
        return np.asarray(self.inputs.any(axis=1))

    @cached_property
    def has_differences(self) -> NDArray[np.bool_]:
        """Return which rows involve the difference of the networks."""
        return np.asarray(self.change.any(axis=1))

    @property
    def cases(self) -> int:
        """The number of cases."""
        return len(self.starts) - 1

    @property
    def width(self) -> int:
        """The most rows of any case."""
        return int(np.diff(self.starts).max())

    @property
    def kept_bounds(self) -> int:
        """The number of form and sum bounds kept by a node for its descendants."""
        sums = int(np.diff(self.sum_starts).max())
        return min(self.width + sums, _MOST_REMEMBERED)

    def case(self, number: int) -> slice:
        """Return the slice of a case's rows."""
        return slice(int(self.starts[number]), int(self.starts[number + 1]))

    def rows_of_cases(
        self, cases: Integers
    ) -> tuple[Integers, NDArray[np.bool_], NDArray[np.bool_]]:
        """Return the rows of some cases side by side, shape (n, width), and their kinds.

        Padding rows of shorter cases are neither goals nor conditions.
        """
        counts = np.diff(self.starts)[cases]
        place = np.arange(int(counts.max(initial=1)))
        there = place < counts[:, None]
        rows = np.where(there, self.starts[cases][:, None] + place, 0)
        goal = self.goal[rows]
        return rows, goal & there, ~goal & there

    def values(
        self, inputs: Floats, scores: Floats, change: Floats, rows: slice = slice(None)
    ) -> Floats:
        """Evaluate forms at some points, shape (r, n)."""
        linear = self.inputs[rows] @ inputs.T + self.scores[rows] @ scores.T
        linear += self.change[rows] @ change.T
        return np.asarray(linear + self.constant[rows, None])


def concatenate_forms(parts: Sequence[Forms]) -> Forms:
    """Return the cases of all parts, in order."""
    names = ("inputs", "scores", "change", "constant", "errors", "goal", "sums", "sizes")
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    rows = np.concatenate([[0], *(np.diff(part.starts) for part in parts)])
    sums = np.concatenate([[0], *(np.diff(part.sum_starts) for part in parts)])
    return Forms(**arrays, starts=np.cumsum(rows), sum_starts=np.cumsum(sums))


def leak_forms(label: int, labels: int, inputs: int, error: float, tie: float) -> Forms:
    """Return the forms of a label's leaks: one case per rival, in order.

    Goals are N's margins; the condition is that the member's margin over the rival is not positive.
    The sum of N's margin over the rival and the condition is the difference of the margins.
    """
    one = np.eye(labels)
    others = [c for c in range(labels) if c != label]
    nothing = np.zeros((labels, inputs))
    parts = []
    for k, rival in enumerate(others):
        behind = one[rival] - one[label]
        parts.append(
            Forms.of_case(
                nothing,
                np.stack([*(one[label] - one[c] for c in others), behind]),
                np.stack([*(np.zeros(labels) for _ in others), behind]),
                np.zeros(labels),
                np.where(np.arange(labels) < labels - 1, error, tie),
                np.arange(labels) < labels - 1,
                np.array([[labels - 1, k]]),
            )
        )
    return concatenate_forms(parts)
