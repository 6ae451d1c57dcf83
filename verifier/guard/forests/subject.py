"""A guarded forest with all its deletions."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leaveout.errors import ForestError
from leaveout.models.family import FAMILY
from leaveout.models.forest.columns import COLUMNS, FOREST, ForestColumns, load_columns
from leaveout.models.forest.family import (
    PURPOSE,
    ForestFamily,
    load_forest_family,
    save_forest_family,
)
from leaveout.models.forest.leave_one_out import leave_one_out
from leaveout.models.forest.plain import Ensemble, forest_digest, kind_digest
from leaveout.models.forest.state import load_plain
from leaveout.user_key import is_own
from leaveout.verifier.guard.forests.leaks import ForestLeakTest
from leaveout.verifier.guard.subject import Identity, OnProgress, TableSubject


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
    ensemble = load_plain(folder / FOREST)
    columns = _columns(folder / COLUMNS, ensemble)
    path = folder / FAMILY
    notes: list[str] = []
    if path.exists():
        family = load_forest_family(path, ensemble)
        own = family is not None and is_own(path, PURPOSE)
        if family is not None and own:
            return ForestAccess(folder, ensemble, columns, family, ())
        why = (
            f"was made from a different {FOREST}"
            if family is None
            else "was not made by this user on this machine, or was changed"
        )
        notes.append(f"{path}: {why}; recomputed")
    family = leave_one_out(ensemble, progress=progress)
    try:
        most = stat.S_IMODE((folder / FOREST).stat().st_mode)
        save_forest_family(path, family, ensemble, most)
    except ForestError as error:
        notes.append(f"{error}; all deletions are recomputed each time")
    return ForestAccess(folder, ensemble, columns, family, tuple(notes))


def _columns(path: Path, ensemble: Ensemble) -> ForestColumns | None:
    if not path.exists():
        return None
    columns = load_columns(path, ensemble.X.shape[1])
    return None if columns.encoding is None else columns


class ForestSubject(TableSubject):
    """A forest whose members are the forests without one of its rows.

    A memory is bound to settings, seed, features and labels only, so it outlives deletions and
    additions; which inputs may be noised depends on the rows.
    """

    def __init__(self, access: ForestAccess) -> None:
        ensemble = access.ensemble
        kind = kind_digest(ensemble)
        group = "" if ensemble.groups is None else ensemble.groups.column
        super().__init__(access.folder, ensemble.X.shape[1], access.columns, group)
        self.leaks = ForestLeakTest(access.family)
        self.labels = len(ensemble.classes)
        self.names = tuple(map(str, ensemble.classes.tolist()))
        self.members = len(access.family)
        unit = repr(group) if group else "row"
        self.identity = Identity(kind, f"every {unit}", forest_digest(ensemble))
        self.notes += access.notes
        self.unit_names = self._names_of(ensemble)
        self._thresholds = [
            np.concatenate([tree.threshold[tree.feature == at] for tree in ensemble.trees])
            for at in range(self.domain.dimension)
        ]
