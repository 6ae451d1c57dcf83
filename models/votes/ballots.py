"""Ballots: base classifiers' labels of test points, and the true labels."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import BallotError
from leaveout.models.votes.origin import Origin

NEVER = -1
"""The threshold of a vote that no number of edits brings about."""

MOST_LABELS = 2**15
"""How many labels there can be."""


@dataclass(frozen=True, eq=False)
class Ballots:
    """A table of votes, with a row per test point and a column per member.

    Attributes
    ----------
    votes : ndarray of int32, shape (points, parts)
    truth : ndarray of int32, shape (points,)
    labels : int
        How many labels there are; votes and truth are 0 to ``labels - 1``.
    scores : ndarray of float, shape (points, parts, labels), or None
        Of each member, as they were read; `scores_of` checks them where they are compared.
    thresholds : ndarray of int32, shape (points, parts, labels), or None
        How many edits within its part a member needs to vote a label: 0 for the one it votes,
        `NEVER` where none suffice. Which changes are counted, and up to where they are exact, is
        in ``origin``.
    origin : Origin
    source : str
        File, for messages.

    Raises
    ------
    BallotError
        If shapes or numbers cannot be ballots.
    """

    votes: NDArray[np.int32]
    truth: NDArray[np.int32]
    labels: int
    scores: NDArray[np.floating] | None = None
    thresholds: NDArray[np.int32] | None = None
    origin: Origin = field(default_factory=Origin)
    source: str = "ballots"

    def __post_init__(self) -> None:
        if self.votes.ndim != 2 or self.truth.shape != self.votes.shape[:1]:
            raise BallotError(
                f"{self.source}: ballots of shape {self.votes.shape} and truth of shape "
                f"{self.truth.shape}; expected (points, parts) and (points,)"
            )
        if not len(self.votes):
            raise BallotError(f"{self.source}: there is no test point; add a row a test point")
        if self.parts < (2 if self.thresholds is None else 1):
            raise BallotError(
                f"{self.source}: {self.parts} part{'s' * (self.parts != 1)}: one edit could change "
                "every answer, so nothing can be certified; train on at least 2 parts, or add what "
                "the one member withstands, an array 'thresholds' (points, parts, labels)"
            )
        if not 2 <= self.labels <= MOST_LABELS:
            raise BallotError(
                f"{self.source}: 'labels' is {self.labels}, expected how many labels there are: "
                f"2 to {MOST_LABELS:,}"
            )
        self._in_range(self.votes, "ballots")
        self._in_range(self.truth, "truth")
        if self.scores is not None:
            self._check_shape(self.scores.shape, "scores")
        self._check_origin()
        self._check_thresholds()

    @property
    def points(self) -> int:
        """The number of test points."""
        return int(self.votes.shape[0])

    @property
    def parts(self) -> int:
        """The number of members that vote."""
        return int(self.votes.shape[1])

    def _in_range(self, array: NDArray[np.int32], name: str) -> None:
        wrong = (array < 0) | (array >= self.labels)
        if not wrong.any():
            return
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        part = f", part {place[1]}" if len(place) > 1 else ""
        label = int(array[place])
        cure = "number the labels from 0" if label < 0 else "or correct 'labels'"
        raise BallotError(
            f"{self.source}: {name!r} of test point {place[0]}{part} is {label}, expected a label "
            f"0 to {self.labels - 1}; {cure}"
        )

    def scores_of(self, purpose: str) -> NDArray[np.floating]:
        """Return the scores, for methods that compare them; a plurality needs none.

        Parameters
        ----------
        purpose : str
            What needs them, for messages.

        Raises
        ------
        BallotError
            If there are none, one is no finite number, or a vote is not the label of its member's
            highest score, the smaller one on a tie.
        """
        if self.scores is None:
            raise BallotError(
                f"{self.source}: there are no scores; {purpose} needs an array 'scores' (points, "
                "parts, labels)"
            )
        # Point by point: a boolean array of all scores could be large.
        for point, (row, votes) in enumerate(zip(self.scores, self.votes, strict=True)):
            wrong = ~np.isfinite(row)
            if wrong.any():
                part, label = (int(i) for i in np.argwhere(wrong)[0])
                raise BallotError(
                    f"{self.source}: 'scores' of test point {point}, part {part}, label {label} is "
                    f"{row[part, label]}, but {purpose} compares them; train that member again, or "
                    "ask dpa, which reads votes alone"
                )
            best = row.argmax(axis=1)
            if not np.array_equal(best, votes):
                part = int(np.argmax(best != votes))
                raise BallotError(
                    f"{self.source}: test point {point}, part {part} votes {votes[part]}, but its "
                    f"scores are highest for {best[part]}; in {purpose} a vote is the label of the "
                    "highest score, the smaller one on a tie"
                )
        return self.scores

    def _check_thresholds(self) -> None:
        if self.thresholds is None:
            return
        self._check_shape(self.thresholds.shape, "thresholds")
        own = np.take_along_axis(self.thresholds, self.votes[:, :, None], axis=2)[:, :, 0]
        wrong = (self.thresholds < NEVER).any(axis=2) | (own != 0)
        zeros = (self.thresholds == 0).sum(axis=2) != 1
        if (wrong | zeros).any():
            point, part = (int(i) for i in np.argwhere(wrong | zeros)[0])
            raise BallotError(
                f"{self.source}: 'thresholds' of test point {point}, part {part} are "
                f"{self.thresholds[point, part].tolist()}; expected 0 for its vote "
                f"{self.votes[point, part]}, and for any other label the edits it takes, at least "
                f"1, or {NEVER} where none suffice"
            )
        most = self.origin.thresholds_exact_to
        if most is not None and (self.thresholds > most + 1).any():
            point, part, label = (int(i) for i in np.argwhere(self.thresholds > most + 1)[0])
            raise BallotError(
                f"{self.source}: 'thresholds' of test point {point}, part {part}, label {label} is "
                f"{self.thresholds[point, part, label]}, but the manifest says that they are exact "
                f"to {most}; expected at most {most + 1}, which stands for at least so many"
            )

    def _check_shape(self, shape: tuple[int, ...], name: str) -> None:
        """Refuse an array of the wrong shape."""
        if shape != (self.points, self.parts, self.labels):
            raise BallotError(
                f"{self.source}: {name!r} has shape {shape}, expected (points, parts, labels) = "
                f"{(self.points, self.parts, self.labels)}"
            )

    def _check_origin(self) -> None:
        offsets = self.origin.offsets
        if len(set(offsets)) != len(offsets) or not all(0 <= o < self.parts for o in offsets):
            raise BallotError(
                f"{self.source}: the offsets {list(offsets)} of Finite Aggregation are not "
                f"different whole numbers from 0 to {self.parts - 1}"
            )
        families = self.origin.families
        if families and (min(families) < 1 or sum(families) != self.parts):
            raise BallotError(
                f"{self.source}: families of {list(families)} members are given, expected at least "
                f"1 in each and {self.parts} together"
            )
        if families and offsets:
            raise BallotError(
                f"{self.source}: both offsets of Finite Aggregation and families of hash bagging "
                "are given; drop one"
            )
        sizes = self.origin.sizes
        if sizes and len(sizes) != self.parts:
            raise BallotError(
                f"{self.source}: {len(sizes)} sizes of {self.parts} parts are given; expected one "
                "a part, or none"
            )
        names = self.origin.label_names
        if names and len(names) != self.labels:
            raise BallotError(
                f"{self.source}: {len(names)} names of {self.labels} labels are given; expected "
                "one a label, or none"
            )
        right = self.origin.undefended_right
        if right is not None and not 0 <= right <= self.points:
            raise BallotError(
                f"{self.source}: the undefended model is said to answer {right} of {self.points} "
                "test points right"
            )
        if (self.origin.thresholds_exact_to or 0) < 0:
            raise BallotError(
                f"{self.source}: thresholds are said to be exact to "
                f"{self.origin.thresholds_exact_to}; expected a whole number from 0"
            )
