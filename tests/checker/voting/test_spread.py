"""Logs of Finite Aggregation: an accepted one is about what no attack does."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from leaveout.kernel.counting import show_no_more_lost
from leaveout.kernel.schemes import counted_stake, label_radii
from leaveout.verifier.certify.votes import answer as hints_of

from support.counted import finite_exact, passing_stake
from support.kernel_trees import no_more_lost, random_log, rejects


def passes(ballot, labels, offsets, values, target):
    """Whether a label passes the answer once all members reached vote for it."""
    answer = int(np.bincount(ballot, minlength=labels).argmax())
    reached = {(value + offset) % len(ballot) for value in values for offset in offsets}
    counts = np.bincount(
        [target if i in reached else vote for i, vote in enumerate(ballot)], minlength=labels
    )
    return counts[target] > counts[answer] or (counts[target] == counts[answer] and target < answer)


def cases(seed, count):
    """Votes that mostly agree, where hash values that share members are what decides."""
    rng = np.random.default_rng(seed)
    for turn in range(count):
        members, labels = int(rng.integers(7, 20)), int(rng.integers(2, 4))
        offsets = tuple(rng.choice(members, members // 3, replace=False).tolist())
        if turn % 2:
            members, offsets = 19, (0, 3, 4, 14, 16)
        ballot = np.full(members, rng.integers(labels), np.int32)
        some = rng.choice(members, int(rng.integers(3)), replace=False)
        ballot[some] = rng.integers(0, labels, len(some))
        yield rng, ballot, labels, offsets


def fewest(ballot, labels, offsets, target):
    members = len(ballot)
    for count in range(members + 1):
        for values in combinations(range(members), count):
            if passes(ballot, labels, offsets, values, target):
                return count
    raise AssertionError


def test_logs_are_written_and_accepted_of_exactly_what_no_attack_does():
    rows = 0
    for rng, ballot, labels, offsets in cases(0, 80):
        answer = int(np.bincount(ballot, minlength=labels).argmax())
        published = label_radii(ballot[None], labels, offsets)[0]
        for target in range(labels):
            if target == answer:
                continue
            least = fewest(ballot, labels, offsets, target)
            assert published[target] < least
            stake = passing_stake(ballot, labels, target, least - 1, offsets)
            assert no_more_lost(stake, 0)
            own = dict(hints_of("tree", {**stake.arrays, "upper": np.array(0)}))
            rows += len(own.get("counts", ()))
            # Nobody's log proves what is false: not this one, and not a random one.
            stake = passing_stake(ballot, labels, target, least, offsets)
            for _ in range(3):
                assert rejects(stake, 0, own)
                assert rejects(stake, 0, random_log(rng, 400, len(ballot)))
    assert rows > 20


def test_attacks_are_recounted():
    for _, ballot, labels, offsets in cases(1, 60):
        answer = int(np.bincount(ballot, minlength=labels).argmax())
        others = [label for label in range(labels) if label != answer]
        for values in combinations(range(len(ballot)), 2):
            expected = any(passes(ballot, labels, offsets, values, each) for each in others)
            stake = counted_stake(ballot[None], labels, np.ones(1, np.bool_), 2, offsets)
            assert bool(len(stake.lost_points(np.array(values)))) == expected


def test_larger_radii_are_proved_again():
    rng = np.random.default_rng(2)
    beyond = 0
    for _ in range(15):
        members, labels = 100, 3
        votes = np.where(rng.random((1, members)) < 0.7, 0, rng.integers(0, labels, (1, members)))
        votes = votes.astype(np.int32)
        offsets = np.sort(rng.choice(members, 16, replace=False))
        radius = int(finite_exact(votes, labels, offsets, seconds=3)[0][0])
        published = label_radii(votes, labels, tuple(offsets.tolist()))[0]
        for target in np.flatnonzero(published < radius).tolist():
            spots = tuple(offsets.tolist())
            stake = passing_stake(votes[0], labels, target, radius, spots)
            show_no_more_lost(stake, 0, hints_of)
            beyond += 1
    assert beyond > 3
