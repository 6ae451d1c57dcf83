"""A forest and others over an input set, prepared for the search."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.forests.exploring import ranges
from leaveout.bab.forests.layout import LAMBDAS, Listed, Trees
from leaveout.bab.forests.witness import ForestWitness
from leaveout.encoders.box import Box
from leaveout.encoders.forests import Overlay, overlay_family, overlay_two
from leaveout.errors import ForestError
from leaveout.models.forest.family import ForestFamily
from leaveout.models.forest.scored import ScoredForest

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Question:
    """Forests cut into cells; one object serves every label."""

    whole: ScoredForest
    others: ForestFamily | ScoredForest  # a single forest is a family of one member
    overlay: Overlay
    labels: tuple[
        list[Any], list[Any]
    ]  # the labels of the whole forest and of the others, in Python

    @classmethod
    def of(cls, whole: ScoredForest, others: ForestFamily | ScoredForest, box: Box) -> Self:
        """Cut an input set at the thresholds of forests."""
        if isinstance(others, ForestFamily):
            known = whole.classes.tolist()
            return cls(whole, others, overlay_family(others, box), (known, known))
        if (whole.classes.dtype.kind in "biuf") != (others.classes.dtype.kind in "biuf"):
            raise ForestError("the labels of one forest are numbers, those of the other texts")
        # In Python, where a label beyond float64's whole numbers stays itself.
        one, two = whole.classes.tolist(), others.classes.tolist()
        place = {label: i for i, label in enumerate(sorted({*one, *two}))}
        columns = tuple(np.array([place[label] for label in each], np.int64) for each in (one, two))
        overlay = overlay_two(whole, others, box, (columns[0], columns[1]), len(place))
        return cls(whole, others, overlay, (one, two))

    @property
    def members(self) -> int:
        """The number of members."""
        return len(self.overlay.start) - 1

    @property
    def features(self) -> int:
        """The number of features."""
        return len(self.overlay.cells.most)

    @cached_property
    def listed_rows(self) -> Listed:
        """Listed rows for kernels; a single feature takes every code and needs none."""
        groups = self.overlay.cells.groups
        wide = np.diff(groups.column_start) > 1
        of = groups.of.copy()
        of[of >= 0] = np.where(wide[of[of >= 0]], of[of >= 0], -1)
        return Listed(
            of, groups.column_start, groups.columns, groups.row_start, groups.rows
        )  # fmt: skip

    @cached_property
    def _nodes(self) -> NDArray[np.int32]:
        nodes = self.overlay.nodes
        return np.stack([nodes.feature, nodes.cut, nodes.left, nodes.right], 1).astype(np.int32)

    @cached_property
    def _end(self) -> NDArray[np.int32]:
        """Return the end of each node's subtree in the whole forest."""
        nodes, size = self.overlay.nodes, int(self.overlay.roots[-1])
        end = np.arange(1, size + 1, dtype=np.int32)
        right, inner = nodes.right[:size], nodes.feature[:size] >= 0
        # In preorder the last node below a node is found by going right as far as it goes.
        last = np.where(inner, right, np.arange(size))
        while True:
            further = last[last]
            if np.array_equal(further, last):
                break
            last = further
        end[:] = last + 1
        return end

    def trees(self, label: int) -> Trees:
        """Return the trees for kernels, with margins of one label of the forest."""
        overlay = self.overlay
        column = self.column(label)
        shape = len(self._nodes), overlay.labels
        low, high = np.zeros(shape), np.zeros(shape)
        first = np.concatenate((overlay.roots[:-1], overlay.instead))
        ranges(
            self._nodes, overlay.nodes.shares, first, column, low, high,
            np.zeros(shape[0], np.bool_),
        )  # fmt: skip
        one, other = overlay.divisors
        return Trees(
            self._nodes, overlay.nodes.shares, overlay.roots, self._end, low, high, overlay.start,
            overlay.tree, overlay.node, overlay.instead, np.array([1 / one, 1 / other]),
            np.array([column, one, other, one == other], np.int64),
        )  # fmt: skip

    def column(self, label: int) -> int:
        """Return the index of a forest's label among both sides' labels."""
        if isinstance(self.others, ForestFamily):
            return label
        return sorted({*self.labels[0], *self.labels[1]}).index(self.labels[0][label])

    def padding(self) -> float:
        """Return the rounding error by which computed bounds are raised.

        u = 2^-53, N trees, shares <= s, multiplier l: forests err by 2 (N + 1) (1 + l) u s, the
        bound by (N + 5) (1 + l) u s; 8 (N + 8) also covers products.
        """
        count = max(self.overlay.divisors)
        most = float(self.overlay.nodes.shares.max())
        return 8.0 * (count + 8) * (1.0 + max(LAMBDAS)) * most * 2.0**-53

    def most(self, trees: Trees) -> float:
        """Return a bound on the label's confidence; -inf if it is never answered."""
        sums = trees.weights[0] * trees.high[trees.roots[:-1]].sum(axis=0)
        rest = np.delete(sums, trees.numbers[0]) + self.padding()
        return float(rest.min()) if len(rest) and rest.min() >= 0.0 else -np.inf

    def replay(self, x: Floats, member: int, label: int) -> ForestWitness | None:
        """Return a witness if an input is a leak, as the forests compute it."""
        removed, other = -1, self.others
        if isinstance(other, ForestFamily):
            removed, other = int(other.removed[member]), other.member(member)
        if not self.overlay.cells.box.contains(x[None])[0]:
            return None
        scores, others = self.whole.probabilities(x[None])[0], other.probabilities(x[None])[0]
        answers = self.labels[0][int(scores.argmax())], self.labels[1][int(others.argmax())]
        if int(scores.argmax()) != label or answers[0] == answers[1]:
            return None
        rest = np.delete(scores, label)
        confidence = float(scores[label] - (rest.max() if len(rest) else 0.0))
        return ForestWitness(x, member, removed, label, confidence, scores, others)

    def starts(self, X: Floats, label: int, count: int) -> NDArray[np.int64]:
        """Return starts against a single other forest: leaks, then near leaks.

        Near is where the forest answers the label and the other hardly does.
        """
        if isinstance(self.others, ForestFamily) or not len(X):
            return np.zeros(0, np.int64)
        scores, others = self.whole.probabilities(X), self.others.probabilities(X)
        answers = scores.argmax(axis=1)
        names = [np.array(each, dtype=object) for each in self.labels]
        same = names[0][answers] == names[1][others.argmax(axis=1)]
        asked = np.flatnonzero((answers == label) & (scores.max(axis=1) > 0))
        confidence = _margin(scores[asked])
        # Of inputs at which both answer the label, those where the other is least sure come first;
        # where it is as sure as the whole forest it may be the same there.
        value = np.where(same[asked], -_margin(others[asked]) - 1.0, confidence)
        moved = ~same[asked] | (_margin(others[asked]) < confidence)
        value = np.where(moved, value, value - 2.0)
        return asked[np.argsort(-value, kind="stable")[:count]]


def _margin(scores: Floats) -> Floats:
    """Return how far the greatest score is above the second greatest, or above 0."""
    if scores.shape[1] == 1:
        return np.asarray(scores[:, 0])
    two = np.partition(scores, -2, axis=1)[:, -2:]
    return np.asarray(two[:, 1] - two[:, 0])
