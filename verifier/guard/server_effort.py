"""The worst-case effort of an answer on this machine, measured before any is given."""

from __future__ import annotations

import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.cores import cores
from leaveout.deadline import Deadline
from leaveout.verifier.guard.guard import Guard
from leaveout.verifier.guard.padding import Effort

_INPUTS = 16
"""Tried; the one that takes longest counts."""

_REPEATS = 3
"""Of each input; the quickest counts, since a slow one may be another program's doing."""

_COMMITS = 9

_LONGEST = 2.0
"""Seconds of trying, once each core has tried one input."""


def warm_up(guard: Guard) -> None:
    """Compile and load everything, so no first answer is slow; answer nothing."""
    guard.rehearse(_sample_inputs(guard, 2))


def measure(guard: Guard) -> Effort:
    """Measure the most work of an answer, on all cores at once; answer nothing."""
    warm_up(guard)
    threads = cores()
    inputs = _sample_inputs(guard, _INPUTS)
    nothing = inputs[:0]
    commit = statistics.median(_seconds(guard, nothing) for _ in range(_COMMITS))
    with ThreadPoolExecutor(threads) as pool:
        slowest = pool.map(lambda _: _slowest(guard, inputs), range(threads))
        row = max(slowest) - commit
    return Effort(max(row, 0.0), commit, threads)


def _slowest(guard: Guard, inputs: NDArray[Any]) -> float:
    slowest, deadline = 0.0, Deadline.after(_LONGEST)
    for x in inputs:
        slowest = max(slowest, min(_seconds(guard, x[None]) for _ in range(_REPEATS)))
        if deadline.over:
            break
    return slowest


def _seconds(guard: Guard, X: NDArray[Any]) -> float:
    start = time.perf_counter()
    guard.rehearse(X)
    return time.perf_counter() - start


def _sample_inputs(guard: Guard, count: int) -> NDArray[Any]:
    return guard.subject.sample(np.random.default_rng(0), count)
