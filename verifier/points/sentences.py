"""Witnesses and boxes in words, with the names of the training data."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.bab import Instance, Witness
from leaveout.bab.native.explorer import Group
from leaveout.encoders import Box, Choices
from leaveout.models import DataFacts, Family, Manifest
from leaveout.models.train.encoding import (
    CategoryColumn,
    Encoding,
    cell_text,
    encoding_of,
    feature_text,
    nearest_record,
    records_of,
)
from leaveout.models.train.job import OWN
from leaveout.verifier.records import (
    BoxRecord,
    CellRecord,
    ChoicesRecord,
    GroupRecord,
    GroupsRecord,
    TrainingRecord,
    WitnessRecord,
)

LETTERS = {"network": "N", "forest": "T", "linear model": "L"}
"""What a model is called where nobody has named it."""

NOUNS = {"network": "network", "forest": "forest", "linear": "linear model"}
"""What kinds of models are called."""


NO_CONFIDENCE = "no answer of a forest has a confidence above 1"
"""Why such a bound excludes none."""


def is_plain(encoding: Encoding) -> bool:
    """Return whether columns are read unencoded, like those of an array."""
    return not any(isinstance(each, CategoryColumn) or each.scaled for each in encoding.columns)


def row_id(facts: DataFacts | None, row: int) -> str:
    """Return the name of a training row, such as ``P-0193``; empty if it has none."""
    known = facts is not None and 0 <= row < len(facts.ids)
    return facts.ids[row] if facts is not None and known else ""


def row_name(row: int, name: str = "", group: str = "") -> str:
    """Return the phrase for a training row, or a group's rows, with the name from `row_id`."""
    if group:
        return f"{group} {name}"
    return f"{name} (row {row})" if name else f"row {row}"


def label_name(facts: DataFacts | None, label: int) -> str:
    """Return the name of a label; empty if it only has a number."""
    known = facts.labels if facts is not None else ()
    named = 0 <= label < len(known) and known[label] != str(label)
    return known[label] if named else ""


def label_phrase(label: int, name: str = "") -> str:
    """Return the phrase for a label with the name from `label_name`."""
    return repr(name) if name else f"label {label}"


def unit_of(facts: DataFacts | None, column: str) -> str:
    """Return the unit of a column; empty if unknown."""
    return facts.units.get(column, "") if facts is not None else ""


SHOWN = 12  # features of a sentence

_REASONS = 3
_ROWS = 12  # of a group that are listed


def box_record(box: Box) -> BoxRecord:
    """Return an input set as stored in the report."""
    choices = tuple(
        ChoicesRecord(
            columns=tuple(each.columns.tolist()), values=tuple(map(tuple, each.values.tolist()))
        )
        for each in box.choices
    )
    return BoxRecord(
        lower=tuple(box.lower.tolist()), upper=tuple(box.upper.tolist()), choices=choices
    )


def record(instance: Instance, witness: Witness, pair: bool) -> WitnessRecord:
    """Return a witness as stored in the report; ``pair`` if between two networks."""
    answer = int(np.argmax(witness.member_scores))
    facts = instance.family.manifest.data
    return WitnessRecord(
        x=tuple(float(v) for v in witness.x),
        member=witness.member,
        removed=witness.removed,
        confidence=witness.confidence,
        scores=tuple(float(v) for v in witness.scores),
        member_scores=tuple(float(v) for v in witness.member_scores),
        label=witness.label,
        member_label=answer,
        words=_sentence(instance, witness, answer, pair),
        cells=cells_of(instance.family.manifest, witness.x),
        other=pair,
        removed_id="" if pair else row_id(facts, witness.removed),
        label_names=facts.labels if facts is not None else (),
        group=facts.group if facts is not None and not pair else "",
    )


