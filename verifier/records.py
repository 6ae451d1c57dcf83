"""What results are made of: witnesses, curves, sets of inputs, answers to given rows."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = [
    "AnswerState",
    "AnswersRecord",
    "BoxRecord",
    "CellRecord",
    "ChoicesRecord",
    "ColumnRecord",
    "ExampleRecord",
    "Fact",
    "FactsRecord",
    "GroupRecord",
    "GroupsRecord",
    "LabelAnswersRecord",
    "ModelRecord",
    "TraceRecord",
    "WitnessRecord",
]

Fact = int | float | str | tuple[int, ...]

AnswerState = Literal["owes nothing", "not above", "unknown", "outside"]


class CellRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A column of the training data at a witness.

    Attributes
    ----------
    name : str
    at : tuple of int
        The features the network reads it as.
    value : float, str or None
        In the data's own units; None where only the name is known.
    nearest : bool or None
        Whether no record has what the network reads there, and the value is the nearest that one
        has; None where that is not known.
    unit : str
        What the value is measured in; empty where that is not known.
    """

    name: str
    at: tuple[int, ...]
    value: float | str | None = None
    nearest: bool | None = None
    unit: str = ""


class WitnessRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A leak, replayed: by networks through onnxruntime in float32, by forests in float64.

    Attributes
    ----------
    x : tuple of float
        The input, as the model reads it.
    member : int
        Position of the member in the family.
    removed : int
        Row of the training point the member lacks.
    confidence : float
        N's confidence at x.
    scores, member_scores : tuple of float
    label, member_label : int
        What N and the member answer; on a tie the first of the tied labels.
    words : str
        The same in a sentence.
    cells : tuple of CellRecord
        The input by the names the training data gave; empty where it gave none.
    other : bool
        Whether the member is another network, which lacks no row.
    removed_id : str
        What the training data calls the removed row; empty where rows have no names.
    label_names : tuple of str
        A name a label; empty where labels have none.
    model : {"network", "forest"}
    """

    x: tuple[float, ...]
    member: int
    removed: int
    confidence: float
    scores: tuple[float, ...]
    member_scores: tuple[float, ...]
    label: int
    member_label: int
    words: str
    cells: tuple[CellRecord, ...] = ()
    other: bool = False
    removed_id: str = ""
    label_names: tuple[str, ...] = ()
    model: Literal["network", "forest"] = "network"


class ExampleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A counter-example to a claim that is not about leaks.

    Of a claim about points it was replayed through onnxruntime in float32; of one about values of
    functions there are words alone.

    Attributes
    ----------
    points : dict of str to tuple of float
        Each point that ``forall`` binds, by name.
    scores : dict of str to tuple of float
        Of each network at each point, as in ``N(x)``.
    labels : dict of str to int
        What they answer; on a tie the first of the tied labels.
    members, removed : dict of str to int
        Position of each member, and the row it lacks, by the name ``forall`` gives it.
    words : str
        The same in a sentence.
    facts : dict of str to number, text or tuple of int
        What shows a claim about values to be wrong, such as the parts an attack poisons.
    removed_ids : dict of str to str
        What the training data calls the removed rows, where they have names.
    features, label_names : tuple of str
        What it calls the features of points and the labels; empty where it does not.
    """

    points: dict[str, tuple[float, ...]]
    scores: dict[str, tuple[float, ...]]
    labels: dict[str, int]
    members: dict[str, int] = {}
    removed: dict[str, int] = {}
    words: str = ""
    facts: dict[str, Fact] = {}
    removed_ids: dict[str, str] = {}
    features: tuple[str, ...] = ()
    label_names: tuple[str, ...] = ()


class TraceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of one question while it was searched; of a long search some moments only.

    Attributes
    ----------
    label : int or None
        Of leaks, or of ``per label``.
    seconds : tuple of float
        Since the search began, ascending.
    lower, upper : tuple of float
        Known at each moment; the one never falls, the other never rises.
    """

    label: int | None
    seconds: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]


class GroupRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A set of members whose networks are alike.

    Attributes
    ----------
    parent : int
        Position of the group it is a part of, earlier in the list; -1 for all members.
    members : int
        How many there are.
    upper : float
        No leak of any of them has a higher confidence, or no counter-example a higher value; where
        the greatest number is sought, none has a lower one.
    rows : tuple of int
        Rows that members of it lack, each one; of a large group the first few.
    leak : bool
        Whether the worst leak or counter-example found is one of its members'.
    ids : tuple of str
        What the training data calls these rows; empty where they have no names.
    """

    parent: int
    members: int
    upper: float
    rows: tuple[int, ...]
    leak: bool = False
    ids: tuple[str, ...] = ()


class GroupsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Which members a bound rests on: a tree of groups, the first holds all.

    Attributes
    ----------
    label : int or None
        Of leaks, and of ``per label``.
    groups : tuple of GroupRecord
    about : {"leaks", "least", "greatest"}
        Leaks, or what number is sought.
    """

    label: int | None
    groups: tuple[GroupRecord, ...]
    about: Literal["leaks", "least", "greatest"] = "leaks"


class FactsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the decider of a function found, for programs to read.

    Attributes
    ----------
    name : str
        The function.
    facts : dict of str to number, text or tuple of int
    """

    name: str
    facts: dict[str, Fact]


class ChoicesRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Features that together take one of the listed rows.

    Attributes
    ----------
    columns : tuple of int
    values : tuple of tuple of float
        A row each, a number a column.
    """

    columns: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]


class BoxRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The set of inputs a result is about.

    Attributes
    ----------
    lower, upper : tuple of float
        A number a feature; of those that take listed values the least and greatest.
    choices : tuple of ChoicesRecord
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    choices: tuple[ChoicesRecord, ...] = ()


class ColumnRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How a model reads a column of the table it was trained on.

    Attributes
    ----------
    name : str
    unit : str
        What its numbers are measured in; empty where that is not known.
    at : tuple of int
        The features that it becomes.
    zero, one : float or None
        In the table's own units what the feature reads as 0 and as 1; None for categories.
    categories : tuple of str
        A word a feature, which is 1 for the row's own and 0 for others; empty for numbers.
    """

    name: str
    unit: str = ""
    at: tuple[int, ...] = ()
    zero: float | None = None
    one: float | None = None
    categories: tuple[str, ...] = ()


class ModelRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A model that statements ask what one training record changes of, or are about.

    Attributes
    ----------
    model : {"network", "forest"}
    file : str
    family : str
        The file of the networks retrained without a record each, or the other model; empty for
        a forest, of which every row's deletion is known.
    statements : tuple of str
        Which are about it.
    members : int
        Records that are left out, one a retrained model; 0 where it is compared with another model.
    rows : int or None
        Records it was trained on, where that is known.
    labels : tuple of str
        A name a label; empty where labels have none.
    columns : tuple of ColumnRecord
        Of the table it was trained on; empty where it was no table.
    """

    model: Literal["network", "forest"]
    file: str
    family: str
    statements: tuple[str, ...]
    members: int
    rows: int | None
    labels: tuple[str, ...] = ()
    columns: tuple[ColumnRecord, ...] = ()


class LabelAnswersRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The given rows that a network answers with one label.

    Attributes
    ----------
    label : int
    name : str
        What the training data calls it; empty where it does not.
    answers : int
        How many rows are answered so.
    owe_nothing : int
        Of those: proved to be answered so by every member.
    not_above : int
        In a set of inputs, with a confidence at or below what is proved: they may owe something.
    unknown : int
        In a set of inputs of which no bound of this label is known.
    outside : int
        In no set of inputs that the specification bounds this label over.
    upper : float or None
        The least bound of the label.
    words : str
        The same in a sentence; empty where no row is answered so.
    """

    label: int
    name: str
    answers: int
    owe_nothing: int
    not_above: int
    unknown: int
    outside: int
    upper: float | None
    words: str


class AnswersRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Which answers to rows that were given owe nothing to any one record.

    Attributes
    ----------
    data : str
        What the rows are called.
    network, family : str
        The files.
    statements : tuple of str
        What the bounds are of.
    members : int
        Records that were left out, one a retrained network.
    rows : int or None
        Records the network was trained on, where that is known.
    words : str
        What comes out, in a sentence.
    outside : tuple of str
        Of the first few rows that are in no set of inputs, where they leave it.
    labels : tuple of LabelAnswersRecord
        One a label of the network.
    answers : tuple of int
        The label of each row.
    confidences : tuple of float or None
        Of that label, as onnxruntime computes it in float32; None if it is no finite number.
    states : tuple of {"owes nothing", "not above", "unknown", "outside"}
        Of each row, as `LabelAnswersRecord` counts them.
    """

    data: str
    network: str
    family: str
    statements: tuple[str, ...]
    members: int
    rows: int | None
    words: str
    outside: tuple[str, ...]
    labels: tuple[LabelAnswersRecord, ...]
    answers: tuple[int, ...]
    confidences: tuple[float | None, ...]
    states: tuple[AnswerState, ...]
