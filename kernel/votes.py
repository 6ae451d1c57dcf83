"""Functions of the language about votes: what a change of the training set reaches, and shares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from . import schemes
from .ballots import Ballots, read_ballots
from .counting import FAR, Counts, Flags, Stake, show_no_more_lost, show_sum
from .numbers import Rejected, need
from .threats import THREATS, rests_on
from .values import Given, Range, Text
from .voting import SCHEMES, Vote, kind_of

SUMMED = ("batches", "uppers", "taken", "counted")
"""Arrays of a proof by a sum."""


def ballots(given: Given) -> Ballots:
    """Read ballots, with the statement's declarations about their hash; they must be consistent."""
    read = read_ballots(given.file())
    word = given.word("hash", "label_independent", "reads_label")
    lists = {
        name: _whole_numbers(given, name)
        for name in ("offsets", "families")
        if given.values.get(name) is not None
    }
    if word is not None:
        given.tell(f"{read.source}: taken on trust: hash = {word}")
    for name, listed in lists.items():
        given.tell(f"{read.source}: taken on trust: {name} = {list(listed)}")
    return replace(read, origin=replace(read.origin, **declarations(read, word, lists)))


def declarations(held: Ballots, word: str | None, lists: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a statement declares of a hash; refuse what ballots contradict."""
    origin, source, said = held.origin, held.source, dict[str, Any](lists)
    if word is not None:
        said["hash_reads_label"] = reads = word == "reads_label"
        file = "reads" if origin.hash_reads_label else "does not read"
        need(
            origin.hash_reads_label in (None, reads),
            f"{source} states that its hash {file} labels, but the specification states the "
            "opposite; remove 'hash'",
        )
    for name, listed in lists.items():
        own = getattr(origin, name)
        agrees = own == () or (set(own) == set(listed) if name == "offsets" else own == listed)
        need(
            agrees,
            f"{source} has the {name} {list(own)}, but the specification has {list(listed)}; "
            f"remove '{name}'",
        )
    return said


def _whole_numbers(given: Given, name: str) -> tuple[int, ...]:
    """Return a list argument as integers."""
    listed = given.values[name]
    if not isinstance(listed, tuple) or not all(isinstance(each, Range) for each in listed):
        raise Rejected(f"'{name}' is not a list of numbers")
    known = [each.exact_value for each in listed]
    whole = all(each.denominator == 1 for each in known)
    need(whole, f"'{name}' contains a number that is not whole")
    return tuple(each.numerator for each in known)


def count_ballots(function: str, given: Given) -> Vote:
    """Read ballots that a function counts; refuse those that its scheme does not fit."""
    held = given.value_of_kind("ballots", Ballots, "table of ballots")
    words = {name: given.word(name, *each) for name, each in SCHEMES[function].options.items()}
    kind = kind_of(function, held, words)
    if SCHEMES[kind].run_off and held.scores is not None:
        schemes.refuse_scores(held.votes, held.scores, held.source)
    return Vote(kind, held)


def certified_accuracy(given: Given) -> Range:
    """Return the share of points answered correctly under any changes, one point at a time."""
    vote = vote_of(given)
    # An answer that survives any number of changes has the radius `FAR`.
    edits = min(threat_of(given, vote), FAR)
    counted, right = counted_of(given, vote), vote.right
    lower, upper = vote.bounds(given)
    return share_of((right & (lower >= edits))[counted], (right & (upper >= edits))[counted])


def targeted_robustness(given: Given) -> Range:
    """Return the share of points with other answers that no changes turn into a given label."""
    vote = vote_of(given)
    edits = min(threat_of(given, vote), FAR)
    target = label_of(given, "to", vote.ballots)
    if target is None:
        raise Rejected("'to' is missing")
    others = counted_of(given, vote) & (vote.answers != target)
    need(others.any(), f"{vote.ballots.source}: every point is already answered {target}")
    lower, upper = vote.bounds_to(target, given)
    return share_of((lower >= edits)[others], (upper >= edits)[others])


def median_radius(given: Given) -> Range:
    """Return how many changes half of the test points survive with correct answers; -1 for none."""
    vote = vote_of(given)
    parts = _unit(given, vote)
    counted = counted_of(given, vote)
    among, points = vote.right & counted, int(np.count_nonzero(counted))
    low, high = (_median(radii[among], points) for radii in vote.bounds(given))
    return _changes(low, high, parts)


def radius(given: Given) -> Range:
    """Return how many changes leave the answer at a test point unchanged."""
    vote = vote_of(given)
    parts, point = _unit(given, vote), _point(given, vote)
    target = label_of(given, "to", vote.ballots)
    lower, upper = vote.bounds(given) if target is None else vote.bounds_to(target, given)
    return _changes(int(lower[point]), int(upper[point]), parts)


def answered_right(given: Given) -> bool:
    """Return whether a test point is answered with its true label."""
    vote = vote_of(given)
    return bool(vote.right[_point(given, vote)])


def test_points(given: Given) -> range:
    """Return the numbers of the test points."""
    return range(given.value_of_kind("ballots", Ballots, "table of ballots").points)


def collective_accuracy(given: Given) -> Range:
    """Return the share of test points that stay correct under any one attack on all of them.

    The proof has ``units``, an attack (parts or hash values; with thresholds a part once for each
    of its changes), and ``upper``, the most points that an attack loses; either may be missing.
    With the arrays of a sum, ``upper`` is the sum of what batches of points lose.
    """
    vote = vote_of(given)
    held, changes = vote.ballots, threat_of(given, vote)
    counted = counted_of(given, vote)
    right, points = int(np.count_nonzero(vote.right & counted)), int(np.count_nonzero(counted))
    budget = min(changes, vote.most_useful)
    stake = vote.stake(counted, budget)
    lost = _attack_loss(given, vote, stake, counted, budget)
    most = _most_lost(given, stake, held.points)
    need(lost <= most, f"an attack loses {lost} points, although at most {most} can be lost")
    return Range(Fraction(right - most, points), Fraction(right - lost, points))


def _attack_loss(given: Given, vote: Vote, stake: Stake, counted: Flags, budget: int) -> int:
    """Return how many points a proof's attack loses, by thresholds known to suffice."""
    if "units" not in given.proof:
        return 0
    held, units = vote.ballots, given.array("units", np.int64)
    need(
        (units >= 0) & (units < held.parts),
        f"its attack poisons units that are not among the {held.parts} that exist",
    )
    if not vote.scheme.priced:
        distinct = np.unique(units)
        family = np.repeat(np.arange(len(vote.sizes)), vote.sizes)
        spent = np.bincount(family[distinct]).max(initial=0)
        each = " of each family" if len(vote.sizes) > 1 else ""
        need(
            spent <= budget,
            f"its attack poisons {spent} units of {held.parts}, but at most {budget}{each} "
            "are allowed",
        )
        return len(stake.lost_points(distinct))
    need(
        len(units) <= budget, f"its attack changes {len(units)} parts; at most {budget} are allowed"
    )
    stake = vote.stake(counted, budget, surely=True)
    return len(stake.lost_points(stake.choices_paid(np.bincount(units, minlength=held.parts))))


def _most_lost(given: Given, stake: Stake, points: int) -> int:
    """Return an upper bound of the points that one attack can lose."""
    if "upper" not in given.proof:
        return stake.count
    upper = int(given.array("upper", np.int64, 0))
    possible = 0 <= upper <= points
    need(possible, f"its proof states that {upper} points can be lost, which is impossible")
    if upper >= stake.count:
        return stake.count
    if all(name in given.proof for name in SUMMED):
        shown = show_sum(stake, given.proof, given.ask)
        stated = f"its proof states that at most {upper} points are lost, but its sum is {shown}"
        need(shown <= upper, stated)
        return min(shown, stake.count)
    try:
        show_no_more_lost(stake, upper, given.ask)
    except Rejected as error:
        raise Rejected(
            f"it is not shown that no attack loses more than {upper} points: {error}"
        ) from None
    return upper


def vote_of(given: Given) -> Vote:
    """Return the vote of a call."""
    vote = given.value_of_kind("votes", Vote, "vote")
    counted = [threat for threat in THREATS if threat in given.values]
    threat = counted[0] if counted else given.word("against", *THREATS)
    if not threat or not vote.scheme.priced or threat == vote.threat:
        return vote
    return Vote(vote.kind, vote.ballots, threat)


def threat_of(given: Given, vote: Vote) -> int:
    """Return how many parts a call's changes reach, and report why."""
    counted = [threat for threat in THREATS if threat in given.values]
    need(len(counted) == 1, "expected exactly one kind of change")
    return _reported_reach(given, vote, counted[0]) * given.whole(counted[0])


def _unit(given: Given, vote: Vote) -> int:
    own = "relabels" if vote.scheme.relabels else "edits"
    return _reported_reach(given, vote, given.word("against", *THREATS) or own)


def _reported_reach(given: Given, vote: Vote, threat: str) -> int:
    """Return how many parts one change reaches, and report why."""
    parts, why = vote.reach_of(threat)
    most = f"{parts} part{'s' * (parts != 1)} of "
    most += f"each of {len(vote.sizes)} families" if vote.scheme.families else "the training set"
    given.tell(f"{threat}: each changes at most {most}: {why}")
    for line in rests_on(vote.ballots, vote.scheme.relabels):
        given.tell(line)
    return parts


def _point(given: Given, vote: Vote) -> int:
    point = given.values.get("point")
    if type(point) is not int or not 0 <= point < vote.ballots.points:
        raise Rejected(f"{vote.ballots.source} has no such test point")
    return point


def counted_of(given: Given, vote: Vote) -> Flags:
    """Return which test points count, shape (points,): all, or those of one true label."""
    label = label_of(given, "label", vote.ballots)
    if label is None:
        return np.ones(vote.ballots.points, np.bool_)
    counted: Flags = vote.ballots.truth == label
    need(counted.any(), f"{vote.ballots.source} has no test point with true label {label}")
    return counted


def label_of(given: Given, name: str, held: Ballots) -> int | None:
    """Return a label given by number or name; None if absent."""
    value, names = given.values.get(name), held.origin.label_names
    if value is None:
        return None
    if isinstance(value, Text):
        found = [label for label, each in enumerate(names) if each == value.value]
        need(len(found) == 1, f"{held.source} does not have exactly one label {value.value!r}")
        return found[0]
    label = given.whole(name)
    need(label < held.labels, f"{held.source} has no label {label}")
    clear = str(label) not in names or names[label] == str(label)
    need(clear, f"{held.source}: {label} is the number of one label and the name of another")
    return label


def share_of(certain: Flags, possible: Flags) -> Range:
    """Return a share between that of the certain points and that of the possible ones."""
    low, high = (Fraction(int(np.count_nonzero(each)), len(each)) for each in (certain, possible))
    return Range(low, high)


def _median(radii: Counts, points: int) -> int:
    """Return the greatest radius that at least half of all points have; -1 if there is none."""
    half = (points + 1) // 2
    return int(np.sort(radii)[len(radii) - half]) if len(radii) >= half else -1


def _changes(low: int, high: int, parts: int) -> Range:
    """Return the range of changes that these numbers of edits allow; -1 stays -1."""
    upper = math.inf if high >= FAR else Fraction(high if high < 0 else high // parts)
    return Range(Fraction(low if low < 0 else low // parts), upper)
