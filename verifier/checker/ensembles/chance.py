"""Randomness of a forest: keyed hashes of seed, tree, path and purpose.

Written anew from ``docs/forest.md``, and compiled, so that a forest can be trained again here.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from importlib.resources import files
from typing import Any, TypeVar

import numpy as np
from numba.extending import register_jitable

Function = TypeVar("Function", bound=Callable[..., Any])

PLAIN: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
"""No fast mathematics: a score must be the number that the definition gives."""

STEP = np.uint64(0x9E3779B97F4A7C15)
_ATTRIBUTE = np.uint64(0x8CB92BA72F3D8DD7)
_DRAWN = np.uint64(0xF1357AEA2E62A9C5)
_SIDES = np.uint64(0xD1B54A32D192ED03), np.uint64(0xABC98388FB8FAC03)
_DRAWS = 128


def compiled_in(function: Function) -> Function:
    """Compile a function into those that call it."""
    return register_jitable(**PLAIN)(function)


def package_stamp() -> int:
    """Return a digest of this package's sources, by which what is compiled and kept is known."""
    sources = [each for each in files(__package__).iterdir() if each.name.endswith(".py")]
    every = b"".join(each.read_bytes() for each in sorted(sources, key=lambda each: each.name))
    return int.from_bytes(hashlib.sha256(every).digest()[:6], "big")


@compiled_in
def mix_bits(x: np.uint64) -> np.uint64:
    """Return SplitMix64's finaliser of 64 bits."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@compiled_in
def root_key(seed: int, tree: int) -> np.uint64:
    """Return what chance is drawn from at the root of a tree."""
    return mix_bits(mix_bits(np.uint64(seed) + STEP) + np.uint64(tree + 1) * STEP)


@compiled_in
def child_key(key: np.uint64, side: int) -> np.uint64:
    """Return that of a child, the left one of side 0."""
    return mix_bits(key + (_SIDES[0] if side == 0 else _SIDES[1]))


@compiled_in
def attribute_key(key: np.uint64, attribute: int) -> np.uint64:
    """Return an attribute's priority in a node."""
    return mix_bits((key ^ _ATTRIBUTE) + np.uint64(attribute + 1) * STEP)


@compiled_in
def between(low: float, high: float) -> float:
    """Return the threshold of two adjacent values: their middle, the lower one if that rounds up.

    What is missing is minus infinity, and parted from all else at minus infinity.
    """
    if low == -np.inf:
        return low
    middle = low + (high - low) * 0.5
    return middle if low <= middle < high else low


@compiled_in
def threshold_between(key: np.uint64, low: float, high: float) -> float:
    """Return a random node's threshold in [low, high): the first point of a grid that is inside."""
    if low == -np.inf:
        return low
    exponent = math.frexp(high - low)[1]
    side = math.ldexp(1.0, exponent)
    cell = math.floor(low / side)
    start = mix_bits(key ^ _DRAWN)
    start = mix_bits(start + np.uint64(np.int64(cell)) * STEP)
    start = mix_bits(start + np.uint64(exponent + 2000) * STEP)
    for i in range(_DRAWS):
        share = np.float64(mix_bits(start + np.uint64(i + 1) * STEP) >> np.uint64(11)) * 2.0**-53
        point = (cell + 2.0 * share) * side
        if low <= point < high:
            return point
    return low