def cells_of(manifest: Manifest, x: NDArray[np.float32]) -> tuple[CellRecord, ...]:
    """Return an input by the training data's names, in its own units where known."""
    encoding, facts = encoding_of(manifest), manifest.data
    if encoding is not None:
        values, wrong = nearest_record(encoding, x)
        cells = []
        for column, places in encoding.layout:
            at, name = tuple(range(places.start, places.stop)), column.name
            unit = unit_of(facts, name)
            cells.append(
                CellRecord(name=name, at=at, value=values[name], nearest=name in wrong, unit=unit)
            )
        return tuple(cells)
    if facts is None or len(facts.features) != len(x):
        return ()
    return tuple(
        CellRecord(name=name, at=(at,), unit=unit_of(facts, name))
        for at, name in enumerate(facts.features)
    )


def groups_record(
    family: Family,
    worst: int | None,
    groups: list[Group],
    *,
    label: int | None,
    about: Literal["leaks", "least", "greatest"] = "leaks",
) -> GroupsRecord:
    """Return groups of members as stored in the report."""
    removed, sign = family.removed, -1.0 if about == "greatest" else 1.0
    facts = family.manifest.data

    def row_numbers(group: Group) -> list[int]:
        rows: list[int] = np.sort(removed[group.members])[:_ROWS].tolist()
        return rows

    # Of groups without any counter-example; a higher bound holds as well.
    finite = [each.upper for each in groups if math.isfinite(each.upper)]
    least = min(finite, default=math.inf)
    if not math.isfinite(least) or groups[0].upper == math.inf:
        return GroupsRecord(label=label, groups=(), about=about)
    return GroupsRecord(
        label=label,
        about=about,
        groups=tuple(
            GroupRecord(
                parent=each.parent,
                members=len(each.members),
                upper=sign * max(each.upper, least) + 0.0,
                rows=tuple(row_numbers(each)),
                leak=worst in each.members,
                ids=tuple(filter(None, (row_id(facts, row) for row in row_numbers(each)))),
            )
            for each in groups
        ),
    )


def _sentence(instance: Instance, witness: Witness, answer: int, pair: bool) -> str:
    facts = instance.family.manifest.data
    own, other = (label_phrase(each, label_name(facts, each)) for each in (witness.label, answer))
    group = "" if facts is None else facts.group
    row = row_name(witness.removed, row_id(facts, witness.removed), group)
    without = "in the other network" if pair else f"without {row}"
    if answer == witness.label:
        change = f"becomes a tie instead of {own}"
    else:
        change = f"flips from {own} to {other}"
    return (
        f"{without} the answer at x {change}, confidence {witness.confidence:.4g}, "
        f"where x is {point_words(instance.family.manifest, witness.x)}"
    )


def point_words(manifest: Manifest, x: NDArray[np.float32]) -> str:
    """Return x in the units of the data where known, or by number.

    If no record can be x, the nearest record is shown and named as such.
    """
    cells = cells_of(manifest, x)
    parts = []
    for cell in cells:
        value = feature_text(x[cell.at[0]]) if cell.value is None else cell_text(cell.value)
        parts.append(f"{cell.name} = {value}{f' {cell.unit}' if cell.unit else ''}")
    if not parts:
        parts = [feature_text(v) for v in x]
    shown = f"({join_some(parts, SHOWN)})"
    encoding = encoding_of(manifest)
    wrong = {} if encoding is None else nearest_record(encoding, x)[1]
    if not wrong:
        return shown
    why = join_some([f"{name} is {each}" for name, each in wrong.items()], _REASONS)
    return f"nearest to {shown}, but not a possible record: {why}"


def join_some(parts: list[str], most: int) -> str:
    """Return the first parts, and how many more there are."""
    more = f" and {len(parts) - most} more" if len(parts) > most else ""
    return f"{', '.join(parts[:most])}{more}"


def counted_rows(family: Family) -> str | None:
    """Return a note on where rows are in the table; None if not needed."""
    facts, encoding = family.manifest.data, encoding_of(family.manifest)
    if encoding is None or (facts is not None and facts.ids):
        return None
    if family.manifest.recipe.get("network") == OWN:
        return "rows are numbered from 0, in the order of the training data"
    if is_plain(encoding):
        return "rows are numbered from 0"
    return (
        "rows are numbered from 0 below the header: row k is line k + 2 of a table without "
        "blank lines"
    )


