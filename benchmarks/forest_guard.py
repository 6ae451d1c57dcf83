"""A guard of a forest on Adult: what it noises, and how long it takes, on this machine.

    python benchmarks/forest_guard.py --data FOLDER [--trees 50] [--depth 20] [--points 2000]
    python benchmarks/forest_guard.py --set synthetic-10k --train 500 --rows 100

FOLDER holds ``adult.data`` and ``adult.test`` (with a header line); synthetic sets need none. A
forest is trained on all rows, or the first ``--train`` of them, and a guard is loaded, which
makes every deletion. All test points are asked once through the guard, with its memory on the
disk. Times are processor time of the one thread that asks, which others on the machine do not
lengthen: of the forest alone and of the guard. A noised answer waits for the disk besides. Then
the members are evaluated by brute force, all of them at ``--points`` test points, tree by tree
from the root; and ``--deleted`` rows are really deleted and their forests asked. ``--changes``
rows are deleted from the folder at last, so that the deletions are made anew.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from leaveout.cores import cores
from leaveout.models.forest import DareForestClassifier
from leaveout.models.forest.family import ForestFamily, load_forest_family
from leaveout.models.forest.scored import leaves_of
from leaveout.verifier.guard import Guard

from forest_data import SETS

Floats = NDArray[np.float64]


@njit(parallel=True, nogil=True)
def _flips(
    start: NDArray[np.int64],
    tree: NDArray[np.int32],
    node: NDArray[np.int32],
    root: NDArray[np.int32],
    feature: NDArray[np.int32],
    threshold: Floats,
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    shares: Floats,
    first: NDArray[np.int64],
    own_feature: NDArray[np.int32],
    own_threshold: Floats,
    own_left: NDArray[np.int32],
    own_right: NDArray[np.int32],
    own_shares: Floats,
    leaves: NDArray[np.int64],
    X: Floats,
    labels: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Count the members that give each point another label, every one of them asked in full."""
    points, trees = leaves.shape
    counts = np.zeros(points, np.int64)
    for p in prange(points):
        x = X[p]
        total = np.empty(shares.shape[1])
        for m in range(len(start) - 1):
            total[:] = 0.0
            at = start[m]
            for t in range(trees):
                base = first[t]
                row = leaves[p, t]
                other = -1
                if at < start[m + 1] and tree[at] == t:
                    # From the root, as the member's own tree is: its node where it has one.
                    i = 0
                    inside = False
                    while True:
                        if not inside and i == node[at]:
                            inside, i = True, root[at]
                        if inside and i < 0:
                            i = -1 - i
                            while own_feature[base + i] >= 0:
                                k = base + i
                                right_side = x[own_feature[k]] > own_threshold[k]
                                i = own_right[k] if right_side else own_left[k]
                            row = base + i
                            break
                        if inside:
                            if feature[i] < 0:
                                other = left[i]
                                break
                            i = right[i] if x[feature[i]] > threshold[i] else left[i]
                        else:
                            k = base + i
                            if own_feature[k] < 0:
                                break
                            right_side = x[own_feature[k]] > own_threshold[k]
                            i = own_right[k] if right_side else own_left[k]
                    at += 1
                for c in range(len(total)):
                    total[c] += shares[other, c] if other >= 0 else own_shares[row, c]
            best = 0
            for c in range(1, len(total)):
                if total[c] / trees > total[best] / trees:
                    best = c
            counts[p] += best != labels[p]
    return counts


