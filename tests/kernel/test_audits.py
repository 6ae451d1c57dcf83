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
from scipy import stats
from scipy.stats import binomtest, norm
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from leaveout.kernel.audits import (
    Counts,
    Scores,
    audit,
    basic,
    choose,
    farthest,
    membership_advantage,
    of_events,
    of_records,
    of_statistics,
    scores,
    thresholds,
    which_count,
)
from leaveout.kernel.audits import statistics as statistics_of
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.tails import means_above
from leaveout.kernel.values import Given, HeldFile
from leaveout.verifier.audits.membership import advantage, read_audit
from leaveout.verifier.certify import audits as certify
from leaveout.verifier.certify.audits import answer, train_line

from support.audits import arrays_of, views_arrays
from support.depth import rounds

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


@pytest.mark.parametrize("seed", range(rounds(12)))
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


@settings(max_examples=rounds(60))
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
    path, told = written(tmp_path, views_arrays(np.random.default_rng(0), 3, 50, 6.0)), []
    found = bounds(path, told=told)
    assert (found.lower, found.upper) == (0, 1)
    assert told == ["3 trials are too few to estimate anything"]


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


def loosened(factor):
    """Return what answers as certify does, but with ends moved by a factor."""

    def ask(what, known):
        found = answer(what, known)
        return found if what == "lines" else {what: found[what] * factor}

    return ask


@pytest.mark.parametrize("unit", ["trials", "records"])
def test_hints_only_widen_the_interval_or_are_refused(tmp_path, unit):
    path = written(tmp_path, views_arrays(np.random.default_rng(1), 40, 20, 4.0))
    best = bounds(path, unit=unit)
    assert best.lower > 0
    for factor in (0.999, 0.5, 0.0):
        found = bounds(path, unit=unit, ask=loosened(factor))
        assert found.lower < best.lower or (unit == "trials" and factor)
        assert found.lower <= best.lower <= best.upper <= found.upper
    for factor in (1 + 1e-7, 1.01, -1.0, np.nan, np.inf):
        with pytest.raises(Rejected):
            bounds(path, unit=unit, ask=loosened(factor))


def lines_by(change):
    """Return what answers as certify does, but with changed lines."""

    def ask(what, known):
        found = answer(what, known)
        return {what: change(found[what], known)} if what == "lines" else found

    return ask


def own_line(lines, known):
    found = lines.copy()
    found[-2] *= 2
    return found


@pytest.mark.parametrize(
    "change",
    [
        own_line,
        lambda lines, known: lines[1:],
        lambda lines, known: lines[:, 1:],
        lambda lines, known: lines.astype(np.float32),
        lambda lines, known: lines.tolist(),
        lambda lines, known: lines * np.nan,
        lambda lines, known: np.full_like(lines, 1e308),
        lambda lines, known: np.full_like(lines, np.inf),
        lambda lines, known: None,
    ],
)
def test_lines_that_are_none_or_differ_among_trials_that_count_are_refused(tmp_path, change):
    path = written(tmp_path, views_arrays(np.random.default_rng(1), 12, 9, 3.0))
    with pytest.raises(Rejected):
        bounds(path, ask=lines_by(change))


def test_what_is_asked_can_neither_be_changed_nor_tell_the_arms_apart(tmp_path):
    """Attacks that are nothing but slopes from outside see both arms alike."""
    rng = np.random.default_rng(2)
    arrays = views_arrays(rng, 12, 9)
    arrays["retrained"] = arrays["unlearned"]
    path = written(tmp_path, arrays)

    def ask(what, known):
        found = answer(what, known)
        if what == "lines":
            found = {what: found[what] * 0 + rng.normal(size=found[what].shape[1])}
        for array in known.values():
            array.fill(0)
        return found

    found = scores(read(path), ask)
    assert all(np.array_equal(each.unlearned, each.retrained) for each in found)
    for unit in ("trials", "records"):
        assert bounds(path, unit=unit, ask=ask).lower == 0


