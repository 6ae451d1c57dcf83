"""The output directory: what a run may find there."""

from __future__ import annotations

from pathlib import Path

from leaveout.errors import TrainingError
from leaveout.models.archive import MANIFEST, read_archive, read_manifest
from leaveout.models.family import Manifest
from leaveout.models.train.architecture import count_parameters
from leaveout.models.train.blocks import Blocks, Settings, differences
from leaveout.models.train.export import FAMILY, NETWORK, SPEC
from leaveout.models.train.job import Job, settings_of

__all__ = ["PARTIAL", "is_complete"]

PARTIAL = ".partial"


def is_complete(job: Job) -> bool:
    """Tell whether the directory holds this very run, finished.

    Raises
    ------
    TrainingError
        If it holds something else that training would overwrite.
    """
    directory, partial = job.directory, job.directory / PARTIAL
    if directory.exists() and not directory.is_dir():
        raise TrainingError(f"{directory}: is a file; choose another -o")
    family = directory / FAMILY
    if not family.exists():
        strange = [name for name in (NETWORK, SPEC) if (directory / name).exists()]
        if strange and not partial.exists():
            raise TrainingError(
                f"{directory / strange[0]} is there already, without a family beside it; choose "
                "another -o, or delete it"
            )
        return False
    said = differences(_stored_settings(family), job.settings)
    if said:
        raise TrainingError(
            f"{directory} holds a family trained with other settings: {'; '.join(said)}; choose "
            f"another -o, or delete {directory}"
        )
    if not (directory / NETWORK).exists():
        raise TrainingError(
            f"{directory} holds {FAMILY} without {NETWORK}; delete {family} to train again"
        )
    if partial.exists():
        Blocks(partial, count_parameters(job.layers)).delete()
    return True


def _stored_settings(family: Path) -> Settings:
    """Read the settings of a finished run without loading its weights."""
    try:
        arrays = read_archive(family, TrainingError, (MANIFEST, "removed"))
        manifest = read_manifest(family, arrays[MANIFEST], Manifest, TrainingError)
        return settings_of(manifest, len(arrays["removed"]))
    except (KeyError, TrainingError):
        raise TrainingError(
            f"{family}: not a family that leaveout train wrote; choose another -o, or delete it"
        ) from None
