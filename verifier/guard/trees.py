"""Guards of trees of a library: every member is evaluated at every input, exactly."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Integers
from leaveout.errors import GuardError
from leaveout.kernel.files import digest_of
from leaveout.models.boosting.training import BOOSTING, COLUMNS, MEMBERS, TREES
from leaveout.models.trees.family import TreeFamily, read_tree_family
from leaveout.models.trees.reading import read_trees
from leaveout.verifier.guard.inputs import FiniteDomain, Glance, LeakFinder, Point
from leaveout.verifier.guard.subject import Identity, TableSubject


@dataclass(frozen=True, eq=False)
class TreesDomain(FiniteDomain):
    """All finite numbers; some features may also be missing."""

    missing: frozenset[int] = frozenset()

    def point(self, x: Any) -> Point:
        """See `Domain.point`; all missing values have the same bits."""
        found = super().point(x)
        found[np.isnan(found)] = np.nan
        return found

    def points(self, X: Any) -> NDArray[Any]:
        """See `Domain.points`; all missing values have the same bits."""
        found = super().points(X)
        found[np.isnan(found)] = np.nan
        return found

    def contains(self, point: Point) -> bool:
        absent = np.isnan(point)
        allowed = absent & np.isin(np.arange(len(point)), [*self.missing])
        return super().contains(np.where(allowed, 0.0, point))

    @property
    def words(self) -> str:
        also = f"; {len(self.missing)} may be missing" if self.missing else ""
        return super().words + also


class TreeLeakTest(LeakFinder):
    """Finds the inputs that a member answers otherwise, or may, where the link rounds."""

    def __init__(self, family: TreeFamily) -> None:
        self.family, self._whole = family, family.whole

    def label(self, x: Point) -> int:
        return int(self._whole.answers(x[None])[0])

    def glance(self, x: Point) -> Glance:
        """Evaluate the model; that alone never shows what members answer."""
        scores = self._whole.scores(x[None])[0]
        if len(scores) == 1:
            label = int(scores[0] > self._whole.center)
            return Glance(label, abs(float(scores[0]) - self._whole.center), is_clear=False)
        two = np.sort(scores)[-2:]
        return Glance(int(scores.argmax()), float(two[1] - two[0]), is_clear=False)

    def leaks(self, x: Point, seen: Glance) -> bool:
        """Return whether a member answers otherwise, or may; each is always evaluated."""
        return bool(self.leaks_at(x[None], [seen])[0])

    def leaks_at(self, points: NDArray[Any], seen: Sequence[Glance]) -> NDArray[np.bool_]:
        own = np.array([each.label for each in seen], np.int64)
        confidences = np.array([each.confidence for each in seen])
        return np.asarray(self._dissent(points, own, confidences).any(axis=1))

    def dissenters(self, points: NDArray[Any], labels: Integers) -> list[Integers]:
        confidences = np.array([self.glance(x).confidence for x in points])
        return [*map(np.flatnonzero, self._dissent(points, labels, confidences))]

    def _dissent(
        self, points: NDArray[Any], own: Integers, confidences: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Return which members answer otherwise, or may, shape (inputs, members)."""
        labels, open_ = self.family.labels(points)
        near = (confidences > 0) & (confidences <= self.family.slack)
        return np.asarray((labels != own[:, None]) | open_ | near[:, None])

    def ask_all(self, x: Point) -> None:
        self.family.labels(x[None])


class TreesSubject(TableSubject):
    """Trees with the models retrained without a row each; a memory outlives another training."""

    def __init__(self, folder: Path) -> None:
        whole = read_trees(folder / TREES)
        if not whole.labels:
            raise GuardError(f"{folder / TREES}: a regression answers with numbers, not labels")
        if not (folder / MEMBERS).exists():
            raise GuardError(
                f"{folder / MEMBERS}: no such file; train it with leaveout trees train"
            )
        digest = digest_of(folder / TREES)
        family = read_tree_family(folder / MEMBERS, whole, digest)
        columns = None
        if (folder / COLUMNS).exists():
            columns = BOOSTING.load_columns(folder / COLUMNS, whole.features)
        super().__init__(folder, whole.features, columns, family.group)
        self.domain = TreesDomain(self.domain.features, frozenset(family.missing))
        self.leaks = TreeLeakTest(family)
        self.labels, self.names, self.members = len(whole.labels), whole.labels, len(family)
        self.unit_names = family.names or tuple(map(str, family.removed.tolist()))
        kind = repr((whole.labels, whole.features)).encode()
        unit = repr(family.group) if family.group else "row"
        self.identity = Identity(hashlib.sha256(kind).hexdigest(), f"every {unit}", digest)
        if len(family) < family.rows:
            self.notes += (
                f"only {len(family):,} of {family.rows:,} training rows have a member; nothing is "
                "claimed about the others",
            )
        nodes = whole.nodes
        used = (nodes.set < 0) & np.isfinite(nodes.threshold)
        self._thresholds = [
            nodes.threshold[used & (nodes.feature == at)] for at in range(whole.features)
        ]
