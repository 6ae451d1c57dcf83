"""Specifications over ballots: verdicts against counting, threats as types, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from leaveout.errors import LeaveoutError
from leaveout.models.votes import Ballots, Origin, write_ballots
from leaveout.verifier.certify.check import check
from leaveout.verifier.run import verify

from support.children import HANGS
from support.counted import plurality_radii, tally
from support.votes import random_ballots

GOOD = Path(__file__).parents[1] / "specs" / "good"


def with_scores(rng, votes, labels):
    scores = rng.random((*votes.shape, labels)).astype(np.float32)
    np.put_along_axis(scores, votes[:, :, None], 2, axis=2)
    return scores


def write(
    folder, name="ballots.npz", *, points=40, parts=13, labels=3, seed=0, scores=False, **origin
):
    """Write ballots, and return them."""
    rng = np.random.default_rng(seed)
    votes, truth = random_ballots(rng, points, parts, labels)
    given = with_scores(rng, votes, labels) if scores else None
    ballots = Ballots(votes, truth, labels, scores=given, origin=Origin(**origin))
    write_ballots(ballots, folder / name)
    return ballots


def results(folder, text, **options):
    (folder / "a.spec").write_text(text)
    report = verify(folder / "a.spec", **options)
    return {result.name: result for result in report.results}, report.notes


def result(folder, claim, **options):
    text = f'let V = ballots("ballots.npz") guarantee g: {claim}'
    return results(folder, text, **options)[0]["g"]


def accuracy(ballots, edits):
    tallied = tally(ballots.votes, ballots.labels)
    return np.mean((tallied.predictions == ballots.truth) & (plurality_radii(tallied) >= edits))


def test_the_specification_of_the_design(tmp_path):
    ballots = write(tmp_path, points=100, parts=60)
    found, _ = results(tmp_path, (GOOD / "poisoning.spec").read_text())
    expected = accuracy(ballots, 8)
    assert found["half"].verdict == ("proved" if expected >= 0.5 else "refuted")
    assert found["half"].lower <= expected <= found["half"].upper
    assert found["together"].lower >= expected
    assert found["flips"].verdict == "refuted"
    greatest = max(r for r in range(61) if accuracy(ballots, r) >= 0.5)
    assert found["radius"].lower == found["radius"].upper == greatest
    assert found["half"].curves[0].unit == "edits"
    assert found["half"].curves[0].lower[0] == pytest.approx(accuracy(ballots, 0))


def test_a_refuted_median_radius_shows_the_points_that_fall_and_an_attack(tmp_path, snapshot):
    ballots = write(tmp_path, points=60, parts=21)
    found = result(tmp_path, "median_radius(dpa(V)) >= 20")
    assert found.verdict == "refuted"
    count = int(found.upper) + 1
    right = np.mean(tally(ballots.votes, ballots.labels).predictions == ballots.truth)
    falls = round(60 * (right - accuracy(ballots, count)))
    assert found.example.words == snapshot
    assert f"{falls}" in found.example.words
    assert f"{count}" in found.example.words
    assert 0 < found.example.facts["edits"] <= count


def test_median_radius_does_not_count_no_edits_at_all(tmp_path):
    votes = np.array([[0, 0, 0], [0, 0, 0], [0, 1, 1], [1, 1, 2]], np.int32)
    write_ballots(Ballots(votes, np.zeros(4, np.int32), 3), tmp_path / "ballots.npz")
    # Radii 1, 1 (right), and two wrong answers: half of the points survive 1 edit, not 2.
    assert result(tmp_path, "median_radius(dpa(V)) == 1").verdict == "proved"
    votes[1] = 1
    write_ballots(Ballots(votes, np.zeros(4, np.int32), 3), tmp_path / "ballots.npz")
    assert result(tmp_path, "median_radius(dpa(V)) == -1").verdict == "proved"


def test_what_each_threat_counts_as(tmp_path):
    ballots = write(tmp_path, points=60, parts=25, hash_reads_label=False)

    def bounds(threat, edits):
        found = result(tmp_path, f"certified_accuracy(dpa(V), {threat} = {edits}) >= 0")
        assert found.lower == pytest.approx(found.upper)
        return found.lower

    for count in (0, 1, 3):
        for threat in ("edits", "insertions", "removals", "relabels"):
            assert bounds(threat, count) == pytest.approx(accuracy(ballots, count))
        assert bounds("modifications", count) == pytest.approx(accuracy(ballots, 2 * count))
    text = "median_radius(dpa(V)) == 2 * median_radius(dpa(V), against = modifications) + {}"
    verdicts = {result(tmp_path, text.format(odd)).verdict for odd in (0, 1)}
    assert verdicts == {"proved", "refuted"}


def test_the_report_says_why_a_change_counts_as_it_does(tmp_path):
    write(tmp_path, hash_reads_label=True)
    text = 'let V = ballots("ballots.npz") guarantee g: certified_accuracy(dpa(V), {} = 1) >= 0'
    for threat, words in (
        (
            "edits",
            "at most 1 part of the training set: the sample is in the part that its hash",
        ),
        ("relabels", "at most 2 parts of the training set: the hash reads the label"),
        ("modifications", "at most 2 parts of the training set: it is a removal and an insertion"),
    ):
        _, notes = results(tmp_path, text.format(threat))
        assert any(words in note for note in notes)


def test_an_attack_refutes_and_scores_again(tmp_path, snapshot):
    ballots = write(tmp_path)
    found = result(tmp_path, "certified_accuracy(dpa(V), edits = 6) >= 0.9")
    assert found.verdict == "refuted"
    facts = found.example.facts
    changed = ballots.votes[facts["point"]].copy()
    changed[list(facts["members"])] = facts["votes"]
    assert np.bincount(changed).argmax() == facts["after"] != facts["before"]
    assert facts["before"] == ballots.truth[facts["point"]]
    assert facts["edits"] <= 6
    assert found.example.words == snapshot
    assert f"{facts['point']}" in found.example.words


def test_a_collective_attack_refutes_and_scores_again(tmp_path):
    ballots = write(tmp_path)
    found = result(tmp_path, "collective_accuracy(dpa(V), edits = 4) >= 0.99")
    assert found.verdict == "refuted"
    facts = found.example.facts
    assert len(facts["poisoned"]) <= 4
    for point in facts["lost"]:
        answers = set()
        for label in range(3):
            changed = ballots.votes[point].copy()
            changed[list(facts["poisoned"])] = label
            answers.add(int(np.bincount(changed, minlength=3).argmax()))
        assert answers - {int(ballots.truth[point])}
    right = np.mean(tally(ballots.votes, 3).predictions == ballots.truth)
    assert found.upper == pytest.approx(right - len(facts["lost"]) / 40)


def test_one_attack_on_all_is_no_worse_than_one_on_each(tmp_path):
    write(tmp_path, offsets=(0, 2, 5), method="finite_aggregation", points=30)
    names = []
    for edits in (0, 1, 2, 3):
        text = f"collective_accuracy(finite_aggregation(V), edits = {edits}) >= "
        text += f"certified_accuracy(finite_aggregation(V), edits = {edits})"
        names.append(result(tmp_path, text).verdict)
    assert names == ["proved"] * 4


def test_out_of_time_it_says_what_it_knows(tmp_path):
    write(tmp_path, points=300, parts=80, labels=5, seed=3)
    found = result(tmp_path, "collective_accuracy(dpa(V), edits = 12) >= 0.9", time=2)
    assert found.lower < found.upper
    assert found.verdict in ("unknown", "refuted")
    loose = result(tmp_path, "collective_accuracy(dpa(V), edits = 12) >= 0.4", time=2)
    if loose.verdict == "unknown":
        assert loose.reason.startswith("time")
    assert found.seconds < HANGS


def test_the_published_bounds_are_no_better_than_the_exact_ones(tmp_path):
    write(tmp_path, scores=True, points=60)
    text = 'let V = ballots("ballots.npz") let W = ballots("ballots.npz", offsets = [0, 2, 5])'
    for vote in ("run_off(V{})", "finite_aggregation(W{})"):
        exact = f"median_radius({vote.format('')})"
        published = f"median_radius({vote.format(', certificate = published')})"
        found, _ = results(
            tmp_path,
            f"{text} guarantee a: {published} <= {exact} guarantee b: {exact} >= {published} "
            f"find e: greatest m such that {exact} >= m "
            f"find p: greatest m such that {published} >= m",
        )
        assert found["e"].verdict == "proved"
        assert found["p"].verdict == "unknown"
        assert "certificate = exact" in found["p"].reason
        assert found["p"].lower <= found["e"].lower <= found["p"].upper


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_stop_run_offs_and_nothing_else(tmp_path, value, snapshot):
    ballots = write(tmp_path, scores=True)
    scores = ballots.scores.copy()
    other = int(ballots.votes[7, 3] == 0)
    scores[7, 3, other] = value
    arrays = {"ballots": ballots.votes, "truth": ballots.truth, "labels": 3}
    np.savez(tmp_path / "ballots.npz", **arrays, scores=scores)
    path = tmp_path / "a.cert"
    found = result(tmp_path, "certified_accuracy(dpa(V), edits = 2) >= 0.001", certificate=path)
    assert found.lower <= accuracy(ballots, 2) <= found.upper < found.lower + 1e-9
    assert check(path)
    with pytest.raises(LeaveoutError) as caught:
        result(tmp_path, "certified_accuracy(run_off(V), edits = 1) >= 0.5")
    assert str(caught.value) == snapshot
    assert f"{other}" in str(caught.value)


def test_every_point_one_by_one(tmp_path):
    ballots = write(tmp_path)
    radii = plurality_radii(tally(ballots.votes, 3))
    least = int(radii.min())
    claim = "forall p in test_points(V): radius(dpa(V), p) >= {}"
    assert result(tmp_path, claim.format(least)).verdict == "proved"
    found = result(tmp_path, claim.format(least + 1))
    assert found.verdict == "refuted"
    assert radii[found.example.facts["point"]] == least
    text = "forall p in test_points(V): answered_right(dpa(V), p) => radius(dpa(V), p) >= 0"
    assert result(tmp_path, text).verdict == "proved"
    wrong = result(tmp_path, "forall p in test_points(V): answered_right(dpa(V), p)")
    assert wrong.example.facts["answer"] != ballots.truth[wrong.example.facts["point"]]


def test_members_that_resist_make_a_larger_radius(tmp_path):
    rng = np.random.default_rng(0)
    votes, truth = random_ballots(rng, 30, 11, 3)
    thresholds = rng.integers(1, 4, (30, 11, 3)).astype(np.int32)
    np.put_along_axis(thresholds, votes[:, :, None], 0, axis=2)
    write_ballots(Ballots(votes, truth, 3, thresholds=thresholds), tmp_path / "ballots.npz")
    text = "certified_accuracy({}, edits = 2) {} certified_accuracy({}, edits = 2)"
    resisting = "dpa(V, members = certified)"
    assert result(tmp_path, text.format(resisting, ">", "dpa(V)")).verdict == "proved"
    text = f"forall p in test_points(V): radius({resisting}, p) >= radius(dpa(V), p)"
    assert result(tmp_path, text).verdict == "proved"


def test_a_relabel_is_two_edits_of_its_part_for_members_that_resist(tmp_path, snapshot):
    # Each member says what most of its part says, of labels 0, 0, 0, 1: three edits (a removal
    # and two insertions) change that, and so do two relabels, one of them with an edit to spare.
    thresholds = np.full((1, 3, 2), 3, np.int32)
    thresholds[0, :, 0] = 0
    ballots = Ballots(
        np.zeros((1, 3), np.int32),
        np.zeros(1, np.int32),
        2,
        thresholds=thresholds,
        origin=Origin(hash_reads_label=False),
    )
    write_ballots(ballots, tmp_path / "ballots.npz")
    claim = "certified_accuracy(dpa(V, members = certified), relabels = {}) >= 1"
    # Two members have to change, by 2 relabels each. That these suffice is not in the thresholds.
    assert result(tmp_path, claim.format(3)).verdict == "proved"
    found = result(tmp_path, claim.format(4))
    assert (found.verdict, found.upper) == ("unknown", 1)
    assert found.reason == snapshot


def test_what_no_number_of_changes_does(tmp_path):
    thresholds = np.full((1, 3, 2), -1, np.int32)
    thresholds[0, :, 0] = 0
    ballots = Ballots(np.zeros((1, 3), np.int32), np.zeros(1, np.int32), 2, thresholds=thresholds)
    write_ballots(ballots, tmp_path / "ballots.npz")
    vote = "dpa(V, members = certified)"
    for claim, verdict in (
        (f"certified_accuracy({vote}, edits = 3000000000) >= 1", "proved"),
        (f"median_radius({vote}) >= 3000000000", "proved"),
        (f"median_radius({vote}) <= 3000000000", "refuted"),
        (f"forall p in test_points(V): radius({vote}, p) >= 3000000000", "proved"),
    ):
        assert result(tmp_path, claim).verdict == verdict
    text = f"find r: greatest r such that certified_accuracy({vote}, edits = r) >= 1"
    text = f'let V = ballots("ballots.npz") {text}'
    found = results(tmp_path, text)[0]["r"]
    assert (found.verdict, found.upper) == ("unknown", None)


def test_what_is_taken_on_trust_is_said(tmp_path):
    (tmp_path / "b.csv").write_text("truth,part_0,part_1,part_2\n0,0,0,0\n1,1,1,2\n")
    text = 'let V = ballots("b.csv") guarantee g: certified_accuracy(ss_dpa(V), relabels = 1) >= 0'
    _, notes = results(tmp_path, text)
    for words in ("how the members were trained", "stays in its part", "no two rows"):
        assert any(words in note for note in notes)


@pytest.mark.parametrize(
    ("origin", "claim"),
    [
        ({"hash_reads_label": True}, "certified_accuracy(ss_dpa(V), relabels = 1)"),
        ({"distinct_samples": False}, "certified_accuracy(ss_dpa(V), relabels = 1)"),
        ({"method": "ss_dpa"}, "certified_accuracy(dpa(V), edits = 1)"),
        ({"offsets": (0, 3)}, "certified_accuracy(dpa(V), edits = 1)"),
        ({"offsets": (0, 3)}, "certified_accuracy(ss_dpa(V), relabels = 1)"),
        ({}, "certified_accuracy(finite_aggregation(V), edits = 1)"),
        ({}, "certified_accuracy(run_off(V), edits = 1)"),
        ({}, "certified_accuracy(dpa(V, members = certified), edits = 1)"),
        ({}, "certified_accuracy(dpa(V), relabels = 1)"),
    ],
)
def test_one_clear_error_for_what_cannot_be_certified(tmp_path, origin, claim, snapshot):
    write(tmp_path, **origin)
    with pytest.raises(LeaveoutError, match=r"a\.spec:1:") as caught:
        result(tmp_path, f"{claim} >= 0.5")
    assert str(caught.value).splitlines()[0] == snapshot


@pytest.mark.parametrize(
    "call",
    [
        'ballots("ballots.npz", hash = reads_label)',
        'ballots("ballots.npz", offsets = [0, 13])',
        'ballots("ballots.npz", offsets = [0, 0.5])',
        'ballots("none.npz")',
    ],
)
def test_one_clear_error_for_ballots_that_are_not_as_said(tmp_path, call, snapshot):
    write(tmp_path, hash_reads_label=False)
    with pytest.raises(LeaveoutError) as caught:
        results(tmp_path, f"guarantee g: certified_accuracy(dpa({call}), edits = 1) >= 0.5")
    assert str(caught.value).splitlines()[0] == snapshot


def test_a_bad_file_is_named_before_anything_is_decided(tmp_path):
    write(tmp_path)
    (tmp_path / "bad.npz").write_bytes(b"nothing")
    text = (
        'let V = ballots("ballots.npz") let B = ballots("bad.npz") '
        "guarantee slow: collective_accuracy(dpa(V), edits = 12) >= 0.9 "
        "guarantee bad: certified_accuracy(dpa(B), edits = 1) >= 0.5"
    )
    with pytest.raises(LeaveoutError, match=r"bad\.npz"):
        results(tmp_path, text, time=600)


def test_the_json_holds_the_curve_and_the_attack(tmp_path):
    write(tmp_path)
    (tmp_path / "a.spec").write_text(
        'let V = ballots("ballots.npz") guarantee g: certified_accuracy(dpa(V), edits = 6) >= 0.9'
    )
    (found,) = json.loads(verify(tmp_path / "a.spec").to_json())["results"]
    (curve,) = found["curves"]
    assert curve["name"] == "dpa"
    assert curve["at"][0] == 0
    assert curve["lower"][-1] == 0
    assert sorted(curve["lower"], reverse=True) == curve["lower"] == curve["upper"]
    assert found["example"]["facts"]["edits"] <= 6
