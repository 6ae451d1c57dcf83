"""Functions about votes, as the checker computes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.kernel.values import Given, Range, Text
from leaveout.models.ballots import Ballots, read_ballots
from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.voting.plurality import FAR, Counts, Flags
from leaveout.verifier.checker.voting.run_offs import (
    RunOffsAtStake,
    TooManyError,
    no_more_run_offs_lost,
    refuse_scores,
    run_off_falls,
    run_offs_at_stake,
    run_offs_lost_to,
)
from leaveout.verifier.checker.voting.thresholds import (
    change_of,
    lost_to_changes,
    no_more_bought,
    prices_of,
)
from leaveout.verifier.checker.voting.together import (
    WHOLE,
    WORK,
    AtStake,
    TooLongError,
    at_stake,
    lost_to,
    no_more_lost,
    shares_of,
    starts_of,
)
from leaveout.verifier.checker.voting.vote import Vote

THREATS = ("edits", "insertions", "removals", "modifications", "relabels")


def reach_of(ballots: Ballots, kind: str, threat: str) -> tuple[int, str]:
    """Return the most parts that one change reaches, and why.

    A sample is in the part selected by its hash, whatever else the training set contains. So
    inserting or removing a sample changes one part; a modification removes and inserts, perhaps in
    two parts; a relabelled sample stays in its part if the hash does not read the label.
    """
    if kind == "thresholds":
        return change_of(ballots, threat)
    if kind == "ss_dpa" and threat != "relabels":
        raise RejectedError(f"members that all see every sample do not withstand {threat}")
    if threat in ("edits", "insertions", "removals"):
        return 1, "the sample is in the part that its hash selects"
    if threat == "modifications":
        return 2, "it is a removal and an insertion, and the sample may move to another part"
    if kind == "ss_dpa" and ballots.origin.method in (None, "ss_dpa"):
        return 1, "members see all samples, but the labels of their own part only"
    reads = ballots.origin.hash_reads_label
    if reads is None:
        raise RejectedError(
            f"{ballots.source} does not state whether its hash reads labels, so it is not known "
            "what a relabel reaches"
        )
    if reads:
        return 2, "the hash reads the label, so the sample may move to another part"
    return 1, "the hash does not read the label, so the sample stays in its part"


def is_spread(ballots: Ballots) -> bool:
    """Return whether a sample may reach several members."""
    return ballots.origin.method == "finite_aggregation" or len(ballots.origin.offsets) > 1


def refuse_for_edits(
    ballots: Ballots, *, spread: bool = False, certified: bool = False, families: bool = False
) -> None:
    """Refuse ballots where one edit reaches more members than expected."""
    method = ballots.origin.method
    if not certified:
        _refuse_alone(ballots)
    if method == "ss_dpa":
        raise RejectedError(f"{ballots.source}: one edit reaches all of its members (SS-DPA)")
    if is_spread(ballots) and not spread:
        raise RejectedError(
            f"{ballots.source}: one edit reaches several of its members (Finite Aggregation)"
        )
    several = method == "hash_bagging" or len(ballots.origin.families) > 1
    if several and not families:
        raise RejectedError(f"{ballots.source}: one edit reaches several members (hash bagging)")


def refuse_for_relabels(ballots: Ballots) -> None:
    """Refuse ballots where one relabel may reach more than one member."""
    _refuse_alone(ballots)
    origin, source = ballots.origin, ballots.source
    if origin.hash_reads_label:
        raise RejectedError(f"{source}: its hash reads labels, so a relabel may move a sample")
    if origin.distinct_samples is False:
        raise RejectedError(f"{source}: some rows of the training set are one sample")
    if is_spread(ballots):
        raise RejectedError(f"{source}: one relabel reaches several of its members")
    if origin.method == "hash_bagging" or len(origin.families) > 1:
        raise RejectedError(f"{source}: one relabel reaches a member of each of its families")


def _refuse_alone(ballots: Ballots) -> None:
    if ballots.parts == 1:
        raise RejectedError(
            f"{ballots.source}: has 1 part, so one change could change every answer"
        )


def rests_on(ballots: Ballots, kind: str) -> list[str]:
    """Return the unchecked assumptions about the ballots' origin, one per line."""
    origin, name, found = ballots.origin, ballots.source, []
    if origin.method is None:
        found.append(
            "how the members were trained; that a sample reaches no other members than stated"
        )
    if kind == "ss_dpa":
        if origin.hash_reads_label is None:
            found.append("a relabelled sample stays in its part")
        if origin.distinct_samples is None:
            found.append("no two rows of the training set are one sample")
    found += [each.text for each in origin.assumptions if not each.checked]
    return [f"{name}: taken on trust: {each}" for each in found]