DRAWN_ALONE = (
    "a sample of the rows ('but') says nothing of a single row or answer; to speak of the rows "
    "drawn alone, verify a copy of the specification without 'but' and 'with confidence'"
)


def group_note(group: str) -> str:
    """Return what a row is where the rows of a group leave together."""
    return f"'row' and 'record' mean all rows with the same {group!r}; they are left out together"


def group_notes(training: Iterable[TrainingRecord]) -> tuple[str, ...]:
    """Return what rows are in training data whose rows leave together, a note a column."""
    groups = dict.fromkeys(each.group for each in training if each.group)
    return tuple(map(group_note, groups))


def own_group_notes(notes: Iterable[str]) -> tuple[str, ...]:
    """Return those of a report's notes that say what a row is."""
    head, _, tail = group_note("\0").partition(repr("\0"))
    return tuple(each for each in notes if each.startswith(head) and each.endswith(tail))


def group_words(group: str) -> str:
    """Return the phrase for the rows of a group."""
    return f"all rows of the table with one {group!r}, which leave together"


def without_member(family: Family) -> str | None:
    """Return a note on training rows without a member; None if none is known."""
    facts = family.manifest.data
    if facts is None or facts.rows <= len(family):
        return None
    return (
        f"only {len(family):,} of {facts.rows:,} training rows have a member; nothing is claimed "
        "about the others"
    )


def outside_inputs(rows: Floats, box: Box, model: str, called: str = "rows") -> list[str]:
    """Return a note on a model's rows outside the input set."""
    left = int(np.count_nonzero(~box.contains(rows)))
    told = f"{left:,} of the {model}'s {len(rows):,} {called} lie outside the set of inputs; "
    return [f"{told}nothing is claimed about them"] if left else []


def outside_box(instance: Instance) -> str | None:
    """Return a note on data outside the inputs; ends of ranges must be among listed values."""
    facts = instance.family.manifest.data
    if facts is None or len(facts.minimum) != instance.box.dimension:
        return None
    box = instance.box

    def feature_phrase(i: int) -> str:
        """Return the number of a feature, with its name if known."""
        return f"feature {i} ({facts.features[i]})" if i < len(facts.features) else f"feature {i}"

    covered = _complete_choices(encoding_of(instance.family.manifest), box)
    for each in box.choices:
        if each in covered:
            continue
        for i, known in zip(each.columns.tolist(), each.values.T, strict=True):
            for value in (facts.minimum[i], facts.maximum[i]):
                if value not in known:
                    near = known[np.argmin(np.abs(known - value))]
                    return (
                        f"training data lies outside the input set: {feature_phrase(i)} takes "
                        f"the value {value:.9g}, which is not listed (the nearest is "
                        f"{near:.9g}); nothing is claimed about unlisted values"
                    )
    for i, (low, high) in enumerate(zip(facts.minimum, facts.maximum, strict=True)):
        if low < box.lower[i] or high > box.upper[i]:
            return (
                f"training data lies outside the box: {feature_phrase(i)} spans "
                f"[{low:g}, {high:g}], the box [{box.lower[i]:g}, {box.upper[i]:g}]; nothing is "
                "claimed about inputs outside it"
            )
    if len(covered) < len(box.choices):
        return (
            "whether all training data takes listed values is unknown: a family records only "
            "the range of each feature"
        )
    return None


def _complete_choices(encoding: Encoding | None, box: Box) -> list[Choices]:
    """Return the listed values that cover a column's values in any record."""
    by_columns = {tuple(each.columns.tolist()): each for each in box.choices}
    covered = []
    for column, places in () if encoding is None else encoding.layout:
        at = tuple(range(places.start, places.stop))
        each, records = by_columns.get(at), records_of(column)
        if each is None or records is None:
            continue
        known = set(map(tuple, each.values.tolist()))
        if all(tuple(row) in known for row in records.tolist()):
            covered.append(each)
    return covered
