"""Grouping of curves into charts, and their names there."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from leaveout.specs import Call, Node
from leaveout.specs.deciders import Curve
from leaveout.specs.text.expressions import children
from leaveout.verifier.page.model import Page, Statement

MOST = 6
"""Of curves that one chart holds; more could not be told apart."""


@dataclass(frozen=True)
class Series:
    """A curve of a chart."""

    label: str  # what the chart calls it; of a chart's curves no two are called the same
    curve: Curve
    sources: str  # the statements it is of, and of several files theirs

    @property
    def exact(self) -> bool:
        """Whether the bounds agree everywhere."""
        return self.curve.lower == self.curve.upper

    @property
    def gaps(self) -> bool:
        """Whether places between the first and the last are missing."""
        at = self.curve.at
        return at[-1] - at[0] + 1 != len(at)


@dataclass(frozen=True)
class _Sources:
    """The files and statements of a curve, and their names for its subject."""

    names: dict[tuple[str, str], None] = field(default_factory=dict)
    calls: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Chart:
    """Curves that share axes."""

    value: str  # what the curves are of, and against what
    unit: str  # what the curves are of, and against what
    series: tuple[Series, ...]  # at most `MOST`
    part: int  # which of several charts with the same axes it is, from 1
    parts: int  # which of several charts with the same axes it is, from 1
    reach: int  # the largest place of all these charts

    @property
    def shares(self) -> bool:
        """Whether the numbers are shares, shown in per cent."""
        ends = (end for each in self.series for end in (*each.curve.lower, *each.curve.upper))
        return "accuracy" in self.value and all(0 <= end <= 1 for end in ends)

    @property
    def title(self) -> str:
        """The title: what the chart shows."""
        which = f" ({self.part} of {self.parts})" if self.parts > 1 else ""
        return f"{self.value[:1].upper()}{self.value[1:]} against {self.unit}{which}"


def charts(page: Page) -> tuple[Chart, ...]:
    """Return the charts of a page: curves with equal value and unit, each once."""
    groups: dict[tuple[str, str], dict[Curve, _Sources]] = defaultdict(dict)
    for run in page.runs:
        for statement in run.statements:
            name = (run.name if page.several else "", statement.name)
            for curve in (curve for result in statement.results for curve in result.curves):
                if curve.at:
                    kept = groups[curve.value, curve.unit].setdefault(curve, _Sources())
                    kept.names[name] = None
                    kept.calls.add(_call(statement, curve.name))
    return tuple(
        chart
        for (value, unit), curves in groups.items()
        for chart in _charts(value, unit, tuple(_name_curves(curves)))
    )


def _call(statement: Statement, function: str) -> str:
    """Return the only call of a function in a statement; empty if not exactly one."""
    if statement.written is None:
        return ""
    written = statement.written
    waiting: list[Node] = [written.statement, *written.definitions]
    calls: set[str] = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, Call) and node.function == function:
            calls.add(str(node))
        waiting.extend(children(node))
    return calls.pop() if len(calls) == 1 else ""


def _charts(value: str, unit: str, series: tuple[Series, ...]) -> Iterable[Chart]:
    reach = max(each.curve.at[-1] for each in series)
    parts = -(-len(series) // MOST)
    for part in range(parts):
        yield Chart(value, unit, series[part * MOST :][:MOST], part + 1, parts, reach)


def _name_curves(curves: dict[Curve, _Sources]) -> Iterable[Series]:
    """Yield the curves under distinct names.

    Curves that share a name are all distinguished by file, by call, or by statement: the first that
    differs.
    """
    labels: dict[Curve, str] = {}
    for name in dict.fromkeys(curve.name for curve in curves):
        alike = [curve for curve in curves if curve.name == name]
        labels |= zip(alike, _distinct_names(name, [curves[curve] for curve in alike]), strict=True)
    for curve, sources in curves.items():
        yield Series(labels[curve], curve, _join_statements(sources.names))


def _distinct_names(name: str, sources: list[_Sources]) -> list[str]:
    """Return distinct names for the curves of one function."""
    if len(sources) == 1:
        return [name]
    calls = [next(iter(each.calls)) if len(each.calls) == 1 else "" for each in sources]
    calls = [call or name for call in calls]
    files = [_files(each.names) for each in sources]
    tried = [
        [f"{name}, {file}" for file in files],
        calls,
        [f"{call}, {file}" for call, file in zip(calls, files, strict=True)],
        [f"{name}, {_join_statements(list(each.names)[:1])}" for each in sources],
    ]
    # Files are named if there are several: which file a curve is of is then asked first.
    tried = tried if all(files) else [tried[1], tried[3]]
    best = next((each for each in tried if len(set(each)) == len(each)), tried[-1])
    taken: Counter[str] = Counter()
    labels = []
    for label in best:
        taken[label] += 1
        labels.append(label if taken[label] == 1 else f"{label} {taken[label]}")
    return labels


def _files(names: Iterable[tuple[str, str]]) -> str:
    """Return the files of some statements; empty if there is only one."""
    return " and ".join(dict.fromkeys(file for file, _ in names if file))


def _join_statements(names: Iterable[tuple[str, str]]) -> str:
    """Return statement names grouped by file, in words."""
    files: dict[str, list[str]] = defaultdict(list)
    for file, name in names:
        files[file].append(name)
    return "; ".join(
        f"{file}: {', '.join(each)}" if file else ", ".join(each) for file, each in files.items()
    )
