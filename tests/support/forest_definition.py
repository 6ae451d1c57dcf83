"""The definition of a tree, in plain Python: slow, and short enough to be read."""

from __future__ import annotations

import hashlib
import itertools
import math
import struct
from fractions import Fraction

import numpy as np

MASK = 2**64 - 1
STEP = 0x9E3779B97F4A7C15


def mixed(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def bits(value):
    return struct.unpack("<Q", struct.pack("<d", value + 0.0))[0]


def priority(key, attribute):
    return mixed(((key ^ 0x8CB92BA72F3D8DD7) + (attribute + 1) * STEP) & MASK)


def drawn(key, low, high):
    if low == -math.inf:
        return low
    exponent = math.frexp(high - low)[1]
    side = math.ldexp(1.0, exponent)
    cell = math.floor(low / side)
    base = mixed(key ^ 0xF1357AEA2E62A9C5)
    base = mixed((base + cell * STEP) & MASK)
    base = mixed((base + (exponent + 2000) * STEP) & MASK)
    for i in range(128):
        unit = (mixed((base + (i + 1) * STEP) & MASK) >> 11) * 2.0**-53
        if low <= (cell + 2.0 * unit) * side < high:
            return (cell + 2.0 * unit) * side
    return low


def middle(low, high):
    if low == -math.inf:
        return low
    t = low + (high - low) * 0.5
    return t if low <= t < high else low


def times_log2(count):
    """Count log2 count, by the series of atanh, so that it is the same number everywhere."""
    if count < 2:
        return 0.0
    fraction, exponent = math.frexp(count)
    if fraction < 0.7071067811865476:
        fraction, exponent = 2.0 * fraction, exponent - 1
    ratio = (fraction - 1.0) / (fraction + 1.0)
    series = 0.0
    for j in range(13, -1, -1):
        series = series * (ratio * ratio) + 1.0 / (2 * j + 1)
    return count * (exponent + 2.0 * ratio * series * 1.4426950408889634)


def worth(criterion, sides):
    """Higher is better: the Gini index and the entropy, without what all splits share."""
    if criterion == "gini":
        a, b = (sum(float(c * c) for c in side) / sum(side) for side in sides)
        return a + b
    return sum(sum(map(times_log2, side)) - times_log2(sum(side)) for side in sides)


def tally(y, labels):
    return [sum(1 for c in y if c == label) for label in range(labels)]


def thresholds(values, y, key, k):
    """The k valid thresholds first by priority, as pairs of adjacent values."""
    distinct = sorted(set(values))
    valid = [
        (a, b)
        for a, b in itertools.pairwise(distinct)
        if len({c for v, c in zip(values, y, strict=True) if v in (a, b)}) > 1
    ]
    return sorted(sorted(valid, key=lambda pair: mixed(key ^ bits(pair[0])))[:k])


def grown(X, y, labels, rules, key, depth=0):
    """A nested tuple: (counts,) for a leaf, else (counts, attribute, threshold, left, right)."""
    counts = tally(y, labels)
    varying = [j for j in range(len(X[0])) if len({x[j] for x in X}) > 1]
    pure = sum(c > 0 for c in counts) < 2
    too_deep = rules["depth"] is not None and depth >= rules["depth"]
    if pure or too_deep or len(y) < rules["least"] or not varying:
        return (counts,)
    varying.sort(key=lambda j: priority(key, j))
    if depth < rules["random_depth"]:
        j = varying[0]
        best = j, drawn(priority(key, j), min(x[j] for x in X), max(x[j] for x in X))
    else:
        found = []
        for j in varying[: rules["attributes"]]:
            values = [x[j] for x in X]
            for a, b in thresholds(values, y, priority(key, j), rules["thresholds"]):
                left = tally([c for v, c in zip(values, y, strict=True) if v <= a], labels)
                right = [c - d for c, d in zip(counts, left, strict=True)]
                found.append((-worth(rules["criterion"], (left, right)), j, middle(a, b)))
        best = min(found)[1:]
    j, t = best
    left = [i for i in range(len(X)) if X[i][j] <= t]
    right = [i for i in range(len(X)) if X[i][j] > t]
    sides = [
        grown(
            [X[i] for i in part],
            [y[i] for i in part],
            labels,
            rules,
            mixed((key + own) & MASK),
            depth + 1,
        )
        for part, own in ((left, 0xD1B54A32D192ED03), (right, 0xABC98388FB8FAC03))
    ]
    return (counts, j, t, *sides)


def label_hash(label):
    text = f"text {label}" if isinstance(label, str) else f"number {Fraction(label)}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def holders(X, y, classes, seed, trees, share):
    """Of each row, in the order of names, the trees that hold it."""
    many, copies, found = math.ceil(Fraction(repr(share)) * trees), {}, []
    for x, c in zip(X, y, strict=True):
        hashed = mixed(
            mixed(mixed((seed + STEP) & MASK) ^ 0xE7037ED1A0B428DB) ^ label_hash(classes[c])
        )
        for value in x:
            hashed = mixed(((hashed ^ bits(value)) + STEP) & MASK)
        rank = copies.setdefault((*x, c), 0)
        copies[(*x, c)] += 1
        own = mixed((hashed + (rank + 1) * STEP) & MASK)
        first = sorted(range(trees), key=lambda t: mixed((own + (t + 1) * STEP) & MASK))
        found.append(set(range(trees)) if many == trees else set(first[:many]))
    return found


def forest(X, y, classes, rules, seed, trees, share):
    keys = [mixed((mixed((seed + STEP) & MASK) + (i + 1) * STEP) & MASK) for i in range(trees)]
    held, found = holders(X, y, classes, seed, trees, share), []
    for i, key in enumerate(keys):
        mine = [r for r in range(len(X)) if i in held[r]]
        rows, labels = [X[r] for r in mine], [y[r] for r in mine]
        found.append(
            grown(rows, labels, len(classes), rules, key) if mine else ([0] * len(classes),)
        )
    return found


def nested(tree, node=0):
    """A tree's arrays as the nested tuples of the definition."""
    counts = tree.counts[node].tolist()
    if tree.feature[node] < 0:
        return (counts,)
    sides = (nested(tree, child) for child in (tree.left[node], tree.right[node]))
    return (counts, int(tree.feature[node]), float(tree.threshold[node]), *sides)


def defined(fitted, X, y):
    """The trees that a forest of these settings has, by the definition."""
    rules = {
        "depth": fitted.max_depth, "thresholds": fitted.k, "attributes": fitted.max_features,
        "random_depth": fitted.d_rmax, "least": fitted.min_samples_split,
        "criterion": fitted.criterion,
    }  # fmt: skip
    labels, codes = np.unique(y, return_inverse=True)
    rows = np.where(np.isnan(X), -np.inf, X + 0.0).tolist()
    seed, trees, share = fitted.seed_, fitted.n_estimators, float(fitted.q)
    return forest(rows, codes.tolist(), labels.tolist(), rules, seed, trees, share)
