"""Certified accuracy, radii and collective attacks over ballots."""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np

from leaveout.encoders.votes.attack import Attack
from leaveout.encoders.votes.collective import stakes_of
from leaveout.encoders.votes.collective_exact import worst_attack
from leaveout.encoders.votes.knapsack import UNBOUNDED
from leaveout.encoders.votes.threat import Cost, Threat
from leaveout.errors import BallotError
from leaveout.models.votes import Ballots, read_ballots
from leaveout.solvers import Feature, find_solver
from leaveout.specs.deciders import Arguments, Bounds, Curve, Decided, Facts
from leaveout.verifier.votes import (
    FiniteVote,
    KnapsackVote,
    PluralityVote,
    Radii,
    RelabelVote,
    RunOffVote,
    Vote,
)
from leaveout.verifier.votes.reading import (
    cost_against,
    declared,
    fit_for_edits,
    fit_for_relabels,
    rests_on,
)

__all__ = [
    "answered_right",
    "ballots",
    "certified_accuracy",
    "collective_accuracy",
    "dpa",
    "finite_aggregation",
    "median_radius",
    "radius",
    "run_off",
    "ss_dpa",
    "test_points",
]

_PUBLISHED = "numerical: the published bound certifies no more; 'certificate = exact' may"
_LATE = "time: not every point could be closed"


def ballots(given: Arguments) -> Ballots:
    """Read ballots; what the specification declares of their hash must not contradict the file."""
    read = read_ballots(given.path("path"))
    reads = {"reads_label": True, "label_independent": False, None: None}[_word(given, "hash")]
    listed = given.get("offsets")
    if listed is None:
        return declared(read, reads, None)
    if not isinstance(listed, list) or not all(float(item).is_integer() for item in listed):
        raise BallotError(f"{read.source}: offsets are whole numbers, one a member reached")
    return declared(read, reads, tuple(int(item) for item in listed))


def dpa(given: Arguments) -> Vote:
    """Count ballots of a partition."""
    read = _ballots(given)
    fit_for_edits(read)
    certified = _word(given, "members") == "certified"
    return KnapsackVote(read) if certified else PluralityVote(read)


def ss_dpa(given: Arguments) -> Vote:
    """Count ballots of members that see all points and the labels of a part."""
    read = _ballots(given)
    fit_for_relabels(read)
    return RelabelVote(read)


def finite_aggregation(given: Arguments) -> Vote:
    """Count ballots of members among which each point is spread."""
    read = _ballots(given)
    fit_for_edits(read, spread=True)
    solver = find_solver(given.solver)
    if Feature.DUAL_BOUND not in solver.features:
        raise BallotError(f"solver {given.solver!r} gives no dual bounds, so it can prove nothing")
    return FiniteVote(read, solver, _word(given, "certificate") == "published")


def run_off(given: Arguments) -> Vote:
    """Hold run-offs over ballots with scores."""
    read = _ballots(given)
    fit_for_edits(read)
    return RunOffVote(read, _word(given, "certificate") == "published")


def certified_accuracy(given: Arguments) -> Bounds:
    """Return the share of points answered right whatever changes, each attacked by itself."""
    vote = _vote(given)
    threat, count = _threat(given)
    cost = cost_against(vote, threat)
    edits = cost.parts * count
    deadline = None if given.seconds is None else time.perf_counter() + given.seconds
    radii = vote.radii(need=edits, seconds=given.seconds)
    shares = radii.accuracy(edits)
    left = None if deadline is None else max(0.0, deadline - time.perf_counter())
    words, facts = _falls(vote, radii, threat, count, edits, left)
    return Bounds(
        shares.lower,
        shares.upper,
        reason=_reason(given),
        note=_note(vote, threat, cost),
        evidence=words,
        facts=facts,
        curve=_curve(vote, radii, threat, cost),
    )


def collective_accuracy(given: Arguments) -> Bounds:
    """Return the share of points answered right whatever one attack on all of them changes."""
    vote = _vote(given)
    threat, count = _threat(given)
    cost = cost_against(vote, threat)
    if isinstance(vote, KnapsackVote | RunOffVote):
        raise BallotError(
            f"one attack on all points is certified of dpa, ss_dpa and finite_aggregation, not of "
            f"{vote.name}"
        )
    assert isinstance(vote, PluralityVote)
    deadline = None if given.seconds is None else time.perf_counter() + given.seconds
    held, tallied = vote.ballots, vote.tallied
    budget = min(cost.parts * count, held.parts)
    stakes = stakes_of(held.votes, held.truth, tallied, budget, held.origin.offsets)
    found = worst_attack(stakes, find_solver(given.solver), deadline)
    right = int(np.count_nonzero(vote.right))
    note = _note(vote, threat, cost)
    if found.upper > found.lower:
        note += (
            f"\nfor {count:,} {threat.value} at least {found.lower:,} and at most {found.upper:,} "
            f"points are lost to one attack; the upper end is {found.proof}"
        )
    facts: Facts = {"poisoned": found.attack.units, "lost": found.attack.lost}
    return Bounds(
        Fraction(right - found.upper, held.points),
        Fraction(right - found.lower, held.points),
        reason=found.reason,
        note=note,
        evidence=f"{_wrong(vote)}{found.attack}" if found.attack.lost else _wrong(vote),
        facts=facts,
    )


