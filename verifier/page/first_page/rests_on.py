"""The assumptions behind the results, each numbered once with its statements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePath

from leaveout.specs import Call, Node, Text
from leaveout.specs.text.expressions import walk
from leaveout.verifier.page.model import Page, Run, Statement

_TRUST = ("taken on trust: ", "rests on: ")


@dataclass(frozen=True)
class Assumption:
    """An assumption that was not checked.

    Attributes
    ----------
    number : int
        From 1.
    words : str
    about : tuple of str
        Files and functions that it is said of; empty where of none.
    anchors : frozenset of str
        Of the statements that rest on it; empty where that is not known.
    """

    number: int
    words: str
    about: tuple[str, ...] = ()
    anchors: frozenset[str] = frozenset()


@dataclass
class _Gathered:
    about: dict[str, None] = field(default_factory=dict)
    anchors: set[str] = field(default_factory=set)


def assumptions(page: Page) -> tuple[Assumption, ...]:
    """Return the unchecked assumptions behind a page's results, each once."""
    found: dict[str, _Gathered] = {}
    for run in page.runs:
        named = {each.anchor: _names(run, each) for each in run.statements}
        for note in run.report.notes:
            head, words = _split_assumption(note)
            if not words:
                continue
            kept = found.setdefault(words, _Gathered())
            if head:
                kept.about[_short(head)] = None
                kept.anchors |= {anchor for anchor, names in named.items() if head in names}
            else:
                # Only the accounting of a service says what it rests on without a name before it.
                services = {anchor for anchor, names in named.items() if "unlearns" in names}
                kept.anchors |= services
    return tuple(
        Assumption(number, words, tuple(each.about), frozenset(each.anchors))
        for number, (words, each) in enumerate(found.items(), start=1)
    )


def assumption_numbers(found: Iterable[Assumption], statement: Statement) -> tuple[int, ...]:
    """Return the numbers of the assumptions that a statement rests on."""
    return tuple(each.number for each in found if statement.anchor in each.anchors)


def is_assumption(note: str) -> bool:
    """Return whether a note states an unchecked assumption."""
    return bool(_split_assumption(note)[1])


def _split_assumption(note: str) -> tuple[str, str]:
    """Return the subject and the assumption of a note; empty if it has none."""
    for mark in _TRUST:
        head, found, words = note.partition(mark)
        if found and (not head or head.endswith(": ")):
            return head.removesuffix(": "), words
    return "", ""


def _names(run: Run, statement: Statement) -> frozenset[str]:
    """Return the functions a statement calls and the files they read, as named in notes."""
    if statement.written is None:
        return frozenset({statement.name})
    nodes: tuple[Node, ...] = (statement.written.statement, *statement.written.definitions)
    found = {statement.name}
    folder = PurePath(run.report.spec).parent
    for node in walk(*nodes):
        if isinstance(node, Call):
            found.add(node.function)
        elif isinstance(node, Text):
            found |= {node.value, str(folder / node.value)}
    return frozenset(found)


def _short(head: str) -> str:
    return PurePath(head).name if "/" in head else head
