"""Models on disk, and a reader that applies more rewrites."""

from __future__ import annotations

import onnx
import pytest

from leaveout.models import load_network
from leaveout.models.onnx import reader
from leaveout.models.onnx.rewrites import REWRITES

from support.rewrites import ADDED


@pytest.fixture
def load(tmp_path):
    def write_and_load(model: onnx.ModelProto):
        path = tmp_path / "net.onnx"
        path.write_bytes(model.SerializeToString())
        return load_network(path)

    return write_and_load


@pytest.fixture
def more(monkeypatch):
    """Let the reader apply some more rewrites."""

    def add(*rewrites):
        monkeypatch.setattr(reader, "REWRITES", (*rewrites, *REWRITES))

    add(*ADDED.values())
    return add
