"""Members are lowered as they are asked for, and are the numbers lowering them all gives."""

from __future__ import annotations

import pickle
from functools import cache
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.models import Members, Stack, family_load, lower
from leaveout.models.onnx.file import network_from

from support import networks
from support.cases import family_of
from support.depth import rounds

COUNT = 7
indices = st.lists(st.integers(0, COUNT - 1), max_size=10)
kept = st.sampled_from([0, 10**9])


@cache
def _case(kind: str):
    network = network_from(networks.ALL[kind](np.random.default_rng(0)), kind)
    return network.graph, family_of(np.random.default_rng(1), network, COUNT)


def _bits(stack: Stack) -> list[bytes]:
    arrays = [a for layer in stack.layers for a in (*layer.weights.values(), layer.bias)]
    return [a.tobytes() for a in arrays]


@pytest.mark.parametrize("kind", networks.ALL)
@settings(max_examples=rounds(20), deadline=None)
@given(indices, kept)
def test_members_taken_are_those_of_the_whole_family_bit_for_bit(kind, chosen, kept):
    graph, family = _case(kind)
    with mock.patch.object(family_load, "_KEPT", kept):
        found = Members(graph, family).take(chosen)
    whole = lower(graph, family.parameters).take(chosen)
    assert len(found) == len(chosen)
    assert _bits(found) == _bits(whole)
    if chosen:
        assert _bits(found) == _bits(lower(graph, family.take(chosen)))


@pytest.mark.parametrize("kind", networks.ALL)
@settings(max_examples=rounds(20), deadline=None)
@given(st.none() | indices, st.none() | st.integers(1, COUNT + 1), kept)
def test_chunks_are_the_members_asked_for_in_order(kind, chosen, size, kept):
    graph, family = _case(kind)
    everyone = list(range(COUNT)) if chosen is None else chosen
    with mock.patch.object(family_load, "_KEPT", kept):
        chunks = list(Members(graph, family).chunks(chosen, size))
    assert [i for part, _ in chunks for i in part] == everyone
    for part, stack in chunks:
        assert len(part) == len(stack) <= (size or COUNT + 10)
        assert _bits(stack) == _bits(lower(graph, family.parameters).take(part))


@pytest.mark.parametrize("kind", networks.ALL)
def test_members_know_their_shape(kind):
    graph, family = _case(kind)
    found, whole = Members(graph, family), lower(graph, family.parameters)
    assert (len(found), found.inputs, found.labels) == (COUNT, whole.inputs, whole.labels)
    assert found.size == whole.flat().shape[1]
    assert _bits(found.member(3)) == _bits(whole.member(3))


def test_a_chunk_is_bounded_in_memory():
    graph, family = _case("dense")
    found = Members(graph, family)
    with mock.patch.object(family_load, "_CHUNK", 8 * found.size * 3):
        assert [len(stack) for _, stack in found.chunks()] == [3, 3, 1]
    with mock.patch.object(family_load, "_CHUNK", 1):
        assert [len(stack) for _, stack in found.chunks()] == [1] * COUNT


def test_only_a_small_family_is_kept_lowered():
    graph, family = _case("dense")
    with mock.patch.object(family_load, "lower", wraps=lower) as lowering:
        small = Members(graph, family)
        for _ in range(5):
            small.take([1, 2])
        assert [len(call.args[1]["layers.0.bias"]) for call in lowering.mock_calls] == [1, COUNT]
    sizes = []
    with (
        mock.patch.object(family_load, "_KEPT", 0),
        mock.patch.object(family_load, "lower", wraps=lower) as lowering,
    ):
        large = Members(graph, family)
        for _ in range(5):
            large.take([1, 2])
        sizes = [len(call.args[1]["layers.0.bias"]) for call in lowering.mock_calls]
    assert max(sizes) == 2


def test_what_was_lowered_does_not_travel():
    network = network_from(networks.dense(np.random.default_rng(0), (3, 20, 2), 1.0), "N")
    whole = Members(network.graph, family_of(np.random.default_rng(1), network, 200))
    before = len(pickle.dumps(whole))
    own = _bits(whole.take([3, 0]))
    assert len(pickle.dumps(whole)) < 1.01 * before
    assert _bits(pickle.loads(pickle.dumps(whole)).take([3, 0])) == own