def median_radius(given: Arguments) -> Bounds:
    """Return how many changes half of all points survive, answered right."""
    vote = _vote(given)
    threat = _against(given, vote)
    cost = cost_against(vote, threat)
    deadline = None if given.seconds is None else time.perf_counter() + given.seconds
    radii = vote.radii(need=0)
    low, high = radii.median()
    while low < high:
        # Halving asks of each point only whether it survives this many edits.
        need = low + (high - low + 1) // 2
        left = None if deadline is None else max(0.0, deadline - time.perf_counter())
        radii = vote.radii(need=need, seconds=left)
        before, (low, high) = (low, high), radii.median()
        if (low, high) == before:
            break
    return Bounds(
        _units(low, cost),
        _units(high, cost),
        reason=_reason(given),
        note=_note(vote, threat, cost),
        curve=_curve(vote, radii, threat, cost),
    )


def test_points(given: Arguments) -> range:
    """Return the numbers of the test points."""
    return range(_ballots(given).points)


def radius(given: Arguments) -> Bounds:
    """Return how many changes leave one answer as it is."""
    vote = _vote(given)
    threat = _against(given, vote)
    cost = cost_against(vote, threat)
    point = _point(given, vote)
    radii = vote.radii(seconds=given.seconds, points=np.array([point]))
    attack = vote.attack(point, given.seconds)
    upper = int(radii.upper[point])
    return Bounds(
        _units(int(radii.lower[point]), cost),
        float("inf") if upper == UNBOUNDED else _units(upper, cost),
        reason=_reason(given),
        note=_note(vote, threat, cost),
        evidence="" if attack is None else str(attack),
        facts={} if attack is None else _facts(attack),
    )


def answered_right(given: Arguments) -> Decided:
    """Return whether a point is answered with its true label."""
    vote = _vote(given)
    point = _point(given, vote)
    if vote.right[point]:
        return Decided("proved")
    answer, truth = vote.predictions[point], vote.ballots.truth[point]
    return Decided(
        "refuted",
        witness=f"test point {point} is answered {answer}, its true label is {truth}",
        facts={"point": point, "answer": int(answer), "truth": int(truth)},
    )


def _ballots(given: Arguments) -> Ballots:
    value = given["ballots"]
    assert isinstance(value, Ballots)
    return value


def _vote(given: Arguments) -> Vote:
    value = given["votes"]
    assert isinstance(value, Vote)
    return value


def _point(given: Arguments, vote: Vote) -> int:
    point = given["point"]
    assert isinstance(point, int)
    if point >= vote.ballots.points:
        raise BallotError(
            f"test point {point} is of other ballots: {vote.ballots.source} has "
            f"{vote.ballots.points:,}"
        )
    return point


def _word(given: Arguments, name: str) -> str | None:
    value = given.get(name)
    assert value is None or isinstance(value, str)
    return value


def _threat(given: Arguments) -> tuple[Threat, int]:
    (name,) = (threat for threat in Threat if threat.value in given)
    return name, int(given.number(name.value))


def _against(given: Arguments, vote: Vote) -> Threat:
    default = Threat.RELABELS if isinstance(vote, RelabelVote) else Threat.EDITS
    word = _word(given, "against")
    return default if word is None else Threat(word)


def _units(edits: int, cost: Cost) -> int:
    """Return how many changes a number of edits makes room for; -1 stays."""
    return edits // cost.parts if edits >= 0 else edits


def _reason(given: Arguments) -> str:
    vote = _vote(given)
    published = isinstance(vote, FiniteVote | RunOffVote) and vote.published
    return _PUBLISHED if published else _LATE


def _note(vote: Vote, threat: Threat, cost: Cost) -> str:
    parts = f"{cost.parts} part{'s' * (cost.parts != 1)} of the training set"
    if isinstance(vote, FiniteVote):
        members = cost.parts * len(vote.ballots.origin.offsets)
        parts += f" and {members} members"
    reach = f"{threat.value}: each changes at most {parts}: {cost.why}"
    return "\n".join((reach, *rests_on(vote.ballots)))


def _wrong(vote: Vote) -> str:
    wrong = int(np.count_nonzero(~vote.right))
    return f"{wrong:,} of {len(vote.right):,} points are answered wrong before; " if wrong else ""


def _falls(
    vote: Vote, radii: Radii, threat: Threat, count: int, edits: int, seconds: float | None
) -> tuple[str, Facts]:
    """Return which points fall to an attack, and an attack on the hardest of them."""
    falls = np.flatnonzero(radii.right & (radii.upper < edits))
    words = _wrong(vote)
    if not len(falls):
        return words.rstrip("; "), {}
    words += f"{len(falls):,} right ones fall to {count:,} {threat.value}"
    attack = vote.attack(int(falls[radii.upper[falls].argmax()]), seconds)
    if attack is None or attack.edits > edits:
        return words, {}
    return f"{words}, such as {attack}", _facts(attack)


def _facts(attack: Attack) -> Facts:
    return {
        "point": attack.point,
        "edits": attack.edits,
        "poisoned": attack.poisoned,
        "members": attack.members,
        "votes": attack.votes,
        "before": attack.before,
        "after": attack.after,
    }


_MOST_POINTS = 200
"""Of a curve."""


def _curve(vote: Vote, radii: Radii, threat: Threat, cost: Cost) -> Curve:
    """Return certified accuracy against the number of changes, up to where it ends."""
    reached = radii.upper[radii.right & (radii.upper != UNBOUNDED)]
    end = _units(int(reached.max(initial=0)), cost) + 1
    at = tuple(sorted({round(end * i / _MOST_POINTS) for i in range(_MOST_POINTS + 1)}))
    shares = [radii.accuracy(cost.parts * count) for count in at]
    return Curve(
        name=vote.name,
        value="certified accuracy",
        unit=threat.value,
        at=at,
        lower=tuple(float(share.lower) for share in shares),
        upper=tuple(float(share.upper) for share in shares),
    )
