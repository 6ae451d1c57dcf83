"""Functions of the language about votes: what a change of the training set reaches, and shares."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np

from . import schemes
from .ballots import NEVER, Ballots, read_ballots
from .counting import (
    FAR,
    Counts,
    Flags,
    Stake,
    Votes,
    counts_of,
    show_no_more_lost,
    show_sum,
)
from .numbers import Rejected, need
from .threats import (
    THREATS,
    is_spread,
    reach_of,
    refuse_for_edits,
    refuse_for_relabels,
    rests_on,
    withstood,
)
from .values import Given, Range, Text

Kind = Literal[
    "dpa",
    "thresholds",
    "ss_dpa",
    "finite_aggregation",
    "hash_bagging",
    "run_off",
    "spread_run_off",
]

_MOST_LABELS = 500
"""Most labels of a run-off, which compares all pairs of them."""

SUMMED = ("batches", "uppers", "taken", "counted")
"""Arrays of a proof by a sum."""


@dataclass(frozen=True)
class Scheme:
    """A way of turning votes into answers: what attacks on them demand, and closed forms.

    Reach, quota and price are said by ballots: offsets, families and thresholds.
    """

    answer: Callable[[Vote], Counts]
    demands: Callable[[Vote, Flags, int, int], Stake]  # of points, with a budget; see `Vote.stake`
    radii: Callable[[Vote], Counts]  # what answers survive, by a closed form
    forcing: Callable[[Vote, int, int], Stake] | None = None  # of one point, a label, a budget
    radii_to: Callable[[Vote, int], Counts] | None = None
    spread: bool = False  # a unit may reach several members; the closed form is what is published
    families: bool = False  # a unit is in a family, each of which has the quota
    run_off: bool = False  # there are two rounds


@dataclass(frozen=True, eq=False)
class Vote:
    """Ballots that are counted by a scheme."""

    kind: Kind
    ballots: Ballots  # their origin includes declarations about their hash
    threat: str = "edits"  # for members with thresholds: the kind of change counted
    _radii_to: dict[int, Counts] = field(default_factory=dict)

    @property
    def scheme(self) -> Scheme:
        """The scheme."""
        return SCHEMES[self.kind]

    @property
    def offsets(self) -> tuple[int, ...]:
        """Unit u of an attack reaches the members ``(u + offset) mod members``."""
        return self.ballots.origin.offsets or (0,)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Units of each family, concatenated: an edit reaches one of these members."""
        return self.ballots.origin.families if self.scheme.families else (self.ballots.parts,)

    @property
    def cast(self) -> tuple[Votes, int]:
        """Votes and the number of labels."""
        return self.ballots.votes, self.ballots.labels

    @property
    def election(self) -> tuple[Votes, schemes.Scores, int]:
        """Votes, scores and the number of labels."""
        need(self.ballots.scores is not None, f"{self.ballots.source} has no scores")
        assert self.ballots.scores is not None
        return self.ballots.votes, self.ballots.scores, self.ballots.labels

    @cached_property
    def answers(self) -> Counts:
        """The answers, shape (points,)."""
        return self.scheme.answer(self)

    @cached_property
    def right(self) -> Flags:
        """Whether each answer is correct."""
        right: Flags = self.answers == self.ballots.truth
        return right

    @cached_property
    def withstood(self) -> tuple[schemes.Thresholds, schemes.Thresholds]:
        """The changes that each vote of a member with thresholds withstands, and that suffice."""
        return withstood(self.ballots, self.threat)

    @cached_property
    def label_radii(self) -> Counts:
        """The units that never let a label pass the answer, by a closed form."""
        return schemes.label_radii(*self.cast, self.offsets, self.sizes)

    @cached_property
    def radii(self) -> Counts:
        """The edits that each answer survives by a closed form, shape (points,)."""
        return self.scheme.radii(self)

    def radii_to(self, target: int) -> Counts:
        """Return how many edits never make a label the answer, where a closed form knows it."""
        if target not in self._radii_to and self.scheme.radii_to is not None:
            self._radii_to[target] = self.scheme.radii_to(self, target)
        return self._radii_to[target]

    @property
    def most_useful(self) -> int:
        """The most changes that are of use to an attack."""
        if self.kind == "thresholds":
            return int(self.withstood[0].max(axis=(0, 2)).astype(np.int64).sum())
        return max(self.sizes)

    def stake(self, counted: Flags, budget: int, surely: bool = False) -> Stake:
        """Return what attacks on the correct answers at some points demand.

        With ``surely``, by thresholds that are known to suffice.
        """
        return self.scheme.demands(self, counted & self.right, budget, int(surely))

    def stake_at(self, point: int, budget: int, target: int | None = None) -> Stake:
        """Return what attacks demand to change one answer; with a target, to make it the answer."""
        held, at = self.ballots, [point]
        scores = None if held.scores is None else held.scores[at]
        thresholds = None if held.thresholds is None else held.thresholds[at]
        one = replace(
            held, votes=held.votes[at], truth=held.truth[at], scores=scores, thresholds=thresholds
        )
        alone = Vote(self.kind, one, self.threat)
        alone.__dict__.update(answers=self.answers[at], radii=self.radii[at])
        if target is None:
            return self.scheme.demands(alone, np.ones(1, np.bool_), budget, 1)
        assert self.scheme.forcing is not None
        return self.scheme.forcing(alone, target, budget)

    def bounds(self, given: Given) -> tuple[Counts, Counts]:
        """Return bounds of how many edits each answer survives, shape (points,)."""
        if self.scheme.spread:
            return np.maximum(self.radii, self._survivals(given)), self._attack_bounds(given)
        if self.kind == "thresholds" and self.withstood[0] is not self.withstood[1]:
            return self.radii, schemes.threshold_radii(*self.cast, self.withstood[1])
        return self.radii, self.radii

    def bounds_to(self, target: int, given: Given) -> tuple[Counts, Counts]:
        """Return bounds of how many edits never make a label the answer.

        -1 where it is the answer already.
        """
        name = "hash bagging" if self.scheme.families else "run-offs of spread parts"
        wrong = f"how many changes force one answer cannot be checked for {name}"
        need(self.kind not in ("hash_bagging", "spread_run_off"), wrong)
        if self.kind == "finite_aggregation":
            # To become the answer, the label must at least pass the present answer.
            low = np.maximum(self.label_radii[:, target], self._survivals(given, target))
            high = self._attack_bounds(given, target)
        elif self.kind == "thresholds":
            low, high = self._forcing_bounds(target, given)
        else:
            exact = self.radii_to(target)
            return exact, exact
        answered = self.answers == target
        return np.where(answered, -1, low), np.where(answered, -1, high)

    def _survivals(self, given: Given, target: int | None = None) -> Counts:
        """Return how many units each answer survives according to a proof, or else 0.

        With a target, how many never make it the answer. Each pair of labels is shown by itself.
        """
        held = self.ballots
        found = np.zeros(held.points, np.int64)
        if "survived" in given.proof:
            said = given.array("survived", np.int64, 2)
            need(said.shape[1] == 2, "its list of what answers survive is not pairs of numbers")
        elif "logs" in given.proof:  # of earlier versions: point, label, edits
            logs = given.array("logs", np.int64, 2)
            need(logs.shape[1] == 5, "its logs of hash values do not match the ballots")
            said = np.unique(logs[:, [0, 2]], axis=0)
        else:
            return found
        for point, edits in said.tolist():
            inside = 0 <= point < held.points and 0 <= edits <= held.parts
            need(
                inside, f"its proof is for an invalid test point {point} or number of edits {edits}"
            )
            stake = self.stake_at(point, edits, target)
            pairs = np.arange(len(stake.points))
            try:
                for pair in pairs:
                    show_no_more_lost(stake.of_pairs(pairs == pair), 0, given.ask)
            except Rejected as error:
                raise Rejected(
                    f"it is not shown that test point {point} survives {edits} edits: {error}"
                ) from None
            found[point] = max(found[point], edits)
        return found

    def _attack_bounds(self, given: Given, target: int | None = None) -> Counts:
        """Return upper bounds of the hash values each answer survives, from attacks: (points,)."""
        held = self.ballots
        # Poisoning everything changes any answer.
        most = np.full(held.points, held.parts - 1, np.int64)
        if "attacks" not in given.proof:
            return most
        attacks, values = given.array("attacks", np.int64, 2), given.array("values", np.int32)
        need(attacks.shape[1] == 2, "its attacks are not pairs of numbers")
        wrong, start = "changes no answer" if target is None else "does not force the answer", 0
        for point, count in attacks.tolist():
            own = values[start : start + count] if count >= 0 else values[:0]
            start += max(count, 0)
            need(
                0 <= point < held.points and len(own) == count,
                f"an attack is on an invalid test point {point}, or does not "
                f"have {count} hash values",
            )
            need(
                (own >= 0) & (own < held.parts),
                f"an attack on test point {point} uses a hash value that does not exist",
            )
            distinct = np.unique(own).astype(np.int64)
            stake = self.stake_at(point, len(distinct), target)
            falls = len(stake.lost_points(distinct)) or self.answers[point] == target
            need(falls, f"an attack on test point {point} {wrong}")
            most[point] = min(most[point], len(distinct) - 1)
        return most

    def _forcing_bounds(self, target: int, given: Given) -> tuple[Counts, Counts]:
        """Return bounds of the changes that never force an answer of members with thresholds.

        Votes that make the label win bound the cost from above. If thresholds are not exact, fewer
        than b changes never cause a vote, and other numbers suffice.
        """
        held, (too_little, enough) = self.ballots, self.withstood
        low, high = np.zeros(held.points, np.int64), np.full(held.points, FAR)
        if "prices" not in given.proof:
            return low, high
        places, prices = given.array("points", np.int64), given.array("prices", np.int64, 3)
        cast, own = given.array("votes", np.int32, 2), len(places)
        fits = prices.shape[::2] == (own, held.labels) and cast.shape == (own, held.parts)
        need(fits, "its prices and votes do not match the ballots")
        there = ((places >= 0) & (places < held.points)).all()
        there &= ((cast >= 0) & (cast < held.labels)).all()
        need(there, "its votes are for labels or test points that do not exist")
        for at, point in enumerate(places.tolist()):
            costs = too_little[point].astype(np.int64)
            low[point] = max(low[point], schemes.forcing_cost(costs, target, prices[at]) - 1)
            paid = enough[point].astype(np.int64)[np.arange(held.parts), cast[at]]
            wins = np.bincount(cast[at], minlength=held.labels).argmax() == target
            if wins and (paid != NEVER).all():
                high[point] = min(high[point], int(paid.sum()) - 1)
        return low, high


