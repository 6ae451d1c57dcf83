"""What a verification run returns: verdicts, bounds, witnesses; and the JSON file of them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from leaveout.exit_codes import ExitCode
from leaveout.files import write_whole

__all__ = [
    "BoxRecord",
    "CellRecord",
    "ChoicesRecord",
    "CurveRecord",
    "ExampleRecord",
    "Fact",
    "FactsRecord",
    "GroupRecord",
    "GroupsRecord",
    "Report",
    "Result",
    "TraceRecord",
    "Verdict",
    "WitnessRecord",
    "exit_code",
    "write_json",
]

Verdict = Literal["proved", "refuted", "unknown"]

Fact = int | float | str | tuple[int, ...]


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
    """

    name: str
    at: tuple[int, ...]
    value: float | str | None = None
    nearest: bool | None = None


class WitnessRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A leak, replayed through onnxruntime in float32.

    Attributes
    ----------
    x : tuple of float
        The input, as the network reads it.
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
    """

    points: dict[str, tuple[float, ...]]
    scores: dict[str, tuple[float, ...]]
    labels: dict[str, int]
    members: dict[str, int] = {}
    removed: dict[str, int] = {}
    words: str = ""
    facts: dict[str, Fact] = {}


class CurveRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A number against how much of the training set changes.

    Attributes
    ----------
    name : str
        What it is of.
    value, unit : str
        What the number is, and what is counted.
    at : tuple of int
    lower, upper : tuple of float
        Between which the number lies at each.
    """

    name: str
    value: str
    unit: str
    at: tuple[int, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]


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
    """

    parent: int
    members: int
    upper: float
    rows: tuple[int, ...]
    leak: bool = False


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


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One answer; ``find ... per label`` gives one a label.

    Attributes
    ----------
    name : str
        Of the guarantee or find.
    kind : {"guarantee", "find"}
    verdict : {"proved", "refuted", "unknown"}
        Of a find, "proved" means that the bounds agree.
    lower : float or None
        Confidence of the worst leak found, 0 if none was.
    upper : float or None
        No leak has a higher confidence.
    label : int or None
        None where the statement is about every label and no one label decides it.
    witness : WitnessRecord or None
    seconds : float
    engine : str
    solver : str or None
        None where no solver was used.
    reason : str or None
        Of "unknown": time, solver or numerical, and what happened.
    box : BoxRecord
        Of several points the first one's.
    members : int
    example : ExampleRecord or None
        The counter-example, or for a find the worst one, of a claim that is not about leaks.
    curves : tuple of CurveRecord
        What a report can draw of it.
    confidence : float or None
        What the verdict holds with, where it rests on samples; None where it is certain.
    facts : tuple of FactsRecord
        What was computed on the way, whatever the verdict.
    traces : tuple of TraceRecord
        One a label that was searched; none where the bounds were known already.
    groups : tuple of GroupsRecord
        Of a find over a family by the native engine, one a label that was searched.
    """

    name: str
    kind: Literal["guarantee", "find"]
    verdict: Verdict
    lower: float | None
    upper: float | None
    label: int | None
    witness: WitnessRecord | None
    seconds: float
    engine: str
    solver: str | None
    reason: str | None
    box: BoxRecord
    members: int
    example: ExampleRecord | None = None
    curves: tuple[CurveRecord, ...] = ()
    confidence: float | None = None
    facts: tuple[FactsRecord, ...] = ()
    traces: tuple[TraceRecord, ...] = ()
    groups: tuple[GroupsRecord, ...] = ()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a run found.

    Attributes
    ----------
    leaveout : str
        Version.
    spec : str
        File, or the text of a specification built in Python.
    results : tuple of Result
        In the order of the specification.
    notes : tuple of str
        What a reader of the results should know.
    spec_sha256 : str
        Of the file, in hexadecimal; empty for a specification built in Python.
    """

    leaveout: str
    spec: str
    results: tuple[Result, ...]
    notes: tuple[str, ...] = ()
    spec_sha256: str = ""

    def to_json(self) -> bytes:
        """Encode as JSON; every number is finite or null."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"


def exit_code(report: Report) -> ExitCode:
    """Return what the verdicts come to: the worst of them."""
    verdicts = {result.verdict for result in report.results}
    if "refuted" in verdicts:
        return ExitCode.REFUTED
    return ExitCode.UNKNOWN if "unknown" in verdicts else ExitCode.PROVED


def write_json(report: Report, path: Path) -> None:
    """Write a report, whole or not at all; a link is followed.

    Raises
    ------
    OSError
        If the file cannot be written; what was there is still there.
    """
    write_whole(path, report.to_json())
