"""The accuracy of votes in words and tables, for terminal and page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from leaveout.specs.deciders import Accuracy, LabelAccuracy
from leaveout.verifier.amounts import count_noun, share
from leaveout.verifier.report import Result


@dataclass(frozen=True)
class AccuracyTable:
    """The statements about one vote over one file of ballots."""

    columns: tuple[tuple[str, Accuracy], ...]

    @property
    def record(self) -> Accuracy:
        """The accuracy shared by all statements: the first one's."""
        return self.columns[0][1]

    @property
    def labels(self) -> tuple[LabelAccuracy, ...]:
        """The labels of all statements, each once, in order."""
        found = {each.label: each for _, record in self.columns for each in record.labels}
        return tuple(found[label] for label in sorted(found))

    def titles(self) -> list[str]:
        """Return the column titles: each statement and its threat."""
        return [
            f"{name}: {count_noun(record.count, record.unit.removesuffix('s'))}"
            for name, record in self.columns
        ]

    def cells(self, label: int) -> list[str]:
        """Return a label's certified share per column; a dash if not asked about."""
        found = []
        for _, record in self.columns:
            own = [each for each in record.labels if each.label == label]
            found.append(safe_share(own[0]) if own else "–")
        return found

    def only(self, labels: Iterable[int]) -> list[LabelAccuracy]:
        """Return some of the labels, in order."""
        chosen = set(labels)
        return [each for each in self.labels if each.label in chosen]

    def worst_first(self) -> list[int]:
        """Return the labels, least certified first."""
        shares: dict[int, float] = {}
        for _, record in self.columns:
            for each in record.labels:
                own = each.lower / each.points
                shares[each.label] = min(own, shares.get(each.label, own))
        return sorted(shares, key=lambda label: (shares[label], label))


def tables(results: Iterable[Result]) -> list[AccuracyTable]:
    """Return the statements about votes, grouped by vote, in order."""
    found: dict[tuple[object, ...], dict[tuple[str, Accuracy], None]] = {}
    for result in results:
        for record in result.accuracies:
            same = record.votes, record.file, record.points, record.right, record.common
            found.setdefault(same, {})[result.name, record] = None
    return [AccuracyTable(tuple(columns)) for columns in found.values()]


def label_text(label: int, name: str) -> str:
    """Return a label by number and name, as in ``1 (yes)``."""
    return f"{label} ({name})" if name and name != str(label) else str(label)


def right_share(record: Accuracy | LabelAccuracy) -> str:
    """Return the share answered right without changes, rounded down."""
    return share(record.right / record.points)


def safe_share(record: LabelAccuracy) -> str:
    """Return the share of a label that stays right, rounded outwards."""
    low = share(record.lower / record.points)
    if record.lower == record.upper:
        return low
    return f"{low} to {share(record.upper / record.points, up=True)}"


def baseline(record: Accuracy) -> str:
    """Return the accuracy of the vote and of its baselines, in words."""
    common = label_text(record.common, record.common_name)
    said = (
        f"{count_noun(record.points, 'test point')}: {right_share(record)} answered correctly "
        f"where nothing changes; always answering {common} would be right for "
        f"{share(record.common_points / record.points, up=True)}"
    )
    if record.undefended_right is not None:
        alone = share(record.undefended_right / record.points)
        said += f"; one model trained on all rows is right for {alone}"
    return said


def no_better(record: Accuracy) -> bool:
    """Return whether a constant answer is right at least as often as is certified."""
    among = sum(each.points for each in record.labels)
    return record.lower is not None and (
        among == record.points and record.lower <= record.common_points
    )


def least(record: Accuracy) -> LabelAccuracy | None:
    """Return the label with the smallest certified share; None if there is only one."""
    if len(record.labels) < 2:
        return None
    return min(record.labels, key=lambda each: (each.lower / each.points, each.label))