def test_the_attacks_are_fixed_by_what_the_file_holds(tmp_path):
    rng = np.random.default_rng(0)
    for unseen, original in product((True, False), repeat=2):
        path = written(tmp_path, views_arrays(rng, 5, 3, unseen=unseen, original=original))
        names = [each.name for each in scores(read(path), answer)]
        one, both = ["arm classifier, one model"], ["arm classifier, both models"]
        if unseen:
            one, both = ["membership classifier, one model", *one], [*both, both[0]]
        assert names[:4] == ["loss", "margin", "confidence", "label only"]
        assert {*one} <= {*names}
        assert len(names) == len({*names}) == 4 + 2 * original + len(one) + original * len(both)


def test_a_share_of_the_error_is_that_of_every_attack(tmp_path):
    """By simulation: where arms are alike, hardly any interval lies above 0."""
    alarms = 0
    for seed in range(40):
        path = written(tmp_path, views_arrays(np.random.default_rng(seed), 6, 4, original=False))
        for unit in ("trials", "records"):
            alarms += bounds(path, Fraction(1, 2), unit).lower > 0
    assert binomtest(alarms, 80, 0.5, alternative="greater").pvalue > 1e-3


def test_scores_are_those_of_their_definitions():
    label = np.array([0, 1, 0])
    chances = np.array([[0.7, 0.2, 0.1], [0.6, 0.4, 0.0], [0.0, 0.0, 1.0]])
    found = basic(chances, label)
    assert np.allclose(found["loss"], np.log([0.7, 0.4, 1e-7]))
    assert np.allclose(found["margin"], np.log([0.7 / 0.2, 0.4 / 0.6, 1e-7]))
    assert found["confidence"].tolist() == [0.7, 0.6, 1.0]
    assert found["label only"].tolist() == [1.0, 0.0, 0.0]


def test_means_and_ranks_of_a_trial_are_those_of_its_rows(tmp_path):
    rng = np.random.default_rng(3)
    seen = read(written(tmp_path, views_arrays(rng, 5, 4)))
    values = rng.integers(0, 4, len(seen.place)).astype(float)
    mean, rank = statistics_of(seen, [Scores("it", values, values)])
    for trial in range(5):
        own = values[(seen.place == trial) & seen.forgotten]
        others = values[(seen.place == trial) & ~seen.forgotten]
        assert mean.unlearned[trial] == pytest.approx(own.mean())
        wins = [(a > b) + (a == b) / 2 for a in own for b in others]
        assert rank.retrained[trial] == pytest.approx(np.mean(wins))


@pytest.mark.parametrize("attack", ["loss", "rounded loss", "label only"])
def test_records_are_bounded_as_their_shares_by_hand(tmp_path, attack):
    """One attack: the lower bound from its chosen threshold, the upper from all of them."""
    seen = read(written(tmp_path, views_arrays(np.random.default_rng(4), 30, 5, 2.0)))
    items, error = {each.name: each for each in scores(seen, answer)}, Fraction(1, 20)
    items["rounded loss"] = Scores("it", *(np.round(2 * arm) for arm in items["loss"][1:]))
    item = items[attack]
    found = of_records(seen, [item], error, answer)
    place, gone, counts = seen.place, seen.forgotten, seen.counts

    def share(values, trial, cut, strictly=False):
        own = values[(place == trial) & gone]
        return np.mean(own > cut if strictly else own >= cut)

    assert found.best is not None
    cut, sign = found.best.cut, 1 if found.best.above else -1
    trials = np.flatnonzero(counts)
    lean = [share(item.unlearned, t, cut) - share(item.retrained, t, cut) for t in trials]
    (mean,) = means_above((1 + sign * np.array(lean))[:, None] / 2, error * 4 / 5, answer)
    assert float(found.lower) == pytest.approx(float(2 * mean - 1), abs=1e-8)
    pool = np.concatenate([arm[gone & ~counts[place]] for arm in item[1:]])
    cuts, most = thresholds(pool), 0
    assert 1 < len(cuts) <= 20
    each = error / 5 / (4 * len(cuts))

    def low(values):
        return means_above(np.array(values)[:, None], each, answer)[0]

    for one, two in ((item[1], item[2]), (item[2], item[1])):
        below = [0] + [low([1 - share(one, t, c, True) for t in trials]) for c in cuts]
        above = [low([share(two, t, c) for t in trials]) for c in cuts] + [0]
        most = max(most, *(1 - a - b for a, b in zip(below, above)))
    assert float(found.upper) == pytest.approx(float(most), abs=1e-8)


