"""Certified accuracy, radii and collective attacks over ballots."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.collective_exact import worst_attack
from leaveout.deadline import Deadline
from leaveout.encoders.votes.collective import lost_points, stakes_of
from leaveout.encoders.votes.knapsack import UNBOUNDED
from leaveout.encoders.votes.threat import Cost, Threat
from leaveout.errors import BallotError
from leaveout.models.votes import Ballots, read_ballots
from leaveout.specs.deciders import Arguments, Bounds, Decided, Evidence
from leaveout.verifier.values.subjects.solving import proving_solver
from leaveout.verifier.values.votes import (
    FiniteVote,
    KnapsackVote,
    PluralityVote,
    RelabelVote,
    RunOffVote,
    Vote,
)
from leaveout.verifier.values.votes.counting import (
    cost_against,
    declared,
    fit_for_edits,
    fit_for_relabels,
)
from leaveout.verifier.values.votes.proofs import (
    collective_arrays,
    collective_unproved,
    spread_proof,
)
from leaveout.verifier.values.votes.radii import Radii
from leaveout.verifier.values.votes.sentences import (
    collective_evidence,
    curve_of,
    fallen,
    fallen_point,
    note_of,
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
_NEVER = "numerical: no number of changes suffices"


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
    return FiniteVote(
        read, proving_solver(given.solver), _word(given, "certificate") == "published"
    )


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
    radii = vote.radii(need=edits, seconds=given.seconds)
    shares = radii.accuracy(edits)
    _prove_spread(given, vote, radii, vote.right, edits, edits)
    return Bounds(
        shares.lower,
        shares.upper,
        reason=_reason(given),
        note=note_of(vote, threat, cost),
        evidence=lambda: fallen(vote, radii, threat, count, edits),
        curve=curve_of(vote, radii, threat, cost),
    )


def collective_accuracy(given: Arguments) -> Bounds:
    """Return the share of points answered right whatever one attack on all of them changes."""
    vote = _vote(given)
    threat, count = _threat(given)
    cost = cost_against(vote, threat)
    if not isinstance(vote, PluralityVote):
        raise BallotError(
            f"one attack on all points is certified of dpa, ss_dpa and finite_aggregation, not of "
            f"{vote.name}"
        )
    deadline = Deadline.after(given.seconds)
    held, tallied = vote.ballots, vote.tallied
    budget = min(cost.parts * count, held.parts)
    stakes = stakes_of(held.votes, held.truth, tallied, budget, held.origin.offsets)
    with proving_solver(given.solver) as solver:
        found = worst_attack(stakes, solver, deadline)
    freed = stakes.reach[list(found.attack.units)].ravel()
    counted = lost_points(held.votes, held.truth, tallied, freed)
    if counted != found.attack.lost:
        raise AssertionError(f"an attack loses {len(counted)} points, not {found.lower}")
    if given.proving:
        given.unproved = collective_unproved(vote, budget, found)
    given.prove(lambda: collective_arrays(found))
    right = int(np.count_nonzero(vote.right))
    note = note_of(vote, threat, cost)
    if found.upper > found.lower:
        note += (
            f"\nfor {count:,} {threat.value} at least {found.lower:,} and at most {found.upper:,} "
            f"points are lost to one attack; the upper end is {found.proof}"
        )
    return Bounds(
        Fraction(right - found.upper, held.points),
        Fraction(right - found.lower, held.points),
        reason=found.reason,
        note=note,
        evidence=lambda: collective_evidence(vote, found.attack),
    )


def median_radius(given: Arguments) -> Bounds:
    """Return how many changes half of all points survive, answered right."""
    vote = _vote(given)
    threat = _against(given, vote)
    cost = cost_against(vote, threat)
    deadline = Deadline.after(given.seconds)
    radii = vote.radii(need=0, seconds=given.seconds)
    low, high = radii.median()
    while low < high:
        # Halving asks of each point only whether it survives this many edits.
        need = low + (high - low + 1) // 2
        radii = vote.radii(need=need, seconds=deadline.limit)
        before, (low, high) = (low, high), radii.median()
        if (low, high) == before:
            break
    lower, upper = _units(low, high, cost)
    _prove_spread(given, vote, radii, vote.right, low, high + 1)

    def evidence() -> Evidence:
        if not math.isfinite(upper):
            return Evidence()
        # Fewer than half survive one change more.
        count = int(upper) + 1
        return fallen(vote, radii, threat, count, cost.parts * count)

    return Bounds(
        lower,
        upper,
        reason=_reason(given) if low < high else _NEVER,
        note=note_of(vote, threat, cost),
        evidence=evidence,
        curve=curve_of(vote, radii, threat, cost),
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
    low, high = int(radii.lower[point]), int(radii.upper[point])
    lower, upper = _units(low, high, cost)
    alone = np.arange(vote.ballots.points) == point
    _prove_spread(given, vote, radii, alone, low, high + 1)
    return Bounds(
        lower,
        upper,
        reason=_reason(given) if low < high else _NEVER,
        note=note_of(vote, threat, cost),
        evidence=lambda: fallen_point(vote, point),
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


def _prove_spread(
    given: Arguments,
    vote: Vote,
    radii: Radii,
    counted: NDArray[np.bool_],
    survived: int,
    falling: int,
) -> None:
    """Leave what shows which answers of Finite Aggregation survive; others are counted anew."""
    if not given.proving or not isinstance(vote, FiniteVote):
        return
    found = spread_proof(vote, radii, np.flatnonzero(counted), survived, falling)
    if found.missing:
        points = "1 point" if found.missing == 1 else f"{found.missing:,} points"
        given.unproved = f"no proof was found of what {points} survive"
    given.prove(found.arrays)


def _against(given: Arguments, vote: Vote) -> Threat:
    default = Threat.RELABELS if isinstance(vote, RelabelVote) else Threat.EDITS
    word = _word(given, "against")
    return default if word is None else Threat(word)


def _units(low: int, high: int, cost: Cost) -> tuple[int, float]:
    """Return between how many changes a number of edits makes room for; -1 stays."""
    lower = low // cost.parts if low >= 0 else low
    upper = high // cost.parts if high >= 0 else high
    return lower, math.inf if high == UNBOUNDED else upper


def _reason(given: Arguments) -> str:
    vote = _vote(given)
    published = isinstance(vote, FiniteVote | RunOffVote) and vote.published
    return _PUBLISHED if published else _LATE
