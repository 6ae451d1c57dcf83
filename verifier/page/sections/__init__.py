"""The sections of a page: functions from a page to markup, or None if empty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from leaveout.verifier.page.markup import Html
from leaveout.verifier.page.model import Page
from leaveout.verifier.page.sections.about import inputs, meaning, notes, reproduce
from leaveout.verifier.page.sections.charts import bound_charts, curves, groups
from leaveout.verifier.page.sections.confidences import histograms
from leaveout.verifier.page.sections.questions import questions
from leaveout.verifier.page.sections.results import answers, glance, labels, statements

__all__ = ["SECTIONS", "Section"]

Show: TypeAlias = Callable[[Page], Html | None]


@dataclass(frozen=True)
class Section:
    """A part of the page under its own heading."""

    anchor: str
    title: str
    show: Show  # returns what it holds for a page, None to leave it out


SECTIONS = (
    Section("questions", "What is asked next", questions),
    Section("glance", "At a glance", glance),
    Section("answers", "Answers to the rows that were given", answers),
    Section("confidences", "Your points compared with the bounds", histograms),
    Section("labels", "Label by label", labels),
    Section("curves", "Curves", curves),
    Section("statements", "Statement by statement", statements),
    Section("groups", "Which members the bounds rest on", groups),
    Section("courses", "Bounds over time", bound_charts),
    Section("inputs", "Sets of inputs", inputs),
    Section("notes", "What the results rest on", notes),
    Section("reproduce", "How to reproduce this", reproduce),
    Section("meaning", "How to read this page", meaning),
)
