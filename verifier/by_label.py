"""What a report keeps of how right votes are: a record a vote, and one a label."""

from __future__ import annotations

import msgspec

__all__ = ["AccuracyRecord", "LabelAccuracyRecord"]


class LabelAccuracyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How right the answers of a vote to the test points of one true label are.

    Attributes
    ----------
    label : int
    name : str
        What the label is called; empty where it has no name.
    points, right : int
        Test points of this true label, and how many of them are answered right.
    lower, upper : int
        Of these, how many stay so whatever changes: at least, and at most.
    """

    label: int
    name: str
    points: int
    right: int
    lower: int
    upper: int


class AccuracyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How right the answers of a vote are, label by label.

    Attributes
    ----------
    votes, file : str
        What votes, such as ``dpa``, and its ballots.
    unit : str
        What changes, such as ``edits``.
    count : int
        How many of them the labels' numbers withstand; of a find, the number it found.
    together : bool
        Whether one attack is on all test points, rather than on each by itself. Then the lower end
        of a label's number is that of attacks on each point by itself, the upper end that of the
        worst attack known.
    points, right : int
        Test points, and how many of them are answered right where nothing changes.
    common : int
        The label that is most often true.
    common_name : str
    common_points : int
        Test points of that label: whoever answers nothing else is right as often.
    undefended_right : int or None
        Test points that one model trained on all rows answers right, where that is known.
    lower, upper : int or None
        Of the test points that count, those of `labels`, how many are answered right whatever
        changes: at least, and at most; None where something else is asked.
    labels : tuple of LabelAccuracyRecord
        Those that the statement is about and that have test points.
    """

    votes: str
    file: str
    unit: str
    count: int
    together: bool
    points: int
    right: int
    common: int
    common_name: str
    common_points: int
    undefended_right: int | None
    lower: int | None
    upper: int | None
    labels: tuple[LabelAccuracyRecord, ...]
