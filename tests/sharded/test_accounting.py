"""Guarantees of services: the known budgets, what is safe, and how many shards are retrained."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from leaveout.errors import ShardedError
from leaveout.models.sharded import (
    ServiceSettings,
    guarantee,
    published_retrained,
    retrained_at_most,
    safe_predictions,
)


def service(shards=100, mechanism="exponential", epsilon=0.001, **more):
    return ServiceSettings(
        shards=shards, mechanism=mechanism, epsilon=epsilon, predictions=1, rows=1000, **more
    )


@pytest.mark.parametrize(
    ("shards", "published", "sharper"),
    [(6, 0.167, 0.281), (100, 0.037, 0.0689), (10_000, 0.0037, 0.00689)],
)
def test_what_alpha_one_costs(shards, published, sharper):
    """With beta = gamma = 1e-3: as Theorem 5.1 is published, and as shown for any transcript."""

    def spare(epsilon):
        spread = epsilon * math.sqrt(shards * math.log(1 / 1e-6) / 2)
        return 1 - min(epsilon * shards, shards * epsilon**2 / 8 + spread)

    assert brentq(spare, 1e-6, 1) == pytest.approx(published, rel=0.02)

    def spare_by_moments(epsilon):
        return 1 - guarantee(service(shards, epsilon=epsilon), 1, 1e-3, 0.0).alpha

    found = brentq(spare_by_moments, 1e-6, 0.4)
    assert found == pytest.approx(sharper, rel=0.01)


@pytest.mark.parametrize("mechanism", ["exponential", "noisy_max"])
@pytest.mark.parametrize("labels", [None, 2, 10])
@pytest.mark.parametrize("shards", [6, 100, 10_000])
def test_the_largest_safe_number_is_safe_and_the_next_is_not(mechanism, labels, shards):
    settings = service(shards, mechanism, 1e-5, labels=labels)
    safe = safe_predictions(settings, 1.0, 1e-3, 1e-3)
    held, broken = guarantee(settings, safe), guarantee(settings, safe + 1)
    assert held.alpha <= 1 < broken.alpha
    assert held.beta <= 1e-3 >= held.gamma
    counts = [0, *np.unique(np.geomspace(1, 20 * safe, 60).astype(int)).tolist()]
    alphas = [guarantee(settings, count).alpha for count in counts]
    assert alphas == sorted(alphas)


@pytest.mark.parametrize(
    ("shards", "epsilon", "any_transcript", "composed"),
    [(6, 1e-3, 281, 3881), (100, 1e-3, 68, 126), (10_000, 1e-5, 689, 10_445)],
)
def test_many_small_predictions_compose_better_than_they_add_up(
    shards, epsilon, any_transcript, composed
):
    settings = service(shards, epsilon=epsilon, labels=2)
    assert safe_predictions(settings, 1.0, 1e-3, 0.0) == any_transcript
    assert safe_predictions(settings, 1.0, 1e-3, 1e-3) == composed
    assert guarantee(settings, any_transcript, 1e-3, 0.0).route == "pure"
    assert guarantee(settings, composed).route == "composed"


def test_claims_that_leave_nothing_out_have_group_privacy_alone():
    settings = service(4, epsilon=0.01)
    assert safe_predictions(settings, 1.0, 0.0, 0.0) == 24  # 25 * 0.01 * 4 is 1, rounded up
    assert guarantee(settings, 10, 0.0, 0.0).alpha == pytest.approx(0.4)
    assert guarantee(settings, 10, 0.0, 0.0).alpha > 0.4


def test_one_prediction_too_many_leaves_none_safe():
    assert safe_predictions(service(10, epsilon=2.0), 1.0, 1e-3, 1e-3) == 0
    assert guarantee(service(), 0).alpha == 0


def test_what_has_no_meaning_is_refused():
    plain = ServiceSettings(shards=3, mechanism="majority", rows=10)
    with pytest.raises(ShardedError, match="majority"):
        guarantee(plain, 1)
    with pytest.raises(ShardedError, match="beta"):
        guarantee(service(), 1, beta=2)
    with pytest.raises(ShardedError, match="alpha"):
        safe_predictions(service(), math.nan, 0.1, 0.1)


@pytest.mark.parametrize("shards", [1, 3, 10, 100, 1000])
@pytest.mark.parametrize("risk", [0.1, 1e-3, 1e-6])
def test_few_shards_are_retrained(shards, risk):
    bound = retrained_at_most(shards, 1 / shards, risk)
    assert binom.sf(bound, shards, 1 / shards) <= risk
    assert bound == 0 or binom.sf(bound - 1, shards, 1 / shards) > risk * (1 - 1e-6)
    assert retrained_at_most(shards, 1 / shards, risk, 1000) >= bound


def test_an_adaptive_updater_meets_no_more_than_the_largest_of_all_points():
    rng = np.random.default_rng(0)
    worst = rng.binomial(100, 0.01, (4000, 200)).max(axis=1)
    assert (worst > retrained_at_most(100, 0.01, 0.05, 200)).mean() <= 0.05


def test_the_published_bound_on_retrained_shards_is_exceeded_more_often_than_it_says():
    risk = 3.7e-6
    assert published_retrained(risk) == pytest.approx(6, abs=0.01)
    assert binom.sf(math.floor(published_retrained(risk)), 100, 0.01) > 10 * risk
    assert retrained_at_most(100, 0.01, risk) == 8
