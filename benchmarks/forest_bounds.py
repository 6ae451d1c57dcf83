"""How much one record can change a forest: bounds for every label, over all deletions.

    python benchmarks/forest_bounds.py --data FOLDER [--depths 10 20] [--seconds 60 300]

FOLDER is that of `benchmarks/forest.py`. For each depth a forest of Adult, its whole leave-one-out
family, and for each label and limit the two bounds of the greatest confidence at which some row's
deletion changes an answer, anywhere between the least and greatest values of the data.
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.forests.search import Question, search_forests
from leaveout.cores import cores
from leaveout.encoders import Box, Choices
from leaveout.models.forest import DareForestClassifier
from leaveout.models.forest.leave_one_out import leave_one_out

from forest_data import SETS

_GAP = 1e-3


def one_hot(X: NDArray[np.float64]) -> tuple[Choices, ...]:
    """Return the groups of neighbouring columns of which each row has a 1 in one, 0 elsewhere."""
    groups, first = [], 0
    binary = np.isin(X, (0.0, 1.0)).all(axis=0)
    while first < X.shape[1]:
        last = first
        while last < X.shape[1] and binary[last] and X[:, first:last].sum(axis=1).min() < 1.0:
            last += 1
        if last > first and (X[:, first:last].sum(axis=1) == 1.0).all():
            groups.append(Choices(np.arange(first, last), np.eye(last - first)))
        first = max(last, first + 1)
    return tuple(groups)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the data files")
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--depths", type=int, nargs="+", default=[10, 20])
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--rows", type=int, default=0, help="train on at most so many; 0: all")
    parser.add_argument("--seconds", type=float, nargs="+", default=[60.0, 300.0])
    parser.add_argument("--shares", type=float, nargs="+", default=[1.0], metavar="Q")
    parser.add_argument("--one-hot", action="store_true", help="only inputs with one category each")
    parser.add_argument("--threads", type=int, default=cores())
    arguments = parser.parse_args()
    split = SETS["adult"](arguments.data)
    n = arguments.rows or len(split.X)
    X, y = split.X[:n], split.y[:n]
    box = Box(X.min(axis=0), X.max(axis=0), one_hot(X) if arguments.one_hot else ())
    print(f"Adult, {len(X):,} x {X.shape[1]}, {arguments.trees} trees, k {arguments.k}, "
          f"{arguments.threads} thread(s)")  # fmt: skip
    for depth, share in itertools.product(arguments.depths, arguments.shares):
        forest = DareForestClassifier(
            arguments.trees, max_depth=depth, k=arguments.k, random_state=1, q=share
        ).fit(X, y)
        start = time.perf_counter()
        family = leave_one_out(forest.ensemble(), threads=arguments.threads)
        made = time.perf_counter() - start
        start = time.perf_counter()
        question = Question.of(family.whole, family, box)
        print(
            f"depth {depth}, share {share:g}: family {made:.1f} s, "
            f"cells {time.perf_counter() - start:.1f} s"
        )
        print("| label | limit | lower | upper | closed | seconds | boxes | rows left |")
        for label in range(len(family.whole.classes)):
            for seconds in arguments.seconds:
                found = search_forests(
                    family.whole, family, box, label, seconds=seconds, gap=_GAP,
                    threads=arguments.threads, tries=X, question=question,
                )  # fmt: skip
                left = int(np.count_nonzero(found.member_upper > found.lower / (1 - _GAP)))
                print(
                    f"| {label} | {seconds:g} s | {found.lower:.4f} | {found.upper:.4f} | "
                    f"{'yes' if found.closed else 'no'} | {found.seconds:.1f} | {found.solved:,} | "
                    f"{left:,} |",
                    flush=True,
                )
                if found.closed:
                    break


if __name__ == "__main__":
    main()
