"""What is too large is refused in one line before any array is made."""

from __future__ import annotations

import tracemalloc

import numpy as np
import onnxruntime
import pytest

from leaveout.errors import ModelError
from leaveout.models import load_network
from leaveout.models.onnx import file
from leaveout.models.onnx.file import network_from
from leaveout.models.onnx.reader import LARGEST

from support.one_operator import F32, IMAGE, KERNEL, flattened, one

HUGE = {
    "input of 2^62 numbers": one("Flatten", shape=("n", 2**31, 2**31)),
    "input of 2^31 numbers": one("Identity", shape=("n", 2**31)),
    "layer on many places": one("MatMul", {"W": np.ones((2, 2**10), F32)}, shape=("n", 2**18, 2)),
    "padding of 1e9": flattened(one("Conv", {"k": KERNEL}, shape=IMAGE, pads=[10**9] * 4)),
    "padding of 2^62": flattened(one("Conv", {"k": KERNEL}, shape=IMAGE, pads=[2**62] * 4)),
    "dilation of 1e9": flattened(
        one("Conv", {"k": KERNEL}, shape=IMAGE, pads=[10**9] * 4, dilations=[10**9] * 2)
    ),
    "pooling of 1e9": flattened(
        one("AveragePool", shape=IMAGE, kernel_shape=[10**9] * 2, pads=[10**9 - 1] * 4)
    ),
    "many channels": flattened(
        one("Conv", {"k": np.ones((2**16, 1, 1, 1), F32)}, shape=("n", 1, 64, 64))
    ),
}


@pytest.mark.parametrize("case", HUGE)
def test_huge_networks_are_refused_before_an_array_is_made(case, load, monkeypatch, snapshot):
    def never(*args, **kwargs):
        raise AssertionError("it was to be refused before")

    monkeypatch.setattr(onnxruntime, "InferenceSession", never)
    monkeypatch.setattr(file, "lower", never)
    model = HUGE[case]
    tracemalloc.start()
    with pytest.raises(ModelError) as caught:
        load(model)
    assert str(caught.value) == snapshot
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**25
    assert "\n" not in str(caught.value)


def test_the_limit_is_as_large_as_it_says(load):
    # As an input, as copies, and from the input to them.
    width = LARGEST // 3
    with pytest.raises(ModelError, match=f"{LARGEST:,}"):
        network_from(one("Flatten", shape=("n", width + 1)), "net.onnx")
    assert network_from(one("Flatten", shape=("n", width)), "net.onnx").inputs == width


def test_a_file_too_large_is_refused_unread(tmp_path, snapshot):
    path = tmp_path / "large.onnx"
    with path.open("wb") as stream:
        stream.truncate(2**31 + 1)
    tracemalloc.start()
    with pytest.raises(ModelError) as told:
        load_network(path)
    assert str(told.value) == snapshot
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()
