"""Linear forms in inputs, scores of one network, and how much another's differ."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

__all__ = ["Forms"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Forms:
    """``inputs u + scores z + change d + constant``, one a row.

    Wanted is the largest value of the least *goal* where no other form is negative.

    Attributes
    ----------
    inputs : ndarray of float64, shape (k, inputs)
    scores : ndarray of float64, shape (k, scores)
        Coefficients of the first network's scores z.
    change : ndarray of float64, shape (k, scores)
        Of the second network's scores minus the first's, d.
    constant, extra : ndarray of float64, shape (k,)
        Constants, and how far float32 evaluation may move each form.
    goal : ndarray of bool, shape (k,)
        At least one is.
    """

    inputs: Floats
    scores: Floats
    change: Floats
    constant: Floats
    extra: Floats
    goal: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.constant)

    @property
    def touching(self) -> int:
        """How many forms have to do with the difference of the networks."""
        return int(self.change.any(axis=1).sum())

    def shifted(self, origin: Floats) -> Forms:
        """Return the same forms, or a hair larger ones, in inputs smaller by ``origin``."""
        size = np.abs(self.constant) + np.abs(self.inputs) @ np.abs(origin)
        room = 4 * (len(origin) + 1) * np.finfo(float).eps * size
        return replace(self, constant=self.constant + self.inputs @ origin + room)

    def values(self, inputs: Floats, scores: Floats, change: Floats) -> Floats:
        """Evaluate every form at some points, shape (k, n).

        Parameters
        ----------
        inputs : ndarray of float64, shape (n, inputs)
        scores, change : ndarray of float64, shape (n, scores)
        """
        linear = self.inputs @ inputs.T + self.scores @ scores.T + self.change @ change.T
        return np.asarray(linear + self.constant[:, None])
