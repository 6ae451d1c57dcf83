"""What is said of a result about votes: reach of a change, attacks in words, curves."""

from __future__ import annotations

import numpy as np

from leaveout.encoders.votes.attack import Attack
from leaveout.encoders.votes.collective import CollectiveAttack
from leaveout.encoders.votes.knapsack import UNBOUNDED
from leaveout.encoders.votes.threat import Cost, Threat
from leaveout.specs.deciders import Curve, Evidence
from leaveout.verifier.values.votes.counting import rests_on
from leaveout.verifier.values.votes.radii import Radii
from leaveout.verifier.values.votes.schemes import FiniteVote, RelabelVote
from leaveout.verifier.values.votes.vote import Vote

__all__ = ["collective_evidence", "curve_of", "fallen", "fallen_point", "note_of"]

_MOST_POINTS = 200
"""Of a curve."""
_LISTED = 12
_SECONDS = 60.0
"""For an attack that shows a refutation."""


def note_of(vote: Vote, threat: Threat, cost: Cost) -> str:
    """Return what one change reaches and why, and what that rests on; a line each."""
    parts = f"{_counted(cost.parts, 'part')} of the training set"
    if isinstance(vote, FiniteVote):
        parts += f" and {cost.parts * len(vote.ballots.origin.offsets)} members"
    reach = f"{threat.value}: each changes at most {parts}: {cost.why}"
    return "\n".join((reach, *rests_on(vote.ballots, isinstance(vote, RelabelVote))))


def fallen(vote: Vote, radii: Radii, threat: Threat, count: int, edits: int) -> Evidence:
    """Return which points an attack each takes, and the attack on the hardest of them."""
    falls = np.flatnonzero(radii.right & (radii.upper < edits))
    words = _wrong(vote)
    if not len(falls):
        return Evidence(words)
    words += f"{'; ' if words else ''}{len(falls):,} right ones fall to {count:,} {threat.value}"
    attack = vote.attack(int(falls[radii.upper[falls].argmax()]), _SECONDS)
    if attack is None or attack.edits > edits:
        return Evidence(words)
    return Evidence(f"{words}, such as {_attack(vote, attack)}", _facts(attack))


def fallen_point(vote: Vote, point: int) -> Evidence:
    """Return an attack on one point."""
    attack = vote.attack(point, _SECONDS)
    return Evidence() if attack is None else Evidence(_attack(vote, attack), _facts(attack))


def collective_evidence(vote: Vote, attack: CollectiveAttack) -> Evidence:
    """Return which points one attack takes."""
    words = _wrong(vote)
    if attack.lost:
        points = _counted(len(attack.lost), "point")
        words += f"{'; ' if words else ''}poisoning {_hit(vote, attack.units)} loses {points}: "
        words += _some(attack.lost)
    return Evidence(words, {"poisoned": attack.units, "lost": attack.lost})


def curve_of(vote: Vote, radii: Radii, threat: Threat, cost: Cost) -> Curve:
    """Return certified accuracy against the number of changes, up to where it ends."""
    reached = radii.upper[radii.right & (radii.upper != UNBOUNDED)]
    end = int(reached.max(initial=0)) // cost.parts + 1
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


def _wrong(vote: Vote) -> str:
    wrong = int(np.count_nonzero(~vote.right))
    return f"{wrong:,} of {len(vote.right):,} points are answered wrong before" if wrong else ""


def _attack(vote: Vote, attack: Attack) -> str:
    unit = "relabel" if isinstance(vote, RelabelVote) else "edit"
    turn = "turns" if attack.edits == 1 else "turn"
    return (
        f"test point {attack.point}: {_counted(attack.edits, unit)} in "
        f"{_hit(vote, attack.poisoned)} {turn} label {attack.before} into {attack.after}"
    )


def _hit(vote: Vote, units: tuple[int, ...]) -> str:
    noun = "hash value" if isinstance(vote, FiniteVote) else "part"
    return f"{noun}{'s' * (len(units) != 1)} {_some(units)}"


def _some(numbers: tuple[int, ...]) -> str:
    more = ", ..." if len(numbers) > _LISTED else ""
    return ", ".join(map(str, numbers[:_LISTED])) + more


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _facts(attack: Attack) -> dict[str, int | tuple[int, ...]]:
    return {
        "point": attack.point,
        "edits": attack.edits,
        "poisoned": attack.poisoned,
        "members": attack.members,
        "votes": attack.votes,
        "before": attack.before,
        "after": attack.after,
    }
