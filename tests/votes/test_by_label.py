"""Shares of one true label are those of a loop over its test points; every label is told."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import msgspec
import numpy as np
import pytest

from leaveout.errors import LeaveoutError
from leaveout.models.votes import Ballots, Origin, write_ballots
from leaveout.verifier.report import Report
from leaveout.verifier.run import verify

from support.votes import random_ballots

NAMES = ("no", "yes", "both")


def answered(ballot, labels):
    return max(range(labels), key=lambda label: (list(ballot).count(label), -label))


def radius(ballot, labels):
    """Fewest members, less one, whose votes for another label change the answer."""
    before = answered(ballot, labels)
    for count in range(1, len(ballot) + 1):
        for members in combinations(range(len(ballot)), count):
            for label in range(labels):
                changed = list(ballot)
                for member in members:
                    changed[member] = label
                if answered(changed, labels) != before:
                    return count - 1
    raise AssertionError(ballot)


def decided(folder, claim, **origin):
    (folder / "a.spec").write_text(f'let V = ballots("b.npz") guarantee g: {claim}')
    return verify(folder / "a.spec")


def kept(folder, votes, truth, labels, **origin):
    write_ballots(Ballots(votes, truth, labels, origin=Origin(**origin)), folder / "b.npz")


def test_every_label_is_told_as_a_loop_over_its_points_counts_it(tmp_path):
    rng = np.random.default_rng(0)
    for _ in range(12):
        parts, labels = int(rng.integers(3, 7)), int(rng.integers(2, 4))
        votes, truth = random_ballots(rng, 14, parts, labels)
        right_one = int(rng.integers(14))
        kept(tmp_path, votes, truth, labels, label_names=NAMES[:labels], undefended_right=right_one)
        edits = int(rng.integers(3))
        call = f"certified_accuracy(dpa(V), edits = {edits}"
        (result,) = decided(tmp_path, f"{call}) >= 0").results
        (record,) = result.accuracies
        answers = [answered(row, labels) for row in votes]
        right = [a == t for a, t in zip(answers, truth, strict=True)]
        safe = [ok and radius(row, labels) >= edits for ok, row in zip(right, votes, strict=True)]
        assert (record.points, record.right, record.undefended_right) == (14, sum(right), right_one)
        assert record.lower == record.upper == sum(safe)
        counts = np.bincount(truth, minlength=labels)
        assert (record.common, record.common_points) == (counts.argmax(), counts.max())
        assert record.common_name == NAMES[counts.argmax()]
        assert [each.label for each in record.labels] == sorted(set(truth.tolist()))
        for each in record.labels:
            own = [at for at in range(14) if truth[at] == each.label]
            assert each.name == NAMES[each.label]
            assert each.points == len(own)
            assert each.right == sum(right[at] for at in own)
            assert each.lower == each.upper == sum(safe[at] for at in own)
            for asked in (f'"{each.name}"', each.label):
                (of_label,) = decided(tmp_path, f"{call}, label = {asked}) >= 0").results
                share = Fraction(each.lower, each.points)
                assert of_label.lower == pytest.approx(float(share), abs=1e-12)
                assert of_label.accuracies[0].labels == (each,)


def test_the_worst_attack_on_one_label_is_another_one_than_on_all(tmp_path):
    # Part 0 or 1 loses the three points of label 1, part 2 the one of label 0.
    votes = np.array([[1, 1, 0]] * 3 + [[0, 1, 0]], np.int32)
    truth = np.array([1, 1, 1, 0], np.int32)
    kept(tmp_path, votes, truth, 2, hash_reads_label=False)
    for label, share in ((1, 0.0), (0, 0.0)):
        call = f"collective_accuracy(dpa(V), edits = 1, label = {label})"
        (result,) = decided(tmp_path, f"{call} <= 0").results
        assert (result.verdict, result.upper) == ("proved", share)
    (together,) = decided(tmp_path, "collective_accuracy(dpa(V), edits = 1) >= 0").results
    (record,) = together.accuracies
    assert record.together
    assert all(each.lower <= each.upper <= each.right for each in record.labels)
    assert record.lower == record.upper == round(4 * together.lower)


@pytest.mark.parametrize(
    "claim",
    [
        'certified_accuracy(dpa(V), edits = 1, label = "yess") >= 0',
        "certified_accuracy(dpa(V), edits = 1, label = 3) >= 0",
        'median_radius(dpa(V), label = "both") >= 0',
        'collective_accuracy(dpa(V), edits = 1, label = "both") >= 0',
        'targeted_robustness(dpa(V), to = "maybe", edits = 1) >= 0',
        'targeted_robustness(dpa(V), to = 1, edits = 1, label = "yes") >= 0',
    ],
)
def test_a_label_that_is_not_there_is_refused_in_a_line(tmp_path, claim, snapshot):
    votes = np.array([[0, 0, 0], [1, 1, 1]], np.int32)
    kept(tmp_path, votes, np.array([0, 1], np.int32), 3, label_names=NAMES)
    with pytest.raises(LeaveoutError) as error:
        decided(tmp_path, claim)
    assert str(error.value) == snapshot


def test_a_number_that_names_another_label_is_refused(tmp_path, snapshot):
    votes = np.array([[0, 0, 0], [1, 1, 1]], np.int32)
    kept(tmp_path, votes, np.array([0, 1], np.int32), 2, label_names=("1", "2"))
    with pytest.raises(LeaveoutError) as told:
        decided(tmp_path, "certified_accuracy(dpa(V), edits = 1, label = 1) >= 0")
    assert str(told.value) == snapshot
    (result,) = decided(tmp_path, 'certified_accuracy(dpa(V), edits = 1, label = "1") >= 0').results
    assert [each.label for each in result.accuracies[0].labels] == [0]


def test_a_find_tells_what_it_found_and_not_what_it_tried(tmp_path):
    votes, truth = random_ballots(np.random.default_rng(2), 9, 9, 2)
    kept(tmp_path, votes, truth, 2)
    (tmp_path / "a.spec").write_text(
        'let V = ballots("b.npz") '
        "find r: greatest r such that certified_accuracy(dpa(V), edits = r) >= 0.1"
    )
    (result,) = verify(tmp_path / "a.spec").results
    assert [each.count for each in result.accuracies] == [result.lower]


def test_results_of_earlier_versions_are_read(tmp_path):
    votes, truth = random_ballots(np.random.default_rng(2), 9, 5, 2)
    kept(tmp_path, votes, truth, 2)
    report = decided(tmp_path, "certified_accuracy(dpa(V), edits = 1) >= 0")
    raw = msgspec.json.decode(report.to_json())
    for each in raw["results"]:
        del each["accuracies"]
    assert msgspec.convert(raw, Report).results[0].accuracies == ()


def test_labels_are_named_in_attacks(tmp_path, snapshot):
    votes, truth = np.zeros((1, 3), np.int32), np.zeros(1, np.int32)
    kept(tmp_path, votes, truth, 2, label_names=NAMES[:2])
    (result,) = decided(tmp_path, "certified_accuracy(dpa(V), edits = 2) >= 1").results
    assert result.example.words == snapshot
    (forced,) = decided(
        tmp_path, 'forall p in test_points(V): radius(dpa(V), p, to = "yes") >= 2'
    ).results
    assert forced.example.words == snapshot
