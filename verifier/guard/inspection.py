"""What a guard tells the owner of the data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Inspection"]


@dataclass(frozen=True, eq=False)
class Inspection:
    """What a guard knows of inputs. For the owner of the data only: it is what a guard hides.

    Attributes
    ----------
    labels : ndarray of int64, shape (n,)
        That N answers.
    leaks : ndarray of bool, shape (n,)
        Whether some member answers otherwise, or ties; False outside the box, where it is not
        known.
    tiers : ndarray of int64, shape (n,)
        0 outside the box; 1 where the proved bound tells, 2 where members were asked and all
        agree, 3 for leaks.
    outside : tuple of str
        Of each input where it leaves the box, in the units of the data where these are known;
        empty inside. It tells ranges of the training data, which asking tells slowly.
    """

    labels: NDArray[np.int64]
    leaks: NDArray[np.bool_]
    tiers: NDArray[np.int64]
    outside: tuple[str, ...]
