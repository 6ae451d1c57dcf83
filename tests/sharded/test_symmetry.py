"""Half of the shards do worse than the others with a chance of one half at most, where it is so."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from leaveout.errors import ShardedError
from leaveout.verifier.audits.adaptive import (
    WhiteBox,
    alpha_lower_bound,
    audit,
    halves,
    refutation_level,
)

from support.depth import rounds

HALF = Fraction(1, 2)


def law(points, seeds, inclusion, right):
    """Return how likely each number of right answers is, of one shard with a seed of its own."""
    found = {}
    for held in itertools.product((0, 1), repeat=points):
        chance = math.prod(inclusion if each else 1 - inclusion for each in held)
        for seed in range(seeds):
            count = right(held, seed)
            found[count] = found.get(count, Fraction(0)) + chance / seeds
    return found


def chances(laws):
    """Enumerate shards that are drawn independently, and return how likely the events are."""
    found = [Fraction(0)] * 4
    for outcome in itertools.product(*(each.items() for each in laws)):
        chance = math.prod(chance for _, chance in outcome)
        happened = halves(np.array([count for count, _ in outcome]))
        found = [each + chance * bit for each, bit in zip(found, happened, strict=True)]
    return found


@given(st.data())
@settings(max_examples=rounds(30), deadline=None)
def test_with_halves_of_one_size_neither_event_is_likelier_than_one_half(data):
    points, shards = data.draw(st.sampled_from([(1, 2), (2, 2), (3, 2), (2, 4), (1, 6)]))
    table = data.draw(st.lists(st.integers(0, 40), min_size=2 * 2**points, max_size=2 * 2**points))
    inclusion = data.draw(st.fractions(0, 1, max_denominator=9))

    def right(held, seed):
        return table[2 * sum(bit << place for place, bit in enumerate(held)) + seed]

    less, more, all_less, all_more = chances([law(points, 2, inclusion, right)] * shards)
    assert less == more <= HALF
    assert all_less <= less and max(all_less, all_more) <= Fraction(
        1, math.comb(shards, shards // 2)
    )
    if len(set(table)) == 1:
        assert less == 0


def test_with_an_odd_number_of_shards_the_smaller_half_may_do_worse_more_often():
    # The points a shard holds are right on 1, 3, 9 and 27 test points: one good model in two is
    # enough for a mean that no single other one reaches.
    def right(held, seed):
        return sum(3**place for place, each in enumerate(held) if each)

    less, more, all_less, all_more = chances([law(4, 1, Fraction(1, 3), right)] * 3)
    assert less > HALF > more
    # That each of them does is one of three such events, no two of which happen together.
    assert 0.25 < max(all_less, all_more) <= Fraction(1, 3)
    assert attack_with(3).retrained_at_most == (1.0, 1.0, *[pytest.approx(1 / 3)] * 2)
    assert Fraction(attack_with(3).retrained_at_most[2]) >= Fraction(1, 3)


def test_where_a_shards_seed_is_its_number_the_first_half_may_always_do_worse():
    fixed = [law(2, 1, HALF, lambda held, seed, at=at: sum(held) + 3 * at) for at in range(4)]
    assert chances(fixed) == [1, 0, 1, 0]
    drawn = [law(2, 4, HALF, lambda held, seed: sum(held) + 3 * seed)] * 4
    less, more, *_ = chances(drawn)
    assert less == more < HALF


def test_equal_means_are_equal_whatever_order_they_are_added_in():
    right = np.array([1, 10**15, 3, 3, 1, 10**15])
    assert halves(right) == (False,) * 4
    assert halves(np.array([2, 1, 2])) == (False, True, False, False)
    assert halves(np.array([2, 1, 3])) == (False,) * 4
    assert halves(np.array([1, 2, 1])) == (True, False, False, False)
    assert halves(np.array([1, 1, 2, 3])) == (True, False, True, False)
    assert halves(np.array([3, 4, 2, 2])) == (False, True, False, True)


def attack_with(shards, estimator=None):
    rng = np.random.default_rng(0)
    X = rng.random((30, 2))
    y = (X[:, 0] > 0.5).astype(int)
    model = KNeighborsClassifier(1) if estimator is None else estimator
    return WhiteBox(model, X, y, X, y, shards=shards)


def test_an_audit_takes_one_half_for_an_even_number_of_shards_alone():
    for shards, at_most in ((2, [0.5]), (5, [1.0, 0.1]), (6, [0.5, 0.05])):
        found = audit(attack_with(shards), 3, 0)
        bounds = [one.retrained_at_most for one in found.counts]
        assert bounds == pytest.approx(np.repeat(at_most, 2))


class Changing(ClassifierMixin, BaseEstimator):
    """Answers otherwise from one training to the next, so that the order of shards tells."""

    trained = 0

    def fit(self, X, y):
        Changing.trained += 1
        self.answer_ = Changing.trained % 3 % 2
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        return np.full(len(X), self.answer_)

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


def test_models_that_are_no_function_of_points_and_seed_are_refused(snapshot):
    with pytest.raises(ShardedError) as told:
        for number in range(4):
            attack_with(2, Changing()).replay(0, number)
    assert str(told.value) == snapshot
    attack_with(2, DecisionTreeClassifier(max_features=1)).replay(0, 0)


@pytest.mark.parametrize("anew", [0.5, 0.2])
def test_a_true_claim_falls_no_more_often_than_allowed_with_the_half_known(anew):
    trials, alpha, beta = 30, 0.3, 0.05
    after = math.exp(alpha) * anew + beta
    wrong = 0.0
    for one in range(trials + 1):
        for other in range(trials + 1):
            if alpha_lower_bound(one, trials, other, trials, beta, 0.9, 0.5) > alpha:
                wrong += float(binom.pmf(one, trials, after) * binom.pmf(other, trials, anew))
    assert wrong <= 0.1


def test_one_half_refutes_with_fewer_trials():
    known = alpha_lower_bound(78, 80, 41, 80, 2e-3, 0.95, 0.5)
    measured = alpha_lower_bound(78, 80, 41, 80, 2e-3, 0.95)
    assert measured < known < math.log(2)
    assert refutation_level(78, 80, 41, 80, 0.3, 2e-3, 0.5) < refutation_level(
        78, 80, 41, 80, 0.3, 2e-3
    )
    # Where trials say less than one half, they count.
    assert alpha_lower_bound(78, 80, 1, 80, 2e-3, 0.95, 0.5) > math.log(2)
