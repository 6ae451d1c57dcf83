"""Every vote over the same data: accuracy, median radius and time, as in the papers.

    python benchmarks/poisoning.py                                 # digits, from scikit-learn
    python benchmarks/poisoning.py --data ../shared/data           # Adult and Crypto, too
    python benchmarks/poisoning.py --scale --seconds 60            # random ballots, 10,000 points
    python benchmarks/poisoning.py --plot curves.svg

DPA and run-offs are held over the same members; those of Finite Aggregation see each training point
several times, those of SS-DPA share features that were learnt from all points without labels.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from leaveout.bab.votes.collective import worst_attack
from leaveout.deadline import Deadline
from leaveout.kernel.counting import Counts, Stake, Votes, counts_of
from leaveout.kernel.schemes import (
    Scores,
    answers_of,
    counted_stake,
    label_radii,
    published_run_offs,
    run_off_answers,
    run_off_radii,
)
from leaveout.models.votes import (
    Ballots,
    PartRecipe,
    Samples,
    hold_election,
    make_learner,
    samples_from_arrays,
)
from leaveout.solvers import find_solver
from leaveout.verifier.page.markup import Child, tag
from leaveout.verifier.page.plot import axes, chart_frame, linear, picture, staircase
from leaveout.verifier.values.votes import Radii, Vote

HEAD = (
    f"{'data':8s}{'vote':30s}{'members':>8s}{'unit':>9s}{'base':>7s}{'answered':>9s}"
    f"{'median':>12s}{'certify/s':>10s}"
)
TOGETHER = (
    f"{'data':8s}{'vote':30s}{'points':>7s}{'edits':>6s}{'each':>8s}{'together':>18s}"
    f"{'seconds':>9s}  bound"
)


@dataclass(frozen=True)
class Row:
    """One vote over one set of data."""

    data: str
    vote: Vote
    label: str
    unit: str
    radii: Radii
    seconds: float

    @property
    def shown(self) -> str:
        """The line of the table."""
        ballots = self.vote.ballots
        base = np.mean(ballots.votes == ballots.truth[:, None])
        low, high = self.radii.median()
        median = str(low) if low == high else f"{low} to {high}"
        return (
            f"{self.data:8s}{self.label:30s}{ballots.parts:8,d}{self.unit:>9s}{base:7.1%}"
            f"{np.mean(self.vote.right):9.1%}{median:>12s}{self.seconds:10.2f}"
        )


def digits() -> Samples:
    """Read scikit-learn's digits: 8 x 8 pixels, 10 labels; a fifth is for testing."""
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=0)
    return samples_from_arrays(X_train, y_train, X_test, y_test, source="digits")


def from_file(path: Path) -> Samples:
    """Read the arrays of one of LUCID's data sets."""
    with np.load(path) as arrays:
        given = [arrays[name] for name in ("X_train", "y_train", "X_test", "y_test")]
    return samples_from_arrays(*given, source=path.stem)


def elections(samples: Samples, arguments: argparse.Namespace) -> Iterator[Ballots]:
    """Train and let vote: a partition, a spread partition, and labels divided."""
    learner = make_learner(arguments.learner)
    recipe = PartRecipe(parts=arguments.parts, learner=learner)
    for method, spread in (("dpa", 1), ("finite_aggregation", arguments.spread), ("ss_dpa", 1)):
        own = replace(recipe, method=method, spread=spread)
        if method == "ss_dpa":
            own = replace(own, features=("StandardScaler", "PCA"), merge_duplicates=True)
        yield hold_election(samples, own, workers=arguments.workers).ballots


def votes_over(ballots: Ballots) -> Iterator[tuple[str, str, Vote]]:
    """Yield a label, what is counted, and the vote."""
    solver = find_solver("highs")
    if ballots.origin.method == "ss_dpa":
        yield "SS-DPA", "relabels", Vote("ss_dpa", ballots)
    elif ballots.origin.method == "finite_aggregation":
        yield (
            "Finite Aggregation, published",
            "edits",
            Vote("finite_aggregation", ballots, solver, published=True),
        )
        yield "Finite Aggregation, exact", "edits", Vote("finite_aggregation", ballots, solver)
        yield (
            "spread run-off, published",
            "edits",
            Vote("spread_run_off", ballots, solver, published=True),
        )
        yield "spread run-off, exact", "edits", Vote("spread_run_off", ballots, solver)
    else:
        yield "DPA", "edits", Vote("dpa", ballots)
        yield "run-off, published", "edits", Vote("run_off", ballots, published=True)
        yield "run-off, exact", "edits", Vote("run_off", ballots)


