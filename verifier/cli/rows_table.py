"""Rows on the terminal: a table of the first ones, or one row in full."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from leaveout.verifier.amounts import MISSING, count_noun
from leaveout.verifier.amounts import bound as shown
from leaveout.verifier.cli.output import Part, text_table
from leaveout.verifier.points.row_bounds import NO_LEAK
from leaveout.verifier.points.sentences import label_phrase, row_name
from leaveout.verifier.row_records import RowLabelRecord, RowRecord

InputWords = Callable[[Sequence[float]], str]  # writes an input in the units of the training table

_PLACES = 12  # most changed answers to list


def all_rows(records: Sequence[RowRecord], top: int) -> Iterator[Part]:
    """Yield a table of the first ``top`` rows in order, and notes that apply to all."""
    points = next((each.points for each in records if each.points is not None), None)
    several = len({each.network for each in records}) > 1
    group = next((each.group for each in records if each.group), "")
    names = {group or "row": 24, **({"model": 28} if several else {})}
    titles = ["bound", "of label", "worst leak known"]
    titles += [] if points is None else ["changes", "not ruled out"]
    table = text_table(names, titles, words=("of label",))
    for each in records[:top]:
        table.add_row(*_cells(each, several, points is not None))
    yield table
    yield ""
    if len(records) > top:
        more = count_noun(len(records) - top, f"more {_unit(records)}")
        yield f"and {more}; --top {len(records)} shows all, --csv FILE saves them"
        yield ""
    yield from _summary(records)


def single_rows(records: Sequence[RowRecord], inputs: Mapping[str, InputWords]) -> Iterator[Part]:
    """Yield each row for each model and input set, with all labels; ``inputs`` is per model."""
    for each in records:
        yield each.words
        yield from (f"  {line}" for line in _details(each, inputs[each.network]))


def _cells(each: RowRecord, several: bool, points: bool) -> Iterator[str]:
    yield each.display_name
    if several:
        yield each.network
    worst = each.worst
    if worst is None:
        yield from ("not retrained", "", "")
    else:
        yield _bound(worst)
        yield _label(worst) if (worst.bound or 0.0) > 0 else ""
        yield MISSING if each.leak is None else shown(each.leak)
    if points:
        given = each.points
        yield "" if given is None else f"{len(given.changed):,}"
        yield "" if given is None else f"{given.not_excluded:,}"


def _bound(each: RowLabelRecord) -> str:
    return "no leak" if each.bound == NO_LEAK else shown(each.bound, up=True)


def _label(each: RowLabelRecord) -> str:
    return f"{each.label} ({each.name})" if each.name else str(each.label)


def _unit(records: Sequence[RowRecord]) -> str:
    return "group" if any(each.group for each in records) else "row"


def _summary(records: Sequence[RowRecord]) -> Iterator[str]:
    unit = _unit(records)
    left_out = [each for each in records if each.members]
    missing = len(records) - len(left_out)
    yield (
        f"{count_noun(len(left_out), unit)} left out, of "
        f"{', '.join(dict.fromkeys(each.network for each in records))}. bound: no answer with a "
        f"higher confidence changes without the {unit}, proved over the set of inputs of "
        f"{', '.join(dict.fromkeys(name for each in records for name in each.statements))}"
    )
    harmless = sum(each.bound is not None and each.bound <= 0 for each in left_out)
    if harmless:
        change = "changes" if harmless == 1 else "change"
        yield f"{count_noun(harmless, unit)} {change} no answer with a confidence above 0"
    if missing:
        them = "it" if missing == 1 else "them"
        yield f"{count_noun(missing, unit)} not retrained: nothing is proved about {them}"
    yield from _of_points(left_out)


def _of_points(records: Sequence[RowRecord]) -> Iterator[str]:
    given = next((each.points for each in records if each.points is not None), None)
    if given is None:
        return
    unit = _unit(records)
    changing = [each for each in records if each.points is not None and each.points.changed]
    points = {at for each in changing for at in (each.points.changed if each.points else ())}
    yield (
        f"of the {count_noun(given.points, 'answer')} to {given.data}, {len(points):,} "
        f"{'depends' if len(points) == 1 else 'depend'} on at least one single {unit}; "
        f"{count_noun(len(changing), unit)} {'changes' if len(changing) == 1 else 'change'} at "
        "least one. not ruled out: how many the bounds alone would leave open"
    )


def _details(record: RowRecord, input_words: InputWords) -> Iterator[str]:
    for each in record.labels:
        if each.bound is None:
            continue
        leak = "no leak is known"
        if each.leak is not None:
            other = label_phrase(each.member_label or 0, each.member_label_name)
            change = "a tie" if each.member_label == each.label else other
            leak = f"worst leak known {shown(each.leak)}, to {change}"
            if each.x:
                leak += f", where x is {input_words(each.x)}"
        yield f"label {_label(each)}: bound {_bound(each)}; {leak}"
    given = record.points
    if given is not None and given.changed:
        some = ", ".join(given.places[:_PLACES])
        left = len(given.places) - _PLACES
        yield (
            f"without {row_name(record.row, record.name, record.group)} these answers to "
            f"{given.data} change: "
            f"{some}{f' and {left:,} more' if left > 0 else ''}"
        )
