"""Intervals of the advantage hold the truth as often as they say, and find what is obvious."""

import math
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, binomtest, norm

from leaveout.errors import AuditError
from leaveout.kernel.audits import Scores, choose, which_count
from leaveout.verifier.audits.intervals import alpha_lower_bound
from leaveout.verifier.audits.membership import (
    Counted,
    Events,
    Views,
    advantage,
    implied_guarantee,
    rates,
)
from leaveout.verifier.audits.membership.advantage import advantage_of_statistics


def views_with(rng, trials, rows, shift=0.0, wobble=0.7, unseen=True, original=True):
    """Each model has a level of its own, so that its rows are anything but independent."""
    kinds = 2 if unseen else 1
    trial = np.repeat(np.arange(trials), kinds * rows)
    forgotten = np.tile(np.arange(kinds * rows) < rows, trials)
    label = rng.integers(0, 2, len(trial))

    def arm(by):
        odds = rng.normal(0, 1, len(trial)) + rng.normal(0, wobble, trials)[trial]
        right = 1 / (1 + np.exp(-odds - by * forgotten))
        found = np.empty((len(trial), 2))
        found[np.arange(len(trial)), label] = right
        found[np.arange(len(trial)), 1 - label] = 1 - right
        return found

    before = arm(1.0) if original else None
    return Views(trial, forgotten, label, arm(shift), arm(0.0), before)


def statistics_with(rng, trials, shift, count=6):
    return [
        Scores(
            f"{i}, mean",
            rng.normal(shift if i == 0 else 0, 1, trials),
            rng.normal(0, 1, trials),
        )
        for i in range(count)
    ]


@pytest.mark.parametrize("trials", [6, 18, 60])
def test_arms_that_do_not_differ_raise_no_more_alarms_than_allowed(trials):
    rng = np.random.default_rng(trials)
    found = [
        advantage_of_statistics(statistics_with(rng, trials, 0), which_count(trials), 0.9).lower > 0
        for _ in range(400)
    ]
    assert binomtest(sum(found), len(found), 0.1, alternative="greater").pvalue > 1e-4


@pytest.mark.parametrize("shift", [0.0, 0.5, 2.0])
def test_the_true_advantage_lies_in_the_interval(shift):
    rng = np.random.default_rng(7)
    truth = 2 * norm.cdf(shift / 2) - 1
    missed = 0
    for _ in range(300):
        found = advantage_of_statistics(statistics_with(rng, 40, shift), which_count(40), 0.8)
        missed += not found.lower <= truth <= found.upper
    assert binomtest(missed, 300, 0.2, alternative="greater").pvalue > 1e-4


@cache
def null_audits():
    rng = np.random.default_rng(3)
    return [views_with(rng, 8, 12) for _ in range(30)]


@pytest.mark.parametrize("unit", ["trials", "records"])
def test_all_attacks_together_raise_few_alarms_where_rows_of_a_model_hang_together(unit):
    alarms = sum(advantage(views, 0.8, unit).lower > 0 for views in null_audits())
    assert binomtest(alarms, 30, 0.2, alternative="greater").pvalue > 1e-3


def test_flags_are_few_where_nothing_differs():
    wrong = sum(any(row.flagged for row in rates(views, 0.8)) for views in null_audits())
    assert binomtest(wrong, 30, 0.2, alternative="greater").pvalue > 1e-3


def test_the_advantage_of_one_record_lies_in_the_interval():
    """Scores of forgotten rows are shifted normals: no attack on one row beats the loss."""
    rng = np.random.default_rng(5)
    truth = 2 * norm.cdf(1.5 / 2 / math.sqrt(1 + 0.7**2)) - 1
    for _ in range(5):
        found = advantage(views_with(rng, 24, 40, shift=1.5), 0.95, "records")
        assert found.lower <= truth <= found.upper


@pytest.mark.parametrize("unit", ["trials", "records"])
@pytest.mark.parametrize("shift", [4.0, -4.0])
def test_a_model_that_leaks_and_one_that_is_too_quiet_both_show(unit, shift):
    views = views_with(np.random.default_rng(1), 30, 40, shift)
    found = advantage(views, 0.95, unit)
    assert found.lower > 0.3
    assert found.estimating == 20
    assert any(row.flagged for row in rates(views, 0.95))
    if unit == "trials":
        assert found.implied is not None
        assert found.implied.alpha > 1
        assert found.implied.beta > 0.6


