"""What a guard shows to the owner of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.guard.subject import Subject


@dataclass(frozen=True, eq=False)
class Inspection:
    """What a guard knows of inputs; for the owner only, since a guard hides it.

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

    @classmethod
    def of(cls, subject: Subject, points: NDArray[Any]) -> Inspection:
        """Inspect inputs, without drawing or remembering.

        Parameters
        ----------
        subject : Subject
        points : ndarray, shape (n, inputs)
            As it reads them.
        """
        inside = np.asarray([subject.domain.contains(point) for point in points], bool)
        findings = iter(subject.leaks.find_all(points[inside]))
        labels, leaks, tiers, outside = [], [], [], []
        for point, within in zip(points, inside.tolist(), strict=True):
            finding = next(findings) if within else None
            labels.append(finding.label if finding else subject.leaks.label(point))
            leaks.append(finding is not None and finding.leak)
            tiers.append(0 if finding is None else 3 if finding.leak else finding.tier)
            outside.append("" if finding else subject.where_outside(point))
        return cls(
            np.asarray(labels, np.int64),
            np.asarray(leaks, bool),
            np.asarray(tiers, np.int64),
            tuple(outside),
        )
