"""The result table on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from leaveout.kernel.claims.check import Checked, claim_lines, stated_upper
from leaveout.kernel.claims.forests import ForestSubject
from leaveout.kernel.claims.linear import LinearSubject
from leaveout.kernel.claims.samples import SampledSubject
from leaveout.kernel.claims.statements import ValueSubject
from leaveout.specs.deciders import Accuracy
from leaveout.verifier.amounts import (
    AccuracyTable,
    baseline,
    bound,
    ends,
    label_text,
    least,
    no_better,
    right_share,
    safe_share,
    share,
    tables,
)
from leaveout.verifier.cli.output import Part, text_table
from leaveout.verifier.records import BoxRecord
from leaveout.verifier.report import Report, Result

_MOST = 10  # up to this many labels, all are shown
_WORST = 5  # labels shown if there are more and they differ much
_MUCH = 0.1
_NAME = 28  # most characters of a label's name; the figures need the rest of an 80-column line
_COLUMNS = 4  # most statements side by side


def accuracies(report: Report) -> Iterator[Part]:
    """Yield lines and tables for each vote that statements are about."""
    for table in tables(report.results):
        record = table.record
        yield f"{record.votes}, {record.file}: {baseline(record)}"
        for at in range(0, len(table.columns), _COLUMNS):
            yield from _labels(AccuracyTable(table.columns[at : at + _COLUMNS]))
        yield from (_warning(*each) for each in table.columns if no_better(each[1]))
        yield ""


def _labels(table: AccuracyTable) -> Iterator[Part]:
    order = table.worst_first()
    if not order:
        return
    if len(order) <= _MOST:
        yield _table(table, order)
        return
    if any(_spread(record) > _MUCH for _, record in table.columns):
        yield _table(table, order[:_WORST])
        yield f"  and {len(order) - _WORST:,} labels with more points certified"
        return
    for name, record in table.columns:
        worst = least(record) or record.labels[0]
        yield (
            f"  {name}: least certified of label {label_text(worst.label, worst.name)}: "
            f"{safe_share(worst)} of its {worst.points:,} test points"
        )


def _table(table: AccuracyTable, labels: list[int]) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    shown.add_column("  true label", no_wrap=True)
    shown.add_column("test points", justify="right", no_wrap=True)
    shown.add_column("right", justify="right", no_wrap=True)
    for title in table.titles():
        shown.add_column(title.replace(": ", "\n"), justify="right", no_wrap=True)
    for each in table.only(labels):
        shown.add_row(
            Text(f"  {_short(label_text(each.label, each.name))}"),
            f"{each.points:,}",
            right_share(each),
            *table.cells(each.label),
        )
    return shown


def _short(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def _spread(record: Accuracy) -> float:
    shares = [each.lower / each.points for each in record.labels]
    return max(shares) - min(shares) if shares else 0.0


def _warning(name: str, record: Accuracy) -> str:
    assert record.lower is not None
    common = _short(label_text(record.common, record.common_name))
    return (
        f"warning: {name}: {share(record.lower / record.points)} certified is no better than "
        f"always answering {common}, which no change can make wrong more often"
    )


_WORDS = ("label", "verdict")
_STYLE = {"proved": "green", "refuted": "red", "unknown": "yellow"}


def result_parts(report: Report) -> Iterator[Part]:
    """Yield a row per result, then witnesses and reasons."""
    table = text_table({"name": 24}, (*_WORDS, "lower", "upper", "seconds"), _WORDS)
    for result in report.results:
        table.add_row(
            Text(result.name),
            Text(result.label_text or "all"),
            Text(result.outcome, style=_STYLE[result.verdict]),
            *ends(result.lower, result.upper),
            f"{result.seconds:.1f}",
        )
    yield table
    yield ""
    yield from _scope(report)
    yield from (line for result in report.results for line in _sentences(result))
    yield from accuracies(report)
    yield from _advice(report)
    yield from (f"note: {note}" for note in report.notes)
    yield from _answers(report)


def checked_parts(found: Sequence[Checked]) -> Iterator[Part]:
    """Yield what a certificate proves: a row per claim, then the claims' subjects."""
    table = text_table({"name": 24}, (*_WORDS, "upper", "leaves", "members", "seconds"), _WORDS)
    for each in found:
        table.add_row(
            Text(each.name),
            "-" if each.label is None else str(each.label),
            Text(_acceptance(each), style=_STYLE["proved"]),
            _upper(each),
            f"{each.leaves:,}" if each.leaves else "-",
            "-" if each.subject.members is None else f"{each.subject.members:,}",
            f"{each.seconds:.1f}",
        )
    yield table
    yield ""
    yield from claim_lines(found)


def _acceptance(found: Checked) -> str:
    """Return the text that a claim is accepted, with its confidence if sampled."""
    if isinstance(found.subject, SampledSubject):
        return f"accepted with confidence {float(found.subject.confidence):g}"
    return "accepted"


def _upper(found: Checked) -> str:
    if isinstance(found.subject, ValueSubject):
        return "-"
    if isinstance(found.subject, LinearSubject) and stated_upper(found) is None:
        return "-"
    told = isinstance(found.subject, ForestSubject | LinearSubject) and found.label is not None
    if told and found.upper is not None and found.upper < 0:
        return "none"
    upper = stated_upper(found)
    return "none" if upper is None else bound(upper, up=True)


def _advice(report: Report) -> list[str]:
    """Return advice on unknown results, once if several labels share it."""
    said = [f"{result.name}: advice: {each}" for result in report.results for each in result.advice]
    return list(dict.fromkeys(said))


def _answers(report: Report) -> Iterator[str]:
    """Yield lines on the answers to given rows that no single record can change."""
    for found in report.answers:
        yield ""
        yield found.words
        yield from (f"  {each.words}" for each in found.labels if each.words)
        if found.quality is not None:
            yield f"  of the labels in {found.data}: {found.quality.words}"
        yield from (f"  outside: {each}" for each in found.outside)


def _scope(report: Report) -> list[str]:
    seen = []
    for result in report.results:
        if not result.box.lower:
            continue
        plural = "" if result.members == 1 else "s"
        members = f"{result.members:,} member{plural} and " if result.members else ""
        line = f"over {members}every x in {_box(result.box)}"
        if line not in seen:
            seen.append(line)
    return seen


def _box(box: BoxRecord) -> str:
    sides = sorted(set(zip(box.lower, box.upper, strict=True)))
    listed = sum(len(each.columns) for each in box.choices)
    if listed:
        takes = "takes" if listed == 1 else "take"
        return f"a box of {_count_features(box)}; {listed} of them {takes} listed values only"
    if len(sides) == 1:
        return f"[{sides[0][0]:g}, {sides[0][1]:g}]^{len(box.lower)}"
    return f"a box of {_count_features(box)}"


def _count_features(box: BoxRecord) -> str:
    return f"{len(box.lower)} feature{'s' * (len(box.lower) != 1)}"


def _sentences(result: Result) -> list[str]:
    lines = []
    # The worst leak of a proved guarantee is below the threshold, so it is not shown.
    if result.witness is not None and (result.kind == "find" or result.verdict == "refuted"):
        lines.append(f"{result.title}: {result.witness.words}")
    if result.example is not None and (result.kind == "find" or result.verdict == "refuted"):
        lines.append(f"{result.title}: {result.example.words}")
    if result.reason is not None:
        lines.append(f"{result.title}: unknown: {result.reason}")
    return lines
