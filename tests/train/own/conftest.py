"""Torch for trainings of one's own."""

from __future__ import annotations

import pytest


@pytest.fixture
def torch():
    """Return torch, its settings put back afterwards."""
    module = pytest.importorskip("torch")
    threads, exact = module.get_num_threads(), module.are_deterministic_algorithms_enabled()
    yield module
    module.set_num_threads(threads)
    module.use_deterministic_algorithms(exact)
