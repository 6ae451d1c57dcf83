"""The rules for networks: every bound lies above what is true, whatever the hints."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.kernel.leaks import Leaks
from leaveout.kernel.numbers import Rejected
from leaveout.verifier.certify.networks import lines_only

from support import kernel_rules as rules
from support.depth import rounds
from support.kernel_networks import honest, random_question, root_tree

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=rounds(200), deadline=None)
@given(seed=SEEDS)
def test_no_point_of_a_pair_is_above_its_corners(seed):
    rules.check_corners(seed)


@settings(max_examples=rounds(100), deadline=None)
@given(seed=SEEDS)
def test_what_holds_everywhere_holds_at_every_point(seed):
    rules.check_everywhere(seed)


@settings(max_examples=rounds(150), deadline=None)
@given(seed=SEEDS, wild=st.booleans())
def test_a_form_is_above_what_it_stands_for_whatever_the_slopes(seed, wild):
    rules.check_forms(seed, wild)


@settings(max_examples=rounds(60), deadline=None)
@given(seed=SEEDS)
def test_rounding_covers_float32_in_any_order(seed):
    rules.check_rounding(seed)


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_no_false_bound_is_accepted_whatever_the_hints(start):
    """Bounds below a leak that was found, with honest and with garbled answers."""
    accepted = 0
    for seed in range(start, start + 20):
        question = random_question(seed, spread=float(0.02 + 0.2 * (seed % 3)))
        rng = np.random.default_rng(seed)
        worst = question.worst(rng)
        for label, leak in enumerate(worst.tolist()):
            if leak > 0:
                assert not rules.prove(question, label, 0.999 * leak)
                assert not rules.prove(question, label, leak - 0.2)
                for _ in range(8):
                    assert not rules.prove(question, label, 0.999 * leak, rng)
            accepted += rules.prove(question, label, max(leak, 0) + 3.0)
    assert accepted >= 20


@pytest.mark.parametrize("name", sorted(root_tree(2, 3)))
def test_a_tree_with_an_array_of_another_shape_or_type_is_rejected(name):
    question = random_question(4)
    leaks = Leaks.of(question.network, question.members, question.box, lines_only)
    tree = root_tree(2, 3)
    for array in (tree[name][:-1], tree[name].astype(np.float16), tree[name][None]):
        ask = honest({**tree, name: array}, np.array([1.0, 0, 0]))
        with pytest.raises(Rejected):
            leaks.check(0, 100.0, ask)
    assert leaks.check(0, 100.0, honest(tree, np.array([1.0, 0, 0]))) == 2


def test_shares_must_be_what_the_rule_says():
    rules.check_shares()


def test_bounds_above_the_worst_leak_are_proved():
    rules.check_true_bounds()


@settings(max_examples=rounds(100), deadline=None)
@given(seed=SEEDS)
def test_multiples_of_half_spaces_bound_what_is_in_them(seed):
    rules.check_multiples(seed)


def test_every_case_needs_a_root():
    assert not rules.covers(rules.COVERS["an input"], cases=2)


def test_what_covers_is_accepted():
    assert all(map(rules.covers, rules.COVERS.values()))


@pytest.mark.parametrize("gap", rules.GAPS)
def test_what_leaves_a_gap_is_rejected(gap):
    assert not rules.covers(rules.GAPS[gap])
