"""A job: everything that determines the result of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import LeaveoutError, TrainingError
from leaveout.files import refuse_unread, settle
from leaveout.models.archive import MANIFEST, read_archive, read_manifest
from leaveout.models.family import FAMILY, DataFacts, Family, Manifest, load_family_file
from leaveout.models.train.architecture import Signature, flatten_parameters, unflatten_parameters
from leaveout.models.train.blocks import MEMBERS, Blocks, Settings, differences
from leaveout.models.train.data import TrainingData
from leaveout.models.train.export import NETWORK, SPEC

if TYPE_CHECKING:
    import onnx

OWN = "own"
"""Name, in recipes, of a network from the user's own training."""


@dataclass(frozen=True, eq=False)
class Job:
    """What a run produces, and from what."""

    directory: Path  # folder of the family
    data: TrainingData
    removed: NDArray[np.int64]  # shape (members,): the row each member lacks, ascending
    manifest: Manifest
    signature: Signature  # of each network
    model: Callable[[Mapping[str, NDArray[np.float32]]], onnx.ModelProto]
    spec: str  # the initial specification
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
        """All settings that two equal runs share."""
        return settings_of(self.manifest, self.members)


def settings_of(manifest: Manifest, members: int) -> Settings:
    """Return all settings that two equal runs share, as read back from JSON."""
    recipe = dict(manifest.recipe)
    encoding = recipe.get("encoding")
    if isinstance(encoding, dict):
        # Older runs did not record which columns are whole, which training does not use; all
        # scaled.
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
    if facts is None:
        return None
    names = [facts.features, facts.labels, facts.ids, facts.units]
    return [*names, facts.group] if facts.group else names


PARTIAL = ".partial"


@dataclass(frozen=True, eq=False)
class FinishedNetworks:
    """The networks of a finished run; members of a large family stay on disk."""

    shapes: Mapping[str, tuple[int, ...]]  # of the parameters
    first: NDArray[np.float32]  # shape (parameters,): the network on all rows
    family: Family | None = None  # None if the members are unknown

    def __len__(self) -> int:
        return 1 + (0 if self.family is None else len(self.family))

    def read(self, networks: range) -> NDArray[np.float32]:
        """Return networks numbered as in blocks, shape (networks, parameters)."""
        result = np.empty((len(networks), len(self.first)), dtype=np.float32)
        if networks.start == 0:
            result[0] = self.first
        if self.family is not None:
            start = max(networks.start, 1)
            for name, view in unflatten_parameters(
                self.shapes, result[start - networks.start :]
            ).items():
                view[...] = self.family.parameters[name][start - 1 : networks.stop - 1]
        return result


def is_complete(job: Job) -> bool:
    """Return whether the directory has this run, finished; otherwise it may have a shorter one."""
    directory, partial = job.directory, job.directory / PARTIAL
    with refuse_unread(TrainingError, directory):
        settle(directory)
    if directory.exists() and not directory.is_dir():
        raise TrainingError(f"{directory}: is a file; choose another folder")
    family = directory / FAMILY
    if not family.exists():
        strange = [name for name in (NETWORK, SPEC) if (directory / name).exists()]
        if strange and not partial.exists():
            raise TrainingError(
                f"{directory / strange[0]} already exists, without a family next to it; choose "
                "another folder, or delete it"
            )
        return False
    manifest, members = read_stored(family)
    said = differences(settings_of(manifest, members), job.settings)
    if said:
        raise TrainingError(
            f"{directory} contains a family trained with other settings: {'; '.join(said)}; "
            f"choose another folder, or delete {directory}"
        )
    if not (directory / NETWORK).exists():
        raise TrainingError(
            f"{directory} contains {FAMILY} without {NETWORK}; delete {family} to train again"
        )
    if members < job.members:
        return False
    if partial.exists():
        Blocks(partial, job.signature.size).delete()
    return True


def finished_networks(job: Job) -> FinishedNetworks | None:
    """Return the networks of a shorter finished run of the same settings; None if there is none."""
    from leaveout.models.onnx.file import load_network

    shapes = job.signature.shapes
    if not (job.directory / FAMILY).exists():
        return None if job.first is None else FinishedNetworks(shapes, job.first)
    try:
        network = load_network(job.directory / NETWORK)
        family = load_family_file(job.directory / FAMILY)
        _check_shapes(shapes, family)
        return FinishedNetworks(shapes, flatten_parameters(shapes, network.parameters), family)
    except (KeyError, LeaveoutError) as error:
        raise TrainingError(
            f"{job.directory}: the existing family cannot be extended ({error}); choose another "
            "folder, or delete it"
        ) from None


def _check_shapes(shapes: Mapping[str, tuple[int, ...]], family: Family) -> None:
    for name, shape in shapes.items():
        if family.parameters[name].shape[1:] != shape:
            raise TrainingError(f"members have {name!r} of a shape other than {shape}")


def read_stored(family: Path) -> tuple[Manifest, int]:
    """Read a finished run's manifest and member count, without weights."""
    try:
        arrays = read_archive(family, TrainingError, (MANIFEST, "removed"))
        manifest = read_manifest(family, arrays[MANIFEST], Manifest, TrainingError)
        settings_of(manifest, 0)
        return manifest, len(arrays["removed"])
    except (KeyError, TrainingError):
        raise TrainingError(
            f"{family}: not a family made by leaveout train; choose another folder, or delete it"
        ) from None
