"""Sentences on how many answers to given rows no single record can change."""

from __future__ import annotations

from leaveout.verifier.amounts import bound
from leaveout.verifier.points.names import label_phrase
from leaveout.verifier.records import LabelAnswersRecord


def head_words(free: int, count: int, *, data: str, members: int, rows: int | None) -> str:
    """Return the sentence about all rows."""
    them = f"{count:,} answers to {data}" if count != 1 else f"one answer to {data}"
    if free == 0:
        verb = "are proved" if count != 1 else "is not proved"
        whose = f"none of the {them} {verb}" if count != 1 else f"the {them} {verb}"
        return f"{whose} to owe nothing to any one of {_records(members, rows)}"
    if free == count:
        whose = f"all {them} owe" if count != 1 else f"the {them} owes"
    else:
        whose = f"{free:,} of the {them} {'owe' if free != 1 else 'owes'}"
    return f"{whose} nothing to any one of {_records(members, rows)}"


def label_words(found: LabelAnswersRecord, *, boxes: int) -> str:
    """Return the sentence about the rows answered with one label."""
    if not found.answers:
        return ""
    owe = "owes" if found.owe_nothing == 1 else "owe"
    parts = [f"{found.owe_nothing:,} of {found.answers:,} {owe} nothing"]
    if found.not_above:
        limit = "the bounds of the sets of inputs"
        if boxes == 1:
            limit = f"the bound {bound(found.upper, up=True)}"
        verb = "has" if found.not_above == 1 else "have"
        who = "it" if found.not_above == 1 else "they"
        parts.append(
            f"{found.not_above:,} {verb} a confidence not above {limit}, so {who} may owe something"
        )
    if found.unknown:
        parts.append(f"of {found.unknown:,} no bound is known")
    if found.outside and not boxes:
        parts.append(f"no statement bounds this label, so nothing is proved of {found.outside:,}")
    elif found.outside:
        verb = "lies" if found.outside == 1 else "lie"
        where = "every set" if boxes > 1 else "the set"
        parts.append(f"{found.outside:,} {verb} outside {where} of inputs, where nothing is proved")
    return f"{label_phrase(found.label, found.name)}: {'; '.join(parts)}"


def _records(members: int, rows: int | None) -> str:
    left = f"the {members:,} records that were left out"
    if members == 1:
        left = "the one record that was left out"
    if rows is None:
        return left
    if rows > members:
        return f"{left}, of {rows:,}; of the others nothing is claimed"
    return f"the {rows:,} training records"
