"""What is said of one training row."""

from __future__ import annotations

from typing import Literal

import msgspec

from leaveout.errors import LeaveoutError

__all__ = ["RowLabelRecord", "RowPointsRecord", "RowRecord", "RowsError"]


class RowsError(LeaveoutError):
    """Results that say nothing of single rows, or files that are not those of the results."""


class RowLabelRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is proved of a row about the answers with one label.

    Attributes
    ----------
    label : int
    name : str
        Empty where the training data gives none.
    bound : float or None
        No leak that the row's absence causes has a higher confidence, and below 0 there is none;
        None of a row that was not left out.
    leak : float or None
        Confidence of the worst leak found, replayed; None where none is known.
    member_label : int or None
        What is answered there without the row.
    member_label_name : str
    x : tuple of float
        The leak's input, as the model reads it; empty where it was not kept.
    """

    label: int
    name: str
    bound: float | None
    leak: float | None = None
    member_label: int | None = None
    member_label_name: str = ""
    x: tuple[float, ...] = ()


class RowPointsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Which of some given points' answers a row's absence changes.

    Attributes
    ----------
    data : str
        What the points are called.
    points : int
        How many there are.
    changed : tuple of int
        Those that the model without the row answers otherwise, or with a tie, counted from 0: as
        onnxruntime computes it in float32, forests in float64.
    places : tuple of str
        The same as the file counts them, such as ``line 3``.
    not_excluded : int
        How many the bounds alone do not rule out.
    """

    data: str
    points: int
    changed: tuple[int, ...]
    places: tuple[str, ...]
    not_excluded: int


class RowRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is proved of one training row, of one model and set of inputs.

    Attributes
    ----------
    row : int
        As `removed` of a witness counts it.
    name : str
        What the training data calls it; empty where it does not.
    model : {"network", "forest"}
    network : str
        The file of the network or forest.
    statements : tuple of str
        That the bounds come from.
    members : int
        How many members lack the row. 0: it was not left out, and nothing is proved of it.
    bound, leak : float or None
        The greatest of the labels' that were asked about.
    labels : tuple of RowLabelRecord
    words : str
        The same in a sentence.
    points : RowPointsRecord or None
        Where points were given, and the row was left out.
    """

    row: int
    name: str
    model: Literal["network", "forest"]
    network: str
    statements: tuple[str, ...]
    members: int
    bound: float | None
    leak: float | None
    labels: tuple[RowLabelRecord, ...]
    words: str
    points: RowPointsRecord | None = None

    @property
    def called(self) -> str:
        """The row's name, or its number where it has none."""
        return self.name or str(self.row)

    @property
    def worst(self) -> RowLabelRecord | None:
        """The label of the greatest bound; None of a row that was not left out."""
        known = [each for each in self.labels if each.bound is not None]
        return max(known, key=lambda each: (each.bound or 0.0, each.leak or 0.0), default=None)
