"""Reading of a model's folder for a guard, and deletion from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.native.files.manifest_parts import box_digest, earlier_digest
from leaveout.errors import GuardError
from leaveout.files import refuse_unread, settle
from leaveout.models.boosting.training import COLUMNS as TREE_COLUMNS
from leaveout.models.boosting.training import MEMBERS, TREES
from leaveout.models.family import FAMILY
from leaveout.models.forest.columns import COLUMNS, FOREST
from leaveout.models.forest.plain import Rows, kind_digest
from leaveout.models.linear import folder as linear_folder
from leaveout.models.linear.file import LINEAR
from leaveout.models.train.encoding import encode_rows, encoding_of
from leaveout.models.train.export import BOUNDS, NETWORK, SPEC
from leaveout.verifier.guard.access import MEMORY, Access, are_own, load_access
from leaveout.verifier.guard.forests.subject import ForestSubject, load_forest_access
from leaveout.verifier.guard.inputs import BoxDomain, Point, plain_rows
from leaveout.verifier.guard.leaks import LeakTest
from leaveout.verifier.guard.linear import LinearSubject
from leaveout.verifier.guard.subject import Identity, OnProgress, Subject
from leaveout.verifier.guard.trees import TreesSubject
from leaveout.verifier.points.given import GivenPoints, leaves_box
from leaveout.verifier.points.sentences import group_note, group_words, without_member

if TYPE_CHECKING:
    from leaveout.models.forest import DareForestClassifier


class NetworkSubject(Subject):
    """A network whose members are retrained networks."""

    def __init__(self, access: Access) -> None:
        self.instance = instance = access.instance
        family, facts = instance.family, instance.family.manifest.data
        features = facts.features if facts is not None else ()
        names = facts.labels if facts is not None else ()
        count = instance.box.dimension
        known = features if len(features) == count else tuple(map(str, range(count)))
        missing = without_member(family)
        self.folder = access.folder
        self.domain = BoxDomain(known, instance.box)
        self.leaks = LeakTest(instance, access.bounds, local=True)
        self.labels = instance.labels
        self.names = names if len(names) == self.labels else ()
        self.members = len(family)
        ids = facts.ids if facts is not None else ()
        self.unit_names = tuple(ids[k] if ids else str(k) for k in family.removed.tolist())
        self.identity = Identity(
            access.bounds.network, access.bounds.family, box_digest(instance.box)
        )
        self.earlier = earlier_digest(instance.network)
        self.encoding = encoding_of(family.manifest)
        self.notes = () if missing is None else (missing,)
        if facts is not None and facts.group:
            self.group = group_words(facts.group)
            self.notes = (group_note(facts.group), *self.notes)

    def encode(self, rows: Sequence[Mapping[str, str | float]]) -> NDArray[np.float32]:
        if self.encoding is None:
            return plain_rows(rows, self.domain.features, np.float32)
        return encode_rows(self.encoding, rows)

    def read_arrays(self, path: Path) -> NDArray[np.float32]:
        given = GivenPoints.open(str(path), option="")
        manifest, source = self.instance.family.manifest, self.instance.network.source
        return given.points(manifest, self.domain.dimension, source)

    def sample(self, rng: np.random.Generator, count: int) -> NDArray[np.float32]:
        return self.instance.box.sample(rng, count).astype(np.float32)

    def where_outside(self, point: Point) -> str:
        return leaves_box(point, self.instance.box, self.instance.family.manifest)


T = TypeVar("T")

_SAID = {
    FOREST: f"a forest ({FOREST})",
    LINEAR: f"a linear model ({LINEAR})",
    NETWORK: f"a network ({NETWORK})",
    TREES: f"a model of trees ({TREES})",
}


def load_subject(
    folder: Path, progress: OnProgress | None = None, *, adopt: bool = False
) -> Subject:
    """Read the content of a folder."""
    with refuse_unread(GuardError, folder):
        settle(folder)
    models = [name for name in (FOREST, LINEAR, NETWORK, TREES) if (folder / name).exists()]
    if len(models) > 1:
        raise GuardError(
            f"{folder}: contains both {_SAID[models[0]]} and {_SAID[models[1]]}; move one of them "
            "to its own folder"
        )
    if models == [LINEAR]:
        return LinearSubject(folder, *([] if progress is None else [progress]))
    if models == [TREES]:
        return TreesSubject(folder)
    if models != [FOREST]:
        subject, path = NetworkSubject(load_access(folder)), folder / BOUNDS
        if not are_own(path):
            what = f"{path}: was not proved by this user on this machine, or was changed"
            if not adopt:
                raise GuardError(
                    f"{what}, and a false bound reveals what one record decides: prove it with "
                    f"leaveout verify {folder / SPEC} --bounds {path}, or, if you trust its "
                    "source, accept it with --adopt"
                )
            subject.notes += (f"{what}: it is used unchanged",)
        return subject
    return ForestSubject(load_forest_access(folder, progress))


def change_rows(subject: Subject, change: Callable[[DareForestClassifier], T]) -> T:
    """Delete rows of the forest in a folder, or add some."""
    if isinstance(subject, LinearSubject):
        raise GuardError(
            f"{subject.folder}: a guard of a linear model adds no rows; add them with leaveout "
            "linear add, then reload"
        )
    if isinstance(subject, TreesSubject):
        raise GuardError(f"{subject.folder}: trees of a library are trained again, not changed")
    if not isinstance(subject, ForestSubject):
        raise GuardError(f"{subject.folder}: a network cannot follow deletions; retrain it")

    import leaveout.models.forest.folders as folders

    def apply_change(forest: DareForestClassifier) -> T:
        """Apply the change; raise if it changes the set of labels."""
        before = kind_digest(forest.ensemble())
        found = change(forest)
        if kind_digest(forest.ensemble()) != before:
            raise GuardError(
                f"{subject.folder / FOREST}: with this change, the forest would have labels other "
                "than those of the stored answers; change the forest directly and load a guard "
                "with another memory (the cost of past answers stays spent)"
            )
        return found

    return folders.change_forest(subject.folder, apply_change)


def delete_rows(subject: Subject, rows: Rows) -> None:
    """Delete rows of the model in a folder."""
    if isinstance(subject, LinearSubject):
        subject.delete([rows] if isinstance(rows, int | np.integer) else [*rows])
    else:
        change_rows(subject, lambda forest: forest.delete(rows))


def model_files(folder: Path) -> list[Path]:
    """Return the files of the model that a folder has, without what a guard remembers."""
    return [each for each in files_of(folder) if each.is_file() and MEMORY not in each.name]


def files_of(folder: Path) -> list[Path]:
    """Return the files of a folder that a guard reads or writes."""
    memories = [f"{MEMORY}{suffix}" for suffix in ("", "-wal", "-shm")]
    linear = (LINEAR, linear_folder.COLUMNS, linear_folder.FEATURES)
    trees = (TREES, TREE_COLUMNS, MEMBERS)
    names = (NETWORK, FOREST, COLUMNS, *linear, *trees, FAMILY, BOUNDS, *memories)
    return [folder / name for name in names]
