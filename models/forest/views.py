"""Arrays as kernels see them: unowned views of memory.

A view has no owner, so nothing is counted when it is handed on; counting the owners of the arrays
of each call, atomically, takes up to half the time of a deletion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic
from numpy.typing import NDArray

from leaveout.models.forest.compiling import subroutine
from leaveout.models.forest.layout import NODE, Rules, Scratch, Tree, Work
from leaveout.models.forest.table import Table

ADDRESS = 11
"""Whole numbers that say where a tree is."""


def address_of(tree: Tree) -> tuple[int, ...]:
    """Return a tree's array addresses and its capacities."""
    sizes = (
        len(tree.nodes), tree.counts.shape[1], len(tree.arena), len(tree.rows), len(tree.where),
    )  # fmt: skip
    return (*(part.ctypes.data for part in tree), *sizes)


def _to_pointer(_typing: Any, _address: Any) -> tuple[Any, Callable[..., Any]]:
    """Convert an address to a pointer, as numba's manual shows for intrinsics."""

    def cast(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.voidptr(types.uintp), cast


_pointer: Any = intrinsic(_to_pointer)


@subroutine
def tree_at(at: NDArray[np.int64]) -> Tree:
    """Return the tree at an address, shape (``ADDRESS``,)."""
    return Tree(
        carray(_pointer(at[0]), (at[6],), NODE),
        carray(_pointer(at[1]), (at[6], at[7]), np.int32),
        carray(_pointer(at[2]), (at[8],), np.int32),
        carray(_pointer(at[3]), (at[9],), np.int32),
        carray(_pointer(at[4]), (at[10],), np.int32),
        carray(_pointer(at[5]), (3,), np.int64),
    )


@subroutine
def _view(array: Any) -> Any:
    return carray(_pointer(array.ctypes.data), array.shape, array.dtype)


@subroutine
def borrow(work: Work) -> tuple[Table, Rules, Scratch]:
    """Return a kernel's working data as views; all arrays are in C order."""
    t, s = work.table, work.scratch
    table = Table(
        _view(t.bits), _view(t.codes), _view(t.labels), _view(t.kind), _view(t.bit_attribute),
        _view(t.general_attribute), _view(t.lows), _view(t.highs), _view(t.levels),
        _view(t.level_bits), _view(t.level_start), _view(t.order), _view(t.group),
    )  # fmt: skip
    scratch = Scratch(
        _view(s.words), _view(s.mask), _view(s.rows), _view(s.live), _view(s.keys),
        _view(s.spare), _view(s.starts), _view(s.histogram), _view(s.group_code),
        _view(s.group_label), _view(s.group_counts), _view(s.pick_hash), _view(s.pick),
        _view(s.constant), _view(s.low), _view(s.chosen), _view(s.priority), _view(s.record),
        _view(s.size), _view(s.stack_node), _view(s.stack_key), _view(s.stack_depth),
        _view(s.path), _view(s.path_feature), _view(s.path_threshold),
    )  # fmt: skip
    return table, work.rules, scratch
