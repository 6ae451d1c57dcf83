"""Files of results from earlier versions, which do not name them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from leaveout.errors import LeaveoutError
from leaveout.verifier.origin.records import FileRecord
from leaveout.verifier.origin.taken import Origin
from leaveout.verifier.report import Report

_WHEN = "is of now: the results do not say what it held when they were made"


def files_of_earlier(
    report: Report, result: Path, given: Sequence[Path]
) -> tuple[tuple[FileRecord, ...], list[str]]:
    """Return the files found that results rest on, and what is unknown."""
    if "\n" in report.spec:
        return (), ["the specification was built in Python: what it reads is not known"]
    spec = _find_spec(report, result.parent, given)
    if spec is None:
        return (), [f"{report.spec}: not found as it was decided, and so nothing that it names"]
    # The language is loaded only where a specification has to be read again.
    from leaveout.verifier.read_spec import read_spec

    try:
        reading = read_spec(spec)
    except LeaveoutError:
        return (), [f"{report.spec}: cannot be read any more, and so nothing that it names"]
    origin = Origin.of(reading.checked, reading.folder, spec)
    files = origin.files()
    held = [f"{each.path}: its digest {_WHEN}" for each in files[1:]]
    return files, [*(f"{each}: missing" for each in origin.missing_files()), *held]


def _find_spec(report: Report, folder: Path, given: Sequence[Path]) -> Path | None:
    """Return the specification file with the stored digest; None if missing."""
    for path in _near(report.spec, (folder, *given)):
        try:
            if hashlib.sha256(path.read_bytes()).hexdigest() == report.spec_sha256:
                return path
        except OSError:
            continue
    return None


def _near(spec: str, around: Sequence[Path]) -> Iterator[Path]:
    for folder in around:
        yield from (folder / spec, folder / Path(spec).name)
    yield Path(spec)
