"""The folder of a forest, and changes of its rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import ForestError
from leaveout.models.family import DataFacts
from leaveout.models.forest.classifier import DareForestClassifier
from leaveout.models.forest.columns import COLUMNS, FOREST, FORESTS
from leaveout.models.forest.files import digest_of
from leaveout.models.forest.plain import Ensemble
from leaveout.models.table import Table
from leaveout.models.train import changes
from leaveout.models.train.changes import Addition, Deletion
from leaveout.models.train.columns import Subject
from leaveout.models.train.encoding import CategoryColumn
from leaveout.models.train.export import inputs_text
from leaveout.models.train.folder import ModelFolder, Rows, lock_folder, put_model
from leaveout.models.train.rows import label_values

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class ForestFolder(ModelFolder):
    """A forest, with what its file does not record about its table; changes change the forest.

    Attributes
    ----------
    directory : Path
    columns : ForestColumns
    forest : DareForestClassifier
    """

    subject: ClassVar[Subject] = FORESTS
    forest: DareForestClassifier

    @classmethod
    def load(cls, directory: Path) -> ForestFolder:
        forest = DareForestClassifier.load(directory / FOREST)
        columns = FORESTS.load_columns(directory / COLUMNS, forest.n_features_in_)
        return cls(directory, columns, forest)

    @property
    def rows(self) -> Ensemble:
        return self.forest.ensemble()

    @property
    def digest(self) -> str:
        return digest_of(self.forest.ensemble())

    def save(self, path: Path) -> None:
        self.forest.save(path)

    def without(self, names: Sequence[int]) -> ForestFolder:
        self.forest.delete(names)
        return self

    def rows_of(self, table: Table, X: NDArray[np.float64]) -> Rows:
        assert self.columns.encoding is not None
        label = self.columns.encoding.label
        cells = table.column(label)
        if self.forest.classes_.dtype.kind == "U":
            return X, np.array(cells, dtype=np.str_)
        values = label_values(cells)
        if values.dtype.kind == "U":
            wrong = next(
                row for row, cell in enumerate(cells) if label_values([cell]).dtype.kind == "U"
            )
            raise ForestError(
                f"{table.at(wrong, label)}: {cells[wrong]!r} is not a label of this forest; labels "
                "are whole numbers"
            )
        return X, values

    def with_rows(
        self, rows: Rows, cells: Sequence[str] | None
    ) -> tuple[ForestFolder, NDArray[np.int64]]:
        return self, self.forest.add(*rows, groups=cells)

    def ends_with(self, rows: Rows) -> bool:
        X, y = rows
        held = self.rows
        labels = held.classes[held.y[-len(X) :]]
        return np.array_equal(held.X[-len(X) :], X) and labels.tolist() == y.tolist()

    def check(self) -> float:
        began = time.perf_counter()
        anew = self.forest.retrain()
        seconds = time.perf_counter() - began
        wrong = self.forest.difference(anew)
        if wrong is not None:
            raise ForestError(f"{self.directory}: differs from retraining: {wrong}")
        return seconds

    def inputs(self) -> str:
        X = self.rows.X
        minimum, maximum = X.min(axis=0), X.max(axis=0)
        if self.columns.encoding is not None:
            # Any category may be asked about, also one that no row has any more.
            columns = self.columns.encoding.columns
            words = np.array(
                [isinstance(each, CategoryColumn) for each in columns for _ in each.features]
            )
            minimum, maximum = np.where(words, 0.0, minimum), np.where(words, 1.0, maximum)
        facts = DataFacts(
            sha256="", rows=len(X), minimum=tuple(minimum.tolist()), maximum=tuple(maximum.tolist())
        )
        inside = bool(minimum.min() >= 0 and maximum.max() <= 1)
        return inputs_text(facts, inside, self.columns.encoding)


def delete_rows(
    directory: Path | str,
    rows: Sequence[str],
    check: bool = False,
    tell: Callable[[Deletion], None] = lambda done: None,
) -> Deletion:
    """Delete rows exactly, leaving bit for bit the forest of the remaining rows.

    The parameters and errors are those of `leaveout.models.train.changes.delete_rows`.
    """
    return changes.delete_rows(ForestFolder, Path(directory), rows, check, tell)


def add_rows(
    directory: Path | str,
    source: Path | str,
    tell: Callable[[Addition], None] = lambda done: None,
) -> Addition:
    """Add the rows of a table with the same columns, under the next numbers.

    The parameters and errors are those of `leaveout.models.train.changes.add_rows`.
    """
    return changes.add_rows(ForestFolder, Path(directory), Path(source), tell)


def change_forest(directory: Path, change: Callable[[DareForestClassifier], T]) -> T:
    """Change the forest of a folder and everything derived from it."""
    with lock_folder(FORESTS, directory):
        if (directory / COLUMNS).exists():
            folder = ForestFolder.read(directory)
            former = changes.Former.of(folder)
            found = change(folder.forest)
            changes.write_changed(folder, former)
            return found
        forest = DareForestClassifier.load(directory / FOREST)
        found = change(forest)
        put_model(FORESTS, directory, forest.save, {}, is_new=False)
        return found


def rows_of_table(path: Path, directory: Path) -> tuple[str, ...]:
    """Return the rows listed in a CSV's naming column, or else in ``row``."""
    return changes.rows_of_table(ForestFolder, path, directory)
