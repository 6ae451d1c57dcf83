"""What a run proved of each training row, as RESULT.json keeps it."""

from __future__ import annotations

from typing import Literal

import msgspec

from leaveout.verifier.records import BoxRecord

__all__ = ["ByRowRecord", "LabelByRowRecord", "RowLeakRecord"]


class RowLeakRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The worst leak found of a row, replayed.

    Attributes
    ----------
    row : int
        That the member lacks.
    member : int
        Position of the member in the family.
    confidence : float
        The model's own, of the label that the record is of.
    member_label : int
        What the member answers; the same label where it answers with a tie.
    x : bytes
        The input as the model reads it, little-endian: float32 of networks, float64 of forests; in
        JSON base64. Empty where so many inputs would have been too much to keep.
    """

    row: int
    member: int
    confidence: float
    member_label: int
    x: bytes = b""


class LabelByRowRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is proved of each row about the answers with one label.

    Attributes
    ----------
    label : int
    name : str
        What the training data calls it; empty where it does not.
    levels : tuple of float
        The bounds there are, ascending; -1 where there is no leak at all. Of a network 0 says that
        no answer of a confidence above 0 changes; a forest's answer at a tie may change too.
    level : tuple of int
        Of each row of `ByRowRecord.rows` which one is its bound: no leak that its absence causes
        has a higher confidence. -1 of a row without a member.
    leaks : tuple of RowLeakRecord
        The worst first, one a row at most.
    """

    label: int
    name: str
    levels: tuple[float, ...]
    level: tuple[int, ...]
    leaks: tuple[RowLeakRecord, ...] = ()


class ByRowRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is proved of each training row, of one model and one set of inputs.

    Attributes
    ----------
    model : {"network", "forest"}
    network, family : str
        The files; a forest's family is the forest itself.
    network_sha256, family_sha256 : str
        Digests of the operators and parameters, in hexadecimal; of a forest of its rows, trees and
        settings.
    statements : tuple of str
        That the bounds come from; each bound holds by itself, and the lowest is kept.
    box : BoxRecord
    rows : tuple of int
        Training rows, ascending: those that members lack, and all others that are known of.
    ids : tuple of str
        What the training data calls them; empty where rows have no names.
    members : tuple of int
        How many members lack each; 0 of a row that was not left out.
    labels : tuple of LabelByRowRecord
        Those that were asked about.
    label_names : tuple of str
        A name a label of the model; empty where labels have none.
    """

    model: Literal["network", "forest"]
    network: str
    family: str
    network_sha256: str
    family_sha256: str
    statements: tuple[str, ...]
    box: BoxRecord
    rows: tuple[int, ...]
    ids: tuple[str, ...]
    members: tuple[int, ...]
    labels: tuple[LabelByRowRecord, ...]
    label_names: tuple[str, ...] = ()
