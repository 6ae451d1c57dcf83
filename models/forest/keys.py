"""Source of randomness: keyed hashes of the seed, the tree, the path and the purpose.

The mixing function is the finaliser of SplitMix64 (Steele, Lea and Flood, *Fast splittable
pseudorandom number generators*, OOPSLA 2014). It is a bijection, so two attributes of a node, or
two values of an attribute, never have the same priority.
"""

from __future__ import annotations

import math

import numpy as np

from leaveout.models.forest.compiling import scalar

STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_LEFT = np.uint64(0xD1B54A32D192ED03)
_RIGHT = np.uint64(0xABC98388FB8FAC03)
_ATTRIBUTE = np.uint64(0x8CB92BA72F3D8DD7)
_SHARE = np.uint64(0xE7037ED1A0B428DB)
_THRESHOLD = np.uint64(0xF1357AEA2E62A9C5)
_TRIES = 128


@scalar
def mix(x: np.uint64) -> np.uint64:
    """Return 64 pseudorandom bits, a bijection of ``x``."""
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


@scalar
def root_key(seed: int, tree: int) -> np.uint64:
    """Return the key of a tree's root."""
    return mix(mix(np.uint64(seed) + STEP) + np.uint64(tree + 1) * STEP)


@scalar
def share_key(seed: int) -> np.uint64:
    """Return the key that decides which trees hold a row."""
    return mix(mix(np.uint64(seed) + STEP) ^ _SHARE)


@scalar
def child_key(key: np.uint64, right: bool) -> np.uint64:
    """Return the key of a child, a function of seed, tree and path alone."""
    return mix(key + _RIGHT) if right else mix(key + _LEFT)


@scalar
def attribute_key(key: np.uint64, attribute: int) -> np.uint64:
    """Return an attribute's priority at a node, which also keys its draws there."""
    return mix((key ^ _ATTRIBUTE) + np.uint64(attribute + 1) * STEP)


@scalar
def midpoint(low: float, high: float) -> float:
    """Return a threshold t with low <= t < high despite rounding; -inf if ``low`` is missing."""
    if low == -np.inf:
        return low
    middle = low + (high - low) * 0.5
    if middle < low or middle >= high:
        return low
    return middle


@scalar
def draw_between(key: np.uint64, low: float, high: float) -> float:
    """Return a threshold drawn uniformly from [low, high), where low < high.

    Points come from a power-of-two grid keyed by grid and cell, so that most deletions of an
    extreme change nothing. It is ``low`` after 128 misses, or if ``low`` is missing (-inf).
    """
    if low == -np.inf:
        return low
    _, exponent = math.frexp(high - low)
    side = math.ldexp(1.0, exponent)
    cell = math.floor(low / side)
    base = mix(key ^ _THRESHOLD)
    base = mix(base + np.uint64(np.int64(cell)) * STEP)
    base = mix(base + np.uint64(exponent + 2000) * STEP)
    for i in range(_TRIES):
        unit = np.float64(mix(base + np.uint64(i + 1) * STEP) >> np.uint64(11)) * 2.0**-53
        point = (cell + 2.0 * unit) * side
        if low <= point < high:
            return point
    return low
