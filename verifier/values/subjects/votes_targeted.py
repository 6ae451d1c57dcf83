"""Attacks that force one label, at a test point or over all of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders.votes.threat import Cost, Threat
from leaveout.errors import BallotError
from leaveout.specs.deciders import Arguments, Bounds, Evidence
from leaveout.verifier.values.votes.labels import (
    counted_points,
    label_asked,
    label_with_name,
    name_of,
)
from leaveout.verifier.values.votes.radii import Radii
from leaveout.verifier.values.votes.sentences import (
    note_of,
    targeted_attack_evidence,
    targeted_evidence,
)
from leaveout.verifier.values.votes.targets import Toward, toward
from leaveout.verifier.values.votes import Vote


def robustness_to(
    given: Arguments,
    vote: Vote,
    threat: Threat,
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
            else f" of true label {label_with_name(vote.ballots, _first(vote, counted))}"
        )
        raise BallotError(
            f"{vote.ballots.source}: every test point{of} is answered "
            f"{label_with_name(vote.ballots, target)}, so there is no share of the others"
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
        given.unproved = f"no proof was found of what forces the answer to {many}"
    if arrays:
        given.prove(lambda: arrays)
