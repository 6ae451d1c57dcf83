"""A job: everything that the result of a run depends on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.models.family import DataFacts, Manifest
from leaveout.models.train.blocks import MEMBERS, Settings
from leaveout.models.train.data import TrainingData
from leaveout.models.train.signature import Signature

if TYPE_CHECKING:
    import onnx


OWN = "own"
"""What a recipe calls the network of a user's own training."""


@dataclass(frozen=True, eq=False)
class Job:
    """What a run makes, and from what."""

    directory: Path  # where the family goes
    data: TrainingData
    removed: NDArray[np.int64]  # shape (members,): the row each member lacks, ascending
    manifest: Manifest
    signature: Signature  # of every network
    model: Callable[[Mapping[str, NDArray[np.float32]]], onnx.ModelProto]
    spec: str  # the specification to start from
    first: NDArray[np.float32] | None = None  # shape (parameters,)

    @property
    def members(self) -> int:
        """The number of members."""
        return len(self.removed)

    @property
    def networks(self) -> int:
        """The number of networks: the members and the one on all rows."""
        return self.members + 1

    @property
    def settings(self) -> Settings:
        """All that two runs must share to be the same run."""
        return settings_of(self.manifest, self.members)


def settings_of(manifest: Manifest, members: int) -> Settings:
    """Return all that two equal runs must share, as read back from JSON."""
    recipe = dict(manifest.recipe)
    encoding = recipe.get("encoding")
    if isinstance(encoding, dict):
        # Older runs did not say which columns are whole, and training does not ask; all scaled.
        bare = [
            {k: v for k, v in each.items() if k != "whole" and (k, v) != ("scaled", True)}
            for each in encoding["columns"]
        ]
        recipe["encoding"] = {**encoding, "columns": bare}
    settings = {
        **recipe,
        "architecture": manifest.architecture,
        "data": manifest.data.sha256 if manifest.data else "",
        "names": _names(manifest.data),
        "seed": manifest.seed,
        "sample": manifest.sample,
        MEMBERS: members,
    }
    return msgspec.json.decode(msgspec.json.encode(settings), type=dict[str, object])


def _names(facts: DataFacts | None) -> object:
    return None if facts is None else [facts.features, facts.labels, facts.ids, facts.units]
