"""The parts of results: witnesses, curves, input sets, answers to given rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from leaveout.models.quality import Quality

Fact = int | float | str | tuple[int, ...]

AnswerState = Literal["owes nothing", "not above", "unknown", "outside"]


class CellRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A column of the training data at a witness."""

    name: str
    at: tuple[int, ...]  # the features the network reads it as
    value: float | str | None = None  # in the data's own units; None where only the name is known
    nearest: bool | None = None
    unit: str = ""  # what the value is measured in; empty where that is not known


class WitnessRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A replayed leak: networks by onnxruntime in float32, forests and linear models in float64."""

    x: tuple[float, ...]  # the input, as the model reads it
    member: int  # position of the member in the family
    removed: int  # row of the training point the member lacks
    confidence: float  # n's confidence at x
    scores: tuple[float, ...]
    member_scores: tuple[float, ...]
    label: int  # what N and the member answer; on a tie the first of the tied labels
    member_label: int  # what N and the member answer; on a tie the first of the tied labels
    words: str  # the same in a sentence
    cells: tuple[CellRecord, ...] = ()
    other: bool = False  # whether the member is another network, which lacks no row
    removed_id: str = ""
    group: str = ""  # the column whose cell ``removed_id`` is, if the rows of a group are lacking
    label_names: tuple[str, ...] = ()  # a name a label; empty where labels have none
    model: Literal["network", "forest", "linear"] = "network"


class ExampleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A counter-example to a claim that is not about leaks.

    For points it was replayed through onnxruntime in float32, or as trees add; None is a missing
    value. For values there are only words.
    """

    points: dict[str, tuple[float | None, ...]]  # each point that ``forall`` binds, by name
    scores: dict[str, tuple[float, ...]]  # of each network at each point, as in ``N(x)``
    labels: dict[str, int]  # what they answer; on a tie the first of the tied labels
    members: dict[str, int] = {}
    removed: dict[str, int] = {}
    words: str = ""  # the same in a sentence
    facts: dict[str, Fact] = {}
    removed_ids: dict[str, str] = {}
    features: tuple[str, ...] = ()
    label_names: tuple[str, ...] = ()


class TraceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of one question over time; some moments only if long."""

    label: int | None  # of leaks, or of ``per label``
    seconds: tuple[float, ...]  # since the search began, ascending
    lower: tuple[float, ...]  # known at each moment; the one never falls, the other never rises
    upper: tuple[float, ...]  # known at each moment; the one never falls, the other never rises


class GroupRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A set of members with similar networks."""

    parent: int  # position of the group it is a part of, earlier in the list; -1 for all members
    members: int  # how many there are
    upper: float
    rows: tuple[int, ...]  # rows that members of it lack, each one; of a large group the first few
    leak: bool = False  # whether the worst leak or counter-example found is one of its members'
    ids: tuple[str, ...] = ()


class GroupsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The members a bound rests on: a tree of groups whose first holds all."""

    label: int | None  # of leaks, and of ``per label``
    groups: tuple[GroupRecord, ...]
    about: Literal["leaks", "least", "greatest"] = "leaks"  # leaks, or what number is sought


class FactsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a function's decider computed, for programs."""

    name: str  # the function
    facts: dict[str, Fact]


class ChoicesRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Features that jointly take one of the listed rows."""

    columns: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]  # a row each, a number a column


class BoxRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The input set of a result."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    choices: tuple[ChoicesRecord, ...] = ()


class ColumnRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How a model reads a column of its training table."""

    name: str
    unit: str = ""  # what its numbers are measured in; empty where that is not known
    at: tuple[int, ...] = ()  # the features that it becomes
    zero: float | None = None
    one: float | None = None
    categories: tuple[str, ...] = ()


class ModelRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A model that statements are about."""

    model: Literal["network", "forest", "linear"]
    file: str
    family: str
    statements: tuple[str, ...]  # which are about it
    members: int
    rows: int | None  # records it was trained on, where that is known
    labels: tuple[str, ...] = ()  # a name a label; empty where labels have none
    columns: tuple[ColumnRecord, ...] = ()
    quality: Quality | None = None  # on its training rows, where that is known


class LabelAnswersRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The given rows that a network answers with one label."""

    label: int
    name: str  # what the training data calls it; empty where it does not
    answers: int  # how many rows are answered so
    owe_nothing: int  # of those: proved to be answered so by every member
    not_above: int
    unknown: int  # in a set of inputs of which no bound of this label is known
    outside: int  # in no set of inputs that the specification bounds this label over
    upper: float | None  # the least bound of the label
    words: str  # the same in a sentence; empty where no row is answered so


class AnswersRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Which answers to given rows no single record can change."""

    data: str  # what the rows are called
    network: str  # the files
    family: str  # the files
    statements: tuple[str, ...]  # what the bounds are of
    members: int  # records that were left out, one a retrained network
    rows: int | None  # records the network was trained on, where that is known
    words: str  # what comes out, in a sentence
    outside: tuple[str, ...]
    labels: tuple[LabelAnswersRecord, ...]  # one a label of the network
    answers: tuple[int, ...]  # the label of each row
    confidences: tuple[float | None, ...]
    states: tuple[AnswerState, ...]  # of each row, as `LabelAnswersRecord` counts them
    quality: Quality | None = None  # on the rows whose label is given, and known from training


class RowLeakRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The worst leak found of a row, replayed."""

    row: int  # that the member lacks
    member: int  # position of the member in the family
    confidence: float  # the model's own, of the label that the record is of
    member_label: int  # what the member answers; the same label where it answers with a tie
    x: bytes = b""


def constant_models(
    models: Iterable[ModelRecord], answers: Iterable[AnswersRecord]
) -> Mapping[str, str]:
    """Return what each model, by its file, answers all rows known with, if it is one label.

    These are its training rows, or else the given ones.
    """
    found: dict[str, str] = {}
    measured = set()
    for model in models:
        if model.quality is not None:
            measured.add(model.file)
            if len(model.quality.answers) == 1:
                ((label, rows),) = model.quality.answers
                found[model.file] = f"all {rows:,} training rows are answered with {label!r}"
    for each in answers:
        if each.network not in measured and len(each.answers) > 1 == len(set(each.answers)):
            (answer,) = set(each.answers)
            name = next((repr(own.name) for own in each.labels if own.label == answer and own.name),
                        f"label {answer}")  # fmt: skip
            given = f"all {len(each.answers):,} rows of {each.data}"
            found[each.network] = f"{given} are answered with {name}"
    return found


class LabelByRowRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is proved of each row for answers with one label."""

    label: int
    name: str  # what the training data calls it; empty where it does not
    levels: tuple[float, ...]  # the bounds there are, ascending; -1 where there is no leak at all
    level: tuple[int, ...]
    leaks: tuple[RowLeakRecord, ...] = ()  # the worst first, one a row at most


class ByRowRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is proved of each training row, for one model and one input set."""

    model: Literal["network", "forest", "linear"]
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
    group: str = ""  # the column whose equal cells name rows that leave together, as one


FileKind = Literal[
    "specification", "included specification", "network", "weights", "family", "member", "forest",
    "linear", "trees", "columns", "ballots", "service", "audit", "bounds", "rows", "given rows",
    "file",
]  # fmt: skip
"""What a file is: ``weights`` lie beside a network, ``columns`` beside a forest or a linear model,
``bounds`` are what a guard rests on, ``rows`` are named by the specification, ``given rows`` by
``--data``."""


class FileRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a run read."""

    path: str  # seen from the folder of the specification, with ``/`` between names
    kind: FileKind  # what it is
    sha256: str  # of its bytes, in hexadecimal; empty where it was written to during the run
    called: tuple[str, ...] = ()  # the names that the specification gives it, in order


class TrainingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a family, forest or linear model states of its training rows."""

    path: str  # of the family or the model, as of its `FileRecord`
    sha256: str
    manifest_sha256: str
    rows: int
    features: int
    labels: tuple[str, ...] = ()  # their names; empty where they have none
    group: str = ""  # the column whose equal cells name rows that leave together, as one


class StatementRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A statement of the specification, as decided."""

    name: str
    text: str  # in its one layout, params as they were set
    sentence: str  # the same in words
    names: tuple[str, ...]  # the lets it is made of, in order
    definitions: tuple[str, ...]  # these lets, each in its one layout, params as they were set
    path: str
    line: int  # where, counted from 1; the end is just past its last character
    column: int  # where, counted from 1; the end is just past its last character
    end_line: int  # where, counted from 1; the end is just past its last character
    end_column: int  # where, counted from 1; the end is just past its last character
