"""The kernel's count of members with thresholds: exact, and never more than is true."""

from __future__ import annotations

import copy
from itertools import product

import numpy as np
import pytest

from leaveout.bab.votes.search import TooLongError
from leaveout.errors import LeaveoutError
from leaveout.kernel.counting import counts_of
from leaveout.kernel.schemes import answers_of, threshold_stake
from leaveout.models.votes import Ballots, write_ballots
from leaveout.verifier.certify.check import check
from leaveout.verifier.run import verify

from attacks.certificate_content import Content
from attacks.kind import generator
from attacks.known_truth import Known
from attacks.known_votes import KnownVotes, ends_of, write_case
from support.depth import enough, rounds
from support.kernel_trees import no_more_lost
from support.votes import random_ballots


def cases(seed, count):
    kind = KnownVotes()
    for number in range(count):
        case = kind.make(generator(seed, "known", number))
        arrays = (np.array(case[name], np.int32) for name in ("votes", "truth", "thresholds"))
        yield case, *arrays


def prices_of(votes, truth, thresholds, labels, budget):
    right = answers_of(counts_of(votes, labels)) == truth
    return threshold_stake(votes, thresholds, labels, right, budget)


def test_bounds_are_those_of_every_attack():
    less = 0
    for case, votes, truth, thresholds in cases(0, 120):
        known = Known(case | {"threat": "edits", "against": None})
        labels, budget = case["labels"], case["count"]
        worst = sum(known.right) - known.right_under(budget)
        prices = prices_of(votes, truth, thresholds, labels, budget)
        assert no_more_lost(prices, worst)
        assert no_more_lost(prices, worst + 1)
        assert not worst or not no_more_lost(prices, worst - 1)
        less += worst < len(np.unique(prices.points))
    assert less > 5


def test_attacks_are_recounted_by_every_vote():
    rng, lost = np.random.default_rng(1), 0
    for case, votes, truth, thresholds in cases(1, 80):
        units = rng.integers(0, votes.shape[1], int(rng.integers(0, 7)))
        spent = np.bincount(units, minlength=votes.shape[1])
        expected = []
        for row, right, costs in zip(votes, truth, thresholds, strict=True):
            allowed = [
                np.flatnonzero((c >= 0) & (c <= s)) for c, s in zip(costs, spent, strict=True)
            ]
            answers = {int(np.bincount(cast, minlength=9).argmax()) for cast in product(*allowed)}
            expected.append(np.bincount(row).argmax() == right and bool(answers - {int(right)}))
        stake = prices_of(votes, truth, thresholds, case["labels"], len(units))
        assert (
            stake.lost_points(stake.choices_paid(spent)).tolist()
            == np.flatnonzero(expected).tolist()
        )
        lost += sum(expected)
    assert lost > 20


def test_too_many_attacks_are_not_told_apart():
    rng = np.random.default_rng(9)
    votes, truth = random_ballots(rng, 100, 30, 3)
    thresholds = rng.integers(1, 4, (100, 30, 3)).astype(np.int32)
    np.put_along_axis(thresholds, votes[:, :, None], 0, axis=2)
    prices = prices_of(votes, truth, thresholds, 3, 8)
    with pytest.raises(TooLongError):
        no_more_lost(prices, 0 if not len(prices.points) else 3, work=1e4)


def accepts(content, folder):
    content.save(folder / "false.cert")
    try:
        return bool(check(folder / "false.cert"))
    except LeaveoutError as error:
        assert "\n" not in str(error)
        return False


def test_what_is_false_is_rejected_whatever_its_proof(tmp_path):
    kind, false_ones, kinds = KnownVotes(), 0, set()
    for number in range(rounds(90)):
        rng = generator(5, "known", number)
        case = kind.make(rng)
        write_case(case, tmp_path)
        path = tmp_path / "a.cert"
        path.unlink(missing_ok=True)
        try:
            verify(tmp_path / "a.spec", certificate=path)
        except LeaveoutError:
            continue
        if not path.exists() or case["kind"] == "greatest":
            continue
        content = Content.of(path)
        assert accepts(content, tmp_path)
        (low, high), relation = ends_of(case), "=="
        statement = content.manifest["values"]["statements"][0]
        # The other verdict, with any proof.
        statement["verdict"] = "refuted" if statement["verdict"] == "proved" else "proved"
        for false in forged(content, rng, len(case["votes"][0])):
            assert not accepts(false, tmp_path), (case, low, high, relation)
            false_ones += 1
            kinds.add((case["kind"], case["threat"] == (case["against"] or "edits")))
    assert false_ones > enough(60)
    assert len(kinds) >= 5


def forged(content, rng, parts):
    yield content
    for name, own in content.arrays.items():
        if name.endswith("units"):
            for size in (0, 1, parts, 4 * parts):
                changed = copy.deepcopy(content)
                changed.arrays[name] = rng.integers(0, parts, size)
                yield changed
        if name.endswith("upper"):
            for step in (-2, -1, 1, 2):
                changed = copy.deepcopy(content)
                changed.arrays[name] = np.asarray(own + step)
                yield changed


def test_an_attack_beyond_its_budget_or_its_parts_is_rejected(tmp_path):
    thresholds = np.array([[[0, 2], [0, 2], [0, 2]]], np.int32)
    ballots = Ballots(np.zeros((1, 3), np.int32), np.zeros(1, np.int32), 2, thresholds=thresholds)
    write_ballots(ballots, tmp_path / "b.npz")
    (tmp_path / "a.spec").write_text(
        'let V = ballots("b.npz") '
        "guarantee g: collective_accuracy(dpa(V, members = certified), edits = 4) >= 1"
    )
    verify(tmp_path / "a.spec", certificate=tmp_path / "a.cert")
    content = Content.of(tmp_path / "a.cert")
    assert accepts(content, tmp_path)
    (name,) = (each for each in content.arrays if each.endswith("units"))
    for units in ([0, 0, 1], [0, 0, 1, 1, 2], [0, 0, 3, 3], [-1, -1, 0, 0], [0, 0, 0, 0]):
        content.arrays[name] = np.array(units, np.int64)
        assert not accepts(content, tmp_path)
    content.arrays[name] = np.array([2, 2, 1, 1], np.int64)
    assert accepts(content, tmp_path)
