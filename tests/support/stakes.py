"""Random stakes of votes, what every attack loses, and logs that someone forges."""

from __future__ import annotations

from itertools import product

import numpy as np

from leaveout.kernel.counting import Stake


def random_stake(rng, kind=None):
    """Return a stake of one kind: units, families, spread units, or costs; one or more demands."""
    kind = ("units", "families", "spread", "costs")[rng.integers(4)] if kind is None else kind
    members = int(rng.integers(4, 8))
    points = int(rng.integers(1, 7))
    pairs_of = rng.integers(1, 3, points)
    demands_of = rng.integers(1, 3, int(pairs_of.sum())) if rng.random() < 0.5 else None
    pairs = int(pairs_of.sum())
    owner = np.repeat(np.arange(pairs), np.ones(pairs, int) if demands_of is None else demands_of)
    rows = len(owner)
    places = np.sort(rng.choice(20, points, replace=False))
    top = 2 if kind == "costs" else int(rng.integers(1, 4))
    gains = rng.integers(0, top + 1, (members, rows)).astype(np.uint8)
    budget = int(rng.integers(3, 6))
    needs = rng.integers(1, (budget + 1) * top, rows)
    family, quotas, offsets = np.zeros(members, np.int64), np.array([budget]), (0,)
    cost, group = np.ones(members, np.int64), np.arange(members)
    if kind == "families":
        family = np.sort(rng.integers(0, 2, members))
        quotas = rng.integers(1, 4, 2)
    elif kind == "spread":
        offsets = tuple(sorted(rng.choice(members, 2, replace=False).tolist()))
        if rng.random() < 0.5:
            gains, needs, owner, pairs_of = (
                gains[:, :1],
                needs[:1] + top,
                owner[:1],
                np.ones(1, int),
            )
            places = places[:1]
    elif kind == "costs":
        group = np.sort(rng.integers(0, max(2, members - 2), members))
        group = np.searchsorted(np.unique(group), group)
        cost = np.concatenate([1 + np.arange(n) + rng.integers(0, 2) for n in np.bincount(group)])
        for own in range(int(group.max()) + 1):
            gains[group == own] = np.maximum.accumulate(gains[group == own], axis=0)
        quotas = np.array([budget + 1])
    return Stake(
        gains, needs, owner, np.repeat(places, pairs_of), quotas, family, cost, group, offsets
    )


def every_attack(stake):
    """Yield every attack within the quotas, as choices."""
    options = [[-1, *np.flatnonzero(stake.group == own)] for own in range(stake.group.max() + 1)]
    for made in product(*options):
        chosen = np.array([each for each in made if each >= 0], np.int64)
        spent = np.zeros(len(stake.quotas), np.int64)
        np.add.at(spent, stake.family[chosen], stake.cost[chosen])
        if (spent <= stake.quotas).all():
            yield chosen


def lost_to(stake, chosen):
    """Return how many points an attack loses, counted one by one."""
    members = set()
    for each in chosen.tolist():
        reached = [(each + offset) % len(stake.gains) for offset in stake.offsets]
        members |= set(reached) if len(stake.offsets) > 1 else {each}
    lost = set()
    for pair, point in enumerate(stake.points.tolist()):
        rows = [row for row in range(len(stake.needs)) if stake.pairs[row] == pair]
        if all(sum(int(stake.gains[m, r]) for m in members) >= stake.needs[r] for r in rows):
            lost.add(point)
    return len(lost)


def worst(stake):
    """Return the most points that an attack loses."""
    return max(lost_to(stake, chosen) for chosen in every_attack(stake))


def forged(rng, log):
    """Yield logs that resemble one, with a fault in each."""
    for name, own in log.items():
        if not len(own):
            yield {**log, name: np.append(own, 0).astype(own.dtype)}
            continue
        at = int(rng.integers(len(own)))
        for step in (-300, -1, 1, 300, 2**20):
            changed = own.astype(np.int64)
            changed[at] += step
            yield {**log, name: changed}
        yield {**log, name: own[:-1]}
        yield {**log, name: own[1:]}
        yield {**log, name: np.concatenate([own, own[-1:]])}
        yield {**log, name: own[::-1].copy()}
        yield {**log, name: np.zeros_like(own)}
        yield {**log, name: np.full_like(own, 256)}
        yield {**log, name: np.full(len(own), -1)}
        yield {**log, name: 4 * own.astype(np.int64)}
        yield {**log, name: own.astype(np.float64)}
        yield {**log, name: np.full(len(own), np.nan)}
        yield {**log, name: own[None]}
        yield {**log, name: np.full(len(own), 2**64 - 1, np.uint64)}
        yield {**log, name: np.full(len(own), -(2**63), np.int64)}
        yield {other: array for other, array in log.items() if other != name}
        yield {**log, name: rng.permutation(own)}
    yield {}
    yield {**log, "more": np.zeros(1, np.int64)}
