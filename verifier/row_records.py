"""Records of what is proved of one training row."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from leaveout.errors import LeaveoutError
from leaveout.names import find_reference


class RowsError(LeaveoutError):
    """Results without facts on rows, or files that do not belong to the results."""


class RowLabelRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is proved of a row for answers with one label."""

    label: int
    name: str  # empty where the training data gives none
    bound: float | None
    leak: float | None = None
    member_label: int | None = None  # what is answered there without the row
    member_label_name: str = ""
    x: tuple[
        float, ...
    ] = ()  # the leak's input, as the model reads it; empty where it was not kept


class RowPointsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The given points whose answers a row's absence changes."""

    data: str  # what the points are called
    points: int  # how many there are
    changed: tuple[int, ...]
    places: tuple[str, ...]  # the same as the file counts them, such as ``line 3``
    not_excluded: int  # how many the bounds alone do not rule out


class RowRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is proved of one training row, for one model and input set."""

    row: int  # as `removed` of a witness counts it
    name: str  # what the training data calls it; empty where it does not
    model: Literal["network", "forest", "linear"]
    network: str  # the file of the network or forest
    statements: tuple[str, ...]  # that the bounds come from
    members: int  # how many members lack the row
    bound: float | None  # the greatest of the labels' that were asked about
    leak: float | None  # the greatest of the labels' that were asked about
    labels: tuple[RowLabelRecord, ...]
    words: str  # the same in a sentence
    points: RowPointsRecord | None = None  # where points were given, and the row was left out
    group: str = ""  # the column that names the rows which leave together; empty: a row alone

    @property
    def display_name(self) -> str:
        """The row's name, or its number if it has none."""
        return self.name or str(self.row)

    @property
    def worst(self) -> RowLabelRecord | None:
        """The label of the greatest bound; None if the row was never left out."""
        known = [each for each in self.labels if each.bound is not None]
        return max(known, key=lambda each: (each.bound or 0.0, each.leak or 0.0), default=None)


class RowList(list[RowRecord]):
    """What is proved of training rows, in their order."""

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one line per row and model."""
        columns = ("row", "name", "model", "network", "members", "bound", "leak", "words")
        lines = [{name: getattr(each, name) for name in columns} for each in self]
        make: Any = find_reference("leaveout.verifier.report_views:data_frame")
        return make(lines, columns, "the list of rows")
