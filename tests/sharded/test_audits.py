"""Attacks refute what does not unlearn adaptively, and do not refute what does."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from leaveout.errors import ShardedError
from leaveout.models.sharded import ServiceSettings, ShardedClassifier, safe_predictions
from leaveout.models.sharded.aggregation import draw_function
from leaveout.verifier.audits.adaptive import (
    Audit,
    Duplicated,
    Trial,
    WhiteBox,
    alpha_lower_bound,
    audit,
    clopper_pearson,
    holm,
    refutation_level,
)
from leaveout.verifier.audits.membership import Counted


def test_the_interval_covers_as_often_as_it_says(snapshot):
    for trials, chance in ((10, 0.3), (40, 0.02), (25, 0.9)):
        counts = np.arange(trials + 1)
        ends = [clopper_pearson(int(count), trials, 0.95) for count in counts]
        inside = np.array([low <= chance <= high for low, high in ends])
        assert binom.pmf(counts, trials, chance)[inside].sum() >= 0.95
    assert clopper_pearson(0, 10, 0.95)[0] == 0
    assert clopper_pearson(10, 10, 0.95)[1] == 1
    assert clopper_pearson(0, 400, 0.95)[1] == pytest.approx(1 - 0.025 ** (1 / 400))
    with pytest.raises(ValueError) as told:
        clopper_pearson(3, 2, 0.95)
    assert str(told.value) == snapshot


def test_alpha_is_bounded_from_below_as_in_the_paper():
    assert alpha_lower_bound(400, 400, 0, 400, 0.0, 0.95) == pytest.approx(4.68, abs=0.01)
    assert alpha_lower_bound(3, 400, 0, 400, 0.01, 0.95) == -math.inf
    assert alpha_lower_bound(200, 400, 200, 400, 0.0, 0.95) < 0


def test_a_claim_that_holds_is_refuted_no_more_often_than_allowed():
    trials, base, alpha, beta = 30, 0.2, 0.5, 0.05
    more = math.exp(alpha) * base + beta
    wrong = 0.0
    for unlearned in range(trials + 1):
        for retrained in range(trials + 1):
            if alpha_lower_bound(unlearned, trials, retrained, trials, beta, 0.9) > alpha:
                pair = binom.pmf(unlearned, trials, more) * binom.pmf(retrained, trials, base)
                wrong += float(pair)
    assert wrong <= 0.1


def test_the_level_is_where_the_bound_begins_to_refute():
    for counts in ((30, 40, 5, 40), (20, 20, 9, 20), (17, 20, 5, 25)):
        level = refutation_level(*counts, 0.3, 0.01)
        assert 1e-10 < level < 0.5
        assert alpha_lower_bound(*counts, 0.01, 1 - level * 1.001) > 0.3
        assert alpha_lower_bound(*counts, 0.01, 1 - level * 0.999) <= 0.3
    assert refutation_level(400, 400, 0, 400, 0.3, 0.01) < 1e-80
    assert refutation_level(5, 40, 30, 40, 0.3, 0.01) == 1


def test_holm_steps_down_and_stops():
    assert holm([0.01, 0.04, 0.03], 0.05) == (True, False, False)
    assert holm([0.01, 0.02, 0.04], 0.05) == (True, True, True)
    assert holm([0.02, 0.001], 0.05) == (True, True)
    assert holm([], 0.05) == ()


def test_points_in_two_copies_refute_plain_shards():
    found = audit(Duplicated(), 400, 0)
    assert found.counts[0].unlearned == 400
    assert found.counts[0].retrained == 0
    (bound,) = found.alpha_lower_bounds(0.0, 0.0, 0.95)
    assert bound > 4.6
    assert found.alpha_lower_bounds(1e-3, 1e-3, 0.99)[0] > 4
    assert found.refuted_by(4.0, 1e-3, 1e-3, 0.99) == (0,)


def test_about_two_thirds_are_answered_right_and_none_of_the_rest():
    attack = Duplicated(points=3000, thresholds=(0.01, 0.5))
    trial = attack.replay(0, 0)
    assert len(trial.deleted) / 6000 == pytest.approx(2 / 3, abs=0.03)
    assert trial.unlearned == (True, True)
    assert trial.retrained == (False, False)
    assert all(a + 1 == b and a % 2 == 0 for a, b in zip(trial.deleted[::2], trial.deleted[1::2]))


@pytest.mark.parametrize("mechanism", ["exponential", "noisy_max"])
def test_points_in_two_copies_refute_nothing_of_private_answers_within_their_budget(mechanism):
    settings = ServiceSettings(
        shards=3, mechanism=mechanism, rows=200, epsilon=0.01, predictions=1, labels=2
    )
    safe = safe_predictions(settings, 1.0, 1e-3, 1e-3)
    assert safe >= 33
    attack = Duplicated(
        aggregate=draw_function(mechanism, 0.01), queries=safe, thresholds=(0.25, 0.4, 0.5, 0.6)
    )
    found = audit(attack, 400, 0)
    assert found.refuted_by(1.0, 1e-3, 1e-3, 0.95) == ()
    assert found.refuted_by(0.0, 0.0, 0.0, 0.95) == ()
    # With no noise to speak of, the same few questions do refute.
    loud = Duplicated(aggregate=draw_function(mechanism, 100.0), queries=safe)
    assert audit(loud, 400, 0).refuted_by(1.0, 1e-3, 1e-3, 0.95) == (0,)


@pytest.mark.parametrize(("shards", "inclusion"), [(3, 1 / 3), (6, 0.2), (101, 0.01), (2, 0.9)])
def test_any_number_of_shards_is_attacked_with_as_many_copies_as_it_takes(shards, inclusion):
    attack = Duplicated.against(shards, inclusion, 100_000)
    assert attack is not None
    assert audit(attack, 200, 1).alpha_lower_bounds(1e-3, 1e-3, 0.95)[0] > 3.9


def test_where_little_is_random_there_is_no_attack():
    assert Duplicated.against(5, 1.0, 1000) is None
    assert Duplicated.against(100, 0.001, 50) is None


class LookUp(ClassifierMixin, BaseEstimator):
    """Knows the points it saw, and says 0 of all others."""

    def fit(self, X, y):
        self.known_ = {tuple(x): int(label) for x, label in zip(X, y)}
        return self

    def predict(self, X):
        return np.array([self.known_.get(tuple(x), 0) for x in X])


def attack_a_service(folder, settings, trials, asked):
    """Run the attack through the service itself, each time beside a service trained anew."""
    points = np.arange(60.0)
    X = np.column_stack([np.repeat(points, 2), np.zeros(120)])
    y = np.repeat(1 + np.arange(60) % 2, 2)
    decoys = np.column_stack([np.arange(30.0), np.ones(30)])
    counts = [0, 0]
    for number in range(trials):
        made = ShardedClassifier(LookUp(), settings, folder / str(number))
        made.fit(np.concatenate([X, decoys]), np.concatenate([y, np.zeros(30, int)]))
        mine = X[: 2 * asked : 2]
        right = made.predict(mine) == y[: 2 * asked : 2]
        made.delete(np.flatnonzero(np.repeat(right, 2)))
        for arm in (0, 1):
            left = made._shards.votes(mine[~right], 3)
            truth = y[: 2 * asked : 2][~right]
            answered = left[np.arange(len(truth)), truth] > 1.5
            counts[arm] += bool(len(truth)) and answered.mean() < 0.2
            made.retrain()
    return counts


def test_the_service_itself_is_refuted_as_plain_shards_and_not_when_private(tmp_path):
    plain = ServiceSettings(shards=3, mechanism="majority", rows=200)
    unlearned, retrained = attack_a_service(tmp_path / "plain", plain, 20, 60)
    assert unlearned == 20
    assert alpha_lower_bound(unlearned, 20, retrained, 20, 2e-3, 0.95) > 1
    private = ServiceSettings(
        shards=3, mechanism="exponential", rows=200, epsilon=0.01, predictions=33
    )
    unlearned, retrained = attack_a_service(tmp_path / "private", private, 20, 33)
    assert alpha_lower_bound(unlearned, 20, retrained, 20, 0.0, 0.95) <= 0


def checkerboard(count, rng):
    X = rng.uniform(0, 4, size=(count, 2))
    return X, (np.floor(X).sum(axis=1) % 2).astype(int)


def test_confident_shards_refute_published_models():
    rng = np.random.default_rng(0)
    attack = WhiteBox(
        KNeighborsClassifier(3, weights="distance"),
        *checkerboard(160, rng),
        *checkerboard(300, rng),
        shards=2,
    )
    found = audit(attack, 80, 0)
    assert found.refuted_by(0.2, 1e-3, 1e-3, 0.95) == (0,)
    less, more = found.counts
    assert less.unlearned >= 70
    assert 20 <= less.retrained <= 60  # measured, not taken to be a half
    assert more.unlearned <= 10
    shown = found.shown[0]
    assert attack.replay(shown.seed, shown.number) == shown
    assert 40 < len(shown.deleted) < 120


def test_models_that_saw_everything_are_not_refuted():
    rng = np.random.default_rng(0)
    attack = WhiteBox(
        KNeighborsClassifier(3),
        *checkerboard(60, rng),
        *checkerboard(100, rng),
        shards=2,
        inclusion=1.0,
    )
    assert audit(attack, 30, 0).refuted_by(0.0, 0.0, 0.0, 0.95) == ()


def test_white_box_needs_probabilities_and_halves(snapshot):
    X, y = checkerboard(10, np.random.default_rng(0))
    with pytest.raises(ShardedError, match="predict_proba"):
        WhiteBox(LinearSVC(), X, y, X, y)
    with pytest.raises(ShardedError) as told:
        WhiteBox(KNeighborsClassifier(1), X, y, X, y, shards=1)
    assert str(told.value) == snapshot


def test_trials_are_replayed_counted_and_stopped_in_time(monkeypatch, snapshot):
    attack = Duplicated()
    told = []
    found = audit(attack, 20, 7, progress=lambda done, all_: told.append((done, all_)))
    assert told == [(place, 20) for place in range(1, 21)]
    again = [attack.replay(7, number) for number in range(20)]
    assert found.counts[0].unlearned == sum(trial.unlearned[0] for trial in again)
    assert found.shown[0] in again
    assert attack.replay(8, 0) != again[0]
    assert attack.replay(7, 1).deleted != again[0].deleted
    with pytest.raises(TimeoutError) as refused:
        audit(attack, 20, 7, seconds=0.0)
    assert str(refused.value) == snapshot
    # A second a look at the clock: one to begin with, and one before each trial.
    clock = SimpleNamespace(perf_counter=map(float, itertools.count()).__next__)
    monkeypatch.setattr("leaveout.deadline.time", clock)
    assert audit(attack, 10**9, 7, seconds=10.0).counts[0].unlearned_trials == 9


def test_events_are_bounded_together():
    one = Audit((Counted("a", 30, 5, 40, 40),), (None,))
    two = Audit((Counted("a", 30, 5, 40, 40), Counted("b", 20, 20, 40, 40)), (None, None))
    assert two.alpha_lower_bounds(0, 0, 0.95)[0] < one.alpha_lower_bounds(0, 0, 0.95)[0]
    assert two.refuted_by(0.3, 0, 0, 0.95) == (0,)


def test_nothing_left_is_no_event():
    everything = lambda votes, chance: 1
    trial = Duplicated(aggregate=everything).replay(0, 0)
    assert trial == Trial(0, 0, tuple(range(200)), (False,), (False,))
