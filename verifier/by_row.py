"""What a run proved of each training row, as stored in RESULT.json."""

from __future__ import annotations

from typing import Literal

import msgspec

from leaveout.verifier.records import BoxRecord


class RowLeakRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The worst leak found of a row, replayed."""

    row: int  # that the member lacks
    member: int  # position of the member in the family
    confidence: float  # the model's own, of the label that the record is of
    member_label: int  # what the member answers; the same label where it answers with a tie
    x: bytes = b""


class LabelByRowRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is proved of each row for answers with one label."""

    label: int
    name: str  # what the training data calls it; empty where it does not
    levels: tuple[float, ...]  # the bounds there are, ascending; -1 where there is no leak at all
    level: tuple[int, ...]
    leaks: tuple[RowLeakRecord, ...] = ()  # the worst first, one a row at most


class ByRowRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is proved of each training row, for one model and one input set."""

    model: Literal["network", "forest"]
    network: str  # the files; a forest's family is the forest itself
    family: str  # the files; a forest's family is the forest itself
    network_sha256: str
    family_sha256: str
    statements: tuple[str, ...]
    box: BoxRecord
    rows: tuple[int, ...]
    ids: tuple[str, ...]  # what the training data calls them; empty where rows have no names
    members: tuple[int, ...]  # how many members lack each; 0 of a row that was not left out
    labels: tuple[LabelByRowRecord, ...]  # those that were asked about
    label_names: tuple[str, ...] = ()  # a name a label of the model; empty where labels have none
