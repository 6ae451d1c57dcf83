"""Reading of a network's or forest's folder for a guard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from leaveout.errors import GuardError
from leaveout.files import settle, why_unread
from leaveout.models.family_file import FAMILY
from leaveout.models.forest import DareForestClassifier
from leaveout.models.forest.columns import COLUMNS, FOREST
from leaveout.models.forest.digests import kind_digest
from leaveout.models.forest.folders import change_forest
from leaveout.models.train.export import NETWORK, SPEC
from leaveout.verifier.guard.access import MEMORY, load_access
from leaveout.verifier.guard.bounds import BOUNDS, are_own
from leaveout.verifier.guard.forests.folder import OnProgress, load_forest_access
from leaveout.verifier.guard.forests.subject import ForestSubject
from leaveout.verifier.guard.network import NetworkSubject
from leaveout.verifier.guard.subject import Subject

T = TypeVar("T")


def load_subject(
    folder: Path, progress: OnProgress | None = None, *, adopt: bool = False
) -> Subject:
    """Read the content of a folder."""
    try:
        settle(folder)
    except OSError as error:
        raise GuardError(f"{folder}: {why_unread(error)}") from None
    if not (folder / FOREST).exists():
        subject, path = NetworkSubject(load_access(folder)), folder / BOUNDS
        if not are_own(path):
            what = f"{path}: was not proved by this user here, or was changed since"
            if not adopt:
                raise GuardError(
                    f"{what}, and a bound that is none gives away what one record decides: prove "
                    f"it with leaveout verify {folder / SPEC} --bounds {path}; or, if you know "
                    "where it comes from, take it with --adopt"
                )
            subject.notes += (f"{what}: it is taken as it is",)
        return subject
    if (folder / NETWORK).exists():
        raise GuardError(
            f"{folder}: holds both a forest ({FOREST}) and a network ({NETWORK}); put one of them "
            "into a folder of its own"
        )
    return ForestSubject(load_forest_access(folder, progress))


def change_rows(subject: Subject, change: Callable[[DareForestClassifier], T]) -> T:
    """Delete rows of the forest in a folder, or add some."""
    if not isinstance(subject, ForestSubject):
        raise GuardError(f"{subject.folder}: a network does not follow deletions; train it again")

    def apply_change(forest: DareForestClassifier) -> T:
        """Apply the change; raise if it changes the set of labels."""
        before = kind_digest(forest.ensemble())
        found = change(forest)
        if kind_digest(forest.ensemble()) != before:
            raise GuardError(
                f"{subject.folder / FOREST}: after this change the forest would have other labels, "
                "and the answers that are remembered are of those it has; change the forest "
                "itself, and load a guard with another memory (what answers have cost stays spent)"
            )
        return found

    return change_forest(subject.folder, apply_change)


def files_of(folder: Path) -> list[Path]:
    """Return the files of a folder that a guard reads or writes."""
    memories = [f"{MEMORY}{suffix}" for suffix in ("", "-wal", "-shm")]
    return [folder / name for name in (NETWORK, FOREST, COLUMNS, FAMILY, BOUNDS, *memories)]
