"""What the checker computes of audits: bounds that hold, and those that the prover found."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, norm
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from leaveout.kernel.audits import (
    Counts,
    Scores,
    audit,
    farthest,
    membership_advantage,
    of_events,
    of_statistics,
    scores,
)
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.tails import means_above
from leaveout.kernel.values import Given, HeldFile
from leaveout.verifier.audits.membership import advantage, read_audit
from leaveout.verifier.certify import audits as certify
from leaveout.verifier.certify.audits import answer, train_line

from support.audits import arrays_of, views_arrays

OUTWARDS = 1e-9
"""What the prover adds to its ends."""


def written(folder, arrays):
    path = folder / "audit.npz"
    np.savez(path, **arrays)
    return path


def read(path):
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return audit(Given({"path": HeldFile(path, digest)}))


def bounds(path, confidence=Fraction(19, 20), unit=None, told=None, ask=answer):
    held = read(path)
    values = {"audit": held, **({} if unit is None else {"unit": unit})}
    told = [] if told is None else told
    found = membership_advantage(Given(values, {}, confidence, told.append, ask))
    assert 0 <= found.lower <= found.upper <= 1
    return found


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("unit", ["trials", "records"])
def test_the_checker_finds_the_interval_of_the_prover(tmp_path, seed, unit):
    rng = np.random.default_rng(seed)
    shift = [0.0, 1.0, 4.0, -3.0][seed % 4]
    made = {"unseen": seed % 2 == 0, "original": seed % 3 == 0, "labels": 2 + seed % 2}
    path = written(
        tmp_path, views_arrays(rng, int(rng.integers(4, 40)), 1 + seed % 9, shift, **made)
    )
    level = [0.5, 0.95, 0.999][seed % 3]
    claimed = advantage(read_audit(path), level, unit)
    found = bounds(path, Fraction(repr(level)), unit)
    assert claimed.lower - OUTWARDS <= found.lower <= claimed.lower + OUTWARDS
    assert claimed.upper - OUTWARDS <= found.upper <= claimed.upper + OUTWARDS


@pytest.mark.parametrize(
    "events",
    [[(3, 10, 5, 9)], [(400, 400, 0, 400)], [(0, 1, 0, 1), (50, 70, 3, 90)], [(9, 500, 1, 3)]],
)
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999999])
def test_counted_events_have_the_interval_of_the_prover(tmp_path, events, level, snapshot):
    path, told = written(tmp_path, arrays_of(*events)), []
    claimed = advantage(read_audit(path), level)
    found = bounds(path, Fraction(repr(level)), told=told)
    assert abs(claimed.lower - found.lower) < OUTWARDS
    assert abs(claimed.upper - found.upper) < OUTWARDS
    assert told[0] == snapshot


@pytest.mark.parametrize("error", [Fraction(1, 2), Fraction(1, 20)])
def test_the_interval_of_an_event_holds_the_truth_as_often_as_it_says(error):
    """By enumeration of all counts of four trials an arm, at chances of a grid."""
    trials = 4
    arms = {(a, b): ((a, trials), (b, trials)) for a, b in product(range(trials + 1), repeat=2)}
    found = {
        key: of_events(Counts((one,), (two,)), error, answer)[:2]
        for key, (one, two) in arms.items()
    }

    def chance(count, p):
        return math.comb(trials, count) * p**count * (1 - p) ** (trials - count)

    grid = [Fraction(i, 12) for i in range(0, 13, 2)]
    for p, q in product(grid, repeat=2):
        missed = sum(
            chance(a, p) * chance(b, q)
            for (a, b), (low, high) in found.items()
            if not low <= abs(p - q) <= high
        )
        assert missed <= error


VALUES = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=12)


@given(VALUES, VALUES)
def test_the_farthest_two_lists_are_apart(one, other):
    if len(one) != len(other):
        one, other = one[: len(other)], other[: len(one)]
    cuts = [x + d for x in {*one, *other} for d in (-0.5, 0.0, 0.5)]
    truth = max(abs(sum(x >= c for x in one) - sum(x >= c for x in other)) for c in cuts)
    assert farthest(np.array(one), np.array(other)) == truth


def statistics(rng, trials, shift):
    return [
        Scores(f"{i}", rng.normal(shift if i == 0 else 0, 1, trials), rng.normal(0, 1, trials))
        for i in range(4)
    ]


@pytest.mark.parametrize("shift", [0.0, 0.5, 2.0])
def test_the_true_advantage_lies_in_the_interval(shift):
    rng = np.random.default_rng(7)
    truth, missed = 2 * norm.cdf(shift / 2) - 1, 0
    counts = np.arange(40) >= 13
    for _ in range(100):
        low, high, _ = of_statistics(statistics(rng, 40, shift), counts, Fraction(1, 5), answer)
        missed += not low <= truth <= high
    assert binomtest(missed, 100, 0.2, alternative="greater").pvalue > 1e-4


def wealth(draws, mean):
    """Return the average of the products over the bets, exactly."""
    total = Fraction(0)
    for bet in np.linspace(0.05, 1, 20):
        made = Fraction(1)
        for draw in draws:
            made *= 1 + Fraction(float(bet)) * (draw / mean - 1)
        total += made
    return total / 20


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 7), min_size=1, max_size=40),
    st.fractions(Fraction(1, 10**6), Fraction(9, 10)),
)
def test_a_bound_of_a_mean_is_the_largest_that_betting_in_fractions_allows(hits, error):
    draws = [Fraction(hit, 7) for hit in hits]
    (found,) = means_above(np.array([[hit / 7] for hit in hits]), error, answer)
    assert found <= sum(draws) / len(draws)
    if found:
        assert wealth(draws, found) >= 1 / error
    above = found * (1 + Fraction(1, 10**8)) + Fraction(1, 10**8)
    assert above >= sum(draws) / len(draws) or wealth(draws, above) <= 1 / error


def test_bounds_of_many_draws_leave_no_float_behind():
    trials, hits = 3000, np.array([0, 3000, 1, 1500])
    draws = (np.arange(trials)[:, None] < hits).astype(float)
    for error in (Fraction(1, 20), Fraction(1, 10**200), Fraction(1, 10**400)):
        # Draws of each count, and what is missing in them, side by side.
        low, above = np.split(
            np.array(means_above(np.hstack([draws, 1 - draws]), error, answer)), 2
        )
        assert (low >= 0).all()
        assert (low <= hits / trials).all()
        assert (hits / trials <= 1 - above).all()
        assert (above >= 0).all()
        if error == Fraction(1, 20):
            assert (low > hits / trials - 0.06).all()


def test_training_finds_the_minimum_that_others_find():
    rng = np.random.default_rng(0)
    for rows, columns in ((60, 2), (200, 6), (50, 20)):
        table = rng.normal(0, 1, (rows, columns)) * rng.uniform(0.1, 30, columns)
        table[:, 0] = 3.0
        apart = rng.random(rows) < 0.3
        apart[:2] = (True, False)
        line = train_line(table, apart)
        scaler = StandardScaler().fit(table)
        other = LogisticRegression(class_weight="balanced", solver="newton-cholesky", tol=1e-12)
        truth = other.fit(scaler.transform(table), apart).decision_function(scaler.transform(table))
        assert np.allclose(line[0] + table @ line[1:], truth, atol=1e-8)


def test_what_separates_perfectly_can_be_trained_on():
    table = np.arange(40.0)[:, None]
    line = train_line(table, table[:, 0] > 19.5)
    found = line[0] + table @ line[1:]
    assert np.isfinite(found).all()
    assert ((found > 0) == (table[:, 0] > 19.5)).all()


def test_trials_that_count_have_no_part_in_the_attacks(tmp_path):
    """Whatever they hold, the scores of all others stay the same to the last bit."""
    rng = np.random.default_rng(1)
    seen = read(written(tmp_path, views_arrays(rng, 12, 4, 1.0)))
    assert seen.counts.tolist() == [False] * 4 + [True] * 8
    last = seen.place == 11
    swapped = seen.arms["unlearned"].copy()
    swapped[last] = swapped[last][:, ::-1]
    others = replace(seen, arms={**seen.arms, "unlearned": swapped})
    for before, after in zip(scores(seen, answer), scores(others, answer), strict=True):
        assert np.array_equal(before.unlearned[~last], after.unlearned[~last])
        assert np.array_equal(before.retrained, after.retrained)
        if before.name not in ("confidence", "closeness"):
            assert not np.array_equal(before.unlearned[last], after.unlearned[last])


def test_of_very_many_rows_the_same_are_learned_from_whoever_asks(tmp_path, monkeypatch):
    monkeypatch.setattr(certify, "_MOST_ROWS", 10)
    path = written(tmp_path, views_arrays(np.random.default_rng(1), 9, 6, 1.0))
    assert bounds(path) == bounds(path)


def test_few_trials_say_nothing(tmp_path):
    path = written(tmp_path, views_arrays(np.random.default_rng(0), 3, 50, 6.0))
    found = bounds(path)
    assert (found.lower, found.upper) == (0, 1)


def test_a_leak_shows_and_more_confidence_shows_less(tmp_path, snapshot):
    path, told = written(tmp_path, views_arrays(np.random.default_rng(1), 30, 40, 4.0)), []
    found = bounds(path, told=told)
    assert found.lower > Fraction(1, 2)
    surer = bounds(path, Fraction(999, 1000))
    assert surer.lower < found.lower
    assert surer.upper >= found.upper
    assert told[0] == snapshot
    assert told[1] == snapshot
    extreme = bounds(path, 1 - Fraction(1, 10**500))
    assert extreme.upper == 1
    assert extreme.lower == 0
    assert bounds(path, 1 - Fraction(1, 10**500), "records").upper == 1


def test_what_cannot_be_asked_is_refused(tmp_path, snapshot):
    path = written(tmp_path, arrays_of((1, 2, 1, 2)))
    for confidence in (None, Fraction(0), Fraction(1), Fraction(2)):
        with pytest.raises(Rejected) as told:
            bounds(path, confidence)
        assert str(told.value) == snapshot
    with pytest.raises(Rejected) as told:
        bounds(path, unit="records")
    assert str(told.value) == snapshot
    with pytest.raises(Rejected) as told:
        bounds(path, unit="events")
    assert str(told.value) == snapshot
    with pytest.raises(Rejected) as told:
        membership_advantage(Given({"audit": "audit"}, {}, Fraction(1, 2)))
    assert str(told.value) == snapshot


@pytest.mark.parametrize(
    "change",
    [
        {"label": np.array([0, 1, 2, 0])},
        {"label": np.array([0, 1, -1, 0])},
        {"label": np.array([0, 1])},
        {"trial": np.array([0.0, 0, 1, 1])},
        {"trial": np.array([0, 0, 1, 2**63], dtype=np.uint64)},
        {"forgotten": np.array([1, 0, 2, 0])},
        {"forgotten": np.array([True, False, False, False])},
        {"forgotten": np.array([True, True, True, False])},
        {"unlearned": np.full((4, 2), 0.6)},
        {"unlearned": np.array([[np.nan, 1]] * 4)},
        {"unlearned": np.array([[-0.5, 1.5]] * 4)},
        {"unlearned": np.full((4, 3), 1 / 3)},
        {"unlearned": np.ones((4, 1))},
        {"unlearned": np.full((4, 2), 1)},
        {"unlearned": np.full((3, 2), 0.5)},
        {"original": np.full((4, 3), 1 / 3)},
        {"more": np.zeros(3)},
    ],
)
def test_files_that_hold_no_trials_are_refused(tmp_path, change, snapshot):
    arrays = views_arrays(np.random.default_rng(0), 2, 1, original=False)
    with pytest.raises(Rejected) as told:
        read(written(tmp_path, arrays | change))
    assert str(told.value) == snapshot


@pytest.mark.parametrize(
    "change",
    [
        {"event": np.array(["a", "a"])},
        {"event": np.array([1, 2])},
        {"event": np.array([], dtype="U1")},
        {"unlearned_hits": np.array([3, 1])},
        {"unlearned_hits": np.array([-1, 1])},
        {"retrained_trials": np.array([0, 2]), "retrained_hits": np.array([0, 0])},
        {"retrained_trials": np.array([2])},
        {"retrained_trials": np.array([2.0, 2.0])},
    ],
)
def test_files_that_hold_no_counts_are_refused(tmp_path, change, snapshot):
    arrays = arrays_of((1, 2, 1, 2), (1, 2, 1, 2))
    with pytest.raises(Rejected) as told:
        read(written(tmp_path, arrays | change))
    assert str(told.value) == snapshot


def test_what_is_no_archive_cannot_be_read(tmp_path):
    path = tmp_path / "audit.npz"
    whole = written(tmp_path, arrays_of((1, 2, 1, 2))).read_bytes()
    for content in (b"PK nothing", b"", whole[:-30], whole[: len(whole) // 2], whole[30:]):
        path.write_bytes(content)
        with pytest.raises(Rejected) as told:
            read(path)
        assert str(told.value).startswith(str(path))
    with pytest.raises(Rejected, match="cannot be read"):
        audit(Given({"path": HeldFile(tmp_path / "none.npz", "")}))
    with pytest.raises(Rejected, match="not the file"):
        audit(Given({"path": HeldFile(path, "0" * 64)}))