_MOST_LABELS = 500
"""Most labels of a run-off, which compares all pairs of them."""


def ballots(given: Given) -> Ballots:
    """Read ballots, with the statement's declarations about their hash; they must be consistent."""
    read = read_ballots(given.file().path)
    origin, said = read.origin, dict[str, object]()
    word = given.word("hash", "label_independent", "reads_label")
    if word is not None:
        reads = word == "reads_label"
        if origin.hash_reads_label not in (None, reads):
            raise RejectedError(f"{read.source} contradicts 'hash = {word}'")
        said["hash_reads_label"] = reads
        given.tell(f"{read.source}: taken on trust: hash = {word}")
    if given.values.get("offsets") is not None:
        offsets = _whole_numbers(given, "offsets")
        if set(origin.offsets) not in (set(), set(offsets)):
            raise RejectedError(f"{read.source} has offsets other than {list(offsets)}")
        said["offsets"] = offsets
        given.tell(f"{read.source}: taken on trust: offsets = {list(offsets)}")
    if given.values.get("families") is not None:
        families = _whole_numbers(given, "families")
        if origin.families not in ((), families):
            raise RejectedError(f"{read.source} has families other than {list(families)}")
        said["families"] = families
        given.tell(f"{read.source}: taken on trust: families = {list(families)}")
    return replace(read, origin=msgspec.structs.replace(origin, **said)) if said else read


def _whole_numbers(given: Given, name: str) -> tuple[int, ...]:
    """Return a list argument as integers."""
    listed = given.values[name]
    if not isinstance(listed, tuple) or not all(isinstance(each, Range) for each in listed):
        raise RejectedError(f"'{name}' is not a list of numbers")
    known = [each.exact_value for each in listed]
    if not all(each.denominator == 1 for each in known):
        raise RejectedError(f"'{name}' contains a number that is not whole")
    return tuple(each.numerator for each in known)


def dpa(given: Given) -> Vote:
    """Read ballots of a partition; members may themselves survive some edits."""
    held = _ballots(given)
    certified = given.word("members", "fragile", "certified") == "certified"
    refuse_for_edits(held, certified=certified)
    if not certified:
        return Vote("dpa", held)
    if held.thresholds is None:
        raise RejectedError(f"{held.source} has no thresholds")
    return Vote("thresholds", held)


def ss_dpa(given: Given) -> Vote:
    """Read ballots of members that see all samples and the labels of a part."""
    held = _ballots(given)
    refuse_for_relabels(held)
    return Vote("ss_dpa", held)


def finite_aggregation(given: Given) -> Vote:
    """Read ballots of members over which each sample is spread."""
    held = _ballots(given)
    refuse_for_edits(held, spread=True)
    if not held.origin.offsets:
        raise RejectedError(f"{held.source}: the offsets of its hash are not known")
    given.word("certificate", "exact", "published")
    return Vote("finite_aggregation", held)


def hash_bagging(given: Given) -> Vote:
    """Read ballots of families; an edit reaches one member of each."""
    held = _ballots(given)
    refuse_for_edits(held, families=True)
    if not held.origin.families:
        raise RejectedError(f"{held.source}: the families of its members are not known")
    return Vote("hash_bagging", held)


def run_off(given: Given) -> Vote:
    """Read ballots with scores, for run-offs."""
    held = _ballots(given)
    refuse_for_edits(held, spread=True)
    if held.scores is None:
        raise RejectedError(f"{held.source} has no scores, which a run-off needs")
    refuse_scores(held.votes, held.scores, held.source)
    if held.labels > _MOST_LABELS:
        raise RejectedError(f"{held.source}: {held.labels} labels are too many for a run-off")
    given.word("certificate", "exact", "published")
    if not is_spread(held):
        return Vote("run_off", held)
    if not held.origin.offsets:
        raise RejectedError(f"{held.source}: the offsets of its hash are not known")
    return Vote("spread_run_off", held)


