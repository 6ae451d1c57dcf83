"""What members that survive relabels add: certified accuracy beside fragile members.

    python benchmarks/surviving_members.py                        # digits, 5 or more
    python benchmarks/surviving_members.py --data ../shared/data  # Adult and shoppers, too

Each line is one vote over the same rows and parts: how accurate it is, and which share of the test
rows it answers right whatever so many relabels do, each row attacked separately.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from leaveout.arrays import Floats, Integers
from leaveout.models.votes import (
    Ballots,
    PartRecipe,
    hold_election,
    make_learner,
    samples_from_arrays,
)

RELABELS = (1, 2, 5, 10, 20, 50, 100)
LEARNERS = {
    "LogisticRegression": False,
    "logistic": True,
    "nearest": True,
    "kernel": True,
    "ridge": True,
}


def data(folder: Path | None, rows: int) -> Iterator[tuple[str, Floats, Integers]]:
    """Yield each set's rows and labels 0 and 1."""
    rng = np.random.default_rng(0)
    X, y = load_digits(return_X_y=True)
    sets = [("digits", X, y >= 5)]
    if folder is not None:
        with np.load(folder / "adult_lucid21.npz") as held:
            sets.append(("adult", held["X_train"], held["y_train"]))
        with (folder / "online_shoppers_intention.csv").open(newline="") as stream:
            cells = np.array(list(csv.reader(stream))[1:])
        words = [np.unique(column, return_inverse=True)[1] for column in cells[:, 10:17].T]
        hot = [np.eye(each.max() + 1)[each] for each in words]
        numbers = cells[:, :10].astype(float)
        X = np.hstack([numbers / numbers.max(axis=0), *hot])
        sets.append(("shoppers", X, cells[:, 17] == "TRUE"))
    for name, X, y in sets:
        order = rng.permutation(len(X))[:rows]
        yield name, X[order].astype(float), np.asarray(y)[order].astype(int)


def radii(ballots: Ballots) -> Integers:
    """Return how many relabels each right answer of two labels survives; -1 for a wrong one."""
    votes, prices = ballots.votes, np.ones(ballots.votes.shape, np.int64)
    if ballots.thresholds is not None:
        reached = ballots.thresholds.max(axis=2)
        prices = np.where(reached > 0, reached, 2**31)  # of a vote that cannot be forced
    answers = (2 * votes.sum(axis=1) > votes.shape[1]).astype(int)
    found = np.full(len(votes), -1)
    for point in np.flatnonzero(answers == ballots.truth):
        own = votes[point] == answers[point]
        # Label 0 wins a tie.
        need = (2 * own.sum() - len(own) + (1 if answers[point] else 2)) // 2
        cheapest = np.sort(prices[point, own])[: max(need, 0)]
        found[point] = cheapest.sum() - 1
    return found


def main() -> None:
    """Print a table for each set and number of parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with adult_lucid21.npz and the like")
    parser.add_argument("--only", default="digits,adult,shoppers")
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--parts", type=int, nargs="+", default=[10, 50])
    given = parser.parse_args()
    print(f"{'data':<10}{'members':<32}{'accuracy':>9}", *(f"{r:>7}" for r in RELABELS), "seconds")
    for name, X, y in data(given.data, given.rows):
        if name not in given.only:
            continue
        cut = len(X) - min(1000, len(X) // 4)
        samples = samples_from_arrays(X[:cut], y[:cut], X[cut:], y[cut:], source=name)
        for parts in given.parts:
            for learner, survives in LEARNERS.items():
                began = time.monotonic()
                recipe = PartRecipe(
                    parts=parts, learner=make_learner(learner), scores=False,
                    survive="relabels" if survives else None,
                )  # fmt: skip
                found = radii(hold_election(samples, recipe).ballots)
                shares = [f"{(found >= r).mean():7.1%}" for r in RELABELS]
                label = f"{parts} {learner}"
                spent = time.monotonic() - began
                print(
                    f"{name:<10}{label:<32}{(found >= 0).mean():9.1%}", *shares, f"{spent:7.1f}",
                    flush=True,
                )  # fmt: skip


if __name__ == "__main__":
    main()
