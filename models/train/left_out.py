"""The left-out rows, one per member: all, the first ones, or a sample."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.family import FAMILY, Manifest, Sample
from leaveout.models.train.blocks import MEMBERS, differences
from leaveout.models.train.draws import draw_rows
from leaveout.models.train.job import Job, read_stored, settings_of


def left_out(
    rows: int,
    seed: int,
    *,
    members: int | None = None,
    sample: int | None = None,
    draws: int | None = None,
    earlier: EarlierSample | None = None,
    said: str = "{}=",
) -> tuple[NDArray[np.int64], Sample | None]:
    """Return the row that each member lacks, and the sample if rows are sampled."""
    for name, count in (("members", members), ("sample", sample), ("draws", draws)):
        whole = isinstance(count, Integral) and not isinstance(count, bool)
        if count is not None and not (whole and count >= 1):
            raise TrainingError(
                f"{said.format(name)}{count!r}: expected a whole number of at least 1"
            )
        if count is not None and count > rows and name != "draws":
            raise TrainingError(
                f"{said.format(name)}{count}: more than the {rows:,} rows or groups of the data"
            )
    if sample is None:
        for name, given in (("draws", draws), ("fresh", earlier)):
            if given is not None:
                raise TrainingError(
                    f"{said.format(name).rstrip(' =')}: applies only to samples of the rows; set "
                    f"the sample size with {said.format('sample').rstrip(' =')}"
                )
        return np.arange(rows if members is None else int(members)), None
    if members is not None:
        raise TrainingError(
            "members and sample both choose the rows to leave out (the first ones, or random "
            "ones); drop one"
        )
    draw = 1
    if earlier is not None:
        if draws is not None:
            raise TrainingError(
                f"{said.format('draws')}{draws}: the first sample already fixed the number of "
                f"samples, {earlier.sample.draws}; drop it"
            )
        draw, draws = earlier.next_draw, earlier.sample.draws
    drawn = Sample(
        size=int(sample), rows=rows, seed=seed, draw=draw, draws=1 if draws is None else int(draws)
    )
    return draw_rows(seed, rows, drawn.size, draw), drawn


@dataclass(frozen=True)
class EarlierSample:
    """A finished family on sampled rows."""

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
                f"{self.folder}: its sample is {only} planned, and the planned samples use up "
                "the whole failure probability; for more, train again from the first sample "
                f"with --draws {planned + 1}, and withdraw every result about this one"
            )
        return self.sample.draw + 1

    def refuse_other(self, job: Job) -> None:
        """Raise if a run has other rows or other training settings."""
        drawn = {"sample", MEMBERS}
        there, here = settings_of(self.manifest, 0), job.settings
        said = differences(
            {name: value for name, value in there.items() if name not in drawn},
            {name: value for name, value in here.items() if name not in drawn},
        )
        if said:
            raise TrainingError(
                f"{self.folder}: a fresh sample must use the same training, but {'; '.join(said)}"
            )


def earlier_sample(folder: Path) -> EarlierSample:
    """Read the sample of a finished family's folder."""
    family = folder / FAMILY
    if not family.exists():
        raise TrainingError(
            f"{folder}: no {FAMILY}; name the folder of the previous sample, finished"
        )
    manifest, _ = read_stored(family)
    if manifest.sample is None:
        raise TrainingError(
            f"{folder}: its members are not a sample of the rows, so there is no next sample"
        )
    return EarlierSample(folder, manifest, manifest.sample)