def certified_accuracy(given: Given) -> Range:
    """Return the share of points answered correctly under any changes, one point at a time."""
    vote = vote_of(given)
    # An answer that survives any number of changes has the radius `FAR`.
    edits = min(threat_of(given, vote), FAR)
    counted, right = counted_of(given, vote), vote.right
    lower, upper = vote.bounds(given.proof, edits)
    return share_of((right & (lower >= edits))[counted], (right & (upper >= edits))[counted])


def targeted_robustness(given: Given) -> Range:
    """Return the share of points with other answers that no changes turn into a given label."""
    vote = vote_of(given)
    edits = min(threat_of(given, vote), FAR)
    target = label_of(given, "to", vote.ballots)
    if target is None:
        raise RejectedError("'to' is missing")
    others = counted_of(given, vote) & (vote.answers != target)
    if not others.any():
        raise RejectedError(f"{vote.ballots.source}: every point is already answered {target}")
    lower, upper = vote.bounds_to(target, given.proof)
    return share_of((lower >= edits)[others], (upper >= edits)[others])


def median_radius(given: Given) -> Range:
    """Return how many changes half of the test points survive with correct answers; -1 for none."""
    vote = vote_of(given)
    parts = _unit(given, vote)
    counted = counted_of(given, vote)
    among, points = vote.right & counted, int(np.count_nonzero(counted))
    low, high = (_median(radii[among], points) for radii in vote.bounds(given.proof))
    return _changes(low, high, parts)


def radius(given: Given) -> Range:
    """Return how many changes leave the answer at a test point unchanged."""
    vote = vote_of(given)
    parts, point = _unit(given, vote), _point(given, vote)
    target = label_of(given, "to", vote.ballots)
    if target is None:
        lower, upper = vote.bounds(given.proof)
    else:
        lower, upper = vote.bounds_to(target, given.proof)
    return _changes(int(lower[point]), int(upper[point]), parts)


def answered_right(given: Given) -> bool:
    """Return whether a test point is answered with its true label."""
    vote = vote_of(given)
    return bool(vote.right[_point(given, vote)])


def test_points(given: Given) -> range:
    """Return the numbers of the test points."""
    return range(_ballots(given).points)


def vote_of(given: Given) -> Vote:
    """Return the vote of a call."""
    vote = given.values.get("votes")
    if not isinstance(vote, Vote):
        raise RejectedError("'votes' is not a vote")
    counted = [threat for threat in THREATS if threat in given.values]
    threat = counted[0] if counted else given.word("against", *THREATS)
    return replace(vote, threat=threat) if threat and vote.kind == "thresholds" else vote


def threat_of(given: Given, vote: Vote) -> int:
    """Return how many parts a call's changes reach, and report why."""
    counted = [threat for threat in THREATS if threat in given.values]
    if len(counted) != 1:
        raise RejectedError("expected exactly one kind of change")
    (threat,) = counted
    return _reported_reach(given, vote, threat) * given.whole(threat)


def _unit(given: Given, vote: Vote) -> int:
    own = "relabels" if vote.kind == "ss_dpa" else "edits"
    return _reported_reach(given, vote, given.word("against", *THREATS) or own)


def _reported_reach(given: Given, vote: Vote, threat: str) -> int:
    """Return how many parts one change reaches, and report why."""
    parts, why = reach_of(vote.ballots, vote.kind, threat)
    most = f"{parts} part{'s' * (parts != 1)} of "
    most += (
        f"each of {len(vote.sizes)} families" if vote.kind == "hash_bagging" else "the training set"
    )
    given.tell(f"{threat}: each changes at most {most}: {why}")
    for line in rests_on(vote.ballots, vote.kind):
        given.tell(line)
    return parts


def _ballots(given: Given) -> Ballots:
    held = given.values.get("ballots")
    if not isinstance(held, Ballots):
        raise RejectedError("'ballots' is not a table of ballots")
    return held


