"""A vote over ballots: its answers, their radii, and attacks on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.collective import CollectiveProblem
from leaveout.bab.votes.collective_exact import CollectiveBounds
from leaveout.encoders.votes.plurality import Attack, recount
from leaveout.errors import BallotError
from leaveout.models.ballots import Ballots
from leaveout.names import hint
from leaveout.specs.deciders import Arguments


@dataclass(frozen=True)
class Shares:
    """Bounds on a share of the test points."""

    lower: Fraction
    upper: Fraction


@dataclass(frozen=True, eq=False)
class Radii:
    """Radii of test points, in edits."""

    lower: NDArray[np.int64]  # shape (points,)
    upper: NDArray[np.int64]  # shape (points,)
    right: NDArray[np.bool_]  # shape (points,): whether the true label is answered

    def of(self, points: NDArray[np.bool_]) -> Radii:
        """Return the radii of some test points, shape (points,)."""
        return Radii(self.lower[points], self.upper[points], self.right[points])

    def accuracy(self, edits: int) -> Shares:
        """Return the share of points that stay right under some edits."""
        low, high = (
            int(np.count_nonzero(self.right & (radii >= edits)))
            for radii in (self.lower, self.upper)
        )
        return Shares(Fraction(low, len(self.right)), Fraction(high, len(self.right)))

    def median(self) -> tuple[int, int]:
        """Return the most edits at which half of all points are certified.

        The papers' attack size: at least half of all points stay right; -1 if not even at r = 0.
        """
        low, high = (self._median(radii) for radii in (self.lower, self.upper))
        return low, high

    def _median(self, radii: NDArray[np.int64]) -> int:
        half = (len(radii) + 1) // 2
        certified = np.sort(radii[self.right])[::-1]
        return int(certified[half - 1]) if len(certified) >= half else -1


class Vote(ABC):
    """The rule that turns members' votes into an answer, and its robustness."""

    name: ClassVar[str]  # as in a specification
    unit: ClassVar[str] = "part"

    def __init__(self, ballots: Ballots) -> None:
        self.ballots = ballots
        self.learnt: dict[int, object] = {}

    @property
    @abstractmethod
    def predictions(self) -> NDArray[np.int32]:
        """The answer at each test point, shape (points,)."""

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whether the true label is answered, shape (points,)."""
        right: NDArray[np.bool_] = self.predictions == self.ballots.truth
        return right

    @abstractmethod
    def radii(
        self,
        need: int | None = None,
        seconds: float | None = None,
        points: NDArray[np.int64] | None = None,
    ) -> Radii:
        """Return how many edits each answer survives."""

    @abstractmethod
    def attack(self, point: int, seconds: float | None = None) -> Attack | None:
        """Return a recounted attack on a point, or None.

        It has one edit more than the point survives if there is time to find it.
        """

    def together(self, edits: int) -> CollectiveProblem | None:
        """Return the most that one attack of some edits can do; None if unknown."""
        return None

    def lost_to(self, units: tuple[int, ...]) -> tuple[int, ...]:
        """Return the points that a joint attack loses, by a recount, ascending."""
        raise NotImplementedError


def confirm_attack(ballots: Ballots, attack: Attack) -> Attack:
    """Return an attack; raise if a recount does not confirm it."""
    answer = recount(ballots.votes[attack.point], ballots.labels, attack)
    if answer != attack.after or answer == attack.before:
        raise AssertionError(f"a recount of {attack} results in {answer}")
    return attack


_LISTED = 10


def label_asked(given: Arguments, name: str, ballots: Ballots) -> int | None:
    """Return the label argument of a call; None if not given."""
    value = given.get(name)
    if value is None:
        return None
    names = ballots.origin.label_names
    if isinstance(value, str):
        if value in names:
            return names.index(value)
        known = f"its labels are {_some(names)}" if names else "its labels have numbers only"
        near = hint(value, names) if names else f": 0 to {ballots.labels - 1}"
        raise BallotError(f'{ballots.source} has no label "{value}"{near}; {known}')
    number = given.number(name)
    if not number.is_integer() or not 0 <= number < ballots.labels:
        raise BallotError(
            f"{ballots.source} has no label {number:.15g}: its labels are 0 to {ballots.labels - 1}"
        )
    label = int(number)
    if str(label) in names and names[label] != str(label):
        other = names.index(str(label))
        raise BallotError(
            f"{ballots.source}: does {name} = {label} mean the label named {label}, or number "
            f'{label}, which is named {names[label]}? write "{names[other]}" or '
            f'"{names[label]}"'
        )
    return label


def counted_points(given: Arguments, ballots: Ballots) -> NDArray[np.bool_]:
    """Return which test points count: all, or those of the given true label."""
    label = label_asked(given, "label", ballots)
    if label is None:
        return np.ones(ballots.points, np.bool_)
    counted: NDArray[np.bool_] = ballots.truth == label
    if not counted.any():
        there = [label_with_name(ballots, each) for each in np.unique(ballots.truth).tolist()]
        raise BallotError(
            f"{ballots.source}: no test point has the true label "
            f"{label_with_name(ballots, label)}, so there is no share of them; there are test "
            f"points with {_some(tuple(there))}"
        )
    return counted


def name_of(ballots: Ballots, label: int) -> str:
    """Return the name of a label; empty if it has none."""
    names = ballots.origin.label_names
    return names[label] if names else ""


def label_with_name(ballots: Ballots, label: int) -> str:
    """Return a label by number and name, as in ``1 (yes)``."""
    name = name_of(ballots, label)
    return f"{label} ({name})" if name and name != str(label) else str(label)


def _some(names: tuple[str, ...]) -> str:
    more = ", ..." if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


Arrays: TypeAlias = Mapping[str, NDArray[Any]]
Wide = NDArray[np.int64]


def too_long(found: CollectiveBounds) -> str:
    """Return that a joint bound takes too long to prove again."""
    return (
        f"that no attack loses more than {found.upper:,} points comes from {found.proof}, and "
        "takes too long to reprove"
    )


@dataclass(eq=False)
class ShownPoints(ABC):
    """Proofs that hash values are too few, and attacks."""

    missing: int = 0  # points of which that cannot be shown
    _attacks: list[tuple[int, Sequence[int] | NDArray[np.int32]]] = field(default_factory=list)

    def gather(
        self, radii: Radii, points: Wide, survived: int, falling: int, known: Wide | None = None
    ) -> None:
        """Add proofs of which answers survive some edits and which do not."""
        for point in points.tolist():
            counted = 0 if known is None else max(0, int(known[point]))
            if counted < survived <= radii.lower[point]:
                self.survives(point, survived)
            if radii.upper[point] < falling:
                units = self.attack(point, falling)
                if units is None:
                    self.missing += 1
                else:
                    self._attacks.append((point, units))

    def arrays(self) -> Arrays:
        """Return the proofs as arrays; none if there is nothing to prove."""
        found = dict(self.survivals())
        if self._attacks:
            found["attacks"] = np.array([(at, len(units)) for at, units in self._attacks], np.int64)
            values = np.concatenate([np.asarray(units) for _, units in self._attacks])
            found["values"] = values.astype(np.int32)
        return found

    @abstractmethod
    def survives(self, point: int, edits: int) -> None:
        """Add a proof that some edits change no answer, or count it as missing."""

    @abstractmethod
    def attack(self, point: int, edits: int) -> Sequence[int] | NDArray[np.int32] | None:
        """Return at most ``edits`` hash values that change an answer, if any."""

    @abstractmethod
    def survivals(self) -> Arrays:
        """Return the added proofs as arrays."""
