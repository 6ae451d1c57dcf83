"""Where chance comes from: keyed hashes of the seed, the tree, the path and what is drawn for.

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
    """Return 64 bits that look like chance, a bijection of ``x``."""
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


@scalar
def root_key(seed: int, tree: int) -> np.uint64:
    """Return the key of a tree's root."""
    return mix(mix(np.uint64(seed) + STEP) + np.uint64(tree + 1) * STEP)


@scalar
def share_key(seed: int) -> np.uint64:
    """Return what the choice of a row's trees is keyed by."""
    return mix(mix(np.uint64(seed) + STEP) ^ _SHARE)


@scalar
def child_key(key: np.uint64, right: bool) -> np.uint64:
    """Return the key of a child: a function of the seed, the tree and the path alone."""
    return mix(key + _RIGHT) if right else mix(key + _LEFT)


@scalar
def attribute_key(key: np.uint64, attribute: int) -> np.uint64:
    """Return an attribute's priority at a node; it also keys what is drawn for it there."""
    return mix((key ^ _ATTRIBUTE) + np.uint64(attribute + 1) * STEP)


@scalar
def midpoint(low: float, high: float) -> float:
    """Return a threshold t of two adjacent values, low <= t < high whatever is rounded.

    Between a missing value, which is minus infinity here, and another it is minus infinity.
    """
    if low == -np.inf:
        return low
    middle = low + (high - low) * 0.5
    if middle < low or middle >= high:
        return low
    return middle


@scalar
def draw_between(key: np.uint64, low: float, high: float) -> float:
    """Return a threshold drawn uniformly from [low, high), low < high.

    Points are drawn from the two cells of a power-of-two grid that cover the interval, keyed by
    grid and cell, until one falls inside. That is uniform; and a smaller interval within the same
    cells has the same threshold as long as it holds it, so that most deletions of an extreme
    change nothing. After 128 points outside (at most (3/4)^128 of all keys) it is ``low``. So it is
    where ``low`` is missing, minus infinity: then a node parts the rows without a value.
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
