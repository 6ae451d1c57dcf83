"""A vote over ballots: its answers, their radii, and attacks on them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.fewest import Fewest, attack_on
from leaveout.deadline import Deadline
from leaveout.errors import BallotError
from leaveout.kernel.ballots import Assumption
from leaveout.kernel.ballots import Ballots as KernelBallots
from leaveout.kernel.ballots import Origin as KernelOrigin
from leaveout.kernel.counting import FAR, Stake
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.schemes import threshold_radii
from leaveout.kernel.voting import SCHEMES, Scheme
from leaveout.kernel.voting import Vote as Counted
from leaveout.models.ballots import Ballots
from leaveout.names import hint
from leaveout.solvers import CanSolve
from leaveout.specs.deciders import Arguments
from leaveout.verifier.values.votes.attacks import Attack, attack_with
from leaveout.written import first_few

Wide: TypeAlias = NDArray[np.int64]


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


@dataclass(frozen=True)
class Cost:
    """The number of edits that one change counts as."""

    parts: int  # parts of the training set that one change can affect
    why: str

    def edits(self, changes: int) -> int:
        """Return how many edits a number of changes counts as, at most `FAR`."""
        return min(self.parts * changes, FAR)


def kernel_ballots(ballots: Ballots) -> KernelBallots:
    """Return ballots as the kernel counts them."""
    names = [each.name for each in fields(KernelOrigin) if each.name != "assumptions"]
    assumed = tuple(Assumption(each.text, each.checked) for each in ballots.origin.assumptions)
    own = {name: getattr(ballots.origin, name) for name in names}
    origin = KernelOrigin(**own, assumptions=assumed)
    held = ballots.votes, ballots.truth, ballots.labels, ballots.scores, ballots.thresholds
    return KernelBallots(*held, origin, ballots.source)


class Vote:
    """Ballots counted by one of the kernel's schemes, and how much poisoning answers survive.

    What is known of radii is kept, and only tightens.
    """

    def __init__(
        self,
        kind: str,
        ballots: Ballots,
        solver: CanSolve | None = None,
        published: bool = False,
        threat: str = "edits",
    ) -> None:
        if SCHEMES[kind].run_off:
            ballots.scores_of("a run-off")
        self.ballots, self.published, self.solver = ballots, published, solver
        try:
            self.counted = Counted(kind, kernel_ballots(ballots), threat)
        except Rejected as error:
            raise BallotError(str(error)) from None
        self.kind = kind
        self.learnt: dict[int, object] = {}
        self._fewest: dict[int, Fewest] = {}
        self._against: dict[str, Vote] = {}

    @property
    def scheme(self) -> Scheme:
        """The scheme."""
        return self.counted.scheme

    @property
    def name(self) -> str:
        """Its name, as in a specification."""
        name = self.scheme.variant_of or self.kind
        return f"{name}, certified members" if self.scheme.priced else name

    @property
    def is_spread(self) -> bool:
        """Whether a unit of an attack reaches several members, whose gains overlap."""
        return self.scheme.spread

    @property
    def unit(self) -> str:
        """What an attack poisons."""
        return "hash value" if self.is_spread else "part"

    @property
    def predictions(self) -> NDArray[np.int64]:
        """The answer at each test point, shape (points,)."""
        return self.counted.answers

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whether the true label is answered, shape (points,)."""
        return self.counted.right

    def against(self, threat: str) -> tuple[Vote, Cost]:
        """Return the vote against one kind of change, and what a change costs."""
        try:
            cost = Cost(*self.counted.reach_of(threat))
        except Rejected as error:
            raise BallotError(str(error)) from None
        if not self.scheme.priced:
            return self, cost
        if threat not in self._against:
            self._against[threat] = Vote(self.kind, self.ballots, self.solver, threat=threat)
        return self._against[threat], cost

    @property
    def threat(self) -> str:
        """The kind of change that thresholds are counted against."""
        return self.counted.threat

    @property
    def gap(self) -> str:
        """Why members with thresholds have radii without an upper bound; empty if they do not."""
        low, high = self.counted.withstood if self.scheme.priced else (None, None)
        own, origin = self.threat, self.ballots.origin
        against = origin.thresholds_against or "edits"
        if low is high or np.array_equal(low, high):  # type: ignore[arg-type]
            return ""
        if own == against:
            return f"thresholds are only exact to {origin.thresholds_exact_to}"
        told = f"thresholds count {against}, which bound {own} from one side only"
        known = own in ("insertions", "removals", "relabels")
        return f"{told}; provide thresholds against {own}" if known else told

    @cached_property
    def _bounds(self) -> tuple[Wide, Wide]:
        held, counted = self.ballots, self.counted
        published = self.scheme.published if self.published else None
        lower = (counted.radii if published is None else published(counted)).copy()
        upper = lower.copy()
        if self.is_spread or self.published:
            upper = np.full(held.points, held.parts - 1)
        if self.gap:
            upper = threshold_radii(*counted.cast, counted.withstood[1])
        return lower, upper

    def radii(
        self,
        need: int | None = None,
        seconds: float | None = None,
        points: Wide | None = None,
    ) -> Radii:
        """Return how many edits each answer survives; results are kept.

        With ``need``, only whether it is at least that is sought where it takes a search.
        """
        lower, upper = self._bounds
        asked = np.arange(self.ballots.points) if points is None else points
        deadline, left = Deadline.after(seconds), list[int]()
        for point in asked.tolist() if self.is_spread and not self.published else ():
            if deadline.over:
                break
            found = self.fewest(point)
            if not found.is_settled(need):
                found.search(need, deadline)
                if not found.is_settled(need):
                    left.append(point)
        # The narrowest first; what one leaves of its share is there for the rest.
        left.sort(key=lambda point: int(upper[point] - lower[point]))
        for order, point in enumerate(left):
            assert self.solver is not None
            share = Deadline.after(deadline.share(len(left) - order))
            self.fewest(point).solve(need, self.solver, share)
        for point, each in () if self.published else self._fewest.items():
            lower[point], upper[point] = each.lower, each.upper
        return Radii(lower.copy(), upper.copy(), self.right)

    def fewest(self, point: int, target: int | None = None) -> Fewest:
        """Return the bounds on the units that change an answer, or make a label the answer."""

        def stake_at(budget: int) -> Stake:
            return self.counted.stake_at(point, budget, target)

        if target is not None:
            return Fewest(stake_at, 0, np.arange(self.ballots.parts))
        if point not in self._fewest:
            lower = int(self._bounds[0][point])
            self._fewest[point] = Fewest(stake_at, lower, np.arange(self.ballots.parts))
        return self._fewest[point]

    def attack(
        self, point: int, seconds: float | None = None, target: int | None = None,
        edits: int | None = None,
    ) -> Attack | None:  # fmt: skip
        """Return a recounted attack on a point, or None.

        It has one edit more than the point survives if there is time to find it.
        """
        deadline, counted = Deadline.after(seconds), self.counted
        if self.is_spread and target is None:
            known = self.fewest(point)
            known.search(None, deadline)
            if self.solver is not None:
                known.solve(None, self.solver, deadline)
            return attack_with(counted, point, known.choices)
        most = 1 + int(self._bounds[1][point]) if edits is None else edits
        if most > FAR:
            return None
        stake = counted.stake_at(point, most, target)
        choices = attack_on(stake, deadline)
        if choices is None:
            return None
        poisoned = np.repeat(stake.group[choices], stake.cost[choices])
        return attack_with(counted, point, poisoned, target)

    def stake(self, counted: NDArray[np.bool_], edits: int, surely: bool = False) -> Stake:
        """Return what one attack on all correct answers that count demands.

        With ``surely``, by thresholds that are known to suffice.
        """
        return self.counted.stake(counted, min(edits, self.counted.most_useful), surely)


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
        known = (
            f"its labels are {first_few(names, _LISTED)}"
            if names
            else "its labels have numbers only"
        )
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
            f"points with {first_few(there, _LISTED)}"
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
