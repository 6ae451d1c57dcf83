"""Numbers as readable text; bounds are rounded outwards, so that they stay valid."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from leaveout.specs.deciders import Accuracy, LabelAccuracy
from leaveout.verifier.report import Result

MISSING = "–"
_DIGITS = 6
_SAME = 1e-9
_WHOLE = 12  # digits before the point up to which a number is written without an exponent


def bound(value: float | None, up: bool = False) -> str:
    """Return six digits, rounded down, or up for an upper bound; a dash for None."""
    return MISSING if value is None else _digits(Decimal(value), up)


def _digits(value: Decimal, up: bool) -> str:
    digits = Context(prec=_DIGITS, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    shown = digits.create_decimal(value).normalize(digits)
    # Decimal alone would write 80 as 8e+1.
    return f"{shown:f}" if 0 <= shown.adjusted() < _WHOLE else f"{shown:g}"


def ends(lower: float | None, upper: float | None, missing: str = "-") -> tuple[str, str]:
    """Return two bounds as text, equal if they differ only by float rounding."""
    if lower is not None and upper is not None and upper <= math.nextafter(lower, math.inf):
        return f"{upper:.{_DIGITS}g}", f"{upper:.{_DIGITS}g}"
    return (
        missing if lower is None else bound(lower),
        missing if upper is None else bound(upper, up=True),
    )


def written_number(value: float, up: bool = False) -> str:
    """Return a number as written by its author; many digits are rounded like a bound."""
    return _digits(Decimal(repr(float(value))), up)


def plain(value: float) -> str:
    """Return a number that is not a bound."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.7g}"


def percent(value: float) -> str:
    """Return a share in per cent."""
    return f"{100 * value:.5g} %"


def share(value: float, up: bool = False) -> str:
    """Return a bound of a share in per cent with one decimal, rounded outwards.

    A value within 1e-11 of such a number counts as that number: it differs by float rounding.
    """
    exact = round(100 * Decimal(value), 9)
    digits = exact.quantize(Decimal("0.1"), ROUND_CEILING if up else ROUND_FLOOR)
    return f"{digits.normalize() + 0:f} %"


def same(lower: float, upper: float) -> bool:
    """Return whether two bounds differ by no more than float rounding."""
    return abs(upper - lower) <= _SAME * max(abs(lower), abs(upper))


def span(lower: float | None, upper: float | None) -> str:
    """Return what two bounds imply about a number, as the end of a sentence."""
    if lower is None and upper is None:
        return "not known"
    if lower is None:
        return f"at most {bound(upper, up=True)}"
    if upper is None:
        return f"at least {bound(lower)}"
    low, high = bound(lower), bound(upper, up=True)
    if low == high:
        return low
    if same(lower, upper):
        return f"about {upper:.{_DIGITS}g}"
    return f"between {low} and {high}"


def duration(seconds: float) -> str:
    """Return a duration in seconds as text."""
    return "under 0.1 s" if seconds < 0.05 else f"{seconds:,.1f} s"


def count_noun(count: int, noun: str) -> str:
    """Return a number with its noun in words."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


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
        """Return a label's certified share per column; a dash if it was not requested."""
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
    """Return the share answered correctly without changes, rounded down."""
    return share(record.right / record.points)


def safe_share(record: LabelAccuracy) -> str:
    """Return the share of a label that stays correct, rounded outwards."""
    low = share(record.lower / record.points)
    if record.lower == record.upper:
        return low
    return f"{low} to {share(record.upper / record.points, up=True)}"


def baseline(record: Accuracy) -> str:
    """Return the accuracy of the vote and of its baselines, in words."""
    common = label_text(record.common, record.common_name)
    said = (
        f"{count_noun(record.points, 'test point')}: {right_share(record)} answered correctly "
        f"without any change; always answering {common} would be correct for "
        f"{share(record.common_points / record.points, up=True)}"
    )
    if record.undefended_right is not None:
        alone = share(record.undefended_right / record.points)
        said += f"; one model trained on all rows is correct for {alone}"
    return said


def no_better(record: Accuracy) -> bool:
    """Return whether a constant answer is correct at least as often as certified."""
    among = sum(each.points for each in record.labels)
    return record.lower is not None and (
        among == record.points and record.lower <= record.common_points
    )


def least(record: Accuracy) -> LabelAccuracy | None:
    """Return the label with the smallest certified share; None if there is only one."""
    if len(record.labels) < 2:
        return None
    return min(record.labels, key=lambda each: (each.lower / each.points, each.label))
