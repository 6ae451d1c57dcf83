"""Members whose answers to given points differ, as onnxruntime evaluates them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from leaveout.bab import make_instance
from leaveout.bab.native.files.digests import family_digest, network_digest
from leaveout.encoders import Box
from leaveout.errors import SpecError
from leaveout.models import Family, Network, load_family, load_network
from leaveout.verifier.by_row import ByRowRecord
from leaveout.verifier.evidence.rows_points import Asked
from leaveout.verifier.guard.agreement import Crowd
from leaveout.verifier.points.answers import answers_of
from leaveout.verifier.points.given import GivenPoints
from leaveout.verifier.row_records import RowsError


def ask_networks(
    record: ByRowRecord,
    given: GivenPoints,
    network: Path | None,
    family: Path | None,
    folders: Sequence[Path],
) -> Asked:
    """Evaluate the network and every member of its family at points."""
    whole, members = network_and_family(record, network, family, folders)
    x = given.points(members.manifest, whole.inputs, whole.source)
    answers = answers_of(whole, x)
    points = x.astype(np.float64)
    try:
        # Rounding is bounded over the points themselves, wherever they lie.
        instance = make_instance(whole, members, Box(points.min(axis=0), points.max(axis=0)))
    except SpecError as error:
        raise RowsError(f"{given.place}: {error}") from None
    # Where the network itself ties there is nothing to change.
    asked = np.flatnonzero(answers.confidences > 0)
    found = Crowd(instance).dissenters(x[asked], answers.labels[asked])
    apart = [np.zeros(0, np.int64)] * len(x)
    for at, members_apart in zip(asked.tolist(), found, strict=True):
        apart[at] = members_apart

    def answer(member: int, point: int) -> int:
        return int(instance.others.runner(member).scores(x[point][None])[0].argmax())

    return Asked(x, answers.labels, answers.confidences, members.removed, apart, answer)


def network_and_family(
    record: ByRowRecord, network: Path | None, family: Path | None, folders: Sequence[Path]
) -> tuple[Network, Family]:
    """Read the network and the family of a record."""
    path = find_file(record.network, network, folders, "--network")
    whole = load_network(path)
    _same(str(path), network_digest(whole), record.network_sha256, lambda: "network")
    source = find_file(record.family, family, folders, "--family")
    members = load_family(source, whole)
    _same(str(source), family_digest(members), record.family_sha256, lambda: "family")
    return whole, members


def find_file(known: str, given: Path | None, folders: Sequence[Path], option: str) -> Path:
    """Return the path of a file that the results name."""
    if given is not None:
        return given
    if not known:
        raise RowsError(f"the results name no file; give it with {option}")
    parts = Path(known).parts
    for start in range(len(parts)):
        for folder in folders:
            path = folder.joinpath(*parts[start:])
            if path.exists():
                return path
    raise RowsError(f"{known}: no such file; say where it lies now with {option}")


def _same(path: str, found: str, expected: str, what: Callable[[], str]) -> None:
    if found != expected:
        raise RowsError(
            f"{path}: is not the {what()} that the results are of (sha256 {found[:12]}..., not "
            f"{expected[:12]}...); give the one that was verified, or verify again"
        )