def test_an_audit_without_the_original_and_without_unseen_rows_still_shows_a_leak():
    views = views_with(
        np.random.default_rng(1), 30, 40, 4.0, wobble=0.2, unseen=False, original=False
    )
    assert advantage(views, 0.95).lower > 0.5
    assert all(not row.unseen and row.sees == "after" for row in rates(views, 0.95))


def test_few_trials_say_nothing(snapshot):
    views = views_with(np.random.default_rng(0), 3, 500, 6.0)
    found = advantage(views, 0.95)
    assert (found.lower, found.upper, found.estimating) == (0, 1, 0)
    assert "3 trials" in found.attack
    with pytest.raises(AuditError) as told:
        rates(views, 0.95)
    assert str(told.value) == snapshot


def test_a_shift_of_the_whole_model_is_not_taken_for_membership():
    rng = np.random.default_rng(4)
    views = views_with(rng, 30, 40, wobble=0.2, original=False)
    sharper = views.unlearned**3
    views = replace(views, unlearned=sharper / sharper.sum(axis=1, keepdims=True))
    found = advantage(views, 0.95)
    assert found.lower > 0.5
    assert found.ranked is not None
    assert found.ranked.lower < 0.2
    leak = advantage(views_with(rng, 30, 40, 4.0), 0.95)
    assert leak.ranked is not None
    assert leak.ranked.lower > 0.5


def test_more_confidence_gives_a_wider_interval():
    views = views_with(np.random.default_rng(2), 40, 30, 2.0)
    narrow, wide = advantage(views, 0.8), advantage(views, 0.999)
    assert wide.lower < narrow.lower
    assert wide.upper >= narrow.upper


def test_the_trials_that_choose_are_not_counted():
    rng = np.random.default_rng(0)
    selects = ~which_count(30)
    assert selects.sum() == 10
    found = statistics_with(rng, 30, 3.0)
    before = choose(found, selects)
    for item in found:
        item.unlearned[~selects] = rng.normal(size=20)
    assert choose(found, selects) == before


@pytest.mark.parametrize("chances", [(0.0, 0.5), (0.5, 0.5), (0.3, 0.8), (1.0, 0.1)])
def test_counted_events_hold_the_truth_by_enumeration(chances):
    trials, confidence = 9, 0.9
    truth = abs(chances[0] - chances[1])
    missed = 0.0
    for hits in product(range(trials + 1), repeat=2):
        weight = math.prod(
            binom.pmf(hit, trials, chance) for hit, chance in zip(hits, chances, strict=True)
        )
        events = Events(("e",), *(np.array([n]) for n in (hits[0], trials, hits[1], trials)))
        found = advantage(events, confidence)
        missed += weight * (not found.lower <= truth <= found.upper)
    assert missed <= 1 - confidence


def test_the_published_rates_of_adult_separate_if_each_row_had_a_model_of_its_own():
    """1 %, 2 %, 5 % and 10 % of 32,561 rows; .48/.48/.62/.60 retrained, 0/.03/.01/0 unlearned."""
    rows = np.array([326, 651, 1628, 3256])
    events = Events(
        ("1 %", "2 %", "5 %", "10 %"),
        np.round(rows * [0, 0.03, 0.01, 0]).astype(int),
        rows,
        np.round(rows * [0.48, 0.48, 0.62, 0.60]).astype(int),
        rows,
    )
    found = advantage(events, 0.95)
    assert found.lower > 0.55
    assert found.implied is not None
    assert found.implied.alpha > 0.8
    assert found.implied.beta > 0.55


def test_the_implied_alpha_is_that_of_the_counts():
    found = implied_guarantee(Counted("e", 60, 3, 60, 60), 0.95)
    assert found.alpha == alpha_lower_bound(60, 60, 3, 60, 0.0, 0.95) > 1.5
    assert implied_guarantee(Counted("e", 3, 60, 60, 60), 0.95).alpha == 0
    assert implied_guarantee(Counted("e", 3, 60, 60, 60).opposite(), 0.95).alpha > 1.5


@pytest.mark.parametrize("confidence", [0, 1, 1.5])
def test_a_confidence_must_say_something(confidence):
    with pytest.raises(AuditError, match="confidence"):
        advantage(null_audits()[0], confidence)


def test_events_have_no_records(snapshot):
    events = Events(("e",), *(np.array([n]) for n in (1, 2, 1, 2)))
    with pytest.raises(AuditError) as told:
        advantage(events, 0.9, "records")
    assert str(told.value) == snapshot