def _plurality_demands(vote: Vote, counted: Flags, budget: int, known: int) -> Stake:
    return schemes.plurality_stake(*vote.cast, counted, budget, vote.offsets, vote.sizes)


def _plurality_forcing(vote: Vote, target: int, budget: int) -> Stake:
    ballot, labels = vote.ballots.votes[0], vote.ballots.labels
    return schemes.forcing_stake(ballot, labels, budget, target, vote.offsets)


def _threshold_demands(vote: Vote, counted: Flags, budget: int, known: int) -> Stake:
    votes, labels = vote.cast
    return schemes.threshold_stake(votes, vote.withstood[known], labels, counted, budget)


def _run_off_demands(vote: Vote, counted: Flags, budget: int, known: int) -> Stake:
    edits = np.full(vote.ballots.points, budget, np.int64)
    falls = schemes.run_off_falls
    near = vote.radii < budget if vote.scheme.spread else falls(*vote.election, edits)
    at = np.flatnonzero(counted & near)
    return schemes.run_off_stake(*vote.election, vote.answers, at, budget, vote.offsets)


def _run_off_forcing(vote: Vote, target: int, budget: int) -> Stake:
    one = vote.answers, np.zeros(1, np.int64)
    return schemes.run_off_stake(*vote.election, *one, budget, vote.offsets, target)


