"""Trainings done in this process, where a test is not about processes: each would import torch."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from leaveout.models.train import pool
from leaveout.models.train.own import family
from leaveout.models.train.pool import Step


class Inline:
    """A pool of this process alone."""

    def __init__(self, task):
        self.task = task

    def work(self, orders):
        for order in orders:
            yield order, self.task.do(order, lambda step: None)


class Halfway(Inline):
    """Likewise, and says of each order when it is half done."""

    def work(self, orders):
        for order in orders:
            yield order, Step(0.5)
            yield order, self.task.do(order, lambda step: None)


@contextmanager
def trained_here(kind: type[Inline] = Inline) -> Iterator[None]:
    """Train in this process, and leave its random numbers and what torch is told alone."""

    @contextmanager
    def processes(task, size, settings=None):
        task.prepare()
        yield kind(task)

    state = random.getstate(), np.random.get_state()  # noqa: NPY002
    torch = sys.modules.get("torch")
    told = torch and (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled())
    with pytest.MonkeyPatch.context() as patch, threadpool_limits(1):
        for module in (pool, family):
            patch.setattr(module, "processes", processes)
        yield
    random.setstate(state[0])
    np.random.set_state(state[1])  # noqa: NPY002
    if torch and told:
        torch.set_num_threads(told[0])
        torch.use_deterministic_algorithms(told[1])
