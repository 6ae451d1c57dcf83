"""The previous sample: its draw number and a check that training is the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leaveout.errors import TrainingError
from leaveout.models.family import Manifest, Sample
from leaveout.models.family_file import FAMILY
from leaveout.models.train.blocks import MEMBERS, differences
from leaveout.models.train.directory import read_stored
from leaveout.models.train.job import Job, settings_of


@dataclass(frozen=True)
class EarlierSample:
    """A finished family of sampled rows."""

    folder: Path
    manifest: Manifest
    sample: Sample  # of the manifest

    @property
    def next_draw(self) -> int:
        """The number of the next draw."""
        if self.sample.draw >= self.sample.draws:
            planned = self.sample.draws
            only = "the only one" if planned == 1 else f"the last of {planned}"
            raise TrainingError(
                f"{self.folder}: its sample is {only} that was planned, and all that may be wrong "
                "is given to what was planned; for further looks train from the first sample on, "
                f"with --draws {planned + 1}, and withdraw what was said of this one"
            )
        return self.sample.draw + 1

    def refuse_other(self, job: Job) -> None:
        """Raise if a run has other rows or trains differently."""
        drawn = {"sample", MEMBERS}
        there, here = settings_of(self.manifest, 0), job.settings
        said = differences(
            {name: value for name, value in there.items() if name not in drawn},
            {name: value for name, value in here.items() if name not in drawn},
        )
        if said:
            raise TrainingError(
                f"{self.folder}: a fresh sample is of the same training, and {'; '.join(said)}"
            )


def earlier_sample(folder: Path) -> EarlierSample:
    """Read the sample of a folder."""
    family = folder / FAMILY
    if not family.exists():
        raise TrainingError(
            f"{folder}: there is no {FAMILY}; give the folder of the sample before, finished"
        )
    manifest, _ = read_stored(family)
    if manifest.sample is None:
        raise TrainingError(f"{folder}: its members are no sample of the rows, so none is next")
    return EarlierSample(folder, manifest, manifest.sample)
