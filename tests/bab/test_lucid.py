"""No upper bound below a real leak, no lower bound without one: every variant, every solver."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.bab import VARIANTS, LucidOptions, find_variant, search
from leaveout.bab.lucid.options import TIGHT
from leaveout.errors import SpecError
from leaveout.models import confidence
from leaveout.solvers import available, describe

from support import networks
from support.cases import BruteForce, leaky, question

SOLVERS = [row.name for row in describe()]
FAST = LucidOptions(workers=1)


def _check(instance, label, options, best):
    result = search(instance, label, options)
    assert result.upper >= best
    assert result.lower <= result.upper + 1e-6
    assert (result.member_upper <= result.upper).all()
    if result.witness is None:
        assert result.lower == 0
    else:
        _replays(instance, label, result.witness, result.lower)
    assert result.closed or result.reason
    return result


def _replays(instance, label, witness, lower):
    assert instance.box.contains(witness.x.astype(np.float64))
    own = instance.network.runner().scores(witness.x[None])[0]
    taken = {k: v[0] for k, v in instance.family.take([witness.member]).items()}
    other = instance.network.runner(taken).scores(witness.x[None])[0]
    assert lower == confidence(own.astype(np.float64), label) > 0
    assert confidence(other.astype(np.float64), label) <= 0
    assert witness.removed == instance.family.removed[witness.member]


@pytest.mark.parametrize("variant", VARIANTS)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_every_variant_is_sound_against_brute_force(variant, seed):
    instance = question(seed)
    best = BruteForce.of(instance, 5000).best
    for label in range(instance.labels):
        _check(instance, label, replace(FAST, variant=VARIANTS[variant]), best[label])


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", [8, 21, 34])
def test_every_solver_is_sound_and_finds_the_same_optimum(solver, seed):
    if solver not in available():
        pytest.skip(f"{solver} is not installed")
    instance = question(seed, negative=False, spread=0.1)
    best = BruteForce.of(instance, 5000).best
    for label in range(instance.labels):
        options = replace(FAST, variant=VARIANTS["HMB"])
        expected = search(instance, label, options)
        found = _check(instance, label, replace(options, solver=solver), best[label])
        # Bounds of a solver that takes no tolerances are padded for loose ones.
        pad = 1e-4 if replace(options, solver=solver).tolerance == TIGHT else 2e-3
        assert found.upper == pytest.approx(expected.upper, abs=pad)


@pytest.mark.parametrize("kind", ["residual", "convolution_1d", "matmul_add_softmax"])
def test_other_architectures_are_sound_against_brute_force(kind):
    model = networks.ALL[kind](np.random.default_rng(1))
    instance = question(1, model=model, spread=0.05, negative=True)
    best = BruteForce.of(instance, 20_000).best
    for label in range(instance.labels):
        _check(instance, label, FAST, best[label])


def test_the_papers_own_search_is_sound_and_needs_no_witness():
    for seed in (0, 3, 6, 12):
        instance = question(seed)
        best = BruteForce.of(instance, 5000).best
        for label in range(instance.labels):
            ours = search(instance, label, FAST)
            paper = search(instance, label, replace(FAST, witnesses=False, tighten=False))
            assert paper.witness is None
            assert paper.upper >= best[label]
            assert paper.upper >= ours.lower - 1e-6


def test_bounds_close_on_small_families():
    results = []
    for seed in range(8):
        instance = question(seed, spread=0.05)
        results += [search(instance, label, FAST) for label in range(instance.labels)]
    assert np.mean([result.closed for result in results]) > 0.9


def test_a_floor_ends_the_search_early_either_way():
    instance, label = leaky()
    full = search(instance, label, FAST)
    assert full.lower > 0.4
    above = search(instance, label, FAST, floor=full.upper + 0.01, decide=True)
    assert above.closed
    assert above.upper == full.upper + 0.01
    below = search(instance, label, FAST, floor=0.1, decide=True)
    assert below.closed
    assert below.witness is not None
    assert below.lower > 0.1
    assert below.solved <= full.solved


def test_scaled_weights_stay_sound():
    for scale in (1e-3, 1e3):
        for seed in (8, 21):
            instance = question(seed, scale=scale, spread=0.1 * scale, negative=False)
            best = BruteForce.of(instance, 5000).best
            for label in range(instance.labels):
                _check(instance, label, FAST, best[label])


def test_unknown_variants_are_refused_with_the_known_ones(snapshot):
    assert find_variant("hmris") is VARIANTS["HMRiS"]
    with pytest.raises(SpecError) as told:
        find_variant("lucy")
    assert str(told.value) == snapshot
