"""Random small forests, sets of inputs and their leaks, found by asking about every cell."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders import Box, Choices
from leaveout.models.forest import DareForestClassifier
from leaveout.models.forest.family import Changes, ForestFamily, of_tree
from leaveout.models.forest.scored import ScoredForest, ScoredTree

from support.forest_families import family_by_deleting

__all__ = ["Asked", "asked", "greatest_leaks", "grouped_rows", "wrong_of"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Asked:
    """A question that is small enough for all its cells to be tried."""

    whole: ScoredForest
    others: ForestFamily | ScoredForest
    box: Box

    @property
    def members(self) -> list[ScoredForest]:
        if isinstance(self.others, ScoredForest):
            return [self.others]
        return [self.others.member(i) for i in range(len(self.others))]


def asked(rng: np.random.Generator, kind: str) -> Asked:
    """Draw a question: ``deleted`` rows, any ``family``, or any other ``pair``."""
    if kind == "deleted":
        return _deleted(rng)
    features, labels = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    rounds = bool(rng.random() < 0.3)
    grid = _grid(rng, rounds)
    whole = _forest(rng, features, np.arange(labels), grid, rounds)
    if kind == "family":
        others: ForestFamily | ScoredForest = _family(rng, whole, features, grid)
    else:
        known = np.sort(rng.choice(5, int(rng.integers(1, 4)), replace=False))
        classes = np.arange(labels) if rng.random() < 0.6 else known
        others = _forest(rng, features, classes, grid, bool(rng.random() < 0.5) and rounds)
        if len(classes) == labels and rng.random() < 0.5:
            # Most trees are the same.
            trees = list(whole.trees)
            trees[0] = others.trees[0]
            others = ScoredForest(tuple(trees), whole.classes, whole.rounds_inputs)
    return Asked(whole, others, _box(rng, features, grid))


def _deleted(rng: np.random.Generator) -> Asked:
    features = int(rng.integers(1, 4))
    n = int(rng.integers(3, 14))
    X = rng.integers(0, int(rng.integers(2, 5)), (n, features)).astype(float)
    y = rng.integers(0, int(rng.integers(2, 5)), n)
    forest = DareForestClassifier(
        int(rng.integers(1, 8)), k=int(rng.choice([1, 3])), d_rmax=int(rng.choice([0, 1])),
        max_depth=int(rng.integers(1, 5)), random_state=int(rng.integers(2**31)),
    ).fit(X, y)  # fmt: skip
    family = family_by_deleting(forest)
    return Asked(family.whole, family, _box(rng, features, np.arange(0, 4.5, 0.5)))


def _grid(rng: np.random.Generator, rounds: bool) -> Floats:
    """Thresholds to draw from; where inputs are rounded, also between two float32 numbers."""
    grid = np.arange(0, 4.5, 0.5)
    if rounds:
        at = rng.choice(np.array([0.1, 0.7, 1.0, 3.3]), 3).astype(np.float32)
        up = np.nextafter(at, np.float32(9)).astype(float)
        middle = (at + up) / 2
        close = np.concatenate((at, up, middle, np.nextafter(middle, 9), np.nextafter(middle, -9)))
        grid = np.sort(rng.choice(np.concatenate((grid, close)), 7))
    return grid


def _tree(
    rng: np.random.Generator, features: int, labels: int, grid: Floats, pure: float
) -> ScoredTree:
    nodes: list[tuple[int, float, int, int]] = []
    shares: list[Floats] = []

    def grow(depth: int) -> int:
        here = len(nodes)
        nodes.append((-1, 0.0, -1, -1))
        shares.append(_shares(rng, labels, pure))
        if depth and rng.random() < 0.75:
            left, right = grow(depth - 1), grow(depth - 1)
            nodes[here] = (int(rng.integers(features)), float(rng.choice(grid)), left, right)
        return here

    grow(int(rng.integers(0, 4)))
    feature, threshold, left, right = zip(*nodes, strict=True)
    return ScoredTree(
        np.array(feature, np.int32), np.array(threshold), np.array(left, np.int32),
        np.array(right, np.int32), np.array(shares),
    )  # fmt: skip


def _shares(rng: np.random.Generator, labels: int, pure: float) -> Floats:
    """Shares as of a leaf with few rows, so that forests tie."""
    counts = rng.integers(0, 4, labels).astype(float)
    if rng.random() < pure or not counts.sum():
        counts[:] = 0.0
        counts[rng.integers(labels)] = 1.0
    return counts / counts.sum()


def _forest(
    rng: np.random.Generator, features: int, classes: NDArray[np.int64], grid: Floats, rounds: bool
) -> ScoredForest:
    pure = float(rng.choice([0.1, 0.5, 1.0]))
    count = int(rng.integers(1, 7))
    trees = tuple(_tree(rng, features, len(classes), grid, pure) for _ in range(count))
    return ScoredForest(trees, classes, rounds)


def _family(
    rng: np.random.Generator, whole: ScoredForest, features: int, grid: Floats
) -> ForestFamily:
    """Put any tree in place of any nodes; some of its leaves lead back to the tree."""
    start, tree, node, root = [0], [], [], []
    nodes: list[tuple[int, float, int, int]] = []
    shares: list[Floats] = []
    labels = len(whole.classes)
    for _ in range(int(rng.integers(1, 5))):
        for t, old in enumerate(whole.trees):
            if rng.random() < 0.4:
                continue
            at = int(rng.integers(len(old.feature)))
            below = [int(old.left[at]), int(old.right[at])] if old.feature[at] >= 0 else []
            new = _tree(rng, features, labels, grid, 0.3)
            base = len(nodes)
            tree.append(t)
            node.append(at)
            root.append(base)
            for i in range(len(new.feature)):
                if new.feature[i] < 0:
                    shares.append(new.shares[i])
                    nodes.append((-1, 0.0, len(shares) - 1, -1))
                    continue
                left, right = base + int(new.left[i]), base + int(new.right[i])
                if below and rng.random() < 0.4:
                    left = of_tree(below[0])
                if below and rng.random() < 0.4:
                    right = of_tree(below[1])
                nodes.append((int(new.feature[i]), float(new.threshold[i]), left, right))
        start.append(len(tree))
    feature, threshold, left, right = zip(*nodes, strict=True) if nodes else [()] * 4
    changes = Changes(
        np.array(start, np.int64), np.array(tree, np.int32), np.array(node, np.int32),
        np.array(root, np.int64), np.array(feature, np.int32), np.array(threshold, np.float64),
        np.array(left, np.int64), np.array(right, np.int64),
        np.array(shares).reshape(len(shares), labels),
    )  # fmt: skip
    return ForestFamily(whole, np.arange(len(start) - 1) * 3 + 1, changes)


def _box(rng: np.random.Generator, features: int, grid: Floats) -> Box:
    ends = np.sort(rng.choice(np.concatenate((grid, [-1.0, 5.0])), (2, features)), axis=0)
    choices = []
    free = list(rng.permutation(features))
    if rng.random() < 0.5:
        kind = rng.integers(3)
        if kind == 0 and features > 1:
            columns = np.array([free.pop() for _ in range(int(rng.integers(2, features + 1)))])
            choices.append(Choices(columns, np.eye(len(columns))))
        elif kind == 1:
            choices.append(Choices(np.array([free.pop()]), rng.choice(np.arange(-1, 5), 3)))
        elif features > 1:
            columns = np.array([free.pop(), free.pop()])
            choices.append(Choices(columns, rng.choice(grid, (4, 2))))
        for each in choices:
            ends[0, each.columns], ends[1, each.columns] = -5.0, 6.0
    return Box(ends[0], ends[1], tuple(choices))


def every_cell(asked: Asked) -> Floats:
    """Return inputs of the set among which there is one of every cell."""
    box, cuts = asked.box, [set() for _ in range(asked.box.dimension)]
    for forest in (asked.whole, *asked.members):
        for tree in forest.trees:
            for at, cut in zip(tree.feature.tolist(), tree.threshold.tolist(), strict=True):
                if at >= 0:
                    cuts[at].add(cut)
    axes: list[list[list[float]]] = []
    columns: list[int] = []
    for each in box.choices:
        columns += each.columns.tolist()
        axes.append(each.values.tolist())
    for at in range(box.dimension):
        if at in columns:
            continue
        found = {float(box.lower[at]), float(box.upper[at])}
        for cut in cuts[at]:
            near = np.float32(cut)
            found |= {cut, float(np.nextafter(cut, np.inf))}
            found |= {float(np.nextafter(near, np.float32(side))) for side in (-9, 9)}
            found.add(float(near))
        inside = [[value] for value in sorted(found) if box.lower[at] <= value <= box.upper[at]]
        axes.append(inside)
        columns.append(at)
    X = np.array([np.concatenate(point) for point in product(*axes)])
    return X[:, np.argsort(columns)]


def greatest_leaks(asked: Asked, label: int) -> Floats:
    """Return the greatest confidence of a leak of each member, -inf where there is none."""
    X = every_cell(asked)
    scores = asked.whole.probabilities(X)
    rest = np.delete(scores, label, axis=1).max(axis=1, initial=0.0)
    confidence = scores[:, label] - rest
    answers = scores.argmax(axis=1)
    found = []
    for member in asked.members:
        others = member.classes[member.probabilities(X).argmax(axis=1)]
        leaks = (answers == label) & (others != asked.whole.classes[label])
        found.append(confidence[leaks].max(initial=-np.inf))
    return np.array(found)


def wrong_of(asked: Asked, label: int, threads: int = 1) -> str | None:
    """Ask the search for bounds and for verdicts; return what is wrong with its answers."""
    from leaveout.bab.forests.search import Question, search_forests

    truth = greatest_leaks(asked, label)
    best = float(truth.max(initial=-np.inf))
    question = Question.of(asked.whole, asked.others, asked.box)
    given = asked.whole, asked.others, asked.box, label
    found = search_forests(*given, gap=1e-9, threads=threads, question=question)
    if not found.closed or found.reason is not None:
        return f"open: label {label}, {found}"
    if not (found.member_upper >= truth).all() or found.upper < best:
        return f"bound: label {label}, {found.upper} and {found.member_upper}, where {truth}"
    if best == -np.inf:
        if found.upper != -np.inf or found.witness is not None or found.lower != 0.0:
            return f"none: label {label}, {found}, where there is no leak"
    elif found.lower < best * (1 - 1e-9) or found.upper > best / (1 - 1e-9):
        return f"value: label {label}, [{found.lower}, {found.upper}], where {best}"
    floors = [-1e-9, 0.0, 0.3]
    if best >= 0:
        floors += [best, np.nextafter(best, -1.0), np.nextafter(best, 1.0)]
    results = [found]
    for floor in floors:
        decided = search_forests(
            *given, floor=floor, decide=True, threads=threads, question=question
        )
        results.append(decided)
        leaks = decided.witness is not None and decided.lower > floor
        if not decided.closed or leaks != (best > floor) or not (leaks or decided.upper <= floor):
            return f"verdict: label {label}, floor {floor}, {decided}, where {best}"
        if not (decided.member_upper >= truth).all() or decided.upper < best:
            return f"bound: label {label}, floor {floor}, {decided}, where {truth}"
    for each in results:
        if each.witness is not None and _is_false(asked, each.witness, label, each.lower):
            return f"witness: label {label}, {each.witness}"
    return None


def _is_false(asked: Asked, witness: object, label: int, lower: float) -> bool:
    x, member = witness.x[None], asked.members[witness.member]
    scores, others = asked.whole.probabilities(x)[0], member.probabilities(x)[0]
    confidence = scores[label] - np.delete(scores, label).max(initial=0.0)
    named = getattr(asked.others, "removed", [-1])[witness.member] == witness.removed
    return not (
        named
        and asked.box.contains(x)[0]
        and scores.argmax() == label == witness.label
        and asked.whole.classes[label] != member.classes[others.argmax()]
        and confidence == witness.confidence == lower
        and np.array_equal(scores, witness.scores)
        and np.array_equal(others, witness.member_scores)
    )


def grouped_rows(
    rng: np.random.Generator, most: int = 60
) -> tuple[DareForestClassifier, Floats, NDArray[np.int64], NDArray[np.str_]]:
    """Draw a forest with groups: copies, gaps, ties, labels of one group, trees left empty."""
    n, labels = int(rng.integers(2, most)), int(rng.integers(2, 5))
    X = rng.integers(0, rng.integers(2, 8), (n, 3)).astype(float)
    X[:, 0] = rng.integers(0, 2, n)
    X[rng.random(X.shape) < rng.choice([0.0, 0.1])] = np.nan
    y = rng.integers(0, labels, n)
    groups = rng.integers(0, max(2, int(n * rng.random())), n)
    if len(np.unique(groups)) == 1:
        groups[-1] += 1
    if rng.random() < 0.3:
        y[groups == groups[0]] = labels
    if rng.random() < 0.3:
        # One has most rows.
        groups[: int(0.9 * n)] = groups[0]
        groups[-1] = groups[0] + 1
    forest = DareForestClassifier(
        4, max_depth=[None, 2, 6][int(rng.integers(3))], k=int(rng.integers(1, 6)),
        d_rmax=int(rng.integers(3)), criterion=["gini", "entropy"][int(rng.integers(2))],
        random_state=int(rng.integers(1000)), q=float(rng.choice([0.1, 0.2, 0.5, 1.0])),
    )  # fmt: skip
    named = np.array([f"P{at}" for at in groups])
    return forest.fit(X, y, groups=named), X, y, named
