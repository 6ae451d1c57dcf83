"""One attack on half-moons, of members whose thresholds are known: how many points it loses.

    python benchmarks/moons.py                          # 100 members of 30 rows, 300 test points
    python benchmarks/moons.py --neighbours 1 --edits 5 10 --test 1000

Members are nearest neighbours of their part. To make one vote the other label, rows of its own
label are removed, the nearest first, and rows of the other inserted where the point is; how many
of each is tried out, and the least sum is the threshold.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_moons

from leaveout.bab.votes.collective import worst_attack
from leaveout.bab.votes.search import WORK, TooLongError
from leaveout.deadline import Deadline
from leaveout.kernel.counting import counts_of, show_no_more_lost
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.schemes import answers_of, threshold_stake
from leaveout.solvers import find_solver
from leaveout.verifier.certify.votes import hints

Ints = NDArray[np.int32]


def thresholds_of(labels: NDArray[np.int64], neighbours: int) -> tuple[int, int]:
    """Return what a member votes, and how many edits make it vote otherwise.

    Parameters
    ----------
    labels : ndarray of int64, shape (rows,)
        Of its rows, the nearest first.
    neighbours : int
        How many vote; a tie is label 0.
    """
    vote = int(2 * labels[:neighbours].sum() > min(neighbours, len(labels)))
    other, own = 1 - vote, np.flatnonzero(labels == vote)
    for edits in range(1, 2 * neighbours + 1):
        for removed in range(min(edits, len(own)) + 1):
            rest = np.delete(labels, own[:removed])
            held = np.append(np.full(edits - removed, other), rest)[:neighbours]
            if int(2 * held.sum() > len(held)) == other:
                return vote, edits
    raise AssertionError(labels)


def moons(arguments: argparse.Namespace) -> tuple[Ints, Ints, Ints]:
    """Return votes, the true labels and thresholds."""
    rows, members = arguments.rows * arguments.members, arguments.members
    x, y = make_moons(rows + arguments.test, noise=0.25, random_state=arguments.seed)
    parts = np.random.default_rng(arguments.seed).integers(0, members, rows)
    votes = np.zeros((arguments.test, members), np.int32)
    thresholds = np.zeros((arguments.test, members, 2), np.int32)
    for member in range(members):
        own, labels = x[:rows][parts == member], y[:rows][parts == member]
        for point, at in enumerate(x[rows:]):
            order = np.argsort(((own - at) ** 2).sum(axis=1), kind="stable")
            vote, edits = thresholds_of(labels[order], arguments.neighbours)
            votes[point, member], thresholds[point, member, 1 - vote] = vote, edits
    return votes, y[rows:].astype(np.int32), thresholds


def main() -> None:
    """Print a line for each number of edits."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--rows", type=int, default=30, help="of a member, on average")
    parser.add_argument("--test", type=int, default=300)
    parser.add_argument("--neighbours", type=int, default=3)
    parser.add_argument("--edits", type=int, nargs="+", default=[5, 10, 20, 30])
    parser.add_argument("--time", type=float, default=120.0, help="seconds for each")
    parser.add_argument("--check", action="store_true", help="let the checker prove it again")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    votes, truth, thresholds = moons(arguments)
    solver, counted = find_solver("highs"), answers_of(counts_of(votes, 2)) == truth
    right = int(counted.sum())
    print(f"{right} of {len(truth)} points are answered right by {arguments.members} members")
    for edits in arguments.edits:
        begun = time.perf_counter()
        stake = threshold_stake(votes, thresholds, 2, counted, edits)
        found = worst_attack(stake, solver, Deadline.after(arguments.time))
        seconds = time.perf_counter() - begun
        alone = stake.count
        line = f"{edits:4d} edits: {found.lower} to {found.upper} of {alone} that one each takes"
        print(f"{line}, {seconds:.1f} s, {found.proof}", flush=True)
        if arguments.check:
            begun = time.perf_counter()
            try:
                show_no_more_lost(stake, found.upper, hints(WORK))
                said = "proved again"
            except Rejected:
                said = "NOT TRUE"
            except TooLongError:
                said = "takes too long to be proved again"
            print(f"{'':11s} {said}, {time.perf_counter() - begun:.1f} s", flush=True)


if __name__ == "__main__":
    main()
