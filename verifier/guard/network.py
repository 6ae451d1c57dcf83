"""A guarded network with its family and proved bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.native.files.digests import box_digest, earlier_digest
from leaveout.models.train.encoding import encode_rows, encoding_of
from leaveout.verifier.guard.access import Access
from leaveout.verifier.guard.domain import BoxDomain
from leaveout.verifier.guard.findings import Point
from leaveout.verifier.guard.inputs import plain_rows
from leaveout.verifier.guard.leaks import LeakTest
from leaveout.verifier.guard.subject import Identity, Subject
from leaveout.verifier.points.given import GivenPoints
from leaveout.verifier.points.outside import leaves_box
from leaveout.verifier.points.sentences import without_member


class NetworkSubject(Subject):
    """A network whose members are retrained networks."""

    def __init__(self, access: Access) -> None:
        self._instance = instance = access.instance
        family, facts = instance.family, instance.family.manifest.data
        features = facts.features if facts is not None else ()
        names = facts.labels if facts is not None else ()
        count = instance.box.dimension
        known = features if len(features) == count else tuple(map(str, range(count)))
        missing = without_member(family)
        self.folder = access.folder
        self.domain = BoxDomain(known, instance.box)
        self.leaks = LeakTest(instance, access.bounds, local=True)
        self.labels = instance.labels
        self.names = names if len(names) == self.labels else ()
        self.members = len(family)
        self.identity = Identity(
            access.bounds.network, access.bounds.family, box_digest(instance.box)
        )
        self.earlier = earlier_digest(instance.network)
        self.encoding = encoding_of(family.manifest)
        self.notes = () if missing is None else (missing,)

    def encode(self, rows: Sequence[Mapping[str, str | float]]) -> NDArray[np.float32]:
        """See `Subject.encode`."""
        if self.encoding is None:
            return plain_rows(rows, self.domain.features, np.float32)
        return encode_rows(self.encoding, rows)

    def read_arrays(self, path: Path) -> NDArray[np.float32]:
        """See `Subject.read_arrays`."""
        given = GivenPoints.open(str(path), option="")
        manifest, source = self._instance.family.manifest, self._instance.network.source
        return given.points(manifest, self.domain.dimension, source)

    def sample(self, rng: np.random.Generator, count: int) -> NDArray[np.float32]:
        """See `Subject.sample`."""
        return self._instance.box.sample(rng, count).astype(np.float32)

    def where_outside(self, point: Point) -> str:
        """See `Subject.where_outside`."""
        return leaves_box(point, self._instance.box, self._instance.family.manifest)
