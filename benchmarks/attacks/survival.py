"""Attacks on thresholds of members: each small change of a part is made, and it is trained."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial

import numpy as np

from leaveout.models.ballots import UNREACHABLE
from leaveout.models.votes.survival.learner import Part, SurvivingLearner
from leaveout.models.votes.survival.logistic import Logistic
from leaveout.models.votes.survival.nearest import Nearest
from leaveout.models.votes.survival.ridge import Kernel, Ridge
from leaveout.models.votes.survival.tree import Tree
from leaveout.partition_options import SURVIVORS

from attacks.kind import Case, Outcome
from attacks.survival_truth import (
    changed,
    kernel_vote,
    logistic_vote,
    nearest_vote,
    ridge_vote,
    tree_vote,
)

__all__ = ["Survival"]

_WORK = 2500
"""Training sets that are enumerated for a case, at most."""


class Survival:
    """A few rows on a small grid, with ties and rows that are there twice, and test points."""

    name = "survival"

    def make(self, rng: np.random.Generator) -> Case:
        """See `Kind.make`."""
        learner = str(rng.choice(list(SURVIVORS)))
        kinds = SURVIVORS[learner].survives
        labels, width = int(rng.integers(2, 4)), int(rng.integers(1, 4))
        labels = SURVIVORS[learner].most_labels or labels
        rows = int(rng.integers(0, 7 if learner == "logistic" else 10))
        side = int(rng.integers(2, 6))
        points = int(rng.integers(1, 4))
        X, tests = rng.integers(0, side, (rows, width)), rng.integers(0, side, (points, width))
        if learner == "logistic":  # whose scores nobody computes exactly: no ties
            X, tests = rng.random((rows, width)) * side, rng.random((points, width)) * side
        skew = rng.dirichlet(np.ones(labels) * rng.choice([0.3, 1, 5]))
        return {
            "learner": learner,
            "against": str(rng.choice(kinds)),
            "labels": labels,
            "k": int(rng.integers(1, 6)),
            "depth": int(rng.integers(1, 4)),
            "leaf": int(rng.choice([1, 1, 2, 3])),
            "penalty": int(rng.choice([1, 1, 2, 10])),
            "gamma": int(rng.choice([1, 2, 5])),
            "exact_to": int(rng.integers(0, 2 if learner == "logistic" else 4)),
            "X": X.tolist(),
            "y": rng.choice(labels, rows, p=skew).tolist(),
            "tests": tests.tolist(),
        }

    def check(self, case: Case) -> Outcome:
        """See `Kind.check`."""
        label = f"{case['learner']}, {case['against']}"
        learner, part = _learner(case), _part(case)
        exact_to = None if SURVIVORS[learner.name].searched_to is None else case["exact_to"]
        votes = learner.scores(part).argmax(axis=1)
        found = learner.thresholds(part, case["against"], exact_to)
        for point in range(len(part.tests)):
            wrong = _mistake(case, point, int(votes[point]), found[point].tolist(), exact_to)
            if wrong:
                return Outcome(label, "proved", wrong)
        return Outcome(label, "proved")

    def shrink(self, case: Case) -> Iterator[Case]:
        """See `Kind.shrink`."""
        for name, along in (("tests", ("tests",)), ("X", ("X", "y"))):
            for at in range(len(case[name]) if len(case[name]) > (name == "tests") else 0):
                smaller = copy.deepcopy(case)
                for each in along:
                    del smaller[each][at]
                yield smaller
        for name in ("k", "depth", "leaf", "exact_to"):
            if case[name] > 1:
                yield {**case, name: case[name] - 1}


def _learner(case: Case) -> SurvivingLearner:
    if case["learner"] == "nearest":
        return Nearest(case["k"])
    if case["learner"] == "ridge":
        return Ridge(case["penalty"])
    if case["learner"] == "kernel":
        return Kernel(case["penalty"], case["gamma"])
    if case["learner"] == "logistic":
        return Logistic(case["penalty"])
    return Tree(case["depth"], case["leaf"])


def _part(case: Case) -> Part:
    tests = np.array(case["tests"], float)
    X = np.array(case["X"], float).reshape(len(case["X"]), tests.shape[1])
    return Part(X, np.array(case["y"], np.int32), tests, case["labels"])


def _mistake(
    case: Case, point: int, vote: int, found: list[int], exact_to: int | None
) -> str | None:
    """Compare the thresholds of a point with training on every set of changes there is room for."""
    x = tuple(case["tests"][point])
    rows = [(tuple(row), label) for row, label in zip(case["X"], case["y"], strict=True)]
    train = partial(nearest_vote, k=case["k"])
    if case["learner"] == "tree":
        train = partial(tree_vote, depth=case["depth"], leaf=case["leaf"])
    if case["learner"] == "ridge":
        train = partial(ridge_vote, penalty=case["penalty"])
    if case["learner"] == "kernel":
        train = partial(kernel_vote, penalty=case["penalty"], gamma=case["gamma"])
    if case["learner"] == "logistic":
        train = partial(logistic_vote, penalty=case["penalty"], labels=case["labels"])
    places = _places(x, [row for row, _ in rows])
    truth: dict[int, int] = {train(rows, x): 0}
    if truth != {vote: 0}:
        return f"vote: {vote} of point {point}, where it is {truth}"
    tried, work, whole = 0, 0, False
    while exact_to is None or tried < exact_to:
        sets = list(
            _first(
                changed(
                    rows, tried + 1, case["against"], places, case["labels"],
                    kept=SURVIVORS[case["learner"]].keeps_unlabelled,
                ),
                _WORK - work,
            )
        )  # fmt: skip
        work += len(sets)
        if work >= _WORK:
            break
        tried += 1
        for after in sets:
            truth.setdefault(train(after, x), tried)
        if not sets:
            whole = True  # there are not so many rows
            break
    for label, threshold in enumerate(found):
        true = truth.get(label)
        said = f"{threshold} to {label} at point {point}, where it is {true} (tried to {tried})"
        if true is not None and threshold != true:
            return f"threshold: {said}"
        if true is None and threshold != UNREACHABLE and threshold <= tried:
            return f"threshold: {said}"
        if whole and true is None and threshold != UNREACHABLE:
            return f"never: {said}"
        if exact_to is not None and threshold > exact_to + 1:
            return f"beyond: {said}"
    return None


def _places(x: tuple[float, ...], rows: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """Return where rows may be inserted: at the point, at rows, and between the point and rows."""
    halves = [tuple((a + b) / 2 for a, b in zip(x, row, strict=True)) for row in rows]
    return sorted({x, *rows, *halves})


def _first(sets: Iterator[list], most: int) -> Iterator[list]:
    for _, each in zip(range(most), sets, strict=False):
        yield each
