"""Folders that a guard can be loaded from: a family over one box, with what is proved of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from leaveout import verify
from leaveout.bab.native.files.manifest_parts import box_digest, family_digest, network_digest
from leaveout.encoders import Box
from leaveout.errors import GuardError
from leaveout.models.family import FAMILY, save_family_file
from leaveout.models.train.data import TrainingData
from leaveout.models.train.export import NETWORK, SPEC, spec_text
from leaveout.verifier.guard.access import BOUNDS, ProvedBounds, load_bounds
from leaveout.verifier.report import Report, write_json

from families import Question

__all__ = ["Deployment", "boxes", "deploy"]

_REPORT = "bounds.json"


@dataclass(frozen=True, eq=False)
class Deployment:
    """A family over one box.

    Attributes
    ----------
    folder : Path
    box : Box
    name : str
        Of the box.
    bounds : ProvedBounds
    report : Report
        What proving the bounds gave, from both sides.
    """

    folder: Path
    box: Box
    name: str
    bounds: ProvedBounds
    report: Report


def boxes(own: Question, data: TrainingData) -> Iterator[tuple[str, bool, Box]]:
    """Go through the boxes to guard: the paper's, and the training rows' range if that differs.

    Yields
    ------
    name : str
    inside : bool
        Whether it is [0, 1].
    box : Box
    """
    facts = own.instance.family.manifest.data
    assert facts is not None and data.X_test is not None
    yield f"[0, 1]^{own.instance.network.inputs}", True, own.instance.box
    rows = np.concatenate([data.X, data.X_test])
    if rows.min() < 0 or rows.max() > 1:
        yield (
            "the training rows' range",
            False,
            Box(np.array(facts.minimum), np.array(facts.maximum)),
        )


def deploy(
    own: Question, named: tuple[str, bool, Box], source: str, folder: Path, seconds: float
) -> Deployment:
    """Write a folder as ``leaveout train`` does, and prove its bounds unless they are there.

    Parameters
    ----------
    own : Question
    named : tuple
        Of `boxes`.
    source : str
        Name of the data file.
    folder : Path
    seconds : float
        For the bounds of all labels.
    """
    name, inside, box = named
    family = own.instance.family
    facts = family.manifest.data
    assert facts is not None
    bounds = _known(folder, own, box)
    if bounds is None:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(own.folder / NETWORK, folder / NETWORK)
        save_family_file(folder / FAMILY, family)
        (folder / SPEC).write_text(spec_text(facts, source, inside))
        report = verify(folder / SPEC, time=seconds, bounds=folder / BOUNDS)
        write_json(report, folder / _REPORT)
        bounds = load_bounds(folder / BOUNDS)
    report = msgspec.json.decode((folder / _REPORT).read_bytes(), type=Report)
    return Deployment(folder, box, name, bounds, report)


def _known(folder: Path, own: Question, box: Box) -> ProvedBounds | None:
    """Return bounds that an earlier run proved of this very family and box."""
    if not ((folder / BOUNDS).exists() and (folder / _REPORT).exists()):
        return None
    try:
        bounds = load_bounds(folder / BOUNDS)
    except GuardError:
        return None
    same = (
        bounds.network == network_digest(own.instance.network)
        and bounds.family == family_digest(own.instance.family)
        and box_digest(bounds.box) == box_digest(box)
    )
    return bounds if same else None
