"""A guarded forest with all its deletions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import GuardError
from leaveout.models.archive import read_archive
from leaveout.models.forest.digests import forest_digest, kind_digest
from leaveout.verifier.guard.domain import FiniteDomain
from leaveout.verifier.guard.findings import Point
from leaveout.verifier.guard.forests.folder import ForestAccess
from leaveout.verifier.guard.forests.leaks import ForestLeakTest
from leaveout.verifier.guard.inputs import plain_rows
from leaveout.verifier.guard.subject import Identity, Subject

_INPUTS = ("X_test", "X")


class ForestSubject(Subject):
    """A forest whose members are the forests without one of its rows.

    A memory is bound to settings, seed, features and labels only, so it outlives deletions and
    additions; which inputs may be noised depends on the rows.
    """

    def __init__(self, access: ForestAccess) -> None:
        ensemble = access.ensemble
        kind = kind_digest(ensemble)
        self.folder = access.folder
        self._columns = columns = access.columns
        count = ensemble.X.shape[1]
        self.domain = FiniteDomain(
            tuple(map(str, range(count))) if columns is None else columns.features
        )
        self.leaks = ForestLeakTest(access.family)
        self.labels = len(ensemble.classes)
        self.names = tuple(map(str, ensemble.classes.tolist()))
        self.members = len(access.family)
        self.identity = Identity(kind, "every row", forest_digest(ensemble))
        self.encoding = None if columns is None else columns.encoding
        self.notes = access.notes
        self._thresholds = [
            np.concatenate([tree.threshold[tree.feature == at] for tree in ensemble.trees])
            for at in range(self.domain.dimension)
        ]

    def encode(self, rows: Sequence[Mapping[str, str | float]]) -> NDArray[np.float64]:
        """See `Subject.encode`."""
        if self._columns is None:
            return plain_rows(rows, self.domain.features, np.float64)
        return self._columns.encode(rows)

    def read_arrays(self, path: Path) -> NDArray[np.float64]:
        """See `Subject.read_arrays`."""
        arrays = read_archive(path, GuardError, only=_INPUTS)
        name = next((name for name in _INPUTS if name in arrays), None)
        if name is None:
            raise GuardError(f"{path}: there is neither an array 'X_test' nor 'X'")
        try:
            points = self.domain.points(arrays[name])
        except GuardError as error:
            raise GuardError(f"{path}: {name!r}: {error}") from None
        finite = np.isfinite(points).all(axis=1)
        if not finite.all():
            row = int(np.argmin(finite))
            raise GuardError(f"{path}: {name!r} row {row} holds what is no finite number")
        return points

    def sample(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        """Draw inputs on both sides of the trees' thresholds."""
        points = np.zeros((count, self.domain.dimension))
        for at, thresholds in enumerate(self._thresholds):
            if len(thresholds):
                points[:, at] = rng.choice(thresholds, count)
        return np.where(rng.random(points.shape) < 0.5, points, np.nextafter(points, np.inf))

    def where_outside(self, point: Point) -> str:
        """See `Subject.where_outside`."""
        return ""