def _point(given: Given, vote: Vote) -> int:
    point = given.values.get("point")
    if type(point) is not int or not 0 <= point < vote.ballots.points:
        raise RejectedError(f"{vote.ballots.source} has no such test point")
    return point


def counted_of(given: Given, vote: Vote) -> Flags:
    """Return which test points count, shape (points,): all, or those of one true label."""
    label = label_of(given, "label", vote.ballots)
    if label is None:
        return np.ones(vote.ballots.points, np.bool_)
    counted: Flags = vote.ballots.truth == label
    if not counted.any():
        raise RejectedError(f"{vote.ballots.source} has no test point with true label {label}")
    return counted


def label_of(given: Given, name: str, held: Ballots) -> int | None:
    """Return a label given by number or name; None if absent."""
    value, names = given.values.get(name), held.origin.label_names
    if value is None:
        return None
    if isinstance(value, Text):
        found = [label for label, each in enumerate(names) if each == value.value]
        if len(found) != 1:
            raise RejectedError(f"{held.source} does not have exactly one label {value.value!r}")
        return found[0]
    label = given.whole(name)
    if label >= held.labels:
        raise RejectedError(f"{held.source} has no label {label}")
    if names and names[label] != str(label) and str(label) in names:
        raise RejectedError(
            f"{held.source}: {label} is the number of one label and the name of another"
        )
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


SUMMED = ("batches", "uppers", "taken", "counted")
"""Arrays of a proof by a sum."""

_ONE = 256
"""The weight 1, in integer units."""

_LEAST = 1e8
"""Least limit on the numbers processed per batch."""


def most_summed(stake: AtStake, proof: Mapping[str, NDArray[Any]], work: float = WORK) -> int:
    """Return an upper bound of the points that one attack can lose."""
    points = np.unique(stake.points)
    batches, uppers, taken, counted = (proof[name].astype(np.int64) for name in SUMMED)
    if batches.shape != points.shape or counted.shape != points.shape:
        raise RejectedError(f"its sum covers {batches.shape} points, but {len(points)} can be lost")
    if uppers.ndim != 1 or taken.shape != uppers.shape:
        raise RejectedError("its sum does not have one bound per batch")
    if not ((batches >= -1) & (batches < len(uppers))).all():
        raise RejectedError("its sum has points in batches that do not exist")
    if not all(((each >= 0) & (each < 2**16)).all() for each in (uppers, taken, counted)):
        raise RejectedError("its sum has numbers out of range")
    own = max(_LEAST, work / max(1, len(uppers)))
    for number in np.flatnonzero(taken).tolist():
        inside = points[batches == number]
        upper = int(uppers[number])
        if upper < len(inside) and not no_more_lost(stake.only(inside), upper, own):
            raise RejectedError(
                f"its sum states that a batch loses at most {upper} points, but it can lose more"
            )
    missing = np.maximum(_ONE - counted - np.append(taken, 0)[batches], 0)
    total = (int(missing.sum()) + int(taken @ uppers)) * WHOLE
    if counted.any():
        total += _heaviest(stake, counted)
    return total // (_ONE * WHOLE)


def _heaviest(stake: AtStake, counted: NDArray[np.int64]) -> int:
    """Return the most that the allowed poisoned units can weigh, by weighted shares."""
    shares = shares_of(
        stake.of_units(stake.gains),
        stake.needs,
        starts_of(stake.points),
        sum(stake.quotas),
        plain=len(stake.offsets) == 1,
    )
    weights = shares.astype(np.int64) @ counted
    total = 0
    for number, quota in enumerate(stake.quotas):
        total += int(np.sort(weights[stake.family == number])[::-1][:quota].sum())
    return total


Truth = NDArray[np.int32]