def certified(data: str, ballots: Ballots, seconds: float) -> Iterator[Row]:
    """Certify every vote over some ballots."""
    for label, unit, vote in votes_over(ballots):
        started = time.perf_counter()
        radii = vote.radii(seconds=seconds)
        taken = time.perf_counter() - started
        if "published" in label:
            radii = replace(radii, upper=radii.lower)
        yield Row(data, vote, label, unit, radii, taken)


def together(row: Row, edits: int, points: int, seconds: float) -> str:
    """Return a line on one attack against all points, beside one against each."""
    vote, ballots = row.vote, row.vote.ballots
    scores = None if ballots.scores is None else ballots.scores[:points]
    ballots = replace(
        ballots, votes=ballots.votes[:points], truth=ballots.truth[:points], scores=scores
    )
    solver = find_solver("highs")
    few = Vote(vote.kind, ballots, solver)
    right = few.right
    started = time.perf_counter()
    stake = few.stake(np.ones(ballots.points, np.bool_), edits)
    found = worst_attack(stake, solver, Deadline.after(seconds))
    taken = time.perf_counter() - started
    low, high = (int(right.sum()) - lost for lost in (found.upper, found.lower))
    share = f"{low / ballots.points:.1%}"
    if low < high:
        share += f" to {high / ballots.points:.1%}"
    each = (int(right.sum()) - stake.count) / ballots.points
    return (
        f"{row.data:8s}{row.label:30s}{ballots.points:7,d}{edits:6d}{each:8.1%}{share:>18s}"
        f"{taken:9.2f}  {found.proof}"
    )


def published(votes: Votes, scores: Scores, labels: int) -> Counts:
    """Return what run-offs survive by the published argument."""
    answers = run_off_answers(votes, scores, labels)
    return published_run_offs(votes, scores, labels, answers, (0,))


def at_stake(votes: Votes, truth: Votes, labels: int, edits: int) -> Stake:
    """Return what attacks on a plurality demand."""
    right = answers_of(counts_of(votes, labels)) == truth
    return counted_stake(votes, labels, right, edits)


def scale() -> None:
    """Print how long 10,000 test points x 1,200 members x 10 labels take."""
    rng = np.random.default_rng(0)
    points, parts, labels = 10_000, 1_200, 10
    truth = rng.integers(0, labels, points).astype(np.int32)
    lean = rng.uniform(0.1, 0.9, (points, 1))
    votes = rng.integers(0, labels, (points, parts)).astype(np.int32)
    votes = np.where(rng.random((points, parts)) < lean, truth[:, None], votes)
    scores = rng.random((points, parts, labels), dtype=np.float32)
    np.put_along_axis(scores, votes[:, :, None], 1.5, axis=2)
    print(f"{points:,} test points x {parts:,} members, {labels} labels")
    few = slice(0, 2)
    for name, radii in (
        ("DPA", lambda at: label_radii(votes[at], labels).min(axis=1)),
        ("run-off, published", lambda at: published(votes[at], scores[at], labels)),
        ("run-off, exact", lambda at: run_off_radii(votes[at], scores[at], labels)),
    ):
        radii(few)  # compiled, or read from the cache
        started = time.perf_counter()
        found = radii(slice(None))
        print(f"{name:22s}{time.perf_counter() - started:8.2f} s, median {np.median(found):.0f}")


def together_at_scale() -> None:
    """Print how long one attack on 200 points x 50 members, 10 labels, with 5 edits takes."""
    points, parts, labels, edits = 200, 50, 10, 5
    print(f"\none attack on {points} points x {parts} members, {labels} labels, {edits} edits")
    for least, most in ((0.0, 0.5), (0.1, 0.3), (0.2, 0.8)):
        rng = np.random.default_rng(1)
        truth = rng.integers(0, labels, points).astype(np.int32)
        lean = rng.uniform(least, most, (points, 1))
        votes = rng.integers(0, labels, (points, parts))
        votes = np.where(rng.random((points, parts)) < lean, truth[:, None], votes)
        started = time.perf_counter()
        stake = at_stake(votes.astype(np.int32), truth, labels, edits)
        found = worst_attack(stake, find_solver("highs"))
        print(
            f"members lean {least} to {most}: {stake.count} points at stake, "
            f"{found.lower} to {found.upper} lost, {time.perf_counter() - started:.2f} s"
        )