def lower_of(count, trials, level):
    """Return Clopper and Pearson's lower end by the beta distribution."""
    return stats.beta.ppf(level, count, trials - count + 1) if count else 0.0


@pytest.mark.parametrize("error", [0.5, 0.05])
def test_events_share_the_error_among_both_ends_of_both_arms(error):
    counts = Counts([(9, 30), (70, 90), (0, 5)], [(2, 40), (60, 80), (5, 5)])
    for events in (1, 2, 3):
        level = error / (4 * events)
        ends = [
            [(lower_of(k, n, level), 1 - lower_of(n - k, n, level)) for k, n in arm[:events]]
            for arm in counts
        ]
        low = max(0, *(max(a - d, c - b) for (a, b), (c, d) in zip(*ends)))
        high = max(max(b - c, d - a) for (a, b), (c, d) in zip(*ends))
        some = Counts(*(arm[:events] for arm in counts))
        found = of_events(some, Fraction(error), answer)
        assert float(found.lower) == pytest.approx(low, abs=1e-12)
        assert float(found.upper) == pytest.approx(high, abs=1e-12)


@pytest.mark.parametrize("shift", [0.3, 1.0, 4.0, -4.0])
def test_statistics_share_the_error_as_they_say(shift):
    rng, error, trials = np.random.default_rng(8), Fraction(1, 10), 60
    items = statistics(rng, trials, shift)
    counts = which_count(trials)
    found = of_statistics(items, counts, error, answer)
    n, best = int(counts.sum()), found.best
    assert n == 40
    hits = [int(best.occurs(arm[counts]).sum()) for arm in items[best.place][1:]]
    level = 0.8 * 0.1 / 2
    shown = lower_of(hits[0], n, level) - (1 - lower_of(n - hits[1], n, level))
    wide = max(farthest(one[counts], two[counts]) for _, one, two in items) / n
    margin = 2 * math.sqrt(math.log(2 / (0.2 * 0.1 / (2 * len(items)))) / (2 * n))
    assert float(found.lower) == pytest.approx(max(0, shown, wide - margin), abs=1e-12)
    assert float(found.upper) == pytest.approx(min(1, wide + margin), abs=1e-12)


def test_the_first_third_chooses_and_at_least_two_do():
    for trials, chooses in ((2, 2), (4, 2), (8, 2), (9, 3), (31, 10)):
        assert which_count(trials).tolist() == [False] * chooses + [True] * (trials - chooses)


def test_the_event_chosen_is_the_one_that_separates_most():
    one, two = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    chooses = np.ones(3, bool)
    event = choose([Scores("a", one, one), Scores("b", one, two)], chooses)
    assert event == (1, 3.5, False)
    assert choose([Scores("b", two, one)], chooses) == (0, 3.5, True)
    same = [Scores("a", one, two), Scores("b", one, two + 9)]
    assert choose(same, chooses).place == 1


def test_what_counts_has_no_part_in_choosing_an_attack_for_records(tmp_path):
    rng = np.random.default_rng(9)
    for seed in range(10):
        made = views_arrays(np.random.default_rng(seed), 12, 4, 1.0, original=False)
        seen = read(written(tmp_path, made))
        last = seen.counts[seen.place]
        items = scores(seen, answer)[:4]
        others = [
            Scores(name, *(np.where(last, rng.normal(size=len(arm)), arm) for arm in arms))
            for name, *arms in items
        ]
        one, two = (of_records(seen, each, Fraction(1, 2), answer) for each in (items, others))
        assert one.best == two.best


def test_of_scores_below_all_thresholds_nothing_is_known(tmp_path):
    seen = read(written(tmp_path, views_arrays(np.random.default_rng(0), 40, 3, original=False)))
    (_, one, two), last = scores(seen, answer)[0], seen.counts[seen.place]
    item = Scores("it", *(np.where(last, -1e3 - arm, arm) for arm in (one, two)))
    assert of_records(seen, [item], Fraction(1, 2), answer).upper == 1
    item = Scores("it", *(np.where(last, 1e3 - arm, arm) for arm in (one, two)))
    assert of_records(seen, [item], Fraction(1, 2), answer).upper == 1
