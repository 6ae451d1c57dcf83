"""Trainings of one's own, done in this process where the test is not about processes."""

from __future__ import annotations

import random
from contextlib import contextmanager

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from leaveout.models.train.own import family


class Inline:
    """A pool of this process alone."""

    def __init__(self, task):
        self.task = task

    def work(self, orders):
        for order in orders:
            yield order, self.task.do(order, lambda step: None)


@pytest.fixture
def here(monkeypatch):
    """Train in this process, and leave its random numbers alone."""

    @contextmanager
    def processes(task, size, settings=None):
        yield Inline(task)

    monkeypatch.setattr(family, "processes", processes)
    state = random.getstate(), np.random.get_state()  # noqa: NPY002
    with threadpool_limits(1):
        yield
    random.setstate(state[0])
    np.random.set_state(state[1])  # noqa: NPY002


@pytest.fixture
def torch():
    """Return torch, its settings put back afterwards."""
    module = pytest.importorskip("torch")
    threads, exact = module.get_num_threads(), module.are_deterministic_algorithms_enabled()
    yield module
    module.set_num_threads(threads)
    module.use_deterministic_algorithms(exact)
