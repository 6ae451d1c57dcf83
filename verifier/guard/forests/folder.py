"""The folder of a guarded forest, with all its deletions stored beside it."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from leaveout.errors import ForestError
from leaveout.models.family_file import FAMILY
from leaveout.models.forest import DareForestClassifier
from leaveout.models.forest.columns import COLUMNS, FOREST, ForestColumns, load_columns
from leaveout.models.forest.family import ForestFamily
from leaveout.models.forest.family_file import PURPOSE, load_forest_family, save_forest_family
from leaveout.models.forest.leave_one_out import leave_one_out
from leaveout.models.forest.plain import Ensemble
from leaveout.user_key import is_own

OnProgress = Callable[[int, int], None]
"""Told how much of all deletions is done, and how much there is to do."""


@dataclass(frozen=True, eq=False)
class ForestAccess:
    """The forest and deletions that a guard serves."""

    folder: Path
    ensemble: Ensemble  # the forest, in plain form
    columns: ForestColumns | None
    family: ForestFamily  # of exactly this forest, and of every row it holds
    notes: tuple[str, ...]  # what the owner should know of the files


def load_forest_access(folder: Path, progress: OnProgress | None = None) -> ForestAccess:
    """Read a forest and its deletions, which are computed and stored if missing.

    A file of deletions is used only for exactly this forest and user.
    """
    ensemble = DareForestClassifier.load(folder / FOREST).ensemble()
    columns = _columns(folder / COLUMNS, ensemble)
    path = folder / FAMILY
    notes: list[str] = []
    if path.exists():
        family = load_forest_family(path, ensemble)
        own = family is not None and is_own(path, PURPOSE)
        if family is not None and own:
            return ForestAccess(folder, ensemble, columns, family, ())
        why = (
            f"was made of another {FOREST} than the one beside it"
            if family is None
            else "was not made by this user here, or was changed since"
        )
        notes.append(f"{path}: {why}; made again")
    family = leave_one_out(ensemble, progress=progress)
    try:
        most = stat.S_IMODE((folder / FOREST).stat().st_mode)
        save_forest_family(path, family, ensemble, most)
    except ForestError as error:
        notes.append(f"{error}; all deletions are made again each time")
    return ForestAccess(folder, ensemble, columns, family, tuple(notes))


def _columns(path: Path, ensemble: Ensemble) -> ForestColumns | None:
    if not path.exists():
        return None
    columns = load_columns(path, ensemble.X.shape[1])
    return None if columns.encoding is None else columns
