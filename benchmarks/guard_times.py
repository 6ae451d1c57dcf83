"""Answers and their times, one query at a time, every kind of access in turn."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from guard_access import Access, Point, key_of

__all__ = ["Served", "Timing", "first_seen", "serve", "timing"]


@dataclass(frozen=True, eq=False)
class Served:
    """What one access answered.

    Attributes
    ----------
    answers : ndarray of int64, shape (p,)
    nanoseconds : ndarray of int64, shape (p,)
    """

    answers: NDArray[np.int64]
    nanoseconds: NDArray[np.int64]


@dataclass(frozen=True)
class Timing:
    """Milliseconds a query, and how many times the bare network's time for the same query.

    Attributes
    ----------
    queries : int
    median, mean, worst : float
    ratio : float
        Median over the queries.
    """

    queries: int
    median: float
    mean: float
    worst: float
    ratio: float


def serve(accesses: Mapping[str, Access], points: Point) -> dict[str, Served]:
    """Ask every access every point, in turn; each query another one is first.

    Parameters
    ----------
    accesses : mapping of str to Access
    points : ndarray of float32, shape (p, d)
    """
    names = list(accesses)
    answers = {name: np.empty(len(points), np.int64) for name in names}
    spent = {name: np.empty(len(points), np.int64) for name in names}
    clock = time.perf_counter_ns
    with _no_collection():
        for i, x in enumerate(points):
            for k in range(len(names)):
                name = names[(i + k) % len(names)]
                ask = accesses[name].label
                begun = clock()
                answer = ask(x)
                spent[name][i] = clock() - begun
                answers[name][i] = answer
    return {name: Served(answers[name], spent[name]) for name in names}


def timing(nanoseconds: NDArray[np.int64], bare: NDArray[np.int64]) -> Timing | None:
    """Sum up the times of queries, beside the bare network's; None if there are none."""
    if not len(nanoseconds):
        return None
    own = nanoseconds / 1e6
    ratio = float(np.median(nanoseconds / bare))
    return Timing(len(own), float(np.median(own)), float(own.mean()), float(own.max()), ratio)


def first_seen(points: Point) -> NDArray[np.bool_]:
    """Tell which points come for the first time."""
    seen: set[bytes] = set()
    first = np.empty(len(points), bool)
    for i, x in enumerate(points):
        key = key_of(x)
        first[i] = key not in seen
        seen.add(key)
    return first


@contextmanager
def _no_collection() -> Iterator[None]:
    """Collect no garbage while clocks run."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
