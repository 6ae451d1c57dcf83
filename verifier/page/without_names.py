"""Results without the rows and inputs that they name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, TypeVar

from msgspec import structs

from leaveout.specs import Call, Let, ListOf, Name, Node, Number, functions
from leaveout.specs.text.expressions import Arithmetic, Negate, walk
from leaveout.verifier.page.evidence import SHOWN_BY
from leaveout.verifier.page.model import Page, Run
from leaveout.verifier.page.spec_text import Written
from leaveout.verifier.records import ExampleRecord, FactsRecord, GroupsRecord, WitnessRecord
from leaveout.verifier.report import Report, Result

_AnyNode = TypeVar("_AnyNode", bound=Node)

_WITHHELD = Name("...")

LEFT_OUT = "An input was found that shows it. It is left out of this page, as are names of rows."


def without_names(page: Page) -> Page:
    """Return a page that names no training row, no input and no range of a column."""
    return replace(page, runs=tuple(map(_run, page.runs)), named=False)


def _run(run: Run) -> Run:
    spec = run.specification
    statements = {name: _hide_written(each) for name, each in spec.statements.items()}
    report = _report(run.report)
    known = {let.name for each in spec.statements.values() for let in _withheld(each)}
    starts = tuple(f"param {name} = " for name in known)
    # The text of a specification built in Python starts with its first statement.
    text = "<text>" if "\n" in report.spec else report.spec
    notes = tuple(each for each in report.notes if not each.startswith(starts))
    report = structs.replace(report, spec=text, notes=notes)
    return replace(run, report=report, specification=replace(spec, statements=statements))


def _hide_written(written: Written) -> Written:
    """Return a statement without the numbers of its sets of inputs and of its lists."""
    withheld = _withheld(written)
    sets = _set_functions()
    lets = tuple(_hide(each, sets, inside=each in withheld) for each in written.definitions)
    return Written(_hide(written.statement, sets), lets)


def _withheld(written: Written) -> list[Let]:
    """Return the definitions that sets of inputs are made of."""
    sets = _set_functions()
    nodes = (written.statement, *written.definitions)
    calls = [each for each in walk(*nodes) if isinstance(each, Call) and each.function in sets]
    used = _names(calls)
    found = []
    for let in reversed(written.definitions):
        if let.name in used:
            found.append(let)
            used |= _names([let.value])
    return found


def _set_functions() -> frozenset[str]:
    known = functions().items()
    return frozenset(n for n, each in known if each.result.name in ("Inputs", "Point"))


def _names(nodes: Iterable[Node]) -> set[str]:
    return {each.name for each in walk(*nodes) if isinstance(each, Name)}


def _hide(node: _AnyNode, sets: frozenset[str], inside: bool = False) -> _AnyNode:
    """Return a node with dots for each number of a set, and for what is listed."""
    if str(node) == "box(0, 1)":
        return node
    inside = inside or (isinstance(node, Call) and node.function in sets)
    changed: dict[str, Any] = {}
    for each in fields(node):
        value = getattr(node, each.name)
        if isinstance(value, Node):
            changed[each.name] = _hide_child(value, sets, inside)
        elif isinstance(value, tuple) and value and isinstance(value[0], Node):
            changed[each.name] = tuple(_hide_child(child, sets, inside) for child in value)
    return replace(node, **changed)


def _hide_child(node: Node, sets: frozenset[str], inside: bool) -> Node:
    if inside and isinstance(node, Number | Negate | Arithmetic):
        return _WITHHELD
    if isinstance(node, ListOf) and any(isinstance(each, Number | Negate) for each in walk(node)):
        return ListOf((_WITHHELD,))
    return _hide(node, sets, inside)


def _report(report: Report) -> Report:
    return structs.replace(
        report,
        results=tuple(map(_result, report.results)),
        answers=tuple(structs.replace(each, outside=()) for each in report.answers),
        by_row=(),
        models=tuple(structs.replace(each, columns=()) for each in report.models),
    )


def _result(result: Result) -> Result:
    return structs.replace(
        result,
        witness=None if result.witness is None else _witness(result.witness),
        example=None if result.example is None else _example(result.example),
        facts=tuple(map(_facts, result.facts)),
        groups=tuple(map(_groups, result.groups)),
    )


def _witness(witness: WitnessRecord) -> WitnessRecord:
    """Return a witness of which its confidence is left, and which model it is of."""
    return structs.replace(
        witness, x=(), member=-1, removed=-1, scores=(), member_scores=(), words=LEFT_OUT,
        cells=(), removed_id="", group="",
    )  # fmt: skip


def _example(example: ExampleRecord) -> ExampleRecord:
    return structs.replace(
        example, points={}, scores={}, labels={}, members={}, removed={}, words=LEFT_OUT,
        facts={}, removed_ids={}, features=(),
    )  # fmt: skip


def _facts(record: FactsRecord) -> FactsRecord:
    """Return facts without rows: deleted ones, and of functions of others all that may be."""
    known = record.name in SHOWN_BY and record.name != "unlearn"
    kept = {
        name: fact
        for name, fact in record.facts.items()
        if known or (name != "rows" and not isinstance(fact, str | tuple))
    }
    return structs.replace(record, facts=kept)


def _groups(tree: GroupsRecord) -> GroupsRecord:
    groups = tuple(structs.replace(each, rows=(), ids=()) for each in tree.groups)
    return structs.replace(tree, groups=groups)
