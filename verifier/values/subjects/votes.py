"""Certified accuracy, radii and collective attacks from ballots."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Bools
from leaveout.bab.votes.collective import CollectiveBounds, worst_attack
from leaveout.deadline import NEVER, Deadline
from leaveout.errors import BallotError, SolverError
from leaveout.kernel.counting import FAR
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.threats import THREATS
from leaveout.kernel.votes import declarations
from leaveout.kernel.voting import FUNCTIONS, kind_of
from leaveout.models.ballots import Ballots, read_ballots
from leaveout.solvers import CanSolve, Feature, SolverProcess, find_solver
from leaveout.specs.deciders import (
    Accuracy,
    Arguments,
    Bounds,
    Decided,
    Evidence,
    LabelAccuracy,
    Say,
    discard_message,
)
from leaveout.verifier.values.votes.proofs import (
    SurvivalProof,
    collective_arrays,
    collective_unproved,
)
from leaveout.verifier.values.votes.sentences import (
    attack_evidence,
    chosen_note,
    collective_evidence,
    curve_of,
    note_of,
    targeted_attack_evidence,
    targeted_evidence,
    untargeted_evidence,
)
from leaveout.verifier.values.votes.targets import Toward, toward
from leaveout.verifier.values.votes.vote import (
    Cost,
    Radii,
    Vote,
    counted_points,
    kernel_ballots,
    label_asked,
    label_with_name,
    name_of,
)


def accuracy_of(
    vote: Vote,
    threat: str,
    count: int,
    counted: Bools,  # shape (points,)
    certain: Bools,  # shape (points,)
    possible: Bools,  # shape (points,)
    together: tuple[int, int] | None = None,
) -> Accuracy:
    """Return how many test points per true label are right, and stay right."""
    ballots, right = vote.ballots, vote.right
    points = np.bincount(ballots.truth, minlength=ballots.labels)
    common = int(points.argmax())
    own = np.unique(ballots.truth[counted])
    columns = [
        np.bincount(ballots.truth[each], minlength=ballots.labels)
        for each in (right, right & certain, right & possible)
    ]
    labels = [
        LabelAccuracy(
            label,
            name_of(ballots, label),
            int(points[label]),
            *(int(column[label]) for column in columns),
        )
        for label in own.tolist()
    ]
    return Accuracy(
        votes=vote.name,
        file=ballots.source,
        unit=threat,
        count=count,
        together=together is not None,
        points=ballots.points,
        right=int(right.sum()),
        common=common,
        common_name=name_of(ballots, common),
        common_points=int(points[common]),
        undefended_right=ballots.origin.undefended_right,
        lower=sum(each.lower for each in labels) if together is None else together[0],
        upper=sum(each.upper for each in labels) if together is None else together[1],
        labels=tuple(labels),
    )


def worst_of(
    vote: Vote,
    edits: int,
    solver: CanSolve,
    deadline: Deadline = NEVER,
    counted: Bools | None = None,
    say: Say = discard_message,
) -> CollectiveBounds:
    """Return bounds on how many of the points that count one joint attack loses."""
    counted = np.ones(vote.ballots.points, np.bool_) if counted is None else counted
    stake = vote.stake(counted, edits)
    if not vote.gap:
        return worst_attack(stake, solver, deadline, say)
    # What an attack may do and what one is known to do are two questions.
    found = worst_attack(stake, solver, Deadline.after(deadline.share(2)), say)
    ended = Deadline.after(0.0) if found.interrupted else deadline
    other = worst_attack(vote.stake(counted, edits, surely=True), solver, ended, say)
    upper = max(found.upper, other.lower)
    reason = (found.reason or f"numerical: {vote.gap}") if upper > other.lower else ""
    stopped = found.interrupted or other.interrupted
    return replace(
        found, units=other.units, lost=other.lost, upper=upper, reason=reason, interrupted=stopped
    )


def robustness_to(
    given: Arguments,
    vote: Vote,
    threat: str,
    count: int,
    cost: Cost,
    reason: Callable[[], str],
) -> Bounds:
    """Return the share of other answers that no change turns into a label."""
    target = _target(given, vote)
    counted = counted_points(given, vote.ballots)
    others = counted & (vote.predictions != target)
    if not others.any():
        of = (
            ""
            if counted.all()
            else f" with true label {label_with_name(vote.ballots, _first(vote, counted))}"
        )
        raise BallotError(
            f"{vote.ballots.source}: every test point{of} is answered "
            f"{label_with_name(vote.ballots, target)}, so there is no share of other points"
        )
    edits = cost.edits(count)
    known = toward(vote, target)
    points = np.flatnonzero(others)
    radii = known.radii(points, edits, given.seconds)
    shares = radii.of(others).accuracy(edits)
    told: dict[str, int | str] = {"to": target, "to_name": name_of(vote.ballots, target)}
    if not counted.all():
        label = _first(vote, counted)
        told |= {"label": label, "label_name": name_of(vote.ballots, label)}
    told |= {"points": vote.ballots.points, "right": int(np.count_nonzero(vote.right))}
    given.tell({**told, "otherwise": len(points)})
    _prove(given, known, points, edits, edits)
    return Bounds(
        shares.lower,
        shares.upper,
        reason=reason(),
        note=note_of(vote, threat, cost),
        evidence=lambda: targeted_evidence(known, radii, others, threat, count, edits),
    )


def radii_to(given: Arguments, vote: Vote, point: int) -> tuple[Radii, Evidence]:
    """Return how many edits never force a label, and an attack with one more."""
    known = toward(vote, _target(given, vote))
    places = np.array([point])
    radii = known.radii(places, seconds=given.seconds)
    low, high = int(radii.lower[point]), int(radii.upper[point])
    if low >= 0:
        _prove(given, known, places, low, high + 1)
    return radii, targeted_attack_evidence(known, point)


def _target(given: Arguments, vote: Vote) -> int:
    target = label_asked(given, "to", vote.ballots)
    assert target is not None
    return target


def _first(vote: Vote, counted: NDArray[np.bool_]) -> int:
    return int(vote.ballots.truth[counted][0])


def _prove(
    given: Arguments, known: Toward, points: NDArray[np.int64], survived: int, falling: int
) -> None:
    """Store proofs beyond what counting alone shows."""
    if not given.proving:
        return
    arrays, missing = known.proof(points, survived, falling)
    if missing:
        many = "1 point" if missing == 1 else f"{missing:,} points"
        given.unproved = (
            f"no proof was found of the number of changes that forces the answer to {many}"
        )
    if arrays:
        given.prove(lambda: arrays)


def proving_solver(name: str) -> SolverProcess:
    """Return a solver in its own process, started on first use."""
    if Feature.DUAL_BOUND not in find_solver(name).features:
        raise SolverError(f"solver {name!r} computes no dual bounds, so it cannot prove anything")
    return SolverProcess(name)


_PUBLISHED = "numerical: the published bound does not certify more; 'certificate = exact' may"
_LATE = "time: not every point could be decided"
_NEVER = "numerical: no number of changes suffices"


def ballots(given: Arguments) -> Ballots:
    """Read ballots; raise if their hash contradicts what the specification declares."""
    read = read_ballots(given.path("path"))
    lists = {
        name: _whole(given[name], f"{read.source}: {name} must be whole numbers, one per {each}")
        for name, each in (("offsets", "member"), ("families", "family"))
        if name in given
    }
    try:
        said = declarations(kernel_ballots(read), _word(given, "hash"), lists)
    except Rejected as error:
        raise BallotError(str(error)) from None
    return replace(read, origin=msgspec.structs.replace(read.origin, **said)) if said else read


def count_ballots(function: str, given: Arguments) -> Vote:
    """Return ballots counted as a function does; refuse those that its scheme does not fit."""
    read, words = (
        _ballots(given),
        {name: _word(given, name) for name in FUNCTIONS[function].options},
    )
    try:
        kind = kind_of(function, kernel_ballots(read), words)
    except Rejected as error:
        raise BallotError(str(error)) from None
    solver = proving_solver(given.solver) if "certificate" in words else None
    return Vote(kind, read, solver, words.get("certificate") == "published")


def certified_accuracy(given: Arguments) -> Bounds:
    """Return the share of points that stay right, each attacked separately."""
    vote = _vote(given)
    threat, count = _threat(given)
    vote, cost = vote.against(threat)
    edits = cost.edits(count)
    counted = counted_points(given, vote.ballots)
    radii = vote.radii(need=edits, seconds=given.seconds, points=_places(counted))
    shares = radii.of(counted).accuracy(edits)
    _prove_spread(given, vote, radii, vote.right & counted, edits, edits)
    return Bounds(
        shares.lower,
        shares.upper,
        reason=_reason(vote),
        note=note_of(vote, threat, cost),
        evidence=lambda: untargeted_evidence(vote, radii, counted, threat, count, edits),
        curve=curve_of(vote, radii, counted, threat, cost),
        accuracy=accuracy_of(
            vote, threat, count, counted, radii.lower >= edits, radii.upper >= edits
        ),
    )


def collective_accuracy(given: Arguments) -> Bounds:
    """Return the share of points that stay right under one joint attack."""
    vote = _vote(given)
    threat, count = _threat(given)
    vote, cost = vote.against(threat)
    deadline = Deadline.after(given.seconds)
    edits = cost.edits(count)
    counted = counted_points(given, vote.ballots)
    with proving_solver(given.solver) as solver:
        found = worst_of(vote, edits, solver, deadline, counted, given.say)
    given.interrupted = found.interrupted
    if given.proving:
        given.unproved = collective_unproved(vote, counted, edits, found)
    given.prove(lambda: collective_arrays(found))
    right, points = int(np.count_nonzero(vote.right & counted)), int(np.count_nonzero(counted))
    numbers = np.arange(vote.ballots.points)
    safe, kept = ~np.isin(numbers, found.points), ~np.isin(numbers, found.lost)
    together = right - found.upper, right - found.lower
    note = note_of(vote, threat, cost) + chosen_note(vote)
    if found.upper > found.lower:
        note += (
            f"\nfor {count:,} {threat}, one attack loses at least {found.lower:,} and at "
            f"most {found.upper:,} points; the upper end comes from {found.proof}"
        )
    return Bounds(
        Fraction(together[0], points),
        Fraction(together[1], points),
        reason=found.reason,
        note=note,
        evidence=lambda: collective_evidence(vote, counted, found),
        accuracy=accuracy_of(vote, threat, count, counted, safe, kept, together),
    )


def median_radius(given: Arguments) -> Bounds:
    """Return how many changes half of all points survive, answered right."""
    vote = _vote(given)
    threat = _against(given, vote)
    vote, cost = vote.against(threat)
    deadline = Deadline.after(given.seconds)
    counted = counted_points(given, vote.ballots)
    radii = vote.radii(need=0, seconds=given.seconds, points=_places(counted))
    low, high = radii.of(counted).median()
    while low < high:
        # Halving asks of each point only whether it survives this many edits.
        need = low + (high - low + 1) // 2
        radii = vote.radii(need=need, seconds=deadline.limit, points=_places(counted))
        before, (low, high) = (low, high), radii.of(counted).median()
        if (low, high) == before:
            break
    lower, upper = _units(low, high, cost)
    _prove_spread(given, vote, radii, vote.right & counted, low, high + 1)
    survived = max(lower, 0)
    edits = cost.parts * survived

    def evidence() -> Evidence:
        if not math.isfinite(upper):
            return Evidence()
        # Fewer than half survive one change more.
        count = int(upper) + 1
        return untargeted_evidence(vote, radii, counted, threat, count, cost.parts * count)

    return Bounds(
        lower,
        upper,
        reason=_reason(vote) if low < high else _NEVER,
        note=note_of(vote, threat, cost),
        evidence=evidence,
        curve=curve_of(vote, radii, counted, threat, cost),
        accuracy=accuracy_of(
            vote, threat, survived, counted, radii.lower >= edits, radii.upper >= edits
        ),
    )


def targeted_robustness(given: Arguments) -> Bounds:
    """Return the share of points that no change turns into a label."""
    threat, count = _threat(given)
    vote, cost = _vote(given).against(threat)
    return robustness_to(given, vote, threat, count, cost, lambda: _reason(vote))


def test_points(given: Arguments) -> range:
    """Return the numbers of the test points."""
    return range(_ballots(given).points)


def radius(given: Arguments) -> Bounds:
    """Return how many changes leave one answer unchanged."""
    vote = _vote(given)
    threat = _against(given, vote)
    vote, cost = vote.against(threat)
    point = _point(given, vote)
    found = None
    if "to" in given:
        radii, found = radii_to(given, vote, point)
    else:
        radii = vote.radii(seconds=given.seconds, points=np.array([point]))
    low, high = int(radii.lower[point]), int(radii.upper[point])
    lower, upper = _units(low, high, cost)
    if found is None:
        alone = np.arange(vote.ballots.points) == point
        _prove_spread(given, vote, radii, alone, low, high + 1)
    return Bounds(
        lower,
        upper,
        reason=_reason(vote) if low < high else _NEVER,
        note=note_of(vote, threat, cost),
        evidence=lambda: attack_evidence(vote, point) if found is None else found,
    )


def answered_right(given: Arguments) -> Decided:
    """Return whether a point gets its true label."""
    vote = _vote(given)
    point = _point(given, vote)
    if vote.right[point]:
        return Decided("proved")
    answer, truth = int(vote.predictions[point]), int(vote.ballots.truth[point])
    ballots = vote.ballots
    return Decided(
        "refuted",
        witness=f"test point {point} is answered {label_with_name(ballots, answer)}; its true "
        f"label is {label_with_name(ballots, truth)}",
        facts={"point": point, "answer": answer, "truth": truth},
    )


def _ballots(given: Arguments) -> Ballots:
    value = given["ballots"]
    assert isinstance(value, Ballots)
    return value


def _vote(given: Arguments) -> Vote:
    value = given["votes"]
    assert isinstance(value, Vote)
    return value


def _whole(listed: object, wrong: str) -> tuple[int, ...]:
    if not isinstance(listed, list) or not all(float(item).is_integer() for item in listed):
        raise BallotError(wrong)
    return tuple(int(item) for item in listed)


def _point(given: Arguments, vote: Vote) -> int:
    point = given["point"]
    assert isinstance(point, int)
    if point >= vote.ballots.points:
        raise BallotError(
            f"test point {point} belongs to other ballots: {vote.ballots.source} has "
            f"{vote.ballots.points:,}"
        )
    return point


def _word(given: Arguments, name: str) -> str | None:
    value = given.get(name)
    assert value is None or isinstance(value, str)
    return value


def _places(counted: NDArray[np.bool_]) -> NDArray[np.int64] | None:
    """Return the numbers of the counted test points; None if all count."""
    return None if counted.all() else np.flatnonzero(counted)


def _threat(given: Arguments) -> tuple[str, int]:
    (name,) = (threat for threat in THREATS if threat in given)
    return name, int(given.number(name))


def _prove_spread(
    given: Arguments,
    vote: Vote,
    radii: Radii,
    counted: NDArray[np.bool_],
    survived: int,
    falling: int,
) -> None:
    """Store proofs of which spread answers survive; other votes are recounted."""
    if not given.proving or not vote.is_spread:
        return
    found = SurvivalProof(vote)
    found.gather(radii, np.flatnonzero(counted), survived, falling, vote.fewest)
    if found.missing:
        points = "1 point" if found.missing == 1 else f"{found.missing:,} points"
        given.unproved = f"no proof was found of how many changes {points} survive"
    given.prove(found.arrays)


def _against(given: Arguments, vote: Vote) -> str:
    word = _word(given, "against")
    return ("relabels" if vote.scheme.relabels else "edits") if word is None else word


def _units(low: int, high: int, cost: Cost) -> tuple[int, float]:
    """Return how many changes a range of edits allows; -1 stays."""
    lower = low // cost.parts if low >= 0 else low
    upper = high // cost.parts if high >= 0 else high
    return lower, math.inf if high == FAR else upper


def _reason(vote: Vote) -> str:
    if vote.published:
        return _PUBLISHED
    return f"numerical: {vote.gap}" if vote.gap else _LATE
