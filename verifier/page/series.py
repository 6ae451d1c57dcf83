"""Which curves belong into one chart, and what each is called there."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from leaveout.specs import Call, Node
from leaveout.specs.tree import children
from leaveout.verifier.page.model import Page, Statement
from leaveout.verifier.report import CurveRecord

__all__ = ["MOST", "Chart", "Series", "charts"]

MOST = 6
"""Of curves that one chart holds; more could not be told apart."""


@dataclass(frozen=True)
class Series:
    """A curve of a chart.

    Attributes
    ----------
    label : str
        What the chart calls it; of a chart's curves no two are called the same.
    curve : CurveRecord
    sources : str
        The statements it is of, and of several files theirs.
    """

    label: str
    curve: CurveRecord
    sources: str

    @property
    def exact(self) -> bool:
        """Whether the ends agree everywhere."""
        return self.curve.lower == self.curve.upper

    @property
    def gaps(self) -> bool:
        """Whether places are left out between the first and the last."""
        at = self.curve.at
        return at[-1] - at[0] + 1 != len(at)


@dataclass(frozen=True)
class _Sources:
    """The files and statements a curve is of, and how these call what it is of."""

    names: dict[tuple[str, str], None] = field(default_factory=dict)
    calls: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Chart:
    """Curves with the same axes.

    Attributes
    ----------
    value, unit : str
        What the curves are of, and against what.
    series : tuple of Series
        At most `MOST`.
    part, parts : int
        Which of several charts with the same axes it is, from 1.
    reach : int
        The largest place of all these charts.
    """

    value: str
    unit: str
    series: tuple[Series, ...]
    part: int
    parts: int
    reach: int

    @property
    def shares(self) -> bool:
        """Whether the numbers are shares, which are shown in per cent."""
        ends = (end for each in self.series for end in (*each.curve.lower, *each.curve.upper))
        return "accuracy" in self.value and all(0 <= end <= 1 for end in ends)

    @property
    def title(self) -> str:
        """What it shows."""
        which = f" ({self.part} of {self.parts})" if self.parts > 1 else ""
        return f"{self.value[:1].upper()}{self.value[1:]} against {self.unit}{which}"


def charts(page: Page) -> tuple[Chart, ...]:
    """Return the charts of a page: curves of all runs whose value and unit agree, each once."""
    groups: dict[tuple[str, str], dict[CurveRecord, _Sources]] = defaultdict(dict)
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
        for chart in _charts(value, unit, tuple(_named(curves)))
    )


def _call(statement: Statement, function: str) -> str:
    """Return the call of a function in a statement, if there is one alone; else no text."""
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


def _named(curves: dict[CurveRecord, _Sources]) -> Iterable[Series]:
    """Yield the curves under names that differ.

    That is what they are of, or if that is not enough, the call in the specification, or the
    statement.
    """
    own = [curve.name for curve in curves]
    calls = ["".join(each.calls) if len(each.calls) == 1 else "" for each in curves.values()]
    counted, called = Counter(own), Counter(calls)
    taken: Counter[str] = Counter()
    for name, call, (curve, sources) in zip(own, calls, curves.items(), strict=True):
        if counted[name] == 1:
            label = name
        elif call and called[call] == 1:
            label = call
        else:
            label = f"{name}, {_listed(list(sources.names)[:1])}"
        taken[label] += 1
        if taken[label] > 1:
            label = f"{label} {taken[label]}"
        yield Series(label, curve, _listed(sources.names))


def _listed(names: Iterable[tuple[str, str]]) -> str:
    files: dict[str, list[str]] = defaultdict(list)
    for file, name in names:
        files[file].append(name)
    return "; ".join(
        f"{file}: {', '.join(each)}" if file else ", ".join(each) for file, each in files.items()
    )
