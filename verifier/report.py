"""The result of a verification run: verdicts, bounds, witnesses, and their JSON file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from leaveout.exit_codes import ExitCode
from leaveout.files import write_whole
from leaveout.names import find_reference, hint
from leaveout.specs.deciders import Accuracy, Curve
from leaveout.verifier.records import (
    AnswersRecord,
    AnswerState,
    BoxRecord,
    ByRowRecord,
    CellRecord,
    ChoicesRecord,
    ColumnRecord,
    ExampleRecord,
    Fact,
    FactsRecord,
    FileRecord,
    GroupRecord,
    GroupsRecord,
    LabelAnswersRecord,
    LabelByRowRecord,
    ModelRecord,
    RowLeakRecord,
    StatementRecord,
    TraceRecord,
    TrainingRecord,
    WitnessRecord,
)
from leaveout.written import as_json

if TYPE_CHECKING:
    from leaveout.verifier.row_records import RowList

__all__ = [
    "SAMPLE",
    "AnswerState",
    "AnswersRecord",
    "BoxRecord",
    "ByRowRecord",
    "CellRecord",
    "ChoicesRecord",
    "ColumnRecord",
    "ExampleRecord",
    "Fact",
    "FactsRecord",
    "FileRecord",
    "GroupRecord",
    "GroupsRecord",
    "LabelAnswersRecord",
    "LabelByRowRecord",
    "ModelRecord",
    "Report",
    "Result",
    "RowLeakRecord",
    "StatementRecord",
    "TraceRecord",
    "TrainingRecord",
    "Verdict",
    "WitnessRecord",
    "exit_code",
    "write_json",
]

Verdict = Literal["proved", "refuted", "unknown"]

SAMPLE = "sample"
"""The facts of a result about all rows, of which a sample was left out."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One answer; ``find ... per label`` gives one per label."""

    name: str  # of the guarantee or find
    kind: Literal["guarantee", "find"]
    verdict: Verdict  # of a find, "proved" means that the bounds agree
    lower: float | None  # confidence of the worst leak found, 0 if none was
    upper: float | None  # no leak has a higher confidence
    label: int | None  # None where the statement is about every label and no one label decides it
    witness: WitnessRecord | None
    seconds: float
    engine: str
    solver: str | None  # None where no solver was used
    reason: str | None  # of "unknown": time, solver or numerical, and what happened
    box: BoxRecord  # of several points the first one's
    members: int
    example: ExampleRecord | None = None
    curves: tuple[Curve, ...] = ()  # what a report can draw of it
    confidence: float | None = None
    facts: tuple[FactsRecord, ...] = ()  # what was computed on the way, whatever the verdict
    traces: tuple[TraceRecord, ...] = ()
    groups: tuple[GroupsRecord, ...] = ()
    label_name: str = ""  # what the training data calls it; empty where it does not
    advice: tuple[str, ...] = ()  # of "unknown": what may help, a line each
    accuracies: tuple[Accuracy, ...] = ()

    def name_label(self, label: int) -> str:
        """Return the number and name of a label that it searched."""
        return self.label_text if label == self.label else str(label)

    @property
    def title(self) -> str:
        """The name, with the label if it has one."""
        return self.name if self.label is None else f"{self.name}, label {self.label_text}"

    @property
    def outcome(self) -> str:
        """The verdict, with the confidence if it rests on samples."""
        return self.verdict + ("" if self.confidence is None else f" at {self.confidence:g}")

    @property
    def at_confidence(self) -> str:
        """The confidence in words; empty if it does not rest on samples."""
        return "" if self.confidence is None else f" with confidence {self.confidence:g}"

    @property
    def claimed_bounds(self) -> tuple[float | None, float | None]:
        """The claimed bounds; a sample has no lower bound for all rows."""
        return None if self.is_sampled else self.lower, self.upper

    @property
    def is_sampled(self) -> bool:
        """Whether it is about all rows but rests on a sample."""
        return any(each.name == SAMPLE for each in self.facts)

    @property
    def label_text(self) -> str:
        """The label by number and name; empty if it has no label."""
        if self.label is None:
            return ""
        return f"{self.label} ({self.label_name})" if self.label_name else str(self.label)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All results of a run."""

    leaveout: str  # version
    spec: str  # file, or the text of a specification built in Python
    results: tuple[Result, ...]  # in the order of the specification
    notes: tuple[str, ...] = ()  # what a reader of the results should know
    spec_sha256: str = ""  # of the file, in hexadecimal; empty for a specification built in Python
    answers: tuple[AnswersRecord, ...] = ()  # of the rows that were given, one a network and family
    date: str = ""  # when the run ended, in UTC, as in 2026-03-01T09:30:00Z
    folder: str = ""
    files: tuple[FileRecord, ...] = ()
    statements: tuple[StatementRecord, ...] = ()
    training: tuple[TrainingRecord, ...] = ()
    by_row: tuple[ByRowRecord, ...] = ()
    models: tuple[ModelRecord, ...] = ()

    def statement_of(self, result: Result) -> StatementRecord | None:
        """Return the statement of a result, if it is known."""
        return next((each for each in self.statements if each.name == result.name), None)

    def to_json(self) -> bytes:
        """Encode as JSON; every number is finite or null."""
        return as_json(self)

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def __bool__(self) -> bool:
        # A report is one, whatever it holds.
        return True

    def __contains__(self, name: object) -> bool:
        return any(name in (each.name, each) for each in self.results)

    def __getitem__(self, name: str) -> tuple[Result, ...]:
        """Return the results of a statement: one, or one per label in order."""
        found = tuple(each for each in self.results if each.name == name)
        if not found:
            names = dict.fromkeys(each.name for each in self.results)
            raise KeyError(
                f"no statement is named {name!r}{hint(str(name), names)}; there "
                f"{'is' if len(names) == 1 else 'are'} {', '.join(names) or 'none'}"
            )
        return found

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per result."""
        return _view("leaveout.verifier.report_views:frame")(self)

    table = to_frame  # its former name

    def rows(self, data: Any = None) -> RowList:
        """Return what is proved of each training row, in their order.

        Parameters
        ----------
        data : path, data frame or array_like, optional
            Points, as `leaveout.verify` takes them: of each row, which of the answers to them its
            absence changes.

        Raises
        ------
        LeaveoutError
            If the report says nothing of single rows, or the points cannot be used.
        """
        found: RowList = _view("leaveout.verifier.rows.known:rows")(self, data=data)
        return found

    def plot(self, ax: Any = None) -> Any:
        """Draw the bounds, and confidences of given rows, with matplotlib."""
        return _view("leaveout.verifier.report_views:chart")(self, ax)

    def __repr__(self) -> str:
        return str(_view("leaveout.verifier.report_views:lines")(self))

    def _repr_html_(self) -> str:
        return str(_view("leaveout.verifier.page.notebook:fragment")(self))


def _view(reference: str) -> Callable[..., Any]:
    """Return a function that shows or writes reports, imported on first use."""
    return cast("Callable[..., Any]", find_reference(reference))


def exit_code(report: Report) -> ExitCode:
    """Return the exit code of the worst verdict."""
    verdicts = {result.verdict for result in report.results}
    if "refuted" in verdicts:
        return ExitCode.REFUTED
    return ExitCode.UNKNOWN if "unknown" in verdicts else ExitCode.PROVED


def json_for(report: Report, path: Path | None) -> bytes:
    """Return the results as JSON, paths relative to the folder of the file they go to."""
    if path is not None:
        placed = _view("leaveout.verifier.evidence.statement:relocate_report")
        report = placed(report, path.resolve().parent)
    return report.to_json()


def write_json(report: Report, path: Path) -> None:
    """Write a report atomically, following links.

    Its paths are relative to the file's folder; see `leaveout.verifier.evidence.statement`.
    """
    write_whole(path, json_for(report, path))
