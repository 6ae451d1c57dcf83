"""The radius of a plurality is that of the cheapest of all attacks."""

from __future__ import annotations

import numpy as np
import pytest

from leaveout.kernel.counting import FAR
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.schemes import threshold_radii
from leaveout.kernel.threats import reach_of
from leaveout.models.ballots import UNREACHABLE, Ballots, Origin

from support.counted import plurality_radii, recounted, tally, vote_of_arrays
from support.depth import rounds
from support.votes import every_count, every_vote, random_ballots


def shapes(rng, cases):
    for _ in range(cases):
        yield int(rng.integers(2, 10)), int(rng.integers(2, 6))


def test_radius_is_that_of_every_attack_enumerated():
    rng = np.random.default_rng(0)
    for parts, labels in shapes(rng, 3_000):
        votes, _ = random_ballots(rng, 1, parts, labels)
        before = np.bincount(votes[0], minlength=labels)
        after = every_count(parts, labels)
        # However members move, at least as many change as labels gain votes, and so many suffice.
        changed = np.maximum(after - before, 0).sum(axis=1)
        cheapest = changed[after.argmax(axis=1) != before.argmax()].min()
        assert plurality_radii(tally(votes, labels)).tolist() == [cheapest - 1]


def test_radius_is_that_of_every_vote_of_every_member():
    rng = np.random.default_rng(1)
    for _ in range(300):
        parts, labels = [(3, 5), (4, 4), (6, 3), (9, 2), (5, 4)][int(rng.integers(5))]
        votes, _ = random_ballots(rng, 1, parts, labels)
        others = every_vote(parts, labels)
        counts = np.stack([(others == label).sum(axis=1) for label in range(labels)], axis=1)
        answer = np.bincount(votes[0], minlength=labels).argmax()
        cost = (others != votes[0]).sum(axis=1)[counts.argmax(axis=1) != answer].min()
        assert plurality_radii(tally(votes, labels)).tolist() == [cost - 1]


@pytest.mark.parametrize(
    ("votes", "labels", "answer", "radius"),
    [
        ([1, 1, 1, 1], 2, 1, 1),  # with 2 edits label 0 ties and wins the tie
        ([0, 0, 0, 0], 2, 0, 2),  # while here a tie changes nothing
        ([1, 1, 0], 3, 1, 0),
        ([2, 1, 0], 3, 0, 0),
        ([0, 1], 2, 0, 0),
    ],
)
def test_ties_go_to_the_smaller_label(votes, labels, answer, radius):
    tallied = tally(np.array([votes], np.int32), labels)
    assert tallied.predictions.tolist() == [answer]
    assert plurality_radii(tallied).tolist() == [radius]


def test_one_part_more_than_the_radius_changes_the_answer():
    rng = np.random.default_rng(2)
    for parts, labels in shapes(rng, rounds(1_000)):
        votes, _ = random_ballots(rng, 3, parts, labels)
        tallied = tally(votes, labels)
        radii = plurality_radii(tallied)
        for point in range(3):
            attack = vote_of_arrays("dpa", votes, labels).attack(point)
            assert attack.edits == len(set(attack.members)) == radii[point] + 1
            assert attack.before == tallied.predictions[point]
            assert recounted(votes[point], labels, attack) == attack.after != attack.before


def thresholds_of(rng, votes, labels, *, never):
    thresholds = rng.integers(1, 5, (*votes.shape, labels)).astype(np.int32)
    thresholds[rng.random(thresholds.shape) < never] = UNREACHABLE
    np.put_along_axis(thresholds, votes[:, :, None], 0, axis=2)
    return thresholds


def test_knapsack_is_the_cheapest_of_every_attack():
    rng = np.random.default_rng(3)
    unbounded = 0
    for _ in range(rounds(3_000)):
        parts, labels = [(4, 4), (3, 5), (5, 3), (7, 2), (2, 5), (6, 3), (9, 2)][rng.integers(7)]
        votes, _ = random_ballots(rng, 1, parts, labels)
        thresholds = thresholds_of(rng, votes, labels, never=rng.choice([0, 0.2, 0.8]))
        tallied = tally(votes, labels)
        others = every_vote(parts, labels)
        counts = np.stack([(others == label).sum(axis=1) for label in range(labels)], axis=1)
        costs = thresholds[0][np.arange(parts), others]
        possible = (costs != UNREACHABLE).all(axis=1)
        wrong = possible & (counts.argmax(axis=1) != tallied.predictions[0])
        cheapest = int(costs.sum(axis=1)[wrong].min()) if wrong.any() else FAR + 1
        radius = int(threshold_radii(votes, labels, thresholds)[0])
        assert radius == min(cheapest - 1, FAR)
        attack = vote_of_arrays("thresholds", votes, labels, thresholds=thresholds)
        attack = attack.against("edits")[0].attack(0)
        if attack is None:
            unbounded += 1
            assert cheapest == FAR + 1
            continue
        assert attack.edits == cheapest
        assert recounted(votes[0], labels, attack) == attack.after != attack.before
        spent = np.bincount(np.array(attack.poisoned), minlength=parts)
        paid = thresholds[0][list(attack.members), list(attack.votes)]
        assert (paid <= spent[list(attack.members)]).all()
        assert (paid > 0).all()
    assert unbounded > rounds(30)


def test_members_that_survive_nothing_make_a_plain_plurality():
    rng = np.random.default_rng(4)
    for parts, labels in shapes(rng, 200):
        votes, _ = random_ballots(rng, 4, parts, labels)
        thresholds = np.ones((*votes.shape, labels), np.int32)
        np.put_along_axis(thresholds, votes[:, :, None], 0, axis=2)
        radii = threshold_radii(votes, labels, thresholds)
        assert radii.tolist() == plurality_radii(tally(votes, labels)).tolist()


def test_what_a_change_reaches_follows_from_the_hash():
    def parts(threat, reads):
        origin = Origin(hash_reads_label=reads)
        held = Ballots(np.zeros((1, 2), np.int32), np.zeros(1, np.int32), 2, origin=origin)
        try:
            return reach_of(held, False, threat)[0]
        except Rejected:
            return None

    for threat in ("edits", "insertions", "removals"):
        assert [parts(threat, reads) for reads in (None, True, False)] == [1, 1, 1]
    assert [parts("modifications", reads) for reads in (None, True, False)] == [2, 2, 2]
    assert [parts("relabels", reads) for reads in (None, True, False)] == [None, 2, 1]