_PLURALITY = Scheme(
    answer=lambda vote: schemes.answers_of(counts_of(*vote.cast)),
    demands=_plurality_demands,
    forcing=_plurality_forcing,
    radii=lambda vote: schemes.plurality_radii(*vote.cast),
    radii_to=lambda vote, target: schemes.plurality_radii_to(*vote.cast, target),
)
_SPREAD = replace(_PLURALITY, radii=lambda vote: vote.label_radii.min(axis=1), radii_to=None)
_RUN_OFF = Scheme(
    answer=lambda vote: schemes.run_off_answers(*vote.election),
    demands=_run_off_demands,
    forcing=_run_off_forcing,
    radii=lambda vote: schemes.run_off_radii(*vote.election),
    radii_to=lambda vote, target: schemes.run_off_radii(*vote.election, target),
    run_off=True,
)

SCHEMES: dict[Kind, Scheme] = {
    "dpa": _PLURALITY,
    "ss_dpa": _PLURALITY,
    "finite_aggregation": replace(_SPREAD, spread=True),
    "hash_bagging": replace(_SPREAD, families=True, forcing=None),
    "thresholds": replace(
        _PLURALITY,
        demands=_threshold_demands,
        forcing=None,
        radii=lambda vote: schemes.threshold_radii(*vote.cast, vote.withstood[0]),
        radii_to=None,
    ),
    "run_off": _RUN_OFF,
    "spread_run_off": replace(
        _RUN_OFF,
        radii=lambda vote: schemes.published_run_offs(*vote.election, vote.answers, vote.offsets),
        forcing=None,
        radii_to=None,
        spread=True,
    ),
}
"""Each scheme: one more is one more entry."""


def ballots(given: Given) -> Ballots:
    """Read ballots, with the statement's declarations about their hash; they must be consistent."""
    read = read_ballots(given.file())
    origin, said = read.origin, dict[str, Any]()
    word = given.word("hash", "label_independent", "reads_label")
    if word is not None:
        said["hash_reads_label"] = reads = word == "reads_label"
        agrees = origin.hash_reads_label in (None, reads)
        need(agrees, f"{read.source} contradicts 'hash = {word}'")
        given.tell(f"{read.source}: taken on trust: hash = {word}")
    for name in ("offsets", "families"):
        if given.values.get(name) is not None:
            said[name] = listed = _whole_numbers(given, name)
            own = getattr(origin, name)
            agrees = own == () or (set(own) == set(listed) if name == "offsets" else own == listed)
            need(agrees, f"{read.source} has {name} other than {list(listed)}")
            given.tell(f"{read.source}: taken on trust: {name} = {list(listed)}")
    return replace(read, origin=replace(origin, **said)) if said else read


