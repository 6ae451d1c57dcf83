"""What a guard of very many members costs, and that it is exact.

    python benchmarks/guard_scale.py FOLDER DATA.npz

FOLDER holds full.onnx and family.npz, and may hold bounds.npz; without it, or with --useless, no
bound is known of any member, so that every question goes to the members. DATA holds X_train, whose
ranges are the box where there are no bounds, and X_test, whose rows in the box are asked one by
one, then all together. Times are the processor time of all threads and those by the clock, by tier.
Then every member is evaluated at some of the rows: the guard must find the very inputs at which
one disagrees or ties.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from leaveout.bab import Instance, make_instance
from leaveout.encoders import Box
from leaveout.models import load_family, load_network
from leaveout.models.family import FAMILY
from leaveout.models.train.export import NETWORK
from leaveout.verifier.guard.access import BOUNDS, ProvedBounds, load_access
from leaveout.verifier.guard.inputs import Finding
from leaveout.verifier.guard.leaks import Crowd, LeakTest

T = TypeVar("T")

_TIERS = ("1: the proved bound", "2: the members", "3: a leak")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--useless", action="store_true", help="take no bound of a member as known")
    parser.add_argument("--checked", type=int, default=300, help="rows checked by brute force")
    given = parser.parse_args()
    with np.load(given.data) as arrays:
        train, test = arrays["X_train"].astype(np.float64), arrays["X_test"].astype(np.float32)
    instance, bounds = _loaded(given.folder, train, given.useless)
    points = test[instance.box.contains(test.astype(np.float64))]
    spent, finder = _timed(lambda: LeakTest(instance, bounds, local=True))
    print(f"{len(instance.family):,} members, {len(points):,} points in the box")
    print(f"prepared in {spent.processor:.1f} s of processor time")
    # Compiled and warm.
    finder.find_all(points[:2])
    finder.find(points[0])
    finder.ask_all(points[0])
    singly = [_timed(lambda x=x: finder.find(x)) for x in points]
    _table([seconds for seconds, _ in singly], [found for _, found in singly])
    spent, together = _timed(lambda: finder.find_all(points))
    print(f"all together: {spent.of(len(points))} a row")
    worst = max((_timed(lambda x=x: finder.ask_all(x))[0] for x in points[:5]), key=sum)
    print(f"every member, whatever is known: {worst.of(1)}")
    print(f"memory at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
    if [found for _, found in singly] != together:
        sys.exit("singly and together, other answers")
    _check(instance, points, together, given.checked)


def _loaded(
    folder: Path, train: NDArray[np.float64], useless: bool
) -> tuple[Instance, ProvedBounds]:
    if (folder / BOUNDS).exists():
        access = load_access(folder)
        instance, bounds = access.instance, access.bounds
    else:
        network = load_network(folder / NETWORK)
        family = load_family(folder / FAMILY, network)
        box = Box(train.min(axis=0), train.max(axis=0))
        instance, useless = make_instance(network, family, box), True
        bounds = ProvedBounds("", "", box, np.empty((network.labels, len(family))))
    if useless:
        bounds = replace(bounds, upper=np.full_like(bounds.upper, np.inf))
    return instance, bounds


class Spent(NamedTuple):
    """Seconds of something."""

    processor: float
    clock: float

    def of(self, count: int) -> str:
        """Say what one of so many took."""
        processor, clock = (1e3 * seconds / count for seconds in self)
        return f"{processor:.3f} ms of processor time, {clock:.3f} ms by the clock"


def _timed(work: Callable[[], T]) -> tuple[Spent, T]:
    processor, clock = time.process_time(), time.perf_counter()
    found = work()
    return Spent(time.process_time() - processor, time.perf_counter() - clock), found


def _table(seconds: list[Spent], found: list[Finding]) -> None:
    tiers = np.asarray([3 if each.leak else each.tier for each in found])
    for title, column in zip(("ms of processor time", "ms by the clock"), (0, 1), strict=True):
        print(f"{title:24}{'points':>8}{'median':>9}{'p99':>9}{'worst':>9}")
        for name, chosen in [
            ("all", tiers > 0),
            *((name, tiers == at) for at, name in enumerate(_TIERS, start=1)),
        ]:
            if chosen.any():
                own = 1e3 * np.asarray(seconds)[chosen, column]
                numbers = (np.median(own), np.quantile(own, 0.99), own.max())
                print(f"{name:24}{len(own):8,}" + "".join(f"{each:9.3f}" for each in numbers))


def _check(
    instance: Instance, points: NDArray[np.float32], found: list[Finding], count: int
) -> None:
    """Evaluate every member at some points: at random, and at all that leak."""
    rng = np.random.default_rng(0)
    some = rng.choice(len(points), min(count, len(points)), replace=False)
    chosen = np.union1d(some, np.flatnonzero([each.leak for each in found]))
    labels = np.asarray([found[at].label for at in chosen], np.int64)
    apart = Crowd(instance).dissenters(points[chosen], labels)
    truth = [bool(len(members)) for members in apart]
    wrong = sum(found[at].leak != leak for at, leak in zip(chosen.tolist(), truth, strict=True))
    print(f"against every member at {len(chosen):,} points: {wrong} differences")
    if wrong:
        sys.exit(1)


if __name__ == "__main__":
    main()
