"""Reading of results and evidence files, with one-line errors."""

from __future__ import annotations

from pathlib import Path

import msgspec

from leaveout.files import RESULTS, read_whole, why_unread
from leaveout.verifier.checker.json_names import refuse_repeated
from leaveout.verifier.evidence.errors import EvidenceError
from leaveout.verifier.report import Report


def read_bytes(path: Path, what: str) -> bytes:
    """Return the content of an evidence file."""
    try:
        return read_whole(path, RESULTS)
    except IsADirectoryError:
        raise EvidenceError(f"{path}: is a folder, expected {what}") from None
    except (OSError, ValueError) as error:
        said = why_unread(error) if isinstance(error, OSError) else str(error)
        raise EvidenceError(f"{path}: {said}, expected {what}") from None


def read_report(content: bytes, path: Path) -> Report:
    """Return the results in a file."""
    try:
        raw = msgspec.json.decode(content)
        # Which of two values another program reads, nobody knows.
        refuse_repeated(content)
        if not isinstance(raw, dict) or not {"leaveout", "results"} <= set(raw):
            raise EvidenceError(f"{path}: holds no results, expected what verify --json wrote")
        return msgspec.convert(raw, Report)
    except (ValueError, RecursionError) as no:
        raise EvidenceError(
            f"{path}: does not hold results as this version knows them: {no}"
        ) from None