def _whole_numbers(given: Given, name: str) -> tuple[int, ...]:
    """Return a list argument as integers."""
    listed = given.values[name]
    if not isinstance(listed, tuple) or not all(isinstance(each, Range) for each in listed):
        raise Rejected(f"'{name}' is not a list of numbers")
    known = [each.exact_value for each in listed]
    if not all(each.denominator == 1 for each in known):
        raise Rejected(f"'{name}' contains a number that is not whole")
    return tuple(each.numerator for each in known)


def _fit_for_edits(given: Given, **expected: bool) -> Ballots:
    held = _ballots(given)
    refuse_for_edits(held, **expected)
    return held


def dpa(given: Given) -> Vote:
    """Read ballots of a partition; members may themselves survive some edits."""
    certified = given.word("members", "fragile", "certified") == "certified"
    held = _fit_for_edits(given, certified=certified)
    if not certified:
        return Vote("dpa", held)
    need(held.thresholds is not None, f"{held.source} has no thresholds")
    return Vote("thresholds", held)


def ss_dpa(given: Given) -> Vote:
    """Read ballots of members that see all samples and the labels of a part."""
    held = _ballots(given)
    refuse_for_relabels(held)
    return Vote("ss_dpa", held)


def finite_aggregation(given: Given) -> Vote:
    """Read ballots of members over which each sample is spread."""
    held = _fit_for_edits(given, spread=True)
    need(held.origin.offsets != (), f"{held.source}: the offsets of its hash are not known")
    given.word("certificate", "exact", "published")
    return Vote("finite_aggregation", held)


def hash_bagging(given: Given) -> Vote:
    """Read ballots of families; an edit reaches one member of each."""
    held = _fit_for_edits(given, families=True)
    need(held.origin.families != (), f"{held.source}: the families of its members are not known")
    return Vote("hash_bagging", held)


def run_off(given: Given) -> Vote:
    """Read ballots with scores, for run-offs."""
    held = _fit_for_edits(given, spread=True)
    if held.scores is None:
        raise Rejected(f"{held.source} has no scores, which a run-off needs")
    schemes.refuse_scores(held.votes, held.scores, held.source)
    if held.labels > _MOST_LABELS:
        raise Rejected(f"{held.source}: {held.labels} labels are too many for a run-off")
    given.word("certificate", "exact", "published")
    if not is_spread(held):
        return Vote("run_off", held)
    need(held.origin.offsets != (), f"{held.source}: the offsets of its hash are not known")
    return Vote("spread_run_off", held)


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
    if not others.any():
        raise Rejected(f"{vote.ballots.source}: every point is already answered {target}")
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
    return range(_ballots(given).points)


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
    if vote.kind != "thresholds":
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
        len(units) <= budget,
        f"its attack changes {len(units)} parts; at most {budget} are allowed",
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
    vote = given.values.get("votes")
    if not isinstance(vote, Vote):
        raise Rejected("'votes' is not a vote")
    counted = [threat for threat in THREATS if threat in given.values]
    threat = counted[0] if counted else given.word("against", *THREATS)
    if not threat or vote.kind != "thresholds" or threat == vote.threat:
        return vote
    return Vote(vote.kind, vote.ballots, threat)


def threat_of(given: Given, vote: Vote) -> int:
    """Return how many parts a call's changes reach, and report why."""
    counted = [threat for threat in THREATS if threat in given.values]
    need(len(counted) == 1, "expected exactly one kind of change")
    return _reported_reach(given, vote, counted[0]) * given.whole(counted[0])


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
    return given.value_of_kind("ballots", Ballots, "table of ballots")


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
    if not counted.any():
        raise Rejected(f"{vote.ballots.source} has no test point with true label {label}")
    return counted


def label_of(given: Given, name: str, held: Ballots) -> int | None:
    """Return a label given by number or name; None if absent."""
    value, names = given.values.get(name), held.origin.label_names
    if value is None:
        return None
    if isinstance(value, Text):
        found = [label for label, each in enumerate(names) if each == value.value]
        if len(found) != 1:
            raise Rejected(f"{held.source} does not have exactly one label {value.value!r}")
        return found[0]
    label = given.whole(name)
    if label >= held.labels:
        raise Rejected(f"{held.source} has no label {label}")
    if names and names[label] != str(label) and str(label) in names:
        raise Rejected(f"{held.source}: {label} is the number of one label and the name of another")
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
