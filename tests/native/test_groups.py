"""Groups of members: a tree that holds everyone, and no bound of a group below a real leak."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.bab import NativeOptions, make_instance, search_native
from leaveout.bab.joint_claim import join_claim
from leaveout.bab.native.claims import Claims
from leaveout.bab.native.explorer import Group, cap_bounds
from leaveout.bab.native.search import search_question
from leaveout.encoders import Box
from leaveout.encoders.query import Application, Case, Condition, Form, Query
from leaveout.models import Members
from leaveout.models.onnx.file import network_from

from support import networks
from support.cases import BruteForce, family_of


def crowd(seed, members=20, spread=0.1):
    rng = np.random.default_rng(seed)
    network = network_from(networks.dense(rng, (2, 4, 4, 2), 1.0), "random")
    family = family_of(rng, network, members, spread)
    return make_instance(network, family, Box(np.zeros(2), np.ones(2)))


def grouped(instance, label, **options):
    found = []
    result = search_native(
        instance, label, NativeOptions(nodes=50_000, **options), groups=found.extend
    )
    return result, found


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_group_is_bounded_below_a_leak_of_its_members(seed):
    instance = crowd(seed)
    brute = BruteForce.of(instance, 3000)
    for label in range(2):
        result, groups = grouped(instance, label)
        for group in groups:
            worst = max(brute.member[label][member] for member in group.members)
            assert group.upper >= worst
            if result.witness is not None and result.witness.member in group.members:
                assert group.upper >= result.lower


def test_the_groups_are_a_tree_whose_leaves_hold_every_member_once():
    result, groups = next(
        each for each in (grouped(crowd(seed), label) for seed in range(9) for label in (0, 1))
        if len(each[1]) > 3
    )  # fmt: skip
    assert groups[0].parent == -1
    assert groups[0].upper <= result.upper
    assert len(groups) <= 31
    for at, group in enumerate(groups[1:], start=1):
        assert 0 <= group.parent < at
        assert group.upper <= groups[group.parent].upper
    inner = {group.parent for group in groups}
    leaves = [group.members for at, group in enumerate(groups) if at not in inner]
    assert sorted(np.concatenate(leaves)) == list(range(20))


def test_they_are_the_same_every_time_and_in_a_process_of_their_own():
    instance = crowd(5)
    label = next(label for label in (0, 1) if grouped(instance, label)[1])
    one, two = grouped(instance, label)[1], grouped(instance, label)[1]
    assert [(g.parent, g.upper) for g in one] == [(g.parent, g.upper) for g in two]
    assert grouped(instance, label, workers=2)[1]


def test_a_group_is_bounded_by_what_its_parts_are():
    groups = [
        Group(-1, np.array([0, 1, 2]), 9.0),
        Group(0, np.array([0, 1]), 8.0),
        Group(0, np.array([2]), 3.0),
        Group(1, np.array([0]), 2.0),
        Group(1, np.array([1]), 7.0),
    ]
    known = np.array([5.0, 6.0, 5.0])
    assert [each.upper for each in cap_bounds(groups, known, 0.0)] == [6.0, 6.0, 3.0, 2.0, 6.0]
    assert [each.upper for each in cap_bounds(groups, np.full(3, 1.0), 0.0)] == [1.0] * 5


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_group_is_bounded_below_what_a_claim_says_of_its_members(seed):
    rng = np.random.default_rng(seed)
    network = network_from(networks.dense(rng, (2, 4, 3), 1.0), "N")
    family = family_of(rng, network, 9, 0.1)
    query = Query(
        (Box(np.zeros(2), np.ones(2)),),
        (Application(network, 0), Application(network, 0, family=0)),
        (),
        families=(Members(network.graph, family),),
    )
    # How much the first score falls; where the second is ahead, it may be less than nothing.
    ahead = Condition(Form((), ((0, 1, 1.0), (0, 0, -1.0))))
    conditions = (ahead,) if rng.random() < 0.5 else ()
    case = Case(conditions, (Form((), ((0, 0, 1.0), (1, 0, -1.0))),))
    groups = []
    found = search_question(
        Claims(join_claim(query, [case])), NativeOptions(nodes=2_000, steps=40),
        floor=-np.inf, groups=groups.extend,
    )  # fmt: skip
    points = rng.random((3000, 2)).astype(np.float32)
    own = network.runner().scores(points).astype(np.float64)
    met = own[:, 1] >= own[:, 0] if conditions else np.ones(3000, bool)
    for group in groups:
        for member in group.members:
            taken = {name: value[0] for name, value in family.take([member]).items()}
            fall = own[:, 0] - network.runner(taken).scores(points).astype(np.float64)[:, 0]
            assert group.upper >= fall[met].max(initial=-np.inf)
        if found.witness is not None and found.witness.member in group.members:
            assert group.upper >= found.lower
    if groups:
        inner = {group.parent for group in groups}
        leaves = [group.members for at, group in enumerate(groups) if at not in inner]
        assert sorted(np.concatenate(leaves)) == list(range(9))
