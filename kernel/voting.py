"""Schemes of voting, declared, and votes that are counted by one: what their answers survive."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from . import schemes
from .ballots import NEVER, Ballots
from .counting import FAR, Counts, Flags, Stake, Votes, counts_of, show_no_more_lost
from .numbers import Rejected, need
from .threats import change_of, is_spread, reach_of, refuse_misfits, withstood
from .values import Given

_MOST_LABELS = 500  # most labels of a run-off, which compares all pairs of them


@dataclass(frozen=True)
class Scheme:
    """A way of turning votes into answers, and the function of the language that does so.

    Reach, quota and price are said by ballots: offsets, families and thresholds. What the general
    rule says of demands and radii may be said by a closed form instead.
    """

    says: str = ""  # of its function, in a sentence
    rule: schemes.Rule = schemes.PLURALITY
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of its function
    variant_of: str = ""  # the scheme whose function counts so where `applies` says it
    applies: Callable[[Ballots, Mapping[str, str | None]], bool] = lambda held, options: True
    spread: bool = False  # a unit may reach several members; the closed form is what is published
    families: bool = False  # a unit is in a family, each of which has the quota
    priced: bool = False  # members have thresholds
    relabels: bool = False  # members see all samples, so that only relabels are withstood
    run_off: bool = False  # there are two rounds
    answer: Callable[[Vote], Counts] = lambda vote: vote.scheme.rule.answer(counts_of(*vote.cast))
    demands: Callable[[Vote, Flags, int, int], Stake] = (  # of points, a budget; see `Vote.stake`
        lambda vote, counted, budget, known: schemes.counted_stake(
            *vote.cast, counted, budget, vote.offsets, vote.sizes, vote.scheme.rule
        )
    )
    radii: Callable[[Vote], Counts] = lambda vote: vote.label_radii.min(axis=1)
    published: Callable[[Vote], Counts] | None = None  # what is published, if other than `radii`
    forcing: Callable[[Vote, int, int], Stake] | None = None  # of one point, a label, a budget
    radii_to: Callable[[Vote, int], Counts] | None = None

    def need_parts(self, held: Ballots) -> None:
        """Refuse ballots that lack what is counted."""
        alone = ", or use dpa if each point reaches one member"
        for lacking, said in (
            (
                self.spread and not held.origin.offsets,
                "the offsets of the spread hash are not known; write ballots(..., offsets = "
                f"[0, 3, 7]){alone * (not self.run_off)}",
            ),
            (
                self.families and not held.origin.families,
                "the number of members in each family of hash bagging is not known; write "
                f"ballots(..., families = [50, 50]){alone}",
            ),
            (
                self.priced and held.thresholds is None,
                "no thresholds of members; add an array 'thresholds' (points, parts, labels), or "
                "remove 'members = certified'",
            ),
            (self.run_off and held.scores is None, "no scores, which a run-off needs"),
            (
                self.run_off and held.labels > _MOST_LABELS,
                f"{held.labels:,} labels; a run-off compares every three of them, so at most "
                f"{_MOST_LABELS} are supported",
            ),
        ):
            need(not lacking, f"{held.source}: {said}")


@dataclass(frozen=True, eq=False)
class Vote:
    """Ballots that are counted by a scheme."""

    kind: str  # among `SCHEMES`
    ballots: Ballots  # their origin includes declarations about their hash
    threat: str = "edits"  # for members with thresholds: the kind of change counted
    _radii_to: dict[int, Counts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.scheme.need_parts(self.ballots)

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

    def reach_of(self, threat: str) -> tuple[int, str]:
        """Return the most parts that one change of a kind reaches, and why."""
        if self.scheme.priced:
            return change_of(self.ballots, threat)
        return reach_of(self.ballots, self.scheme.relabels, threat)

    @cached_property
    def label_radii(self) -> Counts:
        """The units that never let a label change the answer, by a closed form."""
        return schemes.label_radii(*self.cast, self.offsets, self.sizes, self.scheme.rule)

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
        if self.scheme.priced:
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
        if self.scheme.priced and self.withstood[0] is not self.withstood[1]:
            return self.radii, schemes.threshold_radii(*self.cast, self.withstood[1])
        return self.radii, self.radii

    def bounds_to(self, target: int, given: Given) -> tuple[Counts, Counts]:
        """Return bounds of how many edits never make a label the answer.

        -1 where it is the answer already.
        """
        if self.scheme.priced:
            low, high = self._forcing_bounds(target, given)
        elif self.scheme.forcing is None:
            raise Rejected(f"how many changes force one answer cannot be checked for {self.kind}")
        elif self.scheme.radii_to is None:
            # To become the answer, the label must at least pass the present answer.
            low = np.maximum(self.label_radii[:, target], self._survivals(given, target))
            high = self._attack_bounds(given, target)
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


def _plurality_forcing(vote: Vote, target: int, budget: int) -> Stake:
    ballot, labels = vote.ballots.votes[0], vote.ballots.labels
    return schemes.forcing_stake(ballot, labels, budget, target, vote.offsets)


def _threshold_demands(vote: Vote, counted: Flags, budget: int, known: int) -> Stake:
    votes, labels = vote.cast
    return schemes.threshold_stake(votes, vote.withstood[known], labels, counted, budget)


def _run_off_demands(vote: Vote, counted: Flags, budget: int, known: int) -> Stake:
    at = np.flatnonzero(counted & (vote.radii < budget))
    return schemes.run_off_stake(*vote.election, vote.answers, at, budget, vote.offsets)


def _run_off_forcing(vote: Vote, target: int, budget: int) -> Stake:
    one = vote.answers, np.zeros(1, np.int64)
    return schemes.run_off_stake(*vote.election, *one, budget, vote.offsets, target)


def _published_run_offs(vote: Vote) -> Counts:
    return schemes.published_run_offs(*vote.election, vote.answers, vote.offsets)


_EXACT = {"certificate": ("exact", "published")}

_PARTS = Scheme(
    says="The majority of base classifiers trained on parts of the training set; 'certified' "
    "members survive the edits that the thresholds of the ballots state.",
    options={"members": ("fragile", "certified")},
    forcing=_plurality_forcing,
    radii_to=lambda vote, target: schemes.plurality_radii_to(*vote.cast, target),
)
_RUN_OFF = Scheme(
    says="A run-off between the two labels with the most votes, by the members' scores, over parts "
    "or spread parts; certified exactly, or by the published bound.",
    options=_EXACT,
    run_off=True,
    answer=lambda vote: schemes.run_off_answers(*vote.election),
    demands=_run_off_demands,
    radii=lambda vote: schemes.run_off_radii(*vote.election),
    published=_published_run_offs,
    forcing=_run_off_forcing,
    radii_to=lambda vote, target: schemes.run_off_radii(*vote.election, target),
)

SCHEMES: dict[str, Scheme] = {
    "dpa": _PARTS,
    "ss_dpa": replace(
        _PARTS,
        says="The majority of base classifiers that each see all points and the labels of a part.",
        options={},
        relabels=True,
    ),
    "finite_aggregation": Scheme(
        says="The majority of base classifiers where every training point is spread to several; "
        "certified exactly, or by the published bound.",
        options=_EXACT,
        spread=True,
        forcing=_plurality_forcing,
    ),
    "hash_bagging": Scheme(
        says="The majority of base classifiers of several families, each trained on parts of the "
        "whole training set, so that an edit reaches one of each family.",
        families=True,
    ),
    "thresholds": Scheme(
        variant_of="dpa",
        applies=lambda held, options: options.get("members") == "certified",
        priced=True,
        demands=_threshold_demands,
        radii=lambda vote: schemes.threshold_radii(*vote.cast, vote.withstood[0]),
    ),
    "run_off": _RUN_OFF,
    "spread_run_off": replace(
        _RUN_OFF,
        variant_of="run_off",
        applies=lambda held, options: is_spread(held),
        spread=True,
        radii=_published_run_offs,
        published=None,
        forcing=None,
        radii_to=None,
    ),
}
"""Each scheme: one more is one more entry, from which its function of the language follows."""

FUNCTIONS = {name: each for name, each in SCHEMES.items() if not each.variant_of}
"""The functions of the language that count ballots."""


def kind_of(function: str, held: Ballots, options: Mapping[str, str | None]) -> str:
    """Return the scheme by which a function counts ballots; refuse those that it does not fit."""
    variants = ((kind, each) for kind, each in SCHEMES.items() if each.variant_of == function)
    kind = next((kind for kind, each in variants if each.applies(held, options)), function)
    own = SCHEMES[kind]
    refuse_misfits(held, own.spread, own.priced, own.families, own.relabels)
    return kind
