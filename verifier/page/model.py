"""What a page is made of: runs, their statements, and the results of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from leaveout.verifier.page.written import Specification, Written
from leaveout.verifier.report import BoxRecord, Report, Result, Verdict

__all__ = ["Page", "Run", "Statement", "overall"]


@dataclass(frozen=True)
class Statement:
    """A guarantee or find, and its results: one, or one a label.

    Attributes
    ----------
    anchor : str
        Its place in the page, for links.
    results : tuple of Result
        At least one.
    written : Written or None
        What the specification says; None where that is not known.
    """

    anchor: str
    results: tuple[Result, ...]
    written: Written | None = None

    @property
    def name(self) -> str:
        """What the specification calls it."""
        return self.results[0].name

    @property
    def kind(self) -> str:
        """``guarantee`` or ``find``."""
        return self.results[0].kind

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of its results."""
        return overall(result.verdict for result in self.results)


@dataclass(frozen=True)
class Run:
    """One file of results.

    Attributes
    ----------
    name : str
        What the page calls the file.
    digest : str
        Its sha256, in hexadecimal.
    report : Report
    specification : Specification
    unread : tuple of str
        Fields of a newer version that this one knows nothing of.
    number : int
        Which file of the page it is, from 1.
    """

    name: str
    digest: str
    report: Report
    specification: Specification
    unread: tuple[str, ...] = ()
    number: int = 1

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """The statements in the order of the results."""
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


@dataclass(frozen=True)
class Page:
    """Everything a page shows.

    Attributes
    ----------
    runs : tuple of Run
        At least one.
    """

    runs: tuple[Run, ...]

    @property
    def statements(self) -> tuple[Statement, ...]:
        """The statements of all runs."""
        return tuple(statement for run in self.runs for statement in run.statements)

    @property
    def several(self) -> bool:
        """Whether there is more than one run."""
        return len(self.runs) > 1

    @cached_property
    def boxes(self) -> dict[BoxRecord, int]:
        """The sets of inputs, each once, and a number from 1."""
        found = (result.box for run in self.runs for result in run.report.results)
        distinct = dict.fromkeys(box for box in found if box.lower)
        return {box: number for number, box in enumerate(distinct, start=1)}


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of several verdicts; of none "proved", as the exit status has it."""
    found = set(verdicts)
    return "refuted" if "refuted" in found else "unknown" if "unknown" in found else "proved"
