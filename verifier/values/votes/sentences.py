"""Sentences on votes: reach of a change, attacks and curves."""

from __future__ import annotations

import numpy as np

from leaveout.arrays import Bools
from leaveout.bab.votes.collective import CollectiveBounds
from leaveout.kernel.counting import FAR
from leaveout.kernel.threats import rests_on
from leaveout.specs.deciders import Curve, Evidence
from leaveout.verifier.amounts import count_noun
from leaveout.verifier.values.votes.attacks import Attack
from leaveout.verifier.values.votes.targets import Toward
from leaveout.verifier.values.votes.vote import Cost, Radii, Vote, label_with_name
from leaveout.written import first_few

_MOST_POINTS = 200  # of a curve
_LISTED = 12
_SECONDS = 60.0  # for an attack that shows a refutation


def note_of(vote: Vote, threat: str, cost: Cost) -> str:
    """Return notes on what one change reaches, why, and on which assumptions."""
    parts = f"{count_noun(cost.parts, 'part')} of the training set"
    if vote.unit != "part":
        parts += f" and {cost.parts * len(vote.ballots.origin.offsets)} members"
    elif vote.scheme.families:
        parts = f"{count_noun(cost.parts, 'part')} of each of {len(vote.counted.sizes)} families"
    reach = f"{threat}: each changes at most {parts}: {cost.why}"
    group = vote.ballots.origin.group_words
    reach += f"; {group}" if group else ""
    return "\n".join((reach, *rests_on(vote.counted.ballots, vote.scheme.relabels)))


def chosen_note(vote: Vote) -> str:
    """Return a note on what a joint attack assumes of members with thresholds."""
    if not vote.scheme.priced:
        return ""
    return (
        "\nan attack on all points uses the thresholds of each point separately: refuted means "
        "that they do not rule it out; it is not shown that the same changes of a part produce "
        "all the votes of its member"
    )


def untargeted_evidence(
    vote: Vote, radii: Radii, counted: Bools, threat: str, count: int, edits: int
) -> Evidence:
    """Return which points fall to an attack each, and the hardest one's attack."""
    falls = np.flatnonzero(counted & radii.right & (radii.upper < edits))
    words = _wrong(vote, counted)
    if not len(falls):
        return Evidence(words)
    words += f"{'; ' if words else ''}{len(falls):,} correct ones fall to {count:,} {threat}"
    attack = vote.attack(int(falls[radii.upper[falls].argmax()]), _SECONDS)
    if attack is None or attack.edits > edits:
        return Evidence(words)
    return Evidence(f"{words}, such as {_attack(vote, attack)}", _facts(attack))


def attack_evidence(vote: Vote, point: int) -> Evidence:
    """Return an attack on one point."""
    attack = vote.attack(point, _SECONDS)
    return Evidence() if attack is None else Evidence(_attack(vote, attack), _facts(attack))


def targeted_evidence(
    known: Toward, radii: Radii, counted: Bools, threat: str, count: int, edits: int
) -> Evidence:
    """Return how many points can be forced to a label, and an attack on one."""
    falls = np.flatnonzero(counted & (radii.upper < edits))
    if not len(falls):
        return Evidence()
    label = label_with_name(known.vote.ballots, known.target)
    words = (
        f"{len(falls):,} of {count_noun(int(np.count_nonzero(counted)), 'point')} can be made to "
        f"answer {label} with {count:,} {threat}"
    )
    attack = known.attack(int(falls[radii.upper[falls].argmax()]))
    if attack is None or attack.edits > edits:
        return Evidence(words)
    return Evidence(f"{words}, such as {_attack(known.vote, attack)}", _facts(attack))


def targeted_attack_evidence(known: Toward, point: int) -> Evidence:
    """Return an attack that forces one point to a label."""
    attack = known.attack(point)
    if attack is not None:
        return Evidence(_attack(known.vote, attack), _facts(attack))
    ballots = known.vote.ballots
    if known.vote.predictions[point] != known.target:
        return Evidence()
    words = (
        f"test point {point} is answered {label_with_name(ballots, known.target)} without "
        "any change"
    )
    return Evidence(words, {"point": point, "answer": known.target})


def collective_evidence(vote: Vote, counted: Bools, attack: CollectiveBounds) -> Evidence:
    """Return the counted points that one joint attack loses."""
    words = _wrong(vote, counted)
    if attack.lost:
        points = count_noun(len(attack.lost), "point")
        words += f"{'; ' if words else ''}poisoning {_hit(vote, attack.units)} "
        # Thresholds of single points do not say that one change of a part does it at all of them.
        words += "may lose" if vote.scheme.priced else "loses"
        words += f" {points}: {first_few(attack.lost, _LISTED)}"
        if vote.scheme.priced:
            words += ", as far as thresholds of single points show"
    return Evidence(words, {"poisoned": attack.units, "lost": attack.lost})


def curve_of(vote: Vote, radii: Radii, counted: Bools, threat: str, cost: Cost) -> Curve:
    """Return certified accuracy by number of changes, up to its end."""
    radii = radii.of(counted)
    known = np.where(radii.upper == FAR, radii.lower, radii.upper)
    reached = known[radii.right & (known != FAR)]
    end = int(reached.max(initial=0)) // cost.parts + 1
    at = tuple(sorted({round(end * i / _MOST_POINTS) for i in range(_MOST_POINTS + 1)}))
    shares = [radii.accuracy(cost.parts * count) for count in at]
    return Curve(
        name=vote.name + _of_label(vote, counted),
        value="certified accuracy",
        unit=threat,
        at=at,
        lower=tuple(float(share.lower) for share in shares),
        upper=tuple(float(share.upper) for share in shares),
    )


def _wrong(vote: Vote, counted: Bools) -> str:
    wrong, points = int(np.count_nonzero(counted & ~vote.right)), int(np.count_nonzero(counted))
    of = _of_label(vote, counted).replace(",", " of", 1)
    return f"{wrong:,} of {points:,} points{of} are already answered incorrectly" if wrong else ""


def _of_label(vote: Vote, counted: Bools) -> str:
    """Return the phrase for the counted points' label, if not all points count."""
    if counted.all():
        return ""
    return f", label {label_with_name(vote.ballots, int(vote.ballots.truth[counted][0]))}"


def _attack(vote: Vote, attack: Attack) -> str:
    unit = "relabel" if vote.scheme.relabels else "edit"
    if vote.scheme.priced:
        unit = vote.threat.removesuffix("s")
    turn = "turns" if attack.edits == 1 else "turn"
    return (
        f"test point {attack.point}: {count_noun(attack.edits, unit)} in "
        f"{_hit(vote, attack.poisoned)} {turn} label "
        f"{label_with_name(vote.ballots, attack.before)} into "
        f"{label_with_name(vote.ballots, attack.after)}"
    )


def _hit(vote: Vote, units: tuple[int, ...]) -> str:
    again = [f"{unit} ({units.count(unit)} times)" for unit in dict.fromkeys(units)]
    if len(again) < len(units):
        return f"part{'s' * (len(again) != 1)} {first_few(again, _LISTED)}"
    return f"{vote.unit}{'s' * (len(units) != 1)} {first_few(units, _LISTED)}"


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
