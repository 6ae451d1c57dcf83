"""The rows of a forest by name, with the trees that hold them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import ForestError
from leaveout.models.forest.compiling import kernel
from leaveout.models.forest.plain import Ensemble, Settings, plain_tree
from leaveout.models.forest.records import recode
from leaveout.models.forest.shares import (
    Bits,
    Copies,
    content_keys,
    copies_of,
    in_tree,
    members,
    no_copies,
)
from leaveout.models.forest.table import Table, decode, erase, public
from leaveout.models.forest.trees import Trees, pack

Names = Sequence[int] | NDArray[np.int64]


class Index(NamedTuple):
    """The table slot of each name."""

    slots: NDArray[np.int64]  # shape (names,): of each name, in their order; -1: deleted
    place: NDArray[np.int64]  # shape (slots,): the way back
    totals: NDArray[np.int64]  # shape (labels,): rows held of each label
    copies: Copies


class Held(NamedTuple):
    """The rows of a forest and its trees."""

    classes: NDArray[np.generic]  # shape (labels,)
    names: NDArray[np.int64]  # shape (names,): ascending; those of deleted rows too
    next_name: int
    table: Table
    by_name: Index
    trees: Trees
    local: threading.local  # what each thread that changes trees on this table works on


def index_of(
    settings: Settings, classes: NDArray[np.generic], table: Table, slots: NDArray[np.int64]
) -> tuple[Index, Bits | None]:
    """Return the index of rows, and which trees hold each slot; None if all do."""
    room = len(table.labels)
    live = slots[slots >= 0]
    place = np.full(room, -1, np.int64)
    place[live] = np.flatnonzero(slots >= 0)
    y = table.labels[live]
    totals = np.bincount(y, minlength=len(classes)).astype(np.int64)
    if settings.trees_a_row == settings.trees:
        return Index(slots, place, totals, no_copies()), None
    X = decode(table, live)
    keys = content_keys(X, y, classes, settings.seed)
    rank, copies = copies_of(keys, X, y, live, room)
    found = np.zeros((room, (settings.trees + 63) // 64), np.uint64)
    found[live] = members(keys, rank, settings.trees, settings.trees_a_row)
    return Index(slots, place, totals, copies), found


@kernel
def release(
    table: Table, index: Index, places: NDArray[np.int64], slots: NDArray[np.int64]
) -> None:
    """Erase ``slots``, vacated by the names at ``places``, and forget these names."""
    group, start, ranked, size = index.copies
    for i in range(len(places)):
        index.slots[places[i]] = -1
    for i in range(len(slots)):
        slot = slots[i]
        index.totals[table.labels[slot]] -= 1
        g = group[slot] if len(group) else -1
        if g < 0:
            index.place[slot] = -1
            continue
        kept = 0
        for rank in range(size[g]):
            place = index.place[ranked[start[g] + rank]]
            if index.slots[place] >= 0:
                to = ranked[start[g] + kept]
                index.slots[place], index.place[to] = to, place
                kept += 1
        for rank in range(kept, size[g]):
            index.place[ranked[start[g] + rank]] = -1
        size[g] = kept
    erase(table, slots)


def slots_of(held: Held, names: Names) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of rows among the names, and their slots."""
    wanted = np.asarray(names)
    if wanted.ndim != 1 or (wanted.size and wanted.dtype.kind not in "iu"):
        raise ForestError(f"rows are named by a list of whole numbers, not by {names!r}")
    wanted = wanted.astype(np.int64)
    if len(wanted) > 1:
        values, times = np.unique(wanted, return_counts=True)
        if np.any(times > 1):
            raise ForestError(f"row {values[times > 1][0]} is named twice")
    places = np.minimum(np.searchsorted(held.names, wanted), len(held.names) - 1)
    there = held.names[places] == wanted
    if not there.all():
        name = int(wanted[~there][0])
        if 0 <= name < held.next_name:
            raise ForestError(f"row {name} was deleted before")
        raise ForestError(f"there is no row {name}; rows are 0 to {held.next_name - 1}")
    slots = held.by_name.slots[places]
    if np.any(slots < 0):
        raise ForestError(f"row {wanted[slots < 0][0]} was deleted before")
    return places, slots


def without_places(settings: Settings, held: Held, places: NDArray[np.int64]) -> Ensemble:
    """Return the rows but those at some places, without trees or unused labels."""
    keep = np.setdiff1d(np.flatnonzero(held.by_name.slots >= 0), places)
    if not len(keep):
        raise ForestError("the last row cannot be deleted: no forest is trained on none")
    slots = held.by_name.slots[keep]
    present, codes = np.unique(held.table.labels[slots], return_inverse=True)
    classes = held.classes[present]
    if classes.dtype.kind == "U":
        # The longest label sets the width; one that is gone must not.
        classes = np.array(classes.tolist())
    X = public(decode(held.table, slots))
    return Ensemble(
        settings, classes, held.names[keep], X, codes.astype(np.int32), (), held.next_name
    )


def plain_form(settings: Settings, held: Held) -> Ensemble:
    """Return rows and trees in plain form; no tree has anything pending."""
    rows = without_places(settings, held, np.empty(0, np.int64))
    number = np.full(len(held.table.labels), -1, np.int32)
    number[held.by_name.slots[held.by_name.slots >= 0]] = np.arange(len(rows.names))
    rules = settings.rules
    plain = tuple(
        plain_tree(held.table, rules, pack(held.table, rules, tree), number) for tree in held.trees
    )
    return replace(rows, trees=plain)


def extend_table(
    settings: Settings,
    held: Held,
    names: NDArray[np.int64],
    table: Table,
    moved: NDArray[np.int32],
) -> tuple[Held, list[NDArray[np.int32]]]:
    """Return the rows and trees on an extended table, in new arrays."""
    rules = settings.rules
    packed = [pack(held.table, rules, tree) for tree in held.trees]
    for tree in packed:
        recode(held.table, tree, rules.random_depth, moved)
    begin, end = len(held.table.labels), len(table.labels)
    slots = np.concatenate((held.by_name.slots, np.arange(begin, end)))
    index, chosen = index_of(settings, held.classes, table, slots)
    new = [in_tree(chosen, end, i, begin) for i in range(len(packed))]
    trees = Trees(
        tree._replace(
            rows=np.concatenate((tree.rows, np.full(len(mine), -1, np.int32))),
            where=np.concatenate((tree.where, np.full(end - begin, -1, np.int32))),
        )
        for tree, mine in zip(packed, new, strict=True)
    )
    next_name = held.next_name + len(names)
    known = np.concatenate((held.names, names))
    return Held(held.classes, known, next_name, table, index, trees, threading.local()), new


def sizes_of(held: Held) -> dict[str, int]:
    """Return the bytes in use by part."""
    parts = {"structure": 0, "decision statistics": 0, "leaf lists": 0}
    for tree in held.trees:
        parts["structure"] += tree.nodes.nbytes
        parts["decision statistics"] += tree.counts.nbytes + tree.arena.nbytes
        parts["leaf lists"] += tree.rows.nbytes + tree.where.nbytes
    parts["data"] = held.names.nbytes + sum(part.nbytes for part in held.table)
    parts["data"] += held.by_name.slots.nbytes + held.by_name.place.nbytes
    parts["data"] += sum(part.nbytes for part in held.by_name.copies)
    parts["data"] -= held.table.level_bits.nbytes
    return parts
