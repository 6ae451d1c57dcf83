"""Choice of a node's attributes: the first by priority that vary among its rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from leaveout.models.forest.compiling import subroutine
from leaveout.models.forest.keys import attribute_key
from leaveout.models.forest.layout import Scratch
from leaveout.models.forest.table import Table

_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_PLACES = np.zeros(64, np.int64)
for _i in range(64):
    _PLACES[((int(_DE_BRUIJN) << _i) & 0xFFFFFFFFFFFFFFFF) >> 58] = _i


@subroutine
def _insert(scratch: Scratch, found: int, wanted: int, key: np.uint64, attribute: int) -> int:
    """Insert an attribute into the list of first priorities; return its length."""
    hashed = attribute_key(key, attribute)
    if found == wanted:
        if hashed > scratch.pick_hash[found - 1]:
            return found
        found -= 1
    at = found
    while at > 0 and scratch.pick_hash[at - 1] > hashed:
        scratch.pick_hash[at] = scratch.pick_hash[at - 1]
        scratch.pick[at] = scratch.pick[at - 1]
        at -= 1
    scratch.pick_hash[at] = hashed
    scratch.pick[at] = attribute
    return found + 1


@subroutine
def _collect(table: Table, scratch: Scratch, rows: Any, begin: int, n: int) -> None:
    """Gather the rows' bits side by side and mark the two-valued attributes that vary."""
    for w in range(table.bits.shape[1]):
        some, every = np.uint64(0), ~np.uint64(0)
        words, bits, mine = scratch.words[w], table.bits[:, w], rows[begin : begin + n]
        for i in range(len(mine)):
            word = bits[np.uint32(mine[i])]
            words[i] = word
            some |= word
            every &= word
        scratch.mask[w] = some & ~every


@subroutine
def _constant(table: Table, g: int, rows: Any, begin: int, n: int) -> bool:
    codes, mine = table.codes[g], rows[begin : begin + n]
    first = codes[mine[0]]
    same = 1
    while same < len(mine) and codes[np.uint32(mine[same])] == first:
        same += 1
    return same == len(mine)


@subroutine
def pick(
    table: Table, scratch: Scratch, rows: Any, begin: int, n: int, key: np.uint64, wanted: int
) -> int:
    """Store the chosen attributes in ``scratch.pick`` by priority; return how many.

    Afterwards ``scratch.words`` holds the bits of ``rows[begin : begin + n]``.
    """
    _collect(table, scratch, rows, begin, n)
    general = len(table.codes)
    scratch.constant[:] = 2
    while True:
        found = 0
        for w in range(table.bits.shape[1]):
            mask = scratch.mask[w]
            while mask:
                lowest = mask & (~mask + np.uint64(1))
                bit = _PLACES[(lowest * _DE_BRUIJN) >> np.uint64(58)]
                attribute = table.bit_attribute[64 * w + bit]
                found = _insert(scratch, found, wanted, key, attribute)
                mask ^= lowest
        for g in range(general):
            if scratch.constant[g] != 1:
                found = _insert(scratch, found, wanted, key, table.general_attribute[g])
        settled = True
        for i in range(found):
            kind = table.kind[scratch.pick[i]]
            if kind < 0 and scratch.constant[-1 - kind] == 2:
                scratch.constant[-1 - kind] = _constant(table, -1 - kind, rows, begin, n)
                settled = settled and scratch.constant[-1 - kind] == 0
        if settled:
            return found
