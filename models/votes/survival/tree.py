"""Small trees, with a search for the fewest changes that force each vote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from leaveout.models.ballots import UNREACHABLE, Against
from leaveout.models.votes.survival.learner import Part, slots_of, ways_of

_SETS = 8192
_VALUES = 2**24
"""Sets of changes tried, and values processed, per call: well below a second, for Ctrl-C."""


@dataclass(frozen=True)
class Tree:
    """Tree that splits by Gini index in integers; leaves vote by majority.

    A node takes the largest positive gain; ties go to the smaller feature, then threshold (a
    midpoint). The smaller label wins ties; without rows the vote is 0.
    """

    depth: int
    leaf: int

    name: ClassVar[str] = "tree"

    def scores(self, part: Part) -> NDArray[np.float32]:
        """Return the rows per label in each point's leaf, shape (points, labels)."""
        from leaveout.models.votes.survival.tree_kernels import grow, leaves_of

        values, order = _columns(part)
        feature, threshold = np.zeros(self._nodes, np.int32), np.zeros(self._nodes)
        counts = np.zeros((self._nodes + 1, part.labels), np.int64)
        grow(values, order, part.y, self.leaf, feature, threshold, counts)
        found: NDArray[np.float32] = counts[leaves_of(feature, threshold, part.tests)].astype(
            np.float32
        )
        return found

    def thresholds(self, part: Part, against: Against, exact_to: int | None) -> NDArray[np.int32]:
        """Return the fewest changes found that force each vote, shape (points, labels).

        The tree is regrown after every set of up to ``exact_to`` changes. A relabelled row may also
        get an unknown label, which removes it from the part.
        """
        assert exact_to is not None
        votes = self.scores(part).argmax(axis=1)
        found = np.full((len(part.tests), part.labels), exact_to + 1, np.int32)
        found[np.arange(len(votes)), votes] = 0
        self._search(part, against, exact_to, found)
        # Removals cannot add a label; only label 0 can win without rows, if all are removed.
        kept = np.zeros(part.labels, bool)
        kept[part.y] = True
        kept[0] = kept[0] or bool(len(part.y))
        if against == "relabels":
            kept[:] = bool(len(part.y))
        found[(found > 0) & ~kept] = UNREACHABLE
        return found

    @property
    def _nodes(self) -> int:
        return (1 << self.depth) - 1

    def _search(
        self, part: Part, against: Against, exact_to: int, found: NDArray[np.int32]
    ) -> None:
        from leaveout.models.votes.survival.tree_kernels import mark_votes, try_changes

        values, order = _columns(part)
        sets = min(_SETS, max(1, _VALUES // max(1, values.size * self.depth)))
        feature = np.zeros((sets, self._nodes), np.int32)
        threshold = np.zeros((sets, self._nodes))
        votes = np.zeros((sets, self._nodes + 1), np.int32)
        ways, seen = ways_of(part.labels, against), set[bytes]()
        for changes in range(1, min(exact_to, len(part.y)) + 1):
            chosen, way = np.arange(changes), np.zeros(changes, np.int64)
            slots = slots_of(part, changes)
            while chosen[0] >= 0:
                done = try_changes(
                    values, order, part.y, part.labels, self.leaf, ways, slots, chosen, way,
                    feature, threshold, votes,
                )  # fmt: skip
                # Many sets of changes lead to the same tree, which is evaluated only the first
                # time.
                rows = [each[:done].view(np.uint8).reshape(done, -1) for each in (feature, votes)]
                rows.append(threshold[:done].view(np.uint8).reshape(done, -1))
                keys = np.ascontiguousarray(np.hstack(rows))
                whole = keys.view(np.dtype((np.void, keys.shape[1])))[:, 0]
                distinct, first = np.unique(whole, return_index=True)
                fresh = [at for key, at in zip(distinct, first, strict=True) if _new(key, seen)]
                mark_votes(
                    feature[fresh], threshold[fresh], votes[fresh], part.tests, changes, found
                )


def _new(key: np.void, seen: set[bytes]) -> bool:
    """Return whether a tree is new, and remember it."""
    content = key.tobytes()
    if content in seen:
        return False
    seen.add(content)
    return True


def _columns(part: Part) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return values by feature, and each feature's sorted order of rows, both (features, rows)."""
    values = np.ascontiguousarray(part.X.T)
    return values, np.argsort(values, axis=1, kind="stable").astype(np.int32)
