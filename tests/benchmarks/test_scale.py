"""The simulation of many workers agrees with cases that are known; rates are fitted well."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scale_events import Noise, Pool, Run, best_block, expected_makespan, simulate, with_block
from scale_simulation import block_times, measured_factors
from scale_training import CASES, Trained, fit
from scale_validation import list_schedule

times = st.lists(st.floats(0.01, 10.0), min_size=1, max_size=60)
RUN = Run(networks=640, block=4, network=1.0, fixed=0.5, head=0.01, last=2.0)


def mean_makespan(run, pool, noise=None, rounds=25):
    found = [simulate(run, pool, np.random.default_rng(i), noise).makespan for i in range(rounds)]
    return float(np.mean(found))


@given(times, st.integers(1, 9))
def test_without_losses_it_is_list_scheduling(seconds, workers):
    own = simulate(
        Run(len(seconds), 1, 0.0), Pool(workers), np.random.default_rng(0), seconds=seconds
    )
    assert own.makespan == pytest.approx(list_schedule(np.array(seconds), workers))
    assert own.useful == pytest.approx(sum(seconds))
    assert own.wasted == own.lost == 0


@given(times, st.integers(1, 9), st.floats(0.5, 100.0), st.floats(0.0, 5.0), st.integers(0, 99))
def test_every_block_is_done_once_whatever_is_lost(seconds, workers, life, gap, seed):
    pool = Pool(workers, start=0.01, life=life + max(seconds), gap=gap)
    own = simulate(Run(len(seconds), 1, 0.0), pool, np.random.default_rng(seed), seconds=seconds)
    assert (own.done == 1).all()
    assert own.useful == pytest.approx(sum(seconds))
    assert own.makespan >= max(sum(seconds) / workers, max(seconds))
    # No worker did two things at a time.
    assert own.useful + own.wasted <= workers * own.makespan * (1 + 1e-9)
    assert own.makespan == np.nanmax(own.finished)


@given(times, st.integers(1, 5), st.integers(0, 99))
def test_where_no_worker_is_left_the_run_has_no_end(seconds, workers, seed):
    pool = Pool(workers, life=2.0, gap=None)
    own = simulate(Run(len(seconds), 1, 0.0), pool, np.random.default_rng(seed), seconds=seconds)
    assert (own.done <= 1).all()
    assert math.isinf(own.makespan) == (not own.done.all())
    if math.isinf(own.makespan):
        assert own.lost == workers


def test_blocks_without_noise_end_in_whole_rounds():
    run = Run(networks=10, block=1, network=3.0, fixed=1.0, last=5.0)
    own = simulate(run, Pool(4, start=2.0), np.random.default_rng(0))
    assert own.makespan == 2 + 3 * 4 + 5
    assert with_block(run, 4).sizes.tolist() == [4, 4, 2]


def test_a_slow_head_takes_the_time():
    run = Run(networks=100, block=1, network=1.0, head=0.5)
    assert simulate(run, Pool(50), np.random.default_rng(0)).makespan == pytest.approx(51.0)


def test_more_workers_take_no_longer_on_average():
    noise = Noise(straggler=0.05)
    pools = [Pool(workers, 1.0, 200.0, 5.0) for workers in (1, 2, 4, 8, 16, 32)]
    found = [mean_makespan(RUN, pool, noise) for pool in pools]
    assert all(many < few for few, many in itertools.pairwise(found))


def test_the_shorter_workers_live_the_longer_it_takes():
    lives = (math.inf, 400.0, 100.0, 25.0)
    found = [mean_makespan(RUN, Pool(8, 1.0, life, 5.0)) for life in lives]
    assert all(short > long for long, short in itertools.pairwise(found))
    lost = simulate(RUN, Pool(8, 1.0, 25.0, 5.0), np.random.default_rng(1))
    assert lost.lost > 0
    assert lost.wasted > 0


def test_losses_cost_what_renewal_theory_says():
    life, gap, seconds = 0.8, 0.3, 1.0
    run, pool = Run(1, 1, seconds), Pool(1, 0.0, life, gap)
    found = [simulate(run, pool, np.random.default_rng(i)).makespan for i in range(4_000)]
    exact = math.expm1(seconds / life) * (life + gap)
    assert np.mean(found) == pytest.approx(exact, abs=5 * np.std(found) / math.sqrt(len(found)))


@pytest.mark.parametrize("workers", [1, 4, 16, 64])
@pytest.mark.parametrize("life", [math.inf, 400.0])
def test_the_closed_form_is_near(workers, life):
    run, pool = with_block(RUN, 2), Pool(workers, 1.0, life, 5.0)
    noise = Noise(np.array([0.8, 1.0, 1.2]))
    found = mean_makespan(run, pool, noise)
    assert expected_makespan(run, pool, noise) == pytest.approx(found, rel=0.06)


@pytest.mark.parametrize("workers", [2, 8, 32])
@pytest.mark.parametrize("life", [math.inf, 100.0])
def test_the_block_that_is_recommended_is_near_the_best(workers, life):
    noise, pool = Noise(np.array([0.8, 1.0, 1.2])), Pool(workers, 1.0, life, 5.0)
    run = with_block(RUN, 1)
    own = best_block(run, pool, noise)
    tried = [
        mean_makespan(with_block(run, block), pool, noise, 10)
        for block in (1, 2, 4, 8, 16, 32, 64, 128)
    ]
    assert mean_makespan(with_block(run, own), pool, noise, 10) <= 1.12 * min(tried)


def test_stragglers_have_the_mean_that_is_said():
    noise = Noise(np.array([0.5, 1.5]), straggler=0.2, tail=3.0)
    drawn = noise.draw(np.random.default_rng(0), 200_000)
    assert drawn.mean() == pytest.approx(noise.mean, rel=0.02)
    assert math.isinf(Noise(straggler=0.1, tail=1.0).mean)


@given(times, st.integers(1, 6))
def test_block_times_are_read_from_when_blocks_ended(seconds, workers):
    run = Run(len(seconds), 1, 0.0)
    ended = simulate(run, Pool(workers), np.random.default_rng(0), seconds=seconds).finished
    found = block_times(ended, 0.0, workers)
    assert found[:, 1] - found[:, 0] == pytest.approx(np.array(seconds))


def test_the_measured_times_are_of_many_blocks():
    factors = measured_factors()
    assert len(factors) >= 30
    assert factors.mean() == pytest.approx(1.0)
    assert (factors > 0).all()


def test_the_fit_finds_rates_that_made_the_times():
    rates = np.array([1e-4, 6e-9, 8e-11, 3e-9])
    rng = np.random.default_rng(0)
    found = [
        Trained(case, float(np.dot(rates, case.terms)) * rng.uniform(0.99, 1.01), 0)
        for case in CASES
    ]
    own = fit(found)
    assert own.rates == pytest.approx(rates, rel=0.1)
    for each in found:
        assert own.seconds(each.case) == pytest.approx(each.seconds, rel=0.03)


def test_sizes_are_those_of_their_names():
    assert [case.name for case in CASES[::3]][:3] == ["2x50", "2x50", "2x100"]
    assert {case.parameters for case in CASES} >= {3_752, 97_502, 1_025_002}
