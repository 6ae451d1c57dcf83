"""The hyper-network of members that stream by is that of all of them at once."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.encoders import hyper_network
from leaveout.models import Members, family_load, lower
from leaveout.models.onnx.file import network_from

from support import networks
from support.cases import family_of

COUNT = 9


@pytest.mark.parametrize("kind", networks.ALL)
@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.none() | st.lists(st.integers(0, COUNT - 1), min_size=1),
    st.sampled_from([1, 2**13, 2**26]),
    st.sampled_from([0, 10**9]),
)
def test_streamed_and_whole_are_equal(kind, seed, chosen, chunk, kept):
    network = network_from(networks.ALL[kind](np.random.default_rng(seed)), kind)
    family = family_of(np.random.default_rng(seed), network, COUNT)
    everyone = range(COUNT) if chosen is None else chosen
    picked = None if chosen is None else np.asarray(chosen)
    whole = lower(network.graph, family.parameters).take(list(everyone))
    expected = hyper_network(whole)
    with (
        mock.patch.object(family_load, "_CHUNK", chunk),
        mock.patch.object(family_load, "_KEPT", kept),
    ):
        found = hyper_network(Members(network.graph, family), picked)
    assert found.members == expected.members == len(everyone)
    for layer, other, stack in zip(found.layers, expected.layers, whole.layers):
        for source, interval in layer.weights.items():
            np.testing.assert_array_equal(interval.lower, other.weights[source].lower)
            np.testing.assert_array_equal(interval.upper, other.weights[source].upper)
            np.testing.assert_array_equal(interval.lower, stack.weights[source].min(axis=0))
            np.testing.assert_array_equal(interval.upper, stack.weights[source].max(axis=0))
        np.testing.assert_array_equal(layer.bias.lower, other.bias.lower)
        np.testing.assert_array_equal(layer.bias.upper, other.bias.upper)