def known_collective(given: Given, vote: Vote) -> Range:
    """Return the share of test points that stay correct under any one attack on all of them.

    The proof has ``units``, each part repeated for each of its changes, and ``upper``, the most
    points that an attack loses. Either may be missing. If it has the arrays of a sum, ``upper`` is
    for the losses of batches of points.
    """
    held, changes = vote.ballots, threat_of(given, vote)
    counted = counted_of(given, vote)
    # A point that does not count has no existing label, so it cannot be lost.
    truth = np.where(counted, held.truth, np.int32(-1))
    right, points = int(np.count_nonzero(vote.right & counted)), int(np.count_nonzero(counted))
    too_little, _ = vote.withstood
    # Changes beyond each member's largest threshold are of no use.
    budget = min(changes, int(too_little.max(axis=(0, 2)).astype(np.int64).sum()))
    lost = _threshold_attack_loss(given, vote, truth, budget)
    most = _most_with_thresholds(given, vote, truth, counted, budget)
    if lost > most:
        raise AssertionError(f"an attack loses {lost} points, although at most {most} can be lost")
    return Range(Fraction(right - most, points), Fraction(right - lost, points))


def _threshold_attack_loss(given: Given, vote: Vote, truth: Truth, budget: int) -> int:
    """Return the loss of a proof's attack, by thresholds known to suffice."""
    if "units" not in given.proof:
        return 0
    held, units = vote.ballots, given.array("units", np.int64)
    if len(units) > budget or not ((units >= 0) & (units < held.parts)).all():
        raise RejectedError(
            f"its attack changes {len(units)} parts, or an invalid one; at most "
            f"{budget} are allowed"
        )
    _, enough = vote.withstood
    return int(
        np.count_nonzero(lost_to_changes(held.votes, truth, enough, held.labels, units.tolist()))
    )


def _most_with_thresholds(
    given: Given, vote: Vote, truth: Truth, counted: NDArray[np.bool_], budget: int
) -> int:
    """Return an upper bound of the points one attack can lose, by thresholds known to be needed."""
    assert vote.radii is not None
    held = vote.ballots
    alone = np.flatnonzero(vote.right & counted & (vote.radii < budget))
    if "upper" not in given.proof:
        return len(alone)
    upper = int(given.array("upper", np.int64, 0))
    if not 0 <= upper <= held.points:
        raise RejectedError(
            f"its proof states that {upper} points can be lost, which is impossible"
        )
    if upper >= len(alone):
        return len(alone)
    batches = [(alone, upper)]
    if all(name in given.proof for name in SUMMED):
        batches = _batches(given, alone)
    try:
        for inside, most in batches:
            own = np.where(np.isin(np.arange(held.points), inside), truth, np.int32(-1))
            prices = prices_of(held.votes, own, vote.withstood[0], held.labels, budget)
            if most < len(inside) and not no_more_bought(prices, most):
                said = f"its proof states that no attack loses more than {most}"
                raise RejectedError(f"{said}, but one does")
    except TooLongError:
        raise RejectedError(
            f"it takes too long to check that no attack loses more than {upper} points"
        ) from None
    total = sum(min(most, len(inside)) for inside, most in batches)
    if total > upper:
        raise RejectedError(
            f"its proof states that at most {upper} points are lost, but its sum is {total}"
        )
    return total


def _batches(given: Given, alone: NDArray[np.int64]) -> list[tuple[NDArray[np.int64], int]]:
    """Return batches of points, and the stated loss of each."""
    batches, uppers = given.array("batches", np.int64), given.array("uppers", np.int64)
    if batches.shape != alone.shape or (uppers < 0).any():
        raise RejectedError(f"its sum covers {len(batches)} points, but {len(alone)} can be lost")
    found = [(alone[batches == number], int(upper)) for number, upper in enumerate(uppers)]
    others = alone[(batches < 0) | (batches >= len(uppers))]
    return [*found, (others, len(others))]


def run_offs_of(vote: Vote, truth: NDArray[np.integer[Any]], budget: int) -> RunOffsAtStake:
    """Return the correct answers that ``budget`` units could change, with what that requires."""
    held = vote.ballots
    assert held.scores is not None
    if vote.kind == "run_off":
        edits = np.full(held.points, budget, np.int64)
        near = run_off_falls(held.votes, held.scores, held.labels, edits)
    else:
        near = vote.bounds({})[0] < budget
    points = np.flatnonzero((vote.answers == truth) & near)
    return run_offs_at_stake(
        held.votes, held.scores, held.labels, vote.answers, points, budget, vote.offsets
    )


