"""The kernel's radii of pluralities are those of every attack there is."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np

from leaveout.kernel.counting import FAR, counts_of
from leaveout.kernel.schemes import answers_of, label_radii, threshold_radii

from support.depth import enough, rounds
from support.votes import random_ballots


def answered(ballot, labels):
    return max(range(labels), key=lambda label: (list(ballot).count(label), -label))


def test_answers_are_counted_and_ties_go_to_the_smaller_label():
    rng = np.random.default_rng(0)
    for _ in range(rounds(200)):
        parts, labels = int(rng.integers(2, 9)), int(rng.integers(2, 5))
        votes, _ = random_ballots(rng, 5, parts, labels)
        found = answers_of(counts_of(votes, labels))
        assert found.tolist() == [answered(row, labels) for row in votes]


def test_radii_are_those_of_every_attack():
    rng = np.random.default_rng(1)
    for _ in range(rounds(150)):
        parts, labels = int(rng.integers(2, 7)), int(rng.integers(2, 5))
        votes, _ = random_ballots(rng, 3, parts, labels)
        found = label_radii(votes, labels).min(axis=1)
        for row, radius in zip(votes, found, strict=True):
            assert radius == least_changed(row, labels) - 1


def least_changed(row, labels):
    for count in range(1, len(row) + 1):
        for members in combinations(range(len(row)), count):
            for cast in product(range(labels), repeat=count):
                changed = row.copy()
                changed[list(members)] = cast
                if answered(changed, labels) != answered(row, labels):
                    return count
    raise AssertionError(row)


def test_thresholds_are_spent_in_every_way():
    rng = np.random.default_rng(2)
    never = 0
    for _ in range(rounds(150)):
        parts, labels = int(rng.integers(2, 6)), int(rng.integers(2, 4))
        votes, _ = random_ballots(rng, 4, parts, labels)
        thresholds = rng.integers(1, 6, (4, parts, labels)).astype(np.int32)
        thresholds[rng.random(thresholds.shape) < 0.3] = -1
        np.put_along_axis(thresholds, votes[:, :, None], 0, axis=2)
        found = threshold_radii(votes, labels, thresholds)
        for row, costs, radius in zip(votes, thresholds, found, strict=True):
            least = FAR + 1
            for cast in product(range(labels), repeat=parts):
                spent = costs[np.arange(parts), list(cast)]
                if (spent >= 0).all() and answered(cast, labels) != answered(row, labels):
                    least = min(least, int(spent.sum()))
            assert radius == least - 1
            never += radius == FAR
    assert never > enough(10)
