"""What a row that joins a greedy node leaves as it was: attributes, and what is sampled of one."""

from __future__ import annotations

from typing import Any

import numpy as np

from leaveout.models.forest.compiling import subroutine
from leaveout.models.forest.keys import attribute_key
from leaveout.models.forest.layout import Tree
from leaveout.models.forest.table import Table

__all__ = ["has_like", "same_attributes"]


@subroutine
def has_like(table: Table, tree: Tree, node: int, g: int, row: int) -> bool:
    """Return whether another row of a node has a row's label and its value of an attribute.

    Then no group of equal value has another set of labels than before, and no threshold has
    become valid or invalid.
    """
    start, span = tree.nodes[node].start, tree.nodes[node].span
    code, label = table.codes[g, row], table.labels[row]
    place = table.level_start[g] + g + code
    first, last = table.group[place], table.group[place + 1]
    if last - first <= span:
        for i in range(first, last):
            other = table.order[g, i]
            inside = start <= tree.where[other] < start + span
            if inside and other != row and table.labels[other] == label:
                return True
        return False
    for i in range(start, start + span):
        other = tree.rows[i]
        alike = other >= 0 and table.labels[other] == label and table.codes[g, other] == code
        if alike and other != row:
            return True
    return False


@subroutine
def _cached(table: Table, arena: Any, record: int, labels: int, attribute: int) -> bool:
    at = record + 1
    for _ in range(arena[record]):
        if arena[at] == attribute:
            return True
        general = table.kind[arena[at]] < 0
        at += 2 + (arena[at + 1] * (2 + 3 * labels) if general else labels)
    return False


@subroutine
def same_attributes(
    table: Table, tree: Tree, node: int, row: int, labels: int, key: np.uint64, wanted: int
) -> bool:
    """Return whether a row that joined a greedy node leaves it the attributes of its record.

    An attribute that is not in the record was constant, or has a later priority than all there.
    It varies now, if it was constant, where the row differs from any other row.
    """
    arena, record = tree.arena, tree.nodes[node].record
    latest, at = np.uint64(0), record + 1
    for _ in range(arena[record]):
        latest = attribute_key(key, arena[at])
        general = table.kind[arena[at]] < 0
        at += 2 + (arena[at + 1] * (2 + 3 * labels) if general else labels)
    room = arena[record] < wanted
    i = tree.nodes[node].start
    while tree.rows[i] < 0 or tree.rows[i] == row:
        i += 1
    other = tree.rows[i]
    for attribute in range(len(table.kind)):
        kind = table.kind[attribute]
        if kind >= 0:
            word = table.bits[row, kind >> 6] ^ table.bits[other, kind >> 6]
            differs = (word >> np.uint64(kind & 63)) & np.uint64(1) == 1
        else:
            differs = table.codes[-1 - kind, row] != table.codes[-1 - kind, other]
        enters = differs and (room or attribute_key(key, attribute) < latest)
        if enters and not _cached(table, arena, record, labels, attribute):
            return False
    return True