def run_offs_counted(vote: Vote, truth: NDArray[np.integer[Any]], members: Sequence[int]) -> int:
    """Return how many correct answers change if an attacker sets some members' votes and scores."""
    held = vote.ballots
    assert held.scores is not None
    lost = run_offs_lost_to(held.votes, held.scores, held.labels, vote.answers, members)
    return int(np.count_nonzero(lost & (vote.answers == truth)))


def collective_accuracy(given: Given) -> Range:
    """Return the share of test points that stay correct under any one attack on all of them.

    The proof has ``units``, the parts (for Finite Aggregation: hash values) that the worst attack
    poisons, and ``upper``, the most points that an attack loses. Either may be missing. If it also
    has the arrays of a sum, these prove ``upper`` instead of a search.
    """
    vote = vote_of(given)
    if vote.kind == "thresholds":
        return known_collective(given, vote)
    held = vote.ballots
    budget = min(threat_of(given, vote), max(vote.sizes))
    counted = counted_of(given, vote)
    # A point that does not count has no existing label, so it cannot be lost.
    truth = np.where(counted, held.truth, np.int32(-1))
    right, points = int(np.count_nonzero(vote.right & counted)), int(np.count_nonzero(counted))
    lost = _attack_loss(given, vote, truth, budget)
    most = _most(given, vote, truth, budget)
    if lost > most:
        raise AssertionError(f"an attack loses {lost} points, although at most {most} can be lost")
    return Range(Fraction(right - most, points), Fraction(right - lost, points))


def _attack_loss(given: Given, vote: Vote, truth: Truth, budget: int) -> int:
    """Return how many points a proof's attack loses."""
    if "units" not in given.proof:
        return 0
    held, units = vote.ballots, given.array("units", np.int64)
    distinct = np.unique(units)
    if not ((distinct >= 0) & (distinct < held.parts)).all():
        raise RejectedError(
            f"its attack poisons units that are not among the {held.parts} that exist"
        )
    family = np.repeat(np.arange(len(vote.sizes)), vote.sizes)
    spent = np.bincount(family[distinct])
    if spent.max(initial=0) > budget:
        each = " of each family" if len(vote.sizes) > 1 else ""
        raise RejectedError(
            f"its attack poisons {spent.max()} units of {held.parts}, but at most {budget}{each} "
            "are allowed"
        )
    members = np.unique((distinct[:, None] + np.array(vote.offsets)) % held.parts)
    if vote.is_run_off:
        return run_offs_counted(vote, truth, members.tolist())
    return int(np.count_nonzero(lost_to(held.votes, truth, held.labels, members.tolist())))


def _most(given: Given, vote: Vote, truth: Truth, budget: int) -> int:
    """Return an upper bound of the points that one attack can lose."""
    held = vote.ballots
    try:
        stake = (
            run_offs_of(vote, truth, budget)
            if vote.is_run_off
            else at_stake(held.votes, truth, held.labels, budget, vote.offsets, vote.sizes)
        )
    except TooManyError:
        raise RejectedError("run-offs can be lost in too many ways to check") from None
    if "upper" not in given.proof:
        return stake.count
    claimed = given.array("upper", np.int64, 0)
    upper = int(claimed)
    if not 0 <= upper <= held.points:
        raise RejectedError(
            f"its proof states that {upper} points can be lost, which is impossible"
        )
    try:
        if isinstance(stake, RunOffsAtStake):
            holds = no_more_run_offs_lost(stake, upper)
        elif all(name in given.proof for name in SUMMED):
            shown = most_summed(stake, given.proof)
            if shown > upper:
                raise RejectedError(
                    f"its proof states that at most {upper} points are lost, but its sum is {shown}"
                )
            return min(shown, stake.count)
        else:
            holds = no_more_lost(stake, upper)
        if not holds:
            raise RejectedError(
                f"its proof states that no attack loses more than {upper}, but one does"
            )
    except TooLongError:
        raise RejectedError(
            f"it takes too long to check that no attack loses more than {upper} points"
        ) from None
    return min(upper, stake.count)