def together_with_many(seconds: float) -> None:
    """Print what one attack on 10,000 points x 50 members, 10 labels, 71 % right, loses at most."""
    points, parts, labels = 10_000, 50, 10
    rng = np.random.default_rng(1)
    truth = rng.integers(0, labels, points).astype(np.int32)
    lean = rng.uniform(-0.35, 1.0, (points, 1))
    votes = rng.integers(0, labels, (points, parts))
    votes = np.where(rng.random((points, parts)) < lean, truth[:, None], votes).astype(np.int32)
    right = int((answers_of(counts_of(votes, labels)) == truth).sum())
    print(f"\none attack on {points:,} points x {parts} members, {right / points:.1%} right")
    for edits in (5, 10):
        started = time.perf_counter()
        stake = at_stake(votes, truth, labels, edits)
        found = worst_attack(stake, find_solver("highs"), Deadline.after(seconds))
        each, low, high = (
            (right - lost) / points for lost in (len(found.points), found.upper, found.lower)
        )
        print(
            f"{edits:2d} edits: each {each:.1%}, together {low:.1%} to {high:.1%}, "
            f"{time.perf_counter() - started:.1f} s: {found.proof}"
        )


def gains(rows: list[Row]) -> Iterator[str]:
    """Yield, for each exact certificate, at how many points it exceeds the published one."""
    for published, exact in pairwise(rows):
        if published.label.replace("published", "exact") == exact.label != published.label:
            above = int((exact.radii.lower > published.radii.lower).sum())
            points = len(exact.radii.lower)
            yield f"{exact.data}, {exact.label}: above the published one at {above} of {points:,}"


def plot(rows: list[Row], path: Path) -> None:
    """Draw certified accuracy against edits, a panel a data set."""
    names, drawn = list(dict.fromkeys(row.data for row in rows)), list[Child]()
    deepest = 0
    for place, name in enumerate(names):
        own = [row for row in rows if row.data == name]
        most = max(int(row.radii.lower[row.radii.right].max(initial=0)) for row in own) + 2
        x = linear(0.0, float(most), "edits or relabels")
        frame = chart_frame(x, linear(0.0, 1.0, f"{name}: certified accuracy"))
        lines: list[Child] = []
        for at, row in enumerate(own):
            shares = [float(row.radii.accuracy(edits).lower) for edits in range(most)]
            way = frame.path(staircase([float(edits) for edits in range(most)], shares))
            style = f"line c{at % 6}{' dashed' if 'published' in row.label else ''}"
            y = 262 + 18 * at
            lines.append(tag("path", d=way, class_=style))
            lines.append(tag("path", d=f"M16 {y - 4}h24", class_=style))
            lines.append(tag("text", f"{row.label} ({row.unit})", x=48, y=y, class_="name"))
        deepest = max(deepest, 262 + 18 * len(own))
        chart = axes(frame, *lines)
        drawn.append(tag("svg", chart, x=460 * place, y=10, width=450, height=deepest))
    said = "Certified accuracy against edits"
    whole = picture(460 * len(names), deepest + 20, said, *drawn)
    path.write_text(f"{whole}\n", encoding="utf-8")


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with crypto_lucid7.npz and the like")
    parser.add_argument("--only", default="digits,crypto,adult")
    parser.add_argument("--parts", type=int, default=50)
    parser.add_argument("--spread", type=int, default=4)
    parser.add_argument("--learner", default="LogisticRegression")
    together = {"type": int, "nargs": "+", "help": "of attacks on all points together"}
    parser.add_argument("--edits", default=[4], **together)
    parser.add_argument("--points", default=[200], **together)
    parser.add_argument("--seconds", type=float, default=60, help="for each certificate")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--plot", type=Path, help="draw certified accuracy against edits")
    parser.add_argument("--scale", action="store_true", help="time 10,000 random ballots")
    return parser.parse_args()


def main() -> None:
    """Print the tables."""
    arguments = parsed()
    if arguments.scale:
        scale()
        together_at_scale()
        return together_with_many(arguments.seconds)
    names = arguments.only.split(",")
    files = {"crypto": "crypto_lucid7.npz", "adult": "adult_lucid21.npz"}
    rows: list[Row] = []
    print(HEAD)
    for name in names:
        if name != "digits" and arguments.data is None:
            print(f"{name:8s}skipped: say where {files[name]} lies with --data")
            continue
        samples = digits() if name == "digits" else from_file(arguments.data / files[name])
        for ballots in elections(samples, arguments):
            for row in certified(name, ballots, arguments.seconds):
                print(row.shown, flush=True)
                rows.append(row)
    print(*gains(rows), sep="\n")
    print(f"\n{TOGETHER}")
    for row in rows:
        if "published" in row.label:
            continue
        for edits in arguments.edits:
            for points in arguments.points:
                print(together(row, edits, points, arguments.seconds), flush=True)
    if arguments.plot is not None:
        plot(rows, arguments.plot)
        print(f"\n{arguments.plot}")
    return None


if __name__ == "__main__":
    main()
