"""The data of a page: runs, their statements, and the results of each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from leaveout.specs import Confident, Function, functions
from leaveout.verifier.amounts import MISSING
from leaveout.verifier.page.spec_text import Specification, Written
from leaveout.verifier.records import BoxRecord
from leaveout.verifier.report import Report, Result, Verdict

if TYPE_CHECKING:
    from leaveout.verifier.guard.memory import Account

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?=T)")


@dataclass(frozen=True)
class Statement:
    """A guarantee or find with its results: one, or one per label."""

    anchor: str  # its place in the page, for links
    results: tuple[Result, ...]  # at least one
    written: Written | None = None  # what the specification says; None where that is not known

    @property
    def name(self) -> str:
        """The name given in the specification."""
        return self.results[0].name

    @property
    def kind(self) -> str:
        """``guarantee`` or ``find``."""
        return self.results[0].kind

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of its results."""
        return overall(result.verdict for result in self.results)

    @property
    def confidence(self) -> float | None:
        """The confidence of a verdict that rests on samples; None if certain or unknown.

        None where it is certain, and where it is unknown.
        """
        if self.verdict == "unknown":
            return None
        levels = [each.confidence for each in self.results if each.confidence is not None]
        if not levels and self.written is not None:
            claim = self.written.statement.claim
            levels = [claim.level.value] if isinstance(claim, Confident) else []
        return min(levels, default=None)


@dataclass(frozen=True)
class Run:
    """One result file."""

    name: str  # what the page calls the file
    digest: str  # its sha256, in hexadecimal
    report: Report
    specification: Specification
    unread: tuple[str, ...] = ()  # fields of a newer version that this one knows nothing of
    number: int = 1  # which file of the page it is, from 1

    @property
    def day(self) -> str:
        """The UTC day the run ended, such as 2026-11-23; empty if not stored."""
        found = _DAY.match(self.report.date)
        return found[0] if found else ""

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """Return the statements in the order of the results."""
        groups: list[list[Result]] = []
        for result in self.report.results:
            last = groups[-1][0] if groups else None
            if last is not None and (last.name, last.kind) == (result.name, result.kind):
                groups[-1].append(result)
            else:
                groups.append([result])
        return tuple(
            Statement(
                f"statement-{self.number}-{at}",
                tuple(group),
                self.specification.statement(group[0].name, group[0].kind),
            )
            for at, group in enumerate(groups, start=1)
        )


@dataclass(frozen=True, eq=False)
class Confidences:
    """The confidences of a network's answers with one label, and that label's bound."""

    run: Run  # whose results the bound is of
    network: str  # its file
    label: int
    name: str  # what the training data calls the label; empty where it does not
    statement: str  # the result that gives the bound
    upper: float  # no leak in the set of inputs has a higher confidence
    box: BoxRecord  # the set of inputs
    points: int  # how many there are, of all labels
    values: NDArray[np.float64]  # shape (n,)
    inside: NDArray[np.bool_]  # shape (n,): whether each lies in the set of inputs
    right: NDArray[np.bool_] | None  # shape (n,)


@dataclass(frozen=True)
class GuardAccounts:
    """What a guard has answered with noise, by each memory in its folder."""

    models: str  # the files it serves, and the folder
    accounts: tuple[tuple[str, Account], ...]  # the name of a memory, and its account


@dataclass(frozen=True)
class Page:
    """Everything a page shows."""

    runs: tuple[Run, ...]  # at least one
    confidences: tuple[Confidences, ...] = ()  # of points that were given, one a network and label
    left_out: tuple[str, ...] = ()  # why points that were given are not held against other results
    data: str = ""  # what the file of these points is called; empty where none was given
    date: str = ""
    named: bool = True  # whether rows and inputs are named
    guard: GuardAccounts | None = None  # of the guard that serves a model of it

    @cached_property
    def functions(self) -> dict[str, Function]:
        """Return the functions of the language, including plug-ins'."""
        return functions()

    @property
    def statements(self) -> tuple[Statement, ...]:
        """The statements of all runs."""
        return tuple(statement for run in self.runs for statement in run.statements)

    @property
    def days(self) -> tuple[str, ...]:
        """The days of the results, such as 2026-11-23; empty if any is not stored."""
        kept = [run.day for run in self.runs]
        if all(kept):
            return tuple(sorted(set(kept)))
        return (self.date,) if self.date else ()

    @property
    def several(self) -> bool:
        """Whether there is more than one run."""
        return len(self.runs) > 1

    def shows(self, box: BoxRecord) -> bool:
        """Return whether the ends of a set of inputs say nothing of rows, or may be shown."""
        return self.named or {*box.lower, *box.upper} <= {0, 1}

    @cached_property
    def boxes(self) -> dict[BoxRecord, int]:
        """Return each set of inputs once, numbered from 1."""
        found = (result.box for run in self.runs for result in run.report.results)
        distinct = dict.fromkeys(box for box in found if box.lower)
        return {box: number for number, box in enumerate(distinct, start=1)}


def label(result: Result) -> str:
    """Return the label of a result; a dash if it is not about inputs."""
    if result.label is not None:
        return result.label_text
    return "all" if result.box.lower else MISSING


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of several verdicts; "proved" for none, as the exit status does."""
    found = set(verdicts)
    return "refuted" if "refuted" in found else "unknown" if "unknown" in found else "proved"