def flips(family: ForestFamily, X: Floats, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many members give each point another label than the forest, by brute force."""
    trees, changes = family.whole.trees, family.changes
    sizes = [len(tree.feature) for tree in trees]
    first = np.concatenate(([0], np.cumsum(sizes)))
    joined = [
        np.concatenate([getattr(tree, name) for tree in trees])
        for name in ("feature", "threshold", "left", "right", "shares")
    ]
    leaves = np.stack(
        [leaves_of(tree, X) + at for tree, at in zip(trees, first.tolist(), strict=False)], axis=1
    )
    found: NDArray[np.int64] = _flips(
        changes.start, changes.tree, changes.node, changes.root, changes.feature,
        changes.threshold, changes.left, changes.right, changes.shares, first, *joined, leaves,
        np.ascontiguousarray(X), labels,
    )  # fmt: skip
    return found


def _times(ask: Callable[[Floats], int], X: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Ask points one by one; return the answers, and milliseconds of this thread."""
    answers, taken = np.empty(len(X), np.int64), np.empty(len(X))
    for at, x in enumerate(X):
        begun = time.thread_time_ns()
        answers[at] = ask(x)
        taken[at] = (time.thread_time_ns() - begun) / 1e6
    return answers, taken


def _line(name: str, taken: Floats) -> str:
    if not len(taken):
        return f"  {name:<28} {0:>6}"
    p50, p99 = np.quantile(taken, (0.5, 0.99))
    return (
        f"  {name:<28} {len(taken):>6} {p50:>9.3f} {taken.mean():>9.3f} {p99:>9.3f} "
        f"{taken.max():>9.3f}"
    )


def measure(folder: Path, arguments: argparse.Namespace) -> None:
    """Print the table."""
    split = SETS[arguments.set](arguments.data)
    train = slice(arguments.train or None)
    settings = {"max_depth": arguments.depth, "k": 5, "random_state": 1}
    forest = DareForestClassifier(arguments.trees, **settings).fit(split.X[train], split.y[train])
    forest.save(folder / "forest.npz")
    rows = arguments.rows or len(split.X_test)
    X, memory = np.ascontiguousarray(split.X_test[:rows]), folder / "benchmark.sqlite"
    memory.unlink(missing_ok=True)
    kept = (folder / "family.npz").exists()
    for what in ("read",) if kept else ("made", "read"):
        begun = time.perf_counter()
        guard = Guard.load(folder, epsilon=0.2, seed=1, memory=memory)
        print(f"  loaded in {time.perf_counter() - begun:.1f} s, deletions {what}")
        if what == "made":
            guard.close()
    size = (folder / "family.npz").stat().st_size / 1e6
    print(f"  {guard.members:,} rows; family.npz {size:,.0f} MB")
    guard.rehearse(X[:2])
    found = guard.inspect(X)
    label = guard.subject.leaks.label
    _, bare = _times(label, X)
    answers, taken = _times(guard.label, X)
    assert (answers[~found.leaks] == found.labels[~found.leaks]).all()
    print(f"  {'ms':<28} {'points':>6} {'p50':>9} {'mean':>9} {'p99':>9} {'worst':>9}")
    print(_line("the forest alone", bare))
    print(_line("guard", taken))
    for tier, name in ((1, "nobody could matter"), (2, "rows looked at, none does")):
        print(_line(f"  {name}", taken[found.tiers == tier]))
    print(_line("  noised, and written", taken[found.leaks]))
    _, again = _times(guard.label, X)
    print(_line("guard, asked again", again))
    begun = time.perf_counter()
    guard.rehearse(X[:1])
    print(f"  the most work rehearsed       {1e3 * (time.perf_counter() - begun):.0f} ms")
    wrong = int((found.labels != forest.predict_proba(X).argmax(axis=1)).sum())
    print(f"  noised {found.leaks.sum():,} of {rows:,}; labels that are not the forest's: {wrong}")
    truth = split.y_test[:rows]
    print(
        f"  test error: forest {100 * (found.labels != truth).mean():.2f} %, guard at epsilon 0.2 "
        f"{100 * (answers != truth).mean():.2f} %"
    )
    family = load_forest_family(folder / "family.npz", forest.ensemble())
    assert family is not None
    if arguments.points:
        _check(forest, family, X[: arguments.points], found.leaks, found.labels, arguments.deleted)
    if arguments.changes:
        begun = time.perf_counter()
        guard.delete(forest.rows_[: arguments.changes])
        print(f"  {arguments.changes} rows deleted in {time.perf_counter() - begun:.1f} s")
    guard.close()


def _check(
    forest: DareForestClassifier,
    family: ForestFamily,
    X: Floats,
    leaks: NDArray[np.bool_],
    labels: NDArray[np.int64],
    deleted: int,
) -> None:
    """Print whether brute force, and real deletions, find what the guard noises."""
    begun = time.perf_counter()
    counts = flips(family, X, labels[: len(X)])
    wrong = int(((counts > 0) != leaks[: len(X)]).sum())
    print(
        f"  {len(X):,} points x {len(family):,} rows by brute force in "
        f"{time.perf_counter() - begun:.0f} s: {int((counts > 0).sum())} flip, guard differs at "
        f"{wrong}"
    )
    if not deleted:
        return
    begun, missed, seen = time.perf_counter(), 0, 0
    for row in np.random.default_rng(3).choice(forest.rows_, deleted, replace=False).tolist():
        other = forest.unlearn([row]).predict_proba(X).argmax(axis=1) != labels[: len(X)]
        seen += int(other.sum())
        missed += int((other & ~leaks[: len(X)]).sum())
    print(
        f"  {deleted} rows really deleted in {time.perf_counter() - begun:.0f} s: {seen} labels "
        f"flip, not noised {missed}"
    )


def main() -> None:
    """Read the options, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder of the data files")
    parser.add_argument("--set", choices=SETS, default="adult")
    parser.add_argument("--train", type=int, default=0, help="rows trained on; 0: all")
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--depth", type=int, default=20)
    parser.add_argument("--rows", type=int, default=0, help="test points asked; 0: all")
    parser.add_argument("--folder", type=Path, help="where forest and deletions are kept")
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--deleted", type=int, default=50)
    parser.add_argument("--changes", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.data is None and not arguments.set.startswith("synthetic"):
        parser.error(f"--data is needed for {arguments.set}")
    print(f"{platform.processor() or platform.machine()}, {cores()} cores, epsilon 0.2")
    print(f"{arguments.set}, {arguments.trees} trees, depth {arguments.depth}")
    if arguments.folder is not None:
        measure(arguments.folder, arguments)
        return
    with TemporaryDirectory(prefix="leaveout-") as name:
        measure(Path(name), arguments)


if __name__ == "__main__":
    main()
